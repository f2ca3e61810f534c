"""What runs leave on purpose and by accident; this needs none of the libraries."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from command_line import ROOT

from ds_lint.smoke.processes import kept_files, leftovers, logs

WITHOUT = ("fcntl", "grp", "posix", "pwd", "resource", "termios")  # what Windows lacks
is_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only there the system tells")


@pytest.mark.parametrize(
    "module",
    [
        "ds_lint.commands.training_runs",
        "ds_lint.smoke.processes.client",
        "ds_lint.smoke.records.failure",
        "ds_lint.smoke.processes.locks",
        "ds_lint.smoke.rank.pool",
    ],
)
def test_import_takes_nothing_that_windows_lacks(module):
    program = (
        "import sys, os, signal, subprocess, multiprocessing.connection, tempfile\n"
        f"for name in {WITHOUT!r}: sys.modules[name] = None\n"
        "for name in ('fork', 'setsid', 'killpg', 'getuid'): delattr(os, name)\n"
        "for name in ('SIGKILL', 'SIGALRM', 'SIGUSR1'): delattr(signal, name)\n"
        f"import {module}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@is_linux
def test_children_are_ended_whatever_session_they_went_to(tmp_path):
    folder = str(tmp_path)
    program = "import os, time; os.fork() or os.setsid(); print('here', flush=True); time.sleep(20)"
    environment = os.environ | {leftovers.MARK: folder}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.readline()
        assert len(leftovers.processes_of(folder)) == 2
        leftovers.end_processes_of(folder, but=[process.pid])
        assert leftovers.processes_of(folder) == [process.pid]
        leftovers.end_processes_of(folder)
        assert process.wait() == -signal.SIGKILL
    assert leftovers.processes_of(folder) == []


def test_segments_are_removed_by_pid_and_port(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", str(tmp_path))
    uid = os.getuid()
    gone = [
        "torch_77_1_0",
        f"deepspeed_allreduce_buffer_{uid}_127.0.0.1_20077",
        f"deepspeed_allreduce_buffer_{uid}_127.0.0.1_20077_1",
    ]
    kept = ["torch_770_1_0", f"deepspeed_allreduce_buffer_{uid}_127.0.0.1_29500_0", "else"]
    for name in gone + kept:
        (tmp_path / name).touch()
    leftovers.sweep([77], 20077)
    assert sorted(os.listdir(tmp_path)) == sorted(kept)


def test_a_system_without_shared_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "SHARED_MEMORY", str(tmp_path / "none"))
    leftovers.sweep([77], 20077)


def test_the_end_of_each_log_is_joined(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_TAIL", 4)
    (tmp_path / "a.log").write_text("123456789")
    (tmp_path / "b.log").write_text("")
    (tmp_path / "c.log").write_text("ok\n")
    joined = tmp_path / "joined"
    found = [str(tmp_path / f"{name}.log") for name in "abcd"]
    assert logs.join(found, str(joined))
    assert joined.read_text() == "==> a.log, without its first 5 bytes\n6789\n==> c.log\nok\n"


def test_no_log_is_joined_from_nothing_or_where_there_is_no_room(tmp_path):
    (tmp_path / "a.log").write_text("a")
    assert not logs.join([str(tmp_path / "b.log")], str(tmp_path / "joined"))
    assert not logs.join([str(tmp_path / "a.log")], str(tmp_path / "none" / "joined"))
    assert os.listdir(tmp_path) == ["a.log"]


def test_the_logs_of_the_newest_runs_are_kept(tmp_path, monkeypatch):
    """A run that fails leaves one, which its message names: that of this run stays whatever its number is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.log").write_text("a")
    runs = [str(tmp_path / f"ds-lint-smoke-{number}") for number in range(logs._RUNS + 3)]
    for age, run in enumerate(runs):
        for number in (1, 2):
            path = logs.keep([str(tmp_path / "a.log")], run, number)
            os.utime(path, (age, age))
    kept = [logs.of_run(run) for run in runs]
    assert [len(paths) for paths in kept] == [0] * 3 + [2] * logs._RUNS
    assert {os.path.dirname(path) for paths in kept for path in paths} == {logs.kept_folder()}
    assert [os.path.basename(path) for path in sorted(kept[-1])] == [
        f"{os.path.basename(runs[-1])}-{n}.log" for n in (1, 2)
    ]


def test_a_log_is_kept_beside_the_run_if_there_is_no_cache(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.log").write_text("a")
    run = str(tmp_path / "run")
    assert logs.keep([str(tmp_path / "a.log")], run, 1) == f"{run}-1.log"
    assert logs.of_run(run) == [f"{run}-1.log"]


def test_runs_are_kept_where_their_configs_lie(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    kept = []
    for path in (
        "a/ds.json",
        "b/ds.json",
        "./b/../a/ds.json",
        "../ds.json",
        str(tmp_path / "here" / "ds.json"),
        "<stdin>",
    ):
        (tmp_path / "run").mkdir()
        kept.append(kept_files.keep(str(tmp_path / "run"), "kept", path))
    outside = str(tmp_path / "ds.json").lstrip("/")
    assert kept == [f"kept/{name}" for name in ("a/ds.json", "b/ds.json", "a/ds.json-2", outside, "ds.json", "<stdin>")]
    assert all(os.path.isdir(folder) for folder in kept)
