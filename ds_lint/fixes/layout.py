r"""How the members of an object are laid out in a text: on which lines, how far indented, with which separators.

For edits that keep to what is around them. The text may be JSON, or what hjson reads: comments, members without
commas, keys and values without quotes, no braces around it all. Lines end at ``\n``, ``\r\n`` or ``\r``.
"""

from __future__ import annotations

from bisect import bisect_left

from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.tree import Member, Node

_BLANK = " \t"
_SPACE = " \t\r\n"


def after_space(text: str, pos: int) -> int:
    """The place of the next character that is neither white space nor in a comment; the end if there is none."""
    end = len(text)
    while pos < end:
        if text[pos] in _SPACE:
            pos += 1
        elif text.startswith(("#", "//"), pos):
            pos = line_end(text, pos)
        elif text.startswith("/*", pos):
            close = text.find("*/", pos + 2)
            pos = end if close == -1 else close + 2
        else:
            break
    return pos


def after_blanks(text: str, pos: int) -> int:
    """The place of the next character that is not a space or tab."""
    while text.startswith((" ", "\t"), pos):
        pos += 1
    return pos


def before_blanks(text: str, pos: int) -> int:
    """The place after the last character before ``pos`` that is not a space or tab."""
    while pos and text[pos - 1] in _BLANK:
        pos -= 1
    return pos


def line_start(text: str, pos: int) -> int:
    """Where the line begins that ``pos`` is in."""
    start = text.rfind("\n", 0, pos) + 1
    return max(start, text.rfind("\r", start, pos) + 1)


def line_end(text: str, pos: int) -> int:
    """Where the text of the line ends that ``pos`` is in."""
    end = text.find("\n", pos)
    end = len(text) if end == -1 else end
    before = text.find("\r", pos, end)
    return end if before == -1 else before


def after_line(text: str, pos: int) -> int:
    """Where the next line begins."""
    end = line_end(text, pos)
    return end + (2 if text.startswith("\r\n", end) else end < len(text))


def line_break(text: str, pos: int) -> str:
    """The line break that ends the line before the one that ``pos`` is in."""
    start = line_start(text, pos)
    return "\r\n" if text[:start].endswith("\r\n") else text[start - 1 : start]


def begins_line(text: str, pos: int) -> bool:
    """Whether nothing but indentation is before a place on its line."""
    pos = before_blanks(text, pos)
    return pos == 0 or text[pos - 1] in "\r\n"


def ends_line(text: str, pos: int) -> bool:
    """Whether nothing but a comment is behind a place on its line."""
    pos = after_blanks(text, pos)
    if text.startswith("/*", pos):
        close = text.find("*/", pos + 2)
        pos = pos if close == -1 else after_blanks(text, close + 2)
    return pos == len(text) or text.startswith(("\r", "\n", "#", "//"), pos)


def has_braces(text: str, section: Node) -> bool:
    """Whether an object is in braces: the root of an hjson text may not."""
    return text.startswith("{", section.span.start) and text.startswith("}", section.span.end - 1)


def is_quoteless(text: str, value: Node) -> bool:
    """Whether a value is a string without quotes, which hjson reads up to the end of the line."""
    return value.kind == "string" and not text.startswith(('"', "'"), value.span.start)


def _place(section: Node, start: int) -> int:
    return bisect_left(section.members, start, key=lambda member: member.key_span.start)


def member_at(section: Node, start: int) -> Member | None:
    """The member of an object whose key begins at a place in the text."""
    place = _place(section, start)
    found = section.members[place] if place < len(section.members) else None
    return found if found is not None and found.key_span.start == start else None


def neighbours(section: Node, member: Member) -> tuple[Member | None, Member | None]:
    """The members of an object before and after one of them, in the order of the text."""
    members, place = section.members, _place(section, member.key_span.start)
    before = members[place - 1] if place else None
    return before, members[place + 1] if place + 1 < len(members) else None


class Style(Record):
    """How a further member of an object would be written."""

    colon: str = ": "  # what is between a key and its value
    separator: str = ", "  # between two members that share a line
    newline: str = ""  # between two members that do not; empty where they share one
    indent: str = ""
    unit: str = "  "  # of indentation, one level deeper
    quote: str = '"'  # around a key; empty where keys have none
    has_commas: bool = True
    expands: bool = False  # whether sections have a line for each member


def style_of(text: str, root: Node, section: Node) -> Style:
    """The style of an object, read off its last member; of an empty one, that of the root on one line."""
    style = Style()
    model = section if section.members else root
    if not model.members:
        return style
    last = model.members[-1]
    before, _ = neighbours(model, last)
    style.colon = _colon(text, last) or style.colon
    style.separator = ", " if style.colon.endswith((" ", "\t")) else ","
    style.quote = text[last.key_span.start] if text.startswith(('"', "'"), last.key_span.start) else ""
    first = root.members[0].key_span.start
    if begins_line(text, first) and (unit := text[line_start(text, first) : first]):
        style.unit = unit
    if before is not None:
        comma = after_space(text, before.value.span.end)
        style.has_commas = text.startswith(",", comma)
        between = text[before.value.span.end : last.key_span.start]
        if style.has_commas and not between.strip(" \t,"):
            style.separator = between
    if model is section and begins_line(text, last.key_span.start):
        style.newline = line_break(text, last.key_span.start)
        style.indent = text[line_start(text, last.key_span.start) : last.key_span.start]
        sections = [member.value for member in section.members if member.value.members]
        style.expands = not sections or any(_spans_lines(text, value) for value in sections)
    return style


def _colon(text: str, member: Member) -> str | None:
    """What is between a key and its value, if it is a colon with blanks around it."""
    between = text[member.key_span.end : member.value.span.start]
    return between if between.strip(_BLANK) == ":" else None


def _spans_lines(text: str, value: Node) -> bool:
    return line_end(text, value.span.start) < value.span.end
