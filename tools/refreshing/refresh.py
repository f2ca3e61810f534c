"""What ``tools/refresh`` does, in the order in which each step needs what the one before has written."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.releases import fetch
from tools.fidelity.environments import pins as pinned
from tools.refreshing import changelog, pins
from tools.refreshing.readings import behind, newest_known
from tools.refreshing.releases import known, on_the_index
from tools.refreshing.report import Report
from tools.refreshing.steps import INSTALLED, PAGES, PAIRS
from tools.refreshing.words import NOUNS, Change, Entry, entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.refreshing.readings import Reading
    from tools.refreshing.steps import Step

ROOT = Path(__file__).parents[2]


class CannotRefresh(Exception):  # noqa: N818 - an answer, not an accident
    """Why nothing more can be done; the message is one line."""


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
    released = on_the_index(chosen)
    new = {reading.library: missing for reading, missing in behind(released)}
    new |= {name: found[-1:] for name, found in released.items() if name not in new and found[-1] != known()[name]}
    for library, releases in new.items():
        sys.stdout.write(f"{library}: {', '.join(releases)} (known: {known()[library]})\n")
    return 1 if new else 0


def run(chosen: Sequence[str], cache: Path, *, everything: bool, tests: bool) -> int:
    """Do what is due; the report goes to standard output."""
    released = on_the_index(chosen)
    report = Report()
    dirty = _changed_files()
    read, failed = _read(released, cache / "sources", report)
    newest = known() | newest_known() | {name: found[-1] for name, found in released.items() if name not in failed}
    moved = pins.wanted(newest)
    has_moved = _install(moved) if moved != pinned() else False
    done = [_do(step, report) for step in INSTALLED if everything or step.is_due(moved)]
    if everything or PAIRS.is_due(newest):
        done.append(_do(PAIRS, report, "--cache", str(cache / "pairs")))
    if not (read or failed or has_moved or done or everything):
        _say(f"nothing is new: {', '.join(f'{name} {release}' for name, release in newest.items())}")
        return 0
    for step in PAGES:
        _do(step, report)
    report.write_down(changelog.add([*read, *_by_installing(done, newest)]))
    if tests:
        _test(report)
    written = sorted(_changed_files() - dirty)
    sys.stdout.write(report.text(moved, newest, written))
    return 1 if report.needs_a_person else 0


# --------------------------------------------------------------------------------------------------------------- steps


def _read(released: dict[str, list[str]], cache: Path, report: Report) -> tuple[list[Entry], set[str]]:
    """Extract every release that a store lacks; what changed, and the libraries whose source could not be read."""
    found: dict[tuple[str, str], Entry] = {}
    failed = set()
    for reading, releases in behind(released):
        done = _python(f"Reading {reading.name} {', '.join(releases)}", *_extraction(reading, releases, cache))
        if done.status:
            report.fails(f"{reading.name} {', '.join(releases)} cannot be read: {done.reason}")
            failed.add(reading.library)
            continue
        for entry in entries(done.printed):
            before = found.setdefault((entry.library, entry.release), entry._replace(changes=[]))
            before.changes.extend(entry.changes)
    for entry in found.values():
        if entry.library == "transformers" and entry.after is not None:
            entry.changes.extend(_new_models(entry.release, entry.after, cache))
        report.release(entry)
    return list(found.values()), failed


def _extraction(reading: Reading, releases: Sequence[str], cache: Path) -> list[str]:
    return [reading.module, reading.name, *releases, "--cache", str(cache)]


def _new_models(release: str, before: str, cache: Path) -> Iterator[Change]:
    """The models that a release of transformers has and the one before has not, by the folder of their code."""
    new, old = (_models(fetch("transformers", one, cache)) for one in (release, before))
    for name in sorted(new - old):
        yield Change("new", "model", name, f"model `{name}` is new")
    for name in sorted(old - new):
        yield Change("gone", "model", name, f"model `{name}` is gone")


def _models(tree: Path) -> set[str]:
    return {path.parent.name for path in (tree / "transformers" / "models").glob("*/modeling_*.py")}


def _install(moved: dict[str, str]) -> bool:
    """Bring the environment to other pins; they stay as they were where pip cannot."""
    before = pinned()
    pins.move(moved)
    changed = (f"{library} {release}" for library, release in moved.items() if release != before[library])
    done = _run(f"Installing {', '.join(changed)}", [str(ROOT / "tools" / "environment")])
    if done.status:
        pins.move(before)
        raise CannotRefresh(f"the releases cannot be installed together: {done.reason}")
    return True


def _do(step: Step, report: Report, *more: str) -> tuple[Step, list[Change]]:
    """Run a step; which records of its store are new, gone or different."""
    before = _records(step)
    done = _python(step.title, *step.command, *more)
    lines = [line for line in done.printed.splitlines() if line]
    if done.status and not (step.is_checked and done.status == 1):
        report.fails(f"`python -m {' '.join(step.command)}`: {done.reason}")
    elif done.status:
        report.leaves_open(step.title, lines)
    changes = list(_compared(before, _records(step)))
    report.look_at(step.title, [change.line for change in changes])
    return step, changes


def _records(step: Step) -> dict[str, Any]:
    return json.loads((ROOT / step.store).read_text(encoding="utf-8")) if step.store else {}


def _compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Change]:
    """The records of the tables of a store that differ, by name."""
    for table, records in after.items():
        old = before.get(table, {})
        if not isinstance(records, dict) or not isinstance(old, dict):
            continue
        for name in sorted({*old, *records}):
            if old.get(name) != records.get(name):
                kind, word = ("new", "is new") if name not in old else ("gone", "is gone")
                kind, word = (kind, word) if name not in old or name not in records else ("other", "differs")
                yield Change(kind, NOUNS.get(table, table), name, f"{table}: `{name}` {word}")


def _by_installing(done: Sequence[tuple[Step, list[Change]]], newest: dict[str, str]) -> list[Entry]:
    """The releases of libraries that are not read but installed, with what they changed."""
    return [
        Entry("peft", newest["peft"], None, changes)
        for step, changes in done
        if step.store == "schemas/peft.json" and changes
    ]


def _test(report: Report) -> None:
    """Run the tests, those with the real libraries among them."""
    done = _run("Tests", [str(ROOT / "tools" / "test")])
    lines = done.printed.splitlines()
    report.tests(lines[-1] if lines else done.reason, [one for one in lines if one.startswith(("FAILED", "ERROR"))])
    if done.status:
        report.fails(f"the tests: {lines[-1] if lines else done.reason}")


def _changed_files() -> set[str]:
    """The files that differ from the last commit; none outside of a checkout."""
    command = ["git", "status", "--porcelain", "--untracked-files=all"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return {line[3:] for line in done.stdout.splitlines()}


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
