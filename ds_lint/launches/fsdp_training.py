"""What a script does with a sharded model besides wrapping it: its optimizer, its gradients, what it saves and loads.

Sources: ``torch/distributed/fsdp/_flat_param.py``, ``_state_dict_utils.py`` and ``sharded_grad_scaler.py``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches import fsdp_units
from ds_lint.launches.fsdp_policies import policy_of
from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.fsdp_models import FsdpReader, FsdpWrap
    from ds_lint.launches.fsdp_policies import WrapPolicy

_FSDP = "torch.distributed.fsdp."
_STATES = "torch.distributed.checkpoint.state_dict."
_OF_PARAMETERS = ("named_parameters", "parameters")
_OPTIMIZERS = ("torch.optim.", "bitsandbytes.optim.")
# Parts of a model that are all of it, or all but a head that may share its weights.
_WHOLE_PARTS = ("base_model", "bert", "model", "module", "transformer")
# Methods of version 1, and static ones, in which all ranks take part.
_COLLECTIVE = ("clip_grad_norm_", "state_dict", "load_state_dict")
_COLLECTIVE_OF_CLASS = ("full_optim_state_dict", "optim_state_dict", "sharded_optim_state_dict", "summon_full_params")
_COLLECTIVE_FUNCTIONS = ("get_model_state_dict", "get_optimizer_state_dict", "get_state_dict")
_BUILDERS = ("from_config", "_from_config")
_MOST_STEPS = 6
_GATHERS_LATER = ("broadcast_from_rank0", "set_model_state_dict", "distribute_tensor", "broadcast")


# --------------------------------------------------------------------------------------------------------- optimizers


class EarlyOptimizer(NamedTuple):
    """An optimizer that is made before a model is wrapped."""

    call: ast.Call
    wrap: FsdpWrap


def early_optimizers(reader: FsdpReader) -> Iterator[EarlyOptimizer]:
    """The optimizers that get the parameters of a model which FSDP replaces afterwards."""
    for call in _optimizers(reader):
        models = list(_models_of(call))
        for wrap in reader.wraps:
            is_flat = wrap.version == 2 or fsdp_units.has_keyword_true(wrap, "use_orig_params") is False
            is_early = is_flat and bool(models) and all(_is_wrapped_later(model, wrap, reader) for model in models)
            if is_early and not _is_made_again(call, wrap, reader):
                yield EarlyOptimizer(call, wrap)
                break


def _optimizers(reader: FsdpReader) -> Iterator[ast.Call]:
    """The calls that make an optimizer of torch or bitsandbytes."""
    for call in reader.names.calls:
        full = reader.called(call)
        if full.startswith(_OPTIMIZERS) and not full.startswith("torch.optim.lr_scheduler") and call.args:
            yield call


def _models_of(call: ast.Call) -> Iterator[ast.expr]:
    """The models whose parameters a call gets directly, all of them."""
    for one in ast.walk(call.args[0]):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in _OF_PARAMETERS:
            yield one.func.value


def _is_wrapped_later(model: ast.expr, wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a model is what a call wraps after this place."""
    name = dotted_name(model)
    if not name or wrap.model is None or reader.is_repeated(wrap.call):
        return False
    same = dotted_name(wrap.model) == name and reader.names.means_the_same(name, model, wrap.model)
    places = reader.names.places
    if not same or places[model].scope is not places[wrap.call].scope or not reader.trained.precedes(model, wrap.call):
        return False
    return not _is_replaced(name, model, wrap, reader) and reader.wrap_of(model) is None


def _is_replaced(name: str, node: ast.expr, wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether a name gets another model between a node and the call that wraps it."""
    start, end = reader.names.statement(node).lineno, reader.names.statement(wrap.call).lineno
    values = (one.value for one in reader.names.assignments(name, node) if one.value is not None)
    return any(start < value.lineno < end for value in values)


def _is_made_again(call: ast.Call, wrap: FsdpWrap, reader: FsdpReader) -> bool:
    """Whether the name of an optimizer gets another one after the model is wrapped, or nothing uses it after that."""
    statement = reader.names.statement(call)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    name = dotted_name(targets[0]) if len(targets) == 1 else ""
    if not name:
        return True
    line = wrap.call.lineno
    if any(one.value is None or one.value.lineno > line for one in reader.names.assignments(name, call)):
        return True
    return not any(use.lineno > line for use in reader.names.uses.get(name, []))


# ----------------------------------------------------------------------------------------------------- flat parameters


class FrozenPart(NamedTuple):
    """What leaves a part of a model frozen."""

    node: ast.expr
    what: str


def frozen_part(wrap: FsdpWrap, reader: FsdpReader, policy: WrapPolicy) -> FrozenPart | None:
    """What freezes a part of the parameters that are one unit; None if nothing certainly does."""
    if wrap.model is None or not fsdp_units.is_whole(wrap, reader):
        return None
    adapted = _adapter(wrap, reader)
    if adapted is not None and policy.kind in ("none", "classes") and not _is_of_adapters(policy, reader):
        return FrozenPart(adapted, "`get_peft_model`")
    if policy.kind != "none":
        return None
    name = dotted_name(wrap.model)
    for node in _freezing(reader):
        owner = dotted_name(node)
        if not name or not owner.startswith(f"{name}.") or owner.removeprefix(f"{name}.") in _WHOLE_PARTS:
            continue
        if reader.names.means_the_same(name.partition(".")[0], node, wrap.model) and reader.trained.precedes(
            node, wrap.call
        ):
            return FrozenPart(node, f"`{owner}`, which is frozen,")
    return None


def _adapter(wrap: FsdpWrap, reader: FsdpReader) -> ast.Call | None:
    """The call of peft that makes the model that is wrapped."""
    node, seen = wrap.model, 0
    while node is not None and seen < _MOST_STEPS:
        seen += 1
        made = reader.only(node)
        if not isinstance(made, ast.Call):
            return None
        if reader.called(made) in ("peft.get_peft_model", "peft.mapping.get_peft_model"):
            return made
        node = made.func.value if isinstance(made.func, ast.Attribute) and not reader.called(made) else None
    return None


def _is_of_adapters(policy: WrapPolicy, reader: FsdpReader) -> bool:
    """Whether a policy may wrap the layers of adapters by themselves: only a layer of transformers has both."""
    classes = [reader.full_name(one) for one in policy.classes or []]
    return policy.kind == "classes" and not (classes and all(one.startswith("transformers.models.") for one in classes))


def _freezing(reader: FsdpReader) -> Iterator[ast.expr]:
    """The modules whose parameters are all frozen, by a method or a loop."""
    for call in reader.names.calls_by_method.get("requires_grad_", ()):
        if isinstance(call.func, ast.Attribute) and call.args and literal(call.args[0]) is False:
            yield call.func.value
    for loop in reader.names.every(ast.For):
        over = loop.iter
        if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute) or over.func.attr != "parameters":
            continue
        variable = dotted_name(loop.target)
        if len(loop.body) == 1 and variable and _freezes(loop.body[0], variable):
            yield over.func.value


def _freezes(statement: ast.stmt, variable: str) -> bool:
    if isinstance(statement, ast.Assign):
        value = statement.value
        is_off = isinstance(value, ast.Constant) and value.value is False
        return is_off and dotted_name(statement.targets[0]) == f"{variable}.requires_grad"
    return isinstance(statement, ast.Expr) and ast.unparse(statement) == f"{variable}.requires_grad_(False)"


class FlatGroups(NamedTuple):
    """A choice among the parameters of a model whose units have one each."""

    node: ast.expr
    wrap: FsdpWrap
    by: str
    result: str


def groups_of_flat_parameters(reader: FsdpReader) -> Iterator[FlatGroups]:
    """The comprehensions that choose parameters of a model of version 1 by the names or dimensions they had."""
    found: list[ast.ListComp | ast.GeneratorExp] = [
        *reader.names.every(ast.ListComp),
        *reader.names.every(ast.GeneratorExp),
    ]
    for comprehension in found:
        generator = comprehension.generators[0]
        over = generator.iter
        if not isinstance(over, ast.Call) or not isinstance(over.func, ast.Attribute) or not generator.ifs:
            continue
        if over.func.attr not in _OF_PARAMETERS:
            continue
        by = _chosen_by(generator, reader)
        wrap = reader.wrap_of(over.func.value) if by is not None else None
        if by is not None and wrap is not None and wrap.version == 1 and _is_weight_decay(comprehension, reader):
            yield FlatGroups(comprehension, wrap, by[0], by[1])


def _chosen_by(generator: ast.comprehension, reader: FsdpReader) -> tuple[str, str] | None:
    target = generator.target
    text = " ".join(ast.unparse(one) for one in generator.ifs)
    if isinstance(target, ast.Tuple) and len(target.elts) == 2:
        variable = dotted_name(target.elts[1])
        words = [word for one in generator.ifs for word in _words(one, reader)]
        if words and all("bias" in word or "weight" in word for word in words):
            return "the name", "no name has such a word"
    else:
        variable = dotted_name(target)
    if variable and any(f"{variable}.{how}" in text for how in ("ndim ", "dim() ")):
        return "the dimensions", "each has one"
    return None


def _words(test: ast.expr, reader: FsdpReader) -> Iterator[str]:
    """The words that a condition looks for in a name, also those of a list that is assigned once."""
    for one in ast.walk(test):
        values = [one]
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load):
            meant = reader.only(one)
            values = list(meant.elts) if isinstance(meant, (ast.List, ast.Tuple, ast.Set)) else []
        for value in values:
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.value


def _is_weight_decay(comprehension: ast.AST, reader: FsdpReader) -> bool:
    """Whether what is chosen becomes the parameters of a group: ``{"params": [...]}``, or a name that does."""
    parent = reader.names.parents.get(comprehension)
    return isinstance(parent, ast.Dict) and any(
        isinstance(key, ast.Constant) and key.value == "params" and value is comprehension
        for key, value in zip(parent.keys, parent.values, strict=True)
    )


# ------------------------------------------------------------------------------------------------------------ one rank


class Collective(NamedTuple):
    """A call that all ranks have to make."""

    call: ast.Call
    advice: str = ""


def collective_calls(reader: FsdpReader) -> Iterator[Collective]:
    """The calls in which all ranks take part."""
    for call in reader.names.calls:
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        full = reader.called(call)
        if method in _COLLECTIVE and isinstance(call.func, ast.Attribute) and not full:
            wrap = reader.wrap_of(call.func.value)
            if wrap is not None and wrap.version == 1 and fsdp_units.shards_weights(wrap, reader):
                yield Collective(call, _HOW_TO_SAVE if method == "state_dict" else "")
        elif method == "save_pretrained":
            wrap = _saved_wrap(call, reader)
            if wrap is not None and policy_of(wrap, reader).kind != "none":
                yield Collective(call, _HOW_TO_SAVE)
        elif full.startswith(_FSDP) and method in _COLLECTIVE_OF_CLASS and call.args:
            wrap = reader.wrap_of(call.args[0])
            if wrap is not None and wrap.version == 1 and fsdp_units.shards_weights(wrap, reader):
                yield Collective(call)
        elif (
            full.startswith(_STATES)
            and last_name(call) in _COLLECTIVE_FUNCTIONS
            and call.args
            and reader.wrap_of(call.args[0]) is not None
        ):
            yield Collective(call)


_HOW_TO_SAVE = " `FullStateDictConfig(offload_to_cpu=True, rank0_only=True)` gives the weights to the first rank alone."


class SavedPart(NamedTuple):
    """What is saved although it is only the part of one rank."""

    node: ast.expr
    message: str
    help: str
    label: str


def saved_parts(reader: FsdpReader) -> Iterator[SavedPart]:
    """What the script saves of a sharded model or its optimizer that is the part of one rank."""
    for call in reader.names.calls_by_method.get("state_dict", ()):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        test = reader.trained.condition_of_one_rank(call)
        if owner is None or call.args or test is None or _saving(call, reader) is None:
            continue
        wrap = reader.wrap_of(owner)
        if wrap is not None and wrap.version == 2:
            yield SavedPart(
                call,
                f"`{ast.unparse(call)}` has the shards of this rank alone: the file lacks the weights of the others",
                "Save `get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))`, "
                "which all ranks have to call.",
                "shards of one rank",
            )
        elif wrap is None and (made := _optimizer(owner, reader)) is not None:
            yield SavedPart(
                call,
                f"`{ast.unparse(call)}` has the states of this rank's shard alone: the file lacks those of the others",
                "Save what `FullyShardedDataParallel.optim_state_dict(model, optimizer)` returns, which all ranks have "
                "to call."
                if made.version == 1
                else "Save what `get_optimizer_state_dict` returns, which all ranks have to call.",
                "states of one shard",
            )
    yield from _saved_by_transformers(reader)


def _saving(call: ast.Call, reader: FsdpReader) -> ast.Call | None:
    """The ``torch.save`` that gets what a call returns, directly, in a dict or by name."""
    node: ast.AST = call
    for around in reader.around(call):
        if isinstance(around, ast.Call):
            return around if reader.called(around) == "torch.save" else None
        if not isinstance(around, (ast.Dict, ast.Tuple, ast.List, ast.keyword)):
            break
        node = around
    statement = reader.names.parents.get(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    name = dotted_name(targets[0]) if len(targets) == 1 else ""
    for use in reader.names.uses.get(name, []) if name else ():
        taker = reader.names.parents.get(use)
        if isinstance(taker, ast.Call) and reader.called(taker) == "torch.save" and reader.only(use) is not None:
            return taker if reader.names.means_the_same(name, use, call) else None
    return None


def _optimizer(owner: ast.expr, reader: FsdpReader) -> FsdpWrap | None:
    """The wrapper of the model whose parameters an optimizer has."""
    made = reader.only(owner)
    if not isinstance(made, ast.Call) or made not in list(_optimizers(reader)):
        return None
    wraps = [reader.wrap_of(model) for model in _models_of(made)]
    first = wraps[0] if wraps else None
    is_one = first is not None and all(one is not None and one.call is first.call for one in wraps)
    return first if is_one and first is not None and fsdp_units.shards_weights(first, reader) else None


def _saved_by_transformers(reader: FsdpReader) -> Iterator[SavedPart]:
    for call in reader.names.calls_by_method.get("save_pretrained", ()):
        wrap = _saved_wrap(call, reader)
        if wrap is None or reader.trained.condition_of_one_rank(call) is not None:
            continue
        yield SavedPart(
            call,
            f"`{ast.unparse(call.func)}` saves this rank's shard of what is in no inner unit: "
            "the file lacks these weights",
            "Get the weights on all ranks with `state_dict()`, and pass them on one rank as "
            "`save_pretrained(..., state_dict=state)`.",
            "without the whole weights",
        )


def _saved_wrap(call: ast.Call, reader: FsdpReader) -> FsdpWrap | None:
    """The wrapper of a model of transformers whose ``save_pretrained`` looks for the weights by itself."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or keyword(call, "state_dict") is not None or any(one.arg is None for one in call.keywords):
        return None
    wrap = reader.wrap_of(owner)
    if wrap is None or wrap.version != 1 or wrap.model is None or not fsdp_units.shards_weights(wrap, reader):
        return None
    made = reader.origins(wrap.model)
    is_of_transformers = bool(made) and all(
        isinstance(one, ast.Call) and reader.called(one).startswith("transformers.") for one in made or ()
    )
    if not is_of_transformers or reader.trained.has_adapters or any(True for _ in reader.trained.entered(call)):
        return None  # the weights of adapters are in inner units; a context may gather those of the model
    return wrap


class LocalLoad(NamedTuple):
    """Weights that one rank alone has before the model is sharded."""

    node: ast.expr
    wrap: FsdpWrap
    what: str


def loads_on_one_rank(reader: FsdpReader) -> Iterator[LocalLoad]:
    """What one rank alone loads into a model before it is wrapped without sending the weights to the others."""
    if any(name.rpartition(".")[2] in _GATHERS_LATER for name in reader.names.uses):
        return
    if any(one.arg in _GATHERS_LATER for call in reader.names.calls for one in call.keywords):
        return
    for wrap in reader.wraps:
        if wrap.model is None or (
            wrap.version == 1 and fsdp_units.has_keyword_true(wrap, "sync_module_states") is not False
        ):
            continue
        name = dotted_name(wrap.model)
        for call in reader.names.calls_by_method.get("load_state_dict", ()):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_same = owner is not None and bool(name) and dotted_name(owner) == name
            if not is_same or not _runs_before(call, wrap, reader):
                continue
            if reader.trained.condition_of_one_rank(call) is not None:
                yield LocalLoad(call, wrap, "loads the weights")
        made = reader.values(wrap.model) or []
        loaded = [
            one
            for one in made
            if isinstance(one, ast.Call)
            and last_name(one) == "from_pretrained"
            and reader.trained.condition_of_one_rank(one) is not None
        ]
        others = [one for one in made if isinstance(one, ast.Call) and last_name(one) in _BUILDERS]
        if len(loaded) == 1 and others and len(loaded) + len(others) == len(made):
            yield LocalLoad(loaded[0], wrap, "loads the weights")


def _runs_before(call: ast.Call, wrap: FsdpWrap, reader: FsdpReader) -> bool:
    places = reader.names.places
    name = dotted_name(wrap.model) if wrap.model is not None else ""
    if places[call].scope is not places[wrap.call].scope or call.lineno >= wrap.call.lineno:
        return False
    return not _is_replaced(name, call, wrap, reader)


# ----------------------------------------------------------------------------------------------------------- gradients


class LocalUse(NamedTuple):
    """What looks at the gradients of one shard."""

    node: ast.expr
    message: str
    help: str
    label: str


def uses_of_local_gradients(reader: FsdpReader) -> Iterator[LocalUse]:
    """The norm and the scaler that a script takes of the gradients of a model of version 1."""
    for call in reader.names.calls:
        if reader.called(call) in _CLIPS and call.args:
            owner = _parameters_of(call.args[0], reader)
            wrap = reader.wrap_of(owner) if owner is not None else None
            if owner is not None and wrap is not None and wrap.version == 1 and fsdp_units.shards_weights(wrap, reader):
                most = ast.unparse(call.args[1]) if len(call.args) > 1 else "max_norm"
                yield LocalUse(
                    call,
                    "`clip_grad_norm_` takes the norm of this rank's shard: each rank scales its gradients otherwise",
                    f"Write `{dotted_name(owner)}.clip_grad_norm_({most})`, which takes the norm of all shards.",
                    "norm of one shard",
                )
        elif reader.called(call) in _SCALERS:
            used = _scaled_wrap(call, reader)
            if used is not None and not _is_off(call):
                yield LocalUse(
                    call,
                    "`GradScaler` looks for infinities in this rank's shard: a step that one rank skips, others make",
                    "Use `ShardedGradScaler` of `torch.distributed.fsdp.sharded_grad_scaler`, which asks all ranks.",
                    "asks one rank",
                )


_CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad.clip_grad_norm_")
_SCALERS = ("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")


def _parameters_of(node: ast.expr, reader: FsdpReader) -> ast.expr | None:
    """The model whose parameters an expression has."""
    value = reader.only(node)
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "parameters":
        return value.func.value
    return None


def _is_off(call: ast.Call) -> bool:
    enabled = keyword(call, "enabled")
    return enabled is not None and not (isinstance(enabled, ast.Constant) and enabled.value is True)


def _scaled_wrap(call: ast.Call, reader: FsdpReader) -> FsdpWrap | None:
    """The wrapper of the model whose optimizer a scaler steps; None if it is not certain."""
    for step in reader.names.calls_by_method.get("step", ()):
        owner = step.func.value if isinstance(step.func, ast.Attribute) else None
        if owner is None or len(step.args) != 1 or reader.only(owner) is not call:
            continue
        wrap = _optimizer(step.args[0], reader)
        if wrap is not None and wrap.version == 1:
            return wrap
    return None
