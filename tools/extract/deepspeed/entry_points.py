"""Where DeepSpeed is handed a config, and so where its analysis starts."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from tools.extract.deepspeed import calls, sections
from tools.extract.deepspeed.values import Class, Function, Instance, UserValue

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import Value

_CONFIG = UserValue(())
_FURTHER_ENGINES = (
    ("deepspeed.runtime.pipe.engine", "PipelineEngine"),
    ("deepspeed.runtime.hybrid_engine", "DeepSpeedHybridEngine"),
)


class Entry(NamedTuple):
    """A function or class that gets the config, or the engine, as one of its parameters."""

    module: str
    name: str
    parameter: str


_CONFIG_TAKERS = (
    Entry("deepspeed", "initialize", "config"),
    Entry("deepspeed", "initialize", "config_params"),
    Entry("deepspeed.compression.compress", "init_compression", "deepspeed_config"),
    Entry("deepspeed.compression.compress", "redundancy_clean", "deepspeed_config"),
    Entry("deepspeed.comm.comm", "configure", "deepspeed_config"),
)
_CONFIG_TAKING_CLASSES = (Entry("deepspeed.runtime.zero.partition_parameters", "Init", "config_dict_or_path"),)
_ENGINE_TAKERS = (
    Entry(
        "deepspeed.runtime.data_pipeline.data_sampling.variable_batch_size_and_lr",
        "get_dataloader_and_lr_scheduler_for_variable_batch_size_deepspeed",
        "engine",
    ),
)


def run(analysis: Analysis) -> None:
    """Run every entry point that the release has."""
    read = _existing(analysis, "deepspeed.runtime.config", "DeepSpeedConfig")
    config = _constructed(analysis, read, calls.Arguments((_CONFIG,)))
    engine = _existing(analysis, "deepspeed.runtime.engine", "DeepSpeedEngine")
    further = [_class(analysis, module, name) for module, name in _FURTHER_ENGINES]
    for cls in filter(None, [engine, *further]):
        instance = Instance(cls, {"_config": config})
        _run_methods(analysis, instance)
        for entry in _ENGINE_TAKERS:
            _run_function(analysis, entry, instance)
    for entry in _CONFIG_TAKERS:
        _run_function(analysis, entry, _CONFIG)
    for entry in _CONFIG_TAKING_CLASSES:
        taker = _class(analysis, entry.module, entry.name)
        if taker:
            _run_methods(analysis, _constructed(analysis, taker, calls.Arguments(named={entry.parameter: _CONFIG})))


def _constructed(analysis: Analysis, cls: Class, arguments: calls.Arguments) -> Instance:
    instance = Instance(cls)
    constructor = analysis.classes.constructor(cls, instance)
    if constructor:
        calls.enter(analysis, constructor, arguments)
    return instance


def _class(analysis: Analysis, module: str, name: str) -> Class | None:
    value = analysis.member_of(module, name)
    return value if isinstance(value, Class) else None


def _existing(analysis: Analysis, module: str, name: str) -> Class:
    """A class without which a release would seem to read nothing."""
    cls = _class(analysis, module, name)
    if cls is None:
        raise LookupError(f"there is no {module}.{name}")
    return cls


def _run_methods(analysis: Analysis, instance: Instance) -> None:
    """Run every method of an object with arguments that are not known."""
    for node in instance.cls.node.body:
        if isinstance(node, ast.FunctionDef):
            method = sections.attribute(analysis, instance, node.name)
            if isinstance(method, Function):
                calls.enter(analysis, method, calls.Arguments())


def _run_function(analysis: Analysis, entry: Entry, value: Value) -> None:
    function = analysis.member_of(entry.module, entry.name)
    if isinstance(function, Function):
        declared = function.node.args
        if entry.parameter in [one.arg for one in (*declared.args, *declared.kwonlyargs)]:
            calls.enter(analysis, function, calls.Arguments(named={entry.parameter: value}))
