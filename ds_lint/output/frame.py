"""Source frames: the lines of a text that a finding is about, with its spans underlined.

A line may be megabytes long (minified JSON), so nothing here looks at more of a line than it shows.
"""

from __future__ import annotations

from ds_lint.output.terminal import FRAME
from ds_lint.output.text import visible, visible_character, width_of, wrap
from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import KW_ONLY

    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Span

TAB = 4  # columns from one tab stop to the next
CUT, ASCII_CUT = "…", "..."  # stands for what a long line has beyond what is shown
ROOM_IN_PIPE = 120  # columns of source where the width is not known
LEAST_ROOM = 20  # columns of source, however narrow the terminal


class Mark:
    """One span to underline."""

    __slots__ = ("label", "primary", "span", "style")

    def __init__(self, span: Span, label: str, style: str, *, primary: bool) -> None:
        self.span = span
        self.label = visible(label)
        self.style = style
        self.primary = primary


class Sheet(Record):
    """What frames are drawn on: a margin for line numbers, and beside it the room for source."""

    margin: int
    terminal: Terminal

    def __post_init__(self) -> None:
        self.cut = CUT if self.terminal.can_show(CUT) else ASCII_CUT
        self.room = (
            ROOM_IN_PIPE
            if self.terminal.width is None
            else max(self.terminal.width - self.margin - len(" | "), LEAST_ROOM)
        )

    def shown(self, character: str) -> str:
        """A character as it can be shown there, so that carets are below what is seen."""
        piece = visible_character(character)
        return piece if piece.isascii() or self.terminal.can_show(piece) else ascii(piece)[1:-1]

    def row(self, number: str = "", text: str = "") -> str:
        """A line of the frame."""
        return self.terminal.paint(f"{number:>{self.margin}} |", FRAME) + (f" {text}" if text.strip() else "")

    def heading(self, arrow: str, text: str) -> str:
        """The line that says which file a frame shows."""
        return f"{' ' * self.margin}{self.terminal.paint(arrow, FRAME)} {text}"


class Line:
    """One line of a document, by its offsets, without the line ending."""

    __slots__ = ("end", "number", "start", "text")

    def __init__(self, document: Document, number: int) -> None:
        starts = document.line_starts()
        self.text = document.text  # all of it: a line is not copied, only what is shown of it
        self.number = number
        self.start = starts[number - 1]
        self.end = starts[number] - 1 if number < len(starts) else len(self.text)
        if number < len(starts) and self.text.endswith("\r", self.start, self.end):
            self.end -= 1

    def part(self, span: Span) -> tuple[int, int]:
        """What of a span lies in this line; in a line after its first, from the first character that is not a space."""
        begin = span.start
        if begin < self.start:
            shown = self.text[self.start : min(self.end, self.start + ROOM_IN_PIPE)]
            begin = self.start + len(shown) - len(shown.lstrip())
        begin = min(begin, self.end)
        return begin, min(max(span.end, begin), self.end)


class Stretch(Record):
    """The part of a line that is shown: escaped, tabs expanded, cut to the room there is.

    ``columns[i]`` is where the code point at offset ``first + i`` begins; the last one is where the stretch ends.
    """

    first: int
    text: str
    columns: list[int]
    _: KW_ONLY
    cut: bool  # the line goes on behind it
    marks: list[Mark] = field(factory=list)

    def shows(self, begin: int, stop: int) -> bool:
        """Whether all of what lies between two offsets is seen, or the place itself if they are one."""
        last = self.first + len(self.columns) - 1
        return self.first <= begin and (stop <= last if begin < stop else begin < last + (not self.cut))

    def column(self, offset: int) -> int:
        """The column of an offset, or of the nearest one that is shown."""
        return self.columns[max(0, min(offset - self.first, len(self.columns) - 1))]


def margin_for(document: Document, marks: list[Mark]) -> int:
    """The width of the largest line number in the frame of these marks."""
    return max(len(_shown_number(document, number)) for number in _shown_lines(document, marks))


def _shown_number(document: Document, number: int) -> str:
    """The number of a line, in a notebook that in its cell."""
    cell = document.cell_at(document.line_starts()[number - 1])
    return str(number if cell is None else cell[1])


def frame(document: Document, marks: list[Mark], sheet: Sheet) -> list[str]:
    """The lines of the marks, and below each line the underlines and labels."""
    rows: list[str] = []
    previous = 0
    for number in _shown_lines(document, marks):
        if previous and number > previous + 1:
            rows.append(sheet.terminal.paint("...", FRAME))
        previous = number
        line = Line(document, number)
        here = [mark for mark in marks if number in _ends(document, mark.span)]
        for stretch in _stretches(line, here, sheet):
            rows.append(sheet.row(_shown_number(document, number), stretch.text))
            for mark in stretch.marks:
                labelled = number == _ends(document, mark.span)[0]
                rows.extend(sheet.row(text=row) for row in _underlined(stretch, line, mark, sheet, labelled=labelled))
    return rows


def _shown_lines(document: Document, marks: list[Mark]) -> list[int]:
    """First and last line of every mark, and no gap of a single line."""
    wanted = {number for mark in marks for number in _ends(document, mark.span)}
    return sorted(wanted | {number + 1 for number in wanted if number + 2 in wanted})


def _ends(document: Document, span: Span) -> tuple[int, int]:
    """The first and the last line of a span; one that ends with a newline does not reach the next line."""
    return document.position(span.start)[0], document.position(max(span.start, span.end - 1))[0]


def _stretches(line: Line, marks: list[Mark], sheet: Sheet) -> list[Stretch]:
    """What is shown of a line: one stretch, or several where its marks are too far apart for one."""
    stretches: list[Stretch] = []
    for mark in sorted(marks, key=lambda mark: not mark.primary):
        begin, stop = line.part(mark.span)
        stretch = next((shown for shown in stretches if shown.shows(begin, stop)), None)
        if stretch is None:
            stretch = _stretch(line, begin, stop, sheet)
            stretches.append(stretch)
        stretch.marks.append(mark)
    return sorted(stretches, key=lambda stretch: stretch.first) or [_stretch(line, line.start, line.start, sheet)]


def _stretch(line: Line, begin: int, stop: int, sheet: Sheet) -> Stretch:
    """The line, cut where it must be so that what lies between ``begin`` and ``stop`` is seen."""
    room, cut = sheet.room, sheet.cut
    whole = _laid_out(line, line.start, 0, room, sheet)
    if not whole.cut:
        return whole
    from_start = _laid_out(line, line.start, 0, room - len(cut), sheet)
    if from_start.shows(begin, stop):
        from_start.text += cut
        return from_start
    before = max(0, min(room // 3, room - 2 * len(cut) - (stop - begin)))
    first = _left_edge(line, begin, before, sheet)
    if first == line.start:
        from_start.text += cut
        return from_start
    stretch = _laid_out(line, first, len(cut), room, sheet)
    if stretch.cut:
        stretch = _laid_out(line, first, len(cut), room - len(cut), sheet)
        stretch.text += cut
    stretch.text = cut + stretch.text
    return stretch


def _left_edge(line: Line, begin: int, space: int, sheet: Sheet) -> int:
    """The offset from which ``space`` columns lead up to ``begin``."""
    while begin > line.start:
        character = line.text[begin - 1]
        space -= TAB if character == "\t" else width_of(sheet.shown(character))
        if space < 0:
            break
        begin -= 1
    return begin


def _laid_out(line: Line, first: int, column: int, limit: int, sheet: Sheet) -> Stretch:
    """As much of the line from the offset ``first`` on as fits between two columns."""
    part = line.text[first : min(line.end, first + limit - column + 1)]
    if part.isascii() and part.isprintable():
        part = part[: limit - column]
        columns = list(range(column, column + len(part) + 1))
        return Stretch(first, part, columns, cut=first + len(part) < line.end)
    shown, columns = [], [column]
    for character in part:
        piece = " " * (TAB - column % TAB) if character == "\t" else sheet.shown(character)
        column += width_of(piece)
        if column > limit:
            break
        shown.append(piece)
        columns.append(column)
    return Stretch(first, "".join(shown), columns, cut=first + len(shown) < line.end)


def _underlined(stretch: Stretch, line: Line, mark: Mark, sheet: Sheet, *, labelled: bool) -> list[str]:
    """The carets below a stretch, with the label beside them, or below them where there is no room."""
    begin, stop = line.part(mark.span)
    column = min(stretch.column(begin), sheet.room - 1)  # the place behind a line that fills the room
    length = max(1, stretch.column(stop) - column)
    carets = " " * column + sheet.terminal.paint(("^" if mark.primary else "-") * length, mark.style)
    if not mark.label or not labelled:
        return [carets]
    needed = width_of(mark.label)
    if sheet.terminal.width is None or column + length + 1 + needed <= sheet.room:
        return [f"{carets} {sheet.terminal.paint(mark.label, mark.style)}"]
    indent = max(0, min(column, sheet.room - needed))
    first, *rest = wrap(mark.label, sheet.room, indent, indent)
    return [carets, *(sheet.terminal.paint(row, mark.style) for row in [" " * indent + first, *rest])]
