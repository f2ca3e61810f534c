"""Rules about ZeRO settings that need or exclude each other (DS3xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import (
    has_no_optimizer,
    may_have_bf16_optimizer,
    names_optimizer,
    offloads_optimizer,
    optimizer_constructor,
    script_optimizers,
    with_passed_optimizer,
)
from ds_lint.semantics.features import (
    bf16_section,
    is_looked_at,
    is_on,
    is_truthy,
    model_dtype,
    number,
    number_of,
    zero_stage,
)
from ds_lint.semantics.related import beside

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"


@rule("DS301", "zero-as-boolean", severity="warning", effects=("no-effect", "rejected"), keys=(ZERO,))
def zero_as_boolean(config: Config) -> Iterator[Problem]:
    """A boolean for ``zero_optimization``, the form that DeepSpeed's first releases used."""
    member = config.member(ZERO)
    if member is None or member.value.kind != "boolean":
        return
    stage = 1 if member.value.value else 0
    outcomes = {stack: NO_EFFECT if stack == "deepspeed" else rejected("initialize") for stack in config.stacks}
    yield Problem(
        (ZERO,),
        member.value.span,
        f"`zero_optimization` is a boolean: DeepSpeed reads it as stage {stage}"
        + ("" if config.stack == "deepspeed" else ", but the Trainer and Accelerate raise an error"),
        outcomes,
        help=f'Replace it with `{{"stage": {stage}}}`, or with the stage that you want. A boolean is deprecated.',
        label=f"means stage {stage}",
        severity=None if "deepspeed" in config.stacks else "error",
        fix=edits.replacement(config, (ZERO,), f'{{"stage": {stage}}}', "safe"),
    )


@rule("DS302", "zero-without-optimizer", severity="info", effects=("rejected", "risk"), keys=(ZERO,))
def zero_without_optimizer(config: Config) -> Iterator[Problem]:
    """ZeRO in a config without an optimizer: the script must pass one."""
    stage = zero_stage(config)
    member, launch = config.member(ZERO), config.facts.launch
    if config.stack == "accelerate" and stage in (1, 2):
        found = list(_prepared_for_inference(config, stage))
        yield from found or _prepared_without_optimizer(config, stage)
        return
    if config.stack != "deepspeed" or not stage or member is None or config.value("optimizer", "type") is not None:
        return
    if config.call is not None or config.facts.optimizer is not None or (launch is not None and launch.fills_in):
        return  # Lightning passes the optimizer of the module; a run shows that the script does, or needs none
    if launch is not None:
        from ds_lint.facts.megatron import megatron_arguments  # few configs have a launch

        if megatron_arguments(launch) is not None:
            return  # which passes its own
    handed = script_optimizers(config)
    if handed is not None and (handed.has_optimizer or (stage == 3 and not handed.trains)):
        return  # at stage 3, a script that does not train needs none
    raising = "the first backward pass" if stage == 3 else "deepspeed.initialize"
    if launch is not None and handed is not None and handed.has_optimizer is False:
        call = launch.script.calls.inference if launch.script is not None else None
        related, advice = launch.related(handed.place, "no `optimizer=`"), _how_to_bring_an_optimizer(config)
        who = f"gets no optimizer, neither from the config nor from the script, {launch.at(handed.place)}"
        if call is not None:
            who = f"needs an optimizer, but the script only runs the model (`{call.function}`, {launch.at(call.place)})"
            related += launch.related(call.place, "runs the model")
            advice = "Set `stage` to 3, the only one for inference: it partitions the weights. Or delete the section."
        elif not handed.trains:
            advice += " For inference, use stage 3."
        yield Problem(
            (ZERO,),
            member.key_span,
            f"ZeRO stage {stage} {who}: {raising} raises",
            rejected("train" if stage == 3 else "initialize"),
            help=advice,
            label=f"stage {stage}, no optimizer",
            severity="error",
            related=related,
        )
        return
    yield Problem(
        (ZERO,),
        member.key_span,
        f"ZeRO stage {stage} needs an optimizer, but the config has none: "
        f"{'the first step' if stage == 3 else 'deepspeed.initialize'} raises unless the script passes one",
        RISK,
        help=_how_to_bring_an_optimizer(config),
        label=f"stage {stage}, no optimizer",
    )


def _prepared_without_optimizer(config: Config, stage: int) -> Iterator[Problem]:
    """A model that ``accelerator.prepare`` gets without an optimizer, which may come in a later call."""
    launch, member = config.facts.launch, config.member(ZERO)
    script = launch.script if launch is not None else None
    if launch is None or script is None or member is None or config.node("optimizer") is not None:
        return
    for call in script.calls.prepared:
        if call.has_no_optimizer and call.models == 1 and not call.is_conditional:
            yield Problem(
                (ZERO,),
                member.key_span,
                f"ZeRO stage {stage} gets no optimizer, neither from the config nor from `{call.function}`, "
                f"{launch.at(call.place)}, which raises",
                {"accelerate": rejected("initialize")},
                help="Pass the optimizer to the same call as the model, or add `optimizer` to the config.",
                label=f"stage {stage}, no optimizer",
                severity="error",
                related=launch.related(call.place, "no optimizer"),
            )
            return


def _prepared_for_inference(config: Config, stage: int) -> Iterator[Problem]:
    """A model that Accelerate prepares for a script that only runs it: DeepSpeed gets no optimizer."""
    member, launch = config.member(ZERO), config.facts.launch
    call = launch.script.calls.inference if launch is not None and launch.script is not None else None
    if launch is None or call is None or member is None or config.value("optimizer", "type") is not None:
        return
    if script_optimizers(config) is not None:
        return
    yield Problem(
        (ZERO,),
        member.key_span,
        f"ZeRO stage {stage} needs an optimizer, but the script only runs the model (`{call.function}`, "
        f"{launch.at(call.place)}): accelerator.prepare raises",
        rejected("initialize"),
        help="Set `stage` to 3, the only one for inference: it partitions the weights. Or run without DeepSpeed.",
        label=f"stage {stage}, no optimizer",
        severity="error",
        related=launch.related(call.place, "runs the model"),
    )


@rule("DS326", "odd-allgather-bucket", severity="error", effects=("rejected",), keys=(ZERO,))
def odd_allgather_bucket(config: Config) -> Iterator[Problem]:
    """An odd number of 16-bit elements, which is not a multiple of 4 bytes.

    Source: ``DeepSpeedZeroOptimizer.__init__`` in ``deepspeed/runtime/zero/stage_1_and_2.py``.
    """
    member = config.member(ZERO, "allgather_bucket_size")
    size = number_of(member.value) if member is not None else None
    if member is None or size is None or size % 2 != 1 or zero_stage(config) not in (1, 2):
        return
    if not may_have_bf16_optimizer(config):
        yield Problem(
            (ZERO, "allgather_bucket_size"),
            member.value.span,
            f"`allgather_bucket_size` is {size:.0f}, but DeepSpeed expects a multiple of 2: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help=f"Set it to {size + 1:.0f}.",
            label="odd number",
        )


@rule("DS304", "grad-norm-off", severity="error", effects=("rejected",), keys=(ZERO,))
def grad_norm_off(config: Config) -> Iterator[Problem]:
    """``compute_grad_norm: false`` with a setting that needs the norm of the gradients."""
    member = config.member(ZERO, "compute_grad_norm")
    stage = zero_stage(config)
    if member is None or member.value.value == "auto" or _is_on_or_absent(config, "compute_grad_norm") or stage is None:
        return
    reason: str | None = None
    when: Stage = "initialize"
    if stage not in (1, 2):
        reason, when = f"works only at stages 1 and 2, but the stage is {stage}", "parse"
    else:
        reason = _what_needs_the_norm(config)
    if reason:
        raises = f"deepspeed.initialize raises{with_passed_optimizer(config)}"
        yield Problem(
            (ZERO, "compute_grad_norm"),
            member.value.span,
            f"`compute_grad_norm: false` {reason}: {'DeepSpeed rejects the config' if when == 'parse' else raises}",
            rejected(when),
            help="Delete `compute_grad_norm`, or change the other setting.",
            label="off",
            fix=edits.deletion(config, (ZERO, "compute_grad_norm"), "unsafe"),
        )


@rule("DS305", "legacy-stage-1", severity="error", effects=("rejected",), keys=(ZERO,))
def legacy_stage_1(config: Config) -> Iterator[Problem]:
    """``legacy_stage1``, whose implementation DeepSpeed 0.5.9 removed; the optimizer for bf16 does not check it."""
    member = config.member(ZERO, "legacy_stage1")
    if member is None or not is_on(config, ZERO, "legacy_stage1") or may_have_bf16_optimizer(config):
        return
    if zero_stage(config):
        yield Problem(
            (ZERO, "legacy_stage1"),
            member.value.span,
            "DeepSpeed 0.5.9 removed the implementation that `legacy_stage1` selects: deepspeed.initialize raises",
            rejected("initialize"),
            help="Delete `legacy_stage1`.",
            label="removed",
            fix=edits.deletion(config, (ZERO, "legacy_stage1"), "unsafe"),
        )


@rule("DS306", "prescale-with-reduce-scatter", severity="error", effects=("rejected",))
def prescale_with_reduce_scatter(config: Config) -> Iterator[Problem]:
    """Gradient scaling before the reduction, which ZeRO's reduce-scatter does not do."""
    stage = zero_stage(config)
    if stage not in (2, 3) or not _reduces_with_scatter(config) or has_no_optimizer(config):
        return
    if stage == 2 and str(config.value("gradient_allreduce_op") or "mean").lower() != "mean":
        return  # stage 2 asserts only if it averages
    for name in ("prescale_gradients", "gradient_predivide_factor"):
        member = config.member(name)
        if member is None:
            continue
        wrong = is_truthy(member.value) if name == "prescale_gradients" else member.value.value != 1
        if wrong:
            yield Problem(
                (name,),
                member.value.span,
                f"`{name}` does not work with reduce-scatter at stage {stage}: "
                f"deepspeed.initialize raises{with_passed_optimizer(config)}",
                rejected("initialize"),
                help=f"Delete `{name}`, or set `zero_optimization.reduce_scatter` to false: reduce-scatter does not "
                "scale gradients before the reduction.",
                label="does not work with reduce-scatter",
                related=beside(config, ZERO, "stage"),
                fix=edits.deletion(config, (name,), "unsafe"),
            )
            return


@rule("DS307", "sum-reduction", severity="error", effects=("rejected",), keys=("gradient_allreduce_op",))
def sum_reduction(config: Config) -> Iterator[Problem]:
    """``gradient_allreduce_op: sum`` with a feature that can only average."""
    member = config.member("gradient_allreduce_op")
    if member is None or str(member.value.value).lower() != "sum":
        return
    other = None
    if zero_stage(config) == 3:
        other = "ZeRO stage 3"
    elif config.section(ZERO, "zenflow") is not None:
        other = "ZenFlow"
    elif is_on(config, "compile", "deepcompile"):
        other = "DeepCompile"
    if other:
        yield Problem(
            ("gradient_allreduce_op",),
            member.value.span,
            f'`gradient_allreduce_op` is "sum", which {other} does not support: DeepSpeed rejects the config',
            rejected("parse"),
            help='Set it to "mean", or delete the key.',
            label=f"does not work with {other}",
            fix=edits.replacement(config, ("gradient_allreduce_op",), '"mean"', "unsafe"),
        )


@rule("DS308", "low-precision-states", severity="error", effects=("rejected",), keys=("fp16", "bf16", "bfloat16"))
def low_precision_states(config: Config) -> Iterator[Problem]:
    """16-bit master weights, gradients or optimizer states without the ZeRO stage or the offload that they need."""
    stage = zero_stage(config)
    raises = f"deepspeed.initialize raises{with_passed_optimizer(config)}"
    bf16 = bf16_section(config)
    for section, name in (
        ("fp16", "fp16_master_weights_and_grads"),
        (bf16, "bf16_master_weights_and_grads"),
        (bf16, "bf16_optimizer_states"),
    ):
        member = config.member(section, name)
        if member is None or not is_on(config, section, name) or stage is None or not is_looked_at(config, section):
            continue
        reason: str | None = None
        when: Stage = "parse"
        if stage != 2 and config.knowledge.does("master-weights-at-stage-2-only"):
            reason = f"works only at ZeRO stage 2, but the stage is {stage}"
        elif not stage:
            reason = "works only at ZeRO stages 1 to 3, but the stage is 0"
        elif name == "bf16_optimizer_states" and not is_on(config, bf16, "bf16_master_weights_and_grads"):
            reason = "needs `bf16_master_weights_and_grads: true`"
        elif name.endswith("master_weights_and_grads") and _needs_cpu_adam(config, section):
            reason, when = "needs Adam or AdamW, offloaded to the CPU", "initialize"
        if reason:
            yield Problem(
                (section, name),
                member.value.span,
                f"`{name}` {reason}: " + ("DeepSpeed rejects the config" if when == "parse" else raises),
                rejected(when),
                help=f"Delete `{name}`, or change the setting that it needs.",
                label="on",
                fix=edits.deletion(config, (section, name), "unsafe"),
            )


@rule(
    "DS309",
    "overlap-without-managed-accumulation",
    severity="error",
    effects=("rejected",),
    keys=("managed_gradient_accumulation",),
)
def overlap_without_managed_accumulation(config: Config) -> Iterator[Problem]:
    """``managed_gradient_accumulation: false`` with ``overlap_comm`` below stage 2."""
    member = config.member("managed_gradient_accumulation")
    stage = zero_stage(config)
    if member is None or is_truthy(member.value) or stage is None or stage >= 2:
        return
    if is_on(config, ZERO, "overlap_comm"):
        yield Problem(
            ("managed_gradient_accumulation",),
            member.value.span,
            f"`overlap_comm` at stage {stage} needs `managed_gradient_accumulation`, which is off: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Set `zero_optimization.overlap_comm` to false, or use ZeRO stage 2.",
            label="off",
            related=beside(config, ZERO, "overlap_comm"),
            fix=edits.setting(config, (ZERO, "overlap_comm"), False, "unsafe"),
        )


@rule("DS310", "muon-with-reduce-scatter", severity="error", effects=("rejected",), keys=("optimizer",))
def muon_with_reduce_scatter(config: Config) -> Iterator[Problem]:
    """Muon at stage 3 with reduce-scatter, which gives each rank a part of a gradient that Muon needs whole."""
    member = config.member("optimizer", "type")
    if member is None or str(member.value.value).lower() != "muon" or zero_stage(config) != 3:
        return
    if config.knowledge.does("muon-has-no-stage-3") and optimizer_constructor(config) is not None:
        yield Problem(
            ("optimizer", "type"),
            member.value.span,
            f"DeepSpeed {config.knowledge.deepspeed} does not support Muon at ZeRO stage 3: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help=f"Use stage 2, or upgrade to DeepSpeed {config.knowledge.ended('muon-has-no-stage-3')}.",
            label="does not work at stage 3",
            related=beside(config, ZERO, "stage"),
        )
    elif _reduces_with_scatter(config) and optimizer_constructor(config) is not None:
        yield Problem(
            ("optimizer", "type"),
            member.value.span,
            "Muon at ZeRO stage 3 does not work with reduce-scatter, which is on by default: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Set `zero_optimization.reduce_scatter` to false, or use stage 2.",
            label="does not work with reduce-scatter",
            related=beside(config, ZERO, "stage"),
            fix=edits.setting(config, (ZERO, "reduce_scatter"), False, "unsafe"),
        )


@rule("DS314", "elastic-checkpoint-at-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def elastic_checkpoint_at_stage_3(config: Config) -> Iterator[Problem]:
    """``elastic_checkpoint``, which stage 3 no longer supports."""
    member = config.member(ZERO, "elastic_checkpoint")
    if member is not None and is_on(config, ZERO, "elastic_checkpoint") and zero_stage(config) == 3:
        yield Problem(
            (ZERO, "elastic_checkpoint"),
            member.value.span,
            "stage 3 no longer supports `elastic_checkpoint`: checkpoints load only at the same world size",
            NO_EFFECT,
            help="Delete the key: DeepSpeed warns about it. To change the world size, convert the checkpoint with "
            "ds_to_universal.",
            label="has no effect",
            related=beside(config, ZERO, "stage"),
            fix=edits.deletion(config, (ZERO, "elastic_checkpoint"), "safe"),
        )


@rule(
    "DS329",
    "gradients-stay-divided",
    severity="error",
    effects=("wrong-result",),
    keys=("gradient_predivide_factor",),
)
def gradients_stay_divided(config: Config) -> Iterator[Problem]:
    """Stage 3 without reduce-scatter and a factor that equals the number of ranks: gradients are divided by it twice.

    Sources: ``__avg_scatter_grads`` and ``__avg_scatter_contiguous_grads`` in ``deepspeed/runtime/zero/stage3.py``.
    They divide by the factor and average, and multiply by the factor only if it differs from the number of ranks.
    """
    member, ranks = config.member("gradient_predivide_factor"), config.world_size
    factor = number(member.value.value) if member is not None else None
    if member is None or factor is None or factor != ranks or factor == 1:
        return
    if zero_stage(config) != 3 or _reduces_with_scatter(config) or is_truthy(config.node("prescale_gradients")):
        return
    if _has_other_groups(config) or not config.knowledge.does("predivided-gradients-stay-divided"):
        return
    yield Problem(
        ("gradient_predivide_factor",),
        member.value.span,
        f"`gradient_predivide_factor` is the number of ranks: without reduce-scatter, gradients are {factor:g} times "
        "too small",
        WRONG_RESULT,
        help=f"Delete `gradient_predivide_factor`. At stage 3 on {ranks:,} ranks, DeepSpeed divides gradients by it "
        "and does not multiply them by it again.",
        label="the number of ranks",
        related=beside(config, ZERO, "reduce_scatter"),
        fix=edits.deletion(config, ("gradient_predivide_factor",), "unsafe"),
    )


def _how_to_bring_an_optimizer(config: Config) -> str:
    """How to add the missing optimizer; with offload, DeepSpeed does not accept every optimizer."""
    if not offloads_optimizer(config):
        return "Add `optimizer` to the config, or pass `optimizer=` to deepspeed.initialize."
    force = config.node("zero_force_ds_cpu_optimizer")
    if force is not None and not is_truthy(force):
        return (
            "Add `optimizer` to the config, or pass `optimizer=` to deepspeed.initialize, for example DeepSpeedCPUAdam."
        )
    if not config.knowledge.knows(("zero_force_ds_cpu_optimizer",)):
        return "Add `optimizer` to the config, or pass DeepSpeedCPUAdam as `optimizer=` to deepspeed.initialize."
    return (
        "Add `optimizer` to the config, or pass DeepSpeedCPUAdam as `optimizer=`: with offload, DeepSpeed rejects "
        "others unless `zero_force_ds_cpu_optimizer` is false."
    )


def _is_on_or_absent(config: Config, name: str) -> bool:
    return config.node(ZERO, name) is None or is_on(config, ZERO, name)


def _reduces_with_scatter(config: Config) -> bool:
    return _is_on_or_absent(config, "reduce_scatter") or config.value(ZERO, "reduce_scatter") == "auto"


def _has_other_groups(config: Config) -> bool:
    """Whether gradients may be averaged over groups that do not have all ranks."""
    return any(
        config.node(*path) is not None
        for path in ((ZERO, "mics_shard_size"), ("sequence_parallel_size",), ("tensor_parallel",), ("expert_parallel",))
    )


def _needs_cpu_adam(config: Config, section: str) -> bool:
    """Whether 16-bit master weights need DeepSpeed's Adam on the CPU; bf16 optimizer states may stay on the GPU."""
    if has_no_optimizer(config):
        return False
    if section != "fp16" and is_on(config, section, "bf16_optimizer_states") and not offloads_optimizer(config):
        return False
    if not names_optimizer(config):
        return not offloads_optimizer(config)  # with offload, the script may pass DeepSpeedCPUAdam
    constructor = optimizer_constructor(config)
    return constructor is not None and constructor.name != "DeepSpeedCPUAdam"


def _what_needs_the_norm(config: Config) -> str | None:
    """Why the norm is needed at stages 1 and 2, as the next words of the message.

    Sources: ``DeepSpeedZeroOptimizer.__init__`` in ``deepspeed/runtime/zero/stage_1_and_2.py``, and
    ``_do_optimizer_sanity_check`` in ``deepspeed/runtime/engine.py``.
    """
    if model_dtype(config) == "bf16" and may_have_bf16_optimizer(config):
        return "does not work at stage 1 in bf16 with fp32 accumulation"
    clipping = config.node("gradient_clipping")
    if clipping is None or (number(clipping.value) or 0) > 0:
        value = "1.0, the default" if clipping is None else clipping.value
        return f"needs `gradient_clipping: 0`, not {value}"
    if config.section(ZERO, "zenflow") is not None:
        return "does not work with ZenFlow"
    return "does not work with optimizer offload" if offloads_optimizer(config) else None
