"""Single expressions of a training script: where they stand, what they say, and which library they name."""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

# The classes of training arguments, by the names that they are called by.
ARGUMENTS = re.compile(r"\w*(?:TrainingArguments|TrainingConfig)|(?:SFT|DPO|GRPO|KTO|ORPO|CPO|Reward|RLOO|PPO)Config")
# Libraries that do what their documentation says, besides those of Python; any other module may do anything.
_LIBRARIES = frozenset({
    "accelerate", "bitsandbytes", "datasets", "deepspeed", "evaluate", "numpy", "pandas", "peft", "torch", "tqdm",
    "transformers", "trl", "wandb",
})  # fmt: skip

# Classes of other libraries that load what one of transformers does (``liger_kernel/transformers/auto_model.py``).
_AS_TRANSFORMERS = {"liger_kernel.transformers.AutoLigerKernelForCausalLM": "AutoModelForCausalLM"}


class CodePlace(NamedTuple):
    """Where an expression stands: lines from 1, columns in bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


def place(node: ast.expr | ast.keyword) -> CodePlace:
    """Where an expression, or a keyword with its value, stands."""
    return CodePlace(node.lineno, node.col_offset, node.end_lineno or node.lineno, node.end_col_offset or 0)


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword of a call."""
    return next((one.value for one in call.keywords if one.arg == name), None)


def literal(node: ast.expr | None) -> Any:
    """The value of a constant; None for any other expression."""
    return node.value if isinstance(node, ast.Constant) else None


def value_of(node: ast.expr) -> Any:
    """A constant, or a list of strings as a tuple, so that calls can be compared; UNKNOWN for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)) and all(isinstance(literal(one), str) for one in node.elts):
        return tuple(literal(one) for one in node.elts)
    return UNKNOWN


def written(node: ast.expr) -> str:
    """An expression as a message has it."""
    return dotted_name(node) or ast.unparse(node)


def last_name(call: ast.Call) -> str:
    """The name of what is called, without what it belongs to."""
    return dotted_name(call.func).rpartition(".")[2] or getattr(call.func, "attr", "")


class ImportedNames:
    """The names that the imports of a module bind, each with what it stands for."""

    def __init__(self, names: ModuleNames) -> None:
        self.names = dict(_imported(names))

    def full_name(self, name: str) -> str:
        """A name with the module that it is imported from; empty for one of the script's own."""
        first, dot, rest = name.partition(".")
        return f"{self.names[first]}{dot}{rest}" if first in self.names else ""

    def in_transformers(self, name: str) -> str | None:
        """A name as transformers has it; None for one of anything else."""
        full = self.full_name(name) or name
        return full.rpartition(".")[2] if full.startswith("transformers.") else _AS_TRANSFORMERS.get(full)

    def is_unknown(self, name: str) -> bool:
        """Whether a name comes from a module of which it is not known what it does."""
        full = self.full_name(name)
        first = full.partition(".")[0]
        return bool(full) and first not in _LIBRARIES and first not in sys.stdlib_module_names


def _imported(names: ModuleNames) -> Iterator[tuple[str, str]]:
    for node in names.imports:
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:  # a relative import begins with a dot
                yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        else:
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield alias.asname or first, alias.name if alias.asname else first
