"""Whether a script runs a model without training it: DeepSpeed's inference engine, or generation with ZeRO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, ImportedNames, last_name, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    import ast

    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_names import ModuleNames

_SERVES = ("init_inference", "generate")  # the surest first
_TRAINS = re.compile(r"\w*(?:backward|step|(?<!pre)train|fit|learn|optim)\w*", re.IGNORECASE)
_OF_DEEPSPEED = ("init_inference", "HfDeepSpeedConfig")
_OPTIMIZERS = re.compile(r"opt|sched", re.IGNORECASE)  # among what ``Accelerator.prepare`` takes
_MODELS = re.compile(r"model|engine|net", re.IGNORECASE)


class InferenceCall(NamedTuple):
    """The call by which a script that trains nothing runs its model."""

    function: str
    place: CodePlace


def inference(names: ModuleNames, trained: TrainedNames, imported: ImportedNames) -> InferenceCall | None:
    """The call by which a module runs its model; None if it may train it."""
    by_name: dict[str, ast.Call] = {}
    for call in names.calls:
        by_name.setdefault(last_name(call), call)
    found = next((by_name[name] for name in _SERVES if name in by_name), None)
    if found is None or any(_TRAINS.fullmatch(name) for name in by_name):
        return None
    makers = {last_name(wrap.call) for wrap in trained.wraps}
    is_of_deepspeed = makers in ({"initialize"}, {"prepare"}) or (
        not makers and not by_name.keys().isdisjoint(_OF_DEEPSPEED)
    )
    prepared = [one for wrap in trained.wraps if last_name(wrap.call) == "prepare" for one in wrap.call.args]
    if any(_OPTIMIZERS.search(dotted_name(one) or "opt") for one in prepared):
        return None
    if not is_of_deepspeed or any(_is_handed_on(call, imported) for call in names.calls):
        return None
    return InferenceCall(written(found.func), place(found.func))


def _is_handed_on(call: ast.Call, imported: ImportedNames) -> bool:
    """Whether a call gives a model or an engine to something of which it is not known what it does."""
    given = (*call.args, *(one.value for one in call.keywords))
    return imported.is_unknown(dotted_name(call.func)) and any(_MODELS.search(dotted_name(one)) for one in given)
