"""Two runs change the same files of a project at the same time: after the last of them, all is as before."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint.smoke.journal import register
from ds_lint.smoke.processes.leftovers import processes_of

ROOT = Path(__file__).parents[2]
# What ``ds-lint smoke`` does around a command.
DRIVER = """
import os, subprocess, sys
from ds_lint.smoke.journal import register
from ds_lint.smoke.journal import register
from ds_lint.smoke.processes.leftovers import MARK
from ds_lint.smoke.script.restore import finish_dead_runs, put_away
folder, place, script, project = sys.argv[1:]
with register.entered(folder, [place]) as runs:
    finish_dead_runs(runs)
    command = [sys.executable, "-c", script, folder]
    subprocess.run(command, cwd=project, env={**os.environ, MARK: folder}, check=True)
    finish_dead_runs(runs)
    put_away(folder)
"""
# The script makes what it is sent, a line each, and answers.
SCRIPT = """
import os, shutil, sys
from ds_lint.smoke.journal import hook
hook.install(sys.argv[1])
print("begun", flush=True)
for line in sys.stdin:
    try: exec(line)
    except OSError as error: print(repr(error), flush=True)
    else: print("made", flush=True)
"""


class Run:
    """A run of ds-lint that does as it is sent."""

    def __init__(self, project, number):
        self.folder = project.parent / f"run-{number}"
        self.folder.mkdir()
        words = [sys.executable, "-c", DRIVER, self.folder, project.parent / "register", SCRIPT, project]
        self.process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "begun\n"

    def make(self, change):
        self.process.stdin.write(f"{change}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self):
        self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        assert not self.folder.exists()

    def kill(self):
        """End ds-lint by SIGKILL; its script goes on."""
        self.process.kill()
        self.process.wait()


@pytest.fixture
def project(tmp_path):
    path = tmp_path.resolve() / "project"
    (path / "checkpoints" / "step-1").mkdir(parents=True)
    (path / "checkpoints" / "step-1" / "model").write_text("weights")
    (path / "checkpoints" / "model").write_text("latest")
    (path / "notes.txt").write_text("my notes")
    (path / "notes.txt").chmod(0o640)
    (path / "link").symlink_to("notes.txt")
    (path / "first").write_text("of two names")
    (path / "second").hardlink_to(path / "first")
    return path


@pytest.fixture
def start(project):
    """Starts a run."""
    started = []

    def start():
        started.append(Run(project, len(started)))
        return started[-1]

    yield start
    for run in started:
        run.process.stdin.close()
        run.process.stdout.close()


def seen(project):
    found = {}
    for path in sorted(project.rglob("*")):
        status = path.lstat()
        kind = os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else path.read_bytes()
        is_file = path.is_file() and not path.is_symlink()
        same = [str(other) for other in project.rglob("*") if other.lstat().st_ino == status.st_ino]
        found[str(path.relative_to(project))] = (kind, status.st_mode, is_file and status.st_mtime, sorted(same))
    return found


# By turns: the first run makes the first change, the second run the second.
CHANGES = [
    "open('notes.txt', 'w').write('of A')",
    "open('link', 'a').write('of B')",
    "open('n', 'w').write('of A'); os.replace('n', 'notes.txt'); os.makedirs('out/a'); open('out/a/f', 'w').write('A')",
    "open('out/a/g', 'w').write('of B'); shutil.rmtree('checkpoints'); os.makedirs('checkpoints/step-2')",
    "shutil.move('checkpoints', 'moved'); os.remove('link'); os.symlink('first', 'link'); open('link', 'w').write('A')",
    "os.rename('moved', 'checkpoints'); open('second', 'a').write('B'); open('checkpoints/model', 'w').write('B')",
    "os.truncate('notes.txt', 1); os.remove('out/a/g'); os.replace('notes.txt', 'first')",
    "os.fork() or (open('notes.txt', 'w').write('of a child of B'), os._exit(0)); os.wait()",
]
ENDS = {
    "the first ends first": ("A ends", "B ends"),
    "the first ends last": ("B ends", "A ends"),
    "the first is killed": ("A killed", "B ends"),
    "the second is killed": ("B killed", "A ends"),
    "both are killed": ("B killed", "A killed"),
}


@pytest.mark.parametrize("ends", ENDS.values(), ids=ENDS)
def test_what_two_runs_change_is_as_before(project, start, ends):
    before = seen(project)
    runs = {"A": start(), "B": start()}
    for change, name in zip(CHANGES, "ABABABAB", strict=True):
        assert runs[name].make(change) == "made"
    assert seen(project) != before
    for end in ends:
        name, how = end.split()
        runs[name].kill() if how == "killed" else runs[name].end()
    if ends[-1] == "A killed":
        start().end()
    assert seen(project) == before
    assert sorted(os.listdir(project.parent)) == ["project"]  # no folder of a run, and no register
    assert processes_of(str(runs["A"].folder)) == processes_of(str(runs["B"].folder)) == []


def test_a_run_that_goes_on_keeps_what_it_has_written(project, start):
    """It reads its file again; only what the other run alone has changed comes back when that one ends."""
    first, second = start(), start()
    first.make("open('notes.txt', 'w').write('of A'); open('checkpoints/model', 'w').write('of A')")
    second.make("open('notes.txt', 'w').write('of B')")
    first.end()
    assert (project / "notes.txt").read_text() == "of B"
    assert (project / "checkpoints" / "model").read_text() == "latest"
    second.end()
    assert (project / "notes.txt").read_text() == "my notes"


def test_the_command_restores_after_a_killed_run(project, start):
    before = seen(project)
    run = start()
    run.make("open('notes.txt', 'w').write('of A'); open('new', 'w').write('of A')")
    restore = [sys.executable, "-m", "ds_lint.smoke.script.restore", run.folder]
    refused = subprocess.run(restore, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (refused.returncode, "goes on" in refused.stderr) == (2, True)
    run.kill()
    said = subprocess.check_output(restore, cwd=ROOT, text=True)
    assert said == f"{project / 'notes.txt'} is as before\n{project / 'new'} is as before\n"
    assert seen(project) == before
    assert not run.folder.exists()


NAMES = [
    "notes.txt",
    "link",
    "first",
    "second",
    "checkpoints",
    "checkpoints/model",
    "checkpoints/step-1",
    "new",
    "new/a",
]
ACTS = [
    "open({0!r}, 'w').write('changed')",
    "open({0!r}, 'a').write('more')",
    "os.truncate({0!r}, 1)",
    "os.remove({0!r})",
    "shutil.rmtree({0!r})",
    "os.makedirs({0!r}, exist_ok=True)",
    "os.rename({0!r}, {1!r})",
    "os.replace({0!r}, {1!r})",
    "shutil.move({0!r}, {1!r})",
    "shutil.copyfile({0!r}, {1!r})",
    "os.link({0!r}, {1!r})",
    "os.symlink({0!r}, {1!r})",
    "os.chmod({0!r}, 0o700)",
]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_whatever_three_runs_change_is_as_before(project, start, seed):
    """Each starts, changes something, ends or is killed at any time."""
    chance = random.Random(seed)
    before = seen(project)
    runs = {}
    made = []
    for _ in range(60):
        name = chance.choice("ABC")
        if name not in runs:
            runs[name] = start()
            made.append(f"{name} starts")
        elif chance.random() < 0.05:
            how = chance.choice(["end", "kill"])
            getattr(runs.pop(name), how)()
            made.append(f"{name} {how}")
        else:
            change = chance.choice(ACTS).format(*chance.sample(NAMES, 2))
            made.append(f"{name} {change}: {runs[name].make(change)}")
    for run in runs.values():
        run.end()
    start().end()
    assert seen(project) == before, "\n".join(made)
    assert sorted(os.listdir(project.parent)) == ["project"]


def test_a_run_of_another_machine_is_taken_as_alive(tmp_path):
    """A home on a network file system shows it; whether its lock holds there, this machine cannot know."""
    for name in ("here", "there", "own"):
        (tmp_path / name).mkdir()
    with register.entered(str(tmp_path / "own"), [str(tmp_path / "register")]) as runs:
        for name, host in (("here", os.uname().nodename), ("there", "another-machine")):
            (tmp_path / "register" / f"{name}.run").write_text(f"{tmp_path / name}\0{host}\0another-boot")
        assert runs.living() == [str(tmp_path / "there")]
        with runs.dead() as dead:
            assert dead == [str(tmp_path / "here")]
        shutil.rmtree(tmp_path / "here")
        with runs.dead() as dead:
            assert [os.path.basename(folder) for folder in dead] == ["here"]
        assert sorted(os.listdir(tmp_path / "register")) == ["lock", "own.run", "there.run"]
