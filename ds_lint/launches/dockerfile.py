"""The launches that an image starts: ``RUN``, ``CMD`` and ``ENTRYPOINT`` of a Dockerfile."""

from __future__ import annotations

import json
import re
import shlex
from typing import TYPE_CHECKING

from ds_lint.launches.scripts import Launches, joined, launches_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_INSTRUCTION = re.compile(r"\s*([A-Za-z]+)[ \t]+(.*)", re.DOTALL)
_PAIR = re.compile(r"""([A-Za-z_]\w*)=("[^"]*"|'[^']*'|\S*)""")


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the instructions; ``ENTRYPOINT`` gets the words of a ``CMD`` in the same form."""
    variables: dict[str, str | None] = {}
    found, entry = list[Launches](), ""
    for line, name, rest in _instructions(text):
        if name in ("ENV", "ARG"):
            _set(variables, rest, is_argument=name == "ARG")
        elif name == "FROM":
            entry = ""
        elif name == "RUN":
            found.append(launches_in(_command(rest), path, read, variables=variables).moved(line, path))
        elif name == "ENTRYPOINT":
            entry = _command(rest)
            found.append(launches_in(entry, path, read, variables=variables).moved(line, path))
        elif name == "CMD":
            command = f"{entry} {_command(rest)}" if entry and _exec_form(rest) is not None else _command(rest)
            found.append(launches_in(command, path, read, variables=variables).moved(line, path))
    return joined(found)


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """The number of lines before an instruction, its name and the rest; comments within it are left out."""
    lines = text.splitlines()
    position = 0
    while position < len(lines):
        start, kept = position, lines[position]
        position += 1
        if kept.lstrip().startswith("#"):
            continue
        while kept.endswith("\\") and position < len(lines):
            following = lines[position]
            position += 1
            if not following.lstrip().startswith("#"):
                kept += "\n" + following
        match = _INSTRUCTION.fullmatch(kept)
        if match is not None:
            yield start, match[1].upper(), match[2]


def _set(variables: dict[str, str | None], rest: str, *, is_argument: bool) -> None:
    pairs = _PAIR.findall(rest.replace("\\\n", " "))
    for name, value in pairs:
        variables[name] = None if "$" in value else value.strip("\"'")
    if not pairs and not is_argument:
        name, _, value = rest.partition(" ")
        variables[name] = None if "$" in value else value.strip()


def _command(rest: str) -> str:
    """An instruction as a command of the shell."""
    words = _exec_form(rest)
    return rest if words is None else " ".join(shlex.quote(word) for word in words)


def _exec_form(rest: str) -> list[str] | None:
    """The words of ``["program", "word"]``; None in the form of the shell."""
    if not rest.lstrip().startswith("["):
        return None
    try:
        words = json.loads(rest.replace("\\\n", " "))
    except ValueError:
        return None
    return words if isinstance(words, list) and all(isinstance(word, str) for word in words) else None
