"""What a launch asks to be done with its model: to quantize it, to generate with it, to compare it with a reference."""

from __future__ import annotations

from ds_lint.frameworks.record import TRUE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ds_lint.diagnostics.finding import Related
    from ds_lint.facts.launched import LaunchFacts

    # What asks for it and where, in words, and that place.
    Request: TypeAlias = tuple[str, str, list[Related]]

_FALSE = ("0", "f", "false", "n", "no")  # as HfArgumentParser reads them
_GATHERS, _VLLM = "ds3_gather_for_generation", "use_vllm"


def quantization(launch: LaunchFacts) -> Request | None:
    """What asks for a quantized model; None if nothing does."""
    for loaded in launch.script.calls.quantizations if launch.script is not None else ():
        from ds_lint.facts.script_values import conditions_hold  # few configs have a script

        if conditions_hold(loaded.conditions, launch.launch, launch.script):
            return f"`{loaded.argument}`", launch.at(loaded.place), launch.related(loaded.place, loaded.argument)
    flag = _quantizing_flag(launch) if launch.recipe is None else None
    return (f"`{flag[0]}`{flag[1]}", *launch.at_flag(flag[0], flag[0])) if flag is not None else None


def ungathered_generation(launch: LaunchFacts) -> Request | None:
    """What tells a trainer of trl to generate with partitioned weights; None if vLLM generates, or that is unknown."""
    if launch.script is not None and _GATHERS in launch.script.keywords:
        given, other = launch.script.keywords[_GATHERS], launch.script.keywords.get(_VLLM)
        if given.value is not False or (other is not None and other.value is not False):
            return None
        return f"`{_GATHERS}`", launch.at(given.place), launch.related(given.place, _GATHERS)
    arguments = launch.launch.arguments
    if launch.doubts and _VLLM not in arguments:  # which an unknown word may give
        return None
    if str(arguments.get(_GATHERS)).lower() not in _FALSE or str(arguments.get(_VLLM, "false")).lower() not in _FALSE:
        return None
    return f"`{_GATHERS}`", *launch.at_flag(_GATHERS, _GATHERS)


def reference_model(launch: LaunchFacts) -> Request | None:
    """The trainer that gets a reference model; None if none is known to."""
    label = "has a reference model"
    called = launch.script.calls.reference if launch.script is not None else None
    if called is not None:
        return f"`{called.trainer}`", launch.at(called.place), launch.related(called.place, label)
    arguments = launch.launch.arguments  # of LLaMA-Factory
    if launch.script is not None or arguments.get("finetuning_type") not in ("freeze", "full"):
        return None
    if launch.doubts and "pref_loss" not in arguments:  # which an unknown word may give
        return None
    if arguments.get("stage") not in ("dpo", "kto") or arguments.get("pref_loss", "sigmoid") in ("orpo", "simpo"):
        return None
    return f"`--stage {arguments['stage']}`", *launch.at_flag("stage", label)


def _quantizing_flag(launch: LaunchFacts) -> tuple[str, str] | None:
    """The flag that makes a framework quantize the model, and its value behind a space."""
    arguments = launch.launch.arguments
    name = launch.framework.quantized(arguments.get) if launch.framework is not None else None
    if name is None:
        return None
    return name, "" if arguments[name] in TRUE else f" {arguments[name]}"
