"""The JSON Schema of a config, for editors: a projection of what is known of one DeepSpeed release.

Editors check while somebody types and know neither the stack nor the other keys, so the schema says less than
``ds-lint check``: whatever ds-lint finds nothing wrong with, the schema accepts, and keys that DeepSpeed does not know
are flagged by both. Draft-07, because the editors of 2022 switch a whole schema off that claims a newer draft.

Facts of ``schemas/overlay.json`` about values were measured with the newest release. The schema of an older one takes
them for suggestions and asserts only what was extracted from that release itself.
"""

from __future__ import annotations

from ds_lint.json_schema.conditions import conditions, is_looked_at
from ds_lint.json_schema.sections import properties_of, section
from ds_lint.json_schema.snippets import WHOLE_CONFIGS, known_snippets
from ds_lint.json_schema.target import SchemaTarget
from ds_lint.json_schema.values import DEFINITIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.json_schema.values import Schema
    from ds_lint.knowledge.keys import Knowledge

_WIDTH = 1000
DRAFT = "http://json-schema.org/draft-07/schema#"


class UnpublishedRelease(Exception):  # noqa: N818 - it is the user's word that is unknown
    """A version that is no known release of DeepSpeed; the message says which are known."""


def schema(knowledge: Knowledge, *, identity: str | None = None) -> Schema:
    """The schema of a config for the release that the knowledge is about; ``identity`` is where it is published."""
    target = SchemaTarget(knowledge)
    return {
        "$schema": DRAFT,
        **({"$id": identity} if identity else {}),
        "title": f"DeepSpeed {knowledge.deepspeed} config",
        "description": f"What DeepSpeed {knowledge.deepspeed} reads, and the places that the Hugging Face Trainer and "
        'Accelerate fill where they say "auto". Made by ds-lint from its knowledge of the release.',
        "type": "object",
        "defaultSnippets": known_snippets(WHOLE_CONFIGS, target),
        **section(properties_of(knowledge.root, target), strict=False),
        "allOf": conditions(target),
        "definitions": {**DEFINITIONS, "schedulerIsLookedAt": is_looked_at()},
    }


def text(published: Schema) -> str:
    """A schema as it is printed and checked in: a key without keys of its own stands on one line."""
    return _text(published, 0) + "\n"


def _text(value: Any, depth: int) -> str:
    from json import dumps

    line = dumps(value)
    if not isinstance(value, (dict, list)) or depth + len(line) <= _WIDTH:
        return line
    inner = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        parts = [f"{dumps(name)}: {_text(below, depth + 1)}" for name, below in value.items()]
        return "{" + inner + f",{inner}".join(parts) + inner[:-1] + "}"
    return "[" + inner + f",{inner}".join(_text(below, depth + 1) for below in value) + inner[:-1] + "]"


def release(wanted: str, releases: list[str]) -> str:
    """The release of this version; of a line such as ``0.16`` the newest patch. Raises UnknownRelease."""
    if wanted in releases:
        return wanted
    line = newest_patches(releases).get(wanted)
    if line is None:
        raise UnpublishedRelease(
            f"there is no DeepSpeed {wanted}; known are the releases from {releases[0]} to {releases[-1]}"
        )
    return line


def newest_patches(releases: list[str]) -> dict[str, str]:
    """The newest patch of every minor line, oldest line first."""
    return {version.rpartition(".")[0]: version for version in releases}
