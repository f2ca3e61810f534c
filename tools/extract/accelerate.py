"""What a release of accelerate does with a DeepSpeed config.

``DeepSpeedPlugin`` (``utils/dataclasses.py``) fills it when it is made and when the precision is known,
``Accelerator._prepare_deepspeed`` (``accelerator.py``) when model, optimizer and scheduler are.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from tools.extract import accelerate_fsdp as fsdp
from tools.extract import accelerate_fsdp_before as fsdp_before
from tools.extract import accelerate_settings as settings
from tools.extract import source
from tools.extract.config_use import Use, collected, fill, inserts, overwrites
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "accelerate"
STORE = Path(__file__).parent.parent.parent / "schemas" / "accelerate.json"

_PLUGIN = {"self": "DeepSpeedPlugin"}
_PREPARE = {"self": "Accelerator", "deepspeed_plugin": "DeepSpeedPlugin"}
_IS_GIVEN = "isinstance(DeepSpeedPlugin.hf_ds_config, dict)"  # else the plugin makes a config of its own
_FILLING = ("fill_match", "deepspeed_config_process")
# Which raise too: the first what ``beside_file`` has, the second what does not match, the last about models.
_OWN_ERRORS = {"_deepspeed_config_checks", "deepspeed_config_process", "set_moe_leaf_modules"}


class Stage(NamedTuple):
    """A method that sees the config, and the name of the moment at which it runs."""

    name: str
    method: source.Definition
    receivers: dict[str, str]

    def statements(self) -> list[source.Statement]:
        """What it does to a config that it is given."""
        return [one for one in map(_with_config, source.statements(self.method)) if one is not None]

    def filling(self) -> list[ast.Call]:
        """The calls that fill the config with what they are passed."""
        return [call for one in self.statements() for call in one.calls() if _last_name(call) in _FILLING]

    def passed(self) -> set[str]:
        """The local dicts that those calls are passed as keyword arguments."""
        spread = (keyword.value for call in self.filling() for keyword in call.keywords if keyword.arg is None)
        return {ast.unparse(one) for one in spread}


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = tree / LIBRARY
    dataclasses = source.parse(package / "utils" / "dataclasses.py")
    plugin = source.find(dataclasses, "DeepSpeedPlugin")
    module = source.parse(package / "accelerator.py")
    accelerator = source.find(module, "Accelerator")
    stages = [
        Stage("plugin", source.find(plugin, "__post_init__"), _PLUGIN),
        Stage("precision", source.find(plugin, "set_mixed_precision"), _PLUGIN),
        Stage("prepare", source.find(accelerator, "_prepare_deepspeed"), _PREPARE),
    ]
    reader = source.find(source.parse(package / "utils" / "deepspeed.py"), "HfDeepSpeedConfig")
    loading = Stage("load", source.find(reader, "__init__"), {"self": "HfDeepSpeedConfig"})
    filling, _ = (Stage("prepare", source.find(plugin, name), _PLUGIN) for name in _FILLING)
    read = [loading, *stages, filling]
    _verify_nothing_hides(read, source.raising(module) | source.raising(plugin) | source.raising(reader))
    refusals = dict(_refusals(read))
    return {
        "fills": collected(use for stage in stages for use in _fills(stage)),
        "overwrites": collected(_uses(stages, overwrites)),
        "inserts": collected(_uses(stages, inserts)),
        "refusals": refusals,
        "required": dict(_required(refusals)),
        "beside_file": {} if source.predates(package, "0.16") else dict(settings.refused_beside_file(plugin)),
        "requires": dict(_requires(source.find(accelerator, "__init__"))),
        "plugin": settings.plugin_fields(plugin),
        "launch_arguments": settings.launch_arguments(package / "commands" / "launch.py"),
        "yaml": settings.yaml_keys(package / "commands" / "config"),
        "sagemaker": settings.sagemaker_keys(package / "commands" / "config"),
        "launchers": dict(settings.launcher_reads(package)),
        "words": {**dict(settings.words(package, dataclasses)), **dict(fsdp.words(package))},
        "fsdp_variables": {} if source.predates(package, "0.17") else dict(fsdp.variables(package)),
        "fsdp_plugin": _fsdp_plugin(package, dataclasses),
    }


def _fsdp_plugin(package: Path, dataclasses: ast.Module) -> Facts:
    """The fields of the plugin for FSDP that variables set."""
    if source.predates(package, "0.17"):
        return {}
    is_before = source.predates(package, fsdp_before.UNTIL)
    return fsdp_before.fields(dataclasses) if is_before else fsdp.fields(dataclasses)


def _verify_nothing_hides(stages: list[Stage], raising: set[str]) -> None:
    """Whatever refuses is read; what is done to a given config is kept apart from how a missing one is made."""
    for stage in stages:
        hidden = source.called(stage.method) & raising - _OWN_ERRORS - {one.method.name for one in stages}
        if hidden:
            raise LookupError(f"{stage.method.name} calls {min(hidden)}, which raises and is not read")
    made = next(one for one in stages if one.name == "plugin")
    tests = (source.text(test, {}, _PLUGIN) for one in source.statements(made.method) for test in one.only_if)
    if not any(text.startswith(_IS_GIVEN) for text in tests):
        raise LookupError(f"nothing in {made.method.name} of DeepSpeedPlugin depends on {_IS_GIVEN}")


def _with_config(statement: source.Statement) -> source.Statement | None:
    """The statement without the condition that there is a config; None for what happens only without one."""
    tests = [(test, source.text(test, {}, _PLUGIN)) for test in statement.only_if]
    if any(text.startswith(f"not ({_IS_GIVEN}") for _, text in tests):
        return None
    return statement._replace(only_if=tuple(test for test, text in tests if not text.startswith(_IS_GIVEN)))


def _fills(stage: Stage) -> Iterator[Use]:
    """What ``fill_match`` has ready for each key.

    The plugin calls it with ``kwargs``, from 0.18 made of ``plugin_to_config_mapping``; ``deepspeed_config_process``
    calls it for every key of the config, with ``config_kwargs``.
    """
    matched = any(_matches(call) for call in stage.filling())
    passed = stage.passed()
    mappings = {mapping for one in stage.statements() for mapping in _mapped(one, passed)}
    read: set[str] = set()
    for statement in stage.statements():
        for name, key, value in _values(statement, passed, mappings):
            read.add(name)
            if key is not None:
                yield Use(key, fill(value, statement, stage.name, stage.receivers, matched=matched))
    if missing := sorted((passed | mappings) - read):
        raise LookupError(f"{stage.method.name} fills the config with {missing[0]}, which is made in a way not read")


def _last_name(call: ast.Call) -> str:
    return ast.unparse(call.func).split(".")[-1]


def _matches(call: ast.Call) -> bool:
    """Whether a call compares what it does not fill."""
    return source.literal(source.keyword(call, "must_match"), {}) is not False


def _mapped(statement: source.Statement, passed: set[str]) -> Iterator[str]:
    """The mapping of fields to keys in ``kwargs = {key: getattr(self, field) for field, key in mapping.items()}``."""
    node = statement.node
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in passed and isinstance(node.value, ast.DictComp):
        over = ast.unparse(node.value.generators[0].iter)
        if ast.unparse(node.value.value).startswith("getattr(self, ") and over.endswith(".items()"):
            yield over.removesuffix(".items()")


def _values(
    statement: source.Statement, passed: set[str], mappings: set[str]
) -> Iterator[tuple[str, str | None, ast.expr]]:
    """The values that a statement has ready: the dict that it puts each into, the key, and the value.

    A key of None only says that the dict is known.
    """
    node, names = statement.node, statement.names
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
        name = ast.unparse(target) if target is not None else ""
        owner = ast.unparse(target.value) if isinstance(target, ast.Subscript) else ""
        if name in mappings and isinstance(node, ast.Assign):
            for field, path in source.items(node.value, name).items():
                yield name, ast.literal_eval(path), ast.parse(f"self.{field}", mode="eval").body
        elif name in passed and isinstance(node, ast.Assign):
            found = {} if any(_mapped(statement, passed)) else source.items(node.value, name)
            yield name, None, node.value
            yield from ((name, key, value) for key, value in found.items())
        elif owner in passed and isinstance(target, ast.Subscript) and isinstance(node, ast.Assign):
            yield owner, _key(target.slice, names), node.value
        elif name in passed | mappings or owner in passed | mappings:
            raise LookupError(f"what fills the config is made by {source.brief(node)}")
    for call in statement.calls():
        owner = ast.unparse(call.func).rpartition(".")[0]
        if owner in passed and _last_name(call) == "update":
            given = call.args[0] if len(call.args) == 1 and not call.keywords else None
            found = source.items(given, f"what {owner} is updated with")
            yield from ((owner, key, value) for key, value in found.items())
        elif owner in passed and _last_name(call) not in ("keys", "items", "values", "get"):
            raise LookupError(f"what fills the config is made by {source.brief(call)}")
        elif _last_name(call) == "fill_match" and not any(keyword.arg is None for keyword in call.keywords):
            key = _key(call.args[0], names)
            value = source.keyword(call, key)
            if value is None:
                raise LookupError(f"the config is filled by {source.brief(call)}, without a value for {key}")
            yield "", key, value


def _key(node: ast.expr, names: source.Names) -> str:
    key = source.literal(node, names)
    if not isinstance(key, str):
        raise LookupError(f"a key that is filled is {source.brief(node)}")  # noqa: TRY004 - another layout
    return key


def _uses(stages: list[Stage], of_kind: Callable[..., Iterator[Use]]) -> Iterator[Use]:
    for stage in stages:
        for statement in stage.statements():
            yield from of_kind(statement, stage.name, stage.receivers)


def _refusals(stages: list[Stage]) -> Iterator[tuple[str, Facts]]:
    for stage in stages:
        needs_all_conditions = stage.method.name not in _FILLING  # which return where a key or its section is missing
        for message, only_if in source.refusals(stage.method, stage.receivers, all_conditions=needs_all_conditions):
            yield message, {"at": stage.name, "only_if": [one for one in only_if if not one.startswith(_IS_GIVEN)]}


def _required(refusals: Facts) -> Iterator[tuple[str, Facts]]:
    """The keys without which a config is refused, whatever else it says."""
    for facts in refusals.values():
        if len(facts["only_if"]) == 1 and facts["only_if"][0].endswith(" is missing"):
            yield facts["only_if"][0].removesuffix(" is missing"), {"at": facts["at"]}


def _requires(constructor: source.Definition) -> Iterator[tuple[str, Facts]]:
    """The oldest DeepSpeed that ``Accelerator`` takes, and the oldest for accelerators of a kind."""
    read: dict[int, list[str]] = {}  # the kinds, by the identity of the comparison
    calls: list[ast.Call] = []
    for statement in source.statements(constructor):
        if not isinstance(statement.node, ast.Raise) or not statement.only_if:
            continue
        calls += [node for test in statement.only_if for node in ast.walk(test) if _is_about_deepspeed(node)]
        test = statement.only_if[-1]
        if isinstance(test, ast.Call) and ast.unparse(test).startswith("compare_versions('deepspeed', '<', "):
            kinds = [condition for condition in source.conditions(statement, {}) if condition.startswith("is_")]
            read[id(test)] = kinds
            yield " where ".join(["deepspeed", *kinds]), {"minimum": ast.literal_eval(test.args[2])}
    unread = [ast.unparse(call) for call in calls if id(call) not in read]
    if unread or [] not in read.values():
        raise LookupError(f"Accelerator refuses a DeepSpeed by {unread[0] if unread else 'nothing that is read'}")


def _is_about_deepspeed(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether this compares the version of DeepSpeed, and not with the newest one that is taken on some hardware."""
    if not isinstance(node, ast.Call) or "version" not in _last_name(node):
        return False
    compared = [source.literal(one, {}) for one in node.args]
    return compared[:1] == ["deepspeed"] and compared[1:2] != [">"]
