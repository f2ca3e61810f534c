"""Where DeepSpeed is handed a config, and so where its analysis starts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from tools.extract.deepspeed import sections
from tools.extract.deepspeed.functions import enter
from tools.extract.deepspeed.values import Arguments, Class, Function, Instance, UserValue
from tools.extract.source import predates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import Value

_CONFIG = UserValue(())
_KEPT_AS = "_config"  # the attribute of an engine


class Entry(NamedTuple):
    """A function or class that gets the config, or the engine, as one of its parameters.

    Releases since the one named have it, unless they have dropped its module.
    """

    module: str
    name: str
    parameters: tuple[str, ...] = ()
    since: str = "0"


_FURTHER_ENGINES = (
    Entry("deepspeed.runtime.pipe.engine", "PipelineEngine"),
    Entry("deepspeed.runtime.hybrid_engine", "DeepSpeedHybridEngine"),
)
_CONFIG_TAKERS = (
    Entry("deepspeed", "initialize", ("config", "config_params")),
    Entry("deepspeed.compression.compress", "init_compression", ("deepspeed_config",), "0.7"),
    Entry("deepspeed.compression.compress", "redundancy_clean", ("deepspeed_config",), "0.7"),
    Entry("deepspeed.comm.comm", "configure", ("deepspeed_config",), "0.7"),
)
_CONFIG_TAKING_CLASSES = (
    Entry("deepspeed.runtime.zero.partition_parameters", "Init", ("config_dict_or_path",), "0.5.10"),
)
_ENGINE_TAKERS = (
    Entry(
        "deepspeed.runtime.data_pipeline.data_sampling.variable_batch_size_and_lr",
        "get_dataloader_and_lr_scheduler_for_variable_batch_size_deepspeed",
        ("engine",),
    ),
)


def run(analysis: Analysis) -> None:
    """Run every entry point that the release has, once all of them are found."""
    read = _existing(analysis, "deepspeed.runtime.config", "DeepSpeedConfig")
    engine = _existing(analysis, "deepspeed.runtime.engine", "DeepSpeedEngine")
    engines = [engine, *(cls for _, cls in _classes(analysis, _FURTHER_ENGINES))]
    engine_takers, config_takers = (_functions(analysis, entries) for entries in (_ENGINE_TAKERS, _CONFIG_TAKERS))
    config_taking_classes = _classes(analysis, _CONFIG_TAKING_CLASSES)
    _verify_attribute(engine)
    config = _constructed(analysis, read, Arguments((_CONFIG,)))
    for cls in engines:
        instance = Instance(cls, {_KEPT_AS: config})
        _run_methods(analysis, instance)
        for entry, function in engine_takers:
            _run_function(analysis, entry, function, instance)
    for entry, function in config_takers:
        _run_function(analysis, entry, function, _CONFIG)
    for entry, cls in config_taking_classes:
        named = dict.fromkeys(entry.parameters, _CONFIG)
        _run_methods(analysis, _constructed(analysis, cls, Arguments(named={**named})))


def _constructed(analysis: Analysis, cls: Class, arguments: Arguments) -> Instance:
    instance = Instance(cls)
    constructor = analysis.classes.constructor(cls, instance)
    if constructor:
        enter(analysis, constructor, arguments)
    return instance


def _classes(analysis: Analysis, entries: Iterable[Entry]) -> list[tuple[Entry, Class]]:
    """The classes of those entry points that the release has."""
    found = []
    for entry in entries:
        value = analysis.member_of(entry.module, entry.name)
        if isinstance(value, Class):
            constructor = analysis.classes.constructor(value)
            if constructor:
                _verify_parameter(analysis, entry, constructor)
            found.append((entry, value))
        else:
            _verify_absence(analysis, entry)
    return found


def _functions(analysis: Analysis, entries: Iterable[Entry]) -> list[tuple[Entry, Function]]:
    """The functions of those entry points that the release has."""
    found = []
    for entry in entries:
        value = analysis.member_of(entry.module, entry.name)
        if isinstance(value, Function):
            _verify_parameter(analysis, entry, value)
            found.append((entry, value))
        else:
            _verify_absence(analysis, entry)
    return found


def _verify_absence(analysis: Analysis, entry: Entry) -> None:
    """An entry point is only missing together with its module, and is defined nowhere else."""
    if predates(analysis.sources.package, entry.since):
        return
    if analysis.sources.module(entry.module):
        raise LookupError(f"there is no {entry.module}.{entry.name}")
    if elsewhere := analysis.sources.defining(entry.name):
        raise LookupError(f"there is no {entry.module}, and {entry.name} is in {elsewhere}")


def _verify_parameter(analysis: Analysis, entry: Entry, function: Function) -> None:
    if entry.parameters and not _taken(entry, function) and not predates(analysis.sources.package, entry.since):
        raise LookupError(f"{entry.module}.{entry.name} takes no {' and no '.join(entry.parameters)}")


def _taken(entry: Entry, function: Function) -> list[str]:
    """The parameters of an entry point that a release has."""
    declared = function.node.args
    return [one for one in entry.parameters if one in [each.arg for each in (*declared.args, *declared.kwonlyargs)]]


def _verify_attribute(engine: Class) -> None:
    """An engine with methods keeps the config where they expect it."""
    methods = [node for node in engine.node.body if isinstance(node, ast.FunctionDef)]
    attributes = (node for method in methods for node in ast.walk(method) if isinstance(node, ast.Attribute))
    if methods and not any(ast.unparse(node) == f"self.{_KEPT_AS}" for node in attributes):
        raise LookupError(f"{engine.name} does not keep the config as {_KEPT_AS}")


def _existing(analysis: Analysis, module: str, name: str) -> Class:
    """A class without which a release would seem to read nothing."""
    value = analysis.member_of(module, name)
    if not isinstance(value, Class):
        raise LookupError(f"there is no {module}.{name}")  # noqa: TRY004 - another layout
    return value


def _run_methods(analysis: Analysis, instance: Instance) -> None:
    """Run every method of an object with arguments that are not known."""
    for node in instance.cls.node.body:
        if isinstance(node, ast.FunctionDef):
            method = sections.attribute(analysis, instance, node.name)
            if isinstance(method, Function):
                enter(analysis, method, Arguments())


def _run_function(analysis: Analysis, entry: Entry, function: Function, value: Value) -> None:
    for parameter in _taken(entry, function):
        enter(analysis, function, Arguments(named={parameter: value}))
