"""The command that measures on a borrowed GPU: its time, its files, what it needs, and the page made of them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import types

import pytest
from command_line import ROOT, clean_environment

from ds_lint.settings.reader import strictly
from tools.gpu import builds, forks, page, part, proving, record, rehearsal, run
from tools.gpu.installation import NEEDED
from tools.gpu.part import SHARES, part_of
from tools.gpu.parts import claims, ops
from tools.gpu.setting import BAD, Later, Setting

H100 = {
    "gpu": "NVIDIA H100 80GB HBM3", "gpu_bytes": 80 * 2**30, "driver": "580.1", "cores": 16, "host_bytes": 2**37,
    "python": "3.12.3", "versions": {"torch": "2.11.0"}, "date": "2026-11-27", "rehearsal": False,
}  # fmt: skip


def command(*arguments, **variables):
    """What `tools/gpu/run` does with these arguments."""
    words = [os.path.join(ROOT, "tools", "gpu", "run"), *map(str, arguments)]
    environment = {**clean_environment(), "PYTHON": sys.executable, **variables}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=400, check=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--minutes", "11", "--out", "out"], "a machine is lent for at most 10 minutes a call"),
        (["--only", "speed", "--out", "out"], "--only speed: the parts are smoke, sabotage, memory"),
        ([], "--out is missing"),
        (["--out", "out", "--after", "nowhere"], "--after nowhere: no results of an earlier call are there"),
    ],
)
def test_wrong_usage_is_told(arguments, words, capsys):
    with pytest.raises(SystemExit) as ended:
        run.main(arguments)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_the_results_of_an_earlier_call_are_not_overwritten(tmp_path, capsys):
    (tmp_path / "smoke.json").write_text("{}")
    with pytest.raises(SystemExit) as ended:
        run.main(["--rehearse", "--here", "--out", str(tmp_path), "--after", f"{tmp_path}/"])
    assert ended.value.code == 2
    assert "--out has to be another folder" in capsys.readouterr().err
    assert (tmp_path / "smoke.json").read_text() == "{}"


def test_without_a_gpu_nothing_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(run, "install", lambda: None)
    assert run.main(["--out", str(tmp_path / "out")]) == 2
    assert "nvidia-smi names no GPU; --rehearse needs none" in capsys.readouterr().err


def test_a_rehearsal_demands_the_python_of_the_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHON", str(tmp_path / "python"))
    assert run.main(["--rehearse"]) == 2
    assert "is not Python 3.12: set PYTHON to one, or rehearse with --here" in capsys.readouterr().err


def test_a_part_leaves_the_time_that_it_does_not_take():
    end = time.monotonic() + 108.0  # of which the end takes 8
    names = list(SHARES)
    first = next(run._shared(names, end))
    assert first == ("smoke", pytest.approx(100 * SHARES["smoke"] / sum(SHARES.values()), abs=1))
    assert next(run._shared(names[-1:], end))[1] == pytest.approx(100, abs=1)


def test_the_names_of_all_items_are_their_own():
    setting = Setting("", rehearses=True)
    for name in SHARES:
        names = [item.name for item in part_of(name).items(setting)]
        assert len(names) == len(set(names)), name
        assert part_of(name).QUESTION.endswith("?")


def test_what_was_measured_is_in_the_file_whatever_comes_next(tmp_path):
    path = str(tmp_path / "part.json")
    made = record.Record(path, "smoke", H100, ["one", "two", "three"])
    made.add("two", {"status": "pass"})
    found = record.read(path)
    assert (found["status"], found["left_out"]) == ("running", ["one", "three"])
    made.add("one", {"status": "error"})
    made.end()
    found = record.read(path)
    assert (found["status"], found["left_out"]) == ("out of time", ["three"])
    assert record.measured(found) == {"two"}  # what failed for another reason is tried again


def test_with_everything_measured_no_lane_starts(tmp_path, monkeypatch):
    names = ["one", "two"]
    items = [types.SimpleNamespace(name=name) for name in names]
    made = types.SimpleNamespace(LANES=4, items=lambda _setting: items)  # without a lane, which would be an error
    monkeypatch.setattr(part, "part_of", lambda _name: made)
    earlier, out = str(tmp_path / "earlier.json"), str(tmp_path / "out.json")
    before = record.Record(earlier, "smoke", H100, names)
    for name in names:
        before.add(name, {"status": "pass"})
    assert part.main(["smoke", "--out", out, "--seconds", "10", "--rehearse", "--after", earlier]) == 0
    found = record.read(out)
    assert (found["status"], found["items"]) == ("done", [])
    assert "error" not in found


def test_a_part_that_takes_too_long_is_ended_with_what_it_has_started(tmp_path, monkeypatch):
    part = tmp_path / "part"
    part.write_text(
        f"#!{sys.executable}\n"
        "import json, subprocess, sys\n"
        'with open(sys.argv[sys.argv.index("--out") + 1], "w") as file:\n'
        '    json.dump({"status": "running", "items": [{"name": "one"}], "left_out": ["two"]}, file)\n'
        'subprocess.run(["sleep", "600"])\n'
    )
    part.chmod(0o755)
    monkeypatch.setattr(run.sys, "executable", str(part))
    monkeypatch.setattr(run, "_LEAST", 0.0)
    places = run.Places(str(tmp_path), None, str(tmp_path / "ops"))
    with open(tmp_path / "log", "wb") as log:
        run._measure("script", 2.0, [], places, {**os.environ, "TESTED_IN": str(tmp_path)}, log.fileno())
    found = record.read(str(tmp_path / "script.json"))
    assert found == {"status": "stopped", "items": [{"name": "one"}], "left_out": ["two"]}
    end = time.monotonic() + 60
    while (left := processes_with(f"TESTED_IN={tmp_path}")) and time.monotonic() < end:
        time.sleep(0.05)  # what is killed takes a moment to go
    assert left == []


def test_a_process_with_the_libraries_that_was_killed_is_started_again(tmp_path, monkeypatch):
    server = tmp_path / "server"
    server.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        '    if json.loads(line)["function"] == "die":\n'
        "        os._exit(1)\n"
        '    print(json.dumps({"result": {"pid": os.getpid()}}), flush=True)\n'
    )
    server.chmod(0o755)
    monkeypatch.setattr(forks.sys, "executable", str(server))
    with forks.forks(Setting(str(tmp_path), rehearses=True)) as process:
        first = process.call("pid", {}, 1.0)
        assert process.call("pid", {}, 1.0) == first
        os.kill(first["pid"], signal.SIGKILL)
        process._process.wait()
        second = process.call("pid", {}, 1.0)
        with pytest.raises(forks.CallFailed, match="the process with the libraries ended"):
            process.call("die", {}, 1.0)
        third = process.call("pid", {}, 1.0)
    assert len({one["pid"] for one in (first, second, third)}) == 3


def processes_with(mark):
    """The processes that have this variable in their environment."""
    return [pid for pid in filter(str.isdecimal, os.listdir("/proc")) if mark.encode() in variables_of(pid)]


def variables_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:  # it has ended, or is of another user
        return []


@pytest.mark.fidelity
@pytest.mark.long  # a minute, of a tool of our own
def test_a_rehearsal_of_the_first_item_of_each_part(tmp_path):
    pytest.importorskip("deepspeed")
    done = command("--rehearse", "--here", "--first", "--minutes", "6", "--out", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(os.listdir(tmp_path)) == sorted(["log.txt", *(f"{name}.json" for name in SHARES)])
    for name in SHARES:
        found = record.read(str(tmp_path / f"{name}.json"))
        assert (found["status"], len(found["items"])) == ("done", 1), name
        assert found["items"][0]["status"] not in BAD, found["items"]
        assert found["machine"]["rehearsal"] is True


@pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke")
def test_what_the_machine_lacks_is_packed():
    """Each requirement of deepspeed is packed, or known to be there."""
    with open(NEEDED, encoding="utf-8") as file:
        packed = {_folded(name) for name in strictly(file.read())["wheels"]}
    with open(rehearsal.THERE, encoding="utf-8") as file:
        there = {_folded(re.split("[=<>]", line)[0].strip()) for line in file if line.strip() and line[0] != "#"}
    wanted = {_folded(one) for one in importlib.metadata.requires("deepspeed") or [] if ";" not in one}
    assert wanted - packed - there == set()
    assert packed & there == set()


def _folded(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


@pytest.mark.parametrize("has_header", [True, False])
def test_headers_that_the_toolkit_lacks_come_with_torch(tmp_path, monkeypatch, has_header):
    of_torch = tmp_path / "site" / "nvidia" / "cu13" / "include"
    toolkit = tmp_path / "cuda" / "include"
    for folder in (of_torch, toolkit, tmp_path / "cuda" / "bin"):
        folder.mkdir(parents=True)
    (tmp_path / "cuda" / "bin" / "nvcc").touch()
    if has_header:
        (toolkit / "cusparse.h").touch()
    monkeypatch.setattr(builds.sysconfig, "get_path", lambda _name: str(tmp_path / "site"))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    monkeypatch.setenv("CPATH", "/mine")
    monkeypatch.setenv(builds.LIBAIO, "/aio")
    found = builds.environment(str(tmp_path))
    assert found["CPATH"].split(os.pathsep) == [*([] if has_header else [str(of_torch)]), "/aio/include", "/mine"]
    assert found["CUDA_HOME"] == str(tmp_path / "cuda")
    assert (found["LD_LIBRARY_PATH"].split(os.pathsep)[0], found["TORCH_EXTENSIONS_DIR"]) == ("/aio/lib", str(tmp_path))


def built(folder, op, **more):
    """An op as a build leaves it."""
    (folder / op).mkdir()
    (folder / op / f"{op}.so").touch()
    record.write(builds._place(str(folder), op), {"op": op, "is_built": True, "seconds": 9.0, "said": None, **more})


def test_a_later_call_builds_what_is_not_built(tmp_path, monkeypatch):
    assert builds.result(str(tmp_path), "utils") is None  # nothing builds it
    builds.prepare(str(tmp_path))
    built(tmp_path, "fused_adam")
    built(tmp_path, "cpu_adam", is_built=False, said="no compiler")
    built(tmp_path, "async_io")
    for op in ("async_io", "utils"):  # builds that were killed
        (tmp_path / op).mkdir(exist_ok=True)
        (tmp_path / op / "lock").touch()
    with open(tmp_path / "utils" / "lock", encoding="utf-8"):  # one that goes on has it open
        builds.prepare(str(tmp_path))
        assert (tmp_path / "utils" / "lock").exists()
    builds.prepare(str(tmp_path))
    assert list(tmp_path.glob("*/lock")) == []
    assert [one["op"] for one in builds.results(str(tmp_path))] == ["fused_adam", "async_io"]
    with pytest.raises(Later):
        builds.result(str(tmp_path), "cpu_adam")
    made = []
    monkeypatch.setattr(builds, "_build", lambda _ops, device, op: made.append((device, op)))
    assert builds.main(str(tmp_path), "cuda") == 0
    assert sorted(made) == [("cuda", op) for op in sorted({*builds.OPS["cuda"]} - {"fused_adam", "async_io"})]


def test_an_op_that_cannot_be_built_is_not_built_by_each_run(tmp_path, monkeypatch):
    monkeypatch.setenv("DS_LINT_GPU_OPS", str(tmp_path))
    items = [item for item in ops.items(Setting("")) if item.name.startswith("FusedAdam")]
    builds.prepare(str(tmp_path))
    with pytest.raises(Later):
        items[0].measure(None)
    built(tmp_path, "fused_adam", is_built=False, said="no compiler")
    assert [item.measure(None)["status"] for item in items] == ["error", "error"]
    assert items[0].measure(None)["error"] == "no compiler"


def test_a_claim_waits_for_the_ops_that_it_needs(tmp_path, monkeypatch):
    monkeypatch.setenv("DS_LINT_GPU_OPS", str(tmp_path))
    builds.prepare(str(tmp_path))
    claim = next(one for one in claims.CLAIMS if one.how.get("needed"))
    with pytest.raises(Later):
        claims._measured(Setting(str(tmp_path)), claim, None)


@pytest.mark.parametrize(
    ("found", "reference", "status"),
    [
        ("batch pass, dtypes pass, dtypes pass", "batch pass, dtypes pass, dtypes pass", "pass"),
        ("batch pass, dtypes pass, dtypes skip", "batch pass, dtypes pass, dtypes pass", "fail"),
        ("batch pass", "batch pass, dtypes pass", "fail"),
        ("batch pass, dtypes skip", "batch pass, dtypes fail", "fail"),
        ("batch fail", "batch pass", "fail"),
        ("batch fail", "batch fail", "pass"),
        ("start fail", "start fail", "fail"),
        # Only a GPU shows where tensors are, and that they are page-locked.
        ("offload pass, offload pass", "offload pass, coverage skip", "pass"),
        ("batch pass", None, "error"),
        (None, "batch pass", "error"),
        (None, None, "error"),
    ],
)
def test_a_run_passes_every_check_that_another_one_passes(found, reference, status):
    assert proving.compared(ended(found), ended(reference))["status"] == status


def ended(checks):
    """A run with these checks; none if it could not be made."""
    told = [one.split() for one in checks.split(", ")] if checks else []
    return {
        "status": "pass" if checks else "error",
        "checks": [{"id": name, "status": status, "message": ""} for name, status in told],
        "error": None if checks else "the process was killed",
    }


# ------------------------------------------------------------------------------------------------------------ the page


def results(folder, *items, machine=H100, part="smoke", left=()):
    folder.mkdir(parents=True, exist_ok=True)
    content = {"version": 1, "part": part, "machine": machine, "status": "done", "seconds": 1.0, "items": list(items)}
    record.write(str(folder / f"{part}.json"), {**content, "left_out": list(left)})
    return folder


def item(name, status="pass", share=0.5, **more):
    checks = [{"id": "averaging", "status": "pass", "message": "", "observed": share}]
    return {"name": name, "status": status, "seconds": 2.0, "checks": checks, **more}


def test_the_page_is_written_from_the_results():
    assert page.PAGE.read_text(encoding="utf-8") == page.rendered(page.RESULTS)


def test_a_page_without_results(tmp_path):
    assert "ds-lint has not run on a GPU yet" in page.rendered(tmp_path)


def test_later_results_of_a_day_are_joined_with_those_before(tmp_path):
    kept = tmp_path / "kept"
    page.take(results(tmp_path / "first", item("one", "error", error="x"), item("two"), left=["three"]), kept)
    (taken,) = page.take(results(tmp_path / "second", item("one", share=0.25), left=["three"]), kept)
    found = json.loads(taken.read_text())
    assert {one["name"]: one["status"] for one in found["items"]} == {"one": "pass", "two": "pass"}
    assert found["left_out"] == ["three"]
    text = page.rendered(kept)
    assert "## NVIDIA H100 80GB HBM3, 2026-11-27" in text
    assert "| 3 | 2 | 0 | 1 |" in text
    assert "`averaging`: the largest difference is 0.5 of its tolerance, in the median 0.38, over 2 runs." in text


def test_what_is_not_as_it_should_be_is_named(tmp_path):
    wrong = {"id": "offload", "status": "fail", "message": "it is not pinned"}
    results(tmp_path / "2026-11-27-h100", item("stage 2", "fail") | {"checks": [wrong]})
    assert "* stage 2: `offload`: it is not pinned" in page.rendered(tmp_path)


def test_what_is_not_checked_any_more_is_named(tmp_path):
    results(tmp_path / "2026-11-27-h100", item("stage 2", "fail", missing=["averaging", "update"]))
    assert "* stage 2: not checked: `averaging`, `update`" in page.rendered(tmp_path)


def test_memory_outside_the_band_is_not_as_expected(tmp_path):
    band = {"least": 2**30, "likely": 2**30, "most": 2**30}
    figures = dict.fromkeys(("peak_allocated", "peak_reserved", "allocated", "reserved", "process", "device"), 2**30)
    of_run = {
        "observed": {"initialization": figures, "first step": figures},
        "estimate": {phase: {"gpu": band, "tensors": band} for phase in ("initialization", "step")},
    }
    within = {"initialization": True, "first step": True}
    items = [
        {"name": "context", "status": "measured"},
        {"name": "one", "status": "measured", "within": within, **of_run},
        {"name": "two", "status": "measured", "within": within | {"first step": False}, **of_run},
        {"name": "three", "status": "out of memory", "within": within, "error": "none left", **of_run},
        {"name": "four", "status": "does not fit"},
    ]
    text = page.rendered(results(tmp_path / "2026-11-27-h100", *items, part="memory").parent)
    assert "| 5 | 2 | 2 | 1 |" in text
    assert "* two: outside the band: first step\n* three: none left\n" in text


def test_what_became_of_the_builds_stays_with_the_runs_that_need_them(tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept"
    results(out, item("FusedAdam, stage 2"), part="ops")
    failed = {"op": "utils", "is_built": False, "seconds": 3.0, "said": "g++: no\nerror: failed"}
    run._keep_builds(str(out), [failed, {"op": "fused_adam", "is_built": True, "seconds": 80.5, "said": None}])
    page.take(out, kept)
    page.take(results(tmp_path / "first", item("async_io"), part="ops"), kept)  # which had no builds
    assert "| fused_adam | 80.5 | built |\n| utils | 3 | `error: failed` |" in page.rendered(kept)


def test_results_of_a_rehearsal_are_refused(tmp_path, capsys):
    folder = results(tmp_path, item("one"), machine={**H100, "gpu": None, "rehearsal": True})
    before = page.PAGE.read_text(encoding="utf-8")
    assert page.main(["--take", str(folder)]) == 1
    assert "has the results of a rehearsal, which has measured no GPU" in capsys.readouterr().err
    assert page.PAGE.read_text(encoding="utf-8") == before


def test_no_folder_of_the_machine_is_kept(tmp_path):
    before = (
        '{"where": "/tmp/some-0/packages-1/deepspeed/ops/lion.py:1", "error": "File \\"/a/ds_lint/smoke/run.py\\""}'
    )
    result = {"part": "ops", "machine": H100, "items": [], "left_out": [], "seen": json.loads(before)}
    (tmp_path / "ops.json").write_text(json.dumps(result))
    (taken,) = page.take(tmp_path, tmp_path / "kept")
    seen = json.loads(taken.read_text())["seen"]
    assert seen == {"where": "deepspeed/ops/lion.py:1", "error": 'File "ds_lint/smoke/run.py"'}
