"""Whether a rank holds only what its share and the config account for, by the sizes of all live storages.

The tolerance is 1 KiB for each kind and for what belongs to nothing known. What is innocent is at most a hundred
scalars: losses, norms, overflow flags, step counters, padding. The smallest thing to notice is one rank's share of the
weights in 16 bit: 24,736 bytes of the tiny Llama on 2 ranks, and more than 1 KiB on up to 48 ranks.

Reduce buckets have the size that the config asks for, by default 5e8 elements that are reserved but never touched; what
is hidden in a bucket is not noticed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check, Held
from ds_lint.semantics.features import is_on
from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested, ranks_of_a_copy
from ds_lint.smoke.expected.partitions import partition
from ds_lint.smoke.verify.check import ObservedRun, ScriptRun, checked, skipped
from ds_lint.smoke.verify.groups import secondary_share
from ds_lint.smoke.verify.shares import has_plain_states, layout_of, states_of, whole_in_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.job import Evidence, TrainedParameter, UnknownStorage

TOLERANCE = 1024  # bytes
_BUCKETS = 2  # of each dtype, if communication overlaps
_DTYPES = 2  # of gradients, and of their accumulation
_STATES = ("parameters", "gradients", "master weights", "optimizer states")
_CONFIGURED = ("reduce buckets", "offload buffers", "secondary partitions", "inputs", "model buffers")
# Features that keep tensors of sizes of their own beside those of ZeRO.
_OTHER_TENSORS = (
    (ZERO, "zero_quantized_weights"),
    (ZERO, "zero_quantized_nontrainable_weights"),
    (ZERO, "zero_quantized_gradients"),
    (ZERO, "mics_shard_size"),
    (ZERO, "zenflow"),
    (ZERO, "zeropp_loco_param"),
    (ZERO, "offload_optimizer", "super_offload"),
    ("compression_training",),
    ("quantize_training",),
    ("hybrid_engine", "enabled"),
)


def memory(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The bytes of all live storages of each rank, by what they belong to, against the most that is accounted for."""
    requested = expectation.stage
    if requested is None or requested.value != run.engine.stage:
        return  # the check of the stage reports it
    if (why := _not_accounted_for(expectation)) is not None:
        yield skipped("memory", why[0], why[1])
        return
    if (in_window := _kept_in_window(run, requested.key)) is not None:
        yield in_window
        return
    excess = [
        (kind, one)
        for one in run.train
        for kind, most in _most(expectation, run, one).items()
        if _excess(one.storages.get(kind, Held(0, 0)), most) > TOLERANCE
    ]
    wrong, on = excess[0] if excess else ("", run.train[0])
    most = {kind: _in_bytes(on, kind, elements) for kind, elements in _most(expectation, run, on).items()}
    yield checked(
        "memory",
        Requested(most | {"tolerance": TOLERANCE}, requested.key),
        [{kind: held.bytes for kind, held in sorted(one.storages.items())} for one in run.train],
        not excess,
        unit="bytes",
        kept=_in_words(on, is_script=isinstance(run, ScriptRun)),
        broken=_too_much(on, wrong, most.get(wrong, 0), requested.value, run.world_size),
        help=_help(on.unknown_storages) if wrong == "unknown" else "",
    )


def _kept_in_window(run: ObservedRun, key: str | None) -> Check | None:
    """A rank that keeps tensors between two micro steps that belong to no model state and no buffer."""
    for one in run.train:
        held = one.unknown_in_window
        if held is not None and held.bytes > TOLERANCE:
            message = f"between two micro steps, rank {one.rank} holds {held.bytes:,} bytes that are not part of any "
            message += "model state or buffer, such as whole gradients"
            return Check(
                "memory", "fail", key, {"unknown": 0, "tolerance": TOLERANCE}, {"unknown": held.bytes}, "bytes",
                message, _help(one.storages_in_window),
            )  # fmt: skip
    return None


def _not_accounted_for(expectation: Expectation) -> tuple[str | None, str] | None:
    """A feature whose tensors have no known size, and why; None if there is none."""
    for place in (expectation.optimizer_offload, expectation.parameter_offload):
        if place is not None and place.value == "nvme":
            return place.key, "tensors on NVMe come and go through swap buffers, so live storages are not compared"
    if not has_plain_states(expectation):
        return expectation.key("optimizer"), f"{expectation.optimizer} keeps buffers of other sizes than the weights"
    if (copies := ranks_of_a_copy(expectation.final)) > 1:
        return None, f"{copies} ranks share each copy of the model, so live storages are not compared"
    for path in _OTHER_TENSORS:
        node = expectation.final.node(*path)
        if node is not None and (node.kind == "object" or is_on(expectation.final, *path) or expectation.number(*path)):
            return expectation.key(*path), f"`{'.'.join(path)}` keeps tensors of its own sizes"
    return None


def _most(expectation: Expectation, run: ObservedRun, evidence: Evidence) -> dict[str, int]:
    """The elements of each kind that the stage and the config account for on a rank between two steps."""
    stage, ranks, parameters = run.engine.stage, run.world_size, evidence.parameters
    trainable = [parameter for parameter in parameters if parameter.is_trainable]
    layout = layout_of(expectation)
    share = partition(trainable, stage, ranks, layout)
    frozen = sum(parameter.elements for parameter in parameters if not parameter.is_trainable)
    padded = partition(trainable, min(stage, 1), ranks, layout) * ranks + frozen  # of all ranks
    owned = share if stage > 0 else padded
    is_offloaded = expectation.optimizer_offload is not None and stage > 0
    largest = max((parameter.elements for parameter in parameters), default=0)
    names = expectation.states or tuple(states_of(evidence))
    hpz = int(expectation.number(ZERO, "zero_hpz_partition_size") or 1)
    return {
        "parameters": partition(parameters, 3, ranks) + whole_in_run(expectation, parameters) if stage == 3 else padded,
        "master weights": owned,
        "optimizer states": owned * len(names),
        "gradients": _gradients(expectation, run, trainable, owned, is_offloaded=is_offloaded),
        "model buffers": evidence.model_buffers,
        "reduce buckets": int(expectation.setting("reduce_bucket_size") or 0) * _BUCKETS * _DTYPES if stage > 0 else 0,
        # The largest gradient on the way to host memory and back, and the share of the weights in 16 bit.
        "offload buffers": 2 * largest + share if is_offloaded or expectation.parameter_offload is not None else 0,
        "secondary partitions": secondary_share(parameters, ranks, hpz) if stage == 3 and hpz > 1 else 0,
        **({} if isinstance(run, ScriptRun) else {"unknown": 0}),  # a script may keep tensors of its own
    }


def _gradients(
    expectation: Expectation, run: ObservedRun, trainable: list[TrainedParameter], owned: int, *, is_offloaded: bool
) -> int:
    """Elements that stay after a step: the flat buffer of stage 3, and what an optimizer in host memory keeps.

    An offloaded optimizer has its gradients in fp32, and stage 2 those that it accumulates in 16 bit, of which the
    parameters at the borders of the share are whole. DeepSpeed frees all others. BF16_Optimizer keeps all in fp32.
    """
    if expectation.accumulation_dtype is not None or run.engine.zero_optimizer in ("BF16_Optimizer", "FP16_Optimizer"):
        return 2 * sum(parameter.elements for parameter in trainable) + owned
    borders = 2 * max((parameter.elements for parameter in trainable), default=0)
    return (owned if run.engine.stage == 3 else 0) + (2 * owned + borders if is_offloaded else 0)


def _excess(held: Held, most: int) -> float:
    """Bytes above a number of elements."""
    return (held.elements - most) * _size(held)


def _in_bytes(evidence: Evidence, kind: str, elements: int) -> int:
    return math.ceil(elements * _size(evidence.storages.get(kind, Held(0, 0))))


def _size(held: Held) -> float:
    """Bytes of an element, on average."""
    return held.bytes / held.elements if held.elements else 0.0


def _in_words(evidence: Evidence, *, is_script: bool) -> str:
    """``a rank holds 49,472 bytes of parameters, ...; beside them ...``."""
    held = {kind: held.bytes for kind, held in evidence.storages.items() if held.bytes}
    states = [kind for kind in _STATES if kind in held]
    beside = [kind for kind in _CONFIGURED if kind in held]
    return (
        f"the live storages of a rank hold {_listed(held, states)}"
        + (f"; configured buffers and inputs: {_listed(held, beside)}" if beside else "")
        + f"; and {held.get('unknown', 0):,} bytes of unknown purpose"
        + ("" if is_script else f", of at most {TOLERANCE:,}")
    )


def _listed(held: dict[str, int], kinds: list[str]) -> str:
    return ", ".join(f"{held[kind]:,} bytes of {kind}" for kind in kinds)


def _too_much(evidence: Evidence, kind: str, most: int, stage: int, ranks: int) -> str:
    if not kind:
        return ""
    held = evidence.storages[kind].bytes
    if kind == "unknown":
        return f"rank {evidence.rank} holds {held:,} bytes that are not part of any model state or buffer"
    on = f"on {ranks} rank{'s' * (ranks != 1)}"
    return f"rank {evidence.rank} holds {held:,} bytes of {kind}, but stage {stage} {on} accounts for {most:,}"


def _help(found: list[UnknownStorage]) -> str:
    """``float32 [100] in `Linear.kept```: the largest storages of unknown purpose."""
    described = (f"{one.dtype} {one.shape}" + f" in `{one.holder}`" * bool(one.holder) for one in found)
    return f"The largest are {', '.join(described)}. Check what patches or wraps the engine."
