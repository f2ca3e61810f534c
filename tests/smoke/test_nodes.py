"""A command on several nodes: each is watched and restored by itself. The other node is a namespace with a name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from command_line import clean_environment
from nodes import SecondNode, has_namespaces

from ds_lint.smoke.journal import areas, hook
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.records.rendezvous import host_of, hosts
from ds_lint.smoke.script import command_start, elsewhere, ending, node_agent
from ds_lint.smoke.script.gathering import Gathering, Nodes, rank_of_node
from ds_lint.smoke.script.restore import restore

END_OF_AGENT = """
for pid in filter(str.isdecimal, os.listdir("/proc")):
    try:
        line = open(f"/proc/{pid}/cmdline").read()
    except OSError:
        continue
    if "node_agent" in line and os.path.dirname(os.environ["DS_LINT_PROBE"]) in line:
        os.kill(int(pid), 9)
"""


@pytest.fixture
def second_node(tmp_path):
    node = SecondNode(tmp_path)
    yield node
    node.end()


class CommandElsewhere:
    """A script with made-up training libraries, which runs on the second node only."""

    def __init__(self, path, node):
        self.path, self.node = path, node
        (self.path / "transformers.py").write_text("")
        run = path / "ds-lint-smoke-run"
        run.mkdir()
        areas.note_driver(str(run))
        self.plan = plans.Plan(str(run))

    def run(self, code, *words, seconds=60.0):
        (self.path / "train.py").write_text(f"import os, transformers\n{code}")
        end = command_start.run([*self.node.around, *(words or [sys.executable, "train.py"])], self.plan, seconds)
        return end, getattr(ending.failure(end, self.plan, seconds), "message", None)


@pytest.fixture
def command(tmp_path, second_node, monkeypatch, capfd):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.chdir(tmp_path)
    return CommandElsewhere(tmp_path.resolve(), second_node)


@has_namespaces
def test_a_node_restores_the_files_that_only_it_has(command):
    end, _ = command.run("open('disk/notes', 'a').write('more'); open('shared', 'w').write('new')")
    assert [one.node for one in end.processes] == ["n2"]
    assert (command.node.notes, (command.path / "shared").exists()) == ("mine\n", False)
    assert areas.nodes_to_restore(command.plan.folder) == []
    assert not Path("/tmp", f"{Path(command.plan.folder).name}.node").exists()


@has_namespaces
def test_a_node_whose_agent_was_killed_is_restored_by_another_start(command):
    command.run(f"open('disk/notes', 'a').write('more')\n{END_OF_AGENT}")
    assert command.node.notes == "mine\nmore"
    assert areas.nodes_to_restore(command.plan.folder) == ["n2"]
    assert elsewhere.needs_restoring(command.plan)
    again = command_start.environment_of(command.plan._replace(part=plans.RESTORE))
    elsewhere.restore_nodes([*command.node.around, sys.executable, "train.py"], again)
    assert (command.node.notes, areas.nodes_to_restore(command.plan.folder)) == ("mine\n", [])


@has_namespaces
def test_a_rank_that_is_killed_on_another_node_is_named(command, monkeypatch):
    monkeypatch.setattr(elsewhere, "_GRACE", 0.5)
    end, message = command.run("os.kill(os.getpid(), 9)", "sh", "-c", f"{sys.executable} train.py; sleep 60")
    assert message == "rank 0 on n2 is killed: if by SIGKILL, memory has usually run out"
    assert end.seconds < 30


@pytest.mark.parametrize("word", ["-c", "-m"])
def test_a_python_on_a_node_without_the_folder_ends_and_names_it(word, tmp_path):
    missing = tmp_path / "ds-lint-smoke-none"
    environment = clean_environment() | {plans.VARIABLE: str(missing / "plan-train.json")}
    environment["PYTHONPATH"] = os.pathsep.join([command_start._STARTUP, environment["PYTHONPATH"]])
    done = subprocess.run([sys.executable, word, "this"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == elsewhere.UNSEEN
    assert done.stderr == (
        f"ds-lint: {areas.own_node()} does not see {missing}, the folder of the run: "
        "all nodes must share it (--folder)\n"
    )


def test_the_plan_comes_with_pythonpath_alone(tmp_path):
    """The deepspeed launcher passes that on to other nodes, and no variable of ds-lint."""
    plan = plans.Plan(str(tmp_path / "ds-lint-smoke-run"))
    os.makedirs(plan.own_folder)
    given = {"PYTHONPATH": command_start.environment_of(plan)["PYTHONPATH"], "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", "pass"], env=given, check=True)
    assert any(name.startswith("python-") for name in os.listdir(plan.own_folder))


def test_paths_that_nodes_share_have_one_journal_and_others_one_for_each_node(tmp_path, monkeypatch):
    run = tmp_path / "ds-lint-smoke-run"
    run.mkdir()
    areas.note_driver(str(run))
    shared, private = tmp_path / "shared", tmp_path / "private"
    assert areas.Areas(str(run)).of(str(private)) == str(run)
    monkeypatch.setattr(areas, "_device", lambda path: 1 if "private" in path else 2)
    for node in ("n2", "n3"):
        monkeypatch.setattr(areas, "own_node", lambda node=node: node)
        journal = hook.Journal(str(run))
        journal.about_to(hook.WRITTEN, shared)
        journal.about_to(hook.WRITTEN, private)
    assert areas.nodes_to_restore(str(run)) == ["n2", "n3"]
    (own,) = areas.restored_here(str(run))
    restore(own)
    assert areas.nodes_to_restore(str(run)) == ["n2"]


def test_ranks_that_no_hook_observes_are_named(tmp_path):
    plan = plans.Plan(str(tmp_path))
    os.makedirs(plan.own_folder)
    facts = {
        "pid": 1, "rank": 0, "started_by": None, "phase": "step", "raised": None, "seconds": {}, "unable": None,
        "ended": None, "port": None, "adaptations": [], "shrunk": [], "node": "n1", "world_size": 2, "hosts": "n[1-2]",
    }  # fmt: skip
    Path(plan.own_folder, "process-1.json").write_text(json.dumps(facts))
    others = elsewhere.Elsewhere(plan)
    assert others._look(0.0) is None
    assert others._look(elsewhere._TELLING + 1.0) == (
        "rank 1 trains on n2 without the startup hook of ds-lint: pass PYTHONPATH on to every node "
        "(mpirun: -x PYTHONPATH)"
    )


@pytest.mark.parametrize(("cause", "counted"), [(None, ["0"]), ("peer", [])])
def test_an_exception_counts_unless_it_comes_from_the_end_of_another_rank(cause, counted, tmp_path):
    """The other one may have died with its node, which shows a little later."""
    plan = plans.Plan(str(tmp_path))
    os.makedirs(plan.own_folder)
    raised = {"kind": "RuntimeError", "text": "Connection closed by peer", "where": "train.py:3 main", "cause": cause}
    facts = {
        "pid": 1, "rank": 0, "started_by": None, "phase": "step", "raised": raised, "seconds": {}, "unable": None,
        "ended": None, "port": None, "adaptations": [], "shrunk": [], "node": areas.own_node(), "world_size": 2,
    }  # fmt: skip
    Path(plan.own_folder, "process-1.json").write_text(json.dumps(facts))
    assert node_agent._ended(plan, []) == {node_agent.KILLED: [], node_agent.RAISED: counted}


@pytest.fixture
def gather(tmp_path, monkeypatch):
    """What becomes of the nodes of these names, each of which starts ds-lint smoke in one folder."""
    monkeypatch.setattr(areas, "own_node", lambda: threading.current_thread().name)

    def start(*names, number=2, seconds=20.0):
        ends = {}

        def meet(rank):
            name = threading.current_thread().name
            gathering = Gathering(str(tmp_path), Nodes(number, rank, "key", seconds))
            try:
                if gathering.leads():
                    run = tmp_path / "run"
                    run.mkdir()
                    ends[name] = gathering.lead(str(run))
                else:
                    ends[name] = gathering.follow().leader
            except CouldNotRun as error:
                ends[name] = str(error)
            finally:
                gathering.leave()

        threads = [threading.Thread(target=meet, args=(rank,), name=name) for rank, name in enumerate(names)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends

    return start


def test_the_node_of_the_first_rank_leads(gather, tmp_path):
    stale = tmp_path / "ds-lint-smoke-nodes-key"  # of a run that was killed
    stale.mkdir()
    (stale / "member-000000-0123-n9").write_text("77-3")
    assert gather("n1", "n2") == {"n1": ["n2"], "n2": "n1"}
    assert os.listdir(tmp_path) == ["run"]


def test_a_node_that_waits_in_vain_names_those_that_came(gather, tmp_path):
    assert gather("n1", seconds=1.0) == {
        "n1": "only n1 of 2 nodes started ds-lint smoke within 1 s (--node-timeout): "
        f"start it on each, in a folder that all nodes share: {tmp_path}"
    }
    assert os.listdir(tmp_path) == []


@has_namespaces
def test_two_nodes_make_one_run_and_leave_nothing(tmp_path, second_node):
    for name in ("transformers", "deepspeed"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "train.py").write_text(textwrap.dedent("import transformers, sys; sys.exit(3)"))
    ds_lint = [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--nodes", "2", "--node-timeout", "60", "--"]
    environment = clean_environment() | {"MASTER_PORT": "29499", "PYTHONDONTWRITEBYTECODE": "1"}
    nodes = [
        subprocess.Popen(
            [*around, *ds_lint, sys.executable, "train.py"],
            cwd=tmp_path, env=environment | {"NODE_RANK": str(rank), "RANK": str(rank), "LOCAL_RANK": "0"},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank, around in enumerate([[], second_node.around])
    ]  # fmt: skip
    (_, led), (_, followed) = [node.communicate(timeout=120) for node in nodes]
    assert [node.returncode for node in nodes] == [2, 0]
    assert "the command ends with status 3 before deepspeed.initialize: the script exits by itself" in led
    assert followed.splitlines()[-1] == f"ds-lint: {areas.own_node()} has the report"
    assert sorted(os.listdir(tmp_path)) == ["deepspeed.py", "disk", "train.py", "transformers.py"]


def test_hosts_of_a_list_of_slurm():
    assert hosts("gpu[003-005,7],login,a[1-2]-ib") == ["gpu003", "gpu004", "gpu005", "gpu7", "login", "a1-ib", "a2-ib"]
    step = {"SLURM_PROCID": "0", "SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "2,1"}
    assert [host_of(rank, step) for rank in range(4)] == ["n1", "n1", "n2", None]
    assert host_of(0, {}) is None


@pytest.mark.parametrize(
    ("command", "variables", "rank"),
    [
        (["torchrun", "--node-rank=1", "train.py"], {}, 1),
        (["torchrun", "--node_rank", "0", "train.py"], {"SLURM_NODEID": "3"}, 0),
        (["accelerate", "launch", "--machine_rank", "2", "train.py"], {}, 2),
        (["bash", "run.sh"], {"SLURM_NODEID": "3"}, 3),
        (["torchrun", "--rdzv-backend=c10d", "train.py"], {}, None),
    ],
)
def test_the_rank_of_a_node(command, variables, rank):
    assert rank_of_node(command, variables) == rank
