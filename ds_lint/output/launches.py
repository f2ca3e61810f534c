"""The launches of a project, for people and for programs: where each is, and what is understood of it."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ds_lint.launches.preset import preset_word
from ds_lint.launches.recipe import recipe_of
from ds_lint.output.secrets import masked_words
from ds_lint.output.terminal import QUIET, STRONG
from ds_lint.output.text import counted, visible, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.launch import Launch
    from ds_lint.output.terminal import Terminal
    from ds_lint.project.launches import LaunchFile

    Json = dict[str, object]

_IN_JSON = (
    "path", "line", "launcher", "nodes", "processes_per_node", "world_size", "command", "script", "accelerate_config",
    "deepspeed_config", "arguments", "unknown",
)  # fmt: skip


def lines(file: LaunchFile, launch: Launch, terminal: Terminal) -> Iterator[str]:
    """A line about a launch, and its command below."""
    place = visible(file.place_of(launch))
    yield f"{terminal.paint(place, STRONG)}  {', '.join(_about(file, launch))}"
    for line in wrap(visible(command(launch)), terminal.width, taken=4, indent=4):
        yield terminal.paint(f"    {line.lstrip()}", QUIET)


def command(launch: Launch) -> str:
    """The command as a shell takes it, with ``?`` for a word that is not known and a mask for a secret."""
    return " ".join("?" if word is None else shlex.quote(word) for word in masked_words(launch.command))


def as_object(file: LaunchFile, launch: Launch) -> Json:
    """A launch as an object of JSON."""
    return (
        {name: getattr(launch, name) for name in _IN_JSON}
        | {"command": masked_words(launch.command)}
        | {"launcher": launch.launcher if launch.record is not None else None, "recipe": _recipe(launch)}
        | _in_cell(file, launch)
    )


def _in_cell(file: LaunchFile, launch: Launch) -> dict[str, int]:
    """The line of the file of a launch in a notebook, its cell, and the line in that."""
    if file.notebook is None or launch.path != file.path:
        return {}
    cell, line = file.notebook.cell_line(launch.line)
    return {"line": file.notebook.line_in_file(launch.line), "cell": cell, "cell_line": line}


def _about(file: LaunchFile, launch: Launch) -> Iterator[str]:
    """What was understood, in words."""
    yield launch.launcher if launch.record is not None else "launcher unknown"
    if launch.world_size is not None:
        nodes = f" on {counted(launch.nodes, 'node')}" if launch.nodes is not None and launch.nodes > 1 else ""
        yield f"{counted(launch.world_size, 'rank')}{nodes}"
    else:
        yield "number of ranks unknown"
    preset = preset_word(launch)
    for name, value in (
        ("script", launch.script),
        ("recipe", _recipe(launch)),
        ("DeepSpeed config", launch.deepspeed_config),
        ("Accelerate config", launch.accelerate_config),
    ):
        if value is not None:
            whose = f" of {launch.framework.name}" if launch.framework is not None and value == preset else ""
            yield f"{name} {visible(value)}{whose}"
    if launch.around and launch.launcher != launch.surroundings.around:
        yield f"within {launch.surroundings.around}"
    if launch.path != file.path:
        yield f"called in {visible(file.path)}"
    if launch.unknown:
        yield f"unknown: {', '.join(visible(name) for name in launch.unknown)}"


def _recipe(launch: Launch) -> str | None:
    """The recipe that a program of a framework starts with."""
    recipe = recipe_of(launch, None)
    return recipe.path if recipe is not None and recipe.framework is not None else None
