"""Build hook: the newest release's share of ``schemas/`` as a Python module, which loads three times as fast.

A checkout reads the JSON; an installed ds-lint finds ``ds_lint/_compact.py``, which Python keeps compiled. Both hold
the same facts: tests/test_compact.py compares them.
"""

from __future__ import annotations

import json
import pprint
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEADER = '"""Made from schemas/ when ds-lint was built; tools/compact.py says why."""\n\n'


class CompactHook(BuildHookInterface[BuilderConfig]):
    """Put the module into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the module beside the build's other temporary files and add it to the wheel."""
        if version == "editable":
            return
        target = Path(self.directory) / "_compact.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source(Path(self.root) / "schemas"), encoding="utf-8")
        build_data["force_include"][str(target)] = "ds_lint/_compact.py"


def source(schemas: Path) -> str:
    """The text of the module."""
    store = json.loads((schemas / "deepspeed.json").read_text(encoding="utf-8"))
    files = {
        "deepspeed": compact(store),
        "overlay": json.loads((schemas / "overlay.json").read_text(encoding="utf-8")),
        "trainer": json.loads((schemas / "trainer.json").read_text(encoding="utf-8")),
    }
    return HEADER + "".join(
        f"{name.upper()} = {pprint.pformat(data, width=10000, compact=True, sort_dicts=False)}\n"
        for name, data in files.items()
    )


def compact(store: dict[str, Any]) -> dict[str, Any]:
    """The store with the facts of its newest release alone."""
    newest = store["releases"][-1]
    constructors = {
        section: {kind: [runs[-1]] for kind, runs in kinds.items() if runs[-1]["until"] == newest}
        for section, kinds in store["constructors"].items()
    }
    return {
        "library": store["library"],
        "releases": [newest],
        "root": _key(store["root"]),
        "constructors": constructors,
    }


def _key(key: dict[str, Any]) -> dict[str, Any]:
    """One key with its newest facts; a key that the newest release does not know keeps only what is below it."""
    short = {name: value for name, value in key.items() if name not in ("runs", "keys", "any_key", "items_are")}
    if "runs" in key:
        newest = key["runs"][-1]
        if "until" in newest:
            return {"gone": True}
        short |= {name: value for name, value in newest.items() if name != "since" or "removed" in newest}
    if "keys" in key:
        below = {name: _key(one) for name, one in key["keys"].items()}
        short["keys"] = {name: one for name, one in below.items() if "gone" not in one}
    for part in ("any_key", "items_are"):
        if part in key:
            short[part] = _key(key[part])
    return short
