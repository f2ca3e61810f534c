"""Keys and values to write at a place, as the releases have them that the config is linted with.

Only what is between the quotes is replaced, a quote that is not there yet is added, and a word without quotes gets
both: the one form that VS Code and the omni-completion of Vim take alike.
"""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.json_schema.sections import STAGES
from ds_lint.lsp import accelerate, key_knowledge
from ds_lint.lsp.cursor import typed_at
from ds_lint.lsp.documents import HUGE
from ds_lint.lsp.hover import entry_in_markdown
from ds_lint.semantics.constructors import optimizer_types
from ds_lint.source.spelling import AUTO, spelled
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from ds_lint.knowledge.keys import Key, Knowledge
    from ds_lint.knowledge.records import KeyFacts
    from ds_lint.lsp.cursor import Typed
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.semantics.config import Config
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Node

_FIRST, _THEN, _LAST = "0", "1", "2"  # so that what is likely sorts before what is not


class _Choice:
    """A value that may be written, with what it means."""

    def __init__(self, value: Any, detail: str = "", rank: str = _FIRST) -> None:
        self.value = value
        self.detail = detail
        self.rank = rank


def completion(opened: OpenDocument, context: LintContext, position: types.Position) -> list[types.CompletionItem]:
    """What may be written at a position."""
    if len(opened.text) > HUGE:
        return []
    offset = opened.lines.offset(position)
    if opened.written_in == "yaml":
        return accelerate.completion(opened, offset, key_knowledge.knowledge(context))
    document = opened.config_around(offset)
    if document is None or document.kind != "deepspeed":
        return []
    start = document.root.span.start if document.language != "json" and document.root is not None else 0
    typed = typed_at(opened.text, offset, start)
    if typed is None:
        return []
    config = key_knowledge.config(document, context)
    place = types.Range(opened.lines.position(typed.start), opened.lines.position(typed.end))
    if typed.key is None:
        return [_key_item(child, typed, place, opened.uri) for child in _keys(config, typed, opened.text)]
    items = (_value_item(choice, typed, place, document) for choice in _values(config, typed))
    return [item for item in items if item is not None]


def resolved(item: types.CompletionItem, context: LintContext) -> types.CompletionItem:
    """The item of a key with what is known of the key."""
    data = item.data
    if isinstance(data, dict) and isinstance(data.get("key"), list):
        path = tuple(str(part) for part in data["key"])
        text = entry_in_markdown(path, key_knowledge.knowledge(context))
        if text:
            item.documentation = types.MarkupContent(types.MarkupKind.Markdown, text)
    return item


class _Offer:
    """A key that may be written; ``facts`` are empty for a parameter of which nothing is known."""

    def __init__(self, path: KeyPath, facts: KeyFacts) -> None:
        self.path = path
        self.facts = facts


def _keys(config: Config, typed: Typed, text: str) -> Iterator[_Offer]:
    """The keys that the section knows and does not have yet."""
    path = key_knowledge.as_meant(typed.section, config.knowledge)
    section = config.knowledge.find(path)
    written = _written(config.written, typed)
    for name in _names(config, section, path):
        key = section.child(name) if section is not None else None
        facts: KeyFacts = key.facts if key is not None else {}
        if name in written or facts.get("alias") in written or "removed" in facts or name == "*":
            continue
        yield _Offer((*path, name), facts)


def _names(config: Config, section: Key | None, path: KeyPath) -> list[str]:
    """The names of a section; of the parameters of an optimizer or scheduler those that its type takes."""
    if len(path) == 2 and path[1] == "params" and (built := key_knowledge.constructor(config, path[0])) is not None:
        return built.names()
    if section is None or not section.is_section:
        return []
    return section.names()


def _written(root: Node, typed: Typed) -> set[str]:
    """The keys that are beside the one that is typed."""
    section = root.at(typed.section)
    if section is None:
        return set()
    return {member.key for member in section.members if not member.key_span.start <= typed.start <= member.key_span.end}


def _key_item(offer: _Offer, typed: Typed, place: types.Range, uri: str) -> types.CompletionItem:
    name = offer.path[-1]
    is_old = bool(offer.facts.get("deprecated") or "replaced_by" in offer.facts or "no_effect" in offer.facts)
    return types.CompletionItem(
        label=name,
        kind=types.CompletionItemKind.Property,
        detail=_type(offer.facts),
        tags=[types.CompletionItemTag.Deprecated] if is_old else None,
        sort_text=(_LAST if is_old else _FIRST) + name,
        text_edit=types.TextEdit(place, name + typed.missing if typed.is_quoted else dumps(name)),
        data={"uri": uri, "key": list(offer.path)},
    )


def _type(facts: KeyFacts) -> str | None:
    """The type of a key in a word or two, with its default."""
    choices = facts.get("enum") or facts.get("one_of")
    kinds = facts.get("type")
    words = " | ".join(map(dumps, choices)) if choices else kinds if isinstance(kinds, str) else " | ".join(kinds or ())
    if facts.get("default") is not None and not isinstance(facts["default"], (dict, list)):
        words += f" = {dumps(facts['default'])}"
    return words or None


def _values(config: Config, typed: Typed) -> Iterator[_Choice]:
    """The values that a key may have."""
    assert typed.key is not None  # noqa: S101 - a value is typed
    path = (*typed.section, typed.key)
    if typed.in_array:
        return
    if typed.key == "type" and typed.section in (("optimizer",), ("scheduler",)):
        yield from _types(config.knowledge, typed.section[0])
        return
    key = config.knowledge.find(path)
    facts: KeyFacts = key.facts if key is not None and "removed" not in key.facts else {}
    kinds = facts.get("type", ())
    choices: Sequence[Any] = facts.get("enum") or facts.get("one_of") or ()
    for value in choices:
        yield _Choice(value, STAGES[value] if path == ("zero_optimization", "stage") else "")
    if "boolean" in ([kinds] if isinstance(kinds, str) else kinds) and not (key is not None and key.is_section):
        yield _Choice(True)
        yield _Choice(False)
    filled = config.knowledge.trainer["fills"].get(dotted(path))
    if filled and (not config.stack or config.stack in filled["by"]) and config.stack != "deepspeed":
        yield _Choice(AUTO, f"filled with {filled['with']}", _THEN)
    default = facts.get("default")
    if isinstance(default, (int, float)) and not isinstance(default, bool) and "enum" not in facts:
        yield _Choice(default, "default", _THEN)


def _types(knowledge: Knowledge, section: str) -> Iterator[_Choice]:
    """The types of optimizers or schedulers: DeepSpeed's own, then torch's."""
    own = optimizer_types(knowledge) if section == "optimizer" else knowledge.types("scheduler.params")
    torch = knowledge.torch["optimizers" if section == "optimizer" else "schedulers"]
    for kind in own:
        yield _Choice(kind, "DeepSpeed")
    for kind in torch:
        if kind not in own:
            yield _Choice(kind, "torch", _LAST)


def _value_item(choice: _Choice, typed: Typed, place: types.Range, document: Document) -> types.CompletionItem | None:
    """The item of a value; between quotes only a text can be."""
    written = spelled(choice.value, document)
    if typed.is_quoted:
        if not isinstance(choice.value, str):
            return None
        written = choice.value + typed.missing
    return types.CompletionItem(
        label=written if not isinstance(choice.value, str) else choice.value,
        kind=types.CompletionItemKind.Value,
        detail=choice.detail or None,
        sort_text=choice.rank + written.strip('"'),
        text_edit=types.TextEdit(place, written),
    )
