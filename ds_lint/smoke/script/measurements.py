"""What a run of the user's own script takes, from what each rank has measured; and the whole training, projected."""

from __future__ import annotations

import math
import os
import shutil
from statistics import median
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import (
    OF_BACKWARD,
    OF_DS_LINT,
    OF_EXPORT,
    OF_FORWARD,
    OF_INITIALIZE,
    OF_LOAD,
    OF_SAVE,
    OF_SCRIPT,
    OF_STEP,
    Communication,
    Estimated,
    Measurements,
    PeakMemory,
    Projection,
)
from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import setup as setups
from ds_lint.footprint.estimate import estimate
from ds_lint.output.smoke import STATES, by_kind
from ds_lint.semantics import configs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.footprint.estimate import Estimate
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.engine_trace import EngineTrace, Length, Moment

_OF_A_STEP = (OF_SCRIPT, OF_FORWARD, OF_BACKWARD, OF_STEP)
_ONCE = (OF_INITIALIZE, OF_SAVE, OF_EXPORT, OF_LOAD)
MODEL_STATES, OPTIMIZER_STATES, OTHER, EXPORT = "model states", "optimizer states", "other", "export"
# Parts of an estimate, by what a rank calls the same; gradients are freed after a step.
_PARTS = {"parameters": "parameters", "master weights": "master_weights", STATES: "optimizer_states"}
PEAK = "peak GPU memory"


def measurements(
    first: list[EngineTrace], second: list[EngineTrace], kept: str, config: Config, seen: Config
) -> Measurements | None:
    """What one engine has taken on its ranks, in both starts; None if it has not made the steps before its checkpoint.

    ``kept`` is the folder of what it saved, ``config`` the one of the user, and ``seen`` the same with what the script
    fills in.
    """
    if not all(one.is_trained and one.evidence.engine is not None for one in first):
        return None
    one = first[0]
    saved_at = next((moment.step for moment in one.measured.moments if moment.phase == OF_SAVE), 0)
    made = max((moment.step for moment in one.measured.moments if moment.phase == OF_STEP), default=0)
    profiled = one.measured.communicated.step if one.measured.communicated is not None else 0
    timed = [step for step in range(2, made + 1) if step not in (saved_at + 1, profiled)]
    of_ranks = [median([_step_seconds(rank, step) for step in timed]) for rank in first if timed]
    step_seconds = max(of_ranks, default=None)
    files = files_in(kept)
    return Measurements(
        gpu_peaks=_peaks(first, lambda moment: moment.gpu_bytes),
        host_peaks=_peaks(first, lambda moment: moment.host_bytes),
        is_host_sampled=any(rank.measured.is_host_sampled for rank in first),
        step_seconds=step_seconds,
        timed_steps=timed,
        seconds={phase: found for phase in _ONCE if (found := _slowest([*first, *second], phase)) is not None},
        own_seconds=_slowest(first, OF_DS_LINT) or 0.0,
        samples=_of_all_ranks(
            first, [_of_a_step(list(map(sum, rank.evidence.samples))) for rank in first if rank.evidence.samples]
        ),
        tokens=_of_all_ranks(first, [_of_a_step(rank.measured.tokens) for rank in first if rank.measured.tokens]),
        files=files,
        nvme_bytes=sum(rank.measured.nvme_bytes for rank in first),
        projection=_projection(one, step_seconds, files, kept, config),
        estimated=_estimated(first, seen),
        communication=list(_communication(first)),
    )


def _communication(ranks: list[EngineTrace]) -> Iterator[Communication]:
    """The share of collectives in the step that was profiled."""
    for rank in ranks:
        if (found := rank.measured.communicated) is not None:
            of = _step_seconds(rank, found.step)
            yield Communication(rank.evidence.rank, found.step, found.whole, of, found.seconds)


def _step_seconds(rank: EngineTrace, step: int) -> float:
    """From the end of the step before to the end of this one, without what ds-lint does in it."""
    moments = rank.measured.moments
    return math.fsum(one.seconds for one in moments if one.step == step and one.phase in _OF_A_STEP)


def _slowest(ranks: list[EngineTrace], phase: str) -> float | None:
    """The seconds of a phase in all steps; None if it never came."""
    of_ranks = [[one.seconds for one in rank.measured.moments if one.phase == phase] for rank in ranks]
    return max((math.fsum(seconds) for seconds in of_ranks if seconds), default=None)


def _peaks(ranks: list[EngineTrace], bytes_of: Callable[[Moment], int | None]) -> list[PeakMemory]:
    """Where each rank takes most, beside what ds-lint itself does; ranks that measure nothing are left out."""
    found = []
    for rank in ranks:
        moments = [one for one in rank.measured.moments if one.phase != OF_DS_LINT and bytes_of(one)]
        if moments:
            most = max(moments, key=lambda one: bytes_of(one) or 0)
            is_on_gpu = bytes_of(most) == most.gpu_bytes
            reserved = max(one.gpu_reserved or 0 for one in moments) if is_on_gpu else None
            found.append(PeakMemory(rank.evidence.rank, bytes_of(most) or 0, most.phase, most.step, reserved))
    return found


def _of_a_step(of_steps: list[int]) -> int:
    """The second step, the first that is timed; that a model trains in its evaluation mode shows within the first."""
    return of_steps[min(1, len(of_steps) - 1)]


def _of_all_ranks(ranks: list[EngineTrace], of_each: list[int]) -> int | None:
    """What all ranks compute together; those that share the layers of a copy of the model have the same samples."""
    if len(of_each) < len(ranks) or not sum(of_each):
        return None
    return sum(of_each) * ranks[0].data_parallel // ranks[0].world_size


def files_in(kept: str) -> dict[str, int]:
    """The bytes of what an engine saved, by kind; all ranks write into one folder."""
    found: dict[str, int] = {}
    for part in ("checkpoint", "export"):
        for parent, _, names in os.walk(os.path.join(kept, part)):
            for name in names:
                kind = EXPORT if part == "export" else _kind_of(name)
                found[kind] = found.get(kind, 0) + os.path.getsize(os.path.join(parent, name))
    return {kind: found[kind] for kind in (MODEL_STATES, OPTIMIZER_STATES, OTHER, EXPORT) if kind in found}


def _kind_of(name: str) -> str:
    if "optim_states" in name or name.endswith(".tensor.swp"):  # a copy of what is on NVMe
        return OPTIMIZER_STATES
    return MODEL_STATES if "model_states" in name or name.startswith("layer_") else OTHER


def _projection(
    one: EngineTrace, step_seconds: float | None, files: dict[str, int], kept: str, config: Config
) -> Projection | None:
    """The whole training, if each step takes as long as the measured ones, and each checkpoint as much."""
    length = one.measured.length
    if length is None:
        return None
    checkpoints = _checkpoints(length)
    size = files.get(EXPORT, 0) if one.arguments.get("save_only_model") else sum(files.values())
    return Projection(
        steps=length.steps,
        seconds=_times(length.steps, step_seconds),
        steps_of_epoch=length.steps_of_epoch,
        seconds_of_epoch=_times(length.steps_of_epoch, step_seconds),
        checkpoints=checkpoints,
        checkpoint_bytes=checkpoints * size if checkpoints is not None and size else None,
        free_bytes=_free_bytes(config, kept, sum(files.values())),
    )


def _times(steps: int | None, seconds: float | None) -> float | None:
    return steps * seconds if steps and seconds is not None else None


def _checkpoints(length: Length) -> int | None:
    """The checkpoints that lie on the disk in the end: the Trainer writes one after the last step too."""
    between = {"steps": length.save_steps, "epoch": length.steps_of_epoch}.get(length.saves)
    if not between or length.steps is None:
        return None
    if between < 1:  # a share of all steps: args.save_steps in trainer_callback.py
        between = math.ceil(length.steps * between)
    written = math.ceil(length.steps / between)
    return min(written, length.kept_checkpoints or written)


def _free_bytes(config: Config, kept: str, own: int) -> int | None:
    """What is free where the script writes its output without ds-lint; what the run keeps there for now is free too."""
    found = config.argument("output_dir")
    if found is None or not isinstance(found.value, str):
        return None
    folder = os.path.abspath(found.value)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    is_same_disk = os.path.isdir(kept) and os.stat(folder).st_dev == os.stat(kept).st_dev
    return shutil.disk_usage(folder).free + (own if is_same_disk else 0)


# ------------------------------------------------------------------------------------------------- against the estimate


def _estimated(ranks: list[EngineTrace], seen: Config) -> list[Estimated]:
    """What ``ds-lint memory`` computes with the shapes of this run, beside what the rank holds that holds most."""
    needed = _estimate(ranks[0], seen)
    if needed is None or ranks[0].is_pipeline or ranks[0].data_parallel != ranks[0].world_size:
        return []
    held = [by_kind(rank.evidence.held) for rank in ranks]
    found = []
    for kind, part in _PARTS.items():
        placed = needed.parts[part]
        band = placed.gpu.bytes.plus(placed.host.bytes)
        most = max((of_rank[kind].bytes for of_rank in held if kind in of_rank), default=0)
        found.append(Estimated(kind, round(band.least), round(band.most), most))
    peaks = _peaks(ranks, lambda moment: moment.gpu_bytes)
    if peaks and "activations" in needed.parts:
        band = needed.gpu_bytes
        found.append(Estimated(PEAK, round(band.least), round(band.most), max(one.bytes for one in peaks)))
    return found


def _estimate(one: EngineTrace, seen: Config) -> Estimate | None:
    """The estimate for a config with the parameters that the engine has been given."""
    parameters = one.evidence.parameters
    known = seen.facts.model
    facts = Facts(world_size=one.world_size, training=seen.facts.training)
    facts.model = Model(
        "",
        known.config if known is not None else {},
        parameters=[Parameter(parameter.name, (parameter.elements,), "") for parameter in parameters],
        parameter_count=sum(parameter.elements for parameter in parameters),
    )
    found = setups.of(configs.from_document(seen.document, seen.basis.but(facts=facts)))
    if found is None:
        return None
    tensors = tuple(Tensor(parameter.name, parameter.elements, parameter.is_trainable) for parameter in parameters)
    return estimate(found._replace(tensors=tensors, adapters=None))
