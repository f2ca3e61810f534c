"""From the text of a word to the words that a command gets: quotes, expansions, and the splitting of what they give.

Each piece comes with its place in the word, for texts that keep it (``texts.py``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.source.shell import scanning
from ds_lint.source.shell.arithmetic import value_of
from ds_lint.source.shell.parameters import Expanded, expanded
from ds_lint.source.shell.unknowns import is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.shell.state import State
    from ds_lint.source.shell.unknowns import Unknowns

_PLAIN = re.compile(r"[^\\'\"$`<>]+")
_LITERAL = re.compile(r"[^\\'\"$`<>{]+")  # nor braces: all that most words have
_PLAIN_IN_QUOTES = re.compile(r'[^\\"$`]+')
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_INTEGER = re.compile(r"\s*[-+]?(?:0|[1-9][0-9]{0,17})\s*")  # that 64 bits hold, and not octal
# Names that an expression of arithmetic may assign to.
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\s*(?:\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))|(?<=\+\+|--)\s*([A-Za-z_]\w*)")
_BLANKS = " \t\n"
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
LONGEST = 100_000  # characters of one word
_MOST_BRACES = 1000
_RANGE = re.compile(r"(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})(?:\.\.(-?[0-9]{1,18}))?|([a-zA-Z])\.\.([a-zA-Z])")


class TooLongError(Exception):
    """A word grows beyond what any command gets."""


class WordExpander:
    """Expands words in a state.

    ``output`` is what a command substitution gives; it gets the place of its text in the script, if that is known.
    """

    def __init__(self, unknowns: Unknowns, output: Callable[[str, State, int | None], str]) -> None:
        self.unknowns = unknowns
        self._output = output

    def fields(self, word: str, state: State) -> list[str]:
        """The words that a command gets for one word of the script."""
        if _LITERAL.fullmatch(word):
            return [word]
        return [field for one in _without_braces(word) for field in self._fields(one, state)]

    def text(self, word: str, state: State) -> str:
        """A word that is not split, such as the value of an assignment."""
        return self.pieces(word, state, OneField()).text()

    def body(self, text: str, state: State) -> str:
        """The text of a here-document or an arithmetic expression, in which only expansions count."""
        return self.pieces_of_body(text, state, OneField()).text()

    def pieces_of_body(self, text: str, state: State, found: OneField) -> OneField:
        """The same, piece by piece."""
        self._quoted(text, 0, state, found, closer="")
        return found

    def number(self, expression: str, state: State) -> int | None:
        """The value of an arithmetic expression, which may assign."""
        plain = self.body(expression, state)

        def assign(name: str, value: int) -> None:
            state.variables[name] = str(value)

        value = value_of(plain, lambda name: self._integer(name, state), assign) if is_known(plain) else None
        if value is None:
            for name in {one or other for one, other in _ASSIGNED.findall(plain)}:
                state.variables[name] = self.unknowns.mark(name)
        return value

    def _integer(self, name: str, state: State) -> int | None:
        """A variable in arithmetic; one that nothing sets is unknown, as the environment may have it."""
        value = state.text(name)
        if value is None or not is_known(value):
            return None
        if _INTEGER.fullmatch(value):
            return int(value)
        return 0 if not value.strip() else value_of(value, lambda _: None)

    def _fields(self, word: str, state: State) -> list[str]:
        separators = state.text("IFS")
        split = _Fields(_BLANKS if separators is None else separators)
        self.pieces(word, state, split)
        return split.fields()

    def pieces(self, word: str, state: State, found: OneField) -> OneField:
        """A word, piece by piece."""
        position = 0
        while position < len(word):
            char = word[position]
            plain = _PLAIN.match(word, position)
            if plain:
                found.add(plain[0], position, plain.end())
                position = plain.end()
            elif char == "\\":
                follows = word[position + 1 : position + 2]
                found.add("" if follows == "\n" else follows, position, position + 2, is_quoted=follows != "\n")
                position += 2
            elif char == "'":
                end = scanning.end_of_single(word, position + 1)
                found.add(word[position + 1 : end - 1], position + 1, end - 1, is_quoted=True)
                position = end
            elif char == '"':
                position = self._quoted(word, position + 1, state, found, closer='"')
            elif char in "$`":
                position = self._expansion(word, position, state, found, is_quoted=False)
            elif word.startswith("(", position + 1):  # <( ... )
                end = scanning.end_of_bracket(word, position + 2, "(")
                if (at := found.at(position + 2)) is not None:
                    self._output(word[position + 2 : end - 1], state, at)  # for the texts in it
                found.expand(Expanded([self.unknowns.mark("a process substitution")]), position, end, is_quoted=True)
                position = end
            else:
                found.add(char, position, position + 1)
                position += 1
        return found

    def _quoted(
        self, word: str, start: int, state: State, found: OneField, closer: str, *, has_quotes: bool = False
    ) -> int:
        """Text in double quotes up to its ``closer``; if it ``has_quotes``, others within it do not count."""
        position = start
        found.add("", start, start, is_quoted=True)
        while position < len(word):
            char = word[position]
            plain = _PLAIN_IN_QUOTES.match(word, position)
            if plain:
                found.add(plain[0], position, plain.end(), is_quoted=True)
                position = plain.end()
            elif char == closer:
                return position + 1
            elif char == '"' and has_quotes:
                position += 1
            elif char == "\\":
                follows = word[position + 1 : position + 2]
                kept = "" if follows == "\n" else follows if follows in f"$`\\{closer}" else f"\\{follows}"
                found.add(kept, position, position + 2, is_quoted=True)
                position += 2
            elif char in "$`":
                position = self._expansion(word, position, state, found, is_quoted=True)
            else:
                found.add(char, position, position + 1, is_quoted=True)
                position += 1
        return position

    def _expansion(self, word: str, start: int, state: State, found: OneField, *, is_quoted: bool) -> int:
        """Add what begins with a dollar or a backquote; return where it ends."""
        if word[start] == "`":
            end = scanning.end_of_escaped(word, start + 1, "`")
            inside = re.sub(r"\\([$`\\])", r"\1", word[start + 1 : end - 1])
            is_written = inside == word[start + 1 : end - 1]
            output = self._output(inside, state, found.at(start + 1) if is_written else None)
            found.expand(Expanded([output]), start, end, is_quoted=is_quoted)
            return end
        if word.startswith("$((", start):
            end = scanning.end_of_bracket(word, start + 2, "(")
            inside = word[start + 3 : end - 2]
            value = self.number(inside, state)
            text = self.unknowns.mark(f"$(({inside}))") if value is None else str(value)
            found.expand(Expanded([text]), start, end, is_quoted=is_quoted)
            return end
        if word.startswith("$(", start):
            end = scanning.end_of_bracket(word, start + 2, "(")
            output = self._output(word[start + 2 : end - 1], state, found.at(start + 2))
            found.expand(Expanded([output]), start, end, is_quoted=is_quoted)
            return end
        if word.startswith("${", start):
            end = scanning.end_of_bracket(word, start + 2, "{")
            given = expanded(word[start + 2 : end - 1], state, self)
            if given.default is None or not found.takes_words:
                found.expand(given, start, end, is_quoted=is_quoted)
            elif is_quoted:
                self._quoted(given.default, 0, state, found, closer="", has_quotes=True)
            else:
                self.pieces(given.default, state, found)
            return end
        if word.startswith("$[", start) and (end := word.find("]", start) + 1):
            number = self.number(word[start + 2 : end - 1], state)
            text = self.unknowns.mark(word[start:end]) if number is None else str(number)
            found.expand(Expanded([text]), start, end, is_quoted=is_quoted)
            return end
        if not is_quoted and word.startswith("$'", start):
            end = scanning.end_of_escaped(word, start + 2, "'")
            found.add(_unescaped(word[start + 2 : end - 1]), start + 2, end - 1, is_quoted=True)
            return end
        if not is_quoted and word.startswith('$"', start):
            return start + 1
        name = _NAME.match(word, start + 1)
        if name is None:
            found.add("$", start, start + 1, is_quoted=is_quoted)
            return start + 1
        found.expand(expanded(name[0], state, self), start, name.end(), is_quoted=is_quoted)
        return name.end()


class OneField:
    """Pieces of a text that is not split; a list is joined with blanks."""

    takes_words = False  # whether what an expansion has for a default may be read word by word

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.length = 0

    def add(self, text: str, start: int = 0, end: int = 0, *, is_quoted: bool = False) -> None:  # noqa: ARG002
        """Add what is written in a range of the word, or meant by it; where quotes count, a subclass looks at them."""
        self.pieces.append(text)
        self.length += len(text)
        if self.length > LONGEST:
            raise TooLongError

    def expand(self, value: Expanded, start: int, end: int, *, is_quoted: bool) -> None:
        """Add what the shell puts in the place of a range."""
        self.add(value.separator.join(value.texts), start, end, is_quoted=is_quoted)

    def at(self, _position: int) -> int | None:
        """Where a position is in the script, if that is known."""
        return None

    def text(self) -> str:
        """All of it."""
        return "".join(self.pieces)


class _Fields(OneField):
    """Pieces of a word that the shell splits where an expansion outside of quotes gives blanks."""

    takes_words = True

    def __init__(self, separators: str) -> None:
        super().__init__()
        self.separators = separators
        self.done: list[str] = []
        self.is_word = False  # something is there, if only an empty pair of quotes
        self.vanishes = False  # and what was in the quotes is an empty list

    def add(self, text: str, start: int = 0, end: int = 0, *, is_quoted: bool = False) -> None:
        super().add(text, start, end)
        self.is_word = self.is_word or is_quoted or bool(text)

    def expand(self, value: Expanded, start: int, end: int, *, is_quoted: bool) -> None:  # noqa: ARG002
        if is_quoted and not value.is_list:
            self.add(value.separator.join(value.texts), is_quoted=True)
            return
        self.vanishes |= is_quoted and not value.texts
        for number, text in enumerate(value.texts):
            if number > 0:
                self.end()
            if is_quoted:
                self.add(text, is_quoted=True)
            else:
                self.split(text)

    def split(self, text: str) -> None:
        """Add what an expansion outside of quotes gives."""
        blanks = "".join(char for char in self.separators if char in _BLANKS)
        others = "".join(char for char in self.separators if char not in _BLANKS)
        if not self.separators:
            self.add(text)
            return
        if not others:
            for number, piece in enumerate(re.split(f"[{blanks}]", text)):
                if number > 0:
                    self.end()
                self.add(piece)
            return
        piece = ""
        for char in text:
            if char in blanks:
                self.add(piece)
                self.end()
                piece = ""
            elif char in others:
                self.add(piece, is_quoted=True)
                self.end()
                piece = ""
            else:
                piece += char
        self.add(piece)

    def end(self) -> None:
        word = "".join(self.pieces)
        if word or (self.is_word and not self.vanishes):
            self.done.append(word)
        self.pieces, self.is_word, self.vanishes = [], False, False

    def fields(self) -> list[str]:
        self.end()
        return self.done


def _unescaped(text: str) -> str:
    """The text of ``$'...'``."""

    def meant(match: re.Match[str]) -> str:
        escape = match[1]
        if escape[0] == "x" and len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape[0] in "01234567":
            return chr(int(escape, 8) & 0xFF)
        return _ESCAPES.get(escape, escape if escape in "\\'\"?" else f"\\{escape}")

    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", meant, text, flags=re.DOTALL)


def _without_braces(word: str) -> list[str]:
    """``a{b,c}`` as ``ab`` and ``ac``, which the shell makes before it does anything else."""
    if "{" not in word:
        return [word]
    position = 0
    while position < len(word):
        if word[position] != "{" or word[position - 1 : position] == "$":
            position = scanning.step(word, position)
            continue
        end = scanning.end_of_bracket(word, position + 1, "{")
        options = _options(word[position + 1 : end - 1]) if word[end - 1 : end] == "}" else []
        if options:
            before, after = word[:position], _without_braces(word[end:])
            found = [before + inside + rest for one in options for inside in _without_braces(one) for rest in after]
            if len(found) > _MOST_BRACES:
                raise TooLongError
            return found
        position += 1
    return [word]


def _options(inside: str) -> list[str]:
    """What is between the commas of a brace expansion, or its range; empty if it is none."""
    match = _RANGE.fullmatch(inside)
    if match and match[1]:
        first, last = int(match[1]), int(match[2])
        step = abs(int(match[3] or 1)) or 1
        if abs(last - first) // step > _MOST_BRACES:
            raise TooLongError
        numbers = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        width = (
            max(len(match[1]), len(match[2])) if re.match("-?0[0-9]", match[1]) or re.match("-?0[0-9]", match[2]) else 0
        )
        return [f"{number:0{width}d}" for number in numbers]
    if match:
        first, last = ord(match[4]), ord(match[5])
        return [chr(code) for code in (range(first, last + 1) if first <= last else range(first, last - 1, -1))]
    parts, start, position, depth = list[str](), 0, 0, 0
    while position < len(inside):
        char = inside[position]
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(inside[start:position])
            start = position + 1
        position = scanning.step(inside, position)
    return [*parts, inside[start:]] if parts else []
