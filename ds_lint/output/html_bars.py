"""Stacked bars of bytes on an axis, as the pages of ds-lint draw them: boxes whose width is a share of the page.

They follow the width of the screen without a script, and their text keeps its size.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.output.html_page import text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.output.axis import Scale


class BarPart(NamedTuple):
    """A part of a bar: the number of the look of its kind, its bytes, and what it is in words."""

    look: int
    size: float
    title: str


class BarRow(NamedTuple):
    """A bar with its name and, as markup, its figures; ``marks`` are drawn behind it, ``below`` under it."""

    label: str
    parts: Sequence[BarPart]
    figures: str
    marks: str = ""
    below: str = ""
    style: str = ""


def legend(kinds: Iterable[tuple[int, str]]) -> str:
    """What the colours mean: numbers of looks, and names."""
    entries = "".join(f'<li><i class="kind-{look}"></i>{text(label)}</li>' for look, label in kinds)
    return f'<ul class="legend">{entries}</ul>'


def row(one: BarRow, scale: Scale) -> str:
    """A bar on the ticks of its axis; what is beyond the axis is cut off."""
    before, parts = 0.0, ""
    whole = sum(part.size for part in one.parts)
    for part in one.parts:
        begin, end = scale.share(before), scale.share(before + part.size)
        before += part.size
        if end > begin:
            width = (end - begin) / scale.share(whole)
            parts += f'<i class="kind-{part.look}" style="width:{width:.2%}" title="{text(part.title)}"></i>'
    cut = " cut" if scale.cuts(whole) else ""
    ticks = "".join(f'<s style="left:{scale.share(at):.2%}"></s>' for at, _ in scale.ticks)
    style = f"row {one.style}" if one.style else "row"
    return (
        f'<div class="{style}"><b>{text(one.label)}</b><div class="lane">{one.marks}{ticks}'
        f'<span class="bar{cut}" style="width:{scale.share(whole):.2%}">{parts}</span>{one.below}</div>'
        f"{one.figures}</div>"
    )


def axis(scale: Scale) -> str:
    """The ticks below the bars; the first has the unit."""
    ticks = "".join(
        f'<span class="{side(share)}" style="left:{share:.2%}">{text(label)}</span>'
        for at, label in scale.ticks
        for share in [scale.share(at)]
    )
    return f'<div class="row axis"><div class="lane">{ticks}</div></div>'


def side(share: float) -> str:
    """On which side of its place a label lies, so that it stays within the chart: in the middle if there is none."""
    return "first" if share < 0.1 else "last" if share > 0.92 else ""
