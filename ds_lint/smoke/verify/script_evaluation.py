"""A script that evaluates or generates: what its ranks hold and load, and whether all call what needs all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.diagnostics.verdict import CPU, Check
from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.expected.partitions import partition
from ds_lint.smoke.verify.arithmetic import WEIGHTS
from ds_lint.smoke.verify.check import ScriptRun, checked, skipped
from ds_lint.smoke.verify.shares import whole_in_run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ds_lint.smoke.records.engine_trace import EngineTrace

_SYNCED = (
    "Give each rank the same number of batches, and pass `synced_gpus=True` to `generate`: "
    "ranks that have finished go on with the others."
)
_PLACES = {"cpu": "host memory", "nvme": "NVMe files"}
_TIMEOUT = 30.0  # seconds without a forward pass on any rank: the ranks wait for each other


class Source(NamedTuple):
    """What the files of the script have for one parameter of the engine."""

    digests: list[str] | None  # in each dtype; None if they are not known
    is_missing: bool  # no file has it


def uneven(ranks: Sequence[EngineTrace], stage: int | None, idle: float | None) -> Check | None:
    """Ranks that make other numbers of forward passes, where each pass needs all of them; None if there are none.

    ``idle`` are the seconds since the last pass of any rank if the run was cut off, and None if it has ended by itself.
    """
    evaluated = [one.evaluated for one in ranks]
    begun = [one.begun for one in evaluated if one is not None]
    is_divided = stage == 3 or any(one is not None and one.tensor_parallel > 1 for one in evaluated)
    if len(begun) != len(ranks) or len(set(begun)) < 2 or not is_divided:
        return None
    if idle is not None and idle < _TIMEOUT:
        return None
    most = begun.index(max(begun))
    least = begun.index(min(begun))
    why = "At stage 3" if stage == 3 else "With tensor parallelism"
    return Check(
        "start", "fail", None, "the same number of forward passes on every rank", "train", None,
        f"{why.lower()}, each forward pass needs every rank: rank {most} waits in its {_ordinal(begun[most])}, and "
        f"rank {least} makes {begun[least]}",
        _SYNCED,
    )  # fmt: skip


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return f"{number}th"
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th') }"


def evaluation(expectation: Expectation, run: ScriptRun, sources: Mapping[str, Source]) -> Iterator[Check]:
    """The checks of an engine with which a script evaluates."""
    if all(one.evidence.engine is not None for one in run.ranks):
        yield from _held(expectation, run)
    else:
        yield from _held_by_inference(run)
    yield _passes(run)
    yield _weights(run, sources)


def _passes(run: ScriptRun) -> Check:
    begun = [one.evaluated.begun for one in run.ranks if one.evaluated is not None]
    least, most = min(begun), max(begun)
    number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
    kept = f"each rank makes {number} forward pass{'es' * (most != 1)}, and none of them trains"
    return checked("start", Requested("an evaluation", None), begun, is_kept=True, kept=kept, broken="")


def _held(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The parameters of each rank: a share at stage 3, else all of them."""
    parameters, observed = run.train[0].parameters, run.held("parameters")
    whole = sum(one.elements for one in parameters)
    stage, key = run.engine.stage, expectation.stage.key if expectation.stage is not None else None
    on_nvme = expectation.parameter_offload is not None and expectation.parameter_offload.value == "nvme"
    if on_nvme:
        yield skipped("parameters", key, "parameters on NVMe are in memory only while they are used")
        return
    least = most = whole
    if stage == 3 and run.world_size > 1:
        least = partition(parameters, 3, run.world_size)
        most = least + whole_in_run(expectation, parameters)
    where = f"{' and '.join(run.train[0].dtypes.get('parameters', []))} on {_devices(run)}"
    yield checked(
        "parameters",
        Requested([most] * run.world_size, key),
        observed,
        all(least <= held <= most for held in observed),
        unit="elements",
        kept=f"each rank holds {max(observed):,} of {whole:,} elements of the model, in {where}",
        broken=f"a rank holds {max(observed):,} elements of a model of {whole:,}, not {least:,}"
        + (f" to {most:,}" if most != least else ""),
    )


def offload(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Where the parameters are between their uses; there is no optimizer to offload."""
    requested = expectation.parameter_offload
    if requested is None:
        return
    observed = run.engine.offloads_parameters
    place = _PLACES.get(requested.value, requested.value)
    yield checked(
        "offload",
        requested,
        observed,
        observed == requested.value,
        kept=f"the parameters go to {place}",
        broken=f"`{requested.key}` asks for {place}, but the parameters stay on the device",
        adapted=run.mode == CPU,  # which has one memory
    )


def _devices(run: ScriptRun) -> str:
    return " and ".join(run.train[0].devices.get("parameters", [])) or "no device"


def _held_by_inference(run: ScriptRun) -> Iterator[Check]:
    """The parameters of an engine of ``init_inference``: divided among its ranks, or whole; and their dtype."""
    evaluated = [one.evaluated for one in run.ranks if one.evaluated is not None]
    first = evaluated[0]
    if not all(one.shape for one in evaluated):
        return
    sizes = {one.name: one.elements for one in run.train[0].parameters}
    ranks = first.tensor_parallel
    held = [sum(one.shape.values()) for one in evaluated]
    groups = [evaluated[start : start + ranks] for start in range(0, len(evaluated), ranks)]
    wrong = sorted(
        name
        for group in groups
        for name in first.shape.keys() & sizes.keys()
        if not _is_divided([one.shape.get(name, 0) for one in group], sizes[name])
    )
    whole = sum(sizes.values())
    yield checked(
        "parameters",
        Requested(f"all elements on {ranks} rank{'s' * (ranks != 1)}", None),
        held,
        not wrong and first.shape.keys() <= sizes.keys(),
        bad="fail" if wrong else "skip",
        unit="elements",
        kept=f"each rank holds {max(held):,} of {whole:,} elements of the model, in {' and '.join(first.dtypes)}",
        broken=f"the ranks do not have all elements of {len(wrong)} parameters together ({', '.join(wrong[:3])})"
        if wrong
        else "init_inference replaces modules of the model by its own, whose parameters have other names",
    )
    if first.dtype and first.dtype != "int8":
        yield checked(
            "dtypes",
            Requested(first.dtype, None),
            first.dtypes,
            first.dtypes == [first.dtype],
            kept=f"parameters are {first.dtype}",
            broken=f"parameters are {' and '.join(first.dtypes)}, but init_inference is asked for {first.dtype}",
        )


def _is_divided(of_ranks: list[int], whole: int) -> bool:
    """Whether a parameter is whole on each rank, or divided among all of them."""
    return all(one == whole for one in of_ranks) or sum(of_ranks) == whole


def _weights(run: ScriptRun, sources: Mapping[str, Source]) -> Check:
    """Whether the engine computes with the tensors of the files that the script loads."""
    first: Any = run.ranks[0].evaluated
    live = run.train[0].live
    if not first.loaded:
        return skipped(WEIGHTS, None, "the script loads no weights with from_pretrained or load_state_dict")
    if not live:
        why = "the ranks divide each tensor" if first.tensor_parallel > 1 else "the weights are too large to compare"
        return skipped(WEIGHTS, None, why)
    missing = sorted(name for name in live if name not in sources or sources[name].is_missing)
    known = {name: one.digests for name, one in sources.items() if name in live and one.digests and not one.is_missing}
    changed = {name for name, digests in known.items() if name in first.given and first.given[name] not in digests}
    differing = sorted(name for name, digests in known.items() if live[name] not in digests and name not in changed)
    requested = Requested("the tensors of the files that the script loads", None)
    if missing:
        names = ", ".join(missing[:3]) + ", ..." * (len(missing) > 3)
        return Check(
            WEIGHTS, "fail", None, requested.value, f"{len(missing)} are in none", "tensors",
            f"{len(missing)} of {len(live)} parameters are in nothing that the script loads ({names}): they have the "
            "values that they were created with",
            "Compare the names in the file with those of the model, such as a prefix `module.`; `load_state_dict` "
            "without `strict=False` names them.",
        )  # fmt: skip
    if differing and not first.was_peft:
        return Check(
            WEIGHTS, "fail", None, requested.value, f"{len(differing)} differ", "tensors",
            f"{len(differing)} of {len(live)} parameters of the engine differ from the tensors that the script loads "
            f"({', '.join(differing[:3])})",
        )  # fmt: skip
    compared = len(known) - len(changed) - len(differing)
    if not compared:
        return skipped(WEIGHTS, None, "what the script loads is not in files that ds-lint reads")
    own = f"; the script changes {len(changed) + len(differing)} others itself" if changed or differing else ""
    return checked(
        WEIGHTS, requested, f"{compared} of {len(live)}", is_kept=True, unit="tensors",
        kept=f"{compared} of {len(live)} parameters of the engine equal the tensors that the script loads{own}",
        broken="",
    )  # fmt: skip
