"""What changed from one release to another, as lines of a change log."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from tools.extract.deepspeed.facts import BELOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.extract.deepspeed.facts import Facts
    from tools.extract.deepspeed.values import KeyPath

    Keys = dict[KeyPath, Facts]

SIMILAR = 0.86  # of two names, so that one that went is likely to be the one that came
LONGEST_VALUE = 90
_ABSENT = object()
_COMPARED = {
    "default": "default",
    "defaults": "defaults",
    "type": "type",
    "items": "items",
    "enum": "choices",
    "minimum": "minimum",
    "exclusiveMinimum": "exclusive minimum",
    "maximum": "maximum",
    "exclusiveMaximum": "exclusive maximum",
    "alias": "alias",
    "unknown": "unknown keys",
}


def changes(before: Facts, after: Facts) -> list[str]:
    """The lines of the change log for the second release."""
    old, new = _flat(before["root"]), _flat(after["root"])
    went, came = sorted(old.keys() - new.keys()), sorted(new.keys() - old.keys())
    refused = [path for path in sorted(new) if "removed" in new[path] and "removed" not in old.get(path, {})]
    renamed = _renamed(old, new, went, [path for path in came if path not in refused])
    lines = [f"{name}: {_value(before, name)} -> {_value(after, name)}" for name in _changed_libraries(before, after)]
    lines += [f"refused `{_dotted(path)}`" for path in refused]
    lines += [f"renamed `{_dotted(path)}` to `{_dotted(renamed[path])}`" for path in renamed]
    hidden = {*refused, *renamed, *renamed.values()}
    lines += [_came(path, came, new) for path in _topmost(came, hidden)]
    lines += [f"no longer read `{_dotted(path)}`{_count(path, went)}" for path in _topmost(went, hidden)]
    for path in sorted(old.keys() & new.keys()):
        if "removed" not in new[path]:
            lines += _changed_facts(path, old[path], new[path])
    return lines + list(_changed_constructors(before["constructors"], after["constructors"]))


def _flat(node: Facts, path: KeyPath = ()) -> Keys:
    keys: Keys = {} if "group" in node else {path: node}
    for name, child in node.get("keys", {}).items():
        keys |= _flat(child, (*path, name))
    for name, part in BELOW.items():
        if part in node:
            keys |= _flat(node[part], (*path, name))
    return keys


def _dotted(path: KeyPath) -> str:
    return ".".join(path) or "(top level)"


def _show(value: Any) -> str:
    text = "nothing" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."


def _value(facts: Facts, name: str) -> str:
    return str(facts.get(name, "nothing"))


def _changed_libraries(before: Facts, after: Facts) -> list[str]:
    return [name for name in ("reader", "pydantic") if before.get(name) != after.get(name)]


def _renamed(old: Keys, new: Keys, went: list[KeyPath], came: list[KeyPath]) -> dict[KeyPath, KeyPath]:
    """Keys that went while one with a similar name and the same type came in the same section."""
    renamed: dict[KeyPath, KeyPath] = {}
    for path in went:
        similar = [
            other
            for other in came
            if other[:-1] == path[:-1]
            and other not in renamed.values()
            and difflib.SequenceMatcher(None, path[-1], other[-1]).ratio() > SIMILAR
            and old[path].get("type") == new[other].get("type")
        ]
        if len(similar) == 1:
            renamed[path] = similar[0]
    return renamed


def _topmost(paths: list[KeyPath], hidden: Iterable[KeyPath]) -> list[KeyPath]:
    """The paths that no other one and nothing hidden holds."""
    holders = {*paths, *hidden}
    shown = [path for path in paths if path not in hidden]
    return [path for path in shown if not any(path[:end] in holders for end in range(len(path)))]


def _count(path: KeyPath, paths: list[KeyPath]) -> str:
    below = sum(other[: len(path)] == path for other in paths) - 1
    return f" and {below} keys below" if below else ""


def _came(path: KeyPath, came: list[KeyPath], new: Keys) -> str:
    default = f", default {_show(new[path]['default'])}" if "default" in new[path] else ""
    return f"new `{_dotted(path)}`{_count(path, came)}{default}"


def _changed_facts(path: KeyPath, old: Facts, new: Facts) -> Iterator[str]:
    if "deprecated" in new and "deprecated" not in old:
        yield f"deprecated `{_dotted(path)}`" + (f" for `{new['replaced_by']}`" if "replaced_by" in new else "")
    for name, words in _COMPARED.items():
        one, other = old.get(name, _ABSENT), new.get(name, _ABSENT)
        if _show(one) != _show(other):
            yield f"{words} of `{_dotted(path)}`: {_show(one)} -> {_show(other)}"


def _changed_constructors(before: Facts, after: Facts) -> Iterator[str]:
    for section in sorted({*before, *after}):
        old, new = before.get(section, {}), after.get(section, {})
        yield from (f"`{section}`: new type {kind}" for kind in sorted(new.keys() - old.keys()))
        yield from (f"`{section}`: type {kind} is gone" for kind in sorted(old.keys() - new.keys()))
        for kind in sorted(old.keys() & new.keys()):
            yield from _changed_callables(f"`{section}` of {kind}", old[kind], new[kind])


def _changed_callables(label: str, before: list[Facts], after: list[Facts]) -> Iterator[str]:
    old, new = ({one["callee"]: one.get("parameters", {}) for one in callables} for callables in (before, after))
    yield from (f"{label}: may call {callee}" for callee in sorted(new.keys() - old.keys()))
    yield from (f"{label}: no longer calls {callee}" for callee in sorted(old.keys() - new.keys()))
    for callee in sorted(old.keys() & new.keys()):
        name = callee.rsplit(".", 1)[-1]
        for parameter in sorted({*old[callee], *new[callee]}):
            one, other = old[callee].get(parameter, _ABSENT), new[callee].get(parameter, _ABSENT)
            if _show(one) != _show(other):
                yield f"{label}: {name}({parameter}): {_show(one)} -> {_show(other)}"
