"""``ds-lint memory --plot FILE.html``: the picture, the verdict, the figures and the advice as one page.

Bars are boxes whose width is a share of the page, so they follow the width of the screen, and text keeps its size.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint import __version__
from ds_lint.output import html_bars, kind_colours
from ds_lint.output.html_page import Column, MadeBy, Page, badge, code, listed, prose, sheet, table, text, whole
from ds_lint.output.memory_plot import GPU, HOST, charts, description, kinds_of, label_of_row
from ds_lint.output.memory_table import (
    about,
    advice_groups,
    columns_of,
    conclusions,
    growth_columns,
    in_units,
    label_of,
    labels_of,
    open_facts,
    prices_of,
    result_of,
    sentences,
    shown,
    subject,
    to_write,
)
from ds_lint.output.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.band import Band
    from ds_lint.output.axis import Scale
    from ds_lint.output.memory_plot import Bar, Chart
    from ds_lint.source.document import Document

# By the word of a sentence, the worst first: the class of the badge, and its sign.
_BADGES = {
    "does not fit": ("fail", "✗"),
    "may not fit": ("warn", "!"),
    "may fit": ("warn", "!"),
    "fits": ("pass", "✓"),
}
_OPEN = ("skip", "○")
_WORDS = {True: "fits", False: "does not fit", None: "may fit"}  # of the row of a sweep
_TORN = "A torn end is cut off: the bar or the band goes on, and the figures beside it are whole."
_BAR = (
    "A bar is what is likely there at the moment when most is, and the line below it goes from the least to the most."
)


def page(answer: Answer, command: str, notes: Sequence[str] = (), documents: Sequence[Document] = ()) -> str:
    """The page about a run, made by this command."""
    drawn = charts(answer)
    kinds = kinds_of(drawn)
    figures = "".join(_figure(chart, kinds, is_sweep=bool(answer.rows)) for chart in drawn)
    torn = f" {_TORN}" if any(chart.cuts for chart in drawn) else ""
    parts = (
        f'{html_bars.legend(enumerate(map(label_of, kinds)))}{figures}<p class="quiet">{_BAR}{torn}</p>',
        _figures(answer) if answer.assumed is None else "",
        _sweep(answer),
        _advice(answer),
        _facts(answer, notes),
    )
    status, verdict = _verdict(answer) if answer.assumed is None else _fastest(answer)
    body = f"{verdict}{''.join(f'<section>{part}</section>' for part in parts if part)}"
    main = f'<main>\n<article class="{status}">{body}</article>\n</main>'
    style = kind_colours.css(kinds) + sheet(os.path.join(os.path.dirname(__file__), "memory_page.css"))
    shown_page = Page(f"Memory: {subject(answer)}", _checked(answer), main, style)
    return whole(shown_page, MadeBy(__version__, command), documents)


def _checked(answer: Answer) -> Iterator[tuple[str, str]]:
    """What the page is about, in short; the rest of the facts is at its end."""
    names = ("config", "launched at", "model", "GPU", "ranks")
    yield from ((name, value) for name, value in _known(answer) if name in names)


def _verdict(answer: Answer) -> tuple[str, str]:
    """The class of the worst sentence about whether the run fits, and all of them, the worst first."""
    found = sorted(sentences(answer), key=lambda one: list(_BADGES).index(one.word))
    first, *rest = (
        (f"{badge(*_BADGES[one.word], one.word)} {prose(one.reason)}" for one in found) if found else (_open(),)
    )
    return _BADGES[found[0].word][0] if found else _OPEN[0], _head(answer, first, rest)


def _fastest(answer: Answer) -> tuple[str, str]:
    """The same of a run without a config: which rows likely and surely fit."""
    fitting = [any(row.places[place] is not None for row in answer.rows) for place in (0, 1)]
    word = "fits" if all(fitting) and not answer.left_out else "may fit" if any(fitting) else "does not fit"
    first, *rest = conclusions(answer) or ("",)
    badged = f"{badge(*_BADGES[word], word)} {prose(first)}" if first else _open()
    return _BADGES[word][0] if first else _OPEN[0], _head(answer, badged, [prose(one) for one in rest])


def _head(answer: Answer, first: str, rest: Sequence[str]) -> str:
    left_out = "".join(f"<li>not included: {prose(note)}</li>" for note in answer.left_out)
    left_out += "".join(f"<li>not known: {text(name)}: {prose(answers)}</li>" for name, answers in open_facts(answer))
    return (
        f'<h2 class="verdict">{first}</h2>{"".join(f"<p>{one}</p>" for one in rest)}'
        f'<p class="quiet">{text(about(answer))}</p>' + (f'<ul class="left-out">{left_out}</ul>' if left_out else "")
    )


def _open() -> str:
    return f"{badge(*_OPEN, 'not compared')} The memory of the GPU is not known: set --gpu or --gpu-memory."


# --------------------------------------------------------------------------------------------------------------- bars


def _figure(chart: Chart, kinds: list[str], *, is_sweep: bool) -> str:
    """A chart: the capacity above, the bars with their figures, and the axis below."""
    rows = "".join(html_bars.row(_row(bar, chart, kinds), chart.scale) for bar in chart.bars)
    lines = "".join(
        f'<div class="row over"><div class="lane"><span class="room {html_bars.side(share)}" style="left:{share:.2%}">'
        f"{text(line.label)}</span></div></div>"
        for line in chart.lines
        for share in [chart.scale.share(line.size)]
    )
    style = "plot bars wide-labels" if is_sweep else "plot bars"
    return (
        f"<figure><h3>{chart.place[0].upper()}{chart.place[1:]}</h3>"
        f'<div class="{style}" role="img" aria-label="{text(description(chart))}">'
        f"{lines}{rows}{html_bars.axis(chart.scale)}</div></figure>"
    )


def _row(bar: Bar, chart: Chart, kinds: list[str]) -> html_bars.BarRow:
    """The bar of what is likely, in front of the capacity, and the band below it."""
    scale = chart.scale
    parts = [
        html_bars.BarPart(kinds.index(kind), size, f"{label_of(kind)}: {in_units(size)}")
        for kind, size in bar.kinds.items()
    ]
    over = " over" if any(bar.whole.least > line.size for line in chart.lines[-1:]) else ""
    marks = "".join(f'<s class="room" style="left:{scale.share(line.size):.2%}"></s>' for line in chart.lines)
    figures = (
        f'<span class="sum{over}">{text(in_units(bar.whole.likely))} <small>{text(_bounds(bar.whole))}</small></span>'
    )
    style = "chosen" if bar.is_chosen else ""
    return html_bars.BarRow(bar.label, parts, figures, marks, _band(bar.whole, scale), style)


def _band(band: Band, scale: Scale) -> str:
    """A line from the least to the most, with a mark at the likely."""
    if band.is_exact or scale.cuts(band.least):
        return ""
    left, right = scale.share(band.least), scale.share(band.most)
    cut = " cut" if scale.cuts(band.most) else ""
    return f'<span class="band{cut}" style="left:{left:.2%};width:{right - left:.2%}"></span>'


def _bounds(band: Band) -> str:
    """The least and the most, unless the figure is exact."""
    return shown(band).partition(" (")[2].rstrip(")")


# ------------------------------------------------------------------------------------------------------------- tables


def _figures(answer: Answer) -> str:
    """What the run takes by kind and place, as the table of the terminal has it."""
    places = list(columns_of(answer))
    columns = [Column("Kind"), *(Column(place.title, "figure") for place in places)]
    rows = [
        [
            text(label),
            *(
                text(cell.figure) + (f'<span class="help">{text(cell.bounds)}</span>' if cell.bounds else "")
                for cell in (place.cell(label) for place in places)
            ),
        ]
        for label in labels_of(places)
    ]
    return table(
        "What the run takes: the likely figure, and below it the least and the most", columns, rows, is_narrow=True
    )


def _sweep(answer: Answer) -> str:
    """What each row of the sweep takes and may grow to, and whether it fits."""
    if not answer.rows:
        return ""
    grown = growth_columns(answer)
    columns = [
        Column("setup"),
        *(Column(f"{one.title}, likely (surely)", "figure") for one in grown),
        *(Column(GPU, "figure"), Column(HOST, "figure"), Column("fits")),
    ]
    rows = [
        [
            text(label_of_row(row)),
            *(text(one.cells[index]) for one in grown),
            _quantity(row.estimate.gpu_bytes),
            _quantity(row.estimate.host_bytes),
            badge(*_BADGES[word], word) if answer.capacity.is_known else "",
        ]
        for index, row in enumerate(answer.rows)
        for word in [_WORDS[answer.verdict_of(row.estimate)]]
    ]
    return table("All setups beside each other, the faster first", columns, rows)


def _quantity(band: Band) -> str:
    """The likely figure, and below it the bounds."""
    bounds = f'<span class="help">{text(_bounds(band))}</span>' if _bounds(band) else ""
    return text(in_units(band.likely)) + bounds


def _advice(answer: Answer) -> str:
    """What makes it fit, each with what to write."""
    return "".join(
        f"<h3>{text(group.heading)}</h3>"
        + (f'<ul class="advice">{"".join(map(_change, group.advice))}</ul>' if group.advice else "")
        + (f"<p>and {counted(group.others, 'other')} (--output-format json)</p>" if group.others else "")
        for group in advice_groups(answer)
    )


def _change(advice: Advice) -> str:
    lines = "".join(f"<li>{code(to_write(write))}</li>" for write in advice.writes)
    lines += "".join(f"<li>{prose(price)}</li>" for price in prices_of(advice))
    return f"<li><b>{prose(advice.words)}</b>: {prose(result_of(advice))}<ul>{lines}</ul></li>"


def _facts(answer: Answer, notes: Sequence[str]) -> str:
    noted = "".join(f"<li>{prose(note)}</li>" for note in notes)
    return f"<h3>What this rests on</h3>{listed(_known(answer))}" + (f"<ul>{noted}</ul>" if noted else "")


def _known(answer: Answer) -> Iterator[tuple[str, str]]:
    """The facts, with their names; what is not known has its name too."""
    setup, there = answer.estimate.setup, answer.capacity
    if answer.assumed is None:
        yield "config", answer.name
    elif answer.assumed:
        yield "assumed", ", ".join(answer.assumed)
    if answer.launch is not None:
        yield "launched at", answer.launch
    yield "model", answer.model
    yield "GPU", answer.gpu_name or "not known"
    if there.host is not None:
        yield "host memory", in_units(there.host)
    yield "ranks", f"{setup.world:,}"
    yield "nodes", f"{setup.nodes:,}"
    yield "optimizer", setup.optimizer or "not known"
    yield "micro batch", _or_unknown(setup.micro_batch)
    yield "gradient accumulation steps", f"{setup.accumulation_steps:,}"
    yield "sequence length", _or_unknown(setup.sequence_length)
    yield "activation checkpointing", {True: "on", False: "off", None: "not known"}[setup.is_checkpointed]
    yield "attention", setup.attention or "not known"


def _or_unknown(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"
