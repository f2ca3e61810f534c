"""The launches in the tasks of ``package.json``, ``pyproject.toml`` and ``pixi.toml``, of a justfile and a Procfile."""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from typing import TYPE_CHECKING, Any

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.shell.unknowns import StandIns
from ds_lint.targets import toml

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Task = tuple[str, int, dict[str, str | None]]  # a text of the shell, the lines before it, its environment

_OF_JUST = re.compile(r"\{\{(.*?)\}\}")
_JUST_SETS = re.compile(r"(?:export\s+)?([A-Za-z_][\w-]*)\s*:=\s*(?:\"([^\"]*)\"|'([^']*)')\s*")
_OF_A_PROCFILE = re.compile(r"[\w-]+:\s*(.*)")


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of all tasks, each in a shell of its own."""
    name, stand_ins = posixpath.basename(path.replace("\\", "/")).lower(), StandIns()
    if name.endswith((".json", ".toml")):
        tasks = _tasks(_parsed(text, name), text)
    elif name == "procfile":
        lines = enumerate(text.split("\n"))
        tasks = ((match[1], at, {}) for at, line in lines if (match := _OF_A_PROCFILE.fullmatch(line)))
    else:
        tasks = _of_just(text, stand_ins)
    found = [
        launches_in(script, path, read, variables=variables, stand_ins=stand_ins).moved(lines, path)
        for script, lines, variables in tasks
    ]
    return joined(found)


def _parsed(text: str, name: str) -> dict[str, Any]:
    try:
        parsed = json.loads(text) if name.endswith(".json") else toml.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _tasks(parsed: dict[str, Any], text: str) -> Iterator[Task]:
    """The tasks of npm, pixi and Poe."""
    tools = _table(parsed, "tool")
    pixi = parsed if "tasks" in parsed else _table(tools, "pixi")
    features = _table(pixi, "feature").values()
    tables = [_table(parsed, "scripts"), _table(pixi, "tasks"), _table(_table(tools, "poe"), "tasks")]
    tables += [_table(feature, "tasks") for feature in features if isinstance(feature, dict)]
    for task in (task for table in tables for task in table.values()):
        table = task if isinstance(task, dict) else {"cmd": task}
        environment: dict[str, str | None] = {
            name: value for name, value in _table(table, "env").items() if isinstance(value, str)
        }
        for command in (table.get("cmd"), table.get("shell")):
            words = command if isinstance(command, list) and all(isinstance(word, str) for word in command) else None
            script = command if isinstance(command, str) else shlex.join(words) if words else ""
            first = words[0] if words else script.strip().partition("\n")[0]
            if script:
                yield script, text[: max(text.find(json.dumps(first)[1:-1]), 0)].count("\n"), environment


def _table(parsed: dict[str, Any], name: str) -> dict[str, Any]:
    found = parsed.get(name)
    return found if isinstance(found, dict) else {}


def _of_just(text: str, stand_ins: StandIns) -> Iterator[Task]:
    """The lines of the recipes, each in a shell of its own unless the recipe begins with ``#!``."""
    known = {name: one or other for name, one, other in _JUST_SETS.findall(text)}

    def value(match: re.Match[str]) -> str:
        name = match[1].strip()
        return known[name] if name in known else stand_ins.add(name)

    lines = [_OF_JUST.sub(value, line) for line in text.split("\n")]
    position = 0
    while position < len(lines):
        start, line = position, lines[position]
        position += 1
        if not line.startswith((" ", "\t")) or not line.strip():
            continue
        is_script = line.lstrip().startswith("#!")
        while position < len(lines) and (
            line.endswith("\\") or (is_script and (lines[position][:1] in (" ", "\t") or not lines[position].strip()))
        ):
            line += "\n" + lines[position]
            position += 1
        yield line.lstrip(" \t@-"), start, {}
