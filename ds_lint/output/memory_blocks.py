"""``ds-lint memory --plot -``: the picture as text, with block characters, or ASCII where they cannot be written.

A bar is full up to the least, then lighter up to the likely, and lightest up to the most. Each kind begins with its
letter in the legend, so that nothing is known by a colour alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.output.memory_plot import charts, kinds_of
from ds_lint.output.memory_table import label_of, shown
from ds_lint.output.terminal import QUIET, SEVERITY, STRONG, USUAL_WIDTH
from ds_lint.output.text import visible, width_of, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.footprint.answer import Answer
    from ds_lint.output.axis import Scale
    from ds_lint.output.memory_plot import Bar, Chart
    from ds_lint.output.terminal import Terminal

_GAP = 2
_LEAST_LANE = 30  # columns, below which the names and figures lie above the bars
_NARROWEST = 16  # columns of a bar, however narrow the terminal
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_COLOURS = ("94", "91", "1;35", "")  # of the kinds in turn; all are legible on black and on white
_TORN = 2  # columns of the sign that a bar goes on


class _Characters(NamedTuple):
    """What a bar is drawn with; ``parts`` are the eighths of a cell, if there are such."""

    surely: str
    likely: str
    possibly: str
    torn: str
    rooms: tuple[str, str]  # the capacity, and that of the smallest GPU if there are several
    tick: str
    axis: str
    parts: str = ""


_SLANTED = "\N{BOX DRAWINGS LIGHT DIAGONAL UPPER RIGHT TO LOWER LEFT}"
_BLOCKS = _Characters("█", "▓", "░", _SLANTED, ("┃", "┇"), "┴", "─", "▏▎▍▌▋▊▉")
_ASCII = _Characters("#", "=", ".", "/", ("|", ":"), "+", "-")


class _Square(NamedTuple):
    """A character of a bar, and its style."""

    character: str = " "
    style: str = ""


def lines(answer: Answer, terminal: Terminal) -> list[str]:
    """The charts of a run below each other, with one legend."""
    signs = _BLOCKS if terminal.can_show("".join(map("".join, _BLOCKS))) else _ASCII
    drawn = charts(answer)
    letters = _letters(kinds_of(drawn))
    found = []
    for chart in drawn:
        found += ["", *_chart(chart, letters, signs, terminal)]
    return [*found, "", *_legend(drawn, letters, signs, terminal)]


def _letters(kinds: list[str]) -> dict[str, str]:
    """A letter for each kind: the first of its name that no kind before has."""
    found: dict[str, str] = {}
    for kind in kinds:
        free = (one for one in label_of(kind).upper() + _LETTERS if one in _LETTERS and one not in found.values())
        found[kind] = next(free, "?")
    return found


def _chart(chart: Chart, letters: dict[str, str], signs: _Characters, terminal: Terminal) -> Iterator[str]:
    """The capacity above the bars, and the axis below."""
    width = terminal.width or USUAL_WIDTH
    names, figures = [visible(bar.label) for bar in chart.bars], [shown(bar.whole) for bar in chart.bars]
    left = max(map(width_of, names)) + _GAP
    lane = width - left - _GAP - max(map(width_of, figures))
    is_beside = lane >= _LEAST_LANE
    if not is_beside:
        left, lane = 0, max(width, _NARROWEST)
    signs_of = dict(zip(reversed(chart.lines), signs.rooms, strict=False))
    columns = {line: min(int(chart.scale.share(line.size) * lane), lane - 1) for line in chart.lines}
    rooms = {columns[line]: signs_of[line] for line in chart.lines}
    yield terminal.paint(chart.place, STRONG)
    for line in chart.lines:
        before, label = columns[line] - width_of(line.label) - 1, f"{line.label} {signs_of[line]}"
        if before < 0:  # then behind the line, as far as there is room
            before, label = min(columns[line], width - width_of(label)), f"{signs_of[line]} {line.label}"
        yield " " * (left + before) + terminal.paint(label, STRONG)
    for bar, name, figure in zip(chart.bars, names, figures, strict=True):
        is_over = any(bar.whole.least > line.size for line in chart.lines[-1:])
        drawn = _painted(_cells(bar, chart.scale, lane, letters, signs, rooms), terminal)
        beside = terminal.paint(figure, SEVERITY["error"]) if is_over else figure
        if is_beside:
            title = terminal.paint(name, STRONG) if bar.is_chosen else name
            yield f"{title}{' ' * (left - width_of(name))}{drawn}{' ' * _GAP}{beside}"
        else:
            yield from _above(bar, beside, width, terminal)
            yield drawn.rstrip()
    yield from (f"{' ' * left}{row}".rstrip() for row in _axis(chart.scale, lane, signs))


def _above(bar: Bar, figure: str, width: int, terminal: Terminal) -> Iterator[str]:
    """The name of a bar and its figures, beside each other if there is room."""
    name = visible(bar.label)
    style = STRONG if bar.is_chosen else ""
    if width_of(name) + _GAP + width_of(shown(bar.whole)) <= width:
        yield terminal.paint(name, style) + " " * (width - width_of(name) - width_of(shown(bar.whole))) + figure
        return
    yield from (terminal.paint(line, style) for line in wrap(name, width, taken=0, indent=2))
    yield f"  {figure}"


def _cells(
    bar: Bar, scale: Scale, lane: int, letters: dict[str, str], signs: _Characters, rooms: dict[int, str]
) -> list[_Square]:
    """A bar, cell by cell."""
    whole = bar.whole
    least, most = round(scale.share(whole.least) * lane), round(scale.share(whole.most) * lane)
    eighths = round(scale.share(whole.likely) * lane * 8)
    likely, part = divmod(eighths, 8) if signs.parts else (round(eighths / 8), 0)
    cells = [_Square(signs.possibly, QUIET) if index < most else _Square() for index in range(lane)]
    before, begin = 0.0, 0
    for index, (kind, size) in enumerate(bar.kinds.items()):
        before += size
        end = min(round(scale.share(before) * lane), likely) if index < len(bar.kinds) - 1 else likely
        style = _COLOURS[list(letters).index(kind) % len(_COLOURS)]
        first = next((at for at in range(begin, end) if at not in rooms), None)
        for at in range(begin, end):
            fill = signs.surely if at < least else signs.likely
            cells[at] = _Square(letters[kind] if at == first else fill, style)
        if end == likely and part and likely < lane:
            cells[likely] = _Square(signs.parts[part - 1], style)
        begin = max(begin, end)
    if scale.cuts(whole.most):
        cells[-_TORN:] = [_Square(signs.torn)] * _TORN
    for at, sign in rooms.items():
        cells[at] = _Square(sign, STRONG)
    return cells


def _painted(cells: list[_Square], terminal: Terminal) -> str:
    """The characters, those of one style painted together."""
    text, style, run = "", "", ""
    for cell in [*cells, _Square("", "end")]:
        if cell.style != style:
            text += _in_style(run, style, terminal)
            style, run = cell.style, ""
        run += cell.character
    return text


def _in_style(text: str, style: str, terminal: Terminal) -> str:
    return terminal.paint(text, style) if style else text


def _axis(scale: Scale, lane: int, signs: _Characters) -> Iterator[str]:
    """The ticks, and below them their labels where there is room."""
    marks, labels = [signs.axis] * lane, ""
    for at, label in scale.ticks:
        column = min(int(scale.share(at) * lane), lane - 1)
        marks[column] = signs.tick
        begin = min(max(column - (len(label) - 1) // 2, 0), lane - len(label)) if at else 0
        if begin >= len(labels) + bool(labels):
            labels += " " * (begin - len(labels)) + label
    yield "".join(marks)
    yield labels


def _legend(drawn: list[Chart], letters: dict[str, str], signs: _Characters, terminal: Terminal) -> Iterator[str]:
    """What letters and shades mean."""
    width = terminal.width or USUAL_WIDTH
    styles = {letter: _COLOURS[index % len(_COLOURS)] for index, letter in enumerate(letters.values())}
    entries = [f"{letter} {label_of(kind)}" for kind, letter in letters.items()]
    shades = [f"{signs.surely} at least", f"{signs.likely} likely", f"{signs.possibly} at most"]
    if any(chart.cuts for chart in drawn):
        shades.append(f"{signs.torn * _TORN} goes on")
    for row in (*_rows(entries, width), *_rows(shades, width)):
        yield (" " * _GAP).join(_in_style(entry[0], styles.get(entry[0], ""), terminal) + entry[1:] for entry in row)


def _rows(entries: list[str], width: int) -> list[list[str]]:
    """Entries in rows that fit."""
    rows: list[list[str]] = []
    for entry in entries:
        if rows and sum(len(one) + _GAP for one in rows[-1]) + len(entry) <= width:
            rows[-1].append(entry)
        else:
            rows.append([entry])
    return rows
