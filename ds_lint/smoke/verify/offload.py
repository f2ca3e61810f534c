"""Where the optimizer and the parameters are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CPU, CUDA, Check
from ds_lint.smoke.expected.expectation import ZERO, Expectation
from ds_lint.smoke.expected.partitions import partition
from ds_lint.smoke.records.job import FP32, SWAPPABLE
from ds_lint.smoke.verify.check import ObservedRun, checked, spelling
from ds_lint.smoke.verify.shares import not_swapped, states_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def offload(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Where the engine places what the config offloads."""
    engine = run.engine
    for what, requested, observed in (
        ("optimizer", expectation.optimizer_offload, engine.offloads_optimizer),
        ("parameters", expectation.parameter_offload, engine.offloads_parameters),
    ):
        if requested is None:
            continue
        least = _swapped_bytes(expectation, run) if observed == "nvme" else 0
        swapped = run.train[0].swapped_bytes
        place = {"cpu": "host memory", "nvme": "NVMe files", None: "the device"}
        yield checked(
            "offload",
            requested,
            observed,
            observed == requested.value and swapped >= least,
            kept=f"the parameters go to {place[requested.value]}"
            if what == "parameters"
            else f"the optimizer works in {place[requested.value]}"
            + (f" ({swapped:,} bytes)" if observed == "nvme" else ""),
            broken=f"`{requested.key}` asks for {place[requested.value]}, but at stage {engine.stage} the "
            f"{what} {_goes(what, observed)} {place[observed]}"
            if observed != requested.value
            else f"the NVMe files hold {swapped:,} bytes, but the offloaded tensors need {least:,}",
            help=spelling(expectation, requested) or _offloading_stage(what, requested.value, engine.stage),
            # A CPU has only one memory: the run shows which place the code uses, not that it is a different memory.
            adapted=run.mode == CPU,
        )


def placement(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Where the tensors of an offloaded optimizer are; only a GPU shows it, because a CPU has one memory."""
    requested = expectation.optimizer_offload
    if run.mode != CUDA or requested is None or requested.value != "cpu" or run.engine.offloads_optimizer != "cpu":
        return
    # With a ratio below 1, stage 3 keeps some sub-groups on the GPU (``subgroup_to_device`` in zero/stage3.py).
    ratio = expectation.number(ZERO, "offload_optimizer", "ratio")
    if ratio == 0:
        return
    is_whole = ratio in (None, 1)
    devices = run.train[0].devices
    observed = {kind: devices[kind] for kind in ("master weights", *states_of(run.train[0])) if devices.get(kind)}
    elsewhere = sorted(kind for kind, found in observed.items() if "cpu" not in found or (is_whole and len(found) > 1))
    yield checked(
        "offload",
        requested,
        observed,
        not elsewhere,
        kept=f"the {' and '.join(observed)} of the optimizer are tensors in host memory"
        + ("" if is_whole else ", or on the GPU, as `ratio` says"),
        broken=f"the {' and '.join(elsewhere)} of the optimizer are tensors on the GPU",
    )
    if expectation.final.value(ZERO, "offload_optimizer", "pin_memory") is True:
        yield checked(
            "offload",
            expectation.requested(True, ZERO, "offload_optimizer", "pin_memory"),
            run.engine.is_pinned,
            bool(run.engine.is_pinned),
            bad="warn",
            kept="the host memory of the optimizer is page-locked",
            broken="none of the host memory of the optimizer is page-locked",
        )


def _offloading_stage(what: str, place: str, stage: int) -> str:
    """The stages that offload it, if another stage run."""
    if stage < 3 and (what == "parameters" or place == "nvme"):
        return f"Set `{ZERO}.stage` to 3, or remove the offload setting."
    return f"Set `{ZERO}.stage` to 1, 2 or 3, or remove the offload setting." if stage == 0 else ""


def _swapped_bytes(expectation: Expectation, run: ObservedRun) -> int:
    """The minimum of bytes of weights and states that all ranks together have on NVMe."""
    everything, ranks = run.train[0].parameters, run.world_size
    parameters = [parameter for parameter in everything if parameter.is_trainable]
    optimizer, weights = expectation.optimizer_offload, expectation.parameter_offload
    swapped = 0
    if optimizer is not None and optimizer.value == "nvme":
        shares = partition(parameters, 3, ranks) - not_swapped(expectation, parameters, ranks)
        swapped += shares * FP32 * (1 + len(expectation.states or ()))
    if weights is not None and weights.value == "nvme":
        size = FP32 if expectation.dtype.value == "float32" else FP32 // 2
        shares_of_each = (math.ceil(parameter.elements / ranks) * size for parameter in everything)
        swapped += sum(share for share in shares_of_each if share >= SWAPPABLE)
    return ranks * swapped


def _goes(what: str, place: str | None) -> str:
    """The verb for what is or is not offloaded."""
    verb = "stay on" if place is None else "go to"
    return verb if what == "parameters" else {"stay on": "stays on", "go to": "goes to"}[verb]
