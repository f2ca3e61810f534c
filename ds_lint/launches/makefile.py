"""The launches in the recipes of a Makefile, with make's variables as far as they are known.

A variable that nothing sets may come from the command line of make, as ``make train GPUS=8`` gives it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.shell.unknowns import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable

_ASSIGNMENT = re.compile(r"\s*(?:(?:export|override)\s+)*([A-Za-z_][\w.-]*)\s*(\?|\+|::?|!)?=\s*(.*)")
_REFERENCE = re.compile(r"\$(?:\((?P<round>[^()]*(?:\([^()]*\)[^()]*)*)\)|\{(?P<curly>[^{}]*)\}|(?P<one>[^\s({$]))")
_PREFIX = re.compile(r"^[-@+\s]*")
_DEEPEST = 20
_LONGEST = 10_000


class _Variables:
    """The variables of a Makefile."""

    def __init__(self) -> None:
        self.values: dict[str, str | None] = {}
        self.stand_ins = StandIns()

    def assign(self, name: str, operator: str, value: str, *, is_conditional: bool) -> None:
        if operator == "?" and name in self.values:
            return
        if operator == "!":
            self.values[name] = None
        elif operator == "+" and not is_conditional:
            before = self.values.get(name, "")
            self.values[name] = None if before is None else f"{before} {value}".strip()
        elif operator == "+" or (is_conditional and self.values.get(name, value) != value):
            self.values[name] = None
        else:
            self.values[name] = self.expanded(value) if operator.startswith(":") else value

    def expanded(self, text: str, depth: int = 0) -> str:
        """A text with its references replaced; ``$$`` stays for the end."""
        if depth > _DEEPEST or len(text) > _LONGEST:
            return self.stand_ins.add("make")

        def value(match: re.Match[str]) -> str:
            name = match["round"] or match["curly"] or match["one"] or ""
            known = self.values.get(name, "")
            if name in self.values and known is not None:
                return self.expanded(known, depth + 1)
            return self.stand_ins.add(name if re.fullmatch(r"\w+", name) else f"$({name})")

        return "$$".join(_REFERENCE.sub(value, part) for part in text.split("$$"))


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the recipes, each line in a shell of its own as make runs it."""
    variables, recipes = _read(text)
    found = []
    for line, recipe in recipes:
        script = variables.expanded(_PREFIX.sub("", recipe, count=1)).replace("$$", "$")
        found.append(launches_in(script, path, read, stand_ins=variables.stand_ins).moved(line, path))
    return joined(found)


def _read(text: str) -> tuple[_Variables, list[tuple[int, str]]]:
    """The variables, and the lines of recipes with the number of lines before each."""
    variables, recipes = _Variables(), list[tuple[int, str]]()
    lines = text.splitlines()
    position, depth, in_rule = 0, 0, False
    while position < len(lines):
        start, line = position, lines[position]
        while line.endswith("\\") and position + 1 < len(lines):
            position += 1
            line += "\n" + lines[position]
        position += 1
        if line.startswith("\t") and in_rule:
            recipes.append((start, line.replace("\n\t", "\n")))
            continue
        plain = re.sub(r"\s*\\\n\s*", " ", line).split(" #")[0]
        if re.match(r"\s*(ifeq|ifneq|ifdef|ifndef)\b", plain):
            depth += 1
        elif re.match(r"\s*endif\b", plain):
            depth -= 1
        elif match := _ASSIGNMENT.fullmatch(plain):
            variables.assign(match[1], match[2] or "", match[3].strip(), is_conditional=depth > 0)
        elif re.match(r"[^\s#:][^:=]*:", plain):
            in_rule = True
            _, _, recipe = plain.partition(";")
            if recipe:
                recipes.append((start, recipe))
    return variables, recipes
