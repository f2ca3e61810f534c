"""What a config asks for in the user's own script: its values, with each ``"auto"`` as the framework filled it in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.semantics import configs
from ds_lint.smoke.expected.expectation import Expectation, with_meant_names
from ds_lint.source.spelling import AUTO

if TYPE_CHECKING:
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.engine_trace import EngineTrace

_ORIGIN = "the script"
_PRECISIONS = ("fp16", "bf16")  # the sections


def expectation_of(config: Config, one: EngineTrace) -> Expectation:
    """What a config asks for in an engine of a script."""
    changed, written_as = with_meant_names(config)
    _fill(changed, one.config or {})
    if one.stack == "accelerate":
        _add_precision(changed, one.config or {})
    facts = Facts(world_size=one.world_size, training=_arguments(one))
    facts.model = config.facts.model
    seen = configs.from_document(config.document, config.basis.but(stack=one.stack, facts=facts))
    return Expectation(seen, changed, written_as, one.optimizer.rpartition(".")[2] or None)


def _fill(config: dict[str, Any], given: dict[str, Any]) -> None:
    """Replace each ``"auto"`` by what DeepSpeed was given; what it was not given is not there."""
    for name, value in list(config.items()):
        if isinstance(value, dict):
            below = given.get(name)
            _fill(value, below if isinstance(below, dict) else {})
        elif value == AUTO:
            if given.get(name, AUTO) == AUTO:
                del config[name]
            else:
                config[name] = given[name]


def _add_precision(config: dict[str, Any], given: dict[str, Any]) -> None:
    """Add the precision that the script asks Accelerate for, where the config does not have its section.

    Source: ``DeepSpeedPlugin.set_mixed_precision`` in accelerate/utils/dataclasses.py.
    """
    for name in _PRECISIONS:
        section = given.get(name)
        if isinstance(section, dict) and section.get("enabled") is True:
            config.setdefault(name, section)


def _arguments(one: EngineTrace) -> TrainingArguments | None:
    """The training arguments of a script with the Trainer."""
    if one.stack != "trainer":
        return None
    return TrainingArguments({name: Argument(value, _ORIGIN) for name, value in one.arguments.items()}, _ORIGIN)
