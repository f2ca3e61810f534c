"""A process that trains without the probe ends the run, because nothing would bring back what it overwrites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ds_lint.launches.launchers import is_launcher
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.processes.descendants import Descendants
from ds_lint.smoke.processes.leftovers import processes_of
from ds_lint.smoke.processes.shared_memory import SegmentsOfRun
from ds_lint.smoke.script import command_start, ending, unobserved
from ds_lint.smoke.script.unobserved import Lookout

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system lists no processes")

# `import torch` maps its library into the memory of the process, and takes a while before a script goes on.
TORCH = """
import mmap, os, time
with open("libtorch_python.so") as file:
    library = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
"""
TRAIN = f"{TORCH}time.sleep(60)\nopen('notes.txt', 'w').write('of the run')\n"
FOR_A_WHILE = f"{TORCH}time.sleep(2)\n"  # longer than the time between two looks
STARTS = "import subprocess, sys; subprocess.run([sys.executable, {!r}, {!r}])\n"
PYTHON = Path(sys.executable).name


class Command:
    """A command of the user, with made-up training libraries beside it."""

    def __init__(self, path):
        self.path = path / "user"
        self.path.mkdir()
        self.plan = plans.Plan(str(path / "run"))
        self.write("libtorch_python.so", "torch")
        self.write("transformers.py", "")
        self.write("notes.txt", "mine")

    def write(self, name, text):
        (self.path / name).write_text(text)

    def unobserved(self, *words):
        """The process that ended the start of a command; None if it went to its end."""
        began = time.monotonic()
        end = command_start.run(list(words), self.plan, 60.0)
        assert processes_of(self.plan.folder) == []
        assert (self.path / "notes.txt").read_text() == "mine"
        assert time.monotonic() - began < 50.0
        self.message = getattr(ending.failure(end, self.plan, 60.0), "message", None)
        return end.unobserved


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("PYTHON", sys.executable)
    command = Command(tmp_path.resolve())
    monkeypatch.chdir(command.path)
    return command


DROPPING = {
    "isolated": ("$PYTHON -I train.py", "-I train.py"),
    "another PYTHONPATH": ("PYTHONPATH=src $PYTHON train.py", "train.py"),
    "another environment": ("env -i $PYTHON train.py", "train.py"),
    "in the background": ("$PYTHON -S train.py & sleep 0.1", "-S train.py"),
    "below a launcher": ("$PYTHON torchrun", "-E train.py"),
}


@pytest.mark.parametrize(("line", "words"), DROPPING.values(), ids=DROPPING)
def test_a_process_that_drops_the_hook_and_trains_ends_the_run(command, line, words):
    python = f"`{PYTHON} {words}`"
    command.write("train.py", TRAIN)
    command.write("torchrun", f"import transformers\n{STARTS.format('-E', 'train.py')}")
    assert command.unobserved("sh", "-c", line) == python
    assert command.message.startswith(f"{python} imports torch without the startup hook of ds-lint, so the run ends")
    assert command.message.endswith("make `import ds_lint.smoke.probe` the first line of the script")


def test_what_an_observed_script_starts_may_drop_the_hook(command):
    """The workers in which torch compiles get a PYTHONPATH of their own: torch/_inductor/compile_worker."""
    command.write("worker.py", FOR_A_WHILE)
    command.write(
        "train.py", "import transformers, subprocess, sys; subprocess.run([sys.executable, '-I', 'worker.py'])"
    )
    assert command.unobserved(sys.executable, "train.py") is None


def test_a_fork_of_an_observed_process_is_observed(command):
    command.write(
        "train.py", f"import os\nif not os.fork():\n    os.setsid(); exec({FOR_A_WHILE!r})\nelse: os.wait()\n"
    )
    assert command.unobserved(sys.executable, "train.py") is None


DAEMON = """
if not os.fork():
    os.setsid()
    if not os.fork(): {}
    os._exit(0)
os.wait(); time.sleep(2)
"""


def test_a_daemon_that_is_a_fork_of_an_observed_process_is_observed(command):
    """No chain of parents leads from it to the script, and it may have another name."""
    rename = "open('/proc/self/comm', 'w').write('service'); time.sleep(2); os._exit(0)"
    command.write("train.py", TORCH + DAEMON.format(rename))
    assert command.unobserved(sys.executable, "train.py") is None


def test_a_daemon_that_trains_without_the_hook_ends_the_run(command):
    command.write("service.py", TRAIN)
    start = f"os.execve({sys.executable!r}, ['python', '-I', 'service.py'], {{}})"
    command.write("train.py", f"import os, time, transformers\n{DAEMON.format(start)}time.sleep(20)")
    assert command.unobserved(sys.executable, "train.py") == "`python -I service.py`"


def test_an_observed_process_that_becomes_another_program_is_not_observed(command):
    command.write("service.py", TRAIN)
    command.write("train.py", f"import os; os.execv({sys.executable!r}, ['python', '-I', 'service.py'])")
    assert command.unobserved(sys.executable, "train.py") == "`python -I service.py`"


@pytest.mark.parametrize("words", [["train.py"], ["torchrun"]])
def test_a_script_that_imports_the_probe_itself_is_observed(command, words):
    root = str(Path(__file__).parents[2])
    probe = f"import sys; sys.path.insert(0, {root!r}); import ds_lint.smoke.probe\n"
    command.write("train.py", f"{probe}{FOR_A_WHILE}")
    command.write("torchrun", f"{TORCH}{STARTS.format('-I', 'train.py')}")
    assert command.unobserved(sys.executable, "-I", *words) is None


def test_a_process_with_a_number_of_its_own_namespace_is_observed(command):
    """As in a container: for itself, it is process 1."""
    alone = ["unshare", "--user", "--map-root-user", "--pid", "--fork"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespaces for this user")
    command.write("train.py", FOR_A_WHILE)
    assert command.unobserved(*alone, sys.executable, "train.py") is None
    assert f"`{PYTHON} train.py`" in command.message  # it has run the hook


def test_a_python_without_torch_may_drop_the_hook(command):
    command.write("prepare.py", "import time; time.sleep(2)")
    assert command.unobserved("sh", "-c", "$PYTHON -I prepare.py") is None
    assert os.environ["PYTHON"] not in command.message


def test_a_process_that_ends_during_the_look_is_not_reported(command, monkeypatch):
    """What the system says of it afterwards is empty: no command line, no parent."""
    command.write("train.py", f"{TORCH}print(flush=True)\ntime.sleep(60)\n")
    train = [sys.executable, "-I", "train.py"]
    with subprocess.Popen(train, stdout=subprocess.PIPE, start_new_session=True) as process:
        process.stdout.readline()
        assert Lookout(command.plan, process.pid, Descendants(), SegmentsOfRun()).sees_one()

        def ends(line):
            process.kill()
            process.wait()
            return is_launcher(line)

        monkeypatch.setattr(unobserved, "is_launcher", ends)
        assert not Lookout(command.plan, process.pid, Descendants(), SegmentsOfRun()).sees_one()
