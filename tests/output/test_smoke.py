"""A training run in the terminal, in one line a check, and in the JSON report."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
import smoke_runs as runs
from jsonschema import Draft7Validator

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE, SCRIPT, STATUSES, Adaptation, Held, RankEnd
from ds_lint.knowledge import resources
from ds_lint.output import smoke
from ds_lint.output.concise import render as concise
from ds_lint.output.full import render as full
from ds_lint.output.json import render as as_json
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span


def expected(text: str) -> str:
    return dedent(text).strip("\n")


def told(*verdicts, width=None, colour=False, encoding="utf-8"):
    return "\n".join(smoke.lines(list(verdicts), Terminal(width, colour, encoding)))


@pytest.fixture(scope="session")
def schema():
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as file:
        return json.load(file)


@pytest.fixture
def rendered(schema, report, file):
    """The runs of a report as an object, after the schema has accepted it."""

    def read(*verdicts):
        config = file("{}")
        config.smoke = list(verdicts)
        written = json.loads(as_json(report(config), Terminal()))
        Draft7Validator(schema).validate(written)
        return written["smoke"]

    return read


# ------------------------------------------------------------------------------------------------------- for people


@pytest.mark.parametrize("how", ["ok", "exception", "signal", "timeout", "ended"])
def test_the_schema_has_each_end_of_a_rank(rendered, how):
    (run,) = rendered(runs.verdict(ranks=[RankEnd(0, how, "step")]))
    assert run["ranks"][0]["exit"] == how


def test_a_command_that_has_no_ranks_names_none():
    why = "no Python of the command has run the startup hook of ds-lint"
    verdict = runs.verdict(world_size=0, status="error", checks=[], error=why, seconds=1.0)
    assert smoke.headline(verdict) == f"could not run in 1.0 s: {why}"


def test_a_run_that_passed():
    assert told(runs.verdict()) == expected("""
        smoke: passed on 2 CPU ranks, deepspeed stack, 4.2 s: ZeRO stage 3 shards (with adaptation), trains, saves and resumes
          verified: stage, optimizer-states, loss, export, resume
          verified with adaptation: parameters
          adapted zero_optimization.stage3_param_persistence_threshold from 100,000 to 0: the model is so small that every rank would keep all of it
          not verified: pinning: there is no pinned memory without a GPU
          bytes by rank
          rank 0     ██▓▓▓▒▒▒▒▒░░░░░░░░░░ 193.2 KiB
          rank 1     ██▓▓▓▒▒▒▒▒░░░░░░░░░░ 193.2 KiB
          unsharded  █████▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒░░░░░░░░░░░░░░░░░░░░ 386.5 KiB
          █ parameters  ▓ gradients  ▒ master weights  ░ optimizer states
    """)  # noqa: E501 - a line of a pipe is not wrapped


def test_a_run_that_failed_in_a_narrow_terminal_without_blocks():
    assert told(runs.failing(), width=60, encoding="ascii") == expected("""
        smoke: failed on 2 CPU ranks, deepspeed stack, 3.0 s: 1 of 6
          checks failed and 1 could not be decided
          error[offload] the engine does not say where its states
            are
          fail[optimizer-states] zero_optimizations.stage: every
            rank holds all 24,736 elements of the optimizer's
            states: ZeRO is not on
            = help: write "zero_optimization"; nothing reads
              "zero_optimizations"
          warn[clipping] gradient_clipping: it is not requested, and
            gradients are clipped at a norm of 1.0
          warn[overflow] fp16: 2 of 4 steps skipped
          verified: loss
          adapted train_batch_size from 256 to 8: the run has 2
            ranks, the config is for 64
          not verified: pinning: there is no pinned memory without a
            GPU
          log: smoke-logs/config.log
          bytes by rank
          rank 0     ####=====+++++++++.................. 386.5 KiB
          rank 1     ####=====+++++++++.................. 386.5 KiB
          unsharded  ####=====+++++++++.................. 386.5 KiB
          # parameters  = gradients  + master weights  . optimizer
          states
    """)


def test_a_run_that_could_not_be_made_says_why_and_how_the_ranks_ended():
    assert told(runs.broken()) == expected("""
        smoke: could not run on 2 CPU ranks, deepspeed stack, 4.2 s: rank 1 was killed by SIGKILL in phase initialize, usually because memory ran out
          rank 0: exception in phase initialize: RuntimeError: Connection closed by peer
          rank 1: signal in phase initialize: SIGKILL
          log: smoke-logs/config.log
    """)  # noqa: E501 - a line of a pipe is not wrapped


def test_checks_of_one_name_are_named_once():
    checks = [
        *[runs.check("dtypes")] * 2,
        runs.check("dtypes", adapted=True),
        runs.check("dtypes", "fail", message="gradients are float32"),
        *[runs.check("offload")] * 2,
    ]
    assert told(runs.verdict(status="fail", checks=checks)).split("\n")[1:4] == [
        "  fail[dtypes] gradients are float32",
        "  verified: dtypes (2 of 4), offload",
        "  verified with adaptation: dtypes (1 of 4)",
    ]


def test_runs_of_several_files_name_them():
    first, second = told(runs.broken(), runs.broken()._replace(path="other.json")).split("\n\n")
    assert first.startswith("smoke: config.json could not run on 2 CPU ranks")
    assert second.startswith("smoke: other.json could not run on 2 CPU ranks")


def test_runs_with_several_configs_of_a_file_name_the_place():
    both = [runs.verdict(path="train.ipynb", place=place) for place in ("cell 1:3:13", "cell 4:2:1")]
    assert told(both[0]).startswith("smoke: passed")
    assert "smoke: train.ipynb:cell 4:2:1 passed" in told(*both)


def test_colours_mark_the_outcome_and_the_checks():
    lines = told(runs.failing(), colour=True).split("\n")
    assert lines[0].startswith("\x1b[1;31msmoke: failed\x1b[0m on 2 CPU ranks")
    assert lines[2].startswith("  \x1b[1;31mfail[optimizer-states]\x1b[0m zero_optimizations.stage: every")
    assert lines[4].startswith("  \x1b[1;35mwarn[clipping]\x1b[0m")


@pytest.mark.parametrize(
    ("verdict", "headline"),
    [
        (runs.on_gpus(), "passed on 1 GPU, deepspeed stack, 4.2 s: ZeRO stage 3 trains"),
        (
            runs.simulated(),
            "passed on rank 0 of 1,024 simulated, deepspeed stack, 4.2 s: ZeRO stage 3 shards (with adaptation)",
        ),
        (
            runs.verdict(status="warn", checks=[runs.check("loss"), runs.check("keys", "warn")]),
            "passed with warnings on 2 CPU ranks, deepspeed stack, 4.2 s: the config trains",
        ),
        (
            runs.verdict(checks=[runs.check("batch"), runs.check("loss", "skip")]),
            "passed on 2 CPU ranks, deepspeed stack, 4.2 s: 1 of 2 checks passed",
        ),
        (
            runs.verdict(status="error", checks=[runs.check("batch"), runs.check("loss", "error")]),
            "incomplete on 2 CPU ranks, deepspeed stack, 4.2 s: 1 of 2 checks could not be decided",
        ),
    ],
)
def test_a_headline_claims_what_was_proved(verdict, headline):
    assert smoke.headline(verdict) == headline


def test_without_zero_nothing_is_said_to_shard():
    checks = [runs.check("stage", expected=0), runs.check("optimizer-states"), runs.check("loss")]
    assert smoke.headline(runs.verdict(checks=checks)).endswith(": the config trains")


@pytest.mark.parametrize(
    ("adaptation", "text"),
    [
        (Adaptation("bf16", None, {"enabled": True}, "why"), 'bf16 set to {"enabled": true}: why'),
        (Adaptation("wandb", "on", None, "why"), 'wandb removed, was "on": why'),
        (Adaptation(None, None, None, "a CPU stands for the GPU"), "a CPU stands for the GPU"),
    ],
)
def test_adaptations_in_words(adaptation, text):
    assert smoke.adapted(adaptation) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1234567, "elements", "1,234,567 elements"),
        ([12368, 12368], "elements", "12,368 elements (2 times)"),
        ([1024, 2048], "bytes", "1.0 KiB, 2.0 KiB"),
        (5 * 2**40, "bytes", "5.0 TiB"),
        (True, None, "true"),
        (65536.0, None, "65,536"),
        (1.67e-4, None, "0.000167"),
        (float("nan"), None, "nan"),
        ({"a": 1000}, None, "a: 1,000"),
        ("x\x1b", None, "x<U+001B>"),
        (None, "elements", "none"),
        ([], "elements", ""),
    ],
)
def test_values_in_words(value, unit, text):
    assert smoke.formatted(value, unit) == text


def test_long_values_are_cut():
    assert smoke.formatted("x" * 1000) == "x" * 300 + "…"


# ------------------------------------------------------------------------------------------------------- what is held


def test_states_of_the_optimizer_are_one_kind():
    assert smoke.by_kind(runs.held(10))["optimizer states"] == Held(20, 80)


def test_a_run_of_one_rank_is_the_reference_and_else_it_is_computed():
    alone = runs.verdict(world_size=1, held=[{"parameters": Held(30000, 60000)}])
    sharded = runs.verdict()
    assert smoke.unsharded(sharded, [sharded, alone]) == {"parameters": Held(30000, 60000)}
    assert smoke.unsharded(sharded, [sharded]) == smoke.by_kind(runs.held(runs.PARAMETERS))
    assert smoke.unsharded(alone, [sharded, alone]) is None


@pytest.mark.parametrize(
    "held",
    [
        {"gradients": Held(100, 200)},  # of adapters alone: the rest is frozen
        {"exp_avg": Held(0, 0)},  # on NVMe
        {"gradients": Held(2 * runs.PARAMETERS, 6 * runs.PARAMETERS)},  # bf16 and fp32
    ],
)
def test_there_is_no_reference_if_it_is_unknown(held):
    run = runs.verdict(held=[held, held])
    assert smoke.unsharded(run, [run]) is None


def test_of_many_ranks_the_first_are_shown():
    lines = told(runs.verdict(world_size=20, held=[runs.held(5000)] * 20)).split("\n")
    assert sum(line.startswith("  rank ") for line in lines) == 8
    assert "  and 12 more ranks" in lines


# ------------------------------------------------------------------------------------------------------- the formats


def test_full_and_concise_tell_runs_between_findings_and_summary(report, file, finding):
    config = file("{}", finding(Span(0, 2)))
    config.smoke = [runs.failing()]
    parts = full(report(config), Terminal()).split("\n\n")
    assert [part.partition(" ")[0] for part in parts] == ["error[DS101]", "smoke:", "1"]
    lines = concise(report(config), Terminal()).split("\n")
    assert lines[1].startswith("config.json: smoke: failed on 2 CPU ranks, deepspeed stack, 3.0 s: 1 of 6 checks")
    assert lines[2] == "config.json: smoke: error[offload] the engine does not say where its states are"


def test_without_a_run_no_format_speaks_of_any(report, file):
    for render in (full, concise, as_json):
        assert "smoke" not in render(report(file("{}")), Terminal())


def test_json_has_every_run(rendered):
    passed, *_, hostile = rendered(
        runs.verdict(), runs.failing(), runs.broken(), runs.on_gpus(), runs.simulated(), runs.hostile()
    )
    assert passed["adaptations"] == [
        {
            "key": "zero_optimization.stage3_param_persistence_threshold",
            "from": 100_000,
            "to": 0,
            "why": "the model is so small that every rank would keep all of it",
        }
    ]
    assert passed["checks"][1] == {
        "id": "parameters",
        "status": "pass",
        "key": "zero_optimization.stage",
        "expected": [12368, 12368],
        "observed": [12368, 12368],
        "unit": "elements",
        "message": "parameters is as asked for",
        "help": "",
        "adapted": True,
        "basis": "trained",
    }
    assert passed["ranks"][1] == {"rank": 1, "exit": "ok", "phase": "done", "error": None}
    assert passed["held"][0]["exp_avg"] == {"elements": 12368, "bytes": 49472}
    assert hostile["error"] == runs.HOSTILE


def test_json_spells_out_what_is_no_number(rendered):
    (run,) = rendered(runs.failing())
    assert run["steps"][1] == {
        "loss": "nan",
        "learning_rates": [0.0],
        "loss_scale": 32768.0,
        "gradient_norm": "inf",
        "is_skipped": True,
    }


@pytest.mark.parametrize("made", [runs.verdict, runs.failing, runs.hostile])
def test_a_run_is_read_back_from_json_as_it_was(made):
    written = smoke.as_object(made())
    assert smoke.as_object(smoke.verdict_of(json.loads(json.dumps(written)))) == written


def test_asked_for_and_not_made_is_an_empty_list(rendered):
    assert rendered() == []


def test_the_schema_asks_for_every_field_and_knows_the_words(schema, rendered):
    accepts = Draft7Validator(schema | {"$ref": "#/definitions/run"}).is_valid
    (run,) = rendered(runs.failing())
    assert accepts(run)
    for field in run:
        assert not accepts({name: run[name] for name in run if name != field}), field
    for change in ({"more": 1}, {"mode": "tpu"}, {"status": "skip"}, {"world_size": -1}, {"stack": None}):
        assert not accepts(run | change), change
    definitions = schema["definitions"]
    assert tuple(definitions["run"]["properties"]["mode"]["enum"]) == (CPU, CUDA, FAKE, SCRIPT)
    assert tuple(definitions["check"]["properties"]["status"]["enum"]) == STATUSES


@pytest.mark.parametrize("width", [None, 1, 40])
def test_nothing_of_a_config_reaches_the_terminal_as_it_is(width):
    terminal = Terminal(width)
    for line in smoke.lines([runs.hostile()], terminal) + smoke.records([runs.hostile()], terminal):
        assert line.isprintable()
