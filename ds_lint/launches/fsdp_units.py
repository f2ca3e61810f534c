"""Whether FSDP makes one unit of a whole model: which models those are that a script wraps with a single call."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.fsdp_models import FsdpReader, FsdpWrap

_LOADERS = ("from_config", "from_pretrained", "_from_config")
_OF_MODELS = ("torchvision.models.", "timm.", "torch.nn.Transformer")
_MOVERS = ("cuda", "to", "xpu", "to_empty", "set_default_device", "set_default_tensor_type")
# What a helper is called that may wrap parts of the model before the script wraps the rest.
_MAY_WRAP = re.compile(r"shard|fsdp|wrap|parallel|pipelin", re.IGNORECASE)
_SHARDED = ("FULL_SHARD", "HYBRID_SHARD")  # strategies with which a unit is gathered and released in each pass
_GATHERED_ONCE = ("SHARD_GRAD_OP", "_HYBRID_SHARD_ZERO2")


def strategy(wrap: FsdpWrap, reader: FsdpReader) -> str | None:
    """The sharding strategy of version 1; None if it does not show."""
    given = reader.only(wrap.arguments["sharding_strategy"]) if "sharding_strategy" in wrap.arguments else None
    if "sharding_strategy" not in wrap.arguments:
        return None if wrap.is_open else "FULL_SHARD"
    if isinstance(given, ast.Constant) and given.value is None:
        return "FULL_SHARD"
    full = reader.full_name(given) if given is not None else ""
    return full.rpartition(".")[2] if ".ShardingStrategy." in full else None


def shards_weights(wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a wrapper certainly shards: the gradients and states of each rank are those of its own part."""
    return wrap.version == 2 or strategy(wrap, reader) in (*_SHARDED, *_GATHERED_ONCE)


def releases_weights(wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a unit's weights are released after it ran, so that the size of units decides over memory."""
    if wrap.version == 2:
        given = wrap.arguments.get("reshard_after_forward")
        return not wrap.is_open and (given is None or literal(given) is True)
    return strategy(wrap, reader) in _SHARDED


def has_keyword_true(wrap: FsdpWrap, name: str) -> bool | None:
    """Whether a switch of a wrapper that is off by default is on; None if that does not show."""
    if name not in wrap.arguments:
        return None if wrap.is_open else False
    value = literal(wrap.arguments[name])
    return value if isinstance(value, bool) else None


def is_whole(wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a call gets a model with several layers, none of which has been wrapped before."""
    if wrap.model is None or reader.is_wrapped_elsewhere or reader.is_repeated(wrap.call):
        return False
    if len(reader.wraps) != 1 or isinstance(reader.only(wrap.model), (ast.List, ast.ListComp)):
        return False
    made = reader.origins(wrap.model)
    return bool(made) and all(has_layers(one, reader) for one in made or ()) and not _is_handed_on(wrap, reader)


def has_layers(made: ast.expr, reader: FsdpReader) -> bool:
    """Whether an expression makes a model with several layers, all of which are plain modules."""
    if not isinstance(made, ast.Call):
        return False
    full = reader.called(made)
    if last_name(made) in _LOADERS:
        return full.startswith("transformers.")
    if full.startswith(_OF_MODELS):
        return True
    if full == "torch.nn.Sequential":
        return sum(isinstance(one, ast.Call) and bool(one.args) for one in made.args) > 1
    classes = [one for one in reader.names.every(ast.ClassDef) if one.name == dotted_name(made.func)]
    return len(classes) == 1 and _is_module_with_layers(classes[0], reader)


def _is_module_with_layers(cls: ast.ClassDef, reader: FsdpReader) -> bool:
    bases = [reader.full_name(base) for base in cls.bases]
    if bases != ["torch.nn.Module"]:
        return False
    made = [
        node.value
        for node in ast.walk(cls)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and _is_of_self(node.targets[0])
    ]
    homes = [(one, reader.called(one)) for one in made if one.args]
    weighted = [one for one, home in homes if not home or home.startswith("torch.nn.")]
    return len(weighted) > 1


def _is_of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and dotted_name(node.value) == "self"


def _is_handed_on(wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a function that may wrap parts of the model gets it before."""
    name = dotted_name(wrap.model) if wrap.model is not None else ""
    for call in reader.names.calls:
        if call is wrap.call or not _MAY_WRAP.search(last_name(call)):
            continue
        given = [*call.args, *(one.value for one in call.keywords)]
        if any(dotted_name(one).partition(".")[0] == name.partition(".")[0] for one in given if name):
            return True
    return False


def is_on_cpu(wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether nothing in the script moves the model to a GPU before it is wrapped."""
    made = reader.origins(wrap.model) if wrap.model is not None else None
    if not made or not all(has_layers(one, reader) for one in made):
        return False
    for one in made:
        assert isinstance(one, ast.Call)  # noqa: S101 - it has layers
        if any(keyword(one, name) is not None for name in ("device_map", "device")) or any(
            each.arg is None for each in one.keywords
        ):
            return False
        classes = [cls for cls in reader.names.every(ast.ClassDef) if cls.name == dotted_name(one.func)]
        if any("cuda" in ast.unparse(cls) or "device" in ast.unparse(cls) for cls in classes):
            return False
    if any(call.lineno <= wrap.call.lineno for name in _MOVERS for call in reader.names.calls_by_method.get(name, ())):
        return False
    contexts = (item.context_expr for one in reader.names.every(ast.With) for item in one.items)
    return not any("device" in ast.unparse(one) for one in contexts)
