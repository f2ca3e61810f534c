"""Whether a script has the activations of its model computed again in the backward pass.

Models of transformers do so after ``gradient_checkpointing_enable``, which ``prepare_model_for_kbit_training`` of peft
calls too; diffusers and PyTorch have names of their own.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

_ENABLES = ("apply_activation_checkpointing", "enable_gradient_checkpointing", "gradient_checkpointing_enable")
_PREPARES = ("prepare_model_for_int8_training", "prepare_model_for_kbit_training")
_ARGUMENT = "use_gradient_checkpointing"  # of peft and unsloth


class Recomputation(NamedTuple):
    """A call that switches it on. ``flags`` are the arguments of the script that must be true for it.

    ``is_open`` says that something else decides, too.
    """

    flags: tuple[str, ...]
    is_open: bool


def recomputations(names: ModuleNames) -> Iterator[Recomputation]:
    """The calls of a module that switch it on, each once."""
    found = (_conditions(call, names) for call in names.calls if _switches_on(call))
    yield from dict.fromkeys(found)


def _switches_on(call: ast.Call) -> bool:
    name, argument = last_name(call), keyword(call, _ARGUMENT)
    if name in _PREPARES:
        return argument is None or literal(argument) is True
    return name in _ENABLES or (argument is not None and literal(argument) in (True, "unsloth"))


def _may_be_skipped(call: ast.Call, statement: ast.stmt, names: ModuleNames) -> bool:
    """Whether an expression of a statement decides that a call in it is made."""
    around: ast.AST = call
    while (around := names.parents[around]) is not statement:
        if not isinstance(around, (ast.Call, ast.keyword, ast.Attribute, ast.Tuple)):
            return True
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))


def _conditions(call: ast.Call, names: ModuleNames) -> Recomputation:
    """What must hold so that a call is reached within its function."""
    flags: list[str] = []
    below = names.statement(call)
    is_open = _may_be_skipped(call, below, names)
    while not isinstance(around := names.parents[below], (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        if isinstance(around, ast.If):
            name = dotted_name(around.test).rpartition(".")[2]
            is_open = is_open or not name or below not in around.body
            flags.append(name)
        elif not isinstance(around, (ast.With, ast.AsyncWith)):
            is_open = True
        if not isinstance(around, ast.stmt):
            return Recomputation((), is_open=True)
        below = around
    return Recomputation(tuple(flag for flag in flags if flag), is_open)
