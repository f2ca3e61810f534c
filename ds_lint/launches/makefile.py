"""The launches in the recipes of a Makefile, with make's variables as far as they are known.

A variable that nothing sets may come from the command line of make, as ``make train GPUS=8`` gives it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.shell.unknowns import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable

_ASSIGNMENT = re.compile(r"\s*(?:(?:export|override)\s+)*([A-Za-z_][\w.-]*)\s*(\?|\+|::?|!)?=\s*(.*)")
_REFERENCE = re.compile(r"\$(?:\((?P<round>[^()]*(?:\([^()]*\)[^()]*)*)\)|\{(?P<curly>[^{}]*)\}|(?P<one>[^\s({$]))")
_PREFIX = re.compile(r"^[-@+\s]*")
_DEEPEST = 20
_LONGEST = 10_000


class _Recipe(NamedTuple):
    """A line of a recipe, with the number of lines before it, and the target that it is for."""

    lines: int
    text: str
    target: str


class _Assignment(NamedTuple):
    """``NAME = value`` of one target, or of all."""

    name: str
    operator: str
    value: str
    is_conditional: bool


class _Variables:
    """The variables of a Makefile."""

    def __init__(self, stand_ins: StandIns) -> None:
        self.values: dict[str, str | None] = {}
        self.stand_ins = stand_ins

    def of_target(self, recipe: _Recipe, own: list[_Assignment]) -> _Variables:
        """The variables of a recipe, which its target may set for itself."""
        found = _Variables(self.stand_ins)
        found.values = dict(self.values)
        if recipe.target and "%" not in recipe.target:
            found.values["@"] = recipe.target
        for one in own:
            found.assign(one.name, one.operator, one.value, is_conditional=one.is_conditional)
        return found

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
    makefile = _Makefile(text)
    found = []
    for recipe in makefile.recipes:
        variables = makefile.variables.of_target(recipe, makefile.own.get(recipe.target, []))
        script = variables.expanded(recipe.text).replace("$$", "$")
        script = "\n".join(_PREFIX.sub("", line, count=1) for line in script.split("\n")) if makefile.is_one else script
        script = _PREFIX.sub("", script, count=1)
        environment = {name: variables.values.get(name) for name in makefile.exported}
        known = {name: variables.expanded(value) if value is not None else None for name, value in environment.items()}
        started = launches_in(script, path, read, variables=known, stand_ins=variables.stand_ins)
        found.append(started.moved(recipe.lines, path))
    return joined(found)


class _Makefile:
    """What a Makefile sets and runs. If it ``is_one``, all lines of a recipe are for one shell."""

    def __init__(self, text: str) -> None:
        self.variables = _Variables(StandIns())
        self.own: dict[str, list[_Assignment]] = {}  # by target
        self.exported: set[str] = set()
        self.recipes: list[_Recipe] = []
        self.is_one = False
        self._depth = 0  # of conditions
        lines = text.splitlines()
        position, target = 0, ""
        while position < len(lines):
            start, line = position, lines[position]
            while line.endswith("\\") and position + 1 < len(lines):
                position += 1
                line += "\n" + lines[position]
            position += 1
            if line.startswith("\t") and target:
                self._add(_Recipe(start, line.removeprefix("\t").replace("\n\t", "\n"), target))
            elif match := re.match(r"\s*define\s+([\w.-]+)\s*=?\s*$", line):
                end = next((at for at in range(position, len(lines)) if lines[at].strip() == "endef"), len(lines))
                self.variables.values[match[1]] = "\n".join(lines[position:end])
                position = end + 1
            else:
                target = self._plain(re.sub(r"\s*\\\n\s*", " ", line).split(" #")[0], start) or target

    def _add(self, recipe: _Recipe) -> None:
        before = self.recipes[-1] if self.recipes else None
        if self.is_one and before is not None and before.target == recipe.target:
            missing = recipe.lines - before.lines - before.text.count("\n")
            self.recipes[-1] = before._replace(text=before.text + "\n" * max(missing, 1) + recipe.text)
        else:
            self.recipes.append(recipe)

    def _plain(self, line: str, start: int) -> str:
        """Read a line that is none of a recipe; returns the target of the rule that it begins."""
        if line.startswith(".ONESHELL"):
            self.is_one = True
        elif re.match(r"\s*(ifeq|ifneq|ifdef|ifndef)\b", line):
            self._depth += 1
        elif re.match(r"\s*endif\b", line):
            self._depth -= 1
        elif match := _ASSIGNMENT.fullmatch(line):
            self.variables.assign(match[1], match[2] or "", match[3].strip(), is_conditional=self._depth > 0)
            self.exported |= {match[1]} if re.match(r"\s*export\b", line) else set()
        elif match := re.fullmatch(r"\s*export((?:\s+\w+)+)\s*", line):
            self.exported.update(match[1].split())
        elif match := re.match(r"([^\s#:=][^:=]*):(?!=)(.*)", line):
            targets, rest = match[1].split(), match[2].lstrip(":")
            if assigned := _ASSIGNMENT.fullmatch(rest):
                one = _Assignment(assigned[1], assigned[2] or "", assigned[3].strip(), self._depth > 0)
                for target in targets:
                    self.own.setdefault(target, []).append(one)
                return ""
            _, _, recipe = rest.partition(";")
            target = targets[0] if len(targets) == 1 else "%"
            if recipe:
                self._add(_Recipe(start, recipe, target))
            return target
        return ""
