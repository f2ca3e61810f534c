"""The pipeline that a training script makes of its model, and hands to ``deepspeed.initialize``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.script_code import keyword, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.script_code import CodePlace, ImportedNames
    from ds_lint.launches.trained_names import TrainedNames

_INITIALIZES = ("deepspeed.initialize", "ds.initialize")
_PIPELINE = "PipelineModule"
_MODEL = 1  # the position of the model


def pipeline_of(trained: TrainedNames, imported: ImportedNames) -> CodePlace | None:
    """Where the script makes the pipeline that every engine of it gets; None if one may get another."""
    calls = [call for call in trained.names.calls if dotted_name(call.func) in _INITIALIZES]
    made = []
    for call in calls:
        given = keyword(call, "model") or (call.args[_MODEL] if len(call.args) > _MODEL else None)
        value = trained.meant(given)
        if not isinstance(value, ast.Call) or not _is_pipeline(dotted_name(value.func), trained, imported):
            return None
        made.append(value)
    return place(made[0].func) if made else None


def _is_pipeline(name: str, trained: TrainedNames, imported: ImportedNames) -> bool:
    """Whether a class is DeepSpeed's, or one of the script that is derived from it."""
    bases = [dotted_name(base) for one in trained.names.every(ast.ClassDef) if one.name == name for base in one.bases]
    full = [imported.full_name(one) or one for one in bases or [name]]
    return any(one.startswith("deepspeed.") and one.endswith(f".{_PIPELINE}") for one in full)
