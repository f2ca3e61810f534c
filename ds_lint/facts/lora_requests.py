"""Which adapters the project trains: by ``--lora``, a recipe of a training framework, or the flags of a launch."""

from __future__ import annotations

from ds_lint.facts import tensors
from ds_lint.facts.lora import ALL_LINEAR, DEFAULT_RANK, Adapters, named_targets, tensors_with
from ds_lint.frameworks.record import ALL, TRUE, AdapterFields
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ds_lint.facts import Facts
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.tensors import Tensor


# A script of the user's own: nothing is known of what it takes if a flag is missing.
_OF_SCRIPTS = tuple(
    AdapterFields({}, rank, None, targets, None, "lora_modules_to_save", needs_targets=True)
    for rank in ("lora_r", "lora_rank")
    for targets in ("lora_target_modules", "lora_target", "target_modules")
)
_OF_PEFT = AdapterFields({}, "r", DEFAULT_RANK, "target_modules", None, "modules_to_save", word_for_all=ALL_LINEAR)
_WORD_FOR_ALL = ("all", "all-linear", "ALL")


def requested(facts: Facts) -> Adapters | None:
    """The adapters that a run trains; None if it trains none, or nothing tells which."""
    if facts.lora is not None:
        return facts.lora
    if facts.recipe is not None and facts.recipe.record.adapters is not None:
        return _read(facts.recipe.record.adapters, facts.recipe.value, facts.recipe.origin)
    return _of_launch(facts.launch) if facts.launch is not None else None


def parameters(facts: Facts) -> list[Tensor]:
    """The parameters of the model of a run, with the adapters that it trains; none if their sizes are not known.

    Raises NoAdapters if peft makes no such adapters for the model.
    """
    if facts.model is None:
        return []
    adapters = requested(facts)
    return tensors.of(facts.model) if adapters is None else tensors_with(facts.model, adapters)


def _of_launch(launch: LaunchFacts) -> Adapters | None:
    flags = launch.values
    if launch.framework is not None and launch.framework.adapters is not None:
        return _read(launch.framework.adapters, _value_of(flags), launch.origin)
    found = (_read(one, _value_of(flags), launch.origin) for one in _OF_SCRIPTS)
    return next((one for one in found if one is not None), None) or _of_script(launch)


def _of_script(launch: LaunchFacts) -> Adapters | None:
    """The adapters that the only ``LoraConfig`` of the script describes, if it is surely made and written out."""
    if launch.script is None:
        return None
    from ds_lint.facts.script_values import conditions_hold  # few configs have a script

    made = launch.script.calls.adapters
    if len(made) != 1 or not conditions_hold(made[0].conditions, launch.launch, launch.script):
        return None
    given = dict(made[0].options)
    rank, targets, saved = (given.get(name) for name in ("r", "target_modules", "modules_to_save"))
    rank = _rank(rank, DEFAULT_RANK) if rank is not UNKNOWN else None
    found = _targets(targets, _OF_PEFT) if targets is not UNKNOWN else UNKNOWN
    if rank is None or found is UNKNOWN or not (saved is None or isinstance(saved, (list, tuple))):
        return None
    return Adapters(rank, found, tuple(map(str, saved or ())), launch.at(made[0].place))


def _value_of(flags: Mapping[str, Any]) -> Callable[[str], Any]:
    """The values of flags, for which one without a value is true."""
    return lambda name: True if name in flags and flags[name] is None else flags.get(name)


def _read(fields: AdapterFields, value: Callable[[str], Any], source: str) -> Adapters | None:
    """The adapters by these fields; None if there are none, or a value is not known."""
    if any(value(name) not in wanted for name, wanted in fields.switches.items()):
        return None
    rank = _rank(value(fields.rank), fields.default_rank)
    asks_for_all = bool(fields.all_linear) and value(fields.all_linear) in TRUE
    targets = ALL if asks_for_all else _targets(value(fields.targets), fields)
    saved = value(fields.saved)
    if rank is None or targets is UNKNOWN or saved is UNKNOWN:
        return None
    named = named_targets(saved) if isinstance(saved, str) else tuple(map(str, saved or ()))
    return Adapters(rank, targets, tuple(named or ()), source)


def _rank(given: Any, default: int | None) -> int | None:
    if given is None:
        return default
    return count(given if isinstance(given, str) else str(given)) or None


def _targets(given: Any, fields: AdapterFields) -> Any:
    """The targets that a field names; UNKNOWN if it is not known which."""
    if given is None:
        return UNKNOWN if fields.needs_targets else fields.default_targets
    names = list(given) if isinstance(given, (list, set, tuple)) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        return UNKNOWN
    if any(name in _WORD_FOR_ALL for name in names):
        return fields.word_for_all
    split = [part for name in names for part in named_targets(name) or ()]
    return UNKNOWN if any(not part.replace("_", "").replace(".", "").isalnum() for part in split) else tuple(split)
