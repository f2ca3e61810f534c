"""``ds-lint memory --plot FILE.png``: the picture as pixels, drawn by matplotlib, which is imported only here."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

from ds_lint.output.harmless import without_secrets
from ds_lint.output.kind_colours import looks
from ds_lint.output.memory_plot import charts, kinds_of
from ds_lint.output.memory_table import GIB, about, conclusions, label_of, shown, subject
from ds_lint.output.text import visible, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.footprint.answer import Answer
    from ds_lint.output.kind_colours import Look
    from ds_lint.output.memory_plot import Chart
    from ds_lint.source.document import Document

_HATCHES = {"plain": "", "rising": "///", "falling": "\\\\\\", "dotted": "..", "upright": "|||", "level": "---"}
_LETTERS = 130  # in a line of the title
_WIDE = 10  # inches
_HEIGHT = 0.55  # of a bar, of the distance between two
_TORN = {"marker": [(-1, -1), (1, 1)], "markersize": 10, "markeredgewidth": 1.5, "clip_on": False}


def png(answer: Answer, documents: Sequence[Document] = ()) -> bytes:
    """The picture of a run; raises ImportError if matplotlib is not installed."""
    from matplotlib.figure import Figure  # without pyplot, which looks for a display

    drawn = charts(answer)
    styles = looks(kinds_of(drawn))
    rows = [len(chart.bars) + 1 for chart in drawn]
    title = _title(answer, documents)
    figure = Figure(figsize=(_WIDE, 1.2 + 0.2 * len(title) + 0.45 * sum(rows)), layout="constrained")
    axes = figure.subplots(len(drawn), 1, squeeze=False, gridspec_kw={"height_ratios": rows})
    for chart, axis in zip(drawn, axes[:, 0], strict=True):
        _draw(chart, axis, styles)
    handles = {handle.get_label(): handle for axis in axes[:, 0] for handle in axis.get_legend_handles_labels()[0]}
    order = [label_of(kind) for kind in styles]
    figure.legend([handles[one] for one in order], order, loc="outside lower left", ncols=6, frameon=False, fontsize=9)
    figure.suptitle(_plain("\n".join(title)), fontsize=10, x=0.01, ha="left")
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format="png", metadata={"Software": None})
    return picture.getvalue()


def _title(answer: Answer, documents: Sequence[Document]) -> list[str]:
    """What is drawn, whether it fits, and what is not counted."""
    texts = [
        f"Memory of {subject(answer)}: {about(answer)}",
        *conclusions(answer),
        *(f"not included: {note}" for note in answer.left_out),
    ]
    masked = without_secrets("\n".join(map(visible, texts)), documents).split("\n")
    return [line for text in masked for line in wrap(text, _LETTERS, taken=0, indent=0)]


def _draw(chart: Chart, axis: Any, styles: dict[str, Look]) -> None:
    """The bars of a place, on its axis."""
    size, unit = (GIB, "GiB") if chart.scale.longest >= GIB / 10 else (2**20, "MiB")
    longest, places = chart.scale.longest / size, range(len(chart.bars))
    for kind, (colour, texture) in styles.items():
        begins = [
            sum(list(bar.kinds.values())[: list(bar.kinds).index(kind)]) if kind in bar.kinds else 0
            for bar in chart.bars
        ]
        sizes = [bar.kinds.get(kind, 0) for bar in chart.bars]
        if any(sizes):
            axis.barh(
                places, [one / size for one in sizes], left=[one / size for one in begins], height=_HEIGHT,
                color=colour, hatch=_HATCHES[texture], edgecolor="white", linewidth=0.6, label=label_of(kind),
            )  # fmt: skip
    for place, bar in enumerate(chart.bars):
        least, most = bar.whole.least / size, bar.whole.most / size
        if not bar.whole.is_exact and least <= longest:
            axis.plot([least, min(most, longest)], [place + 0.4] * 2, color="black", linewidth=1)
            axis.plot([least], [place + 0.4], color="black", marker="|")
            axis.plot(
                [min(most, longest)], [place + 0.4], color="black", **({"marker": "|"} if most <= longest else _TORN)
            )
        if chart.scale.cuts(bar.whole.likely):
            depth, heights = 0.01 * longest, [place + _HEIGHT * (tooth / 6 - 0.5) for tooth in range(7)]
            axis.fill_betweenx(heights, [longest - depth, longest] * 3 + [longest - depth], longest, color="white")
        axis.annotate(
            shown(bar.whole), (1.01, place), xycoords=axis.get_yaxis_transform(), va="center", fontsize=9,
            annotation_clip=False,
        )  # fmt: skip
    for line in chart.lines:
        axis.axvline(line.size / size, color="black", linestyle="--", linewidth=1.5)
        axis.text(line.size / size, 1.0 + 0.08 * (line is not chart.lines[0]), f"{line.label} ", ha="right",
                  va="bottom", fontsize=9, transform=axis.get_xaxis_transform())  # fmt: skip
    axis.set_yticks(places, [_plain(visible(bar.label)) for bar in chart.bars])
    axis.set_xticks([at / size for at, _ in chart.scale.ticks])
    axis.set_xlim(0, longest)
    axis.invert_yaxis()
    axis.set_xlabel(f"{unit} {chart.place}", loc="left")
    axis.grid(axis="x", color="#dfe3e8")
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def _plain(text: str) -> str:
    """A text in which matplotlib finds no formula."""
    return text.replace("$", r"\$")
