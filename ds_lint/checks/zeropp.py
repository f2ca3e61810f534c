"""Rules about ZeRO++: secondary partitions (hpZ) and quantized communication (DS3xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import ADVICE, NO_EFFECT, RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.features import DTYPE_NAMES, certain_dtype, is_known_off, is_on, number_of, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Member

ZERO = "zero_optimization"
HPZ = "zero_hpz_partition_size"
SWITCHES = ("zero_quantized_weights", "zero_quantized_nontrainable_weights", "zero_quantized_gradients")


@rule("DS318", "hpz-does-not-divide", severity="error", effects=("rejected",), keys=(ZERO,))
def hpz_does_not_divide(config: Config) -> Iterator[Problem]:
    """A secondary partition size that does not divide the world size."""
    member, size = _secondary_groups(config)
    ranks = config.world_size
    if member is not None and ranks and size < ranks and ranks % size and zero_stage(config) == 3:
        yield Problem(
            (ZERO, HPZ),
            member.value.span,
            f"`{HPZ}` is {size}, which does not divide the world size {ranks}: deepspeed.initialize raises",
            rejected("initialize"),
            help=f"Set it to the number of GPUs per node, or to another number that divides {ranks}.",
            label=f"does not divide {ranks}",
            subject=ranks,
        )


@rule("DS319", "hpz-as-large-as-the-run", severity="warning", effects=("no-effect",), keys=(ZERO,))
def hpz_as_large_as_the_run(config: Config) -> Iterator[Problem]:
    """A secondary partition across all ranks, which repeats the primary partition."""
    member, size = _secondary_groups(config)
    ranks = config.world_size
    if member is not None and ranks and size >= ranks and zero_stage(config) == 3:
        yield Problem(
            (ZERO, HPZ),
            member.value.span,
            f"`{HPZ}` is {size}, and the run has {_ranks(ranks)}: the secondary partition only repeats the primary one",
            NO_EFFECT,
            help=f"Delete `{HPZ}`: it is for runs on several nodes. Here it uses memory and saves no communication.",
            label="all ranks are one group",
        )


@rule("DS320", "hpz-across-nodes", severity="warning", effects=("advice",), keys=(ZERO,))
def hpz_across_nodes(config: Config) -> Iterator[Problem]:
    """Secondary partition groups that span several nodes."""
    member, size = _secondary_groups(config)
    ranks, on_a_node = config.world_size, config.facts.ranks_per_node
    if member is None or not ranks or not on_a_node or zero_stage(config) != 3 or size >= ranks or ranks % size:
        return
    if on_a_node % size:
        yield Problem(
            (ZERO, HPZ),
            member.value.span,
            f"`{HPZ}` is {size}, but a node has {_ranks(on_a_node)}: hpZ still gathers parameters over the network",
            ADVICE,
            help=f"Set it to {on_a_node}, the number of ranks per node: larger groups span nodes.",
            label=f"does not divide {on_a_node}",
            subject=on_a_node,
        )


@rule("DS321", "zeropp-below-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def zeropp_below_stage_3(config: Config) -> Iterator[Problem]:
    """ZeRO++ at a stage that does not partition the parameters."""
    stage = zero_stage(config)
    if stage is None or stage == 3:
        return
    members = [member for name in SWITCHES if (member := config.member(ZERO, name)) and is_on(config, ZERO, name)]
    secondary, _ = _secondary_groups(config)
    if secondary is not None:
        members.append(secondary)
    if not members:
        return
    first, *others = members
    yield Problem(
        (ZERO, first.key),
        first.value.span,
        f"ZeRO++ works only at stage 3, but the stage is {stage}: "
        f"`{'`, `'.join(member.key for member in members)}` {'have' if others else 'has'} no effect",
        NO_EFFECT,
        help=f"Set `stage` to 3, or delete the {'keys' if others else 'key'}.",
        label="has no effect",
        related=[Related(other.value.span, "has no effect either") for other in others],
    )


@rule("DS362", "quantized-gradients-without-reduce-scatter", severity="error", effects=("rejected",), keys=(ZERO,))
def quantized_gradients_without_reduce_scatter(config: Config) -> Iterator[Problem]:
    """Quantized gradients at stage 3, which need reduce-scatter, with ``reduce_scatter`` off.

    Source: ``DeepSpeedZeroOptimizer_Stage3.__init__``, which never accepts Muon with quantized gradients.
    """
    member = config.member(ZERO, "zero_quantized_gradients")
    scatter = config.member(ZERO, "reduce_scatter")
    if member is None or scatter is None or zero_stage(config) != 3:
        return
    if is_on(config, ZERO, "zero_quantized_gradients") and is_known_off(config, ZERO, "reduce_scatter"):
        is_muon = str(config.value("optimizer", "type")).lower() == "muon"
        yield Problem(
            (ZERO, "zero_quantized_gradients"),
            member.value.span,
            "`zero_quantized_gradients` at stage 3 needs `reduce_scatter`, which is off: deepspeed.initialize raises",
            rejected("initialize"),
            help="Delete `zero_quantized_gradients`."
            if is_muon
            else "Set `reduce_scatter` to true, or delete `zero_quantized_gradients`.",
            label="needs reduce_scatter",
            related=[Related(scatter.value.span, "off")],
            fix=edits.deletion(config, (ZERO, "zero_quantized_gradients"), "unsafe"),
        )


@rule("DS368", "quantized-communication-outside-fp16", severity="warning", effects=("risk",), keys=(ZERO,))
def quantized_communication_outside_fp16(config: Config) -> Iterator[Problem]:
    """Quantized weights or gradients that are not fp16, whose bits the kernels read as fp16.

    Sources: ``quantize`` and ``ds_swizzle_quant`` in ``csrc/quantization/pt_binding.cpp`` cast the pointer to
    ``__half``; ``CUDAQuantizer.quantize`` in ``deepspeed/runtime/zero/partition_parameters.py`` converts weights in
    newer releases; ``__avg_scatter_grads`` in ``stage3.py`` next to it quantizes gradients only on several nodes.
    """
    if config.member(ZERO, "zero_quantized_weights") is not None:
        from ds_lint.checks.advisories import problems_of_releases  # few configs have it

        yield from problems_of_releases(config, "DS368")
    if zero_stage(config) != 3 or is_on(config, "torch_autocast", "enabled"):
        return
    gradients = config.member(ZERO, "zero_quantized_gradients")
    sent = _communication_dtype(config)
    if gradients is None or not is_on(config, ZERO, gradients.key) or sent not in ("bf16", "fp32"):
        return
    if config.knowledge.does("quantized-gradients-are-read-as-fp16") and not _is_one_node(config):
        yield Problem(
            (ZERO, gradients.key),
            gradients.value.span,
            f"`{gradients.key}` reads the bits of {sent} gradients as fp16: on several nodes they are wrong, or "
            "the reduction raises",
            RISK,
            help="Delete the key, or train in fp16. The gradients of all matrices are quantized.",
            label=f"gradients are {sent}",
        )


def _communication_dtype(config: Config) -> str | None:
    """The dtype in which DeepSpeed sends gradients: the one that is named, else that of the model."""
    named = config.node("communication_data_type")
    if named is None or named.kind == "null":
        return certain_dtype(config)
    return DTYPE_NAMES.get(str(named.value))


def _is_one_node(config: Config) -> bool:
    ranks, on_a_node = config.world_size, config.facts.ranks_per_node
    return bool(ranks and on_a_node and ranks <= on_a_node)


def _secondary_groups(config: Config) -> tuple[Member | None, int]:
    """The ``zero_hpz_partition_size`` if it is above 1, and its value."""
    member = config.member(ZERO, HPZ)
    size = number_of(member.value) if member else None
    return (member, int(size)) if size is not None and 1 < size < float("inf") else (None, 1)


def _ranks(count: int) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"
