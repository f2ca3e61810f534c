"""Hover and completion in the YAML of ``accelerate launch``: its keys, and the settings of the DeepSpeed plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from lsprotocol import types

from ds_lint.knowledge import descriptions
from ds_lint.lsp.cursor import member_at
from ds_lint.semantics.accelerate.deepspeed_config import SETTINGS
from ds_lint.semantics.accelerate.launch import SECTIONS, prefix_of
from ds_lint.source.spelling import as_json, as_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.lsp.documents import OpenDocument
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath, Span

_PLUGIN = "deepspeed_config"
_BECOMES = {name: path for path, name in SETTINGS.items()}  # the key of the DeepSpeed config for a setting
_TYPED = re.compile(r"(?P<indent>[ ]*)(?P<key>[\w-]*)(?P<colon>[ \t]*:[ \t]+(?P<quote>['\"]?)(?P<value>[\w.-]*))?$")
_REST = re.compile(r"[\w.-]*")
_KEY = re.compile(r"([ ]*)([\w-]+)[ \t]*:")


class YamlKey(NamedTuple):
    """A key that may be in the file, with what its release knows of it."""

    path: KeyPath
    type: str
    choices: list[Any]
    default: Any


class Explained(NamedTuple):
    """What there is to say about a place."""

    text: str
    span: Span


def explained(document: Document, offset: int, knowledge: Knowledge) -> Explained | None:
    """The key at a place of a file, or None if its release does not know it."""
    at = member_at(document, offset)
    key = next((one for one in keys(at.path[:-1], knowledge) if one.path == at.path), None) if at is not None else None
    if at is None or key is None:
        return None
    return Explained(_entry(key, knowledge), at.member.key_span if at.is_key else at.member.value.span)


def keys(section: KeyPath, knowledge: Knowledge) -> Iterator[YamlKey]:
    """The keys that a section takes, or the top level."""
    known = knowledge.table("accelerate", "yaml")
    if not section:
        for name, facts in known.items():
            if "." not in name and "converted" not in facts:
                yield _key((name,), facts, knowledge)
        return
    (outer, *deeper) = section
    if deeper or outer not in SECTIONS or outer not in known:
        return
    arguments, prefix = knowledge.table("accelerate", "launch_arguments"), prefix_of(outer)
    names = [name for name in arguments if prefix and name.startswith(prefix)]
    if outer == _PLUGIN:
        names = [name.partition(".")[2] for name in known if name.startswith(f"{_PLUGIN}.")]
    for name in names:
        yield _key((outer, name), arguments.get(name, {}), knowledge)


def _key(path: KeyPath, facts: StackFacts, knowledge: Knowledge) -> YamlKey:
    """A key; what a setting of the plugin takes is what the key of the DeepSpeed config takes that it becomes."""
    name, kind, default = path[-1], facts.get("type", ""), facts.get("default")
    choices = _words(name, kind, knowledge)
    if path[0] == _PLUGIN and len(path) == 2:
        plugin = knowledge.table("accelerate", "plugin").get(name, {})
        kind, default = plugin.get("type", kind), plugin.get("otherwise", default)
        becomes = knowledge.find(_BECOMES[name]) if name in _BECOMES else None
        if becomes is not None:
            choices = list(becomes.facts.get("enum") or ())
    if not choices and "bool" in kind:
        choices = [True, False]
    return YamlKey(path, kind, choices, default)


def _words(name: str, kind: str, knowledge: Knowledge) -> list[Any]:
    """The words that a key takes: those of its enumeration, or of its flag on the command line."""
    enumerations = knowledge.table("accelerate", "words")
    named = ["DynamoBackend"] if name == "dynamo_backend" else re.findall(r"\w+", kind)
    flag = knowledge.table("accelerate", "launch_arguments").get(name, {})
    return next((list(enumerations[one]["choices"]) for one in named if one in enumerations), flag.get("choices", []))


def _entry(key: YamlKey, knowledge: Knowledge) -> str:
    """What is known of a key, as Markdown."""
    facts = [f"type: `{key.type}`"] if key.type else []
    facts += [f"default: `{as_json(key.default)}`"] if key.default is not None else []
    facts += [f"values: {', '.join(f'`{_shown(choice)}`' for choice in key.choices)}"] if key.choices else []
    becomes = _BECOMES.get(key.path[-1]) if key.path[0] == _PLUGIN else None
    meaning = ""
    if becomes is not None:
        facts.append(f"becomes `{'.'.join(becomes)}` of the DeepSpeed config")
        meaning = next((line.text for line in descriptions.entry(becomes, knowledge) if line.label == "meaning"), "")
    listed = "\n".join(f"* {fact}" for fact in facts)
    about = f"**`{'.'.join(key.path)}`** of Accelerate {knowledge.target['accelerate']}"
    return "\n\n".join(filter(None, (about, meaning, listed)))


def _shown(choice: Any) -> str:
    return choice if isinstance(choice, str) else as_json(choice)


def completion(opened: OpenDocument, offset: int, knowledge: Knowledge) -> list[types.CompletionItem]:
    """What may be written at a place of a file: a key, or a value if only some are allowed."""
    start = opened.text.rfind("\n", 0, offset) + 1
    typed = _TYPED.match(opened.text[start:offset])
    if typed is None:
        return []
    section = _section(opened.text[:start], len(typed["indent"]))
    end = _REST.match(opened.text, offset).end()  # type: ignore[union-attr]  # it matches nothing, too
    word = typed["key"] if typed["colon"] is None else typed["value"]
    place = types.Range(opened.lines.position(offset - len(word)), opened.lines.position(end))
    if typed["colon"] is None:
        beside = _beside(opened, offset, section)
        has_colon = opened.text.startswith(":", end)
        return [
            _item(key, place, has_colon=has_colon) for key in keys(section, knowledge) if key.path[-1] not in beside
        ]
    key = next((one for one in keys(section, knowledge) if one.path[-1] == typed["key"]), None)
    found = (_value(choice, opened, place, typed["quote"]) for choice in (key.choices if key is not None else ()))
    return [item for item in found if item is not None]


def _section(before: str, indent: int) -> KeyPath:
    """The keys that a line is under, by the indentation of the lines before it."""
    path: list[str] = []
    for line in reversed(before.splitlines()):
        key = _KEY.match(line)
        if key is not None and len(key[1]) < indent:
            path.insert(0, key[2])
            indent = len(key[1])
    return tuple(path)


def _beside(opened: OpenDocument, offset: int, section: KeyPath) -> set[str]:
    """The keys that are beside the line of a place."""
    for document in opened.configs_without_line(offset):
        node = document.root.at(section) if document.root is not None else None
        if node is not None:
            return {member.key for member in node.members}
    return set()


def _item(key: YamlKey, place: types.Range, *, has_colon: bool) -> types.CompletionItem:
    name = key.path[-1]
    default = f" = {as_json(key.default)}" if key.default is not None else ""
    return types.CompletionItem(
        label=name,
        kind=types.CompletionItemKind.Property,
        detail=f"{key.type}{default}" or None,
        text_edit=types.TextEdit(place, name if has_colon else f"{name}: "),
    )


def _value(choice: Any, opened: OpenDocument, place: types.Range, quote: str) -> types.CompletionItem | None:
    """The item of a value; between quotes only a text can be."""
    if quote and not isinstance(choice, str):
        return None
    text = choice if quote else as_yaml(choice)
    return types.CompletionItem(
        label=_shown(choice), kind=types.CompletionItemKind.Value, text_edit=types.TextEdit(place, text)
    )
