"""Rules about the model: what ZeRO and 16-bit training do to it (DS35x, DS45x)."""

from __future__ import annotations

from ds_lint.diagnostics.amounts import billions
from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import NO_EFFECT, RISK, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.model_requests import quantization
from ds_lint.fixes import edits
from ds_lint.semantics.architectures import experts_that_are_chosen, overflowing_family, trained_in, width_places
from ds_lint.semantics.features import is_on, is_truthy, may_checkpoint_itself, model_dtype, number_of, zero_stage
from ds_lint.semantics.related import given_at
from ds_lint.source.spelling import AUTO, as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts.model import Model
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Member

ZERO = "zero_optimization"
_LARGE = 1_000_000_000  # parameters
_STACKS_WITH_TRANSFORMERS: tuple[Stack, ...] = ("trainer", "accelerate")
# A parameter of at most the first number of elements stays whole, while all of them have at most the second.
_SUGGESTED = 100_000  # elements, the default of DeepSpeed
_ONE = ("stage3_param_persistence_threshold", "param_persistence_threshold")
_TOGETHER = ("stage3_model_persistence_threshold", "model_persistence_threshold")


@rule("DS450", "fp16-on-bf16-model", severity="warning", effects=("risk",), keys=("fp16",))
def fp16_on_bf16_model(config: Config) -> Iterator[Problem]:
    """fp16 for a model that was trained in bf16, whose values may exceed the range of fp16."""
    member, model, gpu = config.member("fp16", "enabled"), config.facts.model_or_family, config.facts.gpu
    if member is None or model is None or not is_on(config, "fp16", "enabled"):
        return
    family = overflowing_family(model)
    if family is not None:
        reason = f"{family} models are trained in {trained_in(family)} and overflow in fp16"
    elif model.dtype == "bfloat16":
        named = model.path if config.facts.model_at else "the model"
        reason = f"{named} is saved in bfloat16, and fp16 overflows above 65504"
    else:
        return
    yield Problem(
        ("fp16", "enabled"),
        member.value.span,
        f"{reason}: DeepSpeed skips steps and raises, or the loss is NaN",
        RISK,
        help=(
            f"Train in fp32, because {gpu.name} does not support bf16."
            if gpu is not None and not gpu.supports_bf16
            else "Use `bf16` on a GPU since Ampere, and fp32 on an older one."
        )
        + " In fp16, DeepSpeed raises when the loss scale is at its minimum.",
        label="may overflow",
        related=config.facts.model_at,
    )


@rule("DS451", "no-precision-section", severity="info", effects=("risk",))
def no_precision_section(config: Config) -> Iterator[Problem]:
    """A large model with neither fp16 nor bf16 enabled."""
    model = config.facts.model
    count = model.parameter_count if model is not None else None
    if count is None or count < _LARGE or model_dtype(config) != "fp32" or not _script_asks_for_nothing(config):
        return
    if any(is_on(config, section, "enabled") for section in ("amp", "torch_autocast")):
        return
    yield Problem(
        None,
        config.opening,
        f"neither fp16 nor bf16 is enabled for {count / 1e9:.3g} billion parameters: "
        "fp32 needs twice the memory for activations",
        RISK,
        help='Add "bf16": {"enabled": true} on a GPU since Ampere. DeepSpeed keeps the dtype that the script loads, '
        "and fp32 uses no 16-bit tensor cores.",
        label="no 16-bit section",
        related=config.facts.model_at,
        fix=edits.setting(config, ("bf16", "enabled"), True, "unsafe"),
    )


def _script_asks_for_nothing(config: Config) -> bool:
    """Whether only the config can ask for 16 bit; for the Trainer, its arguments must be known not to."""
    if _may_load_16_bit(config):
        return False
    if config.stack == "trainer":
        known = (config.argument("fp16"), config.argument("bf16"))
        return all(argument is not None and argument.value is False for argument in known)
    return config.stack == "deepspeed"


def _may_load_16_bit(config: Config) -> bool:
    """Whether the script of a launch may load the model in 16 bit."""
    launch = config.facts.launch
    if launch is None or config.facts.recipe is not None:
        return False
    loads = launch.script.calls.loads if launch.script is not None else ()
    is_fp32_unasked = config.knowledge.stack_does("models-are-loaded-in-fp32-unasked")
    in_fp32 = ("", "float32") if is_fp32_unasked else ("float32",)
    return not loads or any(load.dtype not in in_fp32 for load in loads)


@rule("DS350", "moe-without-leaf-modules", severity="warning", effects=("risk",), keys=(ZERO,))
def moe_without_leaf_modules(config: Config) -> Iterator[Problem]:
    """A mixture of experts at stage 3 whose ranks may run different modules."""
    launch, stage = config.facts.launch, _stage_3(config)
    base = launch.base_family if launch is not None else None
    model = config.facts.model_or_family or base
    if model is None or stage is None or config.world_size == 1:
        return
    is_of_type = model in (config.facts.family, base)  # which makes it a mixture of experts, whatever its config has
    if (not model.is_moe and not is_of_type) or _may_set_leaves(config):
        return
    blocks = experts_that_are_chosen(model, config.knowledge)
    if not blocks and base is not None:
        blocks = experts_that_are_chosen(base, config.knowledge)
    if not blocks or _are_leaves(config, blocks):
        return
    names = [block.rpartition(".")[2] for block in blocks]
    release = config.knowledge.target["transformers"]
    yield Problem(
        (ZERO, "stage"),
        stage.value.span,
        f"ranks may run different experts in {' and '.join(names)} of transformers {release}: "
        "stage 3 then hangs or raises",
        RISK,
        help=f"{_leaf_help(config, names)} Without leaf modules, a rank runs only the experts that its tokens choose.",
        label="ranks gather different experts",
        related=config.facts.model_at,
        fix=edits.setting(config, (ZERO, "leaf_module", "classes"), names, "unsafe")
        if config.knowledge.knows((ZERO, "leaf_module"))
        else None,
    )


@rule("DS351", "nothing-is-partitioned", severity="warning", effects=("no-effect", "risk"), keys=(ZERO,))
def nothing_is_partitioned(config: Config) -> Iterator[Problem]:
    """A persistence threshold that keeps most of the model whole on every rank."""
    model, stage = config.facts.model, _stage_3(config)
    if model is None or stage is None or config.world_size == 1 or model.quantization:
        return
    one, member = _threshold(config, _ONE, model)
    together, _ = _threshold(config, _TOGETHER, model)
    total = model.parameter_count
    if one is None or together is None or not total:
        return
    whole = _staying_whole(model, one, together)
    if whole * 2 < total:
        return
    path = (ZERO, member.key if member else "stage")
    share = f"{billions(whole)} ({100 * whole / total:.0f} %) of {billions(total)}"
    yield Problem(
        path,
        (member or stage).value.span,
        f"stage 3 {'partitions no weights' if whole == total else 'leaves most weights whole'}: "
        f"{f'all {billions(total)}' if whole == total else share} elements are in parameters of up to {one:,.0f}",
        NO_EFFECT if whole == total else RISK,
        help=(_lower(member.key, one) if member else "Use stage 2 for so small a model.")
        + " Every rank has all elements of a parameter that stays whole.",
        label="no weights partitioned" if whole == total else "most weights stay whole",
        related=[
            *([Related(stage.value.span, "stage 3 partitions larger parameters")] if member else ()),
            *config.facts.model_at,
        ],
    )


@rule("DS352", "quantized-model-at-stage-3", severity="warning", effects=("risk",), keys=(ZERO,))
def quantized_model_at_stage_3(config: Config) -> Iterator[Problem]:
    """A quantized model, which transformers does not load in partitions."""
    model, stage, recipe = config.facts.model, _stage_3(config), config.facts.recipe
    requested = recipe.quantization if recipe is not None else None
    launched = quantization(config.facts.launch) if config.facts.launch is not None else None
    place, places = "", list[Related]()
    if stage is None:
        return
    if model is not None and model.quantization is not None:
        why, places = model.quantization, config.facts.model_at
    elif requested is not None:
        why = f"`{requested.name}` {as_json(requested.argument.value)}"
        place, places = f", {requested.argument.origin}", given_at(requested.argument, requested.name)
    elif launched is not None:
        why, place, places = launched
        place = f", {place}"
    else:
        return
    behaviour = "quantized-models-are-not-partitioned"
    is_whole = config.knowledge.stack_does(behaviour)
    release = config.knowledge.target["transformers"]
    yield Problem(
        (ZERO, "stage"),
        stage.value.span,
        f"the model is quantized ({why}{place}): "
        + (
            "at stage 3 every rank loads the whole model"
            if is_whole
            else f"from_pretrained of transformers {release} raises at stage 3"
        ),
        dict.fromkeys(_STACKS_WITH_TRANSFORMERS, RISK),
        help="Use stage 2: transformers does not load quantized models in partitions."
        if is_whole
        else "Use stage 2, or upgrade transformers. This release loads the weights into parameters that stage 3 has "
        "partitioned before.",
        label="every rank loads the whole model" if is_whole else "loading fails",
        related=places,
        subject=why,
    )


@rule(
    "DS353",
    "activation-checkpointing-unread",
    severity="warning",
    effects=("no-effect",),
    keys=("activation_checkpointing",),
)
def activation_checkpointing_unread(config: Config) -> Iterator[Problem]:
    """The section for ``deepspeed.checkpointing``, which models of transformers do not use, and scripts must hand over.

    Source: ``configure`` in ``deepspeed/runtime/activation_checkpointing/checkpointing.py``.
    """
    member = config.member("activation_checkpointing")
    if member is None:
        return
    on = [one.key for one in member.value.members if is_truthy(one.value)]
    launch = config.facts.launch
    call = launch.script.calls.checkpointing if launch is not None and launch.script is not None else None
    if launch is not None and call is not None:
        on = [key for key in on if _KEYWORDS.get(key, key) not in call.keywords]
        if on:
            yield Problem(
                ("activation_checkpointing",),
                member.key_span,
                f"deepspeed.checkpointing.configure gets no config, {launch.at(call.place)}: "
                f"DeepSpeed ignores `activation_checkpointing` ({', '.join(on)})",
                {"deepspeed": NO_EFFECT, "accelerate": NO_EFFECT},
                help="Pass `deepspeed_config=` with the path of the config to deepspeed.checkpointing.configure.",
                label="not handed over",
                related=launch.related(call.place, "without `deepspeed_config`"),
            )
    elif on and not may_checkpoint_itself(config):
        yield Problem(
            ("activation_checkpointing",),
            member.key_span,
            f"transformers ignores `activation_checkpointing` ({', '.join(on)}): it recomputes no activation",
            {"trainer": NO_EFFECT},
            help="Delete the section, and set `gradient_checkpointing` in the training arguments. Only models that "
            "call deepspeed.checkpointing use it.",
            label="recomputes nothing",
            fix=edits.deletion(config, ("activation_checkpointing",), "unsafe"),
        )


_KEYWORDS = {  # of deepspeed.checkpointing.configure that have other names than the keys
    "contiguous_memory_optimization": "contiguous_checkpointing",
    "cpu_checkpointing": "checkpoint_in_cpu",
    "number_checkpoints": "num_checkpoints",
    "synchronize_checkpoint_boundary": "synchronize",
}


def _stage_3(config: Config) -> Member | None:
    """The key that sets stage 3; None at another stage."""
    return config.member(ZERO, "stage") if zero_stage(config) == 3 else None


# Where Accelerate's YAML, and a call of its plugin, name the classes of leaf modules.
_NAMING_EXPERTS = (("deepspeed_config", "deepspeed_moe_layer_cls_names"), ("transformer_moe_cls_names",))


def _may_set_leaves(config: Config) -> bool:
    """Whether what starts the training sets leaf modules, or is not known: some frameworks set those of many models."""
    recipe, launch, root = config.facts.recipe, config.facts.launch, config.document.root
    if root is not None and any(root.at(path) is not None for path in _NAMING_EXPERTS):
        return True
    if recipe is not None and recipe.record.sets_leaf_modules:
        return True
    if launch is None:
        return False
    program = launch.launch.framework
    if program is not None and not program.sets_leaf_modules:
        return False
    return launch.script is None or launch.script.sets_leaf_modules or launch.names_experts


def _are_leaves(config: Config, blocks: list[str]) -> bool:
    """Whether ``leaf_module`` or its default names these classes; other modules that it names may contain them."""
    known = config.knowledge.find((ZERO, "leaf_module", "classes"))
    if known is None:
        return False
    if any(is_truthy(config.node(ZERO, "leaf_module", name)) for name in ("classes", "names", "name_suffixes")):
        return True
    return config.node(ZERO, "leaf_module", "classes") is None and set(blocks) <= set(known.facts["default"])


def _leaf_help(config: Config, names: list[str]) -> str:
    if config.knowledge.knows((ZERO, "leaf_module")):
        listed = ", ".join(f'"{name}"' for name in names)
        return f'Add "leaf_module": {{"classes": [{listed}]}} to `zero_optimization`.'
    return (
        f"Call deepspeed.utils.set_z3_leaf_modules(model, [{', '.join(names)}]) before deepspeed.initialize, or set "
        f"`deepspeed_moe_layer_cls_names` of Accelerate to {','.join(names)}."
    )


def _threshold(config: Config, names: tuple[str, ...], model: Model) -> tuple[float | None, Member | None]:
    """A persistence threshold and the key that sets it; without such a key, the default of the target."""
    for name in names:
        member = config.member(ZERO, name)
        if member is not None:
            return _filled(config, member, model) if member.value.value == AUTO else number_of(member.value), member
    known = config.knowledge.find((ZERO, names[0]))
    return (float(known.facts["default"]) if known is not None else float("inf")), None


def _filled(config: Config, member: Member, model: Model) -> float | None:
    """What the Trainer and Accelerate fill in for "auto", if the model has its width where both look for it."""
    width = model.hidden_size(width_places(model, config.knowledge))
    return 10.0 * width if width is not None and member.key == _ONE[0] else None


def _lower(name: str, elements: float) -> str:
    example = f", for example to {_SUGGESTED}" if elements > _SUGGESTED else ""
    return f"Lower `{name}`{example}."


def _staying_whole(model: Model, one: float, together: float) -> int:
    """How many elements are in parameters that stay whole, as ``mark_persistent_parameters`` counts them."""
    total = model.parameter_count or 0
    if model.parameters is None or model.is_moe:  # newer transformers merge the experts of a file into one parameter
        return total if total <= min(one, together) else 0
    whole = 0
    for parameter in model.parameters:
        if parameter.count <= one and parameter.count + whole <= together:
            whole += parameter.count
    return whole
