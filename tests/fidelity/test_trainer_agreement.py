"""ds-lint and the real Trainer and Accelerate agree on pairs of a config and training arguments.

The verdict, the keys that mismatch, and the config that deepspeed.initialize is called with. Every disagreement is
printed; what ds-lint was not told it may be silent about, but it must not be wrong.
"""

from __future__ import annotations

import os
import re

import pytest
from installed import INSTALLED
from linted import config_of_dict

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import trainer
from pairs import Pair, pair
from transformers import AutoConfig

from ds_lint.facts import Facts, Sources, training
from ds_lint.facts.model import Model
from ds_lint.facts.readers import gather
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.config import Config
from ds_lint.semantics.effective import effective
from ds_lint.semantics.preparation import prepare

pytestmark = pytest.mark.fidelity

MODELS = os.path.join(os.path.dirname(os.path.dirname(__file__)), "models")


def told(pair: Pair) -> Config:
    """The config with the facts that ds-lint is told."""
    facts = Facts(world_size=pair.world_size if "world size" in pair.known else None)
    facts.training = training.of_object(pair.fields)
    facts.model = Model("", pair.model) if "model" in pair.known else None
    return config_of_dict(pair.config, target=INSTALLED, facts=facts)


def real(pair: Pair) -> tuple[dict | None, str]:
    """The config as DeepSpeed gets it, or None and the error."""
    try:
        prepared = trainer.prepare(
            pair.config, pair.fields, world_size=pair.world_size, model_config=pair.model, steps=trainer.STEPS
        )
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return prepared, ""


def disagreement(pair: Pair) -> str | None:
    """What the two do not agree on, or None."""
    final, error = real(pair)
    config = told(pair)
    ours = prepare(config)
    mismatched = {tuple(key.split(".")) for key in re.findall(r"^- ds (\S+?)=", error, re.MULTILINE)}
    if mismatched or (ours.mismatches and not error):
        found = {mismatch.path for mismatch in ours.mismatches}
        missed = mismatched - found
        if found - mismatched or (missed and knows_all(pair)):
            return f"mismatches: {sorted(mismatched)}, ds-lint: {sorted(found)}"
        return None
    if (final is None) != ours.is_refused and (ours.is_refused or knows_all(pair)):
        said = [refusal.message for refusal in ours.refusals] + ours.left + list(ours.unsized)
        return f"{error.splitlines()[0] if error else 'runs'}, ds-lint: {said}"
    if final is None:
        return None
    return different(final, ours.config) or different(final, shown(config), "effective: ")


def shown(config: Config) -> dict:
    """What ``ds-lint effective`` prints, without the defaults, as a config."""
    whole: dict = {}
    for value in effective(config):
        if value.by != "default":
            section = whole
            for name in value.path[:-1]:
                section = section.setdefault(name, {})
            section[value.path[-1]] = value.value
    return whole


def different(final, ours, path="") -> str | None:
    """Where the real final config and ds-lint's differ; what ds-lint does not know differs from nothing."""
    if ours is UNKNOWN:
        return None
    if isinstance(final, dict) and isinstance(ours, dict):
        if extra := (set(final) ^ set(ours)) - {name for name, value in ours.items() if value is UNKNOWN}:
            return f"{path} has {sorted(extra)}"
        found = (different(final[name], ours[name], f"{path}.{name}") for name in final)
        return next(filter(None, found), None)
    return None if final == ours and type(final) is type(ours) else f"{path} is {final!r}, ds-lint: {ours!r}"


def knows_all(pair: Pair) -> bool:
    return len(pair.known) == 2 and "max_steps" in pair.fields


def agreement(seeds: range) -> float:
    """The share of pairs on which the two agree; the others are printed."""
    found = [(seed, disagreement(pair(seed))) for seed in seeds]
    wrong = [f"{seed}: {what}\n    {pair(seed)}" for seed, what in found if what]
    print("\n".join(wrong))
    return 1 - len(wrong) / len(found)


def test_a_sample_of_pairs():
    assert agreement(range(100)) == 1


SIZED = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
    },
}


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("name", ["gpt2", "llama", "mixtral", "t5", "vision_text"])
def test_the_hidden_size_of_a_model_is_what_its_class_answers(name, stage):
    config = {**SIZED, "zero_optimization": {**SIZED["zero_optimization"], "stage": stage}}
    path = os.path.join(MODELS, name)
    facts = gather(Sources(trainer_args="--bf16", model=path))
    ours = prepare(config_of_dict(config, target=INSTALLED, facts=facts))
    try:
        final = trainer.prepare(config, {"bf16": True}, model_config=AutoConfig.from_pretrained(path))
    except ValueError as error:
        assert "hidden_size" in str(error)
        assert ours.unsized
    else:
        assert not ours.unsized
        assert different(final, ours.config) is None


@pytest.mark.long
def test_many_pairs():
    assert agreement(range(1000, 3000)) >= 0.99
