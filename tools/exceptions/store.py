"""``schemas/exceptions.json``: a line for each record, so that a diff shows what changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.exceptions.sources import Entry

STORE = Path(__file__).parents[2] / "schemas" / "exceptions.json"


def load() -> dict[str, Any]:
    """The store as it is."""
    content: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8"))
    return content


def records(store: dict[str, Any], proof: str) -> list[Entry]:
    """The records of one proof, each with its module."""
    return [
        {"module": module, **entry} for module, found in store["modules"].items() for entry in found
        if entry["proof"] == proof
    ]  # fmt: skip


def text(releases: dict[str, Any], entries: Iterable[Entry]) -> str:
    """The store with these records, by their modules."""
    modules: dict[str, list[str]] = {}
    for entry in entries:
        line = json.dumps({name: value for name, value in entry.items() if name != "module"}, ensure_ascii=False)
        modules.setdefault(entry["module"], []).append(line)
    named = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in releases.items())
    return f'{{\n "releases": {{\n{named}\n }},\n "modules": {{\n{",".join(_modules(modules))}\n }}\n}}\n'


def _modules(modules: dict[str, list[str]]) -> Iterator[str]:
    for place, module in enumerate(sorted(modules)):
        below = ",\n".join(f"   {line}" for line in modules[module])
        yield f"{chr(10) * bool(place)}  {json.dumps(module)}: [\n{below}\n  ]"
