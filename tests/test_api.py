"""``ds_lint.check`` for people who lint from Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import get_args

import pytest
from newest import NEWEST

import ds_lint
from ds_lint.diagnostics.finding import STACKS, Edit, Finding, Fix
from ds_lint.source.tree import Span

CONFIG = {
    "train_micro_batch_size_per_gpu": 1,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2},
}
WARMUP = {**CONFIG, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100.0}}}


def brief(findings):
    return [(finding.code, finding.key, finding.effect, finding.stage) for finding in findings]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(
        '{"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},\n'
        ' "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100.0}}}',
        encoding="utf-8",
    )
    return path


def test_a_clean_dict_has_no_findings():
    assert ds_lint.check(CONFIG) == []


def test_a_finding_says_everything():
    config = {**CONFIG, "gradient_cliping": 0.5}
    (finding,) = ds_lint.check(config, stack="deepspeed")
    assert type(finding) is Finding
    assert (finding.code, finding.name, finding.severity) == ("DS101", "unknown-key", "error")
    assert (finding.effect, finding.stage, finding.effects) == ("ignored", None, None)
    assert (finding.key, finding.path) == ("gradient_cliping", "<dict>")
    assert finding.message == "unknown key `gradient_cliping`: DeepSpeed silently ignores it"
    assert (finding.help, finding.label) == ("Rename it to `gradient_clipping`.", "did you mean `gradient_clipping`?")
    assert finding.related == []
    assert isinstance(finding.span, Span)
    assert isinstance(finding.fix, Fix)
    assert finding.fix.safety == "safe"
    (edit,) = finding.fix.edits
    assert isinstance(edit, Edit)
    assert edit.text == "gradient_clipping"


def test_the_floats_of_a_dict_stay_floats():
    warmup = ("DS504", "scheduler.params.warmup_num_steps", "rejected", "initialize")
    assert brief(ds_lint.check(WARMUP, stack="deepspeed")) == [warmup]


def test_deepspeed_reads_the_whole_floats_of_a_file_as_integers(file):
    assert ds_lint.check(file, stack="deepspeed") == []
    (finding,) = ds_lint.check(file)
    assert brief([finding]) == [("DS504", "scheduler.params.warmup_num_steps", "rejected", "initialize")]
    assert finding.effects == {"deepspeed": "none", "trainer": "rejected", "accelerate": "rejected"}


def test_a_path_may_be_a_string(file):
    assert brief(ds_lint.check(str(file))) == brief(ds_lint.check(file))


def test_tuples_are_lists():
    params = {"lr": 1e-3, "betas": (0.9, 0.95)}
    assert ds_lint.check({**CONFIG, "optimizer": {"type": "AdamW", "params": params}}, stack="deepspeed") == []


def test_the_stack_decides():
    config = {**CONFIG, "zero_optimization": {"stage": "3"}}
    stage = "zero_optimization.stage"
    assert brief(ds_lint.check(config, stack="deepspeed")) == [("DS202", stage, "no-effect", None)]
    assert brief(ds_lint.check(config, stack="trainer")) == [("DS202", stage, "wrong-result", None)]


def test_the_world_size_decides():
    config = {**CONFIG, "train_batch_size": 8, "train_micro_batch_size_per_gpu": 2}
    assert ds_lint.check(config) == []
    assert ds_lint.check(config, world_size=4) == []
    assert brief(ds_lint.check(config, world_size=3)) == [("DS512", "train_batch_size", "rejected", "parse")]


def test_a_text_without_quotes_is_shown_with_them(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(
        '{\n  "train_batch_size": 1,\n  "wall_clock_breakdown": True,\n  "steps_per_print": 1\n}', encoding="utf-8"
    )
    messages = [
        finding.message for finding in ds_lint.check(path, stack="deepspeed", deepspeed_version=NEWEST["deepspeed"])
    ]
    assert '`wall_clock_breakdown` must be true or false, got "True,": DeepSpeed rejects the config' in messages


def test_ranks_that_share_a_sequence_count_as_one():
    config = {**CONFIG, "train_batch_size": 1, "gradient_accumulation_steps": 1, "sequence_parallel_size": 2}
    assert ds_lint.check(config, deepspeed_version=NEWEST["deepspeed"]) == []
    assert ds_lint.check(config, deepspeed_version=NEWEST["deepspeed"], world_size=2) == []
    (finding,) = ds_lint.check(config, deepspeed_version=NEWEST["deepspeed"], world_size=4)
    assert finding.message == (
        "`train_batch_size` is 1, but 1 per GPU x 1 accumulation step x 2 ranks = 2 "
        "(2 ranks share a sequence and count as one)"
    )


def test_a_path_that_cannot_be_read_raises(tmp_path):
    with pytest.raises(FileNotFoundError):
        ds_lint.check(tmp_path / "nowhere.json")
    with pytest.raises(IsADirectoryError):
        ds_lint.check(tmp_path)


def test_a_dict_is_left_as_it_is():
    config = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"params": {"betas": (0.9, 0.95)}}}
    ds_lint.check(config)
    assert config == {"train_micro_batch_size_per_gpu": 1, "optimizer": {"params": {"betas": (0.9, 0.95)}}}


def test_values_that_json_does_not_have_are_linted_too():
    assert brief(ds_lint.check({**CONFIG, "callback": print}, stack="deepspeed")) == [
        ("DS101", "callback", "ignored", None)
    ]


@pytest.mark.parametrize("wrong", [{"stack": "horovod"}, {"world_size": 0}, {"nodes": 0}])
def test_a_stack_or_number_that_does_not_exist_raises(wrong):
    with pytest.raises(ValueError):
        ds_lint.check(CONFIG, **wrong)


@pytest.mark.parametrize(
    "wrong", [{"world_size": "8"}, {"nodes": 1.5}, {"gpu": 4090}, {"host_memory": 512}, {"model": 5}]
)
def test_a_fact_of_another_type_raises(wrong):
    with pytest.raises(TypeError, match=r"must be an? (int|str), not "):
        ds_lint.check(CONFIG, **wrong)


def test_what_is_no_config_is_not_clean():
    for wrong in ([CONFIG], b"ds.json", None, 3):
        with pytest.raises(TypeError):
            ds_lint.check(wrong)


def test_the_import_costs_a_training_script_nothing():
    code = "import sys; before = set(sys.modules); import ds_lint; print(*sorted(set(sys.modules) - before))"
    root = os.path.dirname(os.path.dirname(ds_lint.__file__))
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": root}
    )
    assert result.stdout.split() == ["__future__", "ds_lint"]


def test_what_a_config_comes_to():
    sizes = dict.fromkeys(("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_clipping"), "auto")
    auto = {"zero_optimization": {"stage": 2}, **sizes}
    found = ds_lint.effective(auto, stack="trainer", training_args={"max_grad_norm": 0.5})
    assert isinstance(found, ds_lint.EffectiveValues)
    assert (found.stack, list(found.target)) == ("trainer", ["deepspeed", "transformers", "accelerate"])
    clipping, size = found.values["gradient_clipping"], found.values["train_batch_size"]
    assert (clipping.value, clipping.by, clipping.is_known) == (0.5, "filled", True)
    assert clipping.source == "filled by the Trainer with max_grad_norm"
    assert (size.value, size.is_known) == (None, False)
    assert found.rejected == []


def test_it_is_what_the_command_prints(file, run):
    printed = json.loads(run("effective", str(file), "--stack", "deepspeed", "--output-format", "json").stdout)
    found = ds_lint.effective(file, stack="deepspeed")
    assert [value._asdict() for value in found.values.values()] == printed["values"]
    everything = ds_lint.effective(file, stack="deepspeed", everything=True)
    assert found.values.items() < everything.values.items()


def test_what_rejects_a_config_is_a_finding():
    (finding,) = ds_lint.effective(WARMUP, stack="deepspeed").rejected
    assert isinstance(finding, ds_lint.Finding)
    assert finding.code == "DS504"


def test_what_a_run_takes():
    facts = {"parameters": "7B", "world_size": 8, "gpu": "A100-80GB"}
    (found,) = ds_lint.memory(CONFIG, stack="deepspeed", **facts)
    assert isinstance(found, ds_lint.MemoryEstimate)
    assert 0 < found.gpu.least <= found.gpu.likely <= found.gpu.most
    assert found.gpu_parts["parameters"].least >= 7e9
    assert found.gpu.likely == max(peak.gpu.likely for peak in found.peaks.values())
    assert found.capacity.gpu == 80 * 2**30
    assert found.report["setup"]["ranks"] == 8
    assert "sweep" not in found.report
    (swept,) = ds_lint.memory(CONFIG, stack="deepspeed", sweep=True, largest=True, **facts)
    assert {"sweep", "largest"} <= swept.report.keys()


def test_it_is_what_the_command_estimates(file, run):
    facts = ["--parameters", "7B", "--world-size", "8", "--packing", "--micro-batch", "2"]
    printed = json.loads(run("memory", str(file), *facts, "--stack=deepspeed", "--output-format=json").stdout)
    (found,) = ds_lint.memory(file, stack="deepspeed", parameters="7B", world_size=8, packing=True, micro_batch=2)
    assert json.loads(json.dumps(found.report)) | {"path": ""} == {
        name: value for name, value in printed.items() if name not in ("version", "tool", "notes")
    } | {"path": ""}


def test_a_fact_that_an_estimate_needs_is_named_as_a_keyword():
    with pytest.raises(ValueError, match=r"the model is not known.* set model \(or parameters\) and world_size"):
        ds_lint.memory(CONFIG, stack="deepspeed")
    with pytest.raises(TypeError, match="packing must be a bool, not str"):
        ds_lint.memory(CONFIG, packing="yes")


def test_a_config_of_another_type_has_no_values_and_no_estimate():
    for call in (ds_lint.effective, ds_lint.memory):
        with pytest.raises(TypeError, match="a config must be a dict or a path, not list"):
            call([CONFIG])


def test_the_stacks_are_a_type():
    assert get_args(ds_lint.Stack) == STACKS


def test_what_is_exported_is_there():
    of_transformers = {"TrainerCallback", "ConfigError"}
    assert [name for name in ds_lint.__all__ if name not in of_transformers and not hasattr(ds_lint, name)] == []
    with pytest.raises(AttributeError):
        ds_lint.Unknown  # noqa: B018 - read to see that it is not there


USER = """
import ds_lint

stack: ds_lint.Stack = "trainer"
findings: list[ds_lint.Finding] = ds_lint.check("ds.json", stack=stack)
estimate: ds_lint.MemoryEstimate = ds_lint.memory("ds.json", world_size=8)[0]
least: float = estimate.gpu.least
by: str = ds_lint.effective({"a": 1}).values["a"].by
ds_lint.check("ds.json", stack="horovod")
"""


@pytest.mark.long
def test_a_type_checker_knows_the_calls(tmp_path):
    (tmp_path / "user.py").write_text(USER, encoding="utf-8")
    root = os.path.dirname(os.path.dirname(ds_lint.__file__))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "user.py"]
    result = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"MYPYPATH": root}, capture_output=True, text=True, check=False
    )
    line, number = result.stdout.splitlines()
    assert line.startswith('user.py:9: error: Argument "stack" to "check" has incompatible type "Literal[\'horovod\']"')
    assert number == "Found 1 error in 1 file (checked 1 source file)"


def test_types_are_published():
    assert os.path.exists(os.path.join(os.path.dirname(ds_lint.__file__), "py.typed"))


def test_a_release_or_a_range_of_them():
    config = {**CONFIG, "amp": {"enabled": False}, "gradient_clipping": 1.0}
    assert ds_lint.check(config, deepspeed_version="0.19.7") == []
    assert brief(ds_lint.check(config, stack="deepspeed", deepspeed_version="0.19.8")) == [
        ("DS103", "amp", "rejected", "parse")
    ]
    (finding,) = ds_lint.check(config, stack="deepspeed", deepspeed_version=">=0.19.6,<=0.19.8")
    assert finding.affected_releases == "deepspeed 0.19.8"


def test_the_project_around_a_file_says_which_release(file):
    (file.parent / "requirements.txt").write_text("deepspeed==0.19.7\n", encoding="utf-8")
    file.write_text('{"train_batch_size": 1, "amp": {"enabled": false}}', encoding="utf-8")
    assert ds_lint.check(file) == []
    assert [finding.code for finding in ds_lint.check(file, deepspeed_version="0.19.8")] == ["DS103"]


def test_a_version_that_there_is_not():
    with pytest.raises(ValueError, match=r"ds-lint does not know DeepSpeed 0\.16\.77; it knows"):
        ds_lint.check(CONFIG, deepspeed_version="0.16.77")


def test_the_model_and_the_machine_are_named_as_on_the_command_line(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "t5"}', encoding="utf-8")
    config = {**CONFIG, "fp16": {"enabled": True}}
    assert [finding.code for finding in ds_lint.check(config, model=tmp_path, gpu="V100")] == ["DS450"]
    with pytest.raises(ValueError, match="'much' is not a size of memory"):
        ds_lint.check(config, host_memory="much")


def test_a_printed_finding_says_what_it_is():
    (finding,) = ds_lint.check({**CONFIG, "gradient_cliping": 1.0}, stack="deepspeed")
    assert repr([finding]) == f"[<Finding DS101 [error] <dict>: {finding.message}>]"


def test_a_release_that_is_not_known_is_a_warning():
    with pytest.warns(
        UserWarning,
        match=r"asks for DeepSpeed 99.0, which is newer than the releases that ds-lint knows; checked against ",
    ):
        ds_lint.check(CONFIG, deepspeed_version="99.0")
