"""Arguments of scripts and frameworks that TrainingArguments does not have, by the names that they have for them."""

from __future__ import annotations

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.frameworks.record import TRUE
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ds_lint.facts import Facts
    from ds_lint.frameworks.record import Framework
    from ds_lint.knowledge.records import RecipeState

# The longest sequence in scripts, FastChat and run_clm.py: ``max_length`` may be that of generated text, so it is not
# the first.
_LENGTHS = (
    *("max_seq_length", "max_seq_len", "max_length", "model_max_length", "block_size", "seq_length"),
    "sequence_length",
)
_LENGTHS_OF_FRAMEWORKS = tuple(name for one in FRAMEWORKS.values() for name in one.lengths if name not in _LENGTHS)
# Those with which the field is on or off come last: what names its kind says more.
_ATTENTIONS = dict(sorted(
    ((name, kind) for one in FRAMEWORKS.values() for name, kind in one.attentions.items()), key=lambda one: bool(one[1])
))  # fmt: skip
_AS_TRANSFORMERS = {
    **{name: name for name in ("eager", "sdpa", "flash_attention_2")},
    "fa2": "flash_attention_2",
    "flash_attn": "flash_attention_2",
    "disabled": "eager",
    "flash_attention_3": "flash_attention_2",
    "fa3": "flash_attention_2",  # which keep the same
}
_CHECKPOINTS = "gradient_checkpointing"
_FALSE = (None, False, "false", "False", UNKNOWN)


def sequence_length(facts: Facts) -> int | None:
    """The tokens of a sample: as the user says, else the longest that the script or the framework lets through."""
    if facts.sequence_length is not None:
        return facts.sequence_length
    framework = _framework(facts)
    own = framework.lengths if framework is not None else ()
    names = (*own, *_LENGTHS_OF_FRAMEWORKS, *_LENGTHS)
    given = next((length for name in names for value in values(facts, name) if (length := _count(value))), None)
    return given if given is not None else _length_of_script(facts)


def _length_of_script(facts: Facts) -> int | None:
    """The length at which the script cuts texts off, else the default of the argument that is called like one.

    Texts that are cut off in several places may be samples, or parts of one. Trainers of TRL cut samples off
    themselves.
    """
    launch = facts.launch
    if launch is None or launch.script is None:
        return None
    from ds_lint.facts.script_values import argument_of, script_value  # few configs have a script

    script, lengths = launch.script, launch.script.calls.sample_lengths
    if lengths and not script.is_configured_by_trl:
        return _count(script_value(lengths[0], launch.launch, script)) if len(lengths) == 1 else None
    defaults = [argument_of(name, launch.launch, script) for name in _LENGTHS if name in script.arguments]
    return _count(defaults[0]) if len(defaults) == 1 else None


def first_count(facts: Facts, names: Iterable[str]) -> int | None:
    """The first of these arguments that is a number: one that is given, else the default of the script."""
    launch = facts.launch
    declared = launch.script.arguments if launch is not None and launch.script is not None else {}
    for name in names:
        for value in values(facts, name):
            if (found := _count(value)) is not None:
                return found
    defaults = (declared[name].default for name in names if name in declared)
    return next((found for value in defaults if (found := _count(value)) is not None), None)


def first_value(facts: Facts, name: str) -> Any:
    """The value of an argument; None if it is not given."""
    return next((value for value in values(facts, name) if value is not None), None)


def named_by(facts: Facts, names: Iterable[str]) -> str | None:
    """The first of these arguments that is a name."""
    return next((value for name in names for value in values(facts, name) if isinstance(value, str) and value), None)


def attention(facts: Facts) -> str | None:
    """How attention is computed, as transformers names it: eager, sdpa or flash_attention_2; None if it is unknown."""
    if facts.attention is not None:
        return _AS_TRANSFORMERS[facts.attention]
    for name, kind in _ATTENTIONS.items():
        for value in values(facts, name):
            if kind and value in TRUE:
                return kind
            if not kind and isinstance(value, str) and value in _AS_TRANSFORMERS:
                return _AS_TRANSFORMERS[value]
    return _attention_of_script(facts)


def _attention_of_script(facts: Facts) -> str | None:
    """The attention that the script loads the model with, if all loads that a launch may reach agree."""
    launch = facts.launch
    if launch is None or launch.script is None:
        return None
    from ds_lint.facts.named_model import taken  # few configs have a script
    from ds_lint.facts.script_values import script_value

    given = {source.attention for source, _ in taken(launch.launch, launch.script)}
    found = {None if text is None else script_value(text, launch.launch, launch.script) for text in given}
    name = found.pop() if len(found) == 1 else None
    return _AS_TRANSFORMERS.get(name) if isinstance(name, str) else None


def is_checkpointed(facts: Facts) -> bool | None:
    """Whether the framework or the script checkpoints activations whatever the Trainer is told; None if unknown."""
    recipe, launch = facts.recipe, facts.launch
    if recipe is not None and recipe.record.checkpoints_unless:
        off = recipe.value(recipe.record.checkpoints_unless)
        return None if off is UNKNOWN else off not in TRUE
    if recipe is not None and recipe.training is None and recipe.value(_CHECKPOINTS) not in _FALSE:
        return True  # of a run that the training arguments do not tell of; axolotl takes words, too
    calls = launch.script.calls.recomputations if launch is not None and launch.script is not None else ()
    is_on = any(not one.is_open and all(_is_given(facts, flag) for flag in one.flags) for one in calls)
    return True if is_on else None


def is_checkpointed_by_default(facts: Facts) -> bool | None:
    """Whether the framework does so unless its arguments say otherwise; None if nothing tells."""
    recipe, launch = facts.recipe, facts.launch
    if recipe is not None and recipe.record.checkpoints_by_default:
        return _is_enabled(recipe.value(_CHECKPOINTS))
    if launch is None:
        return None
    is_of_trl = launch.script is not None and launch.script.is_configured_by_trl
    program = launch.launch.framework
    if is_of_trl or (program is not None and program.checkpoints_by_default):
        given = launch.launch.arguments.get(_CHECKPOINTS)
        return _is_enabled(given) if given is not None or not launch.doubts else None
    return None


def default_of_framework(facts: Facts, name: str) -> Any:
    """What the framework that a launch starts passes for a training argument that its flags leave out.

    None is what transformers has; UNKNOWN if releases of it differ, or if an unknown word may give the argument.
    """
    launch = facts.launch
    if launch is None or launch.recipe is not None or launch.framework is None or launch.doubts:
        return UNKNOWN
    record = tables.load("recipes")["frameworks"].get(launch.framework.name)
    found = {repr(value): value for state in record["states"] for value in [_default_in(state, name)]} if record else {}
    return next(iter(found.values())) if len(found) == 1 else UNKNOWN


def _default_in(state: RecipeState, name: str) -> Any:
    """The default of some releases of a framework."""
    if "arguments" in state or name in state["sets"] or name in state["unknown"]:
        return UNKNOWN
    return state["defaults"].get(name)


def _framework(facts: Facts) -> Framework | None:
    """The framework whose fields the arguments are; None if that is not known."""
    if facts.recipe is not None:
        return facts.recipe.record
    return facts.launch.framework if facts.launch is not None else None


def _is_enabled(value: Any) -> bool | None:
    """Whether an argument that is true by default is left on; None if unknown."""
    return None if value is UNKNOWN else value not in _FALSE or value is None


def _is_given(facts: Facts, flag: str) -> bool:
    """Whether an argument of the script is given as true."""
    return any(value in TRUE for value in values(facts, flag))


def values(facts: Facts, name: str) -> Iterator[Any]:
    """The values of an argument: what the user gives, the recipe, the launch."""
    if facts.training is not None and name in facts.training.others:
        yield facts.training.others[name].value
    if facts.recipe is not None and facts.recipe.value(name) not in (None, UNKNOWN):
        yield facts.recipe.value(name)
    if facts.launch is not None:
        yield facts.launch.launch.arguments.get(name)


def _count(value: object) -> int | None:
    """A number of tokens; a word on a command line is text."""
    if isinstance(value, str):
        value = count(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
