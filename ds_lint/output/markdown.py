"""The page of a rule on a terminal: headings bold, prose and tables wrapped, examples under a line about them.

It knows as much of Markdown as the pages use: headings, paragraphs, lists, tables, fenced blocks, code, links, bold.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from unicodedata import category

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.output.terminal import FRAME, SEVERITY, STRONG
from ds_lint.output.text import visible, width_of
from ds_lint.rule_pages.pages import FENCE, FINDINGS, FIXED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.output.terminal import Terminal

INDENT = 4  # columns before what is in a fenced block
GAP = 3  # columns between those of a table
WIDEST = 100  # columns of prose, beyond which eyes lose the line
LEAST_COLUMN = 12  # columns of text in a table, however narrow the terminal

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[((?:`[^`]*`|[^\]`])+)\]\(([^)\s]+)\)")
_IDEOGRAPH = re.compile("[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\U00020000-\U0003ffff]")
_PARTS = re.compile(f" |{_IDEOGRAPH.pattern}|[^ {_IDEOGRAPH.pattern[1:]}+")
_OPENING = ("Ps", "Pi")  # categories of characters that no line ends with,
_CLOSING = ("Pe", "Pf", "Po")  # and those that none begins with
_ITEM = re.compile(r"( *)([-*]|\d+\.) +")
_FINDING = re.compile(rf"((?:[\w./-]+:)?\d+:\d+: )(\w+ \[({'|'.join(SEVERITIES)})\])( .*)", re.DOTALL)
_FIXES = {FIXED: "with --fix", f"{FIXED} unsafe": "with --fix --unsafe-fixes"}


class Piece(NamedTuple):
    """Characters of one style; empty for none."""

    text: str
    style: str = ""


class Chunk(NamedTuple):
    """What must stay on one line; ``is_glued`` says that no space is before it, as between Chinese characters."""

    pieces: tuple[Piece, ...]
    is_glued: bool = False

    @property
    def width(self) -> int:
        """The columns that it takes."""
        return sum(width_of(piece.text) for piece in self.pieces)

    def styled(self, style: str) -> Chunk:
        """The word in one style."""
        return self._replace(pieces=tuple(piece._replace(style=style) for piece in self.pieces))


def lines(text: str, terminal: Terminal) -> Iterator[str]:
    """The lines of a page for a terminal whose width is known."""
    pending = text.splitlines()
    pending.reverse()  # the next one is the last
    while pending:
        line = pending.pop()
        if line.startswith(FENCE):
            yield from _block(line[len(FENCE) :].split(), list(_until_fence(pending)), terminal)
        elif line.startswith("#"):
            yield terminal.paint(visible(line.lstrip("#").strip()), STRONG)
        elif line.startswith("|"):
            yield from _table([line, *_while(pending, "|")], terminal)
        elif line.strip():
            yield from _paragraph(line, pending, terminal)
        else:
            yield ""


def _until_fence(pending: list[str]) -> Iterator[str]:
    while pending and not (line := pending.pop()).startswith(FENCE):
        yield line


def _while(pending: list[str], start: str) -> Iterator[str]:
    while pending and pending[-1].startswith(start):
        yield pending.pop()


def _paragraph(line: str, pending: list[str], terminal: Terminal) -> Iterator[str]:
    """A paragraph, or an item of a list whose later lines hang below its text; its line breaks mean nothing."""
    item = _ITEM.match(line)
    indent = item.end() if item else 0
    parts = [line]
    while pending and pending[-1].strip() and not pending[-1].startswith(("#", "|", FENCE)):
        if _ITEM.match(pending[-1]):
            break
        parts.append(pending.pop().strip())
    start = line[:indent]
    words = _words(" ".join(parts)[indent:], terminal)
    first, *rest = _wrapped(words, terminal, _room(terminal) - indent)
    yield start + first
    yield from (" " * indent + row for row in rest)


# -------------------------------------------------------------------------------------------------------- fenced blocks


def _block(info: list[str], content: list[str], terminal: Terminal) -> Iterator[str]:
    """An example, indented under a line that says what it is and what it is linted for; code as it is."""
    kind = " ".join(info[1:]) if info[1:2] == [FIXED] else "".join(info[1:2])
    if info == [FINDINGS]:
        for line in content:
            yield from _finding(line, terminal)
        return
    if kind in _FIXES:
        yield terminal.paint(f"{_FIXES[kind]}:", STRONG)
    elif kind:
        yield from _linted_for(kind, info[2:], terminal)
    yield from ((" " * INDENT + visible(line)).rstrip() for line in content)


def _linted_for(kind: str, options: list[str], terminal: Terminal) -> list[str]:
    """``bad (stack trainer, world size 4):``, from the options of an example."""
    named = (option.partition("=") for option in options)
    facts = ", ".join(f"{name.replace('-', ' ')} {value.replace('|', ' ')}".strip() for name, _, value in named)
    words = [Chunk((Piece(kind, SEVERITY["error"] if kind == "bad" else STRONG),))]
    words += [Chunk((Piece(word),)) for word in visible(f"({facts})" if facts else "").split()]
    words.append(Chunk((Piece(":"),), is_glued=True))
    first, *rest = _wrapped(words, terminal, _room(terminal) - INDENT)
    return [first, *(" " * INDENT + row for row in rest)]


def _finding(line: str, terminal: Terminal) -> Iterator[str]:
    found = _FINDING.fullmatch(line)
    place, rule, severity, message = found.groups() if found else ("", "", "", line)
    words = [Chunk((Piece(word),)) for word in visible(place).split()]
    words += [Chunk((Piece(word, SEVERITY[severity]),)) for word in rule.split()]
    words += _words(message, terminal)
    first, *rest = _wrapped(words, terminal, _room(terminal) - INDENT - 2)
    yield " " * INDENT + first
    yield from (" " * (INDENT + 2) + row for row in rest)


# --------------------------------------------------------------------------------------------------------------- tables


def _table(rows: list[str], terminal: Terminal) -> Iterator[str]:
    """Columns side by side, each as wide as what is in it if all of them fit, else wrapped."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))] for row in rows]
    head, *body = [[_words(cell.replace("\\|", "|"), terminal) for cell in row] for row in cells if not _is_rule(row)]
    number = max(map(len, [head, *body]))
    for row in (head, *body):
        row.extend([] for _ in range(number - len(row)))
    if len(body) == 1 and all(_width(words) for words in head):  # the facts of a rule
        labels = max(map(_width, head))
        for label, words in zip(head, body[0], strict=True):
            first, *rest = _wrapped(words, terminal, _room(terminal) - labels - GAP)
            yield _padded(_painted(label, terminal), _width(label), labels + GAP) + first
            yield from (" " * (labels + GAP) + line for line in rest)
        return
    head = [[word.styled(STRONG) for word in words] for words in head]
    widths = _widths([head, *body], _room(terminal) - GAP * (number - 1))
    for row in (head, *body):
        columns = [_wrapped(words, terminal, width, align=width) for words, width in zip(row, widths, strict=True)]
        height = max(map(len, columns))
        for index in range(height):
            parts = [
                column[index] if index < len(column) else " " * width
                for column, width in zip(columns, widths, strict=True)
            ]
            yield (" " * GAP).join(parts).rstrip()


def _is_rule(row: list[str]) -> bool:
    """Whether a row is the line between the head of a table and its body."""
    return all(set(cell) <= set("-:") for cell in row)


def _widths(rows: list[list[list[Chunk]]], room: int) -> list[int]:
    """The widths of the columns: the widest gives way until all of them fit."""
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    while sum(widths) > room and max(widths) > LEAST_COLUMN:
        widths[widths.index(max(widths))] -= 1
    return widths


# ---------------------------------------------------------------------------------------------------------------- words


def _words(text: str, terminal: Terminal) -> list[Chunk]:
    """The words of a line of Markdown, each in pieces of one style."""
    words: list[Chunk] = []
    pieces: list[Piece] = []
    is_glued = True

    def end_word(*, glues_next: bool) -> None:
        nonlocal is_glued
        if pieces:
            words.append(Chunk(tuple(pieces), is_glued and bool(words)))
            pieces.clear()
            is_glued = True
        is_glued = is_glued and glues_next

    for piece in _pieces(text, terminal):
        for part in _PARTS.findall(piece.text):
            if part == " ":
                end_word(glues_next=False)
                continue
            if pieces and _may_break(pieces[-1].text[-1], part[0]):
                end_word(glues_next=True)
            pieces.append(Piece(part, piece.style))
    end_word(glues_next=False)
    return words


def _may_break(before: str, after: str) -> bool:
    """Whether a line may end between two characters that no space parts."""
    if not (_IDEOGRAPH.match(before) or _IDEOGRAPH.match(after)):
        return False
    return category(before) not in _OPENING and category(after) not in _CLOSING


def _pieces(text: str, terminal: Terminal) -> Iterator[Piece]:
    """Code is painted, or keeps its backticks where there are no colours; a link keeps its address if it leads out."""
    end = 0
    for found in _INLINE.finditer(text):
        yield Piece(visible(text[end : found.start()]))
        end = found.end()
        code, bold, label, address = found.groups()
        if code is not None:
            yield Piece(visible(code), FRAME) if terminal.colour else Piece(visible(f"`{code}`"))
        elif bold is not None:
            yield Piece(visible(bold), STRONG)
        else:
            yield from _pieces(label, terminal)
            if ":" in address:
                yield Piece(f" ({visible(address)})")
    yield Piece(visible(text[end:]))


def _wrapped(words: list[Chunk], terminal: Terminal, width: int, align: int = 0) -> list[str]:
    """The words in lines of a width, filled with spaces up to ``align``; a word that is wider stays whole."""
    rows: list[list[Chunk]] = [[]]
    for word in words:
        if rows[-1] and _width([*rows[-1], word]) > width:
            rows.append([])
        rows[-1].append(word)
    return [_padded(_painted(row, terminal), _width(row), align) for row in rows]


def _padded(text: str, width: int, wanted: int) -> str:
    return text + " " * (wanted - width)


def _painted(words: list[Chunk], terminal: Terminal) -> str:
    """The words of one line; those of one style are painted together with the spaces between them."""
    runs: list[Piece] = []
    for word in words:
        before = runs[-1].style if runs else ""
        space = Piece(" ", before if before == word.pieces[0].style else "")
        for piece in (*([] if word.is_glued or not runs else [space]), *word.pieces):
            if runs and runs[-1].style == piece.style:
                runs[-1] = Piece(runs[-1].text + piece.text, piece.style)
            else:
                runs.append(piece)
    return "".join(terminal.paint(*run) if run.style else run.text for run in runs)


def _width(words: list[Chunk]) -> int:
    return sum(word.width + (index > 0 and not word.is_glued) for index, word in enumerate(words))


def _room(terminal: Terminal) -> int:
    return min(terminal.width or WIDEST, WIDEST)
