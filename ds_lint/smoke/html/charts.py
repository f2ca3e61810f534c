"""The plots of a run as JSON for plotly.js: what each rank holds, and how the steps went.

plotly.js draws SVG in the browser, which follows the light or dark theme through the style sheet of ``page`` and
prints sharply.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ds_lint.diagnostics.verdict import Held, Step
from ds_lint.output.smoke import KINDS, in_units

# Distinguishable by hatching too, and readable on white and on black.
_COLOURS = dict(zip(KINDS, ("#4285c8", "#e0912f", "#2f9e82", "#b06ac2"), strict=True))
_HATCHES = dict(zip(KINDS, ("", "/", ".", "x"), strict=True))
_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))
_BAR = 46  # pixels of a rank
_ROOM_FOR_SUMS = 1.3  # of the longest bar, so that its sum fits next to it
_QUANTITY = 150  # pixels of the plot of one quantity
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
_TRANSPARENT = "rgba(0,0,0,0)"


class Plot(NamedTuple):
    """A figure of plotly, and its height in pixels."""

    figure: str
    height: int


def memory(bars: dict[str, dict[str, Held]]) -> Plot:
    """A stacked bar for each label, the first at the top."""
    most = max(sum(amount.bytes for amount in kinds.values()) for kinds in bars.values())
    unit, size = next((unit, size) for unit, size in _UNITS if most >= size or size == 1)
    figure = go.Figure(layout={"template": "none"})
    for kind in KINDS:
        amounts = [kinds.get(kind, Held(0, 0)) for kinds in bars.values()]
        if not any(amount.bytes for amount in amounts):
            continue
        figure.add_bar(
            y=list(bars),
            x=[amount.bytes / size for amount in amounts],
            customdata=[[in_units(amount.bytes), f"{amount.elements:,}"] for amount in amounts],
            name=kind,
            orientation="h",
            marker={
                "color": _COLOURS[kind],
                "pattern": {
                    "shape": _HATCHES[kind],
                    "fillmode": "overlay",
                    "fgcolor": "rgba(255,255,255,.6)",
                    "solidity": 0.2,
                    "size": 8,
                },
            },
            hovertemplate=f"%{{y}}<br>{kind}: %{{customdata[0]}}, %{{customdata[1]}} elements<extra></extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.3, legend={"traceorder": "normal"})
    figure.update_yaxes(autorange="reversed", type="category", ticksuffix="  ", showgrid=False)
    for label, kinds in bars.items():  # a bar next to a much longer one is too thin to read
        whole = sum(amount.bytes for amount in kinds.values())
        figure.add_annotation(
            x=whole / size, y=label, text=in_units(whole), showarrow=False, xanchor="left", xshift=4, font={"size": 12}
        )
    figure.update_xaxes(title=unit, range=[0, most / size * _ROOM_FOR_SUMS])
    return _plot(figure, height=_BAR * len(bars) + 140, top=56)


def steps(taken: list[Step]) -> Plot:
    """Loss, learning rate and loss scale, if there is one, below each other; skipped steps have crosses."""
    quantities: list[tuple[str, list[list[float | None]]]] = [
        ("loss", [[step.loss for step in taken]]),
        ("learning rate", _rates(taken)),
    ]
    if any(step.loss_scale is not None for step in taken):
        quantities.append(("loss scale", [[step.loss_scale for step in taken]]))
    figure = make_subplots(
        rows=len(quantities),
        shared_xaxes=True,
        vertical_spacing=0.24 / len(quantities),
        subplot_titles=[title for title, _ in quantities],
        figure=go.Figure(layout={"template": "none"}),
    )
    numbers = list(range(1, len(taken) + 1))
    for row, (title, lines) in enumerate(quantities, start=1):
        for group, values in enumerate(lines):
            figure.add_trace(_line(title, group, numbers, values, taken), row=row, col=1)
        if title == "learning rate":
            figure.update_yaxes(rangemode="tozero", row=row, col=1)
        if title == "loss scale":
            figure.update_yaxes(type="log", exponentformat="none", tickformat=",d", nticks=4, row=row, col=1)
    for number, step in zip(numbers, taken, strict=True):
        if step.is_skipped:
            figure.add_vrect(number - 0.5, number + 0.5, fillcolor="#d64545", opacity=0.13, line_width=0, layer="below")
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_xaxes(dtick=max(1, len(taken) // 10), range=[0.5, len(taken) + 0.5], showgrid=False)
    figure.update_xaxes(title="optimizer step", row=len(quantities), col=1)
    figure.update_yaxes(nticks=4, exponentformat="e")
    figure.update_layout(showlegend=False)
    return _plot(figure, height=_QUANTITY * len(quantities) + 78, top=30)


def _rates(taken: list[Step]) -> list[list[float | None]]:
    """Learning rates by group; groups with the same rates are one line."""
    number = max((len(step.learning_rates) for step in taken), default=0)
    groups: list[list[float | None]] = []
    for index in range(number):
        rates = [step.learning_rates[index] if index < len(step.learning_rates) else None for step in taken]
        if rates not in groups:
            groups.append(rates)
    return groups


def _line(title: str, group: int, numbers: list[int], values: list[float | None], taken: list[Step]) -> Any:
    colour = _COLOURS[KINDS[group % len(KINDS)]]
    return go.Scatter(
        x=numbers,
        y=[value if value is not None and isfinite(value) else None for value in values],
        mode="lines+markers",
        line={"color": colour, "width": 2, "dash": ("solid", "dash", "dot", "dashdot")[group % 4]},
        marker={
            "size": [12 if step.is_skipped else 8 for step in taken],
            "symbol": ["x" if step.is_skipped else "circle" for step in taken],
            "color": ["#d64545" if step.is_skipped else colour for step in taken],
        },
        customdata=[", skipped" if step.is_skipped else "" for step in taken],
        hovertemplate=f"step %{{x}}%{{customdata}}<br>{title}: %{{y:.6~g}}<extra></extra>",
        cliponaxis=False,
    )


def _plot(figure: Any, height: int, top: int) -> Plot:
    figure.update_layout(
        height=height,
        margin={"l": 8, "r": 16, "t": top, "b": 52},
        font={"family": _FONT, "size": 12},
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom"},
        paper_bgcolor=_TRANSPARENT,
        plot_bgcolor=_TRANSPARENT,
        hoverlabel={"bgcolor": "#24292f", "bordercolor": "#24292f", "font": {"color": "#ffffff", "family": _FONT}},
        dragmode=False,  # a finger scrolls the page
    )
    figure.update_xaxes(automargin=True, zeroline=False, gridcolor="#888888")
    figure.update_yaxes(automargin=True, zeroline=False, gridcolor="#888888")
    return Plot(figure.to_json(), height)
