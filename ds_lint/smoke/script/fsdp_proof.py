"""The checks of one model of a script that FSDP of torch shards, from what its ranks have left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CUDA, Check
from ds_lint.smoke.records.fsdp_trace import BY_TORCH
from ds_lint.smoke.script import command_start
from ds_lint.smoke.verify import fsdp_arithmetic, fsdp_script, replayed, script_steps
from ds_lint.smoke.verify.check import Repetition, ScriptRun, skipped

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.fsdp_inspection import FsdpInspection

_RESUME = "resume"


def is_measured(ranks: list[EngineTrace]) -> bool:
    """Whether all ranks of a model have come to their checkpoint, be it saved or not."""
    own = [one.fsdp for one in ranks]
    return bool(own) and len(own) == ranks[0].world_size and all(one and one.holding is not None for one in own)


def start_inspection(plan: Plan, ranks: list[EngineTrace]) -> subprocess.Popen[bytes]:
    """Start a process that repeats the sampled step and reads the saved model, while the script starts again."""
    one = ranks[0]
    assert one.fsdp is not None  # noqa: S101 - the caller has looked
    folder = os.path.join(plan.kept_folder, f"engine-{one.number}")
    job = {"folder": folder, "divisors": one.fsdp.divisors, "is_on_gpus": one.mode == CUDA}
    return command_start.start_inspection(plan, "fsdp_inspection", os.path.join(folder, "inspected"), job)


def verified(
    ranks: list[EngineTrace], plan: Plan, repetition: Repetition | None, inspected: FsdpInspection | str
) -> Iterator[Check]:
    """The checks of a model that has come to its checkpoint."""
    run = fsdp_script.ShardedRanks(ranks)
    yield from fsdp_script.units(run)
    yield from fsdp_script.shares(run)
    yield from fsdp_script.dtypes(run)
    yield from fsdp_script.offload(run)
    if not ranks[0].is_trained:
        return
    script = ScriptRun(
        train=[one.evidence for one in ranks], mode=ranks[0].mode, steps=plan.steps, steps_after=plan.steps_after,
        exported="", real_shapes="", ranks=ranks, repetition=repetition, recomputed=None,
    )  # fmt: skip
    yield from fsdp_script.recomputation(run)
    yield from fsdp_script.loss(run)
    yield from fsdp_script.rates(run)
    yield from script_steps.samples_of(script)
    yield from fsdp_script.begun(run)
    yield from fsdp_arithmetic.arithmetic(run, inspected)
    yield from _resume(run, script)
    yield from fsdp_arithmetic.export(run, inspected)


def _resume(run: fsdp_script.ShardedRanks, script: ScriptRun) -> Iterator[Check]:
    own = run.own[0]
    refused = next((one.not_checkpointed for one in run.own if one.not_checkpointed), None)
    if refused is not None and any(one.foreign for one in run.own):
        yield skipped(_RESUME, None, "the optimizer has parameters that are not of the model")
    elif refused is not None and own.checkpoint_by == BY_TORCH:
        yield skipped(_RESUME, None, f"ds-lint saves by {BY_TORCH}, which raises {refused}")
    elif refused is not None:
        message = f"saving by {own.checkpoint_by} raises {refused}"
        yield Check(_RESUME, "fail", None, "a checkpoint", None, None, message)
    elif (why := _not_loaded(script)) is not None:
        yield skipped(_RESUME, None, f"ds-lint loads by {BY_TORCH}, which raises {why}")
    else:
        for check in replayed.resumed(script, None):
            by = f"; {own.checkpoint_by} saves and loads" if check.status == "pass" else ""
            yield check._replace(message=f"{check.message}{by}")


def _not_loaded(script: ScriptRun) -> str | None:
    """What has raised on a rank of the second start; None if nothing has."""
    after = script.repetition.second if script.repetition is not None else []
    return next((one.not_loaded for one in after if one.not_loaded), None)
