"""Where accelerate takes settings from beside a config: its plugin, variables, the YAML and flags of its commands."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, TypeGuard

from tools.extract import parsers, source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tools.extract.history import Facts


def plugin_fields(plugin: source.Definition) -> Facts:
    """The fields of the plugin, with the environment variable that is read where one is not given."""
    method = source.find(plugin, "__post_init__")
    variables = {name: facts for statement in source.statements(method) for name, facts in _variables(statement)}
    read = {facts["environment"] for facts in variables.values()}
    for call in (node for node in ast.walk(method) if isinstance(node, ast.Call)):
        variable = source.literal(call.args[0], {}) if call.args else None
        if isinstance(variable, str) and _VARIABLE.fullmatch(variable) and variable not in read:
            raise LookupError(f"{method.name} of DeepSpeedPlugin reads {variable} by {source.brief(call)}")
    return {name: {**facts, **variables.get(name, {})} for name, facts in source.own_fields(plugin).items()}


_VARIABLE = re.compile("[A-Z0-9]+(_[A-Z0-9]+)+")


def launch_arguments(launch: Path) -> Facts:
    """The flags of ``accelerate launch``, by their names in the namespace of its parser, with their defaults there."""
    module, found = source.parse(launch), dict[str, Any]()
    switches = ast.unparse(module).count("CustomArgumentParser") > 0  # which gives a switch of its own no default
    for call in parsers.added(source.find(module, _PARSER)):
        flag = parsers.names(call)[0]
        if not flag.startswith("--"):
            continue
        keywords = {key: source.keyword(call, key) for key in ("type", "default", "choices", "action")}
        facts = {key: _plain(value) for key, value in keywords.items() if value is not None}
        if not isinstance(facts.get("choices", []), (list, tuple)):
            del facts["choices"]  # an expression
        is_own = switches and ast.unparse(call.func) == "parser.add_argument"
        default = {"store_true": None if is_own else False, "store_false": True}.get(facts.pop("action", ""))
        facts.setdefault("default", default)
        name = source.literal(source.keyword(call, "dest"), {}) or flag.removeprefix("--").replace("-", "_")
        found.setdefault(name, facts)  # of two flags for a name, the first
    if not found:
        raise LookupError(f"{_PARSER} in {launch} adds no flag")
    return found


_PARSER = "launch_command_parser"


def launcher_reads(package: Path) -> Iterator[tuple[str, Facts]]:
    """The names that each launcher, and the check of all of them, reads from the namespace of the parser.

    What is only looked at to put a default in its place is not read. A ``*`` stands for all names with that prefix.
    ``keys`` are those of the YAML that are read from the file itself.
    """
    functions = {
        node.name: node
        for path in (package / "commands" / "launch.py", package / "utils" / "launch.py")
        if path.is_file()
        for node in source.parse(path).body
        if isinstance(node, ast.FunctionDef)
    }
    checks = [name for name in ("_validate_launch_command", "launch_command") if name in functions]
    stops = [name for name in functions if name.endswith("_launcher")]
    if "launch_command" not in functions or not stops:
        raise LookupError("commands/launch.py has no launch_command, or no launcher")
    if not any(_loads(node) for name in checks for node in ast.walk(functions[name])):
        raise LookupError(f"{' and '.join(checks)} do not call {_LOADS}")
    for name in stops:
        yield name.removesuffix("_launcher"), {"reads": sorted(_read(functions, [name]))}
    keys = {
        node.attr
        for name in checks
        for node in ast.walk(functions[name])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "defaults"
    }
    yield "every", {"reads": sorted(_read(functions, checks, stops)), "keys": sorted(keys - {"__dict__"})}


def words(package: Path, dataclasses: ast.Module) -> Iterator[tuple[str, Facts]]:
    """The words that an enumeration takes, of those that a YAML names."""
    for name, since in _ENUMERATIONS.items():
        if source.predates(package, since):
            continue
        assigned = (node.value for node in source.find(dataclasses, name).body if isinstance(node, ast.Assign))
        values = [source.literal(one, {}) for one in assigned if not ast.unparse(one).startswith(_DEPRECATED)]
        if not values or not all(isinstance(value, str) for value in values):
            raise LookupError(f"the enumeration {name} has other values than words")
        yield name, {"choices": values}


_DEPRECATED = "DeprecatedFieldDescriptor("  # a name that stands for another member
_ENUMERATIONS = {  # and the release since which each is there
    "ComputeEnvironment": "0.10",
    "DistributedType": "0.10",
    "DynamoBackend": "0.15",
    "FP8BackendType": "1.9",  # before, it has only the backends of a class
    "PrecisionType": "0.10",
    "SageMakerDistributedType": "0.10",
}


def yaml_keys(commands: Path) -> Facts:
    """The keys of the YAML at its top level, and those that ``accelerate config`` writes into its deepspeed_config."""
    function = source.find(source.parse(commands / "cluster.py"), "get_cluster_input")
    written = sorted(
        ast.literal_eval(node.slice)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "deepspeed_config"
    )
    arguments = source.parse(commands / "config_args.py")
    if not written:
        raise LookupError(f"{function.name} asks for no key of deepspeed_config")
    top = {**_fields(arguments, "BaseConfig"), **_fields(arguments, "ClusterConfig")}
    converted = {name: {"converted": True} for name in _converted(arguments) if name not in top}
    return {**top, **converted, **{f"deepspeed_config.{name}": {} for name in written}}


def sagemaker_keys(commands: Path) -> Facts:
    """The keys of the YAML for SageMaker."""
    arguments = source.parse(commands / "config_args.py")
    return {**_fields(arguments, "BaseConfig"), **_fields(arguments, "SageMakerConfig")}


def _fields(arguments: ast.Module, name: str) -> Facts:
    return source.own_fields(source.find(arguments, name), bases=("BaseConfig",))


def _converted(arguments: ast.Module) -> Iterator[str]:
    """The keys of older releases, which are taken out of a YAML before its keys are looked at."""
    for node in ast.walk(arguments):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "config_dict.pop":
            yield ast.literal_eval(node.args[0])
        elif isinstance(node, ast.Delete):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "config_dict":
                    yield ast.literal_eval(target.slice)


def _read(functions: dict[str, ast.FunctionDef], names: Sequence[str], stops: Sequence[str] = ()) -> set[str]:
    """What these functions, and those that they hand ``args`` to, read from it."""
    found: set[str] = set()
    pending, seen = list(names), {*names, *stops}
    while pending:
        function = functions[pending.pop()]
        replaced = {id(node) for test in ast.walk(function) for node in _of_default(test)}
        loaded = max((call.lineno for call in ast.walk(function) if _loads(call)), default=0)
        for node in ast.walk(function):
            if id(node) in replaced or getattr(node, "lineno", loaded) < loaded:
                continue
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and _is_args(node.value):
                found.add(node.attr)
            elif isinstance(node, ast.Call):
                found |= _names_read(node)
                called = ast.unparse(node.func)
                if called in functions and called not in seen and any(map(_is_args, node.args)):
                    seen.add(called)
                    pending.append(called)
                elif called not in (*functions, *_TAKE_ARGS) and any(map(_is_args, _passed(node))):
                    raise LookupError(f"{function.name} hands the arguments to {called}, which is not read")
    return found


# ``distrib_run`` is torchrun; what SageMaker merges is a dict that has taken over the name.
_TAKE_ARGS = ("delattr", "distrib_run.run", "getattr", "hasattr", "merge_dicts", "setattr", "vars")


def _passed(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg is not None)]


_LOADS = "load_config_from_file"


def _loads(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether this reads the YAML, before which nothing of it can be read."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == _LOADS


def _of_default(node: ast.AST) -> Iterator[ast.AST]:
    """The test of ``if args.name is None: args.name = ...``, node by node."""
    if isinstance(node, ast.If):
        targets = {ast.unparse(part.targets[0]) for part in node.body if isinstance(part, ast.Assign)}
        tested = {ast.unparse(part) for part in ast.walk(node.test) if isinstance(part, ast.Attribute)}
        if len(tested) == 1 and tested <= targets:
            yield from ast.walk(node.test)


def _names_read(call: ast.Call) -> set[str]:
    """The names that ``getattr(args, "name")`` and ``arg.startswith("prefix")`` in a loop over ``args`` ask for."""
    name = source.literal(call.args[-1 if len(call.args) == 1 else 1], {}) if call.args else None
    if not isinstance(name, str):
        return set()
    if ast.unparse(call.func) == "getattr" and _is_args(call.args[0]):
        return {name}
    return {f"{name}*"} if ast.unparse(call.func) == "arg.startswith" else set()


def _is_args(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "args"


def refused_beside_file(plugin: source.Definition) -> Iterator[tuple[str, Facts]]:
    """The settings that a YAML must not have beside ``deepspeed_config_file``, by the variables that carry them."""
    checks = source.find(plugin, "_deepspeed_config_checks")
    assigned = (one.node for one in source.statements(checks) if isinstance(one.node, ast.Assign))
    lists = (source.literal(node.value, {}) for node in assigned)
    variables = next((one for one in lists if isinstance(one, list)), [])
    if not variables or not all(isinstance(one, str) and _VARIABLE.fullmatch(one) for one in variables):
        raise LookupError(f"{checks.name} has no list of variables")
    for variable in variables:
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


def _plain(node: ast.expr) -> Any:
    """A constant, also as ``int(1e8)``, or the text of an expression that is none."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "int" and len(node.args) == 1:
        number = source.literal(node.args[0], {})
        if isinstance(number, (int, float)):
            return int(number)
    value = source.literal(node, {})
    return ast.unparse(node) if value is None and ast.unparse(node) != "None" else value
