"""Which adapters the project trains: by ``--lora``, a recipe of a training framework, or the flags of a launch."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts import tensors
from ds_lint.facts.lora import ALL, Adapters, named_targets, tensors_with
from ds_lint.facts.training import flag_values
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.facts import Facts
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.tensors import Tensor


class _AdapterFields(NamedTuple):
    """How a framework is asked for adapters, with what it takes if a field is missing."""

    switches: dict[str, tuple[Any, ...]]  # the fields that ask for LoRA, with the values that do; None if missing
    rank: str
    default_rank: int | None
    targets: str
    default_targets: tuple[str, ...] | str | None  # None is what peft takes
    saved: str
    needs_targets: bool = False  # the framework rejects a recipe without them
    all_linear: str = ""  # a field that asks for all linear layers beside the others


_FRAMEWORKS = {
    # src/llamafactory/hparams/finetuning_args.py
    "LLaMA-Factory": _AdapterFields(
        {"finetuning_type": ("lora", None)}, "lora_rank", 8, "lora_target", ALL, "additional_target"
    ),
    # src/axolotl/utils/schemas/peft.py
    "axolotl": _AdapterFields(
        {"adapter": ("lora", "qlora")}, "lora_r", None, "lora_target_modules", None, "lora_modules_to_save",
        needs_targets=True, all_linear="lora_target_linear",
    ),
    # swift/arguments/tuner_args.py
    "ms-swift": _AdapterFields(
        {"tuner_type": ("lora", None), "train_type": ("lora", None)}, "lora_rank", 8, "target_modules", ALL,
        "modules_to_save",
    ),
    # trl/trainer/model_config.py
    "TRL": _AdapterFields(
        {"use_peft": (True, "True", "true")}, "lora_r", 16, "lora_target_modules", None, "lora_modules_to_save"
    ),
}  # fmt: skip
# A script of the user's own: nothing is known of what it takes if a flag is missing.
_OF_SCRIPTS = tuple(
    _AdapterFields({}, rank, None, targets, None, "lora_modules_to_save", needs_targets=True)
    for rank in ("lora_r", "lora_rank")
    for targets in ("lora_target_modules", "lora_target", "target_modules")
)
_WORD_FOR_ALL = ("all", "all-linear", "ALL")


def requested(facts: Facts) -> Adapters | None:
    """The adapters that a run trains; None if it trains none, or nothing tells which."""
    if facts.lora is not None:
        return facts.lora
    if facts.recipe is not None and facts.recipe.framework in _FRAMEWORKS:
        return _read(_FRAMEWORKS[facts.recipe.framework], facts.recipe.value, facts.recipe.origin)
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
    flags = flag_values(launch.launch.flags)
    framework = _framework(launch, flags)
    if framework is not None:
        return _read(_FRAMEWORKS[framework], _value_of(flags), launch.origin)
    found = (_read(one, _value_of(flags), launch.origin) for one in _OF_SCRIPTS)
    return next((one for one in found if one is not None), None)


def _framework(launch: LaunchFacts, flags: dict[str, Any]) -> str | None:
    """The framework whose command line a launch is."""
    named = {"trl": "TRL", "swift": "ms-swift"}.get(launch.launch.launcher)
    is_llama_factory = launch.script is None and "finetuning_type" in flags
    return named or ("LLaMA-Factory" if is_llama_factory else None)


def _value_of(flags: dict[str, Any]) -> Callable[[str], Any]:
    """The values of flags, for which one without a value is true."""
    return lambda name: True if name in flags and flags[name] is None else flags.get(name)


def _read(fields: _AdapterFields, value: Callable[[str], Any], source: str) -> Adapters | None:
    """The adapters by these fields; None if there are none, or a value is not known."""
    if any(value(name) not in wanted for name, wanted in fields.switches.items()):
        return None
    rank = _rank(value(fields.rank), fields.default_rank)
    asks_for_all = bool(fields.all_linear) and value(fields.all_linear) in (True, "True", "true")
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


def _targets(given: Any, fields: _AdapterFields) -> Any:
    """The targets that a field names; UNKNOWN if it is not known which."""
    if given is None:
        return UNKNOWN if fields.needs_targets else fields.default_targets
    names = given if isinstance(given, list) else [given]
    if not names or not all(isinstance(name, str) for name in names):
        return UNKNOWN
    if any(name in _WORD_FOR_ALL for name in names):
        return "all-linear" if fields is _FRAMEWORKS["TRL"] else ALL
    split = [part for name in names for part in named_targets(name) or ()]
    return UNKNOWN if any(not part.replace("_", "").replace(".", "").isalnum() for part in split) else tuple(split)
