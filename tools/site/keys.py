"""The key reference: a page for each section of the config, one for what is beside them, one for what is removed."""

from __future__ import annotations

import html
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge import descriptions, tables
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.site import rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.rule import Rule
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.source.tree import KeyPath

INDEX = "keys/index.md"
TOP = "top-level"  # the page of the keys that are not sections
REMOVED = "older-releases"

_NAME = re.compile(r"(?<![\w`.])[a-z]\w*(?:\.\w+)*\(\)|(?<![\w`.])[a-z][\w*]*_[\w*]+(?:\.[\w*]+)*(?:\(\))?|\"[^\"]*\"")


def documented() -> list[KeyPath]:
    """Every key that the newest release reads, sections before what they hold."""
    order = {path: number for number, path in enumerate(descriptions.documented())}
    return sorted(order, key=lambda path: [order.get(path[:depth], -1) for depth in range(1, len(path) + 1)])


@cache
def sections() -> dict[str, list[KeyPath]]:
    """The keys by the page that they are on."""
    everything = documented()
    holding = {path[0] for path in everything if len(path) > 1}
    by_page: dict[str, list[KeyPath]] = {TOP: []}
    for path in everything:
        by_page.setdefault(path[0] if path[0] in holding else TOP, []).append(path)
    return by_page


def index(knowledge: Knowledge) -> str:
    """What each page is about."""
    everything = sections()
    text = [
        "# Keys\n",
        f"Every key that DeepSpeed {knowledge.deepspeed} reads, with its type, its default, the releases that read it",
        'and what the Trainer and Accelerate fill in for an `"auto"`. Keys that it no longer reads are on [a page of',
        f"their own]({REMOVED}.md). The same in the terminal: `ds-lint explain zero_optimization.stage`.\n",
        "| section | keys | |",
        "|---|--:|---|",
        f"| [the top level]({TOP}.md) | {len(everything[TOP])} | Keys that are not sections |",
    ]
    for section, paths in everything.items():
        if section != TOP:
            meaning = _labelled((section,), knowledge).get("meaning", "")
            text.append(f"| [`{section}`]({section}.md) | {len(paths) - 1} | {worded(meaning)} |")
    return "\n".join(text) + "\n"


def page(section: str, knowledge: Knowledge) -> str:
    """The keys of one section, each with what is known of it."""
    paths = sections()[section]
    if section == TOP:
        text = ["# Keys of the top level\n", f"Keys of DeepSpeed {knowledge.deepspeed} that are in no section.\n"]
    else:
        text = [f"# `{section}`\n", _entry(paths[0], knowledge)]
        paths = paths[1:]
    for path in paths:
        name = ".".join(path if section == TOP else path[1:])
        text += [f"\n## `{name}` {{: #{'.'.join(path)} }}\n", _entry(path, knowledge)]
    return "\n".join(text) + "\n"


def _labelled(path: KeyPath, knowledge: Knowledge) -> dict[str, str]:
    return {line.label: line.text for line in descriptions.entry(path, knowledge)}


def _entry(path: KeyPath, knowledge: Knowledge) -> str:
    known = _labelled(path, knowledge)
    meaning, see = known.pop("meaning", None), known.pop("see", None)
    known.pop("key", None)
    text = [f"{worded(meaning)}\n"] if meaning else []
    names = _names(path, knowledge) if "keys" in known else ""
    text += [f"{label}\n:   {names if label == 'keys' else worded(words)}\n" for label, words in known.items()]
    if speaking := ", ".join(_link(rule) for rule in speaking_of(path)):
        text.append(f"rules\n:   {speaking}\n")
    if see:
        text.append(f"see\n:   <{see}>\n")
    return "\n".join(text)


def _names(path: KeyPath, knowledge: Knowledge) -> str:
    """The keys that a section knows, each leading to its own entry if it has one."""
    section = knowledge.find(path)
    names = section.names() if section is not None else []
    known = set(sections()[path[0]])
    return (
        ", ".join(
            f"[`{name}`](#{'.'.join((*path, name))})" if (*path, name) in known else f"`{name}`" for name in names
        )
        or "any name"
    )


def _link(rule: Rule) -> str:
    return f'[{rule.code}](../{rules.path(rule)} "{rule.name}")'


def speaking_of(path: KeyPath) -> list[Rule]:
    """The rules whose pages name the key."""
    return _mentions().get(".".join(path), [])


@cache
def _mentions() -> dict[str, list[Rule]]:
    """The rules by every key that their pages name in code, by its path or by a name that only one key has."""
    paths = [".".join(path) for path in documented()]
    by_name: dict[str, list[str]] = {}
    for path in paths:
        by_name.setdefault(path.rpartition(".")[2], []).append(path)
    meant = {name: owners[0] for name, owners in by_name.items() if len(owners) == 1} | {path: path for path in paths}
    found: dict[str, list[Rule]] = {}
    for rule in every_rule():
        words = re.findall(r"`([\w.*]+)(?:: [^`]*)?`", pages.page(rule))
        for path in dict.fromkeys(meant[word] for word in words if word in meant):
            found.setdefault(path, []).append(rule)
    return found


def removed(knowledge: Knowledge) -> str:
    """The keys that only older releases read, or that the newest refuses by name."""
    text = [
        "# Keys of older releases\n",
        f"Keys that some release since {knowledge.releases[0]} read and DeepSpeed {knowledge.deepspeed} does not.\n",
        "| key | read |",
        "|---|---|",
    ]
    text += [f"| `{'.'.join(path)}` | {worded(words)} |" for path, words in _removed(knowledge)]
    return "\n".join(text) + "\n"


def _removed(knowledge: Knowledge) -> Iterator[tuple[KeyPath, str]]:
    """The removed keys, each with until when they were read; not what was in a removed section."""
    pending: list[tuple[KeyPath, Any]] = [
        ((name,), facts) for name, facts in tables.load("deepspeed")["root"]["keys"].items()
    ]
    for path, facts in pending:
        key = knowledge.find(path)
        if key is not None and (removal := descriptions.removal(key, knowledge)):
            yield path, f"rejected since {removal.since}" + (f"; {removal.instead}" if removal.instead else "")
        elif key is not None:
            pending += [((*path, name), below) for name, below in facts.get("keys", {}).items()]
        elif last := knowledge.last_release_of(path):
            yield path, f"up to {last}"


def worded(text: str) -> str:
    """A text of the key reference as Markdown: names and values in code, everything else as it is."""
    made, end = "", 0
    for found in _NAME.finditer(text):
        made += _escaped(text[end : found.start()]) + f"`{found[0]}`"
        end = found.end()
    return made + _escaped(text[end:])


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_\[\]|])", r"\\\1", html.escape(text, quote=False))
