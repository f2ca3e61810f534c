"""What ds-lint says of the Trainer holds for the Trainer's and Accelerate's own code."""

from __future__ import annotations

import json

import pytest
from linted import lint_dict, lint_file

from ds_lint.knowledge.keys import knowledge as knowledge_of

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from accelerate.utils import DeepSpeedPlugin
from installed import INSTALLED, knowledge
from trainer import prepare
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

pytestmark = pytest.mark.fidelity

# What DeepSpeed refuses once it is called, which `prepare` does not come to.
DEEPSPEEDS_OWN = ("missing-parameter", "switch-needs-key", "optimizer-without-type")

PLAIN = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}


def nested(path: tuple[str, ...], value) -> dict:
    config = json.loads(json.dumps(PLAIN))
    here = config
    for name in path[:-1]:
        here = here.setdefault(name, {})
        if not isinstance(here, dict):
            return {}
    here[path[-1]] = value
    return config


def keys() -> list[tuple[str, ...]]:
    found = [
        key.path
        for key in knowledge().everywhere()
        if "removed" not in key.facts and not any(map(str.isdigit, key.path))
    ]
    return [
        *found,
        ("unknown",),
        ("zero_optimization", "unknown"),
        ("unknown", "nested"),
        ("optimizer", "params", "unknown"),
    ]


def test_the_releases_are_those_that_the_store_names():
    newest = knowledge_of().target
    assert (INSTALLED.transformers, INSTALLED.accelerate) == (newest["transformers"], newest["accelerate"])


def test_every_key_with_auto():
    """An "auto" that the Trainer fills passes; every other one stops the run, in known and unknown keys alike."""
    wrong = []
    for path in keys():
        config = nested(path, "auto")
        if not config:
            continue
        try:
            prepare(config)
            runs = True
        except Exception as error:
            runs = False
            reason = f"{type(error).__name__}: {error}"
        findings = lint_dict(config, stack="trainer", target=INSTALLED).findings
        rejected = [finding for finding in findings if finding.effect == "rejected" and finding.stage == "initialize"]
        rejected = [finding for finding in rejected if finding.name not in DEEPSPEEDS_OWN]
        if runs == bool(rejected):
            wrong.append(f"{'.'.join(path)}: {'runs' if runs else reason[:90]}, ds-lint: {[f.code for f in findings]}")
    assert wrong == []


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        ('{"train_batch_size": 1, "zero_optimization": {}}', True),
        ('{"train_batch_size": 1, "zero_optimization": {},}', False),
        ('{"train_batch_size": 1, // one\n "zero_optimization": {}}', False),
        ("{'train_batch_size': 1, 'zero_optimization': {}}", False),
        ('{train_batch_size: 1, "zero_optimization": {}}', False),
        ('{"train_batch_size": 1, "train_batch_size": 2, "zero_optimization": {}}', True),
        ('{"train_batch_size": 1, "gradient_clipping": NaN, "zero_optimization": {}}', True),
        ('{"train_batch_size": 1, "wall_clock_breakdown": True, "zero_optimization": {}}', False),
        ('\ufeff{"train_batch_size": 1, "zero_optimization": {}}', False),
        ('{"train_batch_size": 1 "zero_optimization": {}}', False),
        ("", False),
    ],
)
def test_what_the_trainer_reads(tmp_path, text, is_read):
    path = tmp_path / "ds.json"
    path.write_text(text, encoding="utf-8")
    try:
        HfTrainerDeepSpeedConfig(str(path))
        was_read = True
    except ValueError:  # JSONDecodeError
        was_read = False
    assert was_read == is_read
    findings = lint_file(str(path), stack="trainer", target=INSTALLED).findings
    assert any(finding.stage == "load" for finding in findings) == (not is_read)


@pytest.mark.parametrize("value", ["8", "true", "5e-5", [8], {"a": 8}])
def test_what_is_no_number_matches_no_argument(value):
    """Neither the arguments that it spells nor any other: the Trainer stops at every key that it compares."""
    wrong = []
    for path, filled in knowledge().trainer["fills"].items():
        if filled["matched"]:
            config = nested(tuple(path.split(".")), value)
            with pytest.raises(ValueError, match="mismatch TrainingArguments values"):
                prepare(config)
            findings = lint_dict(config, stack="trainer", target=INSTALLED).findings
            if not any(finding.effect == "rejected" for finding in findings):
                wrong.append(path)
    assert wrong == []


@pytest.mark.parametrize("zero", [None, True, False, "auto", 1, []])
def test_a_zero_section_that_is_none(zero):
    config = {"train_micro_batch_size_per_gpu": 1}
    if zero is not None:
        config["zero_optimization"] = zero
    with pytest.raises((ValueError, AttributeError)):
        prepare(config)
    findings = lint_dict(config, stack="trainer", target=INSTALLED).findings
    assert any(finding.effect == "rejected" for finding in findings)


@pytest.mark.skipif(knowledge().is_lax, reason="DeepSpeed below 0.15 refuses such a stage")
def test_a_stage_in_quotes_is_not_recognised():
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": "3"}}
    assert not HfTrainerDeepSpeedConfig(config).is_zero3()
    (finding,) = lint_dict(config, stack="trainer", target=INSTALLED).findings
    assert (finding.name, finding.effect) == ("stage-as-string", "wrong-result")


def test_what_is_overwritten():
    config = {**PLAIN, "steps_per_print": 5, "zero_allow_untested_optimizer": False}
    prepared = prepare(config)
    assert prepared["steps_per_print"] == float("inf")
    assert prepared["zero_allow_untested_optimizer"] is True
    assert set(knowledge().trainer["overwrites"]) == {"steps_per_print", "zero_allow_untested_optimizer"}


@pytest.mark.parametrize("micro", [{}, {"train_micro_batch_size_per_gpu": None}])
def test_accelerate_needs_the_micro_batch_size_for_the_total(micro):
    """What ``_prepare_deepspeed`` multiplies is None without it, and then nothing fills the total."""
    config = {"train_batch_size": "auto", "gradient_clipping": 1.0, "zero_optimization": {"stage": 2}, **micro}
    plugin = DeepSpeedPlugin(hf_ds_config=json.loads(json.dumps(config)))
    assert not plugin.is_auto("train_micro_batch_size_per_gpu")
    assert plugin.get_value("train_micro_batch_size_per_gpu") is None
    with pytest.raises(ValueError, match="`train_batch_size` not found in kwargs"):
        plugin.deepspeed_config_process(must_match=False, gradient_clipping=1.0)
    found = lint_dict(config, target=INSTALLED, stack="accelerate").findings
    assert "total-batch-size-alone" in {finding.name for finding in found}
