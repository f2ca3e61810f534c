"""The calls in a Python module that set FSDP up by training arguments: ``TrainingArguments(fsdp="full_shard")``."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

_CLASSES = re.compile(r"\w*TrainingArguments|(?:SFT|DPO|GRPO|KTO|ORPO|CPO|Reward|RLOO|PPO)Config")
_LIBRARIES = ("transformers", "trl")


def argument_calls(names: ModuleNames) -> Iterator[ast.Call]:
    """The calls of classes of transformers and trl that are given ``fsdp``, and no config of DeepSpeed."""
    for call in names.calls:
        given = {keyword.arg for keyword in call.keywords}
        if given.isdisjoint(("fsdp", "fsdp_config")) or "deepspeed" in given:
            continue
        name = dotted_name(call.func)
        if _CLASSES.fullmatch(name.rpartition(".")[2]) and _is_imported(name, names):
            yield call


def _is_imported(name: str, names: ModuleNames) -> bool:
    """Whether a name comes from one of the libraries."""
    first, _, rest = name.partition(".")
    for node in names.imports:
        if isinstance(node, ast.ImportFrom):
            is_of_library = (node.module or "").partition(".")[0] in _LIBRARIES
            if is_of_library and any((alias.asname or alias.name) == first for alias in node.names):
                return True
        elif rest and any((alias.asname or alias.name) == first and alias.name in _LIBRARIES for alias in node.names):
            return True
    return False
