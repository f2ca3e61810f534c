"""The configs that stand in a document whose markup was lost: JSON texts, and dicts of Python scripts."""

from __future__ import annotations

import ast
import re

# What the scripts compute with: bigscience/T0_3B has a d_model of 2048, and one rank trains on a batch of 1.
NAMES = {"model_hidden_size": 2048, "train_batch_size": 1}

_BEGINS = re.compile(r"^(\w+ = )?\{$", re.MULTILINE)  # `ds_config = {` in a script, `{` alone where a JSON text begins


def configs_of(text: str) -> list[str | dict]:
    """Every config of a document: a JSON text as it stands there, a Python dict as its value."""
    found: list[str | dict] = []
    end = 0
    while begin := _BEGINS.search(text, end):
        end = _end_of_object(text, begin.end() - 1)
        written = text[begin.end() - 1 : end]
        found.append(_value(ast.parse(written, mode="eval").body) if begin[1] else written)
    return found


def _end_of_object(text: str, start: int) -> int:
    depth = 0
    for place in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"the object at {start} has no end")


def _value(node: ast.expr):
    """What an expression of a script comes to; documents are read, not executed."""
    match node:
        case ast.Dict(keys, values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True)}
        case ast.Constant(value):
            return value
        case ast.Name(name):
            return NAMES[name]
        case ast.BinOp(left, ast.Mult(), right):
            return _value(left) * _value(right)
    raise ValueError(f"no reading for {ast.dump(node)}")
