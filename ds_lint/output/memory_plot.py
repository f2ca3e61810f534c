"""What the picture of ``ds-lint memory --plot`` shows, whatever it is drawn with.

Each place (GPU, host, NVMe) is a chart with an axis of its own. A config has a bar for each phase of the run, a sweep a
bar for each of its rows. A bar is what is likely held at the moment when most is, by kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.footprint.band import Band, total
from ds_lint.output.axis import scale_of
from ds_lint.output.kind_colours import ordered
from ds_lint.output.memory_table import in_units, label_of, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.placed import Amount
    from ds_lint.footprint.sweep import SweepRow
    from ds_lint.output.axis import Scale

GPU, HOST, NVME = "per GPU", "per host", "on NVMe"
REST = "rest_of_the_peak"  # what a peak has beside the kinds that are known of it
_EVERYWHERE = "processes"  # the part of host memory that each phase has
# Times the capacity, or the longest bar where it is not known. If anything is longer, what fits would be too short to
# be read beside it, and it is cut off: a bar here,
_FARTHEST = 3
_FAR, _BEHIND = 2, 1.2  # and a band at so many times the capacity, or behind the longest bar, whatever is farther
_ROOM = 1.05  # times the most, if nothing is cut off


class Bar(NamedTuple):
    """The likely bytes by kind, in their order, and the band of the whole."""

    label: str
    kinds: dict[str, float]
    whole: Band
    is_chosen: bool = False  # by the config, of a sweep


class CapacityLine(NamedTuple):
    """The capacity, or what of it the smallest and the largest GPU under a name have."""

    label: str
    size: float


class Chart(NamedTuple):
    """The bars of a place, against the memory that there is."""

    place: str
    bars: tuple[Bar, ...]
    lines: tuple[CapacityLine, ...]
    scale: Scale

    @property
    def cuts(self) -> bool:
        """Whether anything is cut off."""
        return any(self.scale.cuts(bar.whole.most) for bar in self.bars)


def charts(answer: Answer) -> list[Chart]:
    """The charts of the places where anything lies; a GPU always has one."""
    found = []
    for place in (GPU, HOST, NVME):
        bars = tuple(bar for bar in _bars(answer, place) if place == GPU or bar.whole.most)
        if bars:
            lines = tuple(_lines(answer, place))
            found.append(Chart(place, bars, lines, _scale(bars, lines)))
    return found


def kinds_of(drawn: Iterable[Chart]) -> list[str]:
    """The kinds in these charts, in the order in which they lie in a bar."""
    return ordered(kind for chart in drawn for bar in chart.bars for kind in bar.kinds)


def label_of_row(row: SweepRow) -> str:
    """What a row of a sweep is, in words."""
    words = row.words.removeprefix("ZeRO ").replace("activation checkpointing", "checkpointing")
    return f"{words}{' (this config)' if row.is_chosen else ''}"


def description(chart: Chart) -> str:
    """What a chart shows, for those who do not see it."""
    lines = "".join(f", {line.label}" for line in chart.lines)
    sentences = []
    for bar in chart.bars:
        parts = ", ".join(f"{label_of(kind)} {in_units(size)}" for kind, size in bar.kinds.items())
        sentences.append(f"{bar.label}: {shown(bar.whole)}" + (f", of which {parts}" if parts else ""))
    return f"{chart.place}{lines}. {'. '.join(sentences)}."


def _bars(answer: Answer, place: str) -> Iterator[Bar]:
    if not answer.rows:
        yield from _phases(answer.estimate, place)
        return
    for row in answer.rows:
        phases = list(_phases(row.estimate, place))
        highest = max(phases, key=lambda bar: bar.whole.likely)
        whole = highest.whole
        for bar in phases:
            whole = whole.at_least(bar.whole)
        yield highest._replace(label=label_of_row(row), whole=whole, is_chosen=row.is_chosen)


def _phases(estimate: Estimate, place: str) -> Iterator[Bar]:
    """A bar for each phase; on NVMe lies the same in all of them."""
    if place == NVME:
        parts = _bytes(estimate.nvme)
        whole = total(list(parts.values()))
        yield Bar("all phases", _kinds(parts, whole), whole)
        return
    for phase, peak in estimate.peaks.items():
        if place == GPU:
            yield Bar(phase, _kinds(peak.held, peak.gpu), peak.gpu)
        else:
            yield Bar(phase, _kinds(_on_host(estimate, peak.host), peak.host), peak.host)


def _on_host(estimate: Estimate, peak: Band) -> dict[str, Band]:
    """What is known of a peak in host memory: what lies there between the steps, if that can be a part of it."""
    parts = _bytes(estimate.host)
    if total(list(parts.values())).likely > peak.likely + 1:  # the peak is another moment
        return {_EVERYWHERE: parts[_EVERYWHERE]} if _EVERYWHERE in parts else {}
    return parts


def _bytes(parts: dict[str, Amount]) -> dict[str, Band]:
    return {name: amount.bytes for name, amount in parts.items()}


def _kinds(parts: dict[str, Band], whole: Band) -> dict[str, float]:
    """The likely bytes by kind, and the rest of the whole."""
    found = {name: parts[name].likely for name in ordered(parts) if parts[name].likely}
    rest = whole.likely - sum(found.values())
    return found | {REST: rest} if rest >= 1 else found


def _lines(answer: Answer, place: str) -> Iterator[CapacityLine]:
    capacity = answer.capacity
    if place == GPU and capacity.gpu is not None:
        if capacity.least_gpu is not None:
            yield CapacityLine(f"smallest {in_units(capacity.least_gpu)}", capacity.least_gpu)
            yield CapacityLine(f"largest {in_units(capacity.gpu)}", capacity.gpu)
        else:
            yield CapacityLine(f"capacity {in_units(capacity.gpu)}", capacity.gpu)
    if place == HOST and capacity.host is not None:
        yield CapacityLine(f"capacity {in_units(capacity.host)}", capacity.host)


def _scale(bars: Iterable[Bar], lines: Iterable[CapacityLine]) -> Scale:
    """An axis on which the bars and the capacity are seen; what is longer by far is cut off."""
    most = max(bar.whole.most for bar in bars)
    likely = max(bar.whole.likely for bar in bars)
    room = max((line.size for line in lines), default=0)
    whole = max(most, room) * _ROOM
    farthest = _FARTHEST * (room or likely)
    if whole > farthest > 0:
        whole = min(max(_FAR * room, _BEHIND * likely), farthest)
    return scale_of(max(whole, 1))
