"""``NAME=value`` in its forms, and the assignments of arithmetic."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.source.counts import count
from ds_lint.source.shell import scanning

if TYPE_CHECKING:
    from ds_lint.source.shell.state import Array, State, Value
    from ds_lint.source.shell.words import WordExpander

ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[(.*?)\])?(\+?)=", re.DOTALL)


class Assignments:
    """Changes the variables of a state."""

    def __init__(self, expander: WordExpander) -> None:
        self._expander = expander

    def assign(self, text: str, state: State, *, is_map: bool = False) -> str | None:
        """``NAME=value`` in one of its forms; returns the name."""
        match = ASSIGNMENT.match(text)
        if match is None:
            return None
        name, index, is_added = match[1], match[2], bool(match[3])
        raw = text[match.end() :]
        old = state.variables.get(name)
        if raw.startswith("(") and index is None:
            before = old if isinstance(old, dict) and is_added else {}
            state.variables[name] = self._array(raw[1:-1], dict(before), state, is_map=is_map)
            return name
        value = self._expander.text(_with_home(raw), state)
        if index is not None:
            array: Array = old if isinstance(old, dict) else {} if old is None else {0: old}
            self._put(array, index, value, state, is_added=is_added)
            state.variables[name] = array
        elif is_added and isinstance(old, dict):
            old[0] = old.get(0, "") + value
        else:
            prefix = "" if not is_added else self._expander.unknowns.mark(name) if old is None else old
            state.variables[name] = f"{prefix}{value}"
        return name

    def _array(self, raw: str, array: dict[int | str, str], state: State, *, is_map: bool) -> dict[int | str, str]:
        """The elements of ``NAME=( ... )``, behind those that are there."""
        for word in scanning.raw_words(raw, has_comments=True):
            keyed = re.match(r"\[(.*?)\]=", word, re.DOTALL)
            if keyed:
                key: int | str = self._expander.text(keyed[1], state)
                if not is_map and (number := count(str(key))) is not None:
                    key = number
                array[key] = self._expander.text(word[keyed.end() :], state)
            else:
                for field in self._expander.fields(word, state):
                    array[max((key for key in array if isinstance(key, int)), default=-1) + 1] = field
        return array

    def _put(self, array: dict[int | str, str], index: str, value: str, state: State, *, is_added: bool) -> None:
        key: int | str | None = self._expander.number(index, state)
        if key is None or any(isinstance(one, str) for one in array):
            key = self._expander.text(index, state)
        array[key] = (array.get(key, "") if is_added else "") + value

    def arithmetic(self, expression: str, state: State) -> bool | None:
        """``((expression))``: assigns, and holds if the value is not 0."""
        value = self._expander.number(expression, state)
        return None if value is None else value != 0


def restore(state: State, name: str, value: Value | None) -> None:
    """Give a variable the value that it had."""
    if value is None:
        state.variables.pop(name, None)
    else:
        state.variables[name] = value


def _with_home(raw: str) -> str:
    """A value that begins with ``~``, which an assignment expands: it is as unknown as ``$HOME``."""
    return f"$HOME{raw[1:]}" if re.match(r"~(?:/|$)", raw) else raw
