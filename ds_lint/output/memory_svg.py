"""``ds-lint memory --plot FILE.svg``: the picture as a document of its own.

The SVG is text with words in it, so that it can be searched, read aloud and scaled. It is as narrow as a phone, so that
its words are readable there, and its colours follow the theme of the reader.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.output import kind_colours
from ds_lint.output.harmless import without_secrets
from ds_lint.output.memory_plot import charts, description, kinds_of
from ds_lint.output.memory_table import about, conclusions, in_units, label_of, shown, subject
from ds_lint.output.text import visible, width_of, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.band import Band
    from ds_lint.output.axis import Scale
    from ds_lint.output.memory_plot import Bar, Chart
    from ds_lint.source.document import Document

WIDTH, MARGIN = 480, 16
LANE = WIDTH - 2 * MARGIN  # where the bars are
LETTER = 8.2  # the width of a letter of 15 px, a little more than it is on average
_LINE = 21  # from one line of text to the next
_BAR, _BAND = 22, 9  # the height of a bar, and of the line below it from the least to the most
_TOOTH = 5.5  # of a torn end
_NEAR = 0.12  # the part of the lane beside its ends, where labels begin or end at their place


def svg(answer: Answer, documents: Sequence[Document] = ()) -> str:
    """The drawing of a run; the secrets of these documents are masked."""
    drawn = charts(answer)
    kinds = kinds_of(drawn)
    patterns, rules = kind_colours.svg(kinds)
    sheet = _Sheet()
    _heading(sheet, answer)
    _legend(sheet, kinds)
    for chart in drawn:
        _chart(sheet, chart, kinds)
    height = round(sheet.y + MARGIN)
    title = _text(f"Memory of {subject(answer)}: {about(answer)}")
    named = f'<title id="title">{title}</title>\n<desc id="description">{_text(_described(answer, drawn))}</desc>\n'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title description">\n'
        f"{without_secrets(named, documents)}<style>{_STYLE}{rules}</style>\n<defs>{patterns}</defs>\n"
        f'<rect class="ground" width="{WIDTH}" height="{height}"/>\n'
        f"{without_secrets(''.join(sheet.drawn), documents)}</svg>\n"
    )


class _Sheet:
    """What is drawn so far, and where the next line of text begins."""

    __slots__ = ("drawn", "y")

    def __init__(self) -> None:
        self.drawn: list[str] = []
        self.y = float(MARGIN - 4)

    def write(self, content: str, style: str = "", x: float = MARGIN) -> None:
        """A piece of text on the line whose foot is at ``y``."""
        named = f' class="{style}"' if style else ""
        self.drawn.append(f'<text{named} x="{x:.1f}" y="{self.y:.1f}">{content}</text>\n')

    def lines(self, content: str, style: str = "") -> None:
        """A text in as many lines as it takes."""
        for line in wrap(visible(content), int(LANE / LETTER), taken=0, indent=0):
            self.y += _LINE
            self.write(escape(_shortened(line)), style)


class _Axis(NamedTuple):
    """The axis of a chart on the sheet."""

    scale: Scale

    def x(self, size: float) -> float:
        """Where so many bytes are."""
        return MARGIN + self.scale.share(size) * LANE


def _heading(sheet: _Sheet, answer: Answer) -> None:
    sheet.lines(f"Memory of {subject(answer)}", "title")
    sheet.lines(about(answer), "quiet")
    for sentence in conclusions(answer):
        sheet.lines(sentence, "title")
    for note in answer.left_out:
        sheet.lines(f"not included: {note}", "quiet")


def _legend(sheet: _Sheet, kinds: list[str]) -> None:
    """What the colours mean, in as many lines as it takes."""
    sheet.y += _LINE + 8
    x = float(MARGIN)
    for index, kind in enumerate(kinds):
        label = visible(label_of(kind))
        end = x + 20 + width_of(label) * LETTER
        if end > WIDTH - MARGIN and x > MARGIN:
            x, end, sheet.y = MARGIN, MARGIN + end - x, sheet.y + _LINE
        sheet.drawn.append(f'<rect class="kind-{index}" x="{x:.1f}" y="{sheet.y - 11:.1f}" width="13" height="13"/>')
        sheet.write(escape(label), x=x + 20)
        x = end + 14


def _chart(sheet: _Sheet, chart: Chart, kinds: list[str]) -> None:
    """The bars of a place on one axis, with the lines of the capacity."""
    axis = _Axis(chart.scale)
    sheet.y += _LINE + 14
    sheet.write(chart.place, "title")
    for line in chart.lines:
        sheet.y += _LINE
        sheet.write(escape(line.label), f"room {_side(chart.scale.share(line.size))}", axis.x(line.size))
    for bar in chart.bars:
        _bar(sheet, bar, chart, kinds)
    sheet.y += 6
    sheet.drawn.append(f'<path class="tick" d="M{MARGIN} {sheet.y:.1f}H{WIDTH - MARGIN}"/>\n')
    sheet.y += 16
    for at, label in chart.scale.ticks:
        sheet.write(escape(label), f"quiet {_side(chart.scale.share(at))}", axis.x(at))


def _bar(sheet: _Sheet, bar: Bar, chart: Chart, kinds: list[str]) -> None:
    """The name of a bar and its figures, the bar by kind, and the line from the least to the most."""
    axis, figures = _Axis(chart.scale), shown(bar.whole)
    is_over = any(bar.whole.least > line.size for line in chart.lines[-1:])
    beside = int(LANE / LETTER) - width_of(figures) - 2
    for line in wrap(visible(bar.label), max(beside, 1), taken=0, indent=0):
        sheet.y += _LINE
        sheet.write(escape(_shortened(line)), "title" if bar.is_chosen else "")
    sheet.write(escape(figures), "sum over" if is_over else "sum", WIDTH - MARGIN)
    top, before = sheet.y + 7, 0.0
    bottom = top + _BAR + 2 + _BAND
    sheet.drawn += [_upright("tick", axis.x(at), top - 2, bottom) for at, _ in axis.scale.ticks]
    for kind, size in bar.kinds.items():
        begin, end = axis.x(before), axis.x(before + size)
        is_torn = axis.scale.cuts(before + size) and not axis.scale.cuts(before)
        before += size
        if end > begin:
            title = f"<title>{_text(f'{label_of(kind)}: {in_units(size)}')}</title>"
            style = f"kind-{kinds.index(kind)} part{' cut' if is_torn else ''}"
            right = _end(begin, end) if is_torn else f"H{end:.1f}v{_BAR}"
            sheet.drawn.append(f'<path class="{style}" d="M{begin:.1f} {top:.1f}{right}H{begin:.1f}z">{title}</path>\n')
    sheet.y = bottom
    if not bar.whole.is_exact and not axis.scale.cuts(bar.whole.least):
        sheet.drawn.append(_band(bar.whole, bottom - _BAND, axis))
    sheet.drawn += [_upright("room", axis.x(line.size), top - 2, bottom) for line in chart.lines]


def _end(begin: float, end: float) -> str:
    """The torn end of a bar: it goes on."""
    depth = min(_TOOTH, end - begin)
    teeth = f"l{depth:.1f} {_BAR / 6:.2f}l-{depth:.1f} {_BAR / 6:.2f}"
    return f"H{end - depth:.1f}{teeth * 3}"


def _band(band: Band, top: float, axis: _Axis) -> str:
    """A line from the least to the most; two slanting lines are through it if it goes on."""
    left, right, middle = axis.x(band.least), axis.x(band.most), top + _BAND / 2
    goes_on = axis.scale.cuts(band.most)
    end = (
        f"M{right - 12:.1f} {top + _BAND:.1f}l4 -{_BAND}m4 0l-4 {_BAND}"
        if goes_on
        else f"M{right:.1f} {top:.1f}v{_BAND}"
    )
    return (
        f'<path class="band{" cut" if goes_on else ""}" d="M{left:.1f} {top:.1f}v{_BAND}M{left:.1f} {middle:.1f}'
        f'H{right:.1f}{end}"><title>{in_units(band.least)} to {in_units(band.most)}</title></path>\n'
    )


def _upright(style: str, x: float, top: float, bottom: float) -> str:
    return f'<path class="{style}" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>\n'


def _side(share: float) -> str:
    """How a label lies at its place, so that it stays on the sheet."""
    return "first" if share < _NEAR else "last" if share > 1 - _NEAR else "middle"


def _described(answer: Answer, drawn: list[Chart]) -> str:
    """What the drawing shows, for those who do not see it."""
    return " ".join([*(f"{sentence}." for sentence in conclusions(answer)), *map(description, drawn)])


def _text(content: str) -> str:
    return escape(visible(content))


def _shortened(line: str) -> str:
    """A line with a word that is longer than the sheet is wide, without its end."""
    most = int(LANE / LETTER)
    while width_of(line) > most:
        line = f"{line[: -2 if line.endswith('…') else -1]}…"
    return line


_STYLE = (
    ":root{--ink:#1b2026;--quiet:#59636e;--card:#fff;--line:#dfe3e8;--fail:#a51d24}"
    "@media (prefers-color-scheme:dark){:root{"
    "--ink:#e5e9ee;--quiet:#9aa5b1;--card:#181c22;--line:#2c333c;--fail:#ff9490}}"
    'text{font:15px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif;fill:var(--ink)}'
    ".ground{fill:var(--card)}text.title,text.room{font-weight:600}text.quiet{fill:var(--quiet)}"
    ".middle{text-anchor:middle}.last,.sum{text-anchor:end}text.over{fill:var(--fail);font-weight:600}"
    ".part{stroke:var(--card)}.band{stroke:var(--ink);stroke-width:1.5;fill:none}"
    ".tick{stroke:var(--line);fill:none}path.room{stroke:var(--ink);stroke-width:2;stroke-dasharray:5 3;fill:none}"
)
