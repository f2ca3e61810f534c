"""What a run of the user's own script takes, in sentences and as plain objects."""

from __future__ import annotations

from ds_lint.diagnostics.verdict import CUDA, OF_SCRIPT, Communication, Estimated, Measurements, PeakMemory, Projection
from ds_lint.output.quantities import duration, in_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, object]
    Record = dict[str, Any]  # what ``as_object`` makes

MEASURED, PROJECTED, ESTIMATED = "measured:", "projected:", "estimated:"
_NAMES = {"script": "the script between passes", "save": "saving the checkpoint", "export": "saving the model"}


def sentences(measured: Measurements, device: str) -> list[tuple[str, str]]:
    """Each figure with what it is: measured, projected or estimated."""
    figures = [(MEASURED, line) for line in _memory(measured)]
    figures += [
        (MEASURED, line)
        for line in (_speed(measured), _communication(measured), _phases(measured), _files(measured))
        if line
    ]
    if measured.projection is not None:
        figures += [(PROJECTED, line) for line in _projected(measured.projection, device)]
    figures += [(ESTIMATED, _estimated(one)) for one in measured.estimated]
    return figures


def _memory(measured: Measurements) -> list[str]:
    figures = []
    if measured.gpu_peaks:
        peak = max(measured.gpu_peaks, key=lambda one: one.bytes)
        reserved = max(one.reserved or 0 for one in measured.gpu_peaks)
        figures.append(f"GPU memory {_at_most(measured.gpu_peaks, peak)}; torch reserves up to {in_units(reserved)}")
    if measured.host_peaks:
        peak = max(measured.host_peaks, key=lambda one: one.bytes)
        sampled = ", sampled between phases" if measured.is_host_sampled else ""
        figures.append(f"host memory of a process {_at_most(measured.host_peaks, peak)}{sampled}")
    if measured.nvme_bytes:
        figures.append(f"{in_units(measured.nvme_bytes)} on NVMe")
    return figures


def _at_most(peaks: list[PeakMemory], peak: PeakMemory) -> str:
    """``up to 61.2 GiB (rank 3, backward of step 2), and 58.0 GiB on the rank with the least``."""
    least, most = in_units(min(one.bytes for one in peaks)), in_units(peak.bytes)
    others = f", and {least} on the rank with the least" if least != most else ""
    return f"up to {most} (rank {peak.rank}, {when(peak)}){others}"


def when(peak: PeakMemory) -> str:
    """``backward of step 2``."""
    name = _NAMES.get(peak.phase, peak.phase)
    if not peak.step:
        return name
    return (
        f"{name} {'before' if peak.phase == OF_SCRIPT else 'after' if peak.phase in _NAMES else 'of'} step {peak.step}"
    )


def _speed(measured: Measurements) -> str:
    if measured.step_seconds is None:
        return ""
    steps = measured.timed_steps
    named = f"step{'s' if len(steps) > 1 else ''} {', '.join(map(str, steps))}"
    figures = [f"{duration(measured.step_seconds)} per step (median of {named})"]
    for number, noun in ((measured.samples, "samples"), (measured.tokens, "tokens")):
        if number is not None and measured.step_seconds > 0:
            figures.append(
                f"{number / measured.step_seconds:,.3g} {noun}/s"
                if number / measured.step_seconds < 1000
                else f"{number / measured.step_seconds:,.0f} {noun}/s"
            )
    return ", ".join(figures)


def _communication(measured: Measurements) -> str:
    """``communication takes 0.08 to 0.12 s of the 0.25 s of step 5: all_gather 0.09 s, ...`` of the slowest rank."""
    if not measured.communication:
        return ""
    most = max(measured.communication, key=lambda one: one.seconds)
    least = duration(min(one.seconds for one in measured.communication))
    took = duration(most.seconds)
    band = took if took == least else f"{least} to {took}"
    share = f"{most.seconds / most.of_seconds:.0%}" if most.of_seconds else "all"
    kinds = sorted(most.by_kind.items(), key=lambda kind: -kind[1])
    named = ", ".join(f"{kind} {duration(seconds)}" for kind, seconds in kinds)
    parts = f": {named}" if named else ""
    return f"communication takes {band} of the {duration(most.of_seconds)} of step {most.step} ({share}){parts}"


def _phases(measured: Measurements) -> str:
    figures = [f"{_NAMES.get(phase, phase)} {duration(seconds)}" for phase, seconds in measured.seconds.items()]
    return ", ".join([*figures, f"ds-lint itself {duration(measured.own_seconds)}"])


def _files(measured: Measurements) -> str:
    states = {kind: size for kind, size in measured.files.items() if kind != "export"}
    figures = []
    if states:
        parts = ", ".join(f"{kind} {in_units(size)}" for kind, size in states.items())
        figures.append(f"checkpoint {in_units(sum(states.values()))} ({parts})")
    if "export" in measured.files:
        figures.append(f"saved model {in_units(measured.files['export'])}")
    return ", ".join(figures)


def _projected(projection: Projection, device: str) -> list[str]:
    """The arithmetic, and what it leaves out; CPU ranks say nothing of the time on GPUs."""
    figures = []
    here = "" if device == CUDA else " on these CPU ranks"
    if projection.seconds is not None:
        figures.append(
            f"{projection.steps:,} steps take about {duration(projection.seconds)}{here}, without evaluation and saving"
        )
    if projection.seconds_of_epoch is not None:
        figures.append(
            f"an epoch of {projection.steps_of_epoch:,} steps takes about {duration(projection.seconds_of_epoch)}{here}"
        )
    if projection.checkpoint_bytes is not None and projection.checkpoints is not None:
        taking = "checkpoint takes" if projection.checkpoints == 1 else "checkpoints take"
        line = f"{projection.checkpoints:,} {taking} about {in_units(projection.checkpoint_bytes)}"
        if projection.free_bytes is not None:
            line += f"; the disk of output_dir has {in_units(projection.free_bytes)} free"
        figures.append(line)
    return figures


def _estimated(one: Estimated) -> str:
    least, most = in_units(one.least), in_units(one.most)
    band = least if least == most else f"{least} to {most}"
    return f"{one.kind} {band} on the fullest rank; the run holds {in_units(one.held)}"


# ------------------------------------------------------------------------------------------------------- for programs


def as_object(measured: Measurements) -> Json:
    """The measurements as plain dicts and lists."""
    return {
        **measured._asdict(),
        "gpu_peaks": [one._asdict() for one in measured.gpu_peaks],
        "host_peaks": [one._asdict() for one in measured.host_peaks],
        "projection": measured.projection._asdict() if measured.projection is not None else None,
        "estimated": [one._asdict() for one in measured.estimated],
        "communication": [one._asdict() for one in measured.communication],
    }


def measurements_of(record: Record) -> Measurements:
    """The measurements that ``as_object`` made this of."""
    projection = record["projection"]
    return Measurements(
        **{
            **record,
            "gpu_peaks": [PeakMemory(**one) for one in record["gpu_peaks"]],
            "host_peaks": [PeakMemory(**one) for one in record["host_peaks"]],
            "projection": Projection(**projection) if projection is not None else None,
            "estimated": [Estimated(**one) for one in record["estimated"]],
            "communication": [Communication(**one) for one in record["communication"]],
        }
    )
