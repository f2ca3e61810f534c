"""``$NAME`` and ``${NAME...}``: the value of a variable, changed as its operator says."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ds_lint.source.counts import count
from ds_lint.source.shell import patterns
from ds_lint.source.shell.state import PROVIDED
from ds_lint.source.shell.unknowns import is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.shell.state import State
    from ds_lint.source.shell.unknowns import Unknowns

_PARAMETER = re.compile(
    r"(?P<indirect>!?)(?P<name>[A-Za-z_]\w*|\d+|[@*?$!#-])(?:\[(?P<index>[^\]]*)\])?"
    r"(?P<operator>:?[-=+?]|##?|%%?|/[/#%]?|\^\^?|,,?|:|@)?(?P<rest>.*)",
    re.DOTALL,
)
_LENGTH = re.compile(r"#(?P<name>[A-Za-z_]\w*|\d+|[@*])(?:\[(?P<index>[^\]]*)\])?")
_LONGEST_FOR_PATTERNS = 2000


class Expander(Protocol):
    """What expands the words within a parameter expansion (``words.py``)."""

    unknowns: Unknowns

    def text(self, word: str, state: State) -> str:
        """A word that is not split."""

    def number(self, expression: str, state: State) -> int | None:
        """The value of an arithmetic expression."""


class Expanded(NamedTuple):
    """What an expansion gives: ``is_list`` if each text is a word of its own, in quotes too.

    ``default`` is a word that is expanded instead, in the quotes around it, as in ``${NAME:-"a b"}``.
    """

    texts: list[str]
    is_list: bool = False
    default: str | None = None
    separator: str = " "  # between the texts if they become one


def expanded(inside: str, state: State, words: Expander) -> Expanded:
    """What ``${inside}`` gives."""
    length = _LENGTH.fullmatch(inside)
    if length:
        return Expanded([_length(length["name"], length["index"], state, words)])
    match = _PARAMETER.fullmatch(inside)
    if match is None or (match["indirect"] and match["name"] == "!"):
        return Expanded([words.unknowns.mark(f"${{{inside}}}")])
    name, index = match["name"], match["index"]
    if match["indirect"]:
        return _indirect(name, index, match["operator"], state, words)
    operator, rest = match["operator"] or "", match["rest"]
    if name == "#":
        return Expanded([_length("@", None, state, words)])
    values = _values(name, index, state, words)
    if values is not None and (values.is_list or name in ("@", "*") or index in ("@", "*")):
        if name == "*" or index == "*":
            separator = state.text("IFS")
            values = values._replace(separator=" " if separator is None else separator[:1])
        return _sliced(values, operator, rest, name, state, words)
    value = None if values is None else values.texts[0]
    changed = _changed(name, index, value, operator, rest, state, words)
    is_default = operator in (":-", "-") and (value is None or (value == "" and operator == ":-"))
    is_other = operator in (":+", "+") and value is not None and (value != "" or operator == "+")
    is_rest = is_default or (is_other and any(is_known(char) for char in value or "x"))
    return Expanded([changed], default=rest if is_rest and re.search("['\"]", rest) else None)


def _values(name: str, index: str | None, state: State, words: Expander) -> Expanded | None:
    """The value of a parameter; None if nothing sets it."""
    if name in ("@", "*"):
        texts = [words.unknowns.mark(f"${name}")] if state.positional is None else state.positional
        return Expanded(list(texts), is_list=name == "@")
    if name == "0":
        return Expanded([state.text("0") or words.unknowns.mark("$0")])
    if name.isdigit():
        return _positional(count(name), state, words)
    if not (name[0].isalpha() or name[0] == "_"):
        return Expanded([words.unknowns.mark(f"${name}")])
    value = state.variables.get(name)
    if index in ("@", "*"):
        return None if value is None else Expanded(_elements(value), is_list=index == "@")
    if value is None:
        place = words.unknowns.path(state.cwd) if name == "PWD" else None
        return Expanded([words.unknowns.mark(name, place)]) if name in PROVIDED else None
    if index is None or isinstance(value, str):
        return Expanded([state.text(name) or ""])
    key = _key(index, value, state, words)
    if key is None or (isinstance(key, str) and not is_known(key)):
        return Expanded([words.unknowns.mark(name)])
    return Expanded([value.get(key, "")])


def _positional(number: int | None, state: State, words: Expander) -> Expanded | None:
    if state.positional is None:
        return None
    if number is None:  # of more digits than there are words
        return Expanded([""])
    return Expanded([state.positional[number - 1]]) if number <= len(state.positional) else Expanded([""])


def _elements(value: str | dict[int | str, str]) -> list[str]:
    return [value] if isinstance(value, str) else [value[key] for key in value]


def _key(index: str, value: dict[int | str, str], state: State, words: Expander) -> int | str | None:
    """The key that an index means; None if it is unknown."""
    if any(isinstance(key, str) for key in value):
        return words.text(index, state)
    number = words.number(index, state)
    if number is not None and number < 0:
        integers = [key for key in value if isinstance(key, int)]
        return max(integers, default=-1) + 1 + number
    return number


def _length(name: str, index: str | None, state: State, words: Expander) -> str:
    values = _values(name, index, state, words)
    texts = values.texts if values is not None else [words.unknowns.mark(name)]
    if not all(is_known(text) for text in texts):
        return words.unknowns.mark(f"#{name}")
    return str(len(texts) if name in ("@", "*") or index in ("@", "*") else len(texts[0]))


def _indirect(name: str, index: str | None, operator: str | None, state: State, words: Expander) -> Expanded:
    """``${!NAME}``, or the keys of an array."""
    value = state.variables.get(name)
    if index in ("@", "*") and isinstance(value, dict):
        return Expanded([str(key) for key in value], is_list=True)
    target = state.text(name)
    if target is None or not is_known(target) or index is not None or operator:
        return Expanded([words.unknowns.mark(f"!{name}")])
    return (
        expanded(target, state, words) if re.fullmatch(r"\w+", target) else Expanded([words.unknowns.mark(f"!{name}")])
    )


def _sliced(values: Expanded, operator: str, rest: str, name: str, state: State, words: Expander) -> Expanded:
    """A list, or the part of it that ``${NAME[@]:offset:length}`` takes."""
    if not operator:
        return values
    if operator == ":":
        parts = rest.split(":")
        offset = words.number(parts[0], state)
        length = words.number(parts[1], state) if len(parts) > 1 else len(values.texts)
        if offset is not None and length is not None and length >= 0 and all(map(is_known, values.texts)):
            start = max(offset - 1, 0) if name in ("@", "*") and offset >= 0 else offset
            start = max(len(values.texts) + start, 0) if start < 0 else start
            return values._replace(texts=values.texts[start : start + length])
    if operator in (":-", "-", ":+", "+") and all(is_known(text) for text in values.texts):
        is_set = bool(values.texts)
        if operator in (":-", "-"):
            return values if is_set else Expanded([words.text(rest, state)], default=rest)
        return Expanded([words.text(rest, state)], default=rest) if is_set else Expanded([], is_list=True)
    if operator in ("#", "##", "%", "%%", "/", "//", "/#", "/%") and all(is_known(text) for text in values.texts):
        changed = [_by_pattern(text, operator, rest, state, words) for text in values.texts]
        if all(text is not None for text in changed):
            return values._replace(texts=[text or "" for text in changed])
    return Expanded([words.unknowns.mark(name)])


def _changed(
    name: str, index: str | None, value: str | None, operator: str, rest: str, state: State, words: Expander
) -> str:
    """One value as its operator leaves it."""
    unknown = words.unknowns.mark(f"${name}" if name.isdigit() else name)
    if operator in (":-", "-", ":=", "="):
        if value is None or (value == "" and operator[0] == ":"):
            default = words.text(rest, state)
            if operator in (":=", "=") and index is None and not name.isdigit():
                state.variables[name] = default
            return default
        return value
    if value is None:
        return "" if name in state.unset else unknown
    if operator in ("", ":?", "?"):
        return value
    if operator in (":+", "+"):
        if value == "":
            return "" if operator == ":+" else words.text(rest, state)
        is_all_unknown = all(not is_known(char) for char in value)
        return unknown if is_all_unknown else words.text(rest, state)
    if operator == "%" and rest == "/*" and (place := _parent(value, words)) is not None:
        return place
    if not is_known(value):
        return unknown
    if operator == ":":
        return _substring(value, rest, state, words) or unknown
    if operator in ("^", "^^", ",", ",,") and not rest:
        change = str.upper if operator[0] == "^" else str.lower
        return change(value) if len(operator) == 2 else change(value[:1]) + value[1:]
    if operator == "@" and rest in _TRANSFORMED:
        return _TRANSFORMED[rest](value)
    changed = _by_pattern(value, operator, rest, state, words)
    return unknown if changed is None else changed


_TRANSFORMED: dict[str, Callable[[str], str]] = {
    "L": str.lower,
    "Q": lambda value: "'" + value.replace("'", "'\\''") + "'",
    "U": str.upper,
    "u": lambda value: value[:1].upper() + value[1:],
}


def _parent(value: str, words: Expander) -> str | None:
    """The folder of a place in the project, as ``${BASH_SOURCE[0]%/*}`` gives it."""
    unknowns = words.unknowns.of(value)
    if len(value) == 1 and len(unknowns) == 1 and unknowns[0].path is not None:
        return words.unknowns.mark(unknowns[0].name, posixpath.dirname(unknowns[0].path) or ".")
    return None


def _substring(value: str, rest: str, state: State, words: Expander) -> str | None:
    parts = rest.split(":")
    offset = words.number(parts[0], state)
    length = words.number(parts[1], state) if len(parts) > 1 else None
    if offset is None or (len(parts) > 1 and length is None):
        return None
    start = max(len(value) + offset, 0) if offset < 0 else offset
    end = len(value) if length is None else len(value) + length if length < 0 else start + length
    return value[start:end]


def _by_pattern(value: str, operator: str, rest: str, state: State, words: Expander) -> str | None:
    """A value without what a pattern matches, or with something else for it; None if that is unknown."""
    if len(value) > _LONGEST_FOR_PATTERNS:
        return None
    if operator[0] in "#%":
        pattern = words.text(rest, state)
        if not is_known(pattern):
            return None
        remove = patterns.without_prefix if operator[0] == "#" else patterns.without_suffix
        return remove(value, pattern, longest=len(operator) == 2)
    if operator[0] == "/":
        pattern, _, replacement = rest.partition("/")
        pattern, replacement = words.text(pattern, state), words.text(replacement, state)
        if not (is_known(pattern) and is_known(replacement)):
            return None
        return patterns.replaced(value, operator[1:] + pattern, replacement)
    return None
