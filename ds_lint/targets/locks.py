"""``uv.lock``, ``poetry.lock``, ``pdm.lock`` and ``pylock.toml``: the version of every package, written by a tool.

Each package is a table ``[[package]]`` (``[[packages]]`` in PEP 751) that begins with its plain values. Those lines are
read as they are: to parse the hashes of a large lock takes ten times as long as everything else that ds-lint does.
"""

from __future__ import annotations

from ds_lint.targets.pin import PinPlace, Requirement, library_called
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The locked versions. Several of one library are alternatives, each for other markers."""
    for table in ("\n" + text.replace("\r\n", "\n")).split("\n[["):
        header, _, rest = table.partition("\n")
        if header.strip() not in ("package]]", "packages]]"):
            continue
        values = rest.partition("\n[")[0]
        library = library_called(_value(values, "name"))
        version = _value(values, "version") if library else ""
        if library and version[:1].isdecimal():
            yield Requirement(library, f"=={version}", PinPlace(shown(path)), is_conditional=True)


def _value(values: str, key: str) -> str:
    """The string that a key of a table has, empty if there is none."""
    _, found, rest = f"\n{values}".partition(f"\n{key} = ")
    return rest.partition("\n")[0].strip().strip("\"'") if found else ""
