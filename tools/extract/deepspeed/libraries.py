"""Which libraries read and check a config in a release: facts of the release itself."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import Class


def reader(analysis: Analysis) -> str:
    """The library that reads a config file: json, or hjson since 0.8.1."""
    if not analysis.records.readers:
        raise LookupError("nothing that is followed reads a config file")
    return "hjson" if "hjson.load" in analysis.records.readers else "json"


def pydantic(analysis: Analysis) -> int | None:
    """The major version of pydantic by whose rules the models validate; None where there are none.

    Models in the spelling of pydantic 1 are validated by pydantic 1, or by the ``pydantic.v1`` inside of pydantic 2.
    """
    models = analysis.records.models
    if not models:
        return None
    owners = [owner for model in models for owner in analysis.classes.own_lineage(model)]
    return 2 if any(map(_is_configured_for_2, owners)) else 1


def _is_configured_for_2(cls: Class) -> bool:
    return any(
        isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "model_config" for node in cls.node.body
    )
