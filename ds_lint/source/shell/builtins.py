"""The builtins of the shell that change its state, and the small programs whose output is known."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ds_lint.source.counts import count
from ds_lint.source.shell.arithmetic import value_of
from ds_lint.source.shell.conditions import holds_words
from ds_lint.source.shell.unknowns import is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.shell.state import State
    from ds_lint.source.shell.words import WordExpander

    Builtin = Callable[[list[str], State, str | None, WordExpander], bool | None]

_SEQUENCE_LIMIT = 1000
_GLOB = re.compile(r"[*?\[]")  # it may name files


def _nothing(_fields: list[str], _state: State, _given: str | None, _words: WordExpander) -> bool | None:
    return True


def _unknown(_fields: list[str], _state: State, _given: str | None, _words: WordExpander) -> bool | None:
    return None


def _false(_fields: list[str], _state: State, _given: str | None, _words: WordExpander) -> bool | None:
    return False


def _ends(why: str) -> Builtin:
    def end(_fields: list[str], state: State, _given: str | None, _words: WordExpander) -> bool | None:
        state.ended = why
        return True

    return end


def _test(fields: list[str], state: State, _given: str | None, words: WordExpander) -> bool | None:
    return holds_words(fields[:-1] if fields[-1:] == ["]"] else fields, state, words)


def _cd(fields: list[str], state: State, _given: str | None, words: WordExpander) -> bool | None:
    to = next((field for field in fields if not field.startswith("-")), "~")
    path = words.unknowns.path(to)
    cwd = words.unknowns.path(state.cwd)
    if path is None or cwd is None or path.startswith(("/", "~")):
        state.cwd = words.unknowns.mark("PWD")
    else:
        is_place = not is_known(to)  # a place in the project stands for itself, wherever the shell is
        state.cwd = posixpath.normpath(path if is_place else posixpath.join(cwd, path))
    return None


def _set(fields: list[str], state: State, _given: str | None, _words: WordExpander) -> bool | None:
    if "--" in fields:
        state.positional = fields[fields.index("--") + 1 :]
    elif fields and fields[0][:1] not in "-+":
        state.positional = fields
    for flags, name in zip(fields, [*fields[1:], ""], strict=True):
        if flags[:1] not in ("-", "+") or flags == "--":
            break
        if "a" in flags or (flags.endswith("o") and name == "allexport"):
            state.exports_all = flags.startswith("-")
    return True


def _shift(fields: list[str], state: State, _given: str | None, _words: WordExpander) -> bool | None:
    if state.positional is not None:
        state.positional = state.positional[_shifted(fields) :]
    return True


def _shifted(fields: list[str]) -> int:
    number = count(fields[0]) if fields else None
    return 1 if number is None else number


def _read(fields: list[str], state: State, given: str | None, words: WordExpander) -> bool | None:
    """``read``; without a here-document or ``<<<`` what it reads is unknown."""
    names, delimiter, is_array = list[str](), "\n", False
    left = list(fields)
    while left:
        field = left.pop(0)
        if field.startswith("-"):
            is_array |= "a" in field
            if field[-1:] in "dpntuNi":
                argument = left.pop(0) if left else ""
                delimiter = argument if field[-1] == "d" else delimiter
        else:
            names.append(field)
    if given is None and state.given is not None:
        if not state.given:
            return False
        given = state.given.pop()
    if given is None:
        for name in names or ["REPLY"]:
            state.variables[name] = words.unknowns.mark(name)
        return None
    text = given.split(delimiter)[0] if delimiter else given
    separators = state.text("IFS")
    separators = " \t\n" if separators is None else separators
    parts = re.split("[" + re.escape(separators) + "]+", text.strip(separators)) if separators else [text]
    if is_array and names:
        state.variables[names[0]] = dict(enumerate(parts))
        return True
    for number, name in enumerate(names or ["REPLY"]):
        is_last = number == len(names) - 1
        state.variables[name] = (
            (text.strip(separators) if len(names) < 2 else " ".join(parts[number:]))
            if is_last
            else (parts[number] if number < len(parts) else "")
        )
    return True


def _mapfile(fields: list[str], state: State, given: str | None, words: WordExpander) -> bool | None:
    """``mapfile -t NAME``, each line an element."""
    name = fields[-1] if fields and not fields[-1].startswith("-") else "MAPFILE"
    if given is None and state.given is not None:
        given = "".join(f"{line}\n" for line in reversed(state.given))
        state.given.clear()
    if given is None or not is_known(given) or any(field.startswith("-") and field != "-t" for field in fields):
        state.variables[name] = words.unknowns.mark(name)
        return None
    lines = given.removesuffix("\n").split("\n") if given else []
    state.variables[name] = dict(enumerate(lines if "-t" in fields else [f"{line}\n" for line in lines]))
    return True


def _printf(fields: list[str], state: State, _given: str | None, words: WordExpander) -> bool | None:
    if fields[:1] == ["-v"] and len(fields) > 2:
        text = _formatted(fields[2:])
        state.variables[fields[1]] = words.unknowns.mark(fields[1]) if text is None else text
    return True


def _let(fields: list[str], state: State, _given: str | None, words: WordExpander) -> bool | None:
    value: int | None = None
    for field in fields:
        value = words.number(field, state)
    return None if value is None else value != 0


def _return(fields: list[str], state: State, _given: str | None, _words: WordExpander) -> bool | None:
    state.ended = "return"
    return count(fields[0]) == 0 if fields and count(fields[0]) is not None else None


BUILTINS: dict[str, Builtin] = {
    ":": _nothing,
    "[": _test,
    "alias": _nothing,
    "bg": _nothing,
    "cd": _cd,
    "disown": _nothing,
    "echo": _nothing,
    "exit": _ends("exit"),
    "false": _false,
    "fg": _nothing,
    "getopts": _false,
    "hash": _unknown,
    "jobs": _nothing,
    "let": _let,
    "mapfile": _mapfile,
    "popd": _cd,
    "printf": _printf,
    "pushd": _cd,
    "read": _read,
    "readarray": _mapfile,
    "return": _return,
    "set": _set,
    "shift": _shift,
    "shopt": _nothing,
    "sleep": _nothing,
    "test": _test,
    "trap": _nothing,
    "true": _nothing,
    "type": _unknown,
    "ulimit": _nothing,
    "umask": _nothing,
    "wait": _nothing,
}


def printed(fields: list[str], state: State, words: WordExpander) -> str | None:
    """What a command prints; None if that is unknown."""
    name, rest = (fields[0], fields[1:]) if fields else ("", [])
    if name not in ("expr", "printf") and any(_GLOB.search(field) for field in rest):
        return None
    if name == "pwd":
        path = words.unknowns.path(state.cwd)
        return words.unknowns.mark("PWD", path)
    if name in ("dirname", "basename", "realpath", "readlink"):
        return _of_path(name, [field for field in rest if not field.startswith("-")], words)
    if not all(is_known(field) for field in fields) and name != "echo":
        return None
    if name == "echo":
        options = rest[:1] in (["-n"], ["-e"], ["-ne"])
        return " ".join(rest[1:] if options else rest)
    if name == "printf":
        return _formatted(rest)
    if name == "expr":
        value = value_of(" ".join(rest), lambda _: None)
        return None if value is None else str(value)
    if name == "seq" and all(re.fullmatch(r"-?[0-9]{1,18}", field) for field in rest) and 0 < len(rest) < 4:
        numbers = [int(field) for field in rest]
        first, step, last = (
            (1, 1, numbers[0])
            if len(numbers) == 1
            else ((numbers[0], 1, numbers[1]) if len(numbers) == 2 else (numbers[0], numbers[1], numbers[2]))
        )
        if step == 0 or abs(last - first) // abs(step) > _SEQUENCE_LIMIT:
            return None
        return "\n".join(map(str, range(first, last + (1 if step > 0 else -1), step)))
    return None


def _of_path(name: str, rest: list[str], words: WordExpander) -> str | None:
    if not rest:
        return None
    unknowns = words.unknowns.of(rest[0])
    if unknowns:
        place = words.unknowns.path(rest[0])
        if place is None or name == "basename":
            return posixpath.basename(place) if place is not None else None
        parent = posixpath.dirname(place) or "."
        return words.unknowns.mark(unknowns[0].name, parent if name == "dirname" else posixpath.normpath(place))
    path = rest[0].rstrip("/") or "/"
    if name == "dirname":
        return posixpath.dirname(path) or "."
    if name == "basename":
        base = posixpath.basename(path)
        return base.removesuffix(rest[1]) if len(rest) > 1 and base != rest[1] else base
    return None


def _formatted(fields: list[str]) -> str | None:
    """``printf FORMAT WORD...``, which uses the format again as long as there are words; None if that is unknown."""
    if not fields or not all(is_known(field) for field in fields):
        return None
    form, rest = re.sub(r"\\(.)", lambda match: _ESCAPED.get(match[1], match[0]), fields[0]), fields[1:]
    pieces = re.split(r"(%%|%[-0 +#]*\d{0,3}(?:\.\d{1,3})?[a-zA-Z])", form)
    places = [piece for piece in pieces[1::2] if piece != "%%"]
    if "\\" in form or "%" in "".join(pieces[::2]) or any(piece[-1] not in "sdiuxXofeg" for piece in places):
        return None
    found, left = list[str](), list(rest)
    try:
        while True:
            for piece in pieces:
                if piece == "%%":
                    found.append("%")
                elif piece in places:
                    kind, value = piece[-1], left.pop(0) if left else ""
                    number = float if kind in "feg" else int
                    found.append(piece.replace("i", "d") % (value if kind == "s" else number(value or "0")))
                else:
                    found.append(piece)
            if not (left and places):
                return "".join(found)
    except ValueError:  # a word that is not a number
        return None


_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\"}
