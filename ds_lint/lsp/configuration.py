"""What the client's settings say, which count like options of the command line."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.finding import STACKS
from ds_lint.facts import Sources
from ds_lint.session.options import Options
from ds_lint.targets.pin import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SECTION = "ds-lint"
_VERSIONS = {f"{library}Version": library for library in LIBRARIES}
_TEXTS = {"trainerArgs": "trainer_args", "model": "model", "gpu": "gpu", "hostMemory": "host_memory"}
_NUMBERS = {"worldSize": "world_size", "nodes": "nodes"}
NAMES = ("stack", *_VERSIONS, *_NUMBERS, *_TEXTS)
RUN_LENSES = "runLenses"  # false: no lens offers a run
_IN_FILES = ("trainerArgs", "model")  # relative to the workspace


def options_of(values: Mapping[str, Any], directory: str) -> Options:
    """The options that a client's settings come to; what is empty, unknown or of another type says nothing."""
    texts = {name: value.strip() for name, value in values.items() if isinstance(value, str) and value.strip()}
    sources: dict[str, str] = {field: texts[name] for name, field in _TEXTS.items() if name in texts}
    numbers = {
        field: values[name] for name, field in _NUMBERS.items() if type(values.get(name)) is int and values[name] > 0
    }
    for name in _IN_FILES:
        field = _TEXTS[name]
        if field in sources and os.path.exists(path := os.path.join(directory, sources[field])):
            sources[field] = path
    stack = texts.get("stack")
    return Options(
        [],
        stack=stack if stack in STACKS else None,
        versions={library: texts[name] for name, library in _VERSIONS.items() if name in texts},
        sources=Sources(**sources | numbers, said_by="the editor"),
    )


def complaints(values: Mapping[str, Any]) -> Iterator[str]:
    """What cannot be used of a client's settings."""
    stack = values.get("stack")
    if isinstance(stack, str) and stack.strip() and stack.strip() not in STACKS:
        yield f'the setting {SECTION}.stack must be one of {", ".join(STACKS)}, not "{stack}"'
