"""Rules about scripts that use FSDP of torch by themselves (DS644 to DS649)."""

from __future__ import annotations

import ast
import re

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.launches import fsdp_refusals, fsdp_training, fsdp_units
from ds_lint.launches.fsdp_policies import ARGUMENT, policy_of
from ds_lint.semantics.fsdp_script import fsdp_script, name_of
from ds_lint.source.python_names import dotted_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.fsdp_models import FsdpWrap
    from ds_lint.launches.fsdp_policies import WrapPolicy
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.fsdp_script import FsdpScript

_HOW_TO_WRAP = (
    "Pass `auto_wrap_policy=functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={...})` with the "
    "class of the layers."
)


@rule("DS644", "fsdp-script-in-one-unit", severity="info", effects=("risk",), kind="syntax", alone_on="fsdp")
def fsdp_script_in_one_unit(config: Config) -> Iterator[Problem]:
    """A model that a script wraps as one unit: each pass gathers all its parameters on every rank."""
    script = fsdp_script(config) if config.world_size != 1 else None  # which shards nothing
    for wrap in script.wraps if script is not None else ():
        assert script is not None  # noqa: S101 - otherwise there are none
        reader = script.reader
        if not fsdp_units.is_whole(wrap, reader) or not fsdp_units.releases_weights(wrap, reader):
            continue
        if any(name != ARGUMENT and name.endswith(ARGUMENT) for name in wrap.arguments):
            continue  # a misspelled one, which is refused
        if wrap.version == 2:
            yield script.problem(
                wrap.call,
                None,
                f"`{name_of(wrap)}` shards the whole model as one unit: each pass gathers all its parameters at once",
                RISK,
                help=f"Call `{name_of(wrap)}` for each layer first, and for the model after that: "
                f"`for layer in model.layers: {name_of(wrap)}(layer)`.",
                label="one unit",
            )
            continue
        policy = policy_of(wrap, reader)
        if policy.kind == "none" and policy.node is None:  # a None that is written is what is wanted
            yield script.problem(
                script.argument_span(wrap, ARGUMENT),
                ARGUMENT,
                f"`{name_of(wrap)}` has no `{ARGUMENT}`, so the model is one unit: "
                "each pass gathers all its parameters at once",
                RISK,
                help=_HOW_TO_WRAP,
                label="one unit",
            )
        elif (other := _of_another_model(policy, wrap, script)) is not None:
            layer, model = other
            yield script.problem(
                script.argument_span(wrap, ARGUMENT),
                ARGUMENT,
                f"the policy wraps {layer}, which {model} does not have: the model is one unit that each pass gathers",
                RISK,
                help=f"Name the class of the layers of {model}.",
                label="wraps nothing",
                severity="warning",
            )


def _of_another_model(policy: WrapPolicy, wrap: FsdpWrap, script: FsdpScript) -> tuple[str, str] | None:
    """The only class that a policy wraps and the family of the model, if transformers has the class in another one."""
    reader = script.reader
    if policy.kind != "classes" or policy.classes is None or len(policy.classes) != 1 or wrap.model is None:
        return None
    full = reader.full_name(policy.classes[0]).split(".")
    families = {_family(one, script) for one in reader.origins(wrap.model) or []}
    family = families.pop() if len(families) == 1 else None
    if family is None or full[:2] != ["transformers", "models"] or len(full) < 4:
        return None
    package = full[2].replace("_", "").lower()
    own = family.replace("_", "").replace("-", "").lower()
    if package in own or own in package or package[-3:] == own[-3:] or package[:3] == own[:3]:
        return None  # a model may be built of the layers of a related one
    return full[-1], f"the model of {family}"


def _family(made: ast.expr, script: FsdpScript) -> str | None:
    """The type of a causal or sequence-to-sequence model of transformers, by its class or its name."""
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return None
    name = dotted_name(made.func.value).rpartition(".")[2]
    if not name.endswith(("ForCausalLM", "ForSeq2SeqLM")) and not name.endswith("LMHeadModel"):
        return None
    from ds_lint.facts.families import family_of_class, family_of_name
    from ds_lint.facts.published import published

    if not name.startswith("Auto"):
        model = family_of_class(name)
        return str(model.config["model_type"]) if model is not None else None
    given = script.reader.only(made.args[0]) if made.args else None
    if not isinstance(given, ast.Constant) or not isinstance(given.value, str):
        return None
    if (known := published(given.value)) is not None:
        return str(known[1].get("model_type") or "") or None
    model = family_of_name(given.value)
    return str(model.config["model_type"]) if model is not None else None


@rule("DS645", "fsdp-script-refused", severity="error", effects=("rejected",), kind="syntax", alone_on="fsdp")
def fsdp_script_refused(config: Config) -> Iterator[Problem]:
    """An import, a keyword or a value of a script that torch refuses."""
    script = fsdp_script(config)
    for refusal in fsdp_refusals.refusals(script.reader, script.torch) if script is not None else ():
        assert script is not None  # noqa: S101 - otherwise there are none
        yield script.problem(
            refusal.node,
            refusal.key,
            refusal.message,
            rejected(refusal.stage),
            help=refusal.help,
            label=refusal.label,
        )


@rule(
    "DS646",
    "fsdp-optimizer-before-wrapping",
    severity="error",
    effects=("wrong-result",),
    kind="syntax",
    alone_on="fsdp",
)
def fsdp_optimizer_before_wrapping(config: Config) -> Iterator[Problem]:
    """An optimizer that gets the parameters of a model before FSDP replaces them."""
    script = fsdp_script(config)
    for made in fsdp_training.early_optimizers(script.reader) if script is not None else ():
        assert script is not None  # noqa: S101 - otherwise there are none
        wrapper = name_of(made.wrap)
        also = (
            f" `use_orig_params=True` of `{wrapper}` keeps the parameters of the model, too."
            if made.wrap.version == 1
            else ""
        )
        yield script.problem(
            made.call,
            "use_orig_params" if made.wrap.version == 1 else None,
            f"the optimizer gets the parameters before `{wrapper}` replaces them: its steps change no weight",
            WRONG_RESULT,
            help=f"Make the optimizer after the model is wrapped.{also}",
            label="has the parameters from before",
            related=[Related(script.span(made.wrap.call), "replaces the parameters")],
        )


@rule(
    "DS647",
    "fsdp-flat-parameters",
    severity="error",
    effects=("rejected", "wrong-result"),
    kind="syntax",
    alone_on="fsdp",
)
def fsdp_flat_parameters(config: Config) -> Iterator[Problem]:
    """What a script does with single parameters that ``use_orig_params=False`` makes one flat parameter a unit."""
    script = fsdp_script(config)
    if script is None:
        return
    reader = script.reader
    for wrap in reader.wraps:
        if wrap.version != 1 or fsdp_units.has_keyword_true(wrap, "use_orig_params") is not False:
            continue
        frozen = fsdp_training.frozen_part(wrap, reader, policy_of(wrap, reader))
        if frozen is not None:
            yield script.problem(
                script.argument_span(wrap, "use_orig_params"),
                "use_orig_params",
                f"{frozen.what} leaves frozen beside trainable parameters in a unit: "
                f"`{name_of(wrap)}` raises a ValueError",
                rejected("initialize"),
                help="Pass `use_orig_params=True`. By default, a unit makes one parameter of all that it has, which is "
                "trained or frozen as a whole.",
                label="one parameter a unit",
                related=[Related(script.span(frozen.node), "freezes")],
            )
    for group in fsdp_training.groups_of_flat_parameters(reader):
        if fsdp_units.has_keyword_true(group.wrap, "use_orig_params") is False:
            yield script.problem(
                group.node,
                "use_orig_params",
                f"the groups go by {group.by} of each parameter, but a unit of FSDP has one flat parameter: "
                f"{group.result}",
                WRONG_RESULT,
                help=f"Pass `use_orig_params=True` to `{name_of(group.wrap)}`, which keeps the names of parameters, "
                "and choose the groups by name: the shape of a sharded parameter is flat, too.",
                label="finds flat parameters",
                related=[Related(script.span(group.wrap.call), "makes flat parameters")],
            )


@rule("DS648", "fsdp-on-one-rank", severity="error", effects=("risk", "wrong-result"), kind="syntax", alone_on="fsdp")
def fsdp_on_one_rank(config: Config) -> Iterator[Problem]:
    """What a single rank does with a sharded model, where all ranks have a part."""
    script = fsdp_script(config) if config.world_size != 1 else None  # which shards nothing
    if script is None:
        return
    reader = script.reader
    for one in fsdp_training.collective_calls(reader):
        test = reader.trained.condition_of_one_rank(one.call)
        if test is not None:
            yield script.problem(
                one.call,
                None,
                f"`{_shown(one.call.func)}` runs only if `{_shown(test)}`, but waits for all ranks: the run hangs",
                RISK,
                help=f"Call it on all ranks, and save its result on one.{one.advice}",
                label="waits for the other ranks",
                related=[Related(script.span(test), "one rank alone")],
            )
    for part in fsdp_training.saved_parts(reader):
        yield script.problem(part.node, None, part.message, WRONG_RESULT, help=part.help, label=part.label)
    for load in fsdp_training.loads_on_one_rank(reader):
        yield script.problem(
            load.node,
            "sync_module_states" if load.wrap.version == 1 else None,
            f"one rank alone {load.what}, and `{name_of(load.wrap)}` shards what each rank has: the weights are mixed",
            WRONG_RESULT,
            help="Pass `sync_module_states=True`, which sends the weights of the first rank to all, with `device_id`."
            if load.wrap.version == 1
            else "Load the weights after `fully_shard`, with `set_model_state_dict` and "
            "`StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)`.",
            label="on one rank",
            related=[Related(script.span(load.wrap.call), "shards the weights of each rank")],
        )


@rule("DS649", "fsdp-local-gradients", severity="error", effects=("wrong-result",), kind="syntax", alone_on="fsdp")
def fsdp_local_gradients(config: Config) -> Iterator[Problem]:
    """What looks at the gradients of one rank's shard as if they were all."""
    script = fsdp_script(config) if config.world_size != 1 else None  # which shards nothing
    for use in fsdp_training.uses_of_local_gradients(script.reader) if script is not None else ():
        assert script is not None  # noqa: S101 - otherwise there are none
        yield script.problem(use.node, None, use.message, WRONG_RESULT, help=use.help, label=use.label)


def _shown(node: ast.expr) -> str:
    text = re.sub(r"\s+", " ", ast.unparse(node))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


_LONGEST = 45  # characters of code that a message repeats
