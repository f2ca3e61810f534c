"""Lenses that run a config or a launch for a few steps, and what the editor shows of it."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import time

import pytest
from command_line import ROOT, write_into

REFRESH = "workspace/codeLens/refresh"
ABLE = {
    "workspace": {"executeCommand": {}, "codeLens": {"refreshSupport": True}},
    "window": {"workDoneProgress": True},
}
RUN, CANCEL, LAUNCH = "ds-lint.runConfig", "ds-lint.cancelRun", "ds-lint.runLaunch"
CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
TEXT = json.dumps(CONFIG, indent=2)
OFFERED, ACTIVE = "Run a few training steps", "Running a few training steps (click to cancel)"

# A pool that trains with nothing: it waits for a file, and says that the engine runs another stage.
FAKE = """
import os, time
import ds_lint.lsp.warm_pool as warm
from ds_lint.diagnostics.verdict import Check
from smoke_runs import verdict

def prove(self, document, context, on_phase):
    self.is_cancelled = False
    on_phase("initialize")
    with open("begun", "a") as file:
        file.write(f"{os.path.basename(document.path)}\\n")
    while not os.path.exists("go") and not self.is_cancelled:
        time.sleep(0.01)
    check = Check("stage", "fail", "zero_optimization.stage", 3, 0, None, "the engine runs ZeRO stage 0")
    return warm.RunAnswer("failed on 2 CPU ranks", [verdict(path=document.path, status="fail", checks=[check])])

def cancel(self):
    self.is_cancelled = True

warm.WarmPool.prove, warm.WarmPool.cancel = prove, cancel

import ds_lint.lsp.launch_lines as launches
from ds_lint.session.launch_runs import LaunchOutcome

class Process:
    def __init__(self, wanted, first_on_path):
        self.path = os.path.join(wanted.folder, "ds.json")

    def outcome(self, on_line):
        on_line("step 1")
        check = Check("stage", "fail", "zero_optimization.stage", 3, 0, None, "the engine runs ZeRO stage 0")
        found = {
            "code": "DS902", "message": "the engine runs ZeRO stage 0", "help": "", "severity": "error", "url": "x:y",
            "path": self.path, "key": "zero_optimization.stage", "span": {"start": {"line": 4}},
        }
        other = {**found, "code": "DS101"}
        return LaunchOutcome([verdict(path=self.path, status="fail", checks=[check])], [other, found])

launches.LaunchProcess = Process
"""


def lenses(client, name="ds.json"):
    return client.request("textDocument/codeLens", textDocument={"uri": client.uri(name)})


def title(client, name="ds.json"):
    (lens,) = lenses(client, name)
    return lens["command"]["title"]


def click(client, name="ds.json", index=0):
    command = lenses(client, name)[index]["command"]
    client.request("workspace/executeCommand", command=command["command"], arguments=command["arguments"])


def wait_until(client, is_so, seconds=20):
    """Take messages until something is so."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, client.notifications
        try:
            client._next(0.1)
        except queue.Empty:
            continue


def progress(client):
    return [one["params"]["value"] for one in client.notifications if one["method"] == "$/progress"]


def codes(client, name="ds.json"):
    """The codes of the findings that were sent last."""
    sent = [
        one["params"]["diagnostics"]
        for one in client.notifications
        if one["method"] == "textDocument/publishDiagnostics" and one["params"]["uri"] == client.uri(name)
    ]
    return {found["code"]: found["range"]["start"]["line"] for found in sent[-1]} if sent else {}


@pytest.fixture
def project(tmp_path):
    return write_into(tmp_path)


@pytest.fixture
def faked(start, tmp_path):
    """A client of a server with the pool that trains with nothing."""
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "sitecustomize.py").write_text(FAKE, encoding="utf-8")
    path = os.pathsep.join([str(tmp_path / "startup"), ROOT, os.path.join(ROOT, "tests")])
    return start(PYTHONPATH=path).initialize(capabilities=ABLE)


def begun(tmp_path):
    return (tmp_path / "begun").read_text().split() if (tmp_path / "begun").exists() else []


def test_a_run_shows_its_headline_and_its_findings(faked, tmp_path):
    faked.open("ds.json", TEXT)
    assert title(faked) == OFFERED
    click(faked)
    wait_until(faked, lambda: progress(faked))
    (tmp_path / "go").touch()
    wait_until(faked, lambda: "DS902" in codes(faked))
    assert codes(faked)["DS902"] == TEXT.splitlines().index('    "stage": 3')
    assert title(faked) == "failed on 2 CPU ranks"
    wait_until(faked, lambda: progress(faked) and progress(faked)[-1]["kind"] == "end")
    assert progress(faked)[0] == {"kind": "begin", "title": "Training with ds.json", "cancellable": True}
    assert any(asked["method"] == REFRESH for asked in faked.asked)


def test_the_result_goes_when_the_text_changes(faked, tmp_path):
    (tmp_path / "go").touch()
    faked.open("ds.json", TEXT)
    click(faked)
    wait_until(faked, lambda: "DS902" in codes(faked))
    faked.save("ds.json")  # the text is the same
    assert title(faked) == "failed on 2 CPU ranks"
    faked.change("ds.json", TEXT.replace("3", "2"))
    wait_until(faked, lambda: "DS902" not in codes(faked))
    assert title(faked) == OFFERED


def test_a_run_of_an_old_text_shows_nothing(faked, tmp_path):
    faked.open("ds.json", TEXT)
    click(faked)
    wait_until(faked, lambda: begun(tmp_path) == ["ds.json"])
    assert title(faked) == ACTIVE  # the server answers meanwhile
    faked.change("ds.json", f"\n{TEXT}")
    assert title(faked) == OFFERED
    (tmp_path / "go").touch()
    click(faked)
    wait_until(faked, lambda: "DS902" in codes(faked))
    assert begun(tmp_path) == ["ds.json", "ds.json"]
    assert codes(faked)["DS902"] == TEXT.splitlines().index('    "stage": 3') + 1


def test_runs_wait_for_each_other_and_can_be_cancelled(faked, tmp_path):
    for name in ("ds.json", "other.json"):
        faked.open(name, TEXT)
        click(faked, name)
    wait_until(faked, lambda: begun(tmp_path))
    assert title(faked, "other.json") == ACTIVE
    click(faked)  # on the lens of the run that is made
    wait_until(faked, lambda: len(begun(tmp_path)) == 2)
    assert title(faked) == OFFERED
    wait_until(faked, lambda: len([one for one in progress(faked) if one["kind"] == "begin"]) == 2)
    tokens = [one["params"]["token"] for one in faked.notifications if one["method"] == "$/progress"]
    faked.notify("window/workDoneProgress/cancel", token=tokens[-1])
    wait_until(faked, lambda: title(faked, "other.json") == OFFERED)
    assert codes(faked) == codes(faked, "other.json") == {}


@pytest.mark.parametrize(
    ("capabilities", "settings"),
    [({"workspace": {"codeLens": {}}}, {}), (ABLE, {"runLenses": False})],
    ids=["the client runs no commands", "the setting"],
)
def test_there_is_no_lens_that_cannot_be_used_or_is_not_wanted(start, project, capabilities, settings):
    project({"run.sh": "python train.py --deepspeed ds.json\n"})
    client = start().initialize(capabilities=capabilities, options=settings)
    client.open("ds.json", TEXT)
    client.open("run.sh", "python train.py --deepspeed ds.json\n", "shellscript")
    assert lenses(client) == lenses(client, "run.sh") == []


def test_libraries_that_cannot_be_imported_are_an_error(start, project, tmp_path):
    project({"broken/accelerate.py": "raise ModuleNotFoundError(\"No module named 'hjson'\")\n"})
    client = start(PYTHONPATH=os.pathsep.join([str(tmp_path / "broken"), ROOT])).initialize(capabilities=ABLE)
    client.open("ds.json", TEXT)
    click(client)
    wait_until(client, client.shown)
    assert client.shown()[0].startswith(
        "ds-lint: could not run: the libraries cannot be imported: ModuleNotFoundError: No module named 'hjson'"
    )
    assert title(client) == client.shown()[0].removeprefix("ds-lint: ")
    assert client.end() == 0


SCRIPT = f"""python train.py --deepspeed ds.json
{sys.executable} train.py --deepspeed ds.json --lr $LR
srun torchrun --nnodes 2 --nproc_per_node 8 train.py --deepspeed ds.json
"""


def test_a_launch_has_a_lens_if_its_words_are_known_and_one_node_runs_it(start, project):
    project({"train.py": "print('x')\n"})
    client = start().initialize(capabilities=ABLE)
    client.open("run.sh", SCRIPT, "shellscript")
    client.open("Makefile", "train:\n\tdeepspeed --num_gpus 2 train.py --deepspeed ds.json\n", "makefile")
    assert [one["range"]["start"]["line"] for one in lenses(client, "run.sh")] == [0]
    assert title(client, "Makefile") == "Run a few steps of this launch"
    client.change("run.sh", f"\nLR=1\n{SCRIPT}")
    assert [one["range"]["start"]["line"] for one in lenses(client, "run.sh")] == [2, 3]


def test_a_launch_runs_on_a_click_only_where_the_user_trusts_the_folder(start, project, tmp_path):
    project({"train.py": "open('trained', 'w')\n"})
    client = start().initialize(capabilities=ABLE, options={"mayLaunch": False})
    client.open("run.sh", SCRIPT, "shellscript")
    assert lenses(client, "run.sh") == []
    arguments = {"command": LAUNCH, "arguments": [client.uri("run.sh"), 0]}
    told = client.error(client.start_request("workspace/executeCommand", arguments))
    assert told["message"] == "a launch runs only in a folder that the user trusts"
    assert not (tmp_path / "trained").exists()


def test_a_launch_runs_in_a_process_that_says_why_it_could_not(start, project):
    project({"train.py": "open('trained', 'w')\n", "ds.json": CONFIG})
    client = start().initialize(capabilities=ABLE)
    client.open("run.sh", SCRIPT, "shellscript")
    click(client, "run.sh")
    wait_until(client, lambda: title(client, "run.sh") not in ("Run a few steps of this launch", ACTIVE))
    assert title(client, "run.sh").startswith("could not run in ")
    assert "the startup hook of ds-lint" in title(client, "run.sh")


def test_what_a_launch_shows_stands_at_its_line_and_in_the_config(faked, project):
    project({"ds.json": TEXT})
    faked.open("ds.json", TEXT)
    faked.open("run.sh", f"\n{SCRIPT}", "shellscript")
    click(faked, "run.sh")
    wait_until(faked, lambda: "DS902" in codes(faked, "run.sh") and "DS902" in codes(faked))
    assert codes(faked, "run.sh")["DS902"] == 1
    assert "DS101" not in codes(faked, "run.sh")  # which is not of the run
    assert codes(faked)["DS902"] == TEXT.splitlines().index('    "stage": 3')
    assert title(faked, "run.sh").startswith("failed on 2 CPU ranks")
    faked.change("ds.json", f"\n{TEXT}")  # the run was made with another config
    wait_until(faked, lambda: "DS902" not in {**codes(faked, "run.sh"), **codes(faked)})
    assert title(faked, "run.sh") == "Run a few steps of this launch"


def test_a_cancelled_launch_leaves_no_process(start, project, tmp_path):
    endless = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    project({"train.py": endless, "ds.json": CONFIG})
    client = start().initialize(capabilities=ABLE)
    client.open("run.sh", SCRIPT, "shellscript")
    click(client, "run.sh")
    process = pid(client, tmp_path)
    click(client, "run.sh")
    assert title(client, "run.sh") == "Run a few steps of this launch"
    wait_until_gone(process)


def test_a_launch_ends_with_the_server(start, project, tmp_path):
    endless = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    project({"train.py": endless, "ds.json": CONFIG})
    client = start().initialize(capabilities=ABLE)
    client.open("run.sh", SCRIPT, "shellscript")
    click(client, "run.sh")
    process = pid(client, tmp_path)
    client.process.kill()
    wait_until_gone(process)


def pid(client, tmp_path):
    """The process of the script, as it has written it."""
    wait_until(client, lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    return int((tmp_path / "pid").read_text())


def wait_until_gone(process):
    until = time.monotonic() + 15
    while os.path.exists(f"/proc/{process}"):
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.long
def test_the_server_trains_with_the_real_libraries_and_imports_none(start, tmp_path):
    client = start(TMPDIR=str(tmp_path)).initialize(capabilities=ABLE)
    seconds = []
    for number in range(3):
        name = f"ds{number}.json"
        client.open(name, json.dumps({**CONFIG, "zero_optimization": {"stage": number}, "bf16": {"enabled": True}}))
        began = time.monotonic()
        click(client, name)
        wait_until(client, lambda name=name: title(client, name) not in (OFFERED, ACTIVE), 120)
        seconds.append(time.monotonic() - began)
        assert " on 2 CPU ranks, deepspeed stack, " in title(client, name)
    assert max(seconds[1:]) < seconds[0] / 2  # the process is warm
    with open(f"/proc/{client.process.pid}/maps", encoding="utf-8") as maps:
        assert "torch" not in maps.read()
    pools = subprocess.run(["pgrep", "-P", str(client.process.pid)], capture_output=True, text=True, check=True)
    client.process.kill()  # and nothing is left of it
    wait_until_gone(int(pools.stdout))
    assert not list(tmp_path.glob("ds-lint-smoke-*"))
