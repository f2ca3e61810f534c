"""What a training script sets on its training arguments once they are made.

The Trainer has compared some of the fields with the config by then; others it reads when it trains.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.argument_classes import arguments_class
from ds_lint.launches.script_code import last_name, place
from ds_lint.launches.script_values import constant
from ds_lint.launches.training_ways import KeywordArgument, WayReader
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.script_modules import ScriptModule

_OBJECTS = re.compile(r"(?:\w*_)?args|(?:\w*_)?arguments|\w*config")
# Methods of argparse, whose namespace no Trainer takes.
_OF_NAMESPACES = ("parse_args", "parse_intermixed_args")
# The fields that methods of TrainingArguments set, by their parameters if those have other names.
_SETTERS = {
    "set_training": {"batch_size": "per_device_train_batch_size", "num_epochs": "num_train_epochs"},
    "set_evaluate": {"strategy": "eval_strategy", "steps": "eval_steps", "batch_size": "per_device_eval_batch_size"},
    "set_save": {"strategy": "save_strategy", "steps": "save_steps", "total_limit": "save_total_limit"},
    "set_logging": {"strategy": "logging_strategy", "steps": "logging_steps"},
    "set_optimizer": {
        "name": "optim", "beta1": "adam_beta1", "beta2": "adam_beta2", "epsilon": "adam_epsilon", "args": "optim_args",
    },
    "set_lr_scheduler": {"name": "lr_scheduler_type", "num_epochs": "num_train_epochs"},
    "set_dataloader": {
        "train_batch_size": "per_device_train_batch_size", "eval_batch_size": "per_device_eval_batch_size",
    },
}  # fmt: skip
# What these set also where the call does not name it: the default of the parameter.
_SET_ALWAYS = {
    "set_training": (
        *("learning_rate", "per_device_train_batch_size", "weight_decay", "num_train_epochs", "max_steps"),
        *("gradient_accumulation_steps", "seed", "gradient_checkpointing"),
    ),
    "set_optimizer": ("optim", "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon"),
    "set_lr_scheduler": ("lr_scheduler_type", "num_train_epochs", "max_steps", "warmup_steps", "warmup_ratio"),
    "set_dataloader": ("per_device_train_batch_size", "per_device_eval_batch_size"),
    "set_save": ("save_strategy", "save_steps"),
    "set_evaluate": ("eval_strategy", "per_device_eval_batch_size"),
    "set_logging": ("logging_strategy", "logging_steps"),
}


class LaterChanges(NamedTuple):
    """What a script sets once its training arguments are made. ``rest`` says that it may set any other field."""

    fields: dict[str, KeywordArgument]
    rest: bool
    remade: frozenset[str]  # the fields that a copy gets
    is_copied: bool  # to an object that is compared with the config again


def later_changes(module: ScriptModule, sources: SourceReader) -> LaterChanges:
    """What a script sets on objects of arguments."""
    fields = dict(_stored(module, WayReader(module, sources)))
    rest = is_copied = False
    remade: set[str] = set()
    for call in module.names.calls:
        function = dotted_name(call.func)
        if function in ("replace", "dataclasses.replace") and call.args and _is_object(call.args[0]):
            remade.update(one.arg for one in call.keywords if one.arg is not None)
            rest |= any(one.arg is None for one in call.keywords)
            is_copied = True
        elif function.endswith("__dict__.update") and _is_object(call.func):
            rest = True
        else:
            names = list(_set_by(call, module))
            rest |= None in names
            fields.update({name: KeywordArgument(UNKNOWN, place(call)) for name in names if name is not None})
    return LaterChanges(fields, rest, frozenset(remade), is_copied)


def _stored(module: ScriptModule, reader: WayReader) -> Iterator[tuple[str, KeywordArgument]]:
    """The attributes that get a value: UNKNOWN unless one statement gives it, and certainly runs."""
    found: set[str] = set()
    for node in module.names.every(ast.Attribute):
        if not (isinstance(node.ctx, ast.Store) and _OBJECTS.fullmatch(dotted_name(node.value).rpartition(".")[2])):
            continue
        made = _made_as(node.value, module)
        if isinstance(made, ast.Call) and last_name(made) in _OF_NAMESPACES:
            continue  # of what the arguments are made from
        statement = module.names.parents.get(node)
        is_first = node.attr not in found and made is not None and made.lineno < node.lineno
        value = UNKNOWN
        if is_first and isinstance(statement, ast.Assign) and _is_straight(statement, module):
            value = reader.value(statement.value)
        found.add(node.attr)
        yield node.attr, KeywordArgument(value, place(node))


def _made_as(node: ast.expr, module: ScriptModule) -> ast.expr | None:
    """What makes an object of arguments; None if that is not known."""
    name = dotted_name(node)
    found = module.names.assignments(name, node) if name else []
    if len(found) != 1:
        return None
    value = found[0].value
    if value is None and "train" in name:  # among others that a parser returns
        unpacked = [
            one.value
            for one in module.names.every(ast.Assign)
            for target in one.targets
            if isinstance(target, (ast.Tuple, ast.List)) and any(dotted_name(part) == name for part in target.elts)
        ]
        return unpacked[0] if len(unpacked) == 1 and "parse" in _called_name(unpacked[0]) else None
    is_class = value is not None and arguments_class(_dotted_function(value), module) is not None
    is_parsed = "parse" in _called_name(value.value if isinstance(value, ast.Subscript) else value)
    return value if is_class or is_parsed else None


def _called_name(node: ast.expr | None) -> str:
    return last_name(node) if isinstance(node, ast.Call) else ""


def _dotted_function(node: ast.expr) -> str:
    return dotted_name(node.func) if isinstance(node, ast.Call) else ""


def _set_by(call: ast.Call, module: ScriptModule) -> Iterator[str | None]:
    """The fields that ``setattr`` or a method sets; None for any field."""
    method = last_name(call)
    if dotted_name(call.func) == "setattr" and len(call.args) > 1 and _is_object(call.args[0]):
        name = constant(call.args[1], module.values)
        yield name if isinstance(name, str) else None
    elif method in _SETTERS and isinstance(call.func, ast.Attribute) and _is_object(call.func.value):
        for one in call.keywords:
            yield None if one.arg is None else _SETTERS[method].get(one.arg, one.arg)
        yield from _SET_ALWAYS[method]


def _is_object(node: ast.expr) -> bool:
    """Whether an expression is called like an object of arguments, or has one in it."""
    return any(_OBJECTS.fullmatch(part) for part in dotted_name(node).split("."))


def _is_straight(statement: ast.stmt, module: ScriptModule) -> bool:
    """Whether a statement runs whenever its module or function does, before a Trainer is made there."""
    around = module.names.parents.get(statement)
    if isinstance(around, ast.If) and ast.unparse(around.test) in ("__name__ == '__main__'", "'__main__' == __name__"):
        around = module.names.parents.get(around)
    if not isinstance(around, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    scope = module.names.places[statement].scope
    made = [
        call for call in module.names.calls
        if last_name(call).endswith("Trainer") and module.names.places[call].scope is scope
    ]  # fmt: skip
    return bool(made) and all(statement.lineno < call.lineno for call in made)
