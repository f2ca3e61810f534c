"""What a script changes outside the folder of the run is as before once the driver has restored it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ds_lint.smoke.script.restore import restore

ROOT = Path(__file__).parents[2]
WATCHED = """
import sys
sys.path.insert(0, sys.argv[1])
from ds_lint.smoke.journal import hook, register
del sys.path[0]
hook.install(sys.argv[2])
"""


class Project:
    """A folder of the user, and that of a run."""

    def __init__(self, path):
        self.path, self.run = path / "project", path / "run"
        self.path.mkdir()
        self.run.mkdir()

    def command(self, code):
        return [sys.executable, "-c", WATCHED + code, ROOT, self.run]

    def script(self, code, **kwargs):
        done = subprocess.run(
            self.command(code), cwd=self.path, capture_output=True, text=True, check=False, timeout=60, **kwargs
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def seen(self):
        found = {}
        for path in sorted(self.path.rglob("*")):
            kind = os.readlink(path) if path.is_symlink() else "folder" if path.is_dir() else path.read_bytes()
            found[str(path.relative_to(self.path))] = (
                kind,
                path.lstat().st_mode,
                path.is_file() and path.stat().st_mtime,
                sorted(str(other) for other in self.path.rglob("*") if other.lstat().st_ino == path.lstat().st_ino),
            )
        return found

    def restore(self):
        return restore(str(self.run))


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path.resolve())


CHANGES = {
    "overwrites": "open('notes.txt', 'w').write('new')",
    "appends": "open('notes.txt', 'a').write('new')",
    "updates": "f = open('notes.txt', 'r+'); f.seek(1); f.write('new')",
    "by descriptor": "import os; os.write(os.open('notes.txt', os.O_WRONLY), b'new')",
    "changes the mode": "import os; os.chmod('notes.txt', 0o600); os.chmod('checkpoints', 0o700)",
    "truncates": "import os; os.truncate('notes.txt', 1)",
    "removes": "import os; os.remove('notes.txt')",
    "removes, and writes again": "import os; os.remove('notes.txt'); open('notes.txt', 'w').write('new')",
    "removes a tree": "import shutil; shutil.rmtree('checkpoints')",
    "empties a tree, and fills it": (
        "import os, shutil; shutil.rmtree('checkpoints'); os.makedirs('checkpoints/step-2');"
        "open('checkpoints/step-2/model', 'w').write('new')"
    ),
    "renames a file": "import os; os.rename('notes.txt', 'old.txt'); open('old.txt', 'a').write('new')",
    "renames onto a file": "import os; open('n', 'w').write('new'); os.replace('n', 'notes.txt')",
    "renames a folder": "import os; os.rename('checkpoints', 'old')",
    "renames a new folder": (
        "import os; os.makedirs('tmp-2/a'); open('tmp-2/a/model', 'w').write('new'); os.rename('tmp-2', 'step-2')"
    ),
    "moves": "import shutil; shutil.move('checkpoints', 'moved')",
    "copies a tree": "import shutil; shutil.copytree('checkpoints', 'copied')",
    "creates folders": "import os; os.makedirs('a/b/c', exist_ok=True); open('a/b/c/f', 'w').write('new')",
    "writes through a link": "open('link', 'w').write('new')",
    "removes a link": "import os; os.remove('link')",
    "turns a file into a folder": "import os; os.remove('notes.txt'); os.makedirs('notes.txt/a')",
    "turns a folder into a file": "import shutil; shutil.rmtree('checkpoints'); open('checkpoints', 'w').write('new')",
    "makes links": "import os; os.symlink('notes.txt', 'other'); os.link('notes.txt', 'third')",
    "writes by a second name": "import os; os.link('notes.txt', 'third'); open('third', 'w').write('new')",
    "writes one of two names": "open('first', 'w').write('new')",
    "writes both names": "open('first', 'a').write('new'); open('second', 'a').write('newer')",
    "replaces one of two names": (
        "import os; open('n', 'w').write('n'); os.replace('n', 'first'); open('second', 'a').write('n')"
    ),
    "writes and removes names": (
        "import os; open('first', 'w').write('n'); os.remove('first'); open('second', 'w').write('n')"
    ),
    "removes both names": "import os; os.remove('first'); os.remove('second')",
    "writes what a failed rename would have replaced": (
        "import os\ntry: os.rename('none', 'notes.txt')\nexcept OSError: open('notes.txt', 'a').write('new')"
    ),
    "puts one file in the place of another": (
        "import os; open('notes.txt', 'a').write('new')\ntry: os.rename('checkpoints/step-1', 'checkpoints')\n"
        "except OSError: os.rename('checkpoints/model', 'notes.txt')"
    ),
    "writes more than a second after another file": (
        "import os, time; open('new', 'w').close(); time.sleep(1.1)\n"
        "f = open('notes.txt', 'w'); f.write('new'); f.close(); os._exit(0)"
    ),
    "touches": "import pathlib; pathlib.Path('notes.txt').touch()",
    "a map": (
        "import mmap; f = open('notes.txt', 'r+b'); m = mmap.mmap(f.fileno(), 0); f.close(); m[:2] = b'no'; m.close()"
    ),
    "after its folder is gone": (
        "import os, shutil; here = os.getcwd(); os.mkdir('gone'); os.chdir('gone'); shutil.rmtree(here + '/gone')\n"
        "try: open('a', 'w')\nexcept FileNotFoundError: open(here + '/notes.txt', 'w').write('new')"
    ),
    "without descriptors": "import os; os.closerange(0, 256); os.write(os.open('notes.txt', os.O_WRONLY), b'new')",
    "names of any bytes": (
        "import os; names = [os.fsdecode(b), 'line\\nbreak \\r'] if (b := b'no utf-8 \\xff') else 0\n"
        "for name in names: open(name, 'a').write('new'); os.rename(name, name + ' 2'); os.mkdir(name)"
    ),
    "a database": "import sqlite3; c = sqlite3.connect('mlflow.db'); c.execute('create table a (b)'); c.close()",
    "a temporary file": "import tempfile; tempfile.mkdtemp(dir='.'); tempfile.mkstemp(dir='.')",
    "in another folder": "import os; os.chdir('checkpoints'); open('model', 'w').write('new'); os.mkdir('more')",
    "in a worker": (
        "import os; pid = os.fork()\nif not pid:\n open('notes.txt', 'w').write('new'); open('n', 'w'); os._exit(0)\n"
        "os.waitpid(pid, 0)"
    ),
    "in threads": (
        "import threading\ndef write(n): open('notes.txt', 'w').write('new'); open(f'n{n}', 'w').write('new')\n"
        "all = [threading.Thread(target=write, args=(n,)) for n in range(8)]\n"
        "for one in all: one.start()\nfor one in all: one.join()"
    ),
    "a file that stays open": "log = open('notes.txt', 'a'); log.write('new'); new = open('n', 'w'); new.write('x')",
    "an exit that skips everything": "import os; f = open('notes.txt', 'w'); f.write('n'); f.flush(); os._exit(0)",
}


@pytest.mark.parametrize("code", CHANGES.values(), ids=CHANGES)
def test_every_change_is_undone(project, code):
    (project.path / "notes.txt").write_text("my notes")
    (project.path / "notes.txt").chmod(0o640)
    (project.path / "checkpoints" / "step-1").mkdir(parents=True)
    (project.path / "checkpoints" / "step-1" / "model").write_text("weights")
    (project.path / "checkpoints" / "model").write_text("latest")
    (project.path / "link").symlink_to("notes.txt")
    (project.path / "first").write_text("of two names")
    (project.path / "second").hardlink_to(project.path / "first")
    for name in (b"no utf-8 \xff", b"line\nbreak \r"):
        Path(os.fsdecode(os.path.join(os.fsencode(project.path), name))).write_text("mine")
    before = project.seen()
    project.script(code)
    assert project.seen() != before
    result = project.restore()
    assert project.seen() == before
    assert not result.left
    assert not result.failed
    assert project.restore() == ([], [], [], [], [])


def test_several_processes_change_the_same_files(project):
    for number in range(20):
        (project.path / f"{number}.txt").write_text(f"mine {number}")
    before = project.seen()
    code = "import os\nfor n in range(20): open(f'{n}.txt', 'w').write(f'rank {os.getpid()}'); open(f'n{n}', 'w')"
    running = [subprocess.Popen(project.command(code), cwd=project.path) for _ in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    assert project.seen() != before
    project.restore()
    assert project.seen() == before


def test_a_killed_process_leaves_enough_to_restore(project):
    (project.path / "notes.txt").write_text("my notes")
    before = project.seen()
    code = "f = open('notes.txt', 'w'); f.write('new'); f.flush(); print(1, flush=True); import time; time.sleep(60)"
    with subprocess.Popen(project.command(code), cwd=project.path, stdout=subprocess.PIPE) as running:
        running.stdout.readline()
        running.send_signal(signal.SIGKILL)
    project.restore()
    assert project.seen() == before


def test_what_others_change_meanwhile_stays(project):
    """The script has closed the files before the user saves them in an editor, and trains on."""
    (project.path / "notes.txt").write_text("my notes")
    code = """
import os, sys, time
open("notes.txt", "w").write("script"); open("new.txt", "w").write("script"); os.mkdir("out")
time.sleep(1.1); open("notes.txt").close()
print(1, flush=True); sys.stdin.readline()
"""
    with subprocess.Popen(
        project.command(code), cwd=project.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as running:
        running.stdout.readline()
        for name in ("notes.txt", "new.txt", "out/mine.txt"):
            (project.path / name).write_text("edited by hand")
        running.communicate(b"\n", timeout=60)
    result = project.restore()
    for name in ("notes.txt", "new.txt", "out/mine.txt"):
        assert (project.path / name).read_text() == "edited by hand"
    assert {Path(path).name for path, _ in result.left} == {"notes.txt", "new.txt", "out"}
    assert not result.restored
    assert not result.removed


def test_a_file_that_comes_back_by_itself_stays(project):
    (project.path / "notes.txt").write_text("my notes")
    project.script("import os; os.remove('notes.txt')")
    (project.path / "notes.txt").write_text("written by hand")
    assert [Path(path).name for path, _ in project.restore().left] == ["notes.txt"]
    assert (project.path / "notes.txt").read_text() == "written by hand"


def test_a_file_that_is_too_large_to_copy_is_not_changed(project):
    with (project.path / "weights.bin").open("w") as file:
        file.truncate(2**30 + 1)  # a hole on the disk
    said = project.script(
        "import os\ntry: open('weights.bin', 'w')\nexcept PermissionError as error: print(error)\n"
        "open('weights.bin').read(1); os.remove('weights.bin')"
    )
    assert f"{project.path / 'weights.bin'}: it has 1.0 GiB" in said
    project.restore()
    assert (project.path / "weights.bin").stat().st_size == 2**30 + 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device without space")
def test_a_file_that_cannot_be_copied_is_not_changed(project):
    (project.path / "notes.txt").write_text("my notes")
    code = """
import errno, shutil
def full(*_): raise OSError(errno.ENOSPC, "No space left on device")
shutil.copyfile = full
try: open("notes.txt", "w")
except PermissionError as error: print(error)
"""
    assert "it cannot be copied first: [Errno 28] No space left on device" in project.script(code)
    assert (project.path / "notes.txt").read_text() == "my notes"


def test_what_cannot_be_restored_is_named_and_kept(project):
    (project.path / "folder").mkdir()
    (project.path / "folder" / "notes.txt").write_text("my notes")
    project.script("import shutil; shutil.rmtree('folder')")
    (project.path / "folder").write_text("in the way")
    result = project.restore()
    assert [Path(path).name for path, _ in result.left] == ["folder"]
    assert [Path(path).name for path, _ in result.failed] == ["notes.txt"]
    (project.path / "folder").unlink()
    (project.path / "folder").mkdir()
    said = subprocess.check_output(
        [sys.executable, "-m", "ds_lint.smoke.script.restore", project.run], cwd=ROOT, text=True
    )
    assert said == f"{project.path / 'folder' / 'notes.txt'} is as before\n"
    assert (project.path / "folder" / "notes.txt").read_text() == "my notes"


def test_caches_and_bytecode_fill_as_in_any_run(project):
    home = project.path / "home"
    home.mkdir()
    environment = {**os.environ, "HOME": str(home), "HF_HOME": str(project.path / "hf")}
    environment.pop("XDG_CACHE_HOME", None)
    project.script(
        "import os\nfor one in ('home/.cache/a', 'hf/hub', '__pycache__'): os.makedirs(one); open(one + '/b', 'w')",
        env=environment,
    )
    project.restore()
    files = {str(path.relative_to(project.path)) for path in project.path.rglob("b")}
    assert files == {"home/.cache/a/b", "hf/hub/b", "__pycache__/b"}


def test_a_cache_that_the_script_names_itself_fills_too(project):
    project.script(
        "import os\nos.environ['HF_HOME'] = os.path.abspath('hf')\n"
        "for one in ('hf/hub', 'out'): os.makedirs(one); open(one + '/b', 'w')"
    )
    project.restore()
    assert {str(path.relative_to(project.path)) for path in project.path.rglob("b")} == {"hf/hub/b"}


def test_a_fork_does_not_keep_a_lock(project):
    """It has the file open that its parent has locked."""
    said = project.script(
        "import os, time\n"
        "lock = register.Lock(register.lock_of(sys.argv[2]))\n"
        "with lock: worker = os.fork() or (time.sleep(5), os._exit(0))\n"
        "begin = time.monotonic()\n"
        "open('new', 'w').close()\n"
        "print(time.monotonic() - begin < 2)\n"
        "os.kill(worker, 9)\n"
    )
    assert said == "True\n"


def test_reading_leaves_no_entry_and_costs_little(project):
    (project.path / "notes.txt").write_text("my notes")
    code = """
import time
def seconds():
    begin = time.process_time()
    for _ in range(2000): open("notes.txt").close()
    return time.process_time() - begin
watched = min(seconds() for _ in range(5))
print(watched)
"""
    watched = float(project.script(code))
    bare = float(
        subprocess.run(
            [sys.executable, "-c", code], cwd=project.path, capture_output=True, text=True, check=True
        ).stdout
    )
    assert watched < 1.5 * bare + 0.01
    assert not (project.run / "journal").exists()
    project.script("open('n', 'w')")
    shutil.rmtree(project.run / "journal")


def test_an_error_of_the_system_stays_what_it_is(project):
    begin = time.monotonic()
    said = project.script(
        "import os\nfor act in (lambda: open('no/such/file', 'w'), lambda: os.remove('none'), lambda: os.rmdir('none'),"
        " lambda: os.rename('none', 'other'), lambda: os.mkdir('.')):\n"
        " try: act()\n except OSError as error: print(type(error).__name__, end=' ')"
    )
    assert said.split() == ["FileNotFoundError"] * 4 + ["FileExistsError"]
    project.restore()
    assert project.path.exists()
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize("ending", ["pass", "os._exit(0)"])
def test_a_folder_with_a_socket_is_removed(project, ending):
    """Workers that load data share tensors through one in a temporary folder."""
    listening = "import os, socket; os.mkdir('new'); one = socket.socket(socket.AF_UNIX); one.bind('new/listener')"
    project.script(f"{listening}; {ending}")
    assert (project.path / "new" / "listener").is_socket()
    assert project.restore().left == []
    assert not (project.path / "new").exists()
