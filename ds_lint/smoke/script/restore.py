"""Puts back what the user's script has changed outside the folder of the run, and removes what it has created."""

from __future__ import annotations

import contextlib
import functools
import os
import shlex
import shutil
import stat
import sys
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.journal import areas, entries, register
from ds_lint.smoke.journal.entries import ABSENT, DIRECTORY, FILE, LINK, OPEN, Entry
from ds_lint.smoke.journal.register import Register
from ds_lint.smoke.probe.plan import RESUME, TRAIN, Plan
from ds_lint.smoke.processes.descendants import noted
from ds_lint.smoke.processes.leftovers import end_processes_of
from ds_lint.smoke.script.processes import processes_in, sweep_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Restored(NamedTuple):
    """What became of the paths that the script has changed."""

    restored: list[str]  # they are as before
    removed: list[str]  # they were not there before
    left: list[tuple[str, str]]  # paths that are not touched, and why: the run has not written what is there now
    failed: list[tuple[str, str]]  # paths that could not be restored, and why; their content stays in the journal
    handed: Sequence[str] = ()  # paths that another run, which goes on, restores at its end


def restore(folder: str) -> Restored:
    """Restore the paths in the journal of a run, after all of its processes have ended.

    It can be called again, and after a run that was killed: an entry goes once its path is as before. A file that
    others have changed after the script has closed it is not touched, nor is a new folder that holds files which the
    script has not written through Python. What another run of ds-lint has changed too is left to that run, with what
    was there before either of them.
    """
    folder = os.path.realpath(folder)
    own = register.of(folder)
    with own.locked():
        return _restore(folder, own.living())


def _restore(folder: str, others: list[str]) -> Restored:
    handed, found = [], []
    for entry in entries.read_all(folder):
        if (other := _also_changed_by(entry.path, others)) is None:
            found.append(entry)
        else:
            entry.add_to(other)
            entry.add_marks_to(other)
            handed.append(entry.path)
            shutil.rmtree(entry.place, ignore_errors=True)
    result = Restored([], [], [], [], handed)
    # Before anything changes: what comes back at one name of a file changes the others.
    of_others = {entry.path for entry in found if (status := _status(entry.path)) and not _is_of_run(entry, status)}
    for entry in found:
        if entry.kind == ABSENT and os.path.basename(entry.path) == os.path.basename(folder):
            shutil.rmtree(entry.path, ignore_errors=True)  # named after the run, so nothing else is in it
    for entry in found:
        _attempt(entry, result, functools.partial(_remove_file, of_others))
    for entry in sorted(found, key=lambda one: one.path, reverse=True):  # what is in a folder before the folder
        _attempt(entry, result, _remove_folder)
    for entry in sorted(found, key=lambda one: one.path):  # a folder before what is in it
        _attempt(entry, result, functools.partial(_bring_back, of_others))
    unsettled = {path for path, _ in result.failed}
    for entry in found:
        if entry.path not in unsettled:
            with contextlib.suppress(OSError):
                os.unlink(entry.twin)
            shutil.rmtree(entry.place, ignore_errors=True)
    return result


def _also_changed_by(path: str, others: list[str]) -> str | None:
    """The run that has changed a path too, or that has made, removed or replaced a folder above it."""
    for other in others:
        if entries.read(entries.place_of(other, path)) is not None:
            return other
        for folder in entries.folders_above(path):
            entry = entries.read(entries.place_of(other, folder))
            if entry is not None and (entry.kind != DIRECTORY or not os.path.isdir(folder) or os.path.islink(folder)):
                return other
    return None


def _attempt(entry: Entry, result: Restored, act: Callable[[Entry, Restored], None]) -> None:
    if any(entry.path == path for path, _ in (*result.left, *result.failed)):
        return
    try:
        act(entry, result)
    except OSError as error:
        result.failed.append((entry.path, error.strerror or str(error)))


def _remove_file(of_others: set[str], entry: Entry, result: Restored) -> None:
    """Remove a file or link that was not there, or that stands where a folder was."""
    status = _status(entry.path)
    if status is None or stat.S_ISDIR(status.st_mode) or entry.kind == FILE:
        return
    if entry.kind == LINK and stat.S_ISLNK(status.st_mode) and os.readlink(entry.path) == entry.target:
        return
    if entry.path in of_others:
        result.left.append((entry.path, "it was changed by others during the run"))
        return
    os.unlink(entry.path)
    if entry.kind == ABSENT:
        result.removed.append(entry.path)


def _remove_folder(entry: Entry, result: Restored) -> None:
    """Remove a folder that was not there, once it is empty."""
    if entry.kind == DIRECTORY or not os.path.isdir(entry.path) or os.path.islink(entry.path):
        return
    within = os.listdir(entry.path)
    if within:
        names = ", ".join(sorted(within)[:3])
        result.left.append((entry.path, f"it holds files that were not written through Python: {names}"))
        return
    os.rmdir(entry.path)
    if entry.kind == ABSENT:
        result.removed.append(entry.path)


def _bring_back(of_others: set[str], entry: Entry, result: Restored) -> None:
    """Make what was there again, unless it still is."""
    status = _status(entry.path)
    mode = status.st_mode if status is not None else 0
    if entry.kind == DIRECTORY and status is None:
        os.mkdir(entry.path)
        os.chmod(entry.path, stat.S_IMODE(entry.mode))
    elif entry.kind == DIRECTORY and stat.S_ISDIR(mode) and mode != entry.mode and entry.path not in of_others:
        os.chmod(entry.path, stat.S_IMODE(entry.mode))
    elif entry.kind == LINK and status is None:
        os.symlink(entry.target, entry.path)
    elif entry.kind == FILE and (status is None or entries.signature(status) != entry.signature):
        if status is not None and entry.path in of_others:
            result.left.append((entry.path, "it was changed by others during the run"))
            return
        _bring_back_file(entry, status)
    else:
        return
    result.restored.append(entry.path)


def _bring_back_file(entry: Entry, status: os.stat_result | None) -> None:
    twin = _status(entry.twin) if entry.twin else None
    if twin is not None:  # one of several names of a file
        if status is None or not os.path.samestat(status, twin):
            _put_at(entry.path, lambda new: os.link(entry.twin, new))
        if entries.signature(twin) != entry.signature:
            _write_again(entry)
        return
    if entries.signature(os.lstat(entry.content)) == entry.signature:
        os.replace(entry.content, entry.path)  # it is the file itself, which was kept by a second name
        return
    if status is None or not entry.is_of(status):  # another file has its place, which may have names elsewhere
        _put_at(entry.path, lambda new: shutil.copyfile(entry.content, new))
    _write_again(entry)


def _put_at(path: str, make: Callable[[str], object]) -> None:
    """Let a file take its place at a path at once, whatever is there."""
    new = f"{path}.ds-lint-smoke"
    try:
        make(new)
        os.replace(new, path)
    finally:
        if os.path.lexists(new):
            os.unlink(new)


def _write_again(entry: Entry) -> None:
    shutil.copyfile(entry.content, entry.path)  # in place: its owner and its other names stay
    os.chmod(entry.path, stat.S_IMODE(entry.mode))
    os.utime(entry.path, ns=(entry.modified, entry.modified))


def _is_of_run(entry: Entry, status: os.stat_result) -> bool:
    """Whether a process of the run has written what is at a path now.

    A process that was ended while it had the file open could not say how it left it.
    """
    marks = entry.marks()
    if stat.S_ISDIR(status.st_mode):  # its time changes with what is in it
        marks = [entries.signature(status) if mark.endswith(f"-{status.st_mode}") else mark for mark in marks]
    return OPEN in marks or entries.signature(status) in marks


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def put_away(folder: str, nodes: Sequence[str] = ()) -> bool:
    """Remove the folder of a run, unless it has the only copy of a file of the user; whether it is gone.

    ``nodes``: those with files on their own disks that could not be restored.
    """
    result = restore(folder)
    for path, why in result.left:
        sys.stderr.write(f"ds-lint: {path} stays as it is: {why}\n")
    failed = result.failed
    for path, why in failed:
        sys.stderr.write(f"ds-lint: {path} could not be restored: {why}\n")
    for node in nodes:
        sys.stderr.write(f"ds-lint: what the script changed on the disk of {node} could not be restored\n")
    if failed or nodes:
        command = f"python -m ds_lint.smoke.script.restore {shlex.quote(folder)}"
        again = f"tries again on {', '.join(nodes)}" if nodes else "tries again, and so does the next run"
        sys.stderr.write(f"ds-lint: its content is kept; `{command}` {again}\n")
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def finish_dead_runs(runs: Register) -> None:
    """End and restore what runs have left whose ds-lint was killed: their commands may still train."""
    with runs.dead() as folders:
        for folder in filter(os.path.isdir, folders):
            _end_all(folder)
            sys.stderr.write(f"ds-lint: an earlier run was killed; this ends and restores what it has left: {folder}\n")
            for area in areas.restored_here(folder):
                restore(area)
            put_away(folder, areas.nodes_to_restore(folder))


def _end_all(folder: str) -> None:
    """End the processes of a run that was killed, and remove their shared memory."""
    end_processes_of(folder, also=lambda: noted(folder))
    for part in (TRAIN, RESUME):
        plan = Plan(folder, part=part)
        end_processes_of(plan.kept_folder)
        sweep_segments(processes_in(plan.own_folder))


def _restore_here(folder: str) -> Restored:
    """Restore what this node can: on another one than the driver's, the paths of the first journal are other files."""
    own = [] if areas.is_elsewhere(folder) else [folder]
    every = [restore(area) for area in (*own, *areas.restored_here(folder))]
    return Restored(
        [path for one in every for path in one.restored],
        [path for one in every for path in one.removed],
        [pair for one in every for pair in one.left],
        [pair for one in every for pair in one.failed],
        [path for one in every for path in one.handed],
    )


def main() -> None:
    """Restore after runs that could not do so themselves: ``python -m`` this, with the folder of one, or for all."""
    if len(sys.argv) == 1:
        for place in register.usual_places(tempfile.gettempdir()):
            finish_dead_runs(Register("", place))
        return
    (folder,) = sys.argv[1:]
    if register.goes_on(folder):
        sys.stderr.write(f"ds-lint: the run in {folder} goes on; end it with Ctrl-C first\n")
        sys.exit(2)
    _end_all(folder)
    result = _restore_here(folder)
    lines = [f"{path} is as before" for path in (*result.restored, *result.removed)]
    lines += [f"{path} is restored by another run at its end" for path in result.handed]
    lines += [f"{path} stays as it is: {why}" for path, why in (*result.left, *result.failed)]
    for line in lines:
        sys.stdout.buffer.write(os.fsencode(f"{line}\n"))  # a path may be no text
    is_whole = not result.failed and not areas.is_elsewhere(folder) and not areas.nodes_to_restore(folder)
    if is_whole and register.of(folder).place:  # it is the folder of a run, and not one given by mistake
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if result.failed else 0)


if __name__ == "__main__":
    main()
