"""The output of small programs for the text that a pipeline passes to them: ``echo $GPUS | tr , ' ' | wc -w``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.source.counts import count
from ds_lint.source.shell.arithmetic import value_of
from ds_lint.source.shell.unknowns import is_known

if TYPE_CHECKING:
    from collections.abc import Callable

    Filter = Callable[[list[str], str], str | None]

_SETS = {"[:upper:]": "A-Z", "[:lower:]": "a-z", "[:digit:]": "0-9", "[:space:]": r" \t\n", r"\n": "\n", r"\t": "\t"}
_OF_AWK = re.compile(r"\s*\{\s*print\s+(?:(NF)|\$(NF|\d{1,4}))\s*;?\s*\}\s*")
_OF_SED = re.compile(r"s([/|#,:@])((?:\\.|(?!\1).)*)\1((?:\\.|(?!\1).)*)\1(g?)", re.DOTALL)
_SPECIAL = re.compile(r"[.*^$\[\]\\+?(){}|&]")


def filtered(fields: list[str], text: str) -> str | None:
    """The output of a program with these words for a text; None if it is unknown."""
    program = _FILTERS.get(fields[0])
    if program is None or not all(is_known(field) for field in (*fields, text)):
        return None
    return program(fields[1:], text)


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _text(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _cat(fields: list[str], text: str) -> str | None:
    return text if all(field == "-" for field in fields) else None


def _wc(fields: list[str], text: str) -> str | None:
    counted = {"-l": text.count("\n"), "-w": len(text.split()), "-c": len(text.encode()), "-m": len(text)}
    return f"{counted[fields[0]]}\n" if len(fields) == 1 and fields[0] in counted else None


def _characters(written: str) -> str:
    """A set of characters as ``tr`` reads it."""
    for name, meant in _SETS.items():
        written = written.replace(name, meant)
    return re.sub(r"([a-zA-Z0-9])-([a-zA-Z0-9])", _range, written)


def _range(ends: re.Match[str]) -> str:
    return "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1)))


def _tr(fields: list[str], text: str) -> str | None:
    if fields[:1] == ["-d"] and len(fields) == 2:
        return text.translate(dict.fromkeys(map(ord, _characters(fields[1]))))
    if fields[:1] == ["-s"] and len(fields) == 2:
        return re.sub(f"([{re.escape(_characters(fields[1]))}])\\1+", r"\1", text)
    if len(fields) != 2 or fields[0].startswith("-"):
        return None
    before, after = _characters(fields[0]), _characters(fields[1])
    return text.translate(str.maketrans(before, after.ljust(len(before), after[-1:])[: len(before)])) if after else None


def _chosen(written: str, parts: list[str]) -> list[str] | None:
    """The parts that ``1,3-`` chooses."""
    found = list[str]()
    for one in written.split(","):
        first, sign, last = one.partition("-")
        begin, end = count(first or "1"), count(last) if last else (len(parts) if sign else count(first))
        if not begin or end is None:
            return None
        found += parts[begin - 1 : end]
    return found


def _cut(fields: list[str], text: str) -> str | None:
    given: dict[str, str] = {}
    left = list(fields)
    while left:
        option = left.pop(0)
        if option[:2] not in ("-d", "-f", "-c"):
            return None
        given[option[:2]] = option[2:] or (left.pop(0) if left else "")
    delimiter, found = given.get("-d", "\t"), list[str]()
    for line in _lines(text):
        if "-f" in given and delimiter not in line:
            found.append(line)
            continue
        parts = _chosen(given.get("-f", given.get("-c", "")), line.split(delimiter) if "-f" in given else list(line))
        if parts is None:
            return None
        found.append((delimiter if "-f" in given else "").join(parts))
    return _text(found)


def _number(fields: list[str]) -> int | None:
    """The number of lines that ``head`` or ``tail`` takes."""
    match = re.fullmatch(r"-(?:n ?)?([0-9]+)", " ".join(fields))
    return count(match[1]) if match is not None else (10 if not fields else None)


def _head(fields: list[str], text: str) -> str | None:
    number = _number(fields)
    return None if number is None else _text(_lines(text)[:number])


def _tail(fields: list[str], text: str) -> str | None:
    number = _number(fields)
    return None if not number else _text(_lines(text)[-number:])


def _awk(fields: list[str], text: str) -> str | None:
    separator: str | None = None
    if fields and fields[0].startswith("-F"):
        separator = fields[0][2:] or (fields[1] if len(fields) > 1 else "")
        fields = fields[1 if fields[0][2:] else 2 :]
    match = _OF_AWK.fullmatch(fields[0]) if len(fields) == 1 else None
    if match is None or separator == "" or (separator is not None and len(separator) > 1):
        return None
    found = list[str]()
    for line in _lines(text):
        parts = line.split(separator) if line else []
        number = len(parts) if match[1] or match[2] == "NF" else count(match[2])
        if number is None:
            return None
        chosen = line if number == 0 else parts[number - 1] if number <= len(parts) else ""
        found.append(str(len(parts)) if match[1] else chosen)
    return _text(found)


def _sed(fields: list[str], text: str) -> str | None:
    match = _OF_SED.fullmatch(fields[-1]) if fields and fields[:-1] in ([], ["-e"], ["-E"], ["-r"]) else None
    if match is None:
        return None
    before, after = (re.sub(r"\\([./,|#:@-])", r"\1", part) for part in (match[2], match[3]))
    if _SPECIAL.search(re.sub(r"\\[./,|#:@-]", "", match[2])) or re.search(r"[\\&]", after):
        return None
    return _text([line.replace(before, after, -1 if match[4] else 1) for line in _lines(text)])


def _sort(fields: list[str], text: str) -> str | None:
    lines = _lines(text)
    if fields == ["-n"] and all(count(line) is not None for line in lines):
        return _text(sorted(lines, key=int))
    if not re.fullmatch(r"[a-z0-9\n]*", text):  # the order of other characters depends on the machine
        return None
    return _text(sorted(set(lines))) if fields == ["-u"] else _text(sorted(lines)) if not fields else None


def _grep(fields: list[str], text: str) -> str | None:
    options, words = [field for field in fields if field.startswith("-")], [f for f in fields if not f.startswith("-")]
    if len(words) != 1 or (words != ["."] and _SPECIAL.search(words[0])) or len(options) > 1:
        return None
    lines = _lines(text)
    if options == ["-o"]:
        return _text(list("".join(lines)) if words == ["."] else words * "".join(lines).count(words[0]))
    is_found = [words == ["."] or words[0] in line for line in lines]
    if options == ["-c"]:
        return f"{sum(is_found)}\n"
    if options not in ([], ["-v"]):
        return None
    return _text([line for line, found in zip(lines, is_found, strict=True) if found != (options == ["-v"])])


def _bc(fields: list[str], text: str) -> str | None:
    value = value_of(text, lambda _: None) if not fields and re.fullmatch(r"[\d\s+*()/%-]+", text) else None
    return None if value is None else f"{value}\n"


def _xargs(fields: list[str], text: str) -> str | None:
    return " ".join(text.split()) + "\n" if not fields and not re.search(r"['\"\\]", text) else None


_FILTERS: dict[str, Filter] = {
    "awk": _awk,
    "bc": _bc,
    "cat": _cat,
    "cut": _cut,
    "grep": _grep,
    "head": _head,
    "sed": _sed,
    "sort": _sort,
    "tail": _tail,
    "tr": _tr,
    "wc": _wc,
    "xargs": _xargs,
}
