"""Whatever ends a smoke run: the right word, the right exit status, and nothing left behind.

The faults are in faults/sitecustomize.py; ranks there also leave children and shared memory in every run.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest

from ds_lint.smoke.processes import locks
from ds_lint.smoke.processes.client import NEEDS_FORK

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

FAULTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "faults")
CONFIG = {
    "train_batch_size": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
}
LONG = 120.0  # seconds, for a machine with a lot to do
SOON = 30.0


class Run:
    """``ds-lint check --smoke`` as a process, with a fault in it."""

    def __init__(self, folder, *arguments, fault="none", at="train 0 train", prepare=None, stdin=None, **environment):
        self.mark = uuid.uuid4().hex
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.done = folder / "done"
        usual = clean_environment() | {
            "PYTHONPATH": os.pathsep.join((ROOT, FAULTS)),
            "TMPDIR": str(self.temporary),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "CXX": "/bin/false",
            "CC": "/bin/false",
            "DS_LINT_TEST": self.mark,
            "DS_LINT_FAULT": fault,
            "DS_LINT_FAULT_AT": at,
            "DS_LINT_FAULT_DONE": str(self.done),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ds_lint", "check", *(arguments or ("c.json",)), "--smoke"],
            cwd=folder,
            env={name: value for name, value in (usual | environment).items() if value is not None},
            stdin=stdin or subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509 - no threads here
        )

    def until(self, path):
        """Wait for a file; its text."""
        eventually(lambda: path.exists() or self.process.poll() is not None, LONG)
        return path.read_text()

    def end(self):
        """Wait for the end; status, stdout and stderr."""
        out, err = self.process.communicate(timeout=LONG)
        print(out, err)
        return self.process.returncode, out, err

    def left(self):
        """What the run has left: processes, files, and segments of shared memory."""
        mark = self.mark.encode()
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if mark in file.read():
                    with open(path.replace("environ", "cmdline"), "rb") as command:
                        found.append(f"{path} {command.read()!r}")
        for path in (*glob.glob("/dev/shm/torch_*"), *glob.glob("/dev/shm/deepspeed_*")):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if mark in file.read(100):
                    found.append(path)
        return found + sorted(str(path) for path in (*self.temporary.iterdir(), *self.logs()))

    def logs(self):
        """The logs that are kept for the user."""
        return (self.temporary.parent / "cache").glob("ds-lint/logs/*.log")

    def assert_nothing_left(self, *, logs=0):
        """But so many logs."""
        with contextlib.suppress(TimeoutError):
            eventually(lambda: len(self.left()) == logs, SOON)
        left = self.left()
        assert len(left) == logs, left
        assert all(re.search(r"/ds-lint-smoke-\w+-\d+\.log$", path) for path in left), left


def eventually(is_so, seconds):
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)


@pytest.fixture
def start(tmp_path):
    """Starts runs, and ends what a failing test leaves of them."""
    (tmp_path / "c.json").write_text(json.dumps(CONFIG))
    runs = []

    def start(*arguments, **more):
        runs.append(Run(tmp_path, *arguments, **more))
        return runs[-1]

    yield start
    for run in runs:
        for found in run.left():
            if found.startswith("/proc/"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(found.split("/")[2]), signal.SIGKILL)
            elif found.startswith("/dev/shm/"):
                os.unlink(found)
        run.process.wait()


# ---------------------------------------------------------------------------------------------------------- the ranks


@pytest.mark.parametrize(
    ("fault", "at", "said"),
    [
        (
            "kill",
            "train 1 train",
            "rank 1 was killed by SIGKILL in train; the system usually does this",
        ),
        pytest.param("kill", "train 0 meet", "rank 0 was killed by SIGKILL in meet", marks=pytest.mark.long),
        ("no room", "train 0 save", r"the disk is full \([\d,]+ MiB free below .*\): OSError: \[Errno 28\]"),
    ],
)
def test_a_rank_that_fails(start, fault, at, said):
    run = start(fault=fault, at=at)
    status, out, err = run.end()
    assert status == 2
    assert re.search(f"^ds-lint: c.json: the smoke run could not be made: {said}", err, re.MULTILINE)
    assert "smoke: could not run" in out
    log = re.search(r"\(output of the libraries: (.*)\)", err)[1]
    assert os.path.exists(log)
    run.assert_nothing_left(logs=1)


def test_an_exception_in_one_rank_is_told_and_not_what_its_peers_say_of_it(start):
    run = start(fault="raise", at="train 1 train")
    status, out, err = run.end()
    assert status == 1  # a library that raises may have been asked for something that it cannot do
    assert "RuntimeError: the third layer has no seventh head" in out
    assert "gloo" not in out + err
    run.assert_nothing_left(logs=1)


@pytest.mark.parametrize("fault", ["hang", pytest.param("close connection", marks=pytest.mark.long)])
def test_a_rank_that_hangs(start, fault):
    run = start("c.json", "--smoke-timeout", "10", fault=fault, at="train 1 train")
    status, _, err = run.end()
    assert status == 2
    assert re.search(
        r"did not finish within 10 s \(--smoke-timeout\): rank 1 is stuck in train, at .*sitecustomize\.py:\d+ \w+; "
        r"rank 0 waits for it",
        err,
    )
    log = re.search(r"\(output of the libraries: (.*)\)", err)[1]
    with open(log, encoding="utf-8") as file:
        assert 'sitecustomize.py", line' in file.read()  # where it hangs
    run.assert_nothing_left(logs=1)


@pytest.mark.long
def test_a_rank_that_prints_without_end_leaves_the_end_of_it(start):
    run = start(fault="print much", at="train 1 train")
    status, _, err = run.end()
    assert status == 2
    log = re.search(r"\(output of the libraries: (.*)\)", err)[1]
    assert os.path.getsize(log) < 6 * 2**20
    run.assert_nothing_left(logs=1)


@pytest.mark.long
def test_a_rank_that_aborts_at_its_exit_has_done_its_work(start):
    run = start(fault="abort at exit", at="train 1 done")
    status, out, _ = run.end()
    assert run.done.exists()
    assert status == 0
    assert out.startswith("smoke: passed")
    run.assert_nothing_left()


@pytest.mark.long
def test_a_rank_that_is_killed_while_it_resumes_says_nothing_about_the_config(start):
    run = start(fault="kill", at="resume 1 train on")
    status, _, err = run.end()
    assert status == 2
    assert "could not be made: a new process did not finish its resume: rank 1 was killed by SIGKILL" in err
    run.assert_nothing_left(logs=1)


# ------------------------------------------------------------------------------------------------------- the machine


@pytest.mark.long
def test_a_port_that_is_taken_does_not_matter(start):
    with socket.socket() as taken:
        with contextlib.suppress(OSError):  # another process has it, which is as good
            taken.bind(("127.0.0.1", 29500))
            taken.listen()
        run = start(MASTER_PORT="29500", MASTER_ADDR="127.0.0.1", RANK="3", WORLD_SIZE="4")
        assert run.end()[0] == 0
    run.assert_nothing_left()


@pytest.mark.parametrize(("name", "why"), [("missing", "No such file or directory"), ("c.json", "Not a directory")])
def test_a_folder_for_temporary_files_that_cannot_be_written(start, tmp_path, name, why):
    run = start(TMPDIR=str(tmp_path / name))
    status, _, err = run.end()
    assert status == 2
    assert err == (
        f"ds-lint: the smoke run could not be made: cannot write temporary files to {tmp_path / name} (TMPDIR): {why}\n"
    )


@pytest.fixture
def small_disk(tmp_path):
    """Mounts a small file system in the place of the folder for temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()

    def mount(size):
        made = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], capture_output=True, check=False
        )
        if made.returncode:
            pytest.skip("a file system cannot be mounted here")

    yield mount
    subprocess.run(["umount", "-l", folder], capture_output=True, check=False)


def test_a_disk_that_is_full_before(start, small_disk):
    small_disk("512k")
    run = start()
    status, _, err = run.end()
    assert status == 2
    assert re.fullmatch(
        r"ds-lint: the smoke run could not be made: cannot write .* to .*/tmp: No space left on device\n", err
    )
    run.assert_nothing_left()


@pytest.mark.parametrize("phase", [pytest.param("train", marks=pytest.mark.long), "save"])
def test_a_disk_that_gets_full_on_the_way(start, small_disk, phase):
    small_disk("4m")
    run = start(fault="fill disk", at=f"train 0 {phase}")
    status, _, err = run.end()
    assert status == 2
    assert "the smoke run could not be made: the disk is full (0 MiB free below" in err
    run.assert_nothing_left(logs=1)


# ------------------------------------------------------------------------------------------------------------ signals


def ignore_interrupts():
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# The logs are removed as after Ctrl-C; a background job ends as while it imports.
LIKE_OTHERS = (
    "background failed before", "SIGTERM failed before", "SIGKILL failed before",
    "background training", "SIGTERM training",
)  # fmt: skip
SIGNALS = {
    "Ctrl-C": (signal.SIGINT, True, None, 130, "Ctrl-C"),
    "background": (signal.SIGINT, False, ignore_interrupts, 130, "Ctrl-C"),  # a background job of a shell
    "SIGTERM": (signal.SIGTERM, False, None, 143, "SIGTERM"),
    "SIGKILL": (signal.SIGKILL, False, None, -9, None),
}


@pytest.mark.parametrize(
    ("when", "number", "to_group", "prepare", "status", "name"),
    [
        pytest.param(
            when,
            *SIGNALS[sent],
            id=f"{sent} {when}",
            marks=pytest.mark.long if f"{sent} {when}" in LIKE_OTHERS else (),
        )
        for when in ("importing", "training", "failed before")
        for sent in SIGNALS
    ],
)
def test_a_signal_ends_the_command_line(start, tmp_path, when, number, to_group, prepare, status, name):
    if when == "importing":
        run = start(fault="hang", prepare=prepare)
        run.until(tmp_path / "done.pools")
    elif when == "training":
        run = start(fault="hang", prepare=prepare)
        pool = run.until(run.done)
        assert os.listdir(f"/proc/{pool}/task") == [pool]  # a process with threads cannot be forked
    else:  # a log of another config was kept, and nothing reports it
        (tmp_path / "a.json").write_text('{"train_batch_size": 4, "fp16": 7}')
        run = start("a.json", "c.json", fault="hang", prepare=prepare)
        run.until(run.done)
        assert list(run.logs())
    began = time.monotonic()
    (os.killpg if to_group else os.kill)(run.process.pid, number)
    ended, out, err = run.end()
    assert time.monotonic() - began < 10
    assert (ended, out) == (status, "")
    assert err == (f"ds-lint: {name} ended the smoke run; its files and processes are removed\n" if name else "")
    run.assert_nothing_left()


@pytest.mark.long
def test_the_process_of_the_run_is_killed_and_the_next_config_gets_another(start, tmp_path):
    (tmp_path / "d.json").write_text(json.dumps(CONFIG))
    run = start("c.json", "d.json", "--output-format", "json", fault="hang")
    os.kill(int(run.until(run.done)), signal.SIGKILL)
    status, out, err = run.end()
    assert status == 2
    assert "c.json: the smoke run could not be made: the process of the smoke run was killed by SIGKILL" in err
    assert [one["status"] for one in json.loads(out)["smoke"]] == ["error", "pass"]
    run.assert_nothing_left()  # and nothing was printed


# -------------------------------------------------------------------------------------------------------------- locks


def test_a_stale_lock_of_a_build_is_told_before_anything_starts(start, tmp_path):
    lock = tmp_path / "builds" / "fused_adam" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    run = start("c.json", "--smoke-build-ops", TORCH_EXTENSIONS_DIR=str(tmp_path / "builds"))
    status, _, err = run.end()
    assert status == 2
    assert "a killed build of DeepSpeed's ops left its lock, and every later build waits for it" in err
    assert f"remove it: rm {lock}" in err
    assert lock.exists()
    run.assert_nothing_left()


def test_a_lock_on_which_the_script_would_wait_is_a_finding_though_nothing_is_built(start, tmp_path):
    for op in ("fused_adam", "cpu_lion"):  # the run needs only the first
        (tmp_path / "builds" / op).mkdir(parents=True)
        (tmp_path / "builds" / op / "lock").touch()
    run = start("c.json", TORCH_EXTENSIONS_DIR=str(tmp_path / "builds"))
    status, out, _ = run.end()
    assert status == 1
    assert "DS901" in out
    assert "fused_adam" in out
    assert "cpu_lion" not in out
    run.assert_nothing_left()


@pytest.mark.long
def test_a_lock_of_a_killed_rank_is_removed(start, tmp_path):
    run = start(
        "c.json",
        "--smoke-build-ops",
        fault="leave lock",
        at="train 1 model",
        TORCH_EXTENSIONS_DIR=str(tmp_path / "builds"),
    )
    status, _, err = run.end()
    assert status == 2
    assert "rank 1 was killed by SIGKILL in model" in err
    assert not (tmp_path / "builds" / "fused_adam" / "lock").exists()
    run.assert_nothing_left(logs=1)


WHERE_TORCH_BUILDS = """
import json
from torch.utils import cpp_extension
from ds_lint.smoke.processes import locks

built = cpp_extension._get_build_directory("fused_adam", verbose=False)  # made by the call
open(built + "/lock", "wb").close()
print(json.dumps([built, locks.abandoned()]))
"""


def test_without_a_variable_locks_are_looked_for_where_torch_builds(tmp_path):
    """In a process of its own: torch imports setuptools, which fails where distutils is already imported."""
    environment = clean_environment() | {"PYTHONPATH": ROOT, "XDG_CACHE_HOME": str(tmp_path)}
    environment.pop("TORCH_EXTENSIONS_DIR", None)
    out = subprocess.run(
        [sys.executable, "-c", WHERE_TORCH_BUILDS], env=environment, capture_output=True, text=True, check=True
    ).stdout
    built, abandoned = json.loads(out)
    assert built.startswith(str(tmp_path))
    assert abandoned == {"fused_adam": f"{built}/lock"}


def test_a_lock_that_a_builder_holds_is_not_stale(tmp_path):
    lock = str(tmp_path / "lock")
    with open(lock, "wb"):
        assert locks.stale([lock]) == []
    assert locks.stale([lock, str(tmp_path / "none")]) == [lock]


# ---------------------------------------------------------------------------------------------------------- and more


def test_a_run_without_a_fault_leaves_nothing_and_prints_nothing_else(start):
    run = start("c.json", "--output-format", "json", HOME=None)
    status, out, err = run.end()
    assert run.done.exists()  # the faults find their way into the ranks
    assert (status, err) == (0, "")
    assert json.loads(out)["smoke"][0]["status"] == "pass"
    run.assert_nothing_left()


NO_CONFIGS = ["", "zero: [", "[]", "7", "null", '{"zero_optimization": [3]}', "\x00\xff", '{"a":' * 10_000]


def assert_no_pass(run):
    status, out, err = run.end()
    assert status in (1, 2)
    assert "Traceback" not in err
    assert "smoke: passed" not in out
    run.assert_nothing_left(logs=len(list(run.logs())))


def test_what_is_no_config(start, tmp_path):
    """Each of them given by its name, so that each is tried."""
    names = [f"{place}.json" for place in range(len(NO_CONFIGS))]
    for name, text in zip(names, NO_CONFIGS, strict=True):
        (tmp_path / name).write_text(text, encoding="latin-1")
    assert_no_pass(start(*names))


@pytest.mark.long
@pytest.mark.parametrize("text", NO_CONFIGS)
def test_what_is_no_config_by_itself(start, tmp_path, text):
    (tmp_path / "c.json").write_text(text, encoding="latin-1")
    assert_no_pass(start())


def test_standard_input(start, tmp_path):
    with open(tmp_path / "c.json", "rb") as config:
        run = start("-", stdin=config)
        status, out, _ = run.end()
    assert status == 0
    assert out.startswith("smoke: passed")
    run.assert_nothing_left()


@pytest.mark.long
def test_a_folder_of_configs_imports_the_libraries_once(start, tmp_path):
    (tmp_path / "configs").mkdir()
    for number in range(3):
        (tmp_path / "configs" / f"{number}.json").write_text(json.dumps(CONFIG | {"train_batch_size": 2 + 2 * number}))
    run = start("configs", "--output-format", "json")
    status, out, _ = run.end()
    assert status == 0
    assert [one["status"] for one in json.loads(out)["smoke"]] == ["pass"] * 3
    assert len((tmp_path / "done.pools").read_text().splitlines()) == 1
    run.assert_nothing_left()


@pytest.mark.long
def test_two_command_lines_at_once(start):
    runs = [start(), start()]
    assert [run.end()[0] for run in runs] == [0, 0]
    runs[0].assert_nothing_left()


@pytest.mark.long
def test_runs_of_files_with_the_same_name_are_kept_apart(start, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ds.json").write_text(json.dumps(CONFIG))
    for _ in range(2):
        run = start("a/ds.json", str(tmp_path / "b" / "ds.json"), "--smoke-keep", "kept")
        assert run.end()[0] == 0
    kept = sorted(path.relative_to(tmp_path / "kept").as_posix() for path in (tmp_path / "kept").glob("*/*"))
    assert kept == ["a/ds.json", "a/ds.json-2", "b/ds.json", "b/ds.json-2"]
    assert (tmp_path / "kept" / "a" / "ds.json" / "checkpoint").is_dir()
    run.assert_nothing_left()


def test_a_system_that_cannot_fork(start):
    run = start(fault="no fork")
    status, _, err = run.end()
    assert status == 2
    assert f"could not be made: {NEEDS_FORK}\n" in err
    run.assert_nothing_left()
