"""What ``tools/refresh`` does, in the order in which each step needs what the one before has written."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.releases import UnavailableError, fetch, number
from tools.fidelity.environments import has_pins
from tools.fidelity.environments import pins as pinned
from tools.refreshing import changelog, pins
from tools.refreshing.readings import behind, newest_read
from tools.refreshing.releases import known, on_the_index
from tools.refreshing.report import Report
from tools.refreshing.steps import INSTALLED, PAGES, READ
from tools.refreshing.words import Change, Entry, entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.refreshing.steps import Step

ROOT = Path(__file__).parents[2]
UNFINISHED = Path(".refresh") / "unfinished.txt"  # what the extractors print, until a run has come to its end


class Done(NamedTuple):
    """A command that has ended."""

    status: int
    printed: str
    errors: str

    @property
    def reason(self) -> str:
        """Why it failed, in one line."""
        lines = self.errors.strip().splitlines() or self.printed.strip().splitlines() or ["no reason given"]
        return lines[-1].removeprefix("error: ")


def check(chosen: Sequence[str]) -> int:
    """Say what is new; 1 if anything is."""
    released, have = on_the_index(chosen), known()
    new: dict[str, list[str]] = {}
    for reading, missing in behind(released):
        new[reading.library] = sorted({*new.get(reading.library, ()), *missing}, key=number)
    new |= {
        name: found[-1:]
        for name, found in released.items()
        if name not in new and number(found[-1]) > number(have[name])
    }
    for library, releases in new.items():
        sys.stdout.write(f"{library}: {', '.join(releases)} (known: {have[library]})\n")
    return 1 if new else 0


def run(chosen: Sequence[str], cache: Path, *, everything: bool, tests: bool) -> int:
    """Do what is due; the report goes to standard output.

    What the extractors say is kept until a run has come to its end, so that the one after an interruption reports it.
    """
    released = on_the_index(chosen)
    report, unfinished = Report(), ROOT / UNFINISHED
    _read(released, cache / "sources", report)
    newest = _newest(released)
    moved = _install(newest, report, always=everything)
    for steps, releases in ((INSTALLED, moved), (READ, newest)):
        for step in steps:
            if everything or step.is_due(releases):
                _do(step, report, cache)
    if unfinished.exists():
        read = _entries(unfinished.read_text(encoding="utf-8"), cache / "sources")
        for entry in read:
            report.release(entry)
        written = [_do(step, report, cache) for step in PAGES]
        report.write_down(changelog.add(read))
        if tests:
            _test(report)
        if all(written):
            unfinished.unlink()
    elif not report.needs_a_person:
        _say(f"nothing is new: {', '.join(f'{name} {release}' for name, release in newest.items())}")
        return 0
    sys.stdout.write(report.text(moved, newest, _changed_files()))
    return 1 if report.needs_a_person else 0


def _begin(text: str = "") -> None:
    """Note that pages, changelog and tests are due, also in the next run if this one does not come to them."""
    path = ROOT / UNFINISHED
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _newest(released: dict[str, list[str]]) -> dict[str, str]:
    """The newest release of each library, of one that is read only as far as it could be; never an older one."""
    found = known()
    for name, releases in released.items():
        if name not in newest_read():
            found[name] = max(found[name], releases[-1], key=number)
    return found


# --------------------------------------------------------------------------------------------------------------- steps


def _read(released: dict[str, list[str]], cache: Path, report: Report) -> None:
    """Extract every release that a store lacks, one by one, and keep what the extractors say of them."""
    failed: set[tuple[str, str]] = set()
    for reading, releases in behind(released):
        for release in releases:
            if (reading.library, release) in failed:
                continue  # by another extractor
            command = (reading.module, reading.name, release, "--cache", str(cache))
            done = _python(f"Reading {reading.name} {release}", *command)
            if done.status:
                report.fails(f"{reading.name} {release} cannot be read: {done.reason}")
                failed.add((reading.library, release))
                continue
            _begin(done.printed)


def _entries(text: str, cache: Path) -> list[Entry]:
    """What the extractors print, by release."""
    found: dict[tuple[str, str], Entry] = {}
    for entry in entries(text):
        before = found.setdefault((entry.library, entry.release), entry._replace(changes=[]))
        before.changes.extend(change for change in entry.changes if change not in before.changes)
    for entry in found.values():
        if entry.library == "transformers" and entry.after is not None:
            entry.changes.extend(_new_models(entry.release, entry.after, cache))
    return list(found.values())


def _new_models(release: str, before: str, cache: Path) -> Iterator[Change]:
    """The models that a release of transformers has and the one before has not, by the folder of their code."""
    try:
        new, old = (_models(fetch("transformers", one, cache)) for one in (release, before))
    except UnavailableError as error:
        _say(f"new models of transformers {release} are not listed: {error}")
        return
    for name in sorted(new - old):
        yield Change("new", "model", name, f"model `{name}` is new")
    for name in sorted(old - new):
        yield Change("gone", "model", name, f"model `{name}` is gone")


def _models(tree: Path) -> set[str]:
    return {path.parent.name for path in (tree / "transformers" / "models").glob("*/modeling_*.py")}


def _install(newest: dict[str, str], report: Report, *, always: bool) -> dict[str, str]:
    """Bring the environment to the newest releases, if anything rests on older ones; the pins, moved if pip could."""
    before, moved = pinned(), pins.wanted(newest)
    is_needed = always or moved != before or any(step.is_due(moved) for step in INSTALLED)
    if not is_needed or (moved == before and has_pins()):
        return before
    changed = [f"{library} {release}" for library, release in moved.items() if release != before[library]]
    _begin()
    pins.move(moved)
    try:
        done = _run(f"Installing {', '.join(changed) or 'what is pinned'}", [str(ROOT / "tools" / "environment")])
    except BaseException:
        pins.move(before)
        raise
    if done.status:
        pins.move(before)
        report.fails(f"{', '.join(changed)} cannot be installed together: {done.reason}")
        return before
    for library, release in moved.items():
        if release != before[library] and library not in newest_read():
            report.release(Entry(library, release, before[library], []))
    return moved


def _do(step: Step, report: Report, cache: Path) -> bool:
    """Run a step; whether it came to its end. What is new, removed or different in its store is for a person."""
    _begin()
    before = _records(step)
    more = ("--cache", str(cache / step.command[0].rpartition(".")[2])) if step.keeps_downloads else ()
    done = _python(step.title, *step.command, *more)
    lines = [line for line in done.printed.splitlines() if line]
    is_open = step.is_checked and done.status == 1 and "Traceback" not in done.errors
    if is_open:
        report.leaves_open(step.title, lines)
    elif done.status:
        report.fails(f"`python -m {' '.join(step.command)}`: {done.reason}")
    report.look_at(step.title, list(_compared(before, _records(step))))
    return is_open or not done.status


def _records(step: Step) -> dict[str, Any]:
    return json.loads((ROOT / step.store).read_text(encoding="utf-8")) if step.store else {}


def _compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """The records of the tables of a store that differ, by name."""
    for table, records in after.items():
        old = before.get(table, {})
        if not isinstance(records, dict) or not isinstance(old, dict):
            continue
        for name in sorted({*old, *records}):
            if old.get(name) != records.get(name):
                word = "is new" if name not in old else "is gone" if name not in records else "differs"
                yield f"{table}: `{name}` {word}"


def _test(report: Report) -> None:
    """Run the tests, those with the real libraries among them."""
    done = _run("Tests", [str(ROOT / "tools" / "test")])
    lines = done.printed.splitlines()
    report.tests(lines[-1] if lines else done.reason, [one for one in lines if one.startswith(("FAILED", "ERROR"))])
    if done.status:
        report.fails(f"the tests: {lines[-1] if lines else done.reason}")


def _changed_files() -> list[str]:
    """The files that differ from the last commit; none outside of a checkout."""
    command = ["git", "status", "--porcelain", "-z", "--untracked-files=all", "--no-renames"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:  # no git
        return []
    return sorted(entry[3:] for entry in done.stdout.split("\0") if entry)


# ------------------------------------------------------------------------------------------------------------ commands


def _python(title: str, *arguments: str) -> Done:
    return _run(title, [sys.executable, "-m", *arguments])


def _run(title: str, command: Sequence[str]) -> Done:
    """Run a command in the repository, and say on standard error how it went."""
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    status = f", status {done.returncode}" if done.returncode else ""
    _say(f"{title}: {time.monotonic() - began:.0f} s{status}")
    return Done(done.returncode, done.stdout, done.stderr)


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
