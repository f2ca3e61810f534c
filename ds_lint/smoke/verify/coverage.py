"""What the config asks for and no check of the run verifies: each such key is a skipped check with its reason.

``COVERED_BY`` names the checks of each key, and ``NOT_VERIFIED`` the reason why a key has none. The longest path that a
key starts with counts. A key in neither table, such as one of a section that a new release adds, is listed too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import COVERAGE, CUDA
from ds_lint.smoke.expected.expectation import ZERO
from ds_lint.smoke.verify.check import skipped
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.source.tree import KeyPath, Node

    Entry = TypeVar("Entry")

UNCOVERED = "no check of the run covers it"
_SPEED = "the run does not measure speed and peak memory"
_LOGGING = "the run does not read what is logged"
_FILES = "the run compares what is in a checkpoint, not how it is written"
_CPU_ACTIVATIONS = "only `deepspeed.checkpointing.checkpoint` uses it, and the model of the run does not call that"
_COMPILER = "the run starts no compiler"
_DEEPCOMPILE = "DeepCompile does nothing in this run: `engine.compile()` is not called, and a CPU has no kernels for it"
_HALF_SCALE = "the run has too few steps to show how the loss scale changes"

_COURSE, _LEAST_SCALE = "the course of the loss scale", "the least loss scale"

# The ids of the checks that look at a key; one of them is enough.
COVERED_BY: dict[tuple[str, ...], tuple[str, ...]] = {
    ("train_batch_size",): ("batch",),
    ("train_micro_batch_size_per_gpu",): ("batch",),
    ("gradient_accumulation_steps",): ("batch",),
    ("elasticity",): ("batch",),
    ("tensor_parallel", "autotp_size"): ("batch",),
    ("sequence_parallel_size",): ("batch",),
    ("gradient_clipping",): ("clipping",),
    ("gradient_predivide_factor",): ("averaging",),
    ("prescale_gradients",): ("averaging",),
    ("communication_data_type",): ("dtypes",),
    ("data_types", "grad_accum_dtype"): ("dtypes",),
    ("bf16", "enabled"): ("dtypes",),
    ("bf16", "bf16_master_weights_and_grads"): ("dtypes",),
    ("bfloat16", "enabled"): ("dtypes",),
    ("fp16", "enabled"): ("dtypes",),
    ("fp16", "fp16_master_weights_and_grads"): ("dtypes",),
    ("fp16", "loss_scale"): ("loss-scale", "overflow"),
    ("fp16", "initial_scale_power"): ("loss-scale", "overflow"),
    ("fp16", "hysteresis"): (_COURSE,),
    ("fp16", "consecutive_hysteresis"): (_COURSE,),
    ("fp16", "loss_scale_window"): (_COURSE,),
    ("fp16", "min_loss_scale"): (_LEAST_SCALE,),
    ("torch_autocast", "enabled"): ("dtypes",),
    ("torch_autocast", "dtype"): ("dtypes",),
    ("optimizer", "type"): ("update", "optimizer-states"),
    ("optimizer", "params"): ("update",),
    ("optimizer", "params", "lr"): ("learning-rate", "update"),
    ("scheduler",): ("learning-rate",),
    (ZERO, "stage"): ("stage",),
    (ZERO, "offload_optimizer", "device"): ("offload",),
    (ZERO, "offload_optimizer", "nvme_path"): ("offload",),
    (ZERO, "offload_param", "device"): ("offload",),
    (ZERO, "offload_param", "nvme_path"): ("offload",),
    (ZERO, "cpu_offload"): ("offload",),
    (ZERO, "cpu_offload_params"): ("offload",),
    (ZERO, "cpu_offload_param"): ("offload",),
    (ZERO, "zero_hpz_partition_size"): ("parameters",),
    (ZERO, "reduce_bucket_size"): ("memory",),
    (ZERO, "round_robin_gradients"): ("recovery",),
    (ZERO, "stage3_param_persistence_threshold"): ("persistence",),
    (ZERO, "param_persistence_threshold"): ("persistence",),
    (ZERO, "stage3_model_persistence_threshold"): ("persistence",),
    (ZERO, "model_persistence_threshold"): ("persistence",),
    (ZERO, "stage3_gather_16bit_weights_on_model_save"): ("export",),
    (ZERO, "gather_16bit_weights_on_model_save"): ("export",),
    (ZERO, "stage3_gather_fp16_weights_on_model_save"): ("export",),
    # They permit something, and the run got to its end with it.
    ("zero_allow_untested_optimizer",): ("keys",),
    ("zero_force_ds_cpu_optimizer",): ("keys",),
    (ZERO, "ignore_unused_parameters"): ("keys",),
}
# The same on GPUs only.
COVERED_ON_GPUS: dict[tuple[str, ...], tuple[str, ...]] = {(ZERO, "offload_optimizer", "pin_memory"): ("offload",)}

NOT_VERIFIED: dict[tuple[str, ...], str] = {
    ("activation_checkpointing",): _CPU_ACTIVATIONS,
    ("aio",): _SPEED,
    ("autotuning",): _SPEED,
    ("comms_logger",): _LOGGING,
    ("compile",): _COMPILER,
    ("compile", "deepcompile"): _DEEPCOMPILE,
    ("checkpoint",): _FILES,
    ("checkpoint", "load_universal"): "the run resumes from its own checkpoint, which is not universal",
    ("csv_monitor",): _LOGGING,
    ("comet",): _LOGGING,
    ("datastates_ckpt",): _FILES,
    ("dump_state",): _LOGGING,
    ("flops_profiler",): _LOGGING,
    ("fp16", "hysteresis"): _HALF_SCALE,
    ("fp16", "consecutive_hysteresis"): _HALF_SCALE,
    ("fp16", "loss_scale_window"): _HALF_SCALE,
    ("fp16", "min_loss_scale"): _HALF_SCALE,
    ("log_level",): _LOGGING,
    ("memory_breakdown",): _LOGGING,
    ("steps_per_print",): _LOGGING,
    ("tensorboard",): _LOGGING,
    ("timers",): _LOGGING,
    ("wall_clock_breakdown",): _LOGGING,
    ("wandb",): _LOGGING,
    (ZERO, "allgather_bucket_size"): _SPEED,
    (ZERO, "allgather_partitions"): _SPEED,
    (ZERO, "contiguous_gradients"): _SPEED,
    (ZERO, "offload_optimizer"): _SPEED,
    (ZERO, "offload_param"): _SPEED,
    (ZERO, "overlap_comm"): _SPEED,
    (ZERO, "reduce_scatter"): _SPEED,
    (ZERO, "stage3_max_live_parameters"): _SPEED,
    (ZERO, "max_live_parameters"): _SPEED,
    (ZERO, "stage3_max_reuse_distance"): _SPEED,
    (ZERO, "max_reuse_distance"): _SPEED,
    (ZERO, "stage3_prefetch_bucket_size"): _SPEED,
    (ZERO, "prefetch_bucket_size"): _SPEED,
    (ZERO, "sub_group_size"): _SPEED,
    (ZERO, "offload_optimizer", "pin_memory"): "host memory is page-locked only on a machine with a GPU",
    (ZERO, "offload_param", "pin_memory"): "host memory is page-locked only on a machine with a GPU",
}


def unverified(expectation: Expectation, mode: str, checks: list[Check]) -> Iterator[Check]:
    """A skipped check for each key that asks for something and that none of these checks is about."""
    made = {check.id for check in checks} | _courses(expectation, checks)
    sections = {check.key for check in checks if check.id == "recomputation"}
    covered_by = COVERED_BY | (COVERED_ON_GPUS if mode == CUDA else {})
    for path in _requested_keys(expectation):
        if path[0] in sections:
            continue  # the check shows that nothing uses any of its keys
        ids, reason = _longest(covered_by, path), _longest(NOT_VERIFIED, path)
        if ids is not None and (reason is None or len(ids[0]) >= len(reason[0])):
            if made.isdisjoint(ids[1]):
                why = reason[1] if reason is not None else f"its check, `{ids[1][0]}`, is not made in this run"
                yield skipped(COVERAGE, dotted(path), why)
        else:
            yield skipped(COVERAGE, dotted(path), reason[1] if reason is not None else UNCOVERED)


def _courses(expectation: Expectation, checks: list[Check]) -> set[str]:
    """What the check of the loss scale over many steps shows, if it is made: the rule, and the least scale."""
    course = next((check.expected for check in checks if (check.id, check.unit) == ("loss-scale", "steps")), None)
    least = expectation.number("fp16", "min_loss_scale")
    return set() if course is None else {_COURSE, *([_LEAST_SCALE] if least in course else [])}


def _requested_keys(expectation: Expectation) -> Iterator[KeyPath]:
    """The known keys of the text with a value that is neither false nor the default, in sections that are on."""
    config = expectation.config
    for visit in config.visits:
        if visit.key is None or config.written.at(visit.path) is None or _is_switched_off(expectation, visit.path):
            continue
        if visit.path[1:] == ("params",):  # the type of the optimizer or scheduler decides which keys they are
            yield from (
                (*visit.path, member.key)
                for member in visit.value.members
                if member.value.kind != "null" and member.value.value is not False
            )
        elif "removed" not in visit.key.facts and _asks(visit.value, visit.key.facts.get("default", ...)):
            yield visit.path


def _asks(value: Node, default: object) -> bool:
    if value.kind in ("object", "null") or value.value is False:
        return False
    return value.kind == "array" or value.value != default


def _is_switched_off(expectation: Expectation, path: KeyPath) -> bool:
    """Whether a section around the key has ``enabled: false``."""
    switches = (expectation.config.root.at((*path[:length], "enabled")) for length in range(1, len(path)))
    return any(switch is not None and switch.value is False for switch in switches)


def _longest(table: dict[tuple[str, ...], Entry], path: KeyPath) -> tuple[tuple[str, ...], Entry] | None:
    """The entry of the longest path that this one starts with."""
    for length in range(len(path), 0, -1):
        if (entry := table.get(path[:length])) is not None:
            return path[:length], entry
    return None
