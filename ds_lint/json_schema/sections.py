"""Sections and their keys as JSON Schema."""

from __future__ import annotations

from ds_lint.json_schema.snippets import SNIPPETS, known_snippets
from ds_lint.json_schema.values import (
    AUTO,
    COMMENTS,
    asserted,
    reference,
    suggested,
    taken_by_code,
    taken_by_pydantic,
)
from ds_lint.knowledge.descriptions import documentation
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.json_schema.target import SchemaTarget
    from ds_lint.json_schema.values import Alternatives, Schema
    from ds_lint.knowledge.keys import Key
    from ds_lint.knowledge.records import KeyFacts
    from ds_lint.source.tree import KeyPath

_ANY_NAME = "*"  # how documentation.json writes a name of the user's own
STAGES = (
    "Plain data parallelism: every rank holds all model states",
    "Each rank keeps its share of the optimizer states",
    "Also its share of the gradients",
    "Also its share of the parameters",
)


def section(properties: Schema, *, strict: bool) -> Schema:
    """A section that holds these keys. Comments do no harm where unknown keys are passed over."""
    comments: Schema = {} if strict else {"patternProperties": {COMMENTS: {}}}
    return {"properties": properties, **comments, "additionalProperties": False}


def properties_of(key: Key, target: SchemaTarget) -> Schema:
    """The schemas of all keys of a section, second names included."""
    properties: Schema = {}
    for name in key.names():
        child = key.child(name)
        if child is None:
            continue
        properties[name] = _key(child, target, strict=key.strict)
        alias = child.facts.get("alias")
        if alias is not None and "removed" not in child.facts:
            properties[alias] = _second_name(child, target, strict=key.strict)
    return properties


def _key(key: Key, target: SchemaTarget, *, strict: bool) -> Schema:
    if "removed" in key.facts:
        return _removed(key)
    filled = target.filling(key.path)
    return {
        **description(key, target, filled),
        **_deprecation(key, target),
        **_default(key, target),
        **_snippets(key, target),
        **_below(key, target),
        **_value(key, target, strict=strict, is_filled=filled is not None),
    }


def _second_name(key: Key, target: SchemaTarget, *, strict: bool) -> Schema:
    """A name that works but is not offered; the Trainer fills only the first."""
    return {
        "description": f"Another name for {key.name}.",
        "doNotSuggest": True,
        **_below(key, target),
        **_value(key, target, strict=strict, is_filled=False),
    }


def _removed(key: Key) -> Schema:
    """Every value is refused; the message takes the place of the editor's own."""
    message = f"DeepSpeed rejects a config that has `{dotted(key.path)}`"
    if "since" in key.facts:
        message += f" since {key.facts['since']}"
    instead = key.facts.get("instead")
    message += f". Delete it{f', and {instead}' if instead else ''}."
    return {"description": message, "doNotSuggest": True, "errorMessage": message, "not": {}}


def description(key: Key, target: SchemaTarget, filled: str | None) -> Schema:
    """The text for editors that show plain text, and the same with what fills it and a link."""
    words = documentation(key.path)
    parts = [words["text"]] if "text" in words else []
    if target.is_newest and "no_effect" in key.facts:
        parts.append(f"Has no effect: {key.facts['no_effect']}.")
    if not parts and not filled:
        return {}
    return described(" ".join(parts), filled, words.get("url"))


def described(text: str, filled: str | None, url: str | None) -> Schema:
    """``description`` and ``markdownDescription`` of a text."""
    more = [f"{filled[0].upper()}{filled[1:]}."] if filled else []
    if url:
        more.append(f"[Documentation]({url})")
    found = {"description": text} if text else {}
    return found | {"markdownDescription": "\n\n".join([text, *more] if text else more)} if more else found


def _deprecation(key: Key, target: SchemaTarget) -> Schema:
    if target.is_newest and "no_effect" in key.facts:
        return {"doNotSuggest": True}
    if not key.facts.get("deprecated"):
        return {}
    return {"deprecationMessage": f"Deprecated: write {key.facts['replaced_by']}."}


def _default(key: Key, target: SchemaTarget) -> Schema:
    """The default, where there is one that a config could write; sections are better off with snippets."""
    default = (key.facts if target.is_newest else target.knowledge.extracted(key.path)).get("default")
    if default is None or key.is_section or (isinstance(default, str) and default.startswith("$")):
        return {}
    return {"default": default}


def _snippets(key: Key, target: SchemaTarget) -> Schema:
    snippets = known_snippets(SNIPPETS.get(dotted(key.path), ()), target)
    return {"defaultSnippets": snippets} if snippets else {}


def _below(key: Key, target: SchemaTarget) -> Schema:
    """The keys below a section; no library reads keys below a plain value."""
    if not key.is_section:
        return {}
    if key.facts.get("unknown") == "by-type":
        return {}  # conditions
    any_name, item = key.child(_ANY_NAME), key.item()
    properties = properties_of(key, target)
    if any_name is not None:
        return {"properties": properties, "additionalProperties": _element(any_name, target, (*key.path, _ANY_NAME))}
    found = section(properties, strict=key.strict) if target.knows_every_key_of(key) else {"properties": properties}
    if item is not None:
        element = _element(item, target, (*key.path, "0"))
        found["items"] = element if item.is_section else _without_keys(element)
    return found


def _element(key: Key, target: SchemaTarget, path: KeyPath) -> Schema:
    """An element of an array, or what is under a name of the user's own: nothing checks what kind it is."""
    words = documentation(path)
    return {**described(words.get("text", ""), None, words.get("url")), **_below(key, target)}


def _value(key: Key, target: SchemaTarget, *, strict: bool, is_filled: bool) -> Schema:
    """What the value itself may be."""
    taken = _taken(key, target, strict=strict)
    auto: Alternatives = [AUTO] if is_filled else []
    if dotted(key.path) == "zero_optimization.stage" and "enum" in key.facts:
        return _stage(key.facts["enum"])
    if taken is not None:
        value = asserted([*taken, *auto])
        return _without_keys(value) if key.facts.get("takes") == "truthy" else value
    if key.is_section or "unread" in key.facts:
        return {}
    if key.facts.get("type") == "boolean" and not auto:
        return {"allOf": [reference("rawBoolean")]}
    offered = [*suggested(key.facts), *auto]
    value = {"anyOf": [*offered, {}]} if offered else {}
    return _without_keys(value) if key.is_scalar else value


def _without_keys(value: Schema) -> Schema:
    """A value that may be an object as far as DeepSpeed minds, and in which nothing reads a key."""
    return {**value, "allOf": [*value.get("allOf", ()), reference("noSection")]}


def _taken(key: Key, target: SchemaTarget, *, strict: bool) -> Alternatives | None:
    """What must be taken for the value to pass; None where an editor cannot know, or where anything is taken."""
    facts = key.facts
    if not target.is_newest:
        return _taken_then(facts, target.knowledge.extracted(key.path), is_lax=target.is_lax) if strict else None
    if "takes" in facts:
        return None if any(depends in facts for depends in ("when", "unless", "stacks")) else taken_by_code(facts)
    return taken_by_pydantic(facts, is_lax=False) if strict else None


def _taken_then(facts: KeyFacts, extracted: KeyFacts, *, is_lax: bool) -> Alternatives | None:
    """What a strict section of an older release takes: what its model says, and what is measured of the newest."""
    by_model = taken_by_pydantic(extracted, is_lax=is_lax)
    if by_model is None:
        return None
    newer = taken_by_code(facts) if "takes" in facts else taken_by_pydantic(facts, is_lax=is_lax)
    return None if newer is None else [*by_model, *newer]


def _stage(stages: list[int]) -> Schema:
    """The stage with what each number is; in quotes the Trainer and Accelerate do not recognise it."""
    numbers = {"enum": stages, "enumDescriptions": [STAGES[stage] for stage in stages]}
    return asserted([numbers, reference("trueOrFalse"), AUTO])
