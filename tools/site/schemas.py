"""Pages about what a JSON Schema describes: the settings, and the report for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge import resources

if TYPE_CHECKING:
    from collections.abc import Iterator

    Schema = dict[str, Any]


def published() -> list[str]:
    """The schemas that the site serves as files, by their paths in the repository."""
    names = (
        "report.schema.json",
        "bug_report.schema.json",
        "effective.schema.json",
        "convert.schema.json",
        "doctor.schema.json",
        "checkpoint.schema.json",
        "memory.schema.json",
        "rules.schema.json",
        "explain.schema.json",
        "shown_files.schema.json",
        "shown_launches.schema.json",
    )
    return [*(f"schemas/{name}" for name in names), "schemas/published/settings.schema.json"]


def settings() -> str:
    """Every setting with what it accepts, for the end of the page about settings."""
    schema = _read("published", "settings.schema.json")
    text: list[str] = []
    for name, facts in schema["properties"].items():
        text += [f"\n## `{name}`\n", f"{facts['description']}\n", f"accepts\n:   {_kind(facts)}\n"]
        below = facts.get("items", {}).get("properties")
        if below:
            text += [f"`{key}`\n:   {own['description']} {_kind(own).capitalize()}.\n" for key, own in below.items()]
    return "\n".join(text) + "\n"


def report() -> str:
    """Every record of the JSON report."""
    schema = _read("report.schema.json")
    text = [
        "# JSON report\n",
        f"{schema['description']} Programs read [the schema](schemas/report.schema.json).\n",
        *_record(schema),
    ]
    for name, facts in schema["definitions"].items():
        text += [f"\n## {name} {{: #{name} }}\n"]
        if "description" in facts:
            text.append(f"{facts['description']}\n")
        text += list(_record(facts)) if "properties" in facts else [f"accepts\n:   {_kind(facts)}\n"]
    return "\n".join(text) + "\n"


def _record(schema: Schema) -> Iterator[str]:
    required = schema.get("required", ())
    for name, facts in schema["properties"].items():
        always = "" if name in required else ", if there is any"
        description = f" {facts['description']}" if "description" in facts else ""
        yield f"`{name}`\n:   *{_kind(facts)}{always}.*{description}\n"
        for below, own in facts.get("properties", {}).items():
            description = f" {own['description']}" if "description" in own else ""
            yield f"`{name}.{below}`\n:   *{_kind(own)}.*{description}\n"


def _kind(facts: Schema) -> str:
    """What a value may be, in words."""
    if "const" in facts:
        return f"`{json.dumps(facts['const'])}`"
    if "enum" in facts:
        return " or ".join(f"`{json.dumps(choice)}`" for choice in facts["enum"])
    if "$ref" in facts:
        name = facts["$ref"].rpartition("/")[2]
        return "a rule" if name == "rule" else "rules" if name == "rules" else f"[{name}](#{name})"
    if "anyOf" in facts:
        return " or ".join(_kind(choice) for choice in facts["anyOf"])
    if "type" not in facts:
        return "anything"
    kind = facts["type"]
    if kind == "array" and "items" in facts:
        kind = _kind(facts["items"])
        return f"a list of {_PLURALS[kind]}" if kind in _PLURALS else f"a list of: {kind}"
    if kind == "object" and isinstance(facts.get("additionalProperties"), dict):
        return f"an object, its values: {_kind(facts['additionalProperties'])}"
    kinds = kind if isinstance(kind, list) else [kind]
    bounds = "".join(f", {word} {facts[name]}" for name, word in _BOUNDS.items() if name in facts)
    return " or ".join(_KINDS[one] for one in kinds) + bounds


_KINDS = {
    "array": "a list",
    "boolean": "`true` or `false`",
    "integer": "a whole number",
    "null": "`null`",
    "number": "a number",
    "object": "an object",
    "string": "a text",
}
_PLURALS = {"rules": "rules", "a rule": "rules", "a text": "texts", "an object": "objects"}
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}


def _read(*parts: str) -> Schema:
    with open(resources.path("schemas", *parts), encoding="utf-8") as file:
        schema: Schema = json.load(file)
    return schema
