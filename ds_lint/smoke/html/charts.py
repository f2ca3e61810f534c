"""The plots of a run as markup that needs no script: what each rank holds, and how the steps went.

Lines are SVG in percent, so they follow the width of the screen, and their text keeps its size. The style sheet gives
the colours, which follow the light or dark theme.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from math import ceil, isfinite, log2
from typing import NamedTuple

from ds_lint.output import html_bars
from ds_lint.output.axis import round_numbers, scale_of
from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import KINDS, formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.verdict import Held, Step

LOOKS = tuple(kind.replace(" ", "_") for kind in KINDS)  # as the kinds are called that have looks
_ROOM = 1.02  # times the longest bar, for the axis
_INTERVALS = 4  # at most about so many, between the values beside a plot
_LABELS = 10  # of steps, at most


class Curve(NamedTuple):
    """A quantity by step; None where a step has none."""

    title: str
    values: list[float | None]
    is_logarithmic: bool = False


class _ValueAxis(NamedTuple):
    """The values beside a plot, and where a value lies: in percent of the height, from the top."""

    ticks: list[float]
    down: Callable[[float], float]


def memory(bars: dict[str, dict[str, Held]]) -> str:
    """A stacked bar for each label, the first at the top, what its colours mean, and the axis of the bytes."""
    scale = scale_of(max(sum(amount.bytes for amount in kinds.values()) for kinds in bars.values()) * _ROOM)
    present = [(look, kind) for look, kind in enumerate(KINDS) if any(kind in kinds for kinds in bars.values())]
    rows = "".join(html_bars.row(_bar(label, kinds), scale) for label, kinds in bars.items())
    return f'{html_bars.legend(present)}<div class="bars">{rows}{html_bars.axis(scale)}</div>'


def _bar(label: str, kinds: dict[str, Held]) -> html_bars.BarRow:
    parts = [
        html_bars.BarPart(
            look, kinds[kind].bytes, f"{kind}: {in_units(kinds[kind].bytes)}, {kinds[kind].elements:,} elements"
        )
        for look, kind in enumerate(KINDS)
        if kind in kinds and kinds[kind].bytes
    ]
    whole = in_units(sum(amount.bytes for amount in kinds.values()))
    return html_bars.BarRow(label, parts, f'<span class="sum">{escape(whole)}</span>')


def steps(taken: list[Step]) -> str:
    """Loss, learning rate and loss scale, if there is one, below each other; skipped steps have crosses."""
    curves = [
        Curve("loss", [step.loss for step in taken]),
        *(Curve("learning rate", rates) for rates in _rates(taken)),
    ]
    if any(step.loss_scale is not None for step in taken):
        curves.append(Curve("loss scale", [step.loss_scale for step in taken], is_logarithmic=True))
    return "".join(_plot(curve, taken) for curve in curves)


def _rates(taken: list[Step]) -> list[list[float | None]]:
    """Learning rates by group; groups with the same rates are one line."""
    number = max((len(step.learning_rates) for step in taken), default=0)
    groups: list[list[float | None]] = []
    for index in range(number):
        rates = [step.learning_rates[index] if index < len(step.learning_rates) else None for step in taken]
        if rates not in groups:
            groups.append(rates)
    return groups


def _plot(curve: Curve, taken: list[Step]) -> str:
    """A curve over the steps between its two axes, with words for those who do not see it."""
    axis = _axis([value for value in curve.values if value is not None and isfinite(value)], curve.is_logarithmic)
    points = [
        (_across(index, len(taken)), axis.down(value)) if value is not None and isfinite(value) else None
        for index, value in enumerate(curve.values)
    ]
    joined = "".join(
        f'<line x1="{one[0]:.2f}%" y1="{one[1]:.2f}%" x2="{other[0]:.2f}%" y2="{other[1]:.2f}%"/>'
        for one, other in pairwise(points)
        if one and other
    )
    marks = "".join(
        _mark(index, point, curve, step)
        for index, (point, step) in enumerate(zip(points, taken, strict=True), start=1)
        if point
    )
    places = [(value, axis.down(value)) for value in axis.ticks]
    beside = "".join(f'<span style="top:{down:.2f}%">{escape(formatted(value))}</span>' for value, down in places)
    across = "".join(f'<line class="tick" x1="0" y1="{down:.2f}%" x2="100%" y2="{down:.2f}%"/>' for _, down in places)
    skipped = "".join(
        f'<rect x="{index * 100 / len(taken):.2f}%" width="{100 / len(taken):.2f}%" height="100%"/>'
        for index, step in enumerate(taken)
        if step.is_skipped
    )
    words = "; ".join(
        f"step {number}{', skipped' if step.is_skipped else ''}: {'none' if value is None else formatted(value)}"
        for number, (value, step) in enumerate(zip(curve.values, taken, strict=True), start=1)
    )
    named = f"<title>{escape(curve.title)} by step</title><desc>{escape(words)}</desc>"
    return (
        f"<h5>{escape(curve.title)}</h5>"
        f'<div class="line"><div class="values" aria-hidden="true">{beside}</div>'
        f'<svg role="img">{named}{across}{skipped}{joined}{marks}</svg>'
        f'<div class="steps" aria-hidden="true">{_below(len(taken))}</div></div>'
    )


def _below(number: int) -> str:
    """The numbers of the steps, not all of them if they are many, below the middle of their share."""
    every = ceil(number / _LABELS)
    return "".join(
        f'<span style="left:{_across(index, number):.2f}%">{"step " if not index else ""}{index + 1}</span>'
        for index in range(0, number, every)
    )


def _across(index: int, number: int) -> float:
    """Percent of the width at which a step is drawn: the middle of its share."""
    return (index + 0.5) * 100 / number


def _axis(values: list[float], is_logarithmic: bool) -> _ValueAxis:
    """Round numbers around these values; powers of two on a logarithmic axis."""
    if not values:
        return _ValueAxis([], lambda _: 50.0)
    if is_logarithmic and min(values) > 0:
        ticks = round_numbers(log2(min(values)), log2(max(values)), _INTERVALS) if len(set(values)) > 1 else []
        ticks = [tick for tick in ticks if tick.is_integer()] or [log2(values[0]) - 1, log2(values[0]) + 1]
        ticks = [2.0**tick for tick in ticks]
        first, last = log2(min(*ticks, *values)), log2(max(*ticks, *values))
        return _ValueAxis(ticks, lambda value: 100 - (log2(value) - first) / (last - first) * 100)
    ticks = round_numbers(min(values), max(values), _INTERVALS)
    return _ValueAxis(ticks, lambda value: 100 - (value - ticks[0]) / (ticks[-1] - ticks[0]) * 100)


def _mark(number: int, point: tuple[float, float], curve: Curve, step: Step) -> str:
    """A dot with its value, or a cross for a step that was skipped."""
    value = curve.values[number - 1]
    text = f"step {number}{', skipped' if step.is_skipped else ''}: {curve.title} {formatted(value)}"
    across, down = point
    sign = f'<text x="{across:.2f}%" y="{down:.2f}%">✗</text>' if step.is_skipped else ""
    dot = f'<circle cx="{across:.2f}%" cy="{down:.2f}%" r="4"/>' if not step.is_skipped else ""
    return f"<g>{sign}{dot}<title>{escape(text)}</title></g>"
