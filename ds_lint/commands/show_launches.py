"""``ds-lint check --show-launches``: what starts training in a project, and what was understood of it."""

from __future__ import annotations

import os
import shlex
import sys
from json import dumps
from typing import TYPE_CHECKING

from ds_lint.commands.documents import complaints_into
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable, unless_it_fails
from ds_lint.commands.report import print_text, write_notes
from ds_lint.launches.preset import preset_word
from ds_lint.launches.recipe import recipe_of
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import QUIET, STRONG, terminal_of
from ds_lint.output.text import counted, visible, wrap
from ds_lint.project.launches import LaunchFile, launch_files, read_launches
from ds_lint.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import Complaint
    from ds_lint.launches.launch import Launch
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.options import Options

VERSION = 1  # of the JSON, raised when a reader of it would have to change
_IN_JSON = (
    "path", "line", "launcher", "nodes", "processes_per_node", "world_size", "command", "script", "accelerate_config",
    "deepspeed_config", "arguments", "unknown",
)  # fmt: skip


def show_launches(options: Options) -> int:
    """Print the launches in the named files and folders, and return the exit status."""
    unreadable: list[Complaint] = []
    try:
        session = Session(options, on_error=complaints_into(unreadable))
        found = files_with_launches(options, session, unreadable, includes_documentation=True)
        files = [file for _, file in found]
    except WRONG_USAGE as error:
        return complain(error)
    list_unreadable(unreadable)
    launches = [(file, launch) for file in files for launch in file.launches]
    if options.output_format == "json":
        sys.stdout.write(harmless(_as_json(launches), JSON))
    elif launches:
        terminal = terminal_of(sys.stdout)
        text = "".join(f"{line}\n" for file, launch in launches for line in _lines(file, launch, terminal))
        print_text(harmless(text), sys.stdout)
    elif not (unreadable or options.quiet):
        write_notes(["no launches found"])
    write_notes(_misread(files))
    return 2 if unreadable else 0


def files_with_launches(
    options: Options, session: Session, unreadable: list[Complaint], *, includes_documentation: bool = False
) -> Iterator[tuple[str, LaunchFile]]:
    """The files that launch training below the named folders and among the named files, each with its project."""
    for path in options.paths:
        if os.path.isdir(path):
            if not session.forbids(path, is_folder=True):
                for found in launch_files(
                    path,
                    complaints_into(unreadable),
                    leaves_out=session.leaves_out,
                    respects_gitignore=session.respects_gitignore(path),
                    includes_documentation=includes_documentation,
                    unless_it_fails=lambda work, at: unless_it_fails(work, at, unreadable),
                ):
                    yield path, found
        else:
            yield from _named(path, unreadable)


def _named(path: str, unreadable: list[Complaint]) -> Iterator[tuple[str, LaunchFile]]:
    """The launches of a file that the command line names; its project is the working directory, or where it lies."""
    try:
        os.stat(path)
    except OSError as error:
        complaints_into(unreadable)(error)
        return
    is_below = not os.path.relpath(path).startswith(os.pardir)
    project = os.curdir if is_below else os.path.dirname(path)
    found = unless_it_fails(lambda: read_launches(path, project), path, unreadable)
    if found is not None:
        yield project, found


def _misread(files: list[LaunchFile]) -> list[str]:
    """What the parser does not understand: a launch there may be missing, or other than it is."""
    return [
        f"{visible(file.place(line))}: this part is not understood, and a launch in it may be missing"
        for file in files
        for line in file.misread[:1]
    ]


def _lines(file: LaunchFile, launch: Launch, terminal: Terminal) -> Iterator[str]:
    place = visible(file.place_of(launch))
    yield f"{terminal.paint(place, STRONG)}  {', '.join(_about(file, launch))}"
    command = " ".join("?" if word is None else shlex.quote(word) for word in launch.command)
    for line in wrap(visible(command), terminal.width, taken=4, indent=4):
        yield terminal.paint(f"    {line.lstrip()}", QUIET)


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


def _as_json(launches: list[tuple[LaunchFile, Launch]]) -> str:
    described = [
        {name: getattr(launch, name) for name in _IN_JSON}
        | {"launcher": launch.launcher if launch.record is not None else None, "recipe": _recipe(launch)}
        | _in_cell(file, launch)
        for file, launch in launches
    ]
    return dumps({"version": VERSION, "launches": described}, indent=2) + "\n"
