"""``requirements.txt`` and its like, written by hand or by pip-tools, with the files that they include."""

from __future__ import annotations

import os

from ds_lint.targets import requirement
from ds_lint.targets.pin import PinPlace
from ds_lint.targets.text import shown, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.targets.pin import Requirement

_INCLUDING = ("--requirement", "--constraint", "-r", "-c")
_EDITABLE = ("--editable", "-e")


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The requirements of a file and of those that it includes; a constraint counts like a requirement."""
    yield from _of_file(text, path, {path})


def of_line(line: str, place: PinPlace, path: str) -> Iterator[Requirement]:
    """The requirements of one line that is in the file at ``path``, of whatever kind that file is."""
    yield from _of_line(line, place, path, {path})


def _of_file(text: str, path: str, seen: set[str]) -> Iterator[Requirement]:
    for number, line in _logical_lines(text):
        yield from _of_line(line, PinPlace(shown(path), number), path, seen)


def _of_line(line: str, place: PinPlace, path: str, seen: set[str]) -> Iterator[Requirement]:
    included = _argument(line, _INCLUDING)
    if included is None:
        stated = _argument(line, _EDITABLE) or ("" if line.startswith("-") else line)
        if found := requirement.parse(stated.partition(" --")[0], place):
            yield found
        return
    other = os.path.normpath(os.path.join(os.path.dirname(path), included))
    if other not in seen:
        seen.add(other)
        yield from _of_file(text_of(other), other, seen)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with their continuations and without comments, each with the number of its first line."""
    first, pending = 1, ""
    for number, line in enumerate(text.splitlines(), 1):
        if not pending:
            first = number
        is_comment = line.lstrip().startswith("#")
        if line.endswith("\\") and not is_comment:
            pending += line[:-1]
            continue
        yield first, _without_comment(f"{pending} {line}" if is_comment else pending + line)
        pending = ""
    yield first, _without_comment(pending)


def _without_comment(line: str) -> str:
    """The line up to a # that a blank precedes; in an address # has a meaning."""
    return f" {line.expandtabs()}".partition(" #")[0].strip()


def _argument(line: str, options: tuple[str, ...]) -> str | None:
    """What follows one of these options, with or without a blank or an equals sign; None for any other line."""
    for option in options:
        if line.startswith(option):
            return line.removeprefix(option).lstrip(" =")
    return None
