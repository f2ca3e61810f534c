"""Which files a pattern means, as in a ``.gitignore``; the settings use the same patterns.

``*``, ``?`` and ``[a-z]`` stand for characters of one name, ``**`` between slashes for any number of folders. A pattern
without a slash means a name at any depth, one with a slash a path from the folder of the pattern. A trailing slash
limits it to folders.

The details are those of git's ``dir.c`` and ``wildmatch.c``. No expression here can backtrack exponentially: what
is between two stars is taken at the first place where it matches and never tried elsewhere, because a later place
only leaves less for the rest.
"""

from __future__ import annotations

import os
from itertools import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterator
    from types import ModuleType

_SPECIAL = "*?[\\"
_KEPT = 1000  # patterns; more than any settings have
_known: dict[str, Glob] = {}  # functools and re cost a hook as much as its file, and few patterns need re

_STAR, _FOLDERS, _SLASH = "*", "**/", "/"  # any other part of a pattern is an expression for one character
_NOTHING = r"(?!)"
_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f", "digit": "0-9",
    "graph": "!-.0-~", "lower": "a-z", "print": " -.0-~", "punct": r"!-.:-@\[-`{-~", "space": r"\t-\r ",
    "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


def relative(path: str, directory: str, system: ModuleType = os.path) -> str:
    """The path from a folder, with slashes whatever the system separates names by."""
    try:
        path = system.relpath(path, directory or system.curdir)
    except ValueError:  # another drive of Windows
        path = system.abspath(path)
    except FileNotFoundError:  # the working directory is deleted, so nothing lies below it
        pass
    slashed: str = path.replace(system.sep, "/")
    return slashed


def is_below(path: str, directory: str, system: ModuleType = os.path) -> bool:
    """Whether a path leads to a folder or below it."""
    place = relative(path, directory, system)
    return place.split("/")[0] != ".." and not system.isabs(place)


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern means a file or a folder above it.

    The path has slashes and starts at the folder of the pattern.
    """
    wanted = glob(pattern)
    return any(wanted.means(part, is_folder=part != path) for part in with_folders(path))


def literal(path: str) -> str:
    """The pattern that means this file and no other; ``path`` is as ``relative`` gives it."""
    pattern = "".join(f"\\{character}" if character in _SPECIAL else character for character in path)
    return pattern if "/" in pattern else f"/{pattern}"


def with_folders(path: str) -> Iterator[str]:
    """The folders above a file, the outermost first, and the file; ``..`` is not a name that a pattern could mean."""
    end = path.find("/")
    while end >= 0:
        if path[:end].rpartition("/")[2] not in ("", ".", ".."):
            yield path[:end]
        end = path.find("/", end + 1)
    if path not in (".", ".."):
        yield path


def glob(pattern: str) -> Glob:
    """A pattern of the settings; ``./`` before it changes nothing."""
    found = _known.get(pattern)
    if found is None:
        if len(_known) >= _KEPT:
            _known.clear()
        found = _known[pattern] = Glob(pattern.removeprefix("./").rstrip("/") + "/" * pattern.endswith("/"))
    return found


class Glob:
    """One pattern, without the ``!`` that may be before it in a ``.gitignore``."""

    __slots__ = ("_expression", "_is_of_folders", "_rest", "_start", "_suffix", "is_of_names")

    def __init__(self, pattern: str) -> None:
        self._is_of_folders = pattern.endswith("/")
        pattern = pattern.removesuffix("/")
        self.is_of_names = "/" not in pattern  # at any depth
        pattern = pattern.removeprefix("/")
        special = _first_special(pattern)
        self._start, self._rest = pattern[:special], pattern[special:]
        is_ending = self.is_of_names and self._rest[:1] == "*" and _first_special(self._rest[1:]) == len(self._rest) - 1
        self._suffix = self._rest[1:] if is_ending and not self._start else None
        self._expression: re.Pattern[str] | None = None

    @property
    def name(self) -> str | None:
        """The one name that it means; None if it means a path or several names."""
        return self._start if self.is_of_names and not self._rest else None

    def means(self, path: str, *, is_folder: bool) -> bool:
        """Whether it means exactly this path, which has slashes and starts at the folder of the pattern."""
        if self._is_of_folders and not is_folder:
            return False
        if self.is_of_names:
            path = path[path.rfind("/") + 1 :]
        if self._suffix is not None:
            return path.endswith(self._suffix)
        if not self._rest:
            return path == self._start
        if not path.startswith(self._start):
            return False
        if self._expression is None:
            import re

            self._expression = re.compile(_expression(self._rest, is_of_names=self.is_of_names), re.DOTALL)
        return self._expression.fullmatch(path, len(self._start)) is not None


def _first_special(pattern: str) -> int:
    """Where a pattern begins to stand for more than itself; its end if it does not."""
    return min((place for one in _SPECIAL if (place := pattern.find(one)) >= 0), default=len(pattern))


def _expression(pattern: str, *, is_of_names: bool) -> str:
    """A regular expression for a pattern from its first special character on."""
    try:
        parts = list(_parts(pattern))
    except (LookupError, ValueError):  # a set that does not end or has an unknown class, a backslash at the end
        return _NOTHING
    if is_of_names:
        parts = [_STAR if part == _FOLDERS else part for part in parts]
    numbers = count()
    first, *others = _split(parts, _FOLDERS)
    written = _path(first, numbers)
    for part in others[:-1]:
        written += _at_once(f"(?:|.*?/){_path(part, numbers)}", numbers)
    for part in others[-1:]:
        written += f"(?:|.*?/){_path(part, numbers)}" if part else ".*"
    return written


def _path(parts: list[str], numbers: Iterator[int]) -> str:
    """The expression for names with slashes between them."""
    return _SLASH.join(_name(name, numbers) for name in _split(parts, _SLASH))


def _name(parts: list[str], numbers: Iterator[int]) -> str:
    """The expression for one name: what it begins with, what is between its stars, what it ends with."""
    first, *others = ("".join(part) for part in _split(parts, _STAR))
    between = "".join(_at_once(f"[^/]*?{part}", numbers) for part in others[:-1])
    return first + between + "".join(f"[^/]*{part}" for part in others[-1:])


def _at_once(expression: str, numbers: Iterator[int]) -> str:
    """The first match of an expression and no other; ``(?>...)`` needs Python 3.11."""
    name = f"part{next(numbers)}"
    return f"(?=(?P<{name}>{expression}))(?P={name})"


def _split(parts: list[str], separator: str) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for part in parts:
        if part == separator:
            found.append([])
        else:
            found[-1].append(part)
    return found


def _parts(pattern: str) -> Iterator[str]:
    """The parts of a pattern. Raises LookupError and ValueError if git takes it for none."""
    at, is_at_start = 0, True  # of a name
    while at < len(pattern):
        part, end = _part(pattern, at)
        if part == _STAR and end - at > 1 and is_at_start:
            if end == len(pattern) or pattern[end] == "/":
                part, end = _FOLDERS, end + (end < len(pattern) - 1)
            elif _slash(pattern, end):  # an escaped slash: one folder at least
                yield _FOLDERS
        yield part
        at, is_at_start = end, part in (_SLASH, _FOLDERS)


def _slash(pattern: str, at: int) -> int:
    """How many characters a slash takes here, which may be escaped; 0 if there is none."""
    return 1 if pattern.startswith("/", at) else 2 if pattern.startswith("\\/", at) else 0


def _part(pattern: str, at: int) -> tuple[str, int]:
    """The part that begins at a place, and where it ends."""
    import re

    if slash := _slash(pattern, at):
        return _SLASH, at + slash
    match pattern[at]:
        case "*":
            end = at
            while pattern.startswith("*", end):
                end += 1
            return _STAR, end
        case "?":
            return "[^/]", at + 1
        case "[":
            return _set(pattern, at + 1)
        case "\\":
            return re.escape(pattern[at + 1]), at + 2
        case character:
            return re.escape(character), at + 1


def _set(pattern: str, at: int) -> tuple[str, int]:
    """The expression for a character of a set such as ``a-z_``, and where the set ends."""
    import re

    is_negated = pattern[at] in "!^"
    at += is_negated
    begin, before, found = at, "", ""  # ``before``: what a range could begin with
    while at == begin or pattern[at] != "]":
        character = pattern[at]
        if character == "-" and before and pattern[at + 1] != "]":
            at, last = _unescaped(pattern, at + 1)
            found += f"{re.escape(before)}-{re.escape(last)}" if before <= last else ""
            before = ""
        elif pattern.startswith("[:", at) and pattern.endswith(":", at + 2, pattern.index("]", at + 2)):
            end = pattern.index("]", at + 2)
            found += _CLASSES[pattern[at + 2 : end - 1]]
            at, before = end, ""
        else:
            at, before = _unescaped(pattern, at)
            found += re.escape(before)
        at += 1
    if is_negated:
        return f"[^/{found}]", at + 1
    return f"(?!/)[{found}]" if found else _NOTHING, at + 1


def _unescaped(pattern: str, at: int) -> tuple[int, str]:
    """The place of the character that is meant here, and the character."""
    at += pattern[at] == "\\"
    return at, pattern[at]
