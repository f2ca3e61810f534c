"""Where accelerate takes settings from beside a config: its plugin, variables, the YAML and flags of its commands."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.extract.history import Facts


def plugin_fields(plugin: source.Definition) -> Facts:
    """The fields of the plugin, with the environment variable that is asked where one is not given."""
    made = source.statements(source.find(plugin, "__post_init__"))
    variables = {name: facts for statement in made for name, facts in _variables(statement)}
    return {name: {**facts, **variables.get(name, {})} for name, facts in source.fields(plugin).items()}


def launch_arguments(launch: Path) -> Iterator[tuple[str, Facts]]:
    """The flags of ``accelerate launch`` whose name or help is about DeepSpeed."""
    calls = (node for node in ast.walk(source.parse(launch)) if isinstance(node, ast.Call))
    for call in calls:
        if ast.unparse(call.func).endswith("add_argument") and "deepspeed" in ast.unparse(call).lower():
            told = {key: source.keyword(call, key) for key in ("type", "default", "choices")}
            facts = {key: _plain(value) for key, value in told.items() if value is not None}
            yield ast.literal_eval(call.args[0]).lstrip("-"), facts


def yaml_keys(commands: Path) -> Facts:
    """The keys of the YAML at its top level, and those that ``accelerate config`` writes into its deepspeed_config."""
    asked = source.find(source.parse(commands / "cluster.py"), "get_cluster_input")
    written = sorted(
        ast.literal_eval(node.slice)
        for node in ast.walk(asked)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "deepspeed_config"
    )
    arguments = source.parse(commands / "config_args.py")
    top = {
        **source.fields(source.find(arguments, "BaseConfig")),
        **source.fields(source.find(arguments, "ClusterConfig")),
    }
    return {**top, **{f"deepspeed_config.{name}": {} for name in written}}


def refused_beside_file(plugin: source.Definition) -> Iterator[tuple[str, Facts]]:
    """The settings that a YAML must not have beside ``deepspeed_config_file``, by the variables that carry them."""
    if source.has(plugin, "_deepspeed_config_checks"):  # since 0.16
        first = source.statements(source.find(plugin, "_deepspeed_config_checks"))[0]
        for variable in _strings(first.node):
            yield variable.removeprefix("ACCELERATE_").replace("DEEPSPEED_", "").lower(), {"environment": variable}


def _variables(statement: source.Statement) -> Iterator[tuple[str, Facts]]:
    """``self.field = ... os.environ.get(variable, otherwise)``."""
    node = statement.node
    if not isinstance(node, ast.Assign) or not ast.unparse(node.targets[0]).startswith("self."):
        return
    for call in source.calls(node.value, statement.names):
        if ast.unparse(call.func) == "os.environ.get":
            variable, *otherwise = call.args
            facts: Facts = {"environment": ast.literal_eval(variable)}
            if otherwise:
                facts["otherwise"] = _plain(otherwise[0])
            yield ast.unparse(node.targets[0]).removeprefix("self."), facts


def _strings(node: ast.AST) -> list[str]:
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def _plain(node: ast.expr) -> Any:
    """A constant, or the text of an expression that is none."""
    value = source.literal(node, {})
    return ast.unparse(node) if value is None and ast.unparse(node) != "None" else value
