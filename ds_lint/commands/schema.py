"""``ds-lint schema``: the JSON Schema of a config, for editors."""

from __future__ import annotations

import sys

from ds_lint import json_schema
from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Target
from ds_lint.output.harmless import complaint
from ds_lint.source import replacement


def schema(version: str | None, output: str | None) -> int:
    """Print or write the schema of a release, or of the newest patch of a line; return the exit status."""
    knowledge = keys.knowledge()
    if version is not None:
        try:
            knowledge = keys.knowledge(Target(json_schema.release(version, knowledge.releases)))
        except json_schema.UnpublishedRelease as error:
            sys.stderr.write(complaint(str(error)))
            return 2
    text = json_schema.text(json_schema.schema(knowledge))
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        replacement.write(output, text.encode(), is_report=True)
    except OSError as error:
        sys.stderr.write(complaint(f"{output}: {error.strerror or error}"))
        return 2
    return 0
