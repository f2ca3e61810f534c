"""However a start of the user's command ends, the driver says how, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.processes.leftovers import SHARED_MEMORY, processes_of
from ds_lint.smoke.script import command_start, ending, restore

ROOT = Path(__file__).parents[2]


class Command:
    """A script of the user, with made-up training libraries beside it."""

    def __init__(self, path, monkeypatch):
        self.path = path / "user"
        self.path.mkdir()
        for name in ("deepspeed", "transformers"):
            (self.path / f"{name}.py").write_text("initialize = print\n")
        (self.path / "notes.txt").write_text("mine")
        self.plan = plans.Plan(str(path / "run"))
        monkeypatch.chdir(self.path)
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("MASTER_PORT", "29731")

    def run(self, code, *options, seconds=30.0):
        (self.path / "train.py").write_text(textwrap.dedent(code))
        before = set(os.listdir(self.path))
        end = command_start.run([sys.executable, *options, "train.py"], self.plan, seconds)
        assert set(os.listdir(self.path)) - {"__pycache__"} == before
        assert (self.path / "notes.txt").read_text() == "mine"
        assert processes_of(self.plan.folder) == []
        return end

    def message(self, code, *options, seconds=30.0):
        return ending.failure(self.run(code, *options, seconds=seconds), self.plan, seconds).message


@pytest.fixture
def command(tmp_path, monkeypatch, capfd):
    return Command(tmp_path.resolve(), monkeypatch)


WRITES = "open('notes.txt', 'a').write('more'); open('new', 'w').write('new')\n"
ENDINGS = {
    "a library that is not there": (
        "import transformers, not_there",
        (
            "a package is missing: the script raises before deepspeed.initialize: ModuleNotFoundError: "
            "No module named 'not_there'"
        ),
    ),
    "an exception": (
        "import transformers\nraise ValueError('of mine')",
        "the script raises before deepspeed.initialize: ValueError: of mine",
    ),
    "an exit": (
        "import transformers, sys\nsys.exit(3)",
        "the command ends with status 3 before deepspeed.initialize: the script exits by itself",
    ),
    "arguments that are refused": (
        (
            "import transformers, argparse\nparser = argparse.ArgumentParser()\n"
            "parser.add_argument('--steps', type=int)\nparser.parse_args(['--steps', 'x'])"
        ),
        (
            "the command ends with status 2 before deepspeed.initialize: train.py refuses its arguments: argument "
            "--steps: invalid int value: 'x'"
        ),
    ),
    "an exit that skips everything": (
        "import transformers, os\nos._exit(4)",
        "the command ends with status 4 before deepspeed.initialize: the script calls os._exit(4)",
    ),
    "a script that catches everything": (
        "import transformers\ntry: raise ValueError\nexcept BaseException: raise SystemExit(5)",
        "the command ends with status 5 before deepspeed.initialize: the script exits by itself",
    ),
    "a script that trains nothing": (
        "import transformers",
        "the command ends before deepspeed.initialize, without an engine of DeepSpeed",
    ),
    "killed": (
        "import transformers, os\nos.kill(os.getpid(), 9)",
        (
            "the command is killed by SIGKILL before deepspeed.initialize; the system usually does this when memory "
            "runs out"
        ),
    ),
    "killed in its launcher": (
        """import subprocess, sys
code = "import transformers, os; os.kill(os.getpid(), 9)"
sys.exit(subprocess.call([sys.executable, "-c", code]) and 1)""",
        (
            "the command ends with status 1 before deepspeed.initialize, because rank 0 is killed: if by SIGKILL, "
            "memory has usually run out"
        ),
    ),
}
UNREACHED = {
    "no library": (
        "print(1)",
        (
            "no Python that has run the startup hook of ds-lint imports deepspeed, transformers or accelerate: "
            "`python train.py`; if another one trains, pass PYTHONPATH and DS_LINT_PROBE on to it, or make "
            "`import ds_lint.smoke.probe` the first line of the script"
        ),
    ),
    "a package that is not there": (
        "import not_there",
        (
            "the command ends with status 1 before it imports deepspeed, transformers or accelerate: "
            "ModuleNotFoundError: No module named 'not_there' (train.py:2)"
        ),
    ),
    "a syntax error": (
        "x = 1\nx = (2",
        (
            "the command ends with status 1 before it imports deepspeed, transformers or accelerate: "
            "SyntaxError: '(' was never closed (train.py, line 3)"
        ),
    ),
    "arguments that are refused": (
        (
            "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--data', required=True)\n"
            "parser.parse_args()\nimport transformers"
        ),
        (
            "the command ends with status 2 before it imports deepspeed, transformers or accelerate: train.py refuses "
            "its arguments: the following arguments are required: --data"
        ),
    ),
    "a message of its own": (
        "import sys\nsys.exit('no data in data/')",
        ("the command ends with status 1 before it imports deepspeed, transformers or accelerate: no data in data/"),
    ),
    "it fails early": (
        "raise ValueError",
        (
            "the command ends with status 1 before it imports deepspeed, transformers or accelerate: ValueError "
            "(train.py:2)"
        ),
    ),
}


@pytest.mark.parametrize(("code", "message"), ENDINGS.values(), ids=ENDINGS)
def test_how_a_script_ends(command, code, message):
    assert command.message(WRITES + code) == message


@pytest.mark.parametrize(("code", "message"), UNREACHED.values(), ids=UNREACHED)
def test_a_command_without_training(command, monkeypatch, code, message):
    monkeypatch.delenv("RANK")
    assert command.message(WRITES + code) == message.replace("`python ", f"`{Path(sys.executable).name} ")


def test_a_python_without_the_hook_is_told_apart(command, monkeypatch):
    monkeypatch.delenv("RANK")
    assert command.message("print(1)", "-I").startswith(
        "no Python of the command has run the startup hook of ds-lint: "
    )


def test_a_hang_ends_with_all_that_it_started(command):
    code = """
    import transformers, subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    open(f"/dev/shm/torch_{__import__('os').getpid()}_1_1", "w").close()
    time.sleep(600)
    """
    if not os.path.isdir(SHARED_MEMORY):
        code = code.replace("open(f", "(lambda *_: __import__('io').StringIO())(f")
    end = command.run(WRITES + textwrap.dedent(code), seconds=1.0)
    message = ending.failure(end, command.plan, 1.0).message
    assert message == "the command did not finish within 1 s (--timeout): rank 0 before deepspeed.initialize"
    assert [ending.exit_of(one, end) for one in end.ranks] == ["timeout"]
    assert not [name for name in os.listdir(SHARED_MEMORY) if f"_{end.ranks[0].pid}_" in name]


def test_what_a_rank_starts_is_no_rank(command):
    end = command.run(
        "import transformers, subprocess, sys; subprocess.check_call([sys.executable, '-c', 'import transformers'])"
    )
    assert [one.rank for one in end.processes] == [0, None]
    assert len(end.ranks) == 1


def test_temporary_files_go_with_the_run(command):
    end = command.run(
        "import transformers, tempfile; assert tempfile.mkdtemp().startswith(tempfile.gettempdir());"
        f"assert tempfile.gettempdir() == {command.plan.temporary!r} or len({command.plan.temporary!r}) > 75"
    )
    assert end.status == 0


def test_the_only_copy_of_a_file_is_not_removed(command, capfd):
    """A folder has become a file, which the script has not written."""
    (command.path / "folder").mkdir()
    (command.path / "folder" / "notes.txt").write_text("mine")
    end = command_start.run(
        [sys.executable, "-c", "import shutil, os; shutil.rmtree('folder'); os.system('echo > folder')"],
        command.plan, 30.0,
    )  # fmt: skip
    assert [Path(path).name for path, _ in end.restored.failed] == ["notes.txt"]
    restore.put_away(command.plan.folder)
    assert os.path.exists(command.plan.folder)
    said = capfd.readouterr().err
    assert f"ds-lint: {command.path / 'folder' / 'notes.txt'} could not be restored: Not a directory" in said
    os.remove("folder")
    os.mkdir("folder")
    restore.put_away(command.plan.folder)
    assert not os.path.exists(command.plan.folder)
    assert (command.path / "folder" / "notes.txt").read_text() == "mine"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the system does not list the processes of a run")
def test_a_launcher_in_the_background_is_waited_for(command):
    code = WRITES + "import transformers, time\ntime.sleep(0.6)\nraise ValueError('of mine')"
    (command.path / "train.py").write_text(code)
    background = f"nohup {sys.executable} train.py > /dev/null 2>&1 &"
    end = command_start.run(["sh", "-c", background], command.plan, 30.0)
    failed = ending.failure(end, command.plan, 30.0)
    assert failed.message == "the script raises before deepspeed.initialize: ValueError: of mine"
    assert not (command.path / "new").exists()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the system does not list the processes of a run")
@pytest.mark.long
def test_a_launcher_in_the_background_has_the_time_of_a_command(command):
    (command.path / "train.py").write_text("import transformers, time\ntime.sleep(600)")
    end = command_start.run(["sh", "-c", f"{sys.executable} train.py &"], command.plan, 2.0)
    assert end.status is None
    assert processes_of(command.plan.folder) == []


@pytest.mark.skipif(not os.path.isdir(SHARED_MEMORY), reason="no semaphores in files")
def test_the_semaphores_of_a_killed_rank_are_removed(command):
    """As those of workers of a DataLoader that are spawned: another process removes them once the rank is gone."""
    code = """
    import transformers, multiprocessing, os, sys
    one = multiprocessing.get_context("spawn").Semaphore()
    print("semaphore", one._semlock.name, file=open(os.path.dirname(os.environ["DS_LINT_PROBE"]) + "/name", "w"))
    os.kill(os.getpid(), 9)
    """
    command.run(code)
    name = Path(command.plan.folder, "name").read_text().split("/")[1].strip()
    latest = time.monotonic() + 20  # on a busy machine
    while os.path.exists(os.path.join(SHARED_MEMORY, f"sem.{name}")):
        assert time.monotonic() < latest
        time.sleep(0.01)


@pytest.mark.parametrize("launcher", ["accelerate", "train.py"])
def test_a_launcher_that_imports_the_libraries_is_not_a_script(command, monkeypatch, launcher):
    monkeypatch.delenv("RANK")
    (command.path / launcher).write_text("import transformers, sys; sys.exit(2)")
    end = command_start.run([sys.executable, launcher, "missing.py"], command.plan, 30.0)
    message = ending.failure(end, command.plan, 30.0).message
    is_script = launcher == "train.py"
    assert message.startswith(
        f"the command ends with status 2 before {'deepspeed.init' if is_script else 'it imports'}"
    )


def test_a_command_may_begin_with_variables(command):
    (command.path / "train.py").write_text("import os, sys; sys.exit(int(os.environ['STATUS']))")
    assert command_start.run(["STATUS=7", sys.executable, "train.py"], command.plan, 30.0).status == 7


@pytest.mark.parametrize("is_empty", [True, False])
def test_the_folder_for_kernels_goes_if_there_are_none(command, monkeypatch, is_empty):
    monkeypatch.setattr(command_start.tempfile, "tempdir", str(command.path.parent))
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    command.run(
        "import os; folder = os.environ.get('TORCHINDUCTOR_CACHE_DIR') or '/'; os.path.isdir(folder) or "
        f"os.makedirs(os.path.join(folder, *{[] if is_empty else ['kernel']}))"
    )
    assert os.path.exists(command_start._kernels()) == (
        not is_empty and len(command.plan.temporary) <= command_start._LONGEST
    )


def test_a_user_without_a_name_has_a_folder_for_kernels(monkeypatch):
    def unnamed():
        raise KeyError("getpwuid(): uid not found: 1234")

    monkeypatch.setattr(command_start.getpass, "getuser", unnamed)
    assert command_start._kernels().endswith(f"torchinductor_{os.getuid()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_ds_lint_restores_everything(command, number):
    """The script writes, and would go on for minutes."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("these tests run under nohup")
    (command.path / "train.py").write_text(
        WRITES + "import transformers, time; print('on', flush=True); time.sleep(600)"
    )
    words = ["smoke", "--", sys.executable, "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(command.path.parent)}
    process = subprocess.Popen(
        [sys.executable, "-m", "ds_lint", *words], env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        until = time.monotonic() + 60
        while not (command.path / "new").exists() and time.monotonic() < until:
            time.sleep(0.02)
        assert (command.path / "new").exists()
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    name = "Ctrl-C" if number == signal.SIGINT else number.name
    assert f"ds-lint: {name} ended the run of the script before" in said.decode()
    assert not (command.path / "new").exists()
    assert (command.path / "notes.txt").read_text() == "mine"
    assert not list(command.path.parent.glob("ds-lint-smoke-*"))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the system tells no parents")
def test_what_goes_to_a_session_and_an_environment_of_its_own_is_ended(command):
    """Neither its environment nor its session nor its parent says that it is of the run."""
    name = f"pid-of-{os.getpid()}"
    started = command.path.parent / name
    code = f"""
    import transformers, os, subprocess, time
    away = "(setsid env -i sh -c 'echo $$ > {started}.new; mv {started}.new {started}; exec sleep 600' &) &"
    subprocess.run(["sh", "-c", away], check=True)
    while not os.path.exists({str(started)!r}): time.sleep(0.02)
    """
    command.run(code)
    assert not os.path.exists(f"/proc/{started.read_text().strip()}")


SEGMENTS = {
    "a file": "open('/dev/shm/{0}', 'w').write('of the run')",
    "mapped when the process ends": (
        "from multiprocessing import resource_tracker, shared_memory; import time\n"
        "one = shared_memory.SharedMemory('{0}', create=True, size=64)\n"
        "resource_tracker.unregister(one._name, 'shared_memory'); time.sleep(1.2); os._exit(0)"
    ),
    "of a fork that is killed": (
        "import subprocess\n"
        "if not os.fork(): subprocess.run(['touch', f'/dev/shm/torch_{{os.getpid()}}_{0}']); os.kill(os.getpid(), 9)\n"
        "os.wait()"
    ),
}


@pytest.mark.skipif(not os.path.isdir(SHARED_MEMORY), reason="no segments in files")
@pytest.mark.parametrize("code", SEGMENTS.values(), ids=SEGMENTS)
def test_segments_go_with_the_run(command, code):
    name = f"ds-lint-test-{os.getpid()}"
    Path(SHARED_MEMORY, f"{name}-of-another").touch()
    command.run(f"import transformers, os\n{code.format(name)}")
    try:
        assert [found for found in os.listdir(SHARED_MEMORY) if name in found] == [f"{name}-of-another"]
    finally:
        for path in Path(SHARED_MEMORY).glob(f"*{name}*"):
            path.unlink()
