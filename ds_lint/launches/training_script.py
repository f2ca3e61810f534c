"""What a training script shows without running it: who trains, which training arguments it sets, which model it loads.

A script that only calls a module of the project, such as ``from project.train import train``, shows what that does.
"""

from __future__ import annotations

import ast
import os
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.argument_classes import TRL, dataclass_fields
from ds_lint.launches.command_lines import command_line
from ds_lint.launches.later_changes import later_changes
from ds_lint.launches.model_sources import SourceReader
from ds_lint.launches.notebook_python import environment_changes
from ds_lint.launches.script_calls import read_calls
from ds_lint.launches.script_code import last_name, place
from ds_lint.launches.script_configs import calls_with_config, changed_keys, configs, imported_config
from ds_lint.launches.script_modules import ScriptModule
from ds_lint.launches.script_options import script_arguments
from ds_lint.launches.script_ranks import connects_ranks, own_ranks
from ds_lint.launches.script_values import constant
from ds_lint.launches.trained_names import TrainedNames
from ds_lint.launches.training_ways import PARSERS, KeywordArgument, argument_ways, parsed_names
from ds_lint.source.python_names import ModuleNames, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.launches.later_changes import LaterChanges
    from ds_lint.launches.model_sources import ModelSource
    from ds_lint.launches.notebook_python import EnvironmentChange
    from ds_lint.launches.parser_options import CommandLine
    from ds_lint.launches.script_calls import ScriptCalls
    from ds_lint.launches.script_modules import FindModule
    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.script_ranks import OwnRanks
    from ds_lint.launches.training_ways import ArgumentsWay

# The fields that decide about the optimizer and the scheduler, which a script may make itself.
_OF_OPTIMIZERS = (
    "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "optim", "optim_args", "adafactor",
    "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_ratio", "warmup_steps",
)  # fmt: skip
_INITIALIZES = ("deepspeed.initialize", "ds.initialize")
# Methods of parsers that take the path of a file with fields, or find it in the command line.
_TAKE_RECIPES = ("parse_args_and_config", "parse_json_file", "parse_yaml_file")
_MOST_CALLS = 12
_LIGHTNINGS = "DeepSpeedStrategy"
_OF_OLD_PPO = {"log_with", "model_name", "ppo_epochs", "steps", "target_kl"}  # of trl before 0.12
_LOADERS = ("from_pretrained", "from_config")


class TrainingScript(NamedTuple):
    """``stack`` is None if it is not known, or if there are several.

    ``parses_flags`` says that a parser of transformers or trl takes its command line, and ``takes_recipe`` that it may
    name a file of fields. ``ways`` are those by which it makes its training arguments, and ``changes`` what it sets
    afterwards; fields of ``unused`` count no more then.
    ``keywords`` are of the only call of a class of arguments, and of ``Trainer.train``. ``models`` are the calls
    that load the model that it trains, ``arguments`` those of its command line, and ``model_classes`` the classes of
    transformers that it loads, None for others. ``may_run_own_models`` is false if all models are of classes of
    transformers. ``sets_leaf_modules`` says that it names modules that ZeRO-3 gathers as a whole. ``config`` is the
    path of a DeepSpeed config that it names, and ``imported_config`` the path of the module that has it as a dict, with
    the offset of the dict. ``changed_keys`` are those that it changes in a config that it loads, and ``expressions``
    what it writes into dicts of its own that its arguments decide, by their texts. ``fills_in`` says that what takes
    the config adds keys, as Lightning adds the batch size. ``is_configured_by_trl`` says that its training arguments
    are of a class of trl. ``ranks`` are those that it starts itself, None if it starts none. ``engine_line`` is the
    first line that connects the ranks, and ``config_line`` the one that takes the config which it names; the last line
    of all if a function has them. ``environment`` are the variables that it sets. ``path`` is that of the module of the
    project that does all this, where the script only calls it, and ``caller`` is the text of that script; else both are
    "". ``command_line`` is how it reads its command line, if that is certain.
    """

    stack: Stack | None
    parses_flags: bool
    takes_recipe: bool
    ways: tuple[ArgumentsWay, ...]
    changes: LaterChanges
    unused: frozenset[str]
    keywords: dict[str, KeywordArgument]
    models: tuple[ModelSource, ...]
    arguments: dict[str, ScriptArgument]
    model_classes: frozenset[str | None]
    sets_leaf_modules: bool
    may_run_own_models: bool
    config: str | None
    imported_config: tuple[str, int] | None
    changed_keys: tuple[tuple[str, ...], ...]
    expressions: dict[str, str]
    fills_in: bool
    is_configured_by_trl: bool
    calls: ScriptCalls
    ranks: OwnRanks | None
    engine_line: int
    config_line: int
    environment: tuple[EnvironmentChange, ...] = ()
    path: str = ""
    caller: str = ""
    command_line: CommandLine | None = None

    @property
    def depends_on_flags(self) -> bool:
        """Whether its command line decides about anything that it does."""
        is_fixed = bool(self.ways) and not any(way.takes_flags and way.words is None for way in self.ways)
        return (self.parses_flags and not is_fixed) or bool(self.arguments)

    def with_more_flags(self) -> TrainingScript:
        """The same, where what parses the command line may get other flags too."""
        line = self.command_line
        return self._replace(
            ways=tuple(way._replace(is_open=way.is_open or way.takes_flags) for way in self.ways),
            command_line=None if line is None else line._replace(requires_all=False),
        )


def read_training_script(text: str, path: str = "", find: FindModule | None = None) -> TrainingScript | None:
    """What a script shows, with the modules that it imports from if ``find`` finds them; None if it does not parse."""
    try:
        module = ScriptModule(text, path, find)
        script = _read(module)
        return script if _shows(script) else _called(module) or script
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _shows(script: TrainingScript) -> bool:
    """Whether a script itself trains."""
    return script.stack is not None or bool(script.ways) or script.parses_flags


def _called(module: ScriptModule) -> TrainingScript | None:
    """What the one function of another module of the project shows that a short script calls and that trains."""
    if len(module.names.calls) > _MOST_CALLS:  # a script that does more than to call it
        return None
    found: dict[str, TrainingScript] = {}
    for other, name in module.called_functions():
        functions = other.names.functions.get(name, [])
        if len(functions) == 1 and any(_trains(one) for one in ast.walk(functions[0])):
            script = _read(other)
            if _shows(script):
                found[other.path] = script._replace(path=other.path, caller=module.text)
    if len(found) != 1:
        return None
    path, script = found.popitem()
    ranks = own_ranks(module.names, module.imported, knows=lambda name: _is_of(name, module, path))
    return script if ranks is None else script._replace(ranks=ranks)


def _trains(node: ast.AST) -> bool:
    """Whether a node is a call that makes what trains, or parses the arguments for it."""
    if not isinstance(node, ast.Call):
        return False
    last = last_name(node)
    return last in (*PARSERS, "Accelerator") or last.endswith("Trainer") or dotted_name(node.func) in _INITIALIZES


def _is_of(name: str, module: ScriptModule, path: str) -> bool:
    """Whether a name means something of the module at a path."""
    other = module.other(module.imported.full_name(name).rpartition(".")[0])
    return other is not None and other.path == path


def _read(module: ScriptModule) -> TrainingScript:
    names = module.names
    called = {dotted_name(call.func).rpartition(".")[2]: call for call in names.calls}
    trained, imported = TrainedNames(names), module.imported
    model_classes = frozenset(imported.in_transformers(owner) for owner, _ in _loads(names))
    options = script_arguments(names, module.values)
    for name, field in (one for parsed in parsed_names(module) for one in dataclass_fields(parsed, module)):
        options.setdefault(name, field)
    folder = os.path.dirname(os.path.abspath(module.path)) if module.path else None
    sources = SourceReader(trained, imported, options, module.values, folder)
    ways = argument_ways(module, sources)
    keywords = dict(ways[0].given) if len(ways) == 1 and not ways[0].takes_flags else {}
    keywords.update(_resumed(module, sources))
    return TrainingScript(
        stack=_stack(names, called, ways),
        parses_flags=any(parser in called for parser in PARSERS),
        takes_recipe=any(last_name(call) in _TAKE_RECIPES for call in names.calls),
        ways=tuple(ways),
        changes=later_changes(module, sources),
        unused=frozenset(_OF_OPTIMIZERS if _passes_optimizers(names) else ()),
        keywords=keywords,
        models=tuple(sources.sources()),
        arguments=options,
        model_classes=model_classes,
        sets_leaf_modules=any(name.startswith("set_z3_leaf_module") for name in called),
        may_run_own_models=not model_classes or None in model_classes or _runs_own_code(names),
        config=next(configs(module, options, ways), None),
        imported_config=imported_config(module),
        changed_keys=changed_keys(module),
        expressions=dict(_expressions(module, sources)),
        fills_in=_LIGHTNINGS in called,
        is_configured_by_trl=any(way.of.library == TRL for way in ways),
        calls=read_calls(module, trained, sources),
        ranks=own_ranks(names, imported),
        engine_line=_first_line(names, [call for call in names.calls if connects_ranks(call)]),
        config_line=_first_line(names, list(calls_with_config(module, options))),
        environment=environment_changes(names) if "environ" in module.text else (),
        command_line=command_line(module, trained),
    )


def _stack(names: ModuleNames, called: dict[str, ast.Call], ways: list[ArgumentsWay]) -> Stack | None:
    """Who makes the engine, told by what the script calls."""
    found: list[Stack] = []
    if any(dotted_name(call.func) in _INITIALIZES for call in names.calls):
        found.append("deepspeed")
    if _LIGHTNINGS in called:  # which calls deepspeed.initialize
        found.append("deepspeed")
    is_old = any(way.of.name.endswith("PPOConfig") and not _OF_OLD_PPO.isdisjoint(way.given) for way in ways)
    if is_old:  # whose PPOTrainer had its own loop, and its PPOConfig other fields
        return "accelerate"
    if any(re.fullmatch(r"\w*Trainer", name) for name in called) and "fit" not in called:
        found.append("trainer")
    if "Accelerator" in called and "trainer" not in found:
        found.append("accelerate")
    return found[0] if len(found) == 1 else None


def _first_line(names: ModuleNames, calls: list[ast.Call]) -> int:
    """The line of the first of these calls; the last line of the module if a function makes one, or nothing does."""
    is_in_module = all(isinstance(names.places[call].scope, ast.Module) for call in calls)
    last = max((one.end_lineno or one.lineno for one in names.module.body), default=1)
    return min((call.lineno for call in calls), default=last) if is_in_module else last


def _passes_optimizers(names: ModuleNames) -> bool:
    """Whether a Trainer is given an optimizer or a scheduler, or makes its own."""
    return "create_optimizer" in names.functions or any(
        keyword.arg in ("optimizers", "optimizer_cls_and_kwargs") for call in names.calls for keyword in call.keywords
    )


def _expressions(module: ScriptModule, sources: SourceReader) -> Iterator[tuple[str, str]]:
    """The values in dicts that read arguments, as they are written and as expressions of the arguments."""
    names = module.names
    values = [value for node in names.every(ast.Dict) for value in node.values]
    values += [one.value for call in names.calls if dotted_name(call.func) == "dict" for one in call.keywords]
    values += [node.value for node in names.every(ast.Assign) if isinstance(node.targets[0], ast.Subscript)]
    for value in values:
        if sources.reads_arguments(value) and (text := sources.expression(value)) is not None:
            span = module.values.span(value)
            yield module.text[span.start : span.end], text


def _resumed(module: ScriptModule, sources: SourceReader) -> Iterator[tuple[str, KeywordArgument]]:
    """From which checkpoint the Trainer is told to resume by the only call that trains."""
    calls = [call for call in module.names.calls if dotted_name(call.func).endswith("trainer.train")]
    for one in calls[0].keywords if len(calls) == 1 else ():
        if one.arg == "resume_from_checkpoint":
            value = constant(one.value, module.values)
            if isinstance(value, (bool, str)) and value:
                yield one.arg, KeywordArgument(value, place(one))


def _runs_own_code(names: ModuleNames) -> bool:
    """Whether models may be of the code beside their weights, or DeepSpeed recompute activations for the script."""
    is_trusted = any(one.arg in (None, "trust_remote_code") for _, call in _loads(names) for one in call.keywords)
    return is_trusted or any("checkpointing" in dotted_name(call.func).split(".") for call in names.calls)


def _loads(names: ModuleNames) -> Iterator[tuple[str, ast.Call]]:
    """The calls that load models, each with the class."""
    for call in names.calls:
        owner, _, method = dotted_name(call.func).rpartition(".")
        if (method in _LOADERS and "Model" in owner) or (method == "from_pretrained" and "For" in owner):
            yield owner, call
