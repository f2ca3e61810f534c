"""The plots of a run as markup that needs no script: what each rank holds, and how the steps went.

Bars are boxes whose width is a share of the page, lines are SVG in percent, so both follow the width of the screen, and
their text keeps its size. The style sheet gives the colours, which follow the light or dark theme.
"""

from __future__ import annotations

from html import escape
from itertools import pairwise
from math import isfinite, log2
from typing import NamedTuple

from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import KINDS, formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import Held, Step

LOOKS = tuple(kind.replace(" ", "_") for kind in KINDS)  # as the kinds are called that have looks
_TOP, _BOTTOM = 12.0, 88.0  # percent of the height of a plot, between which its values lie


class Curve(NamedTuple):
    """A quantity by step; None where a step has none."""

    title: str
    values: list[float | None]
    is_logarithmic: bool = False


def memory(bars: dict[str, dict[str, Held]]) -> str:
    """A stacked bar for each label, the first at the top, and what its colours mean."""
    most = max(sum(amount.bytes for amount in kinds.values()) for kinds in bars.values())
    present = [kind for kind in KINDS if any(kind in kinds for kinds in bars.values())]
    legend = "".join(f'<li><i class="kind-{KINDS.index(kind)}"></i>{escape(kind)}</li>' for kind in present)
    rows = "".join(_bar(label, kinds, most) for label, kinds in bars.items())
    return f'<ul class="legend">{legend}</ul><div class="bars">{rows}</div>'


def _bar(label: str, kinds: dict[str, Held], most: int) -> str:
    parts = "".join(
        f'<i class="kind-{KINDS.index(kind)}" style="width:{kinds[kind].bytes / most:.2%}"'
        f' title="{escape(f"{kind}: {in_units(kinds[kind].bytes)}, {kinds[kind].elements:,} elements")}"></i>'
        for kind in KINDS
        if kind in kinds and kinds[kind].bytes
    )
    whole = in_units(sum(amount.bytes for amount in kinds.values()))
    return f'<b>{escape(label)}</b><span class="bar">{parts}</span><span class="sum">{escape(whole)}</span>'


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
    """A curve over the steps, its least and its most value beside it."""
    finite = [value for value in curve.values if value is not None and isfinite(value)]
    least, most = min(finite, default=0.0), max(finite, default=0.0)
    points = [
        (_across(index, len(taken)), _down(value, least, most, curve.is_logarithmic))
        if value is not None and isfinite(value)
        else None
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
    labels = [(most, _TOP), (least, _BOTTOM)] if least != most else [(most, _down(most, least, most, False))]
    beside = "".join(
        f'<span style="top:{down:.0f}%">{escape(formatted(value))}</span>' for value, down in labels if finite
    )
    skipped = "".join(
        f'<rect x="{index * 100 / len(taken):.2f}%" width="{100 / len(taken):.2f}%" height="100%"/>'
        for index, step in enumerate(taken)
        if step.is_skipped
    )
    return (
        f"<h5>{escape(curve.title)}</h5>"
        f'<div class="line"><div class="scale">{beside}</div><svg>{skipped}{joined}{marks}</svg></div>'
    )


def _across(index: int, number: int) -> float:
    """Percent of the width at which a step is drawn: the middle of its share."""
    return (index + 0.5) * 100 / number


def _down(value: float, least: float, most: float, is_logarithmic: bool) -> float:
    """Percent of the height at which a value is drawn."""
    if least == most:
        return (_TOP + _BOTTOM) / 2
    if is_logarithmic and least > 0:
        value, least, most = log2(value), log2(least), log2(most)
    return _BOTTOM - (value - least) / (most - least) * (_BOTTOM - _TOP)


def _mark(number: int, point: tuple[float, float], curve: Curve, step: Step) -> str:
    """A dot with its value, or a cross for a step that was skipped."""
    value = curve.values[number - 1]
    text = f"step {number}{', skipped' if step.is_skipped else ''}: {curve.title} {formatted(value)}"
    across, down = point
    sign = f'<text x="{across:.2f}%" y="{down:.2f}%">✗</text>' if step.is_skipped else ""
    dot = f'<circle cx="{across:.2f}%" cy="{down:.2f}%" r="4"/>' if not step.is_skipped else ""
    return f"<g>{sign}{dot}<title>{escape(text)}</title></g>"
