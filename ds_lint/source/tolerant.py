"""The JSON reader for a text with something wrong in it: every broken construct is one issue, and reading goes on.

Whatever the text, each value that a person would see in it ends up in the tree, so that the rules about keys and values
can do their work before the syntax is repaired. The kinds of issue are listed in ``dialect.py``; one with an empty span
is at the place where something is missing.

``_TolerantReader.step`` looks at one token at a time; the open objects and arrays are on a stack of its own. Nothing in
here may look further ahead than it consumes, or else it remembers what it saw: a hostile text must not take hours.
"""

from __future__ import annotations

import re

from ds_lint.source.document import SyntaxIssue
from ds_lint.source.escapes import unescape
from ds_lint.source.limits import MOST_BITS, MOST_DIGITS, MOST_NESTING_HJSON
from ds_lint.source.tree import Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.tree import KeyPath, Scalar

_MOST_ISSUES = 10_000  # more than anybody repairs: there the reader stops, as each is a finding with its lines
_MOST_NESTING = 10_000
_MOST_NESTING_TO_GUESS = 100  # brackets missing at the end; with more, the indentation does not help
_MOST_MOVED = 100_000  # members of objects without a key, each in all objects around it
_MOST_FOUND = 100  # code points of a construct that an issue repeats
_MOST_PATH_PARTS = 64  # what is nested deeper, or has longer names than the next line says, has no key path
_MOST_PATH = 1000

_SPACE = re.compile(r"[ \t\n\r]*")
_ODD_SPACE = re.compile(r"(?:[^\S \t\n\r]|[\x00\ufeff\u200b])+")  # looks like white space or like nothing, but is text
_EXTRA_COMMAS = re.compile(r",(?:[ \t\n\r]*,)*")
_INDENTATION = re.compile(r"^[ \t]*", re.MULTILINE)
_TEXT_BEFORE_VALUE = re.compile(r"[:=;](?:[ \t\n\r]*[:=;])*")
_COLON = re.compile(r":|=>?")
_COLON_FOLLOWS = re.compile(r"[ \t\n\r]*:")
_COLON_OR_EQUALS_FOLLOWS = re.compile(r"[ \t\n\r]*[:=]")
_BARE_KEY_FOLLOWS = re.compile(r"[\w./-]+[ \t\n\r]*:")
_STRING_MAY_END = re.compile(r"[ \t\n\r]*(?:[,:}\]]|\Z)")
_REST_OF_STRING = {
    '"': re.compile(r'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*'),
    "'": re.compile(r"[^'\\\n]*(?:\\[^\n][^'\\\n]*)*"),
}
_ESCAPE_OR_CONTROL = re.compile(
    r"""\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|(?P<bad>\\(?:u[0-9a-fA-F]{0,3}|[^\n]?))|(?P<control>[\x00-\x1f]+)"""
)
_LITERAL_OR_NUMBER = re.compile(
    r"(?:(true|false|null)|(-?(?:0|[1-9][0-9]*))((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?))"
    r"(?=[ \t\n\r,{}\[\]:;#\"']|//|/\*|\Z)"
)
# Bare text goes to the end of the line, the next delimiter, quote or comment. "http://x" and "C:\x" are bare text.
_BARE_CHARACTER = r"""(?:[^\s,{}\[\]"':;#/]|:(?=[^\s,}\]])|(?<=:)/|/(?![/*]))"""
_BARE_TEXT = re.compile(rf"{_BARE_CHARACTER}+(?:[ \t]+{_BARE_CHARACTER}+)*")
_KEY_WORD = r"""(?!#|//|/\*)[^\s,{}\[\]"':=;]+"""
_BARE_KEY = re.compile(rf"{_KEY_WORD}(?:[ \t]+{_KEY_WORD})*")
_AFTER_KEY = " \t\n\r:=,}]/#"  # the first character after a whole key in quotes; nothing, too

_LITERALS = {"true": True, "false": False, "null": None}
_PYTHON_LITERALS: dict[str, Scalar] = {
    **dict.fromkeys(("True", "TRUE"), True),
    **dict.fromkeys(("False", "FALSE"), False),
    **dict.fromkeys(("None", "Null", "NULL"), None),
}
_INFINITE = (float("inf"), float("-inf"))
_NOT_A_NUMBER = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_LOOSE_HEXADECIMAL = re.compile(r"[+-]?0[xX][0-9a-fA-F]+")
_LOOSE_INTEGER = re.compile(r"[+-]?[0-9][0-9_]*")
_LOOSE_REAL = re.compile(
    r"[+-]?(?:(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?|[Ii]nf(?:inity)?|nan)"
)

# Placeholders that are filled in before DeepSpeed sees the file. Without quotes a word in capitals is one, too.
_PLACEHOLDER = r"\$\{[^{}\n]*\}|\$\([^()\n]*\)|\$[A-Za-z_]\w*|\{\{[^{}\n:]*\}\}|%\([^()\n]*\)[a-z]|<[A-Za-z][^<>{}\n]*>"
_BARE_TEMPLATE = re.compile(rf"(?:[\w.+/-]*(?:{_PLACEHOLDER}))+[\w.+/-]*")
_TEMPLATE_NAME = re.compile(r"CONFIG_\w+|__[A-Za-z]\w*__|[A-Z][A-Z0-9]+|[A-Z][A-Z0-9]*_\w*|[A-Z]\w*_[A-Z0-9_]+")
_CAPITAL_WORDS = frozenset(
    [
        "ADAM",
        "ADAMW",
        "ADAGRAD",
        "AUTO",
        "BF16",
        "CPU",
        "FP16",
        "FP32",
        "GPU",
        "LAMB",
        "LION",
        "MPI",
        "MUON",
        "NCCL",
        "NONE",
        "NVME",
        "SGD",
    ]
)
_TEMPLATE_BLOCK = re.compile(r"\{%[^{}\n]*%\}|\{#[^{}\n]*#\}")
# In quotes a placeholder has to be unmistakable, because most strings mean themselves. DeepSpeed expands none of them,
# not even ${HOME}.
_QUOTED_TEMPLATE = re.compile(
    r"\$\{[^{}]+\}|\{\{[^{}]*\}\}|\{%[^{}]*%\}|%\([A-Za-z_]\w*\)[a-z]|(?:\A|/)\$[A-Za-z_]\w*"
    r"|\A(?:<[A-Za-z][^<>]*>|CONFIG_\w+|__[A-Za-z]\w*__)\Z"
)
_COMMENT_KEYS = frozenset({"comment", "comments", "description", "note", "notes"})
# What the blocks of a template make of keys and commas shows only when it is filled in.
_LEFT_TO_THE_TEMPLATE = frozenset({"duplicate-key", "extra-comma", "missing-comma", "trailing-comma"})


def parse(text: str) -> tuple[Node | None, list[SyntaxIssue]]:
    """The root, None if there is nothing like a value in the text, and the issues in the order of the text.

    If a bracket is missing, a second reading asks the indentation where it should have been. Its answer counts when it
    makes all the others match.
    """
    reader = _TolerantReader(text)
    root = reader.parse()
    if 0 < reader.missing_at_end < _MOST_NESTING_TO_GUESS and "\n" in text:
        again = _TolerantReader(text, by_indentation=True)
        root_by_indentation = again.parse()
        if not again.missing_at_end:
            return root_by_indentation, again.all_issues()
    return root, reader.all_issues()


class _TooMuchError(Exception):
    """The text is not worth reading to its end."""


class _Frame:
    """An object or array that is still open."""

    __slots__ = ("braces", "colon", "comma", "detached", "end", "indent", "key", "lenient", "node", "ready", "seen")

    def __init__(self, node: Node, indent: int, *, braces: bool = True, detached: bool = False) -> None:
        self.node = node
        self.indent = indent  # of the line with the opening bracket
        self.braces = braces
        self.detached = detached  # there is no key for it, so what is in it goes to the parent
        self.seen: dict[str, Member] = {}
        self.key: str | None = None  # of the element that is being read
        self.colon = node.span  # the one before the value that is being read
        self.ready = True  # an element may begin; otherwise a comma comes first
        self.lenient = False  # after unintelligible text, a comma may or may not be missing
        self.comma = -1  # the place of the comma that nothing has followed yet
        self.end = node.span.end  # of what has been read of it

    @property
    def is_object(self) -> bool:
        return self.node.kind == "object"

    @property
    def closer(self) -> str:
        return "}" if self.node.kind == "object" else "]"


class _TolerantReader:
    def __init__(self, text: str, *, by_indentation: bool = False) -> None:
        self.text = text
        self.end = len(text)
        self.pos = 0
        self.frames: list[_Frame] = []
        self.open = {"}": 0, "]": 0}  # how many of the frames wait for which bracket
        self.missing_at_end = 0
        self.moved = 0
        self.repeated: set[int] = set()  # where a duplicate key begins
        self.issues: list[SyntaxIssue] = []
        self.deepest = 0
        self.deep_nesting: SyntaxIssue | None = None
        self.bare_template: SyntaxIssue | None = None
        self.quoted_template: SyntaxIssue | None = None
        self.has_template_blocks = False
        self.last_block_comment_end = text.rfind("*/")
        self.by_indentation = by_indentation
        indents = list(_INDENTATION.finditer(text)) if by_indentation else []
        self.lines = [match.start() for match in indents]
        self.indents = [match.end() - match.start() for match in indents]
        # What was seen ahead, so that no part of the text is searched again and again.
        self.strings: dict[str, tuple[int, int, int]] = {}  # by quote: see string_end
        self.longer_strings: dict[tuple[str, int], int] = {}  # by quote and line end: see longer_string_end
        self.missing_triples: set[str] = set()

    # Issues

    def report(self, kind: str, start: int, end: int, *, found: str | None = None, related: Span | None = None) -> None:
        """Note an issue at the place that is being read."""
        self.issues.append(self.issue(kind, start, end, found=found, related=related))
        if len(self.issues) > _MOST_ISSUES:
            raise _TooMuchError

    def issue(
        self, kind: str, start: int, end: int, *, found: str | None = None, related: Span | None = None
    ) -> SyntaxIssue:
        """An issue at the place that is being read."""
        text = self.text[start : min(end, start + _MOST_FOUND)] if found is None else found[:_MOST_FOUND]
        return SyntaxIssue(kind, Span(start, end), text, self.path(), related)

    def path(self) -> KeyPath | None:
        """The key path of the element that is being read."""
        if len(self.frames) > _MOST_PATH_PARTS:
            return None
        parts = tuple(frame.key for frame in self.frames if frame.key is not None)
        return parts if parts and sum(map(len, parts)) < _MOST_PATH else None

    def all_issues(self) -> list[SyntaxIssue]:
        """The issues in the order of the text, with one for all the placeholders."""
        template = self.bare_template or self.quoted_template
        issues = self.issues
        if self.has_template_blocks:
            issues = [issue for issue in issues if issue.kind not in _LEFT_TO_THE_TEMPLATE]
        if template:
            issues.append(template)
        return sorted(issues, key=lambda issue: issue.span.start)

    def retype(self, kind: str, better: str, start: int = 0) -> None:
        """Correct the kind of the last issue of a kind, which is at ``start`` or later."""
        for issue in reversed(self.issues):
            if issue.kind == kind and issue.span.start >= start:
                issue.kind = better
                issue.path = self.path()
                return
            if issue.span.start < start:
                return

    # The whole text

    def parse(self) -> Node | None:
        """Read everything."""
        if self.text.startswith("\ufeff"):
            self.report("bom", 0, 1)
            self.pos = 1
        root = None
        try:
            root = self.root()
            while self.frames:
                outermost = self.frames[0]
                self.step()
                if not self.frames:
                    self.after_root(outermost)
        except _TooMuchError:
            for frame in self.frames:
                frame.node.span.end = self.end
        return root

    def root(self) -> Node | None:
        """The root, opened if it is an object or array."""
        self.skip()
        start = self.pos
        if start == self.end:
            if all(issue.kind in {"bom", "comment"} for issue in self.issues):
                self.report("empty", 0, self.end)
            return None
        if self.at_opening_bracket():
            if self.text[start] == "[":
                self.report("not-an-object", start, start + 1)
            return self.open_container()
        if self.at_member():
            self.report("no-braces", start, start)
            return self.push(_Frame(Node("object", Span(start, start)), 0, braces=False)).node
        brace = self.text.find("{", start)
        if self.text[start] not in "\"'" and brace != -1:
            self.report("stray-text", start, start + len(self.text[start:brace].rstrip()))
            self.pos = brace
            return self.open_container()
        return self.root_scalar()

    def root_scalar(self) -> Node | None:
        """A text that is one string, number or the like, or no config at all."""
        start = self.pos
        before = len(self.issues)
        root = self.scalar()
        if any(issue.kind in {"stray-text", "unquoted-value"} for issue in self.issues[before:]):
            del self.issues[before:]
            self.pos = start
            self.skip_rest()
            return None
        self.report("not-an-object", start, self.pos)
        self.skip_rest()
        return root

    def after_root(self, root: _Frame) -> None:
        """See what follows the root. If it is a member, the bracket that ended the root was one too many."""
        self.skip()
        start = self.pos
        if root.braces and root.is_object:
            self.pos += self.text.startswith(",", start)
            self.skip()
            if self.at_member():
                bracket = root.node.span.end - 1
                self.report("stray-text", bracket, bracket + 1)
                root.ready = root.lenient = True
                root.comma = -1 if self.text[start] != "," else start
                self.push(root)
                return
        self.pos = start
        self.skip_rest()

    def skip_rest(self) -> None:
        """Give up on what is left of the text."""
        self.skip()
        rest = self.text[self.pos :].rstrip()
        if rest:
            self.report("stray-text", self.pos, self.pos + len(rest))
        self.pos = self.end

    def step(self) -> None:
        """Read the next delimiter or element of the innermost container."""
        self.skip()
        frame = self.frames[-1]
        char = self.text[self.pos : self.pos + 1]
        if not char:
            self.end_of_text()
        elif char in "}]":
            self.closing_bracket(frame, char)
        elif char == ",":
            self.comma(frame)
        elif not frame.ready:
            self.after_element(frame, char)
        elif frame.is_object:
            self.member(frame, char)
        else:
            self.item(frame, char)

    def skip(self) -> None:
        """Go past white space, and past comments and the like with a word about them; comments in a row are one."""
        text = self.text
        comment = None
        while True:
            match = _SPACE.match(text, self.pos)
            start = self.pos = match.end() if match else self.pos
            char = text[start : start + 1]
            if char in '"{}[],:':  # of an empty text, too
                if not (char == "{" and self.template_block()):
                    return
            elif self.comment():
                if comment is None:
                    self.report("comment", start, self.pos)
                    comment = self.issues[-1]
                comment.span.end = self.pos
            elif text.startswith("/*", start):
                self.pos = self.line_end(start)
                self.report("unclosed", start, start + 2, related=Span(self.pos, self.pos))
            else:
                match = _ODD_SPACE.match(text, start)
                if match is None:
                    return
                self.pos = match.end()
                self.report("stray-text", start, self.pos)

    def comment(self) -> bool:
        """Skip a comment if one begins here. A block comment without an end is none: it is taken to be a line long."""
        start = self.pos
        if self.text.startswith(("#", "//"), start):
            self.pos = self.line_end(start)
        elif self.text.startswith("/*", start) and start + 2 <= self.last_block_comment_end:
            self.pos = self.text.index("*/", start + 2) + 2
        return self.pos > start

    def template_block(self) -> bool:
        """Skip what Jinja takes out of the text: ``{% if x %}``."""
        match = _TEMPLATE_BLOCK.match(self.text, self.pos)
        if match is None:
            return False
        self.has_template_blocks = True
        self.template(self.pos, match.end())
        self.pos = match.end()
        return True

    def template(self, start: int, end: int) -> None:
        """Remember a placeholder without quotes."""
        if self.bare_template is None:
            self.bare_template = self.issue("template", start, end)

    def line_end(self, pos: int) -> int:
        """Where the line ends that ``pos`` is in; a carriage return ends one too, as files are read in text mode."""
        end = self.text.find("\n", pos)
        if end == -1:
            end = self.end
        carriage_return = self.text.find("\r", pos, end)
        return end if carriage_return == -1 else carriage_return

    # Objects and arrays

    def at_opening_bracket(self) -> bool:
        """Whether an object or array begins here; a placeholder may begin like one."""
        if self.text.startswith("{{", self.pos):
            return _BARE_TEMPLATE.match(self.text, self.pos) is None
        return self.text.startswith(("{", "["), self.pos)

    def open_container(self, *, detached: bool = False) -> Node:
        """Open the object or array that begins here."""
        kind = "object" if self.text[self.pos] == "{" else "array"
        node = Node(kind, Span(self.pos, self.pos + 1))
        self.push(_Frame(node, self.line(self.pos)[1], detached=detached))
        self.pos += 1
        return node

    def push(self, frame: _Frame) -> _Frame:
        """Make a container the innermost one."""
        self.frames.append(frame)
        self.open[frame.closer] += frame.braces
        depth = len(self.frames)
        if depth > MOST_NESTING_HJSON:
            if self.deep_nesting is None:
                self.deep_nesting = self.issue("deep-nesting", self.pos, self.pos + 1)
                self.issues.append(self.deep_nesting)
            self.deepest = max(self.deepest, depth)
            self.deep_nesting.found = str(self.deepest)
            if depth > _MOST_NESTING:
                raise _TooMuchError
        return frame

    def pop(self, end: int) -> None:
        """The innermost container ends."""
        frame = self.frames.pop()
        self.open[frame.closer] -= frame.braces
        frame.node.span.end = end
        if self.frames:
            outer = self.frames[-1]
            if frame.detached and outer.is_object:
                self.moved += len(frame.node.members)
                if self.moved > _MOST_MOVED:
                    raise _TooMuchError
                for member in frame.node.members:
                    self.add_member(outer, member)
            self.element_ends(outer, end)

    def element_ends(self, frame: _Frame, end: int) -> None:
        """An element of a container ends; a comma or a bracket should follow."""
        frame.ready = frame.lenient = False
        frame.key = None
        frame.comma = -1
        frame.end = end

    def add_member(self, frame: _Frame, member: Member) -> None:
        """Add a member to an object."""
        frame.node.members.append(member)
        first = frame.seen.setdefault(member.key, member)
        span = member.key_span
        if first is not member and span.start not in self.repeated:
            self.repeated.add(span.start)  # one without a key around it is there again in each object further out
            frame.key = member.key
            self.report("duplicate-key", span.start, span.end, related=first.key_span)

    def comma(self, frame: _Frame) -> None:
        """Go past a comma, or past several in a row of which only the first can be right."""
        start = self.pos
        match = _EXTRA_COMMAS.match(self.text, start)
        if match and frame.ready and not frame.lenient:
            self.pos = match.end()
            self.report("extra-comma", start, self.pos)
        else:
            self.pos += 1
            frame.comma = start
            frame.ready = True
        frame.lenient = False

    def closing_bracket(self, frame: _Frame, bracket: str) -> None:
        """Close the innermost container, or another one if the bracket is not for this one."""
        if bracket == frame.closer and not self.is_for_outer(frame):
            self.trailing_comma(frame)
            self.pos += 1
            self.pop(self.pos)
            if not frame.braces:
                self.retype("no-braces", "unopened")
        elif self.open[bracket]:
            self.trailing_comma(frame)
            start = frame.node.span.start
            frame.key = None
            self.report("unclosed", start, start + 1, found=frame.closer, related=Span(self.pos, self.pos))
            self.pop(frame.end)
        else:
            self.skip_text(frame, self.pos + 1)

    def trailing_comma(self, frame: _Frame) -> None:
        """A container ends: there should be no comma before."""
        if frame.comma != -1:
            self.report("trailing-comma", frame.comma, frame.comma + 1)

    def is_for_outer(self, frame: _Frame) -> bool:
        """Whether the indentation says that a bracket ends an outer container: it is less than this one's."""
        if not self.by_indentation or self.open[frame.closer] < 2:
            return False
        start, indent = self.line(self.pos)
        return start + indent == self.pos and indent < frame.indent

    def line(self, pos: int) -> tuple[int, int]:
        """The start of a line and its indentation; a reading that is not by indentation does not ask."""
        if not self.by_indentation:
            return 0, 0
        from bisect import bisect_right

        index = bisect_right(self.lines, pos) - 1
        return self.lines[index], self.indents[index]

    def end_of_text(self) -> None:
        """Close what is open. All the brackets that are missing at the end are one mistake."""
        missing = [frame.closer for frame in reversed(self.frames) if frame.braces]
        if missing:
            self.missing_at_end = len(missing)
            frame = self.frames[-1]
            start = frame.node.span.start
            end = max(frame.end, frame.comma + 1)
            self.report("unclosed", start, start + 1, found="".join(missing), related=Span(end, end))
        else:
            self.trailing_comma(self.frames[-1])
        while self.frames:
            self.pop(self.frames[-1].end)

    # Elements

    def member(self, frame: _Frame, char: str) -> None:
        """Read a member of an object."""
        start = self.pos
        if char == ":" or self.at_opening_bracket():
            self.report("missing-key", start, start + 1)
            self.pos += char == ":"
            self.value(frame, Span(start, start + 1))
            return
        before = len(self.issues)
        key = self.quoted_key() if char in {'"', "'"} else self.bare_key(frame)
        if key is None:
            return
        frame.key = key
        path = self.path()
        for issue in self.issues[before:]:
            issue.path = path
        self.after_key(frame, key, Span(start, self.pos))

    def quoted_key(self) -> str:
        """Read a key in quotes. One whose last quote is missing goes to the colon."""
        start = self.pos
        close = self.string_end(start)
        if close == -1 or self.text[close + 1 : close + 2] not in _AFTER_KEY:
            line_end = self.strings[self.text[start]][1]
            colon = self.text.find(":", start, line_end)
            if colon != -1:
                self.report("unterminated-string", start, colon)
                self.pos = colon
                return self.text[start + 1 : colon]
        return self.string()

    def bare_key(self, frame: _Frame) -> str | None:
        """Read a key without quotes, if it is one. A placeholder may also stand for whole members."""
        start = self.pos
        match = _BARE_TEMPLATE.match(self.text, start)
        if match:
            self.pos = match.end()
            self.template(start, self.pos)
            if _COLON_FOLLOWS.match(self.text, self.pos):
                return match[0]
            self.element_ends(frame, self.pos)
            return None
        match = _BARE_KEY.match(self.text, start)
        if match and _COLON_OR_EQUALS_FOLLOWS.match(self.text, match.end()):
            self.pos = match.end()
            self.report("unquoted-key", start, self.pos)
            return match[0]
        self.skip_text(frame, match.end() if match else start + 1)
        return None

    def after_key(self, frame: _Frame, key: str, span: Span) -> None:
        """Read what follows a key: a colon and a value, if all is well."""
        self.skip()
        colon = _COLON.match(self.text, self.pos)
        if colon:
            if colon[0] != ":":
                self.report("missing-colon", self.pos, colon.end())
            self.pos = colon.end()
            self.value(frame, Span(*colon.span()), key, span)
        elif self.pos == self.end or self.text[self.pos] in ",}]" or self.at_member():
            self.report_missing_value(span)
            lenient = self.at_member()
            self.add_member(frame, Member(key, span, Node("missing", Span(span.end, span.end))))
            self.element_ends(frame, span.end)
            frame.ready = frame.lenient = lenient
        else:
            self.report("missing-colon", span.end, span.end)
            self.value(frame, Span(span.end, span.end), key, span)

    def value(self, frame: _Frame, colon: Span, key: str | None = None, key_span: Span | None = None) -> None:
        """Read the value of a member; one without a key is read only to get past it."""
        frame.key = key
        frame.colon = colon
        self.skip()
        match = _TEXT_BEFORE_VALUE.match(self.text, self.pos)
        if match:
            self.pos = match.end()
            self.report("stray-text", match.start(), self.pos)
            self.skip()
        opens = self.at_opening_bracket()
        if opens:
            node = self.open_container(detached=key is None)
        elif self.pos == self.end or self.text[self.pos] in ",}]":
            self.report_missing_value(colon)
            node = Node("missing", Span(colon.end, colon.end))
        else:
            node = self.scalar()
        if key is not None and key_span is not None:
            self.add_member(frame, Member(key, key_span, node))
        if not opens:
            self.element_ends(frame, node.span.end)

    def report_missing_value(self, span: Span) -> None:
        """Note that a value is missing, unless the text ends too early anyway."""
        if self.pos < self.end or not self.frames[0].braces:
            self.report("missing-value", span.start, span.end)

    def item(self, frame: _Frame, char: str) -> None:
        """Read an item of an array."""
        frame.key = str(len(frame.node.items))
        if char in ":;=":
            self.skip_text(frame, self.pos + 1)
        elif self.at_opening_bracket():
            frame.node.items.append(self.open_container())
        else:
            node = self.scalar()
            frame.node.items.append(node)
            self.element_ends(frame, node.span.end)

    def after_element(self, frame: _Frame, char: str) -> None:
        """Something else than a comma or a closing bracket follows an element."""
        if char == ":":
            self.late_colon(frame)
        elif char == ";":
            self.report("missing-comma", self.pos, self.pos + 1)
            self.pos += 1
            frame.ready = True
        elif self.at_member() if frame.is_object else self.at_item(char):
            self.report("missing-comma", frame.end, frame.end)
            frame.ready = True
        elif self.at_opening_bracket() or _BARE_TEMPLATE.match(self.text, self.pos):
            frame.ready = True
        elif char in {'"', "'"}:
            self.skip_text(frame, max(self.string_end(self.pos), self.pos) + 1)
        else:
            match = _BARE_TEXT.match(self.text, self.pos)
            self.skip_text(frame, match.end() if match else self.pos + 1)

    def late_colon(self, frame: _Frame) -> None:
        """A colon follows an element. A string before it is the key of the next member, and a value is missing."""
        colon = Span(self.pos, self.pos + 1)
        last = frame.node.members[-1] if frame.node.members else None
        if last and last.value.kind == "string" and last.value.span.end == frame.end:
            key, span = str(last.value.value), last.value.span
            last.value = Node("missing", Span(frame.colon.end, frame.colon.end))
            frame.key = key
            self.retype("unquoted-value", "unquoted-key", span.start)
            frame.key = last.key
            self.report("missing-value", frame.colon.start, frame.colon.end)
            self.pos += 1
            self.value(frame, colon, key, span)
        elif frame.is_object:
            self.skip_text(frame, colon.end)
            self.value(frame, colon)
        else:
            frame.ready = True
            self.skip_text(frame, colon.end)

    def skip_text(self, frame: _Frame, end: int) -> None:
        """Skip unintelligible text."""
        self.report("stray-text", self.pos, end)
        self.pos = end
        if frame.ready:
            frame.lenient = True
            frame.comma = -1
        else:
            frame.end = end

    def at_member(self) -> bool:
        """Whether a key and a colon come next."""
        if not self.text.startswith(('"', "'"), self.pos):
            return _BARE_KEY_FOLLOWS.match(self.text, self.pos) is not None
        close = self.string_end(self.pos)
        return close != -1 and _COLON_FOLLOWS.match(self.text, close + 1) is not None

    def at_item(self, char: str) -> bool:
        """Whether the next item of an array comes next, and not some left-over of the last one."""
        if char in {'"', "'"}:
            return self.string_end(self.pos) != -1
        return self.at_opening_bracket() or char != "="

    # Scalars

    def scalar(self) -> Node:
        """Read a value that is neither object nor array."""
        start = self.pos
        if self.text.startswith(('"', "'"), start):
            return self.string_node()
        match = _LITERAL_OR_NUMBER.match(self.text, start)
        if match:
            self.pos = match.end()
            literal, integer, real = match.groups()
            if literal:
                return self.constant(start, _LITERALS[literal])
            return self.real(start, float(match[0])) if real else self.integer(start, integer)
        match = _BARE_TEMPLATE.match(self.text, start)
        if match:
            return self.bare_template_node(match.end())
        match = _BARE_TEXT.match(self.text, start)
        if match:
            return self.bare_text(match[0])
        self.pos += 1
        self.report("stray-text", start, self.pos)
        return Node("missing", Span(start, self.pos))

    def constant(self, start: int, value: Scalar) -> Node:
        """A true, false or null that has been read."""
        return Node("null" if value is None else "boolean", Span(start, self.pos), value)

    def integer(self, start: int, digits: str) -> Node:
        """An integer that has been read. The largest that can be printed stands for all that cannot."""
        if len(digits.lstrip("+-")) > MOST_DIGITS:
            self.report("long-integer", start, self.pos)
            digits = digits[0].strip("+0123456789") + "9" * MOST_DIGITS
        return Node("integer", Span(start, self.pos), int(digits))

    def integer_of(self, start: int, value: int) -> Node:
        """An integer of another base, which may have more digits than can be printed."""
        if value.bit_length() > MOST_BITS:
            value = (10**MOST_DIGITS - 1) * (1 if value > 0 else -1)
        return Node("integer", Span(start, self.pos), value)

    def real(self, start: int, value: float) -> Node:
        """A number with a fraction or an exponent that has been read."""
        if value in _INFINITE:
            self.report("infinite-number", start, self.pos)
        return Node("float", Span(start, self.pos), value)

    def bare_template_node(self, end: int) -> Node:
        """A placeholder in the place of a value."""
        span = Span(self.pos, end)
        self.template(self.pos, end)
        self.pos = end
        return Node("template", span, self.text[span.start : end])

    def bare_text(self, text: str) -> Node:
        """Text without quotes: a number or literal of another language, a placeholder, or a string."""
        start = self.pos
        word = text.split(None, 1)[0]
        self.pos += len(word)
        if word in _PYTHON_LITERALS:
            self.report("python-literal", start, self.pos)
            return self.constant(start, _PYTHON_LITERALS[word])
        if word in _NOT_A_NUMBER:
            self.report("not-a-number", start, self.pos)
            return Node("float", Span(start, self.pos), _NOT_A_NUMBER[word])
        number = self.loose_number(word)
        if number:
            return number
        self.pos = start + len(text)
        if _TEMPLATE_NAME.fullmatch(text) and text not in _CAPITAL_WORDS:
            self.pos = start
            return self.bare_template_node(start + len(text))
        self.report("unquoted-value", start, self.pos)
        return Node("string", Span(start, self.pos), text)

    def loose_number(self, word: str) -> Node | None:
        """A number as other languages write it: ``0x10``, ``1_000``, ``+1``, ``01``, ``.5``, ``1.``, ``inf``."""
        start = self.pos - len(word)
        if _LOOSE_HEXADECIMAL.fullmatch(word):
            node = self.integer_of(start, int(word, 16))
        elif _LOOSE_INTEGER.fullmatch(word):
            before = len(self.issues)
            node = self.integer(start, word.replace("_", ""))
            del self.issues[before:]
        elif _LOOSE_REAL.fullmatch(word):
            node = Node("float", Span(start, self.pos), float(word.replace("_", "")))
        else:
            return None
        self.report("number-format", start, self.pos)
        return node

    # Strings

    def string_node(self) -> Node:
        """Read a string value; a placeholder in quotes is a template."""
        start = self.pos
        value = self.string()
        node = Node("string", Span(start, self.pos), value)
        if _QUOTED_TEMPLATE.search(value) and not any(_is_comment(frame.key) for frame in self.frames[-2:]):
            node.kind = "template"
            if self.quoted_template is None:
                self.quoted_template = self.issue("template", start, self.pos)
        return node

    def string(self) -> str:
        """Read a string in quotes of any kind."""
        start = self.pos
        quote = self.text[start]
        if self.text.startswith(quote * 3, start) and quote * 3 not in self.missing_triples:
            close = self.text.find(quote * 3, start + 3)
            if close != -1:
                self.pos = close + 3
                self.report("triple-quotes", start, self.pos)
                return self.text[start + 3 : close].removeprefix("\n").removesuffix("\n")
            self.missing_triples.add(quote * 3)
        close = self.string_end(start)
        if close == -1:
            close = self.longer_string_end(start)
        if close == -1:
            return self.unterminated_string(start)
        self.pos = close + 1
        if quote == "'":
            self.report("single-quotes", start, self.pos)
        return self.inside_of_string(start + 1, close)

    def string_end(self, start: int) -> int:
        """Where the string that starts here ends in its line, or -1.

        Until there, or else until the end of the line, all other quotes of its kind are escaped; a string that started
        at one of them would end in the same place.
        """
        quote = self.text[start]
        first, end, close = self.strings.get(quote, (0, 0, 0))
        if not first <= start < end:
            match = _REST_OF_STRING[quote].match(self.text, start + 1)
            end = match.end() if match else start + 1
            close = end if self.text.startswith(quote, end) else -1
            self.strings[quote] = (start, end, close)
        return close

    def longer_string_end(self, start: int) -> int:
        """Where a string ends that goes on after its line, or -1.

        The next quote may also be the start of the next string; then no delimiter follows it.
        """
        quote = self.text[start]
        line_end = self.strings[quote][1]
        if (quote, line_end) not in self.longer_strings:
            close = self.text.find(quote, line_end)
            if close != -1 and (self.text[close - 1] == "\\" or not _STRING_MAY_END.match(self.text, close + 1)):
                close = -1
            self.longer_strings[quote, line_end] = close
        return self.longer_strings[quote, line_end]

    def unterminated_string(self, start: int) -> str:
        """A string without a last quote: it is taken to end with the line, before any delimiters there."""
        line_end = self.strings[self.text[start]][1]
        self.pos = start + len(self.text[start:line_end].rstrip(" \t\r,}]"))
        self.report("unterminated-string", start, self.pos)
        return self.text[start + 1 : self.pos]

    def inside_of_string(self, start: int, end: int) -> str:
        """What a part of the text stands for as the inside of a string, bad escapes as they are."""
        raw = self.text[start:end]
        pieces: list[str] = []
        done = 0
        has_control = False
        for match in _ESCAPE_OR_CONTROL.finditer(raw):
            if match.lastgroup == "bad":
                self.report("bad-escape", start + match.start(), start + match.end())
                pieces.append(raw[done : match.start()])
                pieces.append("'" if match[0] == r"\'" else "\\" + match[0])
                done = match.end()
            elif match.lastgroup == "control" and not has_control:
                has_control = True
                self.report("control-character", start + match.start(), start + match.end())
        pieces.append(raw[done:])
        return unescape("".join(pieces))


def _is_comment(key: str | None) -> bool:
    """Whether a key is there for its reader only."""
    return key is not None and (key.startswith(("_", "//", "#")) or key.lower() in _COMMENT_KEYS)
