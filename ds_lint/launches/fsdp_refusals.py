"""What torch refuses in a script with FSDP: imports, keywords, members of enumerations, values of the wrong kind.

Sources: ``torch/distributed/fsdp/_init_utils.py``, ``wrap.py`` and ``fully_sharded_data_parallel.py``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches import fsdp_units
from ds_lint.launches.certain import is_main
from ds_lint.launches.fsdp_policies import ARGUMENT, is_class, policy_of
from ds_lint.launches.script_code import literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.knowledge.fsdp import FsdpNames
    from ds_lint.launches.fsdp_models import FsdpReader, FsdpWrap

# Modules of which the store has every name.
_ABOUT_FSDP = (
    "torch.distributed.fsdp", "torch.distributed._fsdp", "torch.distributed._composable",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "torch.distributed.checkpoint.state_dict",
)  # fmt: skip
_GUARDS = ("version", "hasattr", "signature", "TYPE_CHECKING", "find_spec", "is_available")
# Arguments of version 1 whose attributes it reads at once, with the class that they have to be.
_OBJECTS = {"mixed_precision": "MixedPrecision", "cpu_offload": "CPUOffload"}
_OF_VERSION_2 = {"mixed_precision": "MixedPrecisionPolicy", "cpu_offload": "CPUOffloadPolicy"}
_DTYPES = ("torch.bfloat16", "torch.float16", "torch.half", "torch.float32")


class TorchRefusal(NamedTuple):
    """What is refused, and where."""

    node: ast.expr | ast.stmt | ast.keyword
    key: str | None
    message: str
    stage: Stage
    help: str
    label: str


def refusals(reader: FsdpReader, torch: FsdpNames) -> Iterator[TorchRefusal]:
    """Everything that is certainly refused, in no order."""
    if torch.is_known:
        yield from _imports(reader, torch)
        yield from _calls(reader, torch)
        yield from _members(reader, torch)
    for wrap in reader.wraps:
        if wrap.version == 1:
            yield from _values(wrap, reader)
            yield from _policies(wrap, reader)
            yield from _states(wrap, reader)
    yield from _methods(reader)


def _is_guarded(node: ast.AST, reader: FsdpReader) -> bool:
    """Whether something around a node catches what it raises, or asks beforehand whether it would raise."""
    below = node
    while (around := reader.names.parents.get(below)) is not None:
        if isinstance(around, ast.Try) and below in around.body and around.handlers:
            return True
        if isinstance(around, ast.ExceptHandler):
            return True
        is_branch = isinstance(around, (ast.If, ast.IfExp)) and below is not around.test
        if is_branch and _asks(around, node):
            return True
        below = around
    return False


def _asks(branch: ast.AST, node: ast.AST) -> bool:
    """Whether a condition decides over an import, or may look whether a call is refused."""
    test = branch.test if isinstance(branch, (ast.If, ast.IfExp)) else None
    if test is None or is_main(test):
        return False
    return isinstance(node, ast.stmt) or any(word in ast.unparse(test) for word in _GUARDS)


def _imports(reader: FsdpReader, torch: FsdpNames) -> Iterator[TorchRefusal]:
    for node in reader.names.imports:
        if _is_guarded(node, reader) or (isinstance(node, ast.ImportFrom) and node.level):
            continue
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        for module in modules:
            if not f"{module}.".startswith(tuple(f"{one}." for one in _ABOUT_FSDP)):
                continue
            if torch.facts(module) is None:
                yield _refused_import(node, module.rpartition(".")[2], module, "", torch, "ModuleNotFoundError")
            elif isinstance(node, ast.ImportFrom) and torch.is_public(module):
                for alias in node.names:
                    if alias.name.startswith(("_", "*")) or torch.facts(f"{module}.{alias.name}") is not None:
                        continue
                    yield _refused_import(node, alias.name, f"{module}.{alias.name}", module, torch, "ImportError")


def _refused_import(
    node: ast.Import | ast.ImportFrom, name: str, full: str, module: str, torch: FsdpNames, error: str
) -> TorchRefusal:
    alias = next((one for one in node.names if one.name == name), None)
    what = f"no `{name}` in `{module}`" if module else f"no module `{full}`"
    since, until = torch.span(full)
    others = [home for home in _homes(name, torch) if home != module] if module else []
    if others:
        advice = f"Import it from `{others[0]}`."
    elif since is not None:
        advice = f"It is new in torch {since}." if until is None else f"It is in torch {since} to {until}."
    elif until is not None:
        advice = f"torch {until} is the last release that has it."
    else:
        advice = "No release since 2.0 has it: delete it if nothing uses it."
    if name == "auto_wrap":
        advice = f"{advice} `auto_wrap_policy` of `FullyShardedDataParallel` does what `auto_wrap` did."
    place: ast.expr | ast.stmt = node
    if alias is not None and alias.end_lineno is not None:
        place = ast.copy_location(ast.Name(name, ast.Load()), alias)
    return TorchRefusal(
        place,
        name,
        f"torch {torch.release} has {what}: the import raises {'an' if error[0] in 'AEIOU' else 'a'} {error}",
        "load",
        advice,
        "not there",
    )


def _homes(name: str, torch: FsdpNames) -> list[str]:
    """The public modules that have a name."""
    homes = ("torch.distributed.fsdp", "torch.distributed.fsdp.wrap", "torch.distributed.fsdp.sharded_grad_scaler")
    more = ("torch.distributed.checkpoint.state_dict", _ABOUT_FSDP[3])
    return [home for home in (*homes, *more) if torch.facts(f"{home}.{name}") is not None]


def _calls(reader: FsdpReader, torch: FsdpNames) -> Iterator[TorchRefusal]:
    for call in reader.names.calls:
        full = reader.called(call)
        is_partial = dotted_name(call.func).rpartition(".")[2] == "partial" and bool(call.args)
        if is_partial:
            full = reader.full_name(call.args[0])
        facts = torch.facts(full) if full.startswith(_ABOUT_FSDP) else None
        if facts is None or "parameters" not in facts or facts.get("is_open") or _is_guarded(call, reader):
            continue
        name, parameters = full.rpartition(".")[2], facts["parameters"]
        strangers = [one for one in call.keywords if one.arg is not None and one.arg not in parameters]
        yield from (_unknown_keyword(one, name, full, parameters, torch) for one in strangers)
        if is_partial or strangers or any(isinstance(one, ast.Starred) for one in call.args):
            continue
        most = facts.get("positional", len(parameters))
        if len(call.args) > most:
            yield TorchRefusal(
                call.args[most],
                None,
                f"`{name}` takes {most} positional argument{'s' if most != 1 else ''}: the call raises a TypeError",
                "initialize",
                f"Write `{parameters[most]}=` before it." if most < len(parameters) else "Delete it.",
                "needs a keyword",
            )
        given = {*parameters[: len(call.args)], *(one.arg for one in call.keywords)}
        missing = [one for one in facts.get("required", []) if one not in given]
        if missing and None not in given:
            yield _missing(call, name, missing)


def _unknown_keyword(
    keyword: ast.keyword, name: str, full: str, parameters: list[str], torch: FsdpNames
) -> TorchRefusal:
    from ds_lint.knowledge.suggestions import choice  # difflib costs start-up

    assert keyword.arg is not None  # noqa: S101 - it is not ``**``
    later, earlier = torch.releases_with(full, keyword.arg)
    meant = choice(keyword.arg, parameters)
    if later is not None:
        advice = f"It is new in torch {later}."
    elif earlier is not None:
        advice = f"torch {earlier} is the last release that has it."
    else:
        advice = f"Write `{meant}`." if meant else "Delete it."
    return TorchRefusal(
        keyword,
        keyword.arg,
        f"`{name}` of torch {torch.release} has no keyword `{keyword.arg}`: the call raises a TypeError",
        "initialize",
        advice,
        f"did you mean `{meant}`?" if meant and later is earlier is None else "unknown keyword",
    )


def _missing(call: ast.Call, name: str, missing: list[str]) -> TorchRefusal:
    is_policy = name.endswith("_policy")
    missed = ", ".join(f"`{one}`" for one in missing)
    return TorchRefusal(
        call,
        ARGUMENT if is_policy else missing[0],
        f"`{name}` is called without {missed}: the call raises a TypeError",
        "initialize",
        f"Pass the function without calling it: `functools.partial({name}, ...)`." if is_policy else "Pass them.",
        "called too early" if is_policy else "arguments are missing",
    )


def _members(reader: FsdpReader, torch: FsdpNames) -> Iterator[TorchRefusal]:
    for node in reader.names.every(ast.Attribute):
        full = reader.full_name(node.value)
        facts = torch.facts(full) if full.startswith(_ABOUT_FSDP) else None
        members = facts.get("members") if facts is not None else None
        if members and node.attr not in members and not node.attr.startswith("__") and not _is_guarded(node, reader):
            from ds_lint.knowledge.suggestions import choice

            meant = choice(node.attr, members)
            yield TorchRefusal(
                node,
                None,
                f"`{full.rpartition('.')[2]}` of torch {torch.release} has no member `{node.attr}`: "
                "it raises an AttributeError",
                "initialize",
                f"Write `{meant}`." if meant else f"Its members are {', '.join(members)}.",
                "no such member",
            )


def _values(wrap: FsdpWrap, reader: FsdpReader) -> Iterator[TorchRefusal]:
    """Values of version 1 whose attributes are read, or which are looked up among the members of an enumeration."""
    for name, wanted in _OBJECTS.items():
        node = reader.only(wrap.arguments[name]) if name in wrap.arguments else None
        if node is None or _is_guarded(wrap.call, reader):
            continue
        is_other = reader.full_name(node) in _DTYPES or (isinstance(node, ast.Constant) and bool(node.value))
        is_of_2 = isinstance(node, ast.Call) and reader.called(node).endswith(f".{_OF_VERSION_2[name]}")
        if is_other or (is_of_2 and reader.called(node).startswith("torch.distributed.")):  # type: ignore[arg-type]
            shown = _OF_VERSION_2[name] if is_of_2 else ast.unparse(node)
            parameter = "param_dtype=torch.bfloat16" if name == "mixed_precision" else "offload_params=True"
            yield TorchRefusal(
                wrap.written(name),
                name,
                f"`{name}` is {shown}, not a `{wanted}`: `FullyShardedDataParallel` raises an AttributeError",
                "initialize",
                f"Pass `{wanted}({parameter})`.",
                f"not a {wanted}",
            )
    given = wrap.arguments.get("sharding_strategy")
    value = literal(reader.only(given)) if given is not None else None
    if isinstance(value, (str, int)) and not _is_guarded(wrap.call, reader):
        member = value if isinstance(value, str) and value.isupper() else "FULL_SHARD"
        yield TorchRefusal(
            wrap.written("sharding_strategy"),
            "sharding_strategy",
            f"`sharding_strategy` is {value!r}, no member of `ShardingStrategy`: "
            "`FullyShardedDataParallel` raises a KeyError",
            "initialize",
            f"Pass `ShardingStrategy.{member}`.",
            "not a ShardingStrategy",
        )


def _policies(wrap: FsdpWrap, reader: FsdpReader) -> Iterator[TorchRefusal]:
    if ARGUMENT not in wrap.arguments or _is_guarded(wrap.call, reader):
        return
    policy = policy_of(wrap, reader)
    place = wrap.written(ARGUMENT)
    if policy.function == "transformer_auto_wrap_policy" and policy.is_bare:
        yield TorchRefusal(
            place,
            ARGUMENT,
            "`transformer_auto_wrap_policy` has no `transformer_layer_cls`: `FullyShardedDataParallel` "
            "raises a TypeError",
            "initialize",
            "Pass `functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={...})`.",
            "no class to wrap",
        )
    elif policy.given is not None and is_class(policy.given, reader):
        yield TorchRefusal(
            place,
            ARGUMENT,
            f"the policy gets the class {dotted_name(policy.given)} and not a set of classes: it raises a TypeError",
            "initialize",
            f"Write `{{{dotted_name(policy.given)}}}`.",
            "not a set",
        )
    elif any(isinstance(literal(one), str) for one in policy.classes or ()):
        yield TorchRefusal(
            place,
            ARGUMENT,
            "the policy gets names of classes and not the classes: it raises a TypeError",
            "initialize",
            "Import the class, and pass it instead of its name.",
            "a name",
        )
    elif isinstance(policy.node, (ast.Set, ast.List, ast.Tuple, ast.Dict)):
        yield TorchRefusal(
            place,
            ARGUMENT,
            f"`{ARGUMENT}` is a {type(policy.node).__name__.lower()} and no policy: it raises a TypeError",
            "initialize",
            "Pass `ModuleWrapPolicy({...})`.",
            "not a policy",
        )


def _states(wrap: FsdpWrap, reader: FsdpReader) -> Iterator[TorchRefusal]:
    strategy = fsdp_units.strategy(wrap, reader)
    groups = [wrap.has(name) for name in ("process_group", "device_mesh")]
    is_hybrid = strategy in ("HYBRID_SHARD", "_HYBRID_SHARD_ZERO2")
    if is_hybrid and groups == [False, False] and policy_of(wrap, reader).kind == "none":
        yield TorchRefusal(
            wrap.written("sharding_strategy"),
            "sharding_strategy",
            f"{strategy} needs `{ARGUMENT}`, `device_mesh` or `process_group`: it raises a ValueError",
            "initialize",
            "Pass a policy, or the groups of ranks that share a copy of the weights.",
            "no groups of ranks",
        )
    has_no_device = wrap.has("device_id") is False and wrap.has("param_init_fn") is False
    if fsdp_units.has_keyword_true(wrap, "sync_module_states") and has_no_device and fsdp_units.is_on_cpu(wrap, reader):
        yield TorchRefusal(
            wrap.written("sync_module_states"),
            "sync_module_states",
            "`sync_module_states` sends weights between GPUs, but the model is on the CPU: it raises a ValueError",
            "initialize",
            "Pass `device_id=torch.cuda.current_device()`.",
            "needs `device_id`",
        )


def _methods(reader: FsdpReader) -> Iterator[TorchRefusal]:
    """``clip_grad_norm_`` of a model of version 2, which stays the class that it was."""
    is_own = "clip_grad_norm_" in reader.names.functions
    for call in reader.names.calls_by_method.get("clip_grad_norm_", ()) if not is_own else ():
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if owner is None or reader.called(call) or _is_guarded(call, reader):
            continue
        wrap = reader.wrap_of(owner)
        made = reader.origins(wrap.model) if wrap is not None and wrap.version == 2 and wrap.model is not None else []
        if made and all(fsdp_units.has_layers(one, reader) for one in made):
            yield TorchRefusal(
                call,
                None,
                f"`{dotted_name(owner)}` has no `clip_grad_norm_`, which only FSDP 1 adds: it raises an AttributeError",
                "train",
                f"Write `torch.nn.utils.clip_grad_norm_({dotted_name(owner)}.parameters(), ...)`, which computes the "
                "norm of all shards.",
                "no such method",
            )
