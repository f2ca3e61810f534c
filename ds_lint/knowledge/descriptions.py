"""The entry of a key: what ds-lint knows about it, as labels and texts."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from json import dumps, load
from typing import NamedTuple

from ds_lint.diagnostics.finding import LOADERS
from ds_lint.knowledge import resources
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.keys import Key, Knowledge
    from ds_lint.knowledge.records import Bound, KeyDocumentation, KeyFacts


class EntryLine(NamedTuple):
    """One fact about a key: its label and its text."""

    label: str
    text: str


class Removal(NamedTuple):
    """The release since which DeepSpeed rejects a key by name, and what to do instead, if there is something."""

    since: str
    instead: str | None


def entry(path: tuple[str, ...], knowledge: Knowledge) -> list[EntryLine]:
    """The facts about a key path, the key itself first; empty if no release knows it."""
    key = knowledge.find(path)
    if key is not None and path != ():
        return list(_key_lines(key, knowledge))
    return _parameter(path, knowledge) or _history(knowledge, path)


def _key_lines(key: Key, knowledge: Knowledge) -> Iterator[EntryLine]:
    """Name and text of every line about a key that the target knows."""
    yield EntryLine("key", dotted(key.path))
    words = documentation(key.path)
    if words.get("text"):
        yield EntryLine("meaning", words["text"])
    if removed := removal(key, knowledge):
        yield EntryLine("removed", f"DeepSpeed {removed.since} and later reject a config that has it")
        if removed.instead:
            yield EntryLine("instead", removed.instead)
    if key.facts.get("type") or "enum" in key.facts or "one_of" in key.facts:
        yield EntryLine("type", _type(key.facts))
    if "default" in key.facts:
        yield EntryLine("default", dumps(key.facts["default"]))
    if "alias" in key.facts:
        yield EntryLine("also", key.facts["alias"])
    if key.is_section and "removed" not in key.facts:
        unknown = "rejected" if key.strict else "silently ignored"
        yield EntryLine("section", f"unknown keys are {unknown}")
        yield EntryLine("keys", ", ".join(key.names()) or "any name")
    if "replaced_by" in key.facts:
        yield EntryLine("deprecated", f"write {key.facts['replaced_by']}")
    if "no_effect" in key.facts:
        yield EntryLine("effect", key.facts["no_effect"])
    yield EntryLine("releases", _releases(knowledge.runs(key.path), knowledge))
    yield from _filling(dotted(key.path), knowledge)
    if url := words.get("url"):
        yield EntryLine("see", url)


def removal(key: Key, knowledge: Knowledge) -> Removal | None:
    """The removal of a key; None if the target does not reject it."""
    if "removed" not in key.facts:
        return None
    return Removal(key.facts.get("since", knowledge.deepspeed), key.facts.get("instead"))


def _parameter(path: tuple[str, ...], knowledge: Knowledge) -> list[EntryLine]:
    """The facts about a parameter of torch's optimizers or schedulers, which DeepSpeed passes on."""
    if len(path) != 3 or path[1] != "params" or path[0] not in ("optimizer", "scheduler"):
        return []
    family = knowledge.torch["optimizers" if path[0] == "optimizer" else "schedulers"]
    users = [name for name, parameters in family.items() if path[2] in parameters]
    if not users:
        return []
    return [
        EntryLine("key", dotted(path)),
        EntryLine("parameter of", "torch's " + ", ".join(users)),
        *_filling(dotted(path), knowledge),
    ]


def _history(knowledge: Knowledge, path: tuple[str, ...]) -> list[EntryLine]:
    """The facts about a key that only older releases read."""
    last = knowledge.last_release_of(path)
    if last is None:
        return []
    return [
        EntryLine("key", dotted(path)),
        EntryLine("releases", f"read up to {last}; DeepSpeed {knowledge.deepspeed} no longer reads it"),
    ]


def _type(facts: KeyFacts) -> str:
    choices = facts.get("enum") or facts.get("one_of")
    if choices:
        return "one of " + ", ".join(dumps(choice) for choice in choices)
    kinds = facts["type"]
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    bounds: dict[Bound, str] = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return text + "".join(f", {sign} {facts[name]}" for name, sign in bounds.items() if name in facts)


def _releases(runs: list[KeyFacts], knowledge: Knowledge) -> str:
    """The releases that read the key, and those that changed its facts."""
    first = runs[0].get("since", knowledge.releases[0])
    text = f"since {first}" if first != knowledge.releases[0] else f"in every release since {first}"
    last = runs[-1].get("until")
    if last:
        text += f", until {last}"
    changes = ((_change(before, after), after["since"]) for before, after in pairwise(runs))
    return text + "".join(f"; {change} in {since}" for change, since in changes if change)


def _change(before: KeyFacts, after: KeyFacts) -> str:
    """What a release changed, in words; empty if it is nothing to tell."""
    if "removed" in after:
        return "removed"
    if before.get("unknown") != after.get("unknown"):
        return "unknown keys " + ("rejected" if after.get("unknown") == "rejected" else "ignored")
    if before.get("default") != after.get("default"):
        return f"default {dumps(before.get('default'))} became {dumps(after.get('default'))}"
    if "deprecated" in after and "deprecated" not in before:
        return "deprecated"
    return ""


def _filling(path: str, knowledge: Knowledge) -> Iterator[EntryLine]:
    filled = knowledge.trainer["fills"].get(path)
    if filled:
        who = " and ".join(LOADERS[stack] for stack in filled["by"])
        yield EntryLine("auto", f"{who} {'fill' if len(filled['by']) > 1 else 'fills'} it with {filled['with']}")
        if filled["matched"]:
            yield EntryLine("match", "any other value must equal the Trainer's")
    overwritten = knowledge.trainer["overwrites"].get(path)
    if overwritten:
        yield EntryLine("overwritten", f"the Trainer and Accelerate set it to {overwritten['with']}")


def documentation(path: tuple[str, ...]) -> KeyDocumentation:
    """The documentation of a key: its meaning as ``text``, and the ``url`` of DeepSpeed's page about it, if any."""
    return documented().get(path, {})


@cache
def documented() -> dict[tuple[str, ...], KeyDocumentation]:
    """The documentation of every key that has some."""
    with open(resources.path("schemas", "documentation.json"), encoding="utf-8") as file:
        keys: dict[str, KeyDocumentation] = load(file)["keys"]
    return {tuple(path.split(".")): words for path, words in keys.items()}
