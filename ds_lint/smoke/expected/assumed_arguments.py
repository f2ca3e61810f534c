"""Training arguments that match a config, for a run without given arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.semantics import configs
from ds_lint.semantics.batch import BATCH_SIZES, STEPS
from ds_lint.semantics.features import number_of
from ds_lint.semantics.preparation import prepare
from ds_lint.smoke.expected.expectation import ASSUMED

if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import Mismatch

_ROUNDS = 4  # one argument may lead to the next


def with_matching_arguments(config: Config) -> Config:
    """The config with training arguments that the Trainer accepts together with it."""
    values = _batch(config)
    for _ in range(_ROUNDS):
        config = _with(config, values)
        wanted = dict(pair for mismatch in prepare(config).mismatches for pair in _agreement(mismatch))
        if all(name in values for name in wanted):
            break
        values = wanted | values
    return config


def _with(config: Config, values: JsonObject) -> Config:
    facts = Facts(
        world_size=config.facts.world_size,
        training=TrainingArguments({name: Argument(value, ASSUMED) for name, value in values.items()}, ASSUMED),
    )
    facts.model = config.facts.model
    return configs.from_document(config.document, config.basis.but(stack=config.stack, facts=facts))


def _batch(config: Config) -> JsonObject:
    """Micro batch size and accumulation steps of the config."""
    nodes = (config.written.get(name) for name in BATCH_SIZES)
    train, micro, steps = (number_of(node) if node is not None else None for node in nodes)
    ranks = config.world_size or 1
    if config.written.get(STEPS) is None:
        steps = 1  # Accelerate fills that in if the config does not set it
    if micro is None and train is not None:
        micro = max(1, train // (steps or 1) // ranks)
    if steps is None and train is not None and micro:
        steps = max(1, train // micro // ranks)
    found = {"per_device_train_batch_size": micro, "gradient_accumulation_steps": steps}
    return {name: int(value) for name, value in found.items() if value}


def _agreement(mismatch: Mismatch) -> list[tuple[str, Any]]:
    """The arguments that match the config, if each has a single value."""
    names = [name for name in mismatch.names if name != "world_size"]
    is_text = isinstance(mismatch.written, str) and not isinstance(mismatch.wanted, str)  # which equals no number
    if mismatch.path[0] in BATCH_SIZES or not names or is_text:
        return []
    if isinstance(mismatch.written, list):
        return list(zip(names, mismatch.written, strict=False))
    return [(names[0], mismatch.written)]
