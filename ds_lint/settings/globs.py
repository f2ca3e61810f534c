"""Which files a pattern in the settings means, as in a ``.gitignore``.

``*`` and ``?`` stand for characters of one name, ``**`` for any number of folders. A pattern without a slash means a
name at any depth, one with a slash a path from the folder of the settings. A folder stands for everything below it.
"""

from __future__ import annotations

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

_PART = re.compile(
    r"(?P<folders>\*\*/)|(?P<all>\*\*)|(?P<name>\*)|(?P<one>\?)|\[(?P<not>!?)(?P<set>[^]/]+)\]|(.)", re.DOTALL
)


def relative(path: str, directory: str, system: ModuleType = os.path) -> str:
    """The path from a folder, with slashes whatever the system separates names by."""
    try:
        path = system.relpath(path, directory or system.curdir)
    except ValueError:  # another drive of Windows
        path = system.abspath(path)
    slashed: str = path.replace(system.sep, "/")
    return slashed


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern means a file; ``path`` has slashes and begins at the folder of the settings."""
    wanted = pattern.removeprefix("./").rstrip("/")
    anywhere = "" if "/" in wanted else "(?:.*/)?"
    return re.fullmatch(anywhere + _PART.sub(_expression, wanted) + "(?:/.*)?", path, re.DOTALL) is not None


def _expression(part: re.Match[str]) -> str:
    """The regular expression for a part of a pattern."""
    if part["set"]:
        return f"[{'^/' if part['not'] else ''}{re.escape(part['set']).replace(chr(92) + '-', '-')}]"
    kinds = {"folders": "(?:[^/]+/)*", "all": ".*", "name": "[^/]*", "one": "[^/]"}
    return kinds.get(part.lastgroup or "") or re.escape(part[0])
