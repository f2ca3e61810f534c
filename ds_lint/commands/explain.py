"""``ds-lint explain``: the page of a rule, or what is known of a key."""

from __future__ import annotations

import sys
from itertools import pairwise
from json import dumps, load

from ds_lint import linting, resources
from ds_lint.output.terminal import QUIET, STRONG, terminal_of
from ds_lint.output.text import wrap
from ds_lint.selection import find
from ds_lint.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.knowledge import Key, Knowledge
    from ds_lint.output.terminal import Terminal


def explain(subject: str) -> int:
    """Print the page of a rule or the entry of a key; 2 where there is neither."""
    rule = find(subject)
    if rule is not None:
        from ds_lint import pages

        sys.stdout.write(pages.page(rule))
        return 0
    knowledge = linting.knowledge()
    path = tuple(subject.split("."))
    lines = _history(knowledge, path)
    key = knowledge.find(path)
    if key is not None and path != ():
        lines = list(_entry(key, knowledge))
    elif parameter := _parameter(path, knowledge):
        lines = parameter
    if not lines:
        sys.stderr.write(f"ds-lint: there is no rule and no key {subject}{_hint(subject, knowledge)}\n")
        return 2
    _print(lines, terminal_of(sys.stdout))
    return 0


def _entry(key: Key, knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    """Name and text of every line about a key that the target knows."""
    yield "key", dotted(key.path)
    words = _documentation(key.path)
    if words.get("text"):
        yield "meaning", words["text"]
    if "removed" in key.facts:
        since = key.facts.get("since", knowledge.deepspeed)
        yield "removed", f"DeepSpeed refuses a config that has it since {since}"
        if "instead" in key.facts:
            yield "instead", key.facts["instead"]
    if key.facts.get("type") or "enum" in key.facts or "one_of" in key.facts:
        yield "type", _type(key.facts)
    if "default" in key.facts:
        yield "default", dumps(key.facts["default"])
    if "alias" in key.facts:
        yield "also", key.facts["alias"]
    if key.is_section and "removed" not in key.facts:
        unknown = "refused" if key.strict else "passed over without a word"
        yield "section", f"keys that it does not know are {unknown}; it knows {', '.join(key.names()) or 'any name'}"
    if "replaced_by" in key.facts:
        yield "deprecated", f"write {key.facts['replaced_by']}"
    if "no_effect" in key.facts:
        yield "effect", key.facts["no_effect"]
    yield "releases", _releases(knowledge.runs(key.path), knowledge)
    yield from _filling(dotted(key.path), knowledge)
    if words.get("url"):
        yield "see", words["url"]


def _parameter(path: tuple[str, ...], knowledge: Knowledge) -> list[tuple[str, str]]:
    """Parameters of torch's optimizers and schedulers, which DeepSpeed passes through."""
    if len(path) != 3 or path[1] != "params" or path[0] not in ("optimizer", "scheduler"):
        return []
    family = knowledge.torch["optimizers" if path[0] == "optimizer" else "schedulers"]
    users = [name for name, parameters in family.items() if path[2] in parameters]
    if not users:
        return []
    return [("key", dotted(path)), ("parameter of", "torch's " + ", ".join(users)), *_filling(dotted(path), knowledge)]


def _history(knowledge: Knowledge, path: tuple[str, ...]) -> list[tuple[str, str]]:
    """What there is to say of a key that only older releases read."""
    last = knowledge.last_release_of(path)
    if last is None:
        return []
    return [
        ("key", dotted(path)),
        ("releases", f"read up to {last}; DeepSpeed {knowledge.deepspeed} does not know it any more"),
    ]


def _type(facts: dict[str, Any]) -> str:
    choices = facts.get("enum") or facts.get("one_of")
    if choices:
        return "one of " + ", ".join(dumps(choice) for choice in choices)
    kinds = facts["type"]
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    bounds = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
    return text + "".join(f", {sign} {facts[name]}" for name, sign in bounds.items() if name in facts)


def _releases(runs: list[dict[str, Any]], knowledge: Knowledge) -> str:
    """Since when the key is read, and when its facts changed."""
    first = runs[0].get("since", knowledge.releases[0])
    text = f"since {first}" if first != knowledge.releases[0] else f"in every release since {first}"
    last = runs[-1].get("until")
    if last:
        text += f", until {last}"
    changes = [f"{_change(before, after)} in {after['since']}" for before, after in pairwise(runs)]
    return text + "".join(f"; {change}" for change in changes if not change.startswith("nothing"))


def _change(before: dict[str, Any], after: dict[str, Any]) -> str:
    if "removed" in after:
        return "removed"
    if before.get("unknown") != after.get("unknown"):
        return "unknown keys " + ("refused" if after.get("unknown") == "rejected" else "passed over")
    if before.get("default") != after.get("default"):
        return f"default {dumps(before.get('default'))} became {dumps(after.get('default'))}"
    if "deprecated" in after and "deprecated" not in before:
        return "deprecated"
    return "nothing"


_WHO = {"trainer": "the Trainer", "accelerate": "Accelerate"}


def _filling(path: str, knowledge: Knowledge) -> Iterator[tuple[str, str]]:
    filled = knowledge.trainer["fills"].get(path)
    if filled:
        who = " and ".join(_WHO[stack] for stack in filled["by"])
        yield "auto", f"{who} {'fill' if len(filled['by']) > 1 else 'fills'} it with {filled['with']}"
        if filled["matched"]:
            yield "match", "a value of its own must equal the Trainer's"
    overwritten = knowledge.trainer["overwrites"].get(path)
    if overwritten:
        yield "overwritten", f"the Trainer and Accelerate set it to {overwritten['with']}"


def _documentation(path: tuple[str, ...]) -> dict[str, str]:
    with open(resources.path("schemas", "documentation.json"), encoding="utf-8") as file:
        keys: dict[str, dict[str, str]] = load(file)["keys"]
    return keys.get(dotted(path), {})


def _hint(subject: str, knowledge: Knowledge) -> str:
    from ds_lint.suggest import choice

    last = subject.rsplit(".", 1)[-1]
    keys = [dotted(key.path) for key in knowledge.everywhere()]
    meant = next((key for key in keys if key.rsplit(".", 1)[-1] == last), None) or choice(subject, keys)
    return f"; did you mean {meant}?" if meant else "; `ds-lint rules` lists the rules"


def _print(lines: list[tuple[str, str]], terminal: Terminal) -> None:
    (_, name), *rest = lines
    sys.stdout.write(terminal.paint(name, STRONG) + "\n")
    width = max(len(label) for label, _ in rest) if rest else 0
    for label, text in rest:
        first, *others = wrap(text, terminal.width, taken=width + 4, indent=width + 4)
        sys.stdout.write(f"  {terminal.paint(label.ljust(width), QUIET)}  {first}\n")
        for line in others:
            sys.stdout.write(f"{line}\n")
