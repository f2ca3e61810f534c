r"""What DeepSpeed reads in a file: the hjson package, rule for rule, with a span for everything.

DeepSpeed opens a config in text mode and gives it to ``hjson.load`` with a hook that refuses duplicate keys. hjson is
generous in ways of its own: a text that is not JSON may be read as something unintended (``"lr": .5,`` is the
string ``.5,`` with the comma). So it does not do to know which syntax hjson allows; its reading must be made again to
say what DeepSpeed will see. The quirks below are hjson 3.1.0's, crashes with other exceptions than its own included;
the tests hold this module against the package.
"""

from __future__ import annotations

import re

from ds_lint.source.limits import MOST_DIGITS, MOST_NESTING_HJSON
from ds_lint.source.tree import Member, Node, Span, as_read

_DECODE_ERROR = "HjsonDecodeError"
_PAST_THE_END = "string index out of range"
_UNTERMINATED = "Unterminated string starting at"
_BAD_UNIT = "Invalid \\uXXXX escape sequence"
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS = {"true": True, "false": False, "null": None}

_SPACE = r"[ \t\n\r]*"
_STRING_RUN = r"""[^"'\\\x00-\x1f]+"""
_KEY = r"[^:{}\[\],]*"
_SPACE_BEFORE_MORE = r"[ \t\n\r](?=[^ \t\n\r])"
_LITERAL_OR_NUMBER = (
    r"(?:(true|false|null)[^\S\n]*|(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*)(?=[,}\]#\n]|//|/\*|\Z)"
)


class Refused(Exception):  # noqa: N818 - it says what DeepSpeed does, it is not an error of ours
    """DeepSpeed raises when it reads the text.

    ``exception`` is the name of what it raises and ``str`` of this one its message; ``span`` is where.
    """

    def __init__(self, message: str, span: Span, exception: str) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.exception = exception


class DuplicateKeys(Refused):
    """DeepSpeed raises for two members of one name, which hjson itself takes."""


def parse(text: str) -> Node:
    """The tree that DeepSpeed reads in a file with this text; offsets count in the text as given."""
    return _HjsonReader(text).document()


class _Open:
    """An object or array that is being read; ``key`` and ``key_span`` wait for their value."""

    __slots__ = ("braces", "key", "key_span", "node")

    def __init__(self, node: Node, *, braces: bool = True) -> None:
        self.node = node
        self.braces = braces
        self.key = ""
        self.key_span = node.span

    def add(self, value: Node) -> None:
        if self.node.kind == "array":
            self.node.items.append(value)
        else:
            self.node.members.append(Member(self.key, self.key_span, value))


class _HjsonReader:
    def __init__(self, text: str) -> None:
        self.returns: list[int] = []  # the line feeds in ``self.text`` that follow a carriage return in the given text
        self.text = self._with_line_feeds(text)
        self.end = len(self.text)
        self.line_feed_before = (0, -1)  # a place and the last line feed before it, so as not to search a line twice
        self.last = self.text.rfind("\n")
        self.space = re.compile(_SPACE)
        self.literal_or_number = re.compile(_LITERAL_OR_NUMBER)
        self.string_run = re.compile(_STRING_RUN)

    def _with_line_feeds(self, text: str) -> str:
        """The text as Python's text mode gives it to hjson."""
        if "\r" not in text:
            return text
        lines = text.split("\r\n")
        at = -1
        for line in lines[:-1]:
            at += len(line) + 1
            self.returns.append(at)
        return "\n".join(lines).replace("\r", "\n")

    def span(self, start: int, end: int) -> Span:
        """A range of ``self.text`` as one of the given text."""
        if not self.returns:
            return Span(start, end)
        from bisect import bisect_left

        return Span(start + bisect_left(self.returns, start), end + bisect_left(self.returns, end))

    def error(self, message: str, pos: int, end: int | None = None) -> Refused:
        """Hjson's own exception."""
        message = message.replace("%r", repr(self.text[pos : pos + 1]))
        if end is None:
            return self.crash(_DECODE_ERROR, f"{message}: {self._place(pos)} (char {pos})", pos, min(pos + 1, self.end))
        places = f"{self._place(pos)} - {self._place(end)} (char {pos} - {end})"
        return self.crash(_DECODE_ERROR, f"{message}: {places}", pos, end)

    def crash(self, exception: str, message: str, start: int, end: int) -> Refused:
        """An exception of any kind, most of them not meant by hjson."""
        return Refused(message, self.span(start, end), exception)

    def _place(self, pos: int) -> str:
        line = self.text.count("\n", 0, pos) + 1
        column = pos - self.text.rfind("\n", 0, pos)
        return f"line {line} column {column}"

    def document(self) -> Node:
        """The whole text."""
        start = self._after_byte_order_mark()
        pos = self.next(start)
        if start == 0 and pos == self.end:
            return Node("object", self.span(0, 0))
        root, pos = self.tree(pos) if self.text.startswith(("{", "["), pos) else self.root_without_braces(pos)
        pos = self.next(pos)
        if pos < self.end:
            raise self.error("Extra data", pos, self.end)
        return root

    def _after_byte_order_mark(self) -> int:
        """Where hjson begins; it also knows a mark whose three bytes were decoded as three letters."""
        for mark in ("\ufeff", "\xef\xbb\xbf"):
            if self.text.startswith(mark):
                return len(mark)
        return 0

    def root_without_braces(self, pos: int) -> tuple[Node, int]:
        """The members of an object without braces, or else a lone scalar."""
        try:
            return self.tree(pos, braces=False)
        except Refused as refused:
            if refused.exception != _DECODE_ERROR:
                raise
            try:
                return self.scalar(pos)
            except Refused:
                raise refused from None

    def next(self, pos: int) -> int:
        """The place of the next character that is neither white space nor in a comment."""
        text = self.text
        while True:
            match = self.space.match(text, pos)
            pos = match.end() if match else pos
            if text.startswith(("#", "//"), pos):
                pos = self.line_end(pos)
            elif text.startswith("/*", pos):
                close = text.find("*/", pos + 2)
                if close == -1:
                    raise self.crash("IndexError", _PAST_THE_END, pos, self.end)
                pos = close + 2
            else:
                return pos

    def line_end(self, pos: int) -> int:
        """Where the line ends that ``pos`` is in."""
        end = self.text.find("\n", pos)
        return self.end if end == -1 else end

    def tree(self, pos: int, *, braces: bool = True) -> tuple[Node, int]:
        """The object or array at ``pos``, and the place after it. A loop, so that Python's stack is not a limit."""
        stack = [self.opened(pos) if braces else _Open(Node("object", self.span(pos, pos)), braces=False)]
        pos += braces
        while True:
            pos = self.next(pos)
            current = stack[-1]
            if self.ends(current, pos):
                pos += current.braces
                self.close(current, pos)
                stack.pop()
                if not stack:
                    return current.node, pos
                stack[-1].add(current.node)
            else:
                pos = self.value_begins(current, pos)
                if self.text.startswith(("{", "["), pos):
                    if len(stack) == MOST_NESTING_HJSON:
                        raise self.crash("RecursionError", "maximum recursion depth exceeded", pos, pos + 1)
                    stack.append(self.opened(pos))
                    pos += 1
                    continue
                value, pos = self.scalar(pos)
                current.add(value)
            pos = self.next(pos)
            pos += self.text.startswith(",", pos)

    def opened(self, pos: int) -> _Open:
        """The container whose bracket is at ``pos``."""
        return _Open(Node("object" if self.text[pos] == "{" else "array", self.span(pos, pos + 1)))

    def ends(self, current: _Open, pos: int) -> bool:
        """Whether the container has no more elements."""
        if not current.braces:
            return pos == self.end and bool(current.node.members)
        return self.text.startswith("]" if current.node.kind == "array" else "}", pos)

    def close(self, current: _Open, end: int) -> None:
        """End a container before ``end``, with DeepSpeed's refusal of duplicate keys."""
        current.node.span.end = self.span(end, end).end
        uses: dict[str, list[Member]] = {}
        for member in current.node.members:
            uses.setdefault(member.key, []).append(member)
        twice = [key for key, members in uses.items() if len(members) > 1]
        if twice:
            second = uses[twice[0]][1]
            raise DuplicateKeys(f"Duplicate keys in DeepSpeed config: {twice}", second.key_span, "ValueError")

    def value_begins(self, current: _Open, pos: int) -> int:
        """Where the value of the element at ``pos`` begins, after the key if it has one."""
        if current.node.kind == "object":
            current.key, end = self.key(pos)
            current.key_span = self.span(pos, end)
            pos = self.next(end)
            if not self.text.startswith(":", pos):
                raise self.error("Expecting ':' delimiter", pos)
            pos = self.next(pos + 1)
        elif pos == self.end and not current.node.items:
            raise self.error("End of input while parsing an array (did you forget a closing ']'?)", pos)
        return pos

    def key(self, pos: int) -> tuple[str, int]:
        """A key, and the place after it. One without quotes may hold anything but brackets, commas and white space."""
        text = self.text
        if text.startswith(('"', "'"), pos):
            return self.string(pos)
        match = re.compile(_KEY).match(text, pos)
        end = match.end() if match else pos
        if end == self.end:
            raise self.error("Bad key name (eof)", end)
        if text[end] != ":":
            raise self.error(
                f"Found '{text[end]}' where a key name was expected "
                "(check your syntax or use quotes if the key name includes {}[],: or whitespace)",
                pos,
            )
        if end == pos:
            raise self.error("Found ':' but no key name (for an empty key name use quotes)", pos)
        key = text[pos:end]
        without_space = key.rstrip(" \t\n\r")
        space = re.search(_SPACE_BEFORE_MORE, without_space)
        if space:
            raise self.error("Found whitespace in your key name (use quotes to include)", pos + space.start())
        # Where space follows, hjson strips more than the space that it knows.
        return (key if key == without_space else key.rstrip()), pos + len(without_space)

    def scalar(self, pos: int) -> tuple[Node, int]:
        """A value that is neither object nor array, and the place after it."""
        if pos == self.end:
            raise self.error("Expecting value", pos)
        if self.text.startswith("'''", pos):
            return self.multiline(pos)
        if self.text.startswith(('"', "'"), pos):
            value, end = self.string(pos)
            return Node("string", self.span(pos, end), value), end
        return self.quoteless(pos)

    def quoteless(self, pos: int) -> tuple[Node, int]:
        """A literal or number if one of them ends where something else may follow, else all the rest of the line."""
        text = self.text
        if text.startswith(("}", "]", ",", ":"), pos):
            raise self.error("Found a punctuator character when expecting a quoteless string (check your syntax)", pos)
        match = self.literal_or_number.match(text, pos)
        if match:
            span = self.span(pos, pos + len(match[0].rstrip()))
            literal, integer, fraction, exponent = match.groups()
            if literal:
                value = _LITERALS[literal]
                return Node("null" if value is None else "boolean", span, value), match.end()
            if fraction or exponent:
                return self.real(float(integer + (fraction or "") + (exponent or "")), span), match.end()
            return self.integer(integer, span), match.end()
        end = self.line_end(pos)
        rest = text[pos:end]
        start = pos + len(rest) - len(rest.lstrip())
        return Node("string", self.span(start, start + len(rest.strip())), rest.strip()), end

    def integer(self, digits: str, span: Span) -> Node:
        """An integer; int() refuses the ones with very many digits."""
        count = len(digits.lstrip("-"))
        if count > MOST_DIGITS:
            message = (
                f"Exceeds the limit ({MOST_DIGITS} digits) for integer string conversion: value has {count} digits; "
                "use sys.set_int_max_str_digits() to increase the limit"
            )
            raise Refused(message, span, "ValueError")
        return Node("integer", span, int(digits))

    def real(self, number: float, span: Span) -> Node:
        """A number with a fraction or an exponent; hjson asks for the integer part of each, also of infinity."""
        if number - number != 0:
            raise Refused("cannot convert float infinity to integer", span, "OverflowError")
        node = Node("float", span, number)
        node.value = as_read(node)
        if isinstance(node.value, int):
            node.kind = "integer"
        return node

    def string(self, begin: int) -> tuple[str, int]:
        """A string in quotes of either kind, and the place after it."""
        text = self.text
        quote = text[begin]
        pieces: list[str] = []
        pos = begin + 1
        while True:
            run = self.string_run.match(text, pos)
            if run:
                pieces.append(run[0])
                pos = run.end()
            if pos == self.end:
                raise self.error(_UNTERMINATED, begin)
            char = text[pos]
            pos += 1
            if char == quote:
                return "".join(pieces), pos
            if char == "\\":
                char, pos = self.escape(begin, pos)
            elif char not in {'"', "'"}:
                raise self.error("Invalid control character %r at", pos)  # hjson names the character after it
            pieces.append(char)

    def escape(self, begin: int, pos: int) -> tuple[str, int]:
        """The character for the escape whose letter is at ``pos``, in the string that begins at ``begin``."""
        if pos == self.end:
            raise self.error(_UNTERMINATED, begin)
        letter = self.text[pos]
        if letter != "u":
            if letter not in _ESCAPES:
                raise self.error("Invalid \\X escape sequence %r", pos)
            return _ESCAPES[letter], pos + 1
        unit = self.unit(pos + 1)
        if unit is None:
            raise self.error(_BAD_UNIT, pos - 1)
        pos += 5
        if unit & 0xFC00 == 0xD800 and self.text.startswith("\\u", pos):
            low = self.unit(pos + 2)
            if low is None and self.has_unit(pos + 2):
                raise self.error(_BAD_UNIT, pos)
            if low is not None and low & 0xFC00 == 0xDC00:
                return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)), pos + 6
        if unit < 0:
            raise self.crash("ValueError", "chr() arg not in range(0x110000)", pos - 6, pos)
        return chr(unit), pos

    def has_unit(self, pos: int) -> bool:
        """Whether hjson tries to read four hexadecimal digits here."""
        digits = self.text[pos : pos + 4]
        return len(digits) == 4 and digits[1] not in "xX"

    def unit(self, pos: int) -> int | None:
        """Four hexadecimal digits as hjson reads them: with int(), which also takes signs, spaces and underscores."""
        try:
            return int(self.text[pos : pos + 4], 16) if self.has_unit(pos) else None
        except ValueError:
            return None

    def multiline(self, begin: int) -> tuple[Node, int]:
        """A string in triple quotes: without the indentation that the line with its first quote has up to there."""
        text = self.text
        indent = begin - 1 - self.last_line_feed(begin)
        start = begin + 3
        while text.startswith((" ", "\t"), start):
            start += 1
        if start == self.end:
            raise self.crash("IndexError", _PAST_THE_END, begin, self.end)
        close = text.find("'''", start)
        if close == -1:
            raise self.error("Bad multiline string", self.end)
        first, *lines = text[start:close].split("\n")
        lines = [line[:indent].lstrip(" \t") + line[indent:] for line in lines]
        if first or not lines:
            lines.insert(0, first)
        value = "\n".join(lines).removesuffix("\n")
        return Node("string", self.span(begin, close + 3), value), close + 3

    def last_line_feed(self, pos: int) -> int:
        """The last line feed before ``pos``; hjson counts down past the start of the text and goes on from its end."""
        searched, found = self.line_feed_before
        if pos < searched:
            searched, found = 0, -1
        found = max(found, self.text.rfind("\n", searched, pos))
        self.line_feed_before = (pos, found)
        if found != -1:
            return found
        if self.last == -1:
            raise self.crash("IndexError", _PAST_THE_END, pos, pos + 3)
        return self.last - self.end
