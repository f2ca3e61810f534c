"""Write ``schemas/published/``: the JSON Schema of every minor line since 0.9 and of the settings of ds-lint.

Beside each of the two lies its entry for SchemaStore. The schema of ``--show-launches`` gets the names of launchers.

    python -m tools.publish_schemas

Editors fetch the files from the repository; ``tests/test_published.py`` fails where they are stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from ds_lint import json_schema
from ds_lint.addresses import RAW
from ds_lint.knowledge.keys import Knowledge, Target
from ds_lint.launches.launchers import LAUNCHERS
from ds_lint.settings.schema import schema as settings_schema

FOLDER = Path(__file__).parent.parent / "schemas" / "published"
LAUNCHES = "../shown_launches.schema.json"
ADDRESS = f"{RAW}/main/schemas/published/"
LATEST = "deepspeed-latest.schema.json"
ENTRY = "catalog-entry.json"
SETTINGS = "settings.schema.json"
SETTINGS_ENTRY = "settings-catalog-entry.json"
OLDEST_LINE = (0, 9)
# Names under which configs are published, and nothing else: zero3.json or stage2.json could be anything.
FILE_MATCH = [
    "deepspeed.json",
    "deepspeed_config*.json",
    "deepspeed-config*.json",
    "deepspeed_*_config*.json",
    "deepspeed_z*.json",
    "*_deepspeed_config.json",
    "ds_config*.json",
    "*.ds-config.json",
    "ds_stage*.json",
    "ds_z0*.json",
    "ds_z1*.json",
    "ds_z2*.json",
    "ds_z3*.json",
    "ds_zero*.json",
]


def files() -> dict[str, str]:
    """The text of every published file by its name."""
    releases = Knowledge().releases
    patches = {line: release for line, release in json_schema.newest_patches(releases).items() if _is_published(line)}
    texts = {_name(line): _text(release, _name(line)) for line, release in patches.items()}
    texts[LATEST] = _text(releases[-1], LATEST)
    texts[ENTRY] = json.dumps(entry(list(patches)), indent=2) + "\n"
    texts[SETTINGS] = json_schema.text(settings_schema(ADDRESS + SETTINGS))
    texts[SETTINGS_ENTRY] = json.dumps(settings_entry(), indent=2) + "\n"
    texts[LAUNCHES] = _launches()
    return texts


def entry(lines: list[str]) -> dict[str, Any]:
    """The entry for the catalogue of SchemaStore, newest line first as there."""
    return {
        "name": "DeepSpeed config",
        "description": "Configuration of DeepSpeed, also as the Hugging Face Trainer and Accelerate load it",
        "fileMatch": FILE_MATCH,
        "url": ADDRESS + LATEST,
        "versions": {line: ADDRESS + _name(line) for line in reversed(lines)},
    }


def settings_entry() -> dict[str, Any]:
    """The entry for the settings; the schema of ``pyproject.toml`` there refers to the same address."""
    return {
        "name": "ds-lint settings",
        "description": "Settings of ds-lint, the linter of DeepSpeed configs",
        "fileMatch": ["ds-lint.toml"],
        "url": ADDRESS + SETTINGS,
    }


def _launches() -> str:
    """The schema of ``--show-launches``, with every launcher that there is."""
    schema = json.loads((FOLDER / LAUNCHES).read_text(encoding="utf-8"))
    schema["properties"]["launches"]["items"]["properties"]["launcher"]["enum"] = [None, *LAUNCHERS]
    return json.dumps(schema, indent=2) + "\n"


def _is_published(line: str) -> bool:
    return tuple(int(part) for part in line.split(".")) >= OLDEST_LINE


def _name(line: str) -> str:
    return f"deepspeed-{line}.schema.json"


def _text(release: str, name: str) -> str:
    return json_schema.text(json_schema.schema(Knowledge(Target(release)), identity=ADDRESS + name))


def main() -> int:
    """Write what changed, and delete what is published no more."""
    texts = files()
    FOLDER.mkdir(exist_ok=True)
    for stale in FOLDER.iterdir():
        if stale.name not in texts:
            stale.unlink()
    for name, text in texts.items():
        path = FOLDER / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8", newline="\n")
            sys.stdout.write(f"wrote {path.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
