"""What a release of transformers does with the config that a Trainer is given.

``integrations/deepspeed.py`` (``deepspeed.py`` before 4.33) fills the config from the TrainingArguments.
"""

from __future__ import annotations

import ast
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract import source
from tools.extract import transformers_arguments as options
from tools.extract import transformers_fsdp as fsdp
from tools.extract.config_use import Use, collected, fill, inserts, overwrites
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "transformers"
STORE = Path(__file__).parent.parent.parent / "schemas" / "transformers.json"

# The functions that see the config, and when: as the TrainingArguments are made, or as the training starts.
_STAGES = {
    "trainer_config_process": "arguments",
    "trainer_config_finalize": "training",
    "deepspeed_init": "training",
    "deepspeed_optim_sched": "training",
}
_RECEIVERS = {"args": "", "self": "", "trainer": "Trainer", "hf_deepspeed_config": ""}
_FILLING = ("fill_match", "fill_only")
_OWN_ERRORS = {"dtype", "del_config_sub_tree"}  # which raise where the integration calls them out of order

Bodies = dict[str, list[source.Statement]]


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = tree / LIBRARY
    integration = source.parse(_integration(package))
    arguments = source.parse(package / "training_args.py")
    fields = source.own_fields(source.find(arguments, "TrainingArguments"))
    stages = {name: source.statements(source.find(integration, name)) for name in _STAGES}
    _verify_nothing_hides(integration)
    return {
        "fills": collected(_uses(stages, _fills)),
        "overwrites": collected(_uses(stages, partial(overwrites, receivers=_RECEIVERS))),
        "inserts": collected(_uses(stages, partial(inserts, receivers=_RECEIVERS))),
        "refusals": dict(_refusals(integration)),
        "requires": _requires(package, arguments),
        "training_arguments": fields,
        "seq2seq_arguments": options.seq2seq_arguments(package),
        "words": options.words(package, fields),
        "options": options.options(package),
        "fsdp_config": {} if source.predates(package, fsdp.SINCE) else fsdp.config_keys(arguments),
    }


def _integration(package: Path) -> Path:
    """The module that fills the config; in 4.33 to 4.46 the older one only points to the newer."""
    newer = package / "integrations" / "deepspeed.py"
    return newer if newer.is_file() else package / "deepspeed.py"


def _verify_nothing_hides(integration: ast.Module) -> None:
    """Whatever fills or refuses a config does so in one of the functions that are read."""
    functions = [node for node in ast.walk(integration) if isinstance(node, ast.FunctionDef)]
    read = {id(node) for name in _STAGES for node in ast.walk(source.find(integration, name))}
    for function in functions:
        if id(function) in read or function.name in _FILLING:
            continue
        if source.called(function) & {*_FILLING}:
            raise LookupError(f"{function.name} fills the config, which is none of {', '.join(_STAGES)}")
        if written := [use.key for one in source.statements(function) for use in overwrites(one, "", {})]:
            raise LookupError(f"{function.name} writes {written[0]}, and is none of {', '.join(_STAGES)}")
    if not source.called(integration) & {*_FILLING}:
        raise LookupError(f"nothing calls {' or '.join(_FILLING)}")
    raising = source.raising(integration) - {*_STAGES} - _OWN_ERRORS
    for name in _STAGES:
        if hidden := sorted(source.called(source.find(integration, name)) & raising):
            raise LookupError(f"{name} calls {hidden[0]}, which raises and is not read")


def _uses(stages: Bodies, of_kind: Callable[[source.Statement, str], Iterator[Use]]) -> Iterator[Use]:
    for name, body in stages.items():
        for statement in body:
            yield from of_kind(statement, _STAGES[name])


def _fills(statement: source.Statement, stage: str) -> Iterator[Use]:
    """The keys of ``self.fill_match(key, value, name, must_match)``, and of ``fill_only``, which matches nothing."""
    for call in statement.calls():
        method = ast.unparse(call.func)
        if method in ("self.fill_match", "self.fill_only"):
            key, value, *rest = _filled(call, statement)
            facts = fill(value, statement, stage, _RECEIVERS, matched=method == "self.fill_match")
            if len(rest) > 1:
                facts["matched_if"] = source.text(rest[1], statement.names, _RECEIVERS)
            yield Use(source.literal(key, statement.names), facts)
        elif method.count(".") == 1 and method.startswith("self.") and len(call.args) > 1:
            raise LookupError(f"{method} is none of {', '.join(_FILLING)}, and may fill the config")


def _filled(call: ast.Call, statement: source.Statement) -> list[ast.expr]:
    """The arguments of a method that fills: a key that is written out, a value, and the rest."""
    if len(call.args) < 2 or call.keywords or not _is_key(call.args[0], statement):
        raise LookupError(f"the config is filled by {source.brief(call)}, without a key and a value at their places")
    return call.args


def _is_key(node: ast.expr, statement: source.Statement) -> bool:
    return isinstance(source.literal(node, statement.names), str)


def _refusals(integration: ast.Module) -> Iterator[tuple[str, Facts]]:
    for name, stage in _STAGES.items():
        for message, only_if in source.refusals(source.find(integration, name), _RECEIVERS):
            yield message, {"at": stage, "only_if": only_if}


def _requires(package: Path, arguments: ast.Module) -> Facts:
    """The oldest release of each library that the Trainer takes, and whether Accelerate prepares its engine."""
    table = source.parse(package / "dependency_versions_table.py")
    pins = next((source.items(node.value, "deps") for node in table.body if isinstance(node, ast.Assign)), {})
    oldest = {name: {"minimum": _minimum(name, pins)} for name in ("accelerate", "deepspeed")}
    return {**oldest, "accelerate": {**oldest["accelerate"], "prepares": _prepares(package, arguments)}}


def _minimum(name: str, pins: Mapping[str, ast.expr]) -> str | None:
    """The release in a pin such as ``deepspeed>=0.9.3``; None where any release will do."""
    pin = source.literal(pins.get(name), {})
    if not isinstance(pin, str):
        raise LookupError(f"dependency_versions_table.py has no pin of {name}")  # noqa: TRY004 - another layout
    bound = re.search(r">=([\d.]+)", pin)
    return bound[1] if bound else None


def _prepares(package: Path, arguments: ast.Module) -> bool:
    """Whether the engine is made by Accelerate, whose plugin the TrainingArguments make then."""
    if any(isinstance(node, ast.Name) and node.id == "DeepSpeedPlugin" for node in ast.walk(arguments)):
        return True
    if not source.predates(package, "4.30"):
        raise LookupError("training_args.py makes no DeepSpeedPlugin")
    return False
