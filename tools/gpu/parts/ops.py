"""Training runs with the ops that DeepSpeed compiles, each beside the same run with stand-ins for them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.small_run.options import RunOptions
from tools.gpu import builds
from tools.gpu.parts.smoke import CPU, NVME, WHOLE, config_of
from tools.gpu.proving import Prover, compared, prover, without_ops
from tools.gpu.setting import ERROR, Item, Setting, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.gpu.setting import Result

QUESTION = "Does a run with the ops that DeepSpeed compiles pass every check that it passes with stand-ins for them?"
LANES = 4
# Each with the op that its steps need, in the order of how many users have it.
WITH_OPS: tuple[tuple[str, str, Result], ...] = (
    ("FusedAdam, stage 2", "fused_adam", {"zero_optimization": {"stage": 2}}),
    ("FusedAdam, stage 3", "fused_adam", {"zero_optimization": WHOLE}),
    ("CPUAdam, stage 2", "cpu_adam", {"zero_optimization": {"stage": 2, "offload_optimizer": CPU}}),
    (
        "CPUAdam, stage 3",
        "cpu_adam",
        {"zero_optimization": {**WHOLE, "offload_optimizer": CPU, "offload_param": CPU}},
    ),
    ("async_io", "async_io", {"zero_optimization": {**WHOLE, "offload_optimizer": NVME}}),
    ("async_io, parameters", "async_io", {"zero_optimization": {**WHOLE, "offload_param": NVME}}),
    (
        "FusedLamb, stage 0, fp32",  # its kernel has no bf16
        "fused_lamb",
        {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}, "bf16": {}, "zero_optimization": {"stage": 0}},
    ),
    (
        "FusedLamb, stage 2",
        "fused_lamb",
        {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2}},
    ),
    (
        "FusedLion, stage 2",
        "fused_lion",
        {"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}, "zero_optimization": {"stage": 2}},
    ),
    (
        "CPULion, stage 2",
        "cpu_lion",
        {
            "optimizer": {"type": "Lion", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": 2, "offload_optimizer": CPU},
        },
    ),
    (
        "CPUAdagrad, stage 2",
        "cpu_adagrad",
        {
            "optimizer": {"type": "Adagrad", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 2, "offload_optimizer": CPU},
        },
    ),
)


class Lane(NamedTuple):
    """The processes of a lane: one that finds the built ops, and one that finds none."""

    building: Prover
    plain: Prover


@contextlib.contextmanager
def lane(setting: Setting) -> Iterator[Lane]:
    """These processes, both for the same device."""
    with prover(setting, **builds.environment(setting.ops)) as building, without_ops(setting) as plain:
        yield Lane(building, plain)


def items(setting: Setting) -> list[Item]:
    """A run for each way to use an op."""
    return [_run(setting, *one) for one in WITH_OPS]


def _run(setting: Setting, name: str, op: str, more: Result) -> Item:
    """With the kernel that DeepSpeed compiles, which is built meanwhile."""
    is_for_cpus = op in builds.OPS["cpu"]

    def measure(shared: Lane) -> Result:
        if setting.rehearses and not is_for_cpus:
            raise Unanswered(f"does {op} run as DeepSpeed compiles it?")
        built = builds.result(setting.ops, op)
        if built is None and setting.rehearses:
            raise Unanswered(f"does {op} run as DeepSpeed compiles it? Nothing builds it here.")
        if built is not None and not built["is_built"]:  # the run would build it again
            return {"status": ERROR, "op": op, "built": built, "error": built["said"]}
        config = {**config_of(2), "zero_allow_untested_optimizer": True, **more}
        with_op = shared.building.prove(config, run_options=RunOptions(ranks=1, builds_ops=True))
        without = shared.plain.prove(config)
        return {
            **compared(with_op, without),
            "op": op,
            "built": built,
            "losses_with_stand_in": without["losses"],
        }

    # On CPUs, DeepSpeed compiles what ranks share memory with, too.
    return Item(name, measure, seconds=150.0 if setting.rehearses and is_for_cpus else 20.0)
