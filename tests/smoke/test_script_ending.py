"""How a start of the user's command ended: one sentence, and whether the script is the cause."""

from __future__ import annotations

import signal

import pytest

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.probe.plan import Plan
from ds_lint.smoke.records.job import Raised
from ds_lint.smoke.script.command_start import CommandEnd
from ds_lint.smoke.script.ending import exit_of, failure, interrupted
from ds_lint.smoke.script.hooked import HookedPython
from ds_lint.smoke.script.processes import ScriptProcess
from ds_lint.smoke.script.proof import _ends_of_second
from ds_lint.smoke.script.restore import Restored

PLAN = Plan("/run")
ENGINES = {1: []}


def process(rank=0, phase="step", raised=None, unable=None, ended=None):
    return ScriptProcess(100 + (rank or 0), rank, None, phase, raised, unable, ended, None, {}, [], [])


def told(*processes, status=1, engines=None, hooked=()):
    end = CommandEnd(status, 1.0, list(processes), engines or {}, list(hooked), [], Restored([], [], [], []))
    return failure(end, PLAN, 60.0)


def test_ranks_that_are_done_have_not_failed_whatever_the_launcher_says():
    assert told(process(0, "done"), process(1, "done"), process(None, "import"), status=1) is None


def test_two_trainings_at_the_same_time_cannot_be_told_apart():
    found = told(process(0, "done"), process(1, "done"), process(0, "done"), process(1, "done"), status=0)
    assert found.message == "the command starts 2 trainings at the same time: name the launch of one of them"
    assert not found.is_of_script


def test_a_script_that_ends_before_the_steps_has_not_failed():
    assert told(process(), status=0, engines=ENGINES) is None


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("import", "while it imports its libraries"),
        ("before initialize", "before deepspeed.initialize"),
        ("initialize", "in deepspeed.initialize"),
        ("after initialize", "between deepspeed.initialize and its first step"),
        ("step", "in a training step"),
        ("save", "while it saves"),
        ("load", "while it loads the checkpoint"),
    ],
)
def test_each_phase_has_its_words(phase, words):
    raised = Raised("ValueError", "no such layer", phase, "train.py:3 main")
    found = told(process(phase=phase, raised=raised))
    assert found.message == f"the script raises {words}: ValueError: no such layer"
    assert (found.is_of_script, found.where) == (False, "train.py:3 main")
    assert told(process(phase=phase, raised=raised), engines=ENGINES).is_of_script


def test_an_exception_without_a_text_is_told_with_its_place():
    raised = Raised("AssertionError", "", "load", "deepspeed/runtime/state_dict_factory.py:168 check_ckpt_list")
    assert told(process(phase="load", raised=raised)).message == (
        "the script raises while it loads the checkpoint: AssertionError at "
        "deepspeed/runtime/state_dict_factory.py:168 check_ckpt_list"
    )


def test_the_rank_that_raised_first_is_told_and_not_the_one_that_lost_it():
    lost = Raised("RuntimeError", "Connection closed by peer", "step", cause="peer")
    own = Raised("KeyError", "'labels'", "step")
    found = told(process(0, raised=lost), process(1, raised=own), engines=ENGINES)
    assert found.message == "the script raises in a training step: KeyError: 'labels'"


def test_what_is_not_on_the_machine_is_told_before_what_follows_from_it():
    raised = Raised("OSError", "offline", "before initialize")
    found = told(process(raised=raised, unable="the data set wikitext is not on this machine"), engines=ENGINES)
    assert (found.message, found.is_of_script) == ("the data set wikitext is not on this machine", False)


def test_a_command_that_takes_too_long_names_where_each_rank_is():
    found = told(process(0, "step"), process(1, "initialize"), status=None, engines=ENGINES)
    assert found.message == (
        "the command did not finish within 60 s (--timeout): rank 0 in a training step, rank 1 in deepspeed.initialize"
    )
    assert not found.is_of_script


def test_a_command_that_drops_the_hook_is_told_the_way_round_it():
    found = told(status=0)
    assert found.message.startswith("no Python of the command has run the startup hook of ds-lint")
    assert found.message.endswith("make `import ds_lint.smoke.probe` the first line of the script")


@pytest.mark.parametrize(("status", "words"), [(0, "no Python that has run"), (2, "the command ends with status 2")])
def test_a_command_that_does_not_train_is_named(status, words):
    found = told(status=status, hooked=[HookedPython(7, "3.11.7", "", ["/usr/bin/python3", "prepare.py"])])
    assert found.message.startswith(words)
    assert "`python3 prepare.py`" in found.message


def test_a_command_that_fails_before_any_python():
    assert told(status=2).message.startswith(
        "the command ends with status 2, and no Python of it has run the startup hook of ds-lint: if the command sets "
    )


def test_a_command_that_ends_without_an_engine():
    found = told(process(phase="before initialize"), status=0)
    assert found.message == "the command ends before deepspeed.initialize, without an engine of DeepSpeed"


@pytest.mark.parametrize(
    ("status", "exits"), [("skip", ["ok"]), ("fail", ["ok", "exception"]), (None, ["ok", "exception"])]
)
def test_an_exception_that_a_skipped_check_explains_is_not_told_again(status, exits):
    """The loss of the script does not fit the inputs that the second start repeats."""
    raised = Raised("ValueError", "Expected input batch_size (4) to match target batch_size (6)", "step")
    ranks = [process(0, "done"), process(1, raised=raised)]
    second = CommandEnd(1, 1.0, ranks, ENGINES, [], [], Restored([], [], [], []))
    checks = [Check("resume", status, None, "", None, None, "why")] if status is not None else []
    assert [end.exit for end in _ends_of_second(second, checks)] == exits


def test_ranks_that_import_no_training_library():
    found = told(process(phase="import"), process(1, "import"), status=0)
    assert found.message == "the command ends, and no rank imports deepspeed, transformers or accelerate"


def test_a_script_that_ends_itself_is_told_so():
    found = told(process(ended="os._exit(3)"), status=3, engines=ENGINES)
    assert found.message == "the command ends with status 3 in a training step: the script calls os._exit(3)"


@pytest.mark.parametrize(
    ("status", "how"),
    [
        (3, "ends with status 3 while it saves, because a rank is killed: if by SIGKILL, memory has usually run out"),
        (-signal.SIGKILL, "is killed by SIGKILL while it saves; the system usually does this when memory runs out"),
        (-signal.SIGSEGV, "is killed by SIGSEGV while it saves"),
    ],
)
def test_ranks_that_are_killed_are_not_the_fault_of_the_script(status, how):
    found = told(process(phase="save"), process(1, "step"), status=status, engines=ENGINES)
    assert (found.message, found.is_of_script) == (f"the command {how}", False)


@pytest.mark.parametrize(("silent", "which"), [((1,), "rank 1"), ((1, 2), "a rank")])
def test_a_rank_that_lost_a_killed_one_is_not_the_first_that_failed(silent, which):
    lost = Raised("RuntimeError", "Connection closed by peer", "step", cause="peer")
    ranks = [process(0, raised=lost, ended="exit"), *map(process, silent)]
    found = told(*ranks, engines=ENGINES)
    assert not found.is_of_script
    assert found.message == (
        f"the command ends with status 1 in a training step, because {which} is killed: if by SIGKILL, memory has "
        "usually run out"
    )
    end = CommandEnd(1, 1.0, ranks, ENGINES, [], [], Restored([], [], [], []))
    assert exit_of(ranks[1], end) == "signal"


def test_ranks_that_lose_each_other_are_the_failure_of_the_script():
    lost = Raised("DistBackendError", "NCCL error: invalid usage", "step", cause="peer")
    assert told(process(0, raised=lost), process(1, raised=lost), engines=ENGINES).is_of_script


@pytest.mark.parametrize(
    ("kind", "first", "words"),
    [
        (
            "KeyError",
            "Caught KeyError in DataLoader worker process 0.\nOriginal ",
            "KeyError: Caught KeyError in DataLoader worker process 0: KeyError: 'text'",
        ),
        (
            "ProcessRaisedException",
            "\n\n-- Process 1 terminated with the following error:\n",
            "ProcessRaisedException: -- Process 1 terminated with the following error: KeyError: 'text'",
        ),
    ],
)
def test_an_exception_of_a_worker_is_told_with_its_place(kind, first, words):
    frames = '  File "/env/site-packages/torch/x.py", line 4, in run\n  File "/mine/data.py", line 7, in __getitem__\n'
    text = f"{first}Traceback (most recent call last):\n{frames}    raise KeyError\nKeyError: 'text'\n"
    found = told(process(raised=Raised(kind, text, "step", "torch/_utils.py:794 reraise")), engines=ENGINES)
    assert found.message == f"the script raises in a training step: {words}"
    assert found.where == "/mine/data.py:7 __getitem__"


def test_an_exception_of_spawned_ranks_is_told_by_their_parent():
    text = (
        "\n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\nValueError: mine\n"
    )
    parent = process(None, "before initialize", Raised("ProcessRaisedException", text, "before initialize"))
    ranks = [process(rank, "after initialize", ended="exit") for rank in (0, 1)]
    assert told(*ranks, parent, engines=ENGINES).message == (
        "the script raises between deepspeed.initialize and its first step: ProcessRaisedException: -- Process 1 "
        "terminated with the following error: ValueError: mine"
    )


def test_an_exception_of_a_launcher_is_not_one_of_the_script():
    raised = Raised("ValueError", "No slot '1'", "before initialize", "deepspeed/launcher/runner.py:331 main")
    found = told(process(None, "before initialize", raised))
    assert found.message == "the launcher raises before it starts a rank: ValueError: No slot '1'"


@pytest.mark.parametrize(
    ("processes", "phase"),
    [
        ([], "before it imports deepspeed, transformers or accelerate"),
        ([process(0, "step"), process(1, "import")], "in a training step"),
    ],
)
def test_what_a_signal_has_ended(processes, phase):
    ending = "its processes and temporary files are removed"
    assert interrupted("Ctrl-C", processes) == f"Ctrl-C ended the run of the script {phase}; {ending}"


@pytest.mark.parametrize(
    ("where", "is_ours"),
    [
        ("ds_lint/smoke/probe/replay.py:7 forward", True),
        ("ds_lint/smoke/standins/kernels.py:7 adam", False),  # which raises what the kernel would
        ("deepspeed/runtime/engine.py:7 step", False),
    ],
)
def test_an_exception_of_the_probe_is_not_one_of_the_script(where, is_ours):
    found = told(process(raised=Raised("ValueError", "no", "step", where)), engines=ENGINES)
    assert found.message.startswith("ds-lint itself raises in a training step: ValueError: no") == is_ours
    assert found.is_of_script == (not is_ours)


def test_a_call_that_one_rank_alone_makes_is_named_where_the_ranks_hang():
    caller = process(0)._replace(call="state_dict", calls={"state_dict": 1})
    found = told(caller, process(1), status=None, engines=ENGINES)
    assert found.message == (
        "rank 0 waits in `state_dict` for rank 1, which does not call it; the command did not finish within 60 s "
        "(--timeout): rank 0 in `state_dict`, rank 1 in a training step"
    )
    assert found.is_of_script


def test_a_call_whose_collective_has_met_that_of_a_training_step_is_named():
    found = told(process(0)._replace(calls={"state_dict": 1}), process(1), status=None, engines=ENGINES)
    assert found.message.startswith("rank 0 has called `state_dict`, which all ranks have to, and rank 1 has not; ")


def test_ranks_that_are_all_in_the_same_call_are_slow_and_not_apart():
    ranks = [process(rank)._replace(call="save", calls={"save": 1}) for rank in (0, 1)]
    assert not told(*ranks, status=None, engines=ENGINES).is_of_script
