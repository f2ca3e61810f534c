"""``ds-lint check --show-launches``: what starts training in a project, and what was understood of it."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import TYPE_CHECKING

from ds_lint.commands.documents import complaints_into
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable, unless_it_fails
from ds_lint.commands.report import print_text, write_notes
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.launches import as_object, lines
from ds_lint.output.terminal import terminal_of
from ds_lint.output.text import visible
from ds_lint.project.globs import is_below
from ds_lint.project.launches import LaunchFile, launch_files, read_launches
from ds_lint.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import Complaint
    from ds_lint.launches.launch import Launch
    from ds_lint.session.options import Options

VERSION = 1  # of the JSON, raised when a reader of it would have to change


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
        text = "".join(f"{line}\n" for file, launch in launches for line in lines(file, launch, terminal))
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
    project = os.curdir if is_below(path, os.curdir) else os.path.dirname(path)
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


def _as_json(launches: list[tuple[LaunchFile, Launch]]) -> str:
    described = [as_object(file, launch) for file, launch in launches]
    return dumps({"version": VERSION, "launches": described}, indent=2) + "\n"
