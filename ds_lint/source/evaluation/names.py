"""The names of a module: where a statement binds one, and what it stands for."""

from __future__ import annotations

import ast
import builtins
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import library
from ds_lint.source.evaluation.values import LibraryName, Slot, Undecided

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Environment, Value

# Libraries of which ``import *`` binds no name that ``names_config`` takes; a test asks them.
_WITHOUT_CONFIGS = ("transformers",)


def run_import(run: Evaluator, node: ast.Import) -> None:
    """Run ``import a``."""
    run.risk()
    for alias in node.names:
        if alias.asname:
            bind(run, alias.asname, Slot(LibraryName(alias.name), alias))
        else:
            first = alias.name.partition(".")[0]
            bind(run, first, Slot(LibraryName(first), alias))


def run_import_from(run: Evaluator, node: ast.ImportFrom) -> None:
    """Run ``from a import b``."""
    run.risk()
    for alias in node.names:
        if alias.name == "*":
            run.has_star = True
            kept = run.globals.variables.content.entries if node.module in _WITHOUT_CONFIGS else ()
            run.state.blur(run.globals.variables, {name for name in kept if names_config(name)})
            continue
        name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
        bind(run, alias.asname or alias.name, Slot(LibraryName(name), alias))


def owner_of(run: Evaluator, name: str) -> Environment:
    """The environment in which a statement here binds a name."""
    environment = run.frame.environment
    if name in environment.globals:
        return run.globals
    if name in environment.nonlocals:
        outer = environment.outer
        while outer is not None:
            if outer.local is not None and name in outer.local:
                return outer
            outer = outer.outer
    return environment


def bind(run: Evaluator, name: str, slot: Slot) -> None:
    """Give a variable a value."""
    run.state.put(owner_of(run, name).variables, name, slot)


def lookup(run: Evaluator, name: str) -> tuple[Slot | None, Environment | None]:
    """A variable, and the environment that has it, or that binds it later."""
    environment: Environment | None = run.frame.environment
    if environment is not None and name in environment.globals:
        environment = run.globals
    is_first = True
    while environment is not None:
        if environment.variables.is_lost:
            return None, environment
        if is_first or not environment.is_class:
            slot = environment.variables.content.entries.get(name)
            if slot is not None:
                return slot, environment
            if environment.local is not None and name in environment.local:
                return None, environment
        is_first = False
        environment = environment.outer
    return None, None


def name_of(run: Evaluator, node: ast.Name) -> Value:
    """The value of a variable."""
    slot, environment = lookup(run, node.id)
    if slot is not None:
        if slot.may_be_missing and not isinstance(slot.value, Undecided):
            return Undecided(node)
        return slot.value
    if environment is None:
        if node.id.startswith("__"):
            return Undecided(node)
        if hasattr(builtins, node.id) and not _has_star_name(run, node.id):
            return LibraryName(f"builtins.{node.id}")
    run.risk()
    return Undecided(node)


def _has_star_name(run: Evaluator, name: str) -> bool:
    return run.has_star and name not in library.FUNCTIONS and f"builtins.{name}" not in library.FUNCTIONS


def reference_name(run: Evaluator, node: ast.expr) -> str:
    """The full name of what a library has and an expression refers to; empty for anything else."""
    if isinstance(node, ast.Name):
        value = name_of(run, node)
        return value.name if isinstance(value, LibraryName) else ""
    if isinstance(node, ast.Attribute):
        first = reference_name(run, node.value)
        return f"{first}.{node.attr}" if first else ""
    return ""


def mangled(run: Evaluator, name: str) -> str:
    """A private name as a class has it."""
    if not name.startswith("__") or name.endswith("__"):
        return name
    environment: Environment | None = run.frame.environment
    while environment is not None:
        if environment.kept is not None:
            return f"_{environment.kept.name.lstrip('_')}{name}"
        environment = environment.outer
    return name


def last_name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def names_config(name: object) -> bool:
    """Whether a variable is called like a config: ``ds_config``, ``cfg``."""
    return isinstance(name, str) and name.islower() and not {"cfg", "config", "ds"}.isdisjoint(name.split("_"))
