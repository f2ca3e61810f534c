"""What the reference run needs to know, from the config, the training arguments and the release; nothing of the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.semantics.features import is_on
from ds_lint.smoke.expected.documented_optimizer import NoReference, on_device, update_rule
from ds_lint.smoke.expected.expectation import ZERO, Expectation, ranks_of_a_copy
from ds_lint.smoke.expected.roundoff import OF_DTYPES
from ds_lint.smoke.records.job import ReferencePlan, UpdateRule
from ds_lint.source.tree import plain

if TYPE_CHECKING:
    from ds_lint.smoke.records.job import Job

# Optimizers that get other gradients than the average: compressed, or orthogonal to each other.
_CHANGE_GRADIENTS = ("onebit", "zeroone", "muon")


def planned(expectation: Expectation, job: Job) -> ReferencePlan | NoReference:
    """What the reference run of a job is to do."""
    if (obstacle := _obstacle(expectation)) is not None:
        return obstacle
    rule = update_rule(expectation, job.script)
    dtype, stage = str(expectation.dtype.value), expectation.stage
    apart = (expectation.communication_dtype, expectation.accumulation_dtype)
    known = [OF_DTYPES[name] for name in (dtype, *(str(one.value) for one in apart if one is not None))]
    batch = expectation.batch(job.world_size)
    is_trainer = expectation.config.stack == "trainer"
    is_sharded = stage is not None and stage.value == 3
    buffers = expectation.final.value("data_types", "buffer_dtype")
    return ReferencePlan(
        on_device(rule, expectation, job.mode) if isinstance(rule, UpdateRule) else None,
        clipping=float(expectation.clipping.value if expectation.clipping else expectation.clipping_by_default),
        unit_roundoff=max(roundoff for roundoff, _ in known),
        smallest=max(smallest for _, smallest in known),
        dtype=dtype,
        micro_batch=batch.micro if batch is not None else 0,
        windows=batch.accumulation_steps if batch is not None else 1,
        buffer_dtype=_buffer_dtype(expectation, buffers),
        keeps_fp32=_kept_in_fp32(expectation),
        # transformers asks for the number itself: `is_zero3` in accelerate/utils/deepspeed.py.
        is_partitioned=expectation.config.stack != "deepspeed" and expectation.final.value(ZERO, "stage") == 3,
        decays_some=is_trainer and expectation.optimizer is None,
        updates_all=_updates_all(expectation),
        uncompared=_uncompared(expectation),
        repeats_buffers=job.mode == CPU,
        repeats_passes=not is_sharded and job.mode == CPU,
        rounds_factors=job.mode == CUDA and is_trainer and expectation.argument("tf32") is True,
        replaces_linear=is_sharded and expectation.final.value(ZERO, "memory_efficient_linear") is not False,
        may_start_with_zeros=_may_start_with_zeros(expectation),
        rate=_rate(expectation),
    )


def _buffer_dtype(expectation: Expectation, written: object) -> str | None:
    """The dtype of floating buffers: releases before 0.19.2 cast them with the weights, and have no key for it."""
    if expectation.final.knowledge.find(("data_types", "buffer_dtype")) is None:
        dtype = str(expectation.dtype.value)
        return dtype if dtype != "float32" else None
    names = {"fp16": "float16", "half": "float16", "bf16": "bfloat16", "fp32": "float32", "float": "float32"}
    name = str(written).removeprefix("torch.") if written is not None else ""
    return names.get(name, name) or None


def _kept_in_fp32(expectation: Expectation) -> tuple[str, ...] | None:
    """The patterns of buffers that stay in fp32; empty for those of the model, None if the release or text has none."""
    if expectation.final.knowledge.find(("data_types", "keep_in_fp32_modules")) is None:
        return None
    node = expectation.final.node("data_types", "keep_in_fp32_modules")
    written = plain(node) if node is not None else None
    if isinstance(written, list):
        return tuple(map(str, written)) or None
    return ()


def _updates_all(expectation: Expectation) -> bool:
    """Whether one optimizer has all fp32 weights in memory."""
    places = (expectation.optimizer_offload, expectation.parameter_offload)
    is_swapped = any(place is not None and place.value == "nvme" for place in places)
    is_shared = expectation.number(ZERO, "offload_optimizer", "ratio") not in (None, 1)
    return not (is_swapped or is_shared or is_on(expectation.final, ZERO, "offload_optimizer", "super_offload"))


def _uncompared(expectation: Expectation) -> str | None:
    """What of the training arguments makes the gradients others than those of the model's own loss."""
    smoothing = expectation.argument("label_smoothing_factor")
    return "`--label_smoothing_factor` makes the Trainer compute the loss" if smoothing else None


def _may_start_with_zeros(expectation: Expectation) -> bool:
    """Whether the optimizer may make its states in a step with zero gradients.

    Sources: ``initialize_optimizer_states`` in deepspeed/runtime/fp16/fused_optimizer.py, unfused_optimizer.py and
    bf16_optimizer.py, which are there for 16 bit without ZeRO, and in bf16 with fp32 gradients at stage 1.
    """
    stage = expectation.stage.value if expectation.stage is not None else 0
    if expectation.dtype.value == "float32":
        return False
    return stage == 0 or (stage == 1 and expectation.dtype.value == "bfloat16")


def _rate(expectation: Expectation) -> float:
    """The learning rate with which the optimizer is made; 0 if nothing tells it."""
    value = expectation.rate.value if expectation.rate is not None else None
    return float(value) if isinstance(value, (int, float)) else 0.0


def _obstacle(expectation: Expectation) -> NoReference | None:
    """What makes a run compute in another way than a single process of plain torch."""
    final = expectation.final
    if ranks_of_a_copy(final) > 1:
        return NoReference(None, "several ranks share each copy of the model, and the reference run has whole copies")
    for path, why in (
        (("torch_autocast", "enabled"), "the reference run does not cast operations"),
        ((ZERO, "zero_quantized_weights"), "the reference run does not quantize weights"),
        ((ZERO, "zero_quantized_gradients"), "the reference run does not quantize gradients"),
        ((ZERO, "zeropp_loco_param"), "the reference run does not quantize gradients"),
        ((ZERO, "zenflow"), "ZenFlow delays the update of most weights, and the reference run does not"),
        (("compression_training",), "the reference run does not compress the model"),
        (("quantize_training",), "the reference run does not quantize the model"),
        (("optimizer", "legacy_fusion"), "the optimizer gets its gradients in its call, and not from its parameters"),
    ):
        if is_on(final, *path) or final.section(*path) is not None:
            return NoReference(expectation.key(*path), why)
    if (expectation.optimizer or "").lower().startswith(_CHANGE_GRADIENTS):
        why = f"{expectation.optimizer} changes the gradients, and the reference run has no arithmetic for it"
        return NoReference(expectation.key("optimizer", "type"), why)
    if expectation.master_dtype.value != "float32":
        return NoReference(expectation.master_dtype.key, "the reference run compares fp32 weights, and there are none")
    return None
