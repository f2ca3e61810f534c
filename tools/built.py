"""Build hook: the files of ``schemas/`` that a check needs as a Python module, which loads without ``json``.

A checkout reads the JSON; an installed ds-lint finds ``ds_lint/_built.py``, which Python keeps compiled.
"""

from __future__ import annotations

import json
import pprint
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HEADER = '"""Made from schemas/ when ds-lint was built; tools/built.py says why."""\n\n'
# Whole files: a table that is left out would be one that an installed ds-lint does not know, and it is 0.2 ms for all.
FILES = ("deepspeed", "overlay", "transformers", "accelerate", "trainer_overlay", "pairs")


class BuiltHook(BuildHookInterface[BuilderConfig]):
    """Put the module into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the module into a folder that goes with the build (dist/ holds what is published), and add it."""
        if version == "editable":
            return
        self.folder = tempfile.TemporaryDirectory()
        target = Path(self.folder.name) / "_built.py"
        target.write_text(source(Path(self.root) / "schemas"), encoding="utf-8")
        build_data["force_include"][str(target)] = "ds_lint/_built.py"
        target = Path(self.folder.name) / "_built_advisories.py"
        target.write_text(index(Path(self.root) / "schemas"), encoding="utf-8")
        build_data["force_include"][str(target)] = "ds_lint/_built_advisories.py"


def source(schemas: Path) -> str:
    """The text of the module."""
    return HEADER + "".join(
        f"{name.upper()} = {pprint.pformat(_content(schemas, name), width=10000, compact=True, sort_dicts=False)}\n"
        for name in FILES
    )


def index(schemas: Path) -> str:
    """The text of the module with what decides whether an advisory applies.

    A check of a config whose releases are known needs it, and nothing of the texts and proofs until one applies.
    """
    store = _content(schemas, "advisories")
    store["advisories"] = [
        {name: record[name] for name in ("id", "code", "stacks", "when") if name in record}
        | {"libraries": {library: list(map(_stretch, found)) for library, found in record["libraries"].items()}}
        for record in store["advisories"]
    ]
    return f"{HEADER}INDEX = {pprint.pformat(store, width=10000, compact=True, sort_dicts=False)}\n"


def _stretch(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in ("introduced", "fixed")}


def _content(schemas: Path, name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((schemas / f"{name}.json").read_text(encoding="utf-8"))
    return content
