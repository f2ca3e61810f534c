"""``ds-lint advisories``: list the defects of releases, explain one, or say which of them a project reaches."""

from __future__ import annotations

import os
import sys
from json import dumps

from ds_lint import __version__
from ds_lint.commands.documents import complaints_into, linted_documents
from ds_lint.commands.explain import print_page
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable
from ds_lint.commands.report import print_text, write_notes
from ds_lint.knowledge.advisories import advisories, is_id, named
from ds_lint.knowledge.advisory_words import affected, title
from ds_lint.output.terminal import QUIET, SEVERITY, STRONG, terminal_of
from ds_lint.output.text import shown_path, visible, wrap
from ds_lint.rule_pages.advisories import page
from ds_lint.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.diagnostics.report import Complaint, FileReport
    from ds_lint.knowledge.records import AdvisoryRecord
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.options import Options

    Json = dict[str, object]

VERSION = 1  # of the JSON, raised when a reader of it would have to change


def run(options: Options) -> int:
    """Print, and return the exit status: 1 if a named project certainly reaches an advisory, 2 for wrong usage."""
    ids = [word for word in options.paths if is_id(word) and not os.path.exists(word)]
    if unknown := [word for word in ids if named(word) is None]:
        return complain(f"unknown advisory {unknown[0]}; `ds-lint advisories` lists them")
    paths = [word for word in options.paths if word not in ids]
    if paths and (ids or options.output_format == "osv"):
        return complain("advisories of a project are not combined with ids, and have no OSV form")
    if paths:
        options.paths = paths
        return _of_project(options)
    chosen = [record for word in ids if (record := named(word)) is not None] or list(advisories().values())
    if options.output_format == "osv":
        from ds_lint.output.osv import as_object

        sys.stdout.write(dumps([as_object(record) for record in chosen], indent=2) + "\n")
    elif options.output_format == "json":
        sys.stdout.write(dumps(_document(advisories=chosen), indent=2) + "\n")
    elif ids:
        print_page("\n".join(map(page, chosen)))
    else:
        terminal = terminal_of(sys.stdout)
        lines = [*_listed(chosen, terminal), f"{len(chosen)} advisories. For details: ds-lint advisories ID"]
        print_text("\n".join([*lines[:-1], terminal.paint(lines[-1], QUIET)]) + "\n", sys.stdout)
    return 0


def _document(**parts: object) -> Json:
    return {"version": VERSION, "tool": {"name": "ds-lint", "version": __version__}, **parts}


def _listed(records: Iterable[AdvisoryRecord], terminal: Terminal, beside: dict[str, str] | None = None) -> list[str]:
    lines = []
    for record in records:
        severity = terminal.paint(record["severity"], SEVERITY[record["severity"]])
        lines.append(f"{terminal.paint(record['id'], STRONG)} {affected(record)} ({severity}, {record['kind']})")
        text = title(record) + (beside or {}).get(record["id"], "")
        lines += [f"      {line.strip()}" for line in wrap(text, terminal.width, taken=6, indent=6)]
    return lines


# -------------------------------------------------------------------------------------------------------- of a project


def _of_project(options: Options) -> int:
    """What the configs of a project reach, and what they may reach and why that is not known."""
    unreadable: list[Complaint] = []
    try:
        session = Session(options, on_error=complaints_into(unreadable))
        reports = [report for report, _ in linted_documents(options, session, unreadable)]
    except WRONG_USAGE as error:
        return complain(error)
    list_unreadable(unreadable)
    certain = {report.path: sorted({one.advisory for one in report.findings if one.advisory}) for report in reports}
    if options.output_format == "json":
        files = [_file(report, certain[report.path]) for report in reports]
        sys.stdout.write(dumps(_document(files=files), indent=2) + "\n")
    else:
        terminal = terminal_of(sys.stdout)
        lines = [line for report in reports for line in _of_file(report, certain[report.path], terminal)]
        if not (lines or unreadable):
            lines = ["No DeepSpeed configs found."]
        print_text("".join(f"{line}\n" for line in lines), sys.stdout)
    write_notes(session.notes, [report.document for report in reports])
    serious = any(advisories()[one]["severity"] != "info" for those in certain.values() for one in those)
    return 2 if unreadable else 1 if serious else 0


def _file(report: FileReport, certain: list[str]) -> Json:
    possible = [{"id": one, "unknown": words} for one, words in report.possible_advisories.items()]
    return {"path": report.path, "target": report.target, "reached": certain, "possible": possible}


def _of_file(report: FileReport, certain: list[str], terminal: Terminal) -> Iterator[str]:
    target = ", ".join(f"{library} {release}" for library, release in report.target.items())
    numbers = f"reaches {'1 advisory' if len(certain) == 1 else f'{len(certain)} advisories'}"
    possible = report.possible_advisories
    yield terminal.paint(visible(shown_path(report.path)), STRONG)
    yield f"  {numbers}, may reach {len(possible)} more; {visible(target)}"
    known = advisories()
    yield from (f"  {line}" for line in _listed([known[one] for one in certain], terminal))
    beside = {one: f" (unknown: {', '.join(words)})" for one, words in possible.items()}
    yield from (f"  {line}" for line in _listed([known[one] for one in possible], terminal, beside))
