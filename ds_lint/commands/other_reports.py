"""Reports of a run beside its main one: ``--report FORMAT=FILE``, and the summary of a step in a GitHub workflow."""

from __future__ import annotations

import os
from typing import NamedTuple

from ds_lint.output import HTML, harmlessly, renderer
from ds_lint.output.terminal import Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator, Sequence

    from ds_lint.diagnostics.report import Report

    Render = Callable[[Report, Terminal], str]

STANDARD_OUTPUT = "-"
_MOST_OF_A_SUMMARY = 1 << 20  # bytes of a step; GitHub shows nothing of a larger one
_FOR_ESCAPES = 1 << 12  # of them, by which a text without secrets and commands may be longer


class OtherReport(NamedTuple):
    """A format, and the file that gets it."""

    format: str
    path: str

    @property
    def render(self) -> Render:
        """What writes the format."""
        return _page if self.format == HTML else renderer(self.format)


def reports_of(texts: Sequence[str]) -> list[OtherReport]:
    """What ``--report`` has, each as ``FORMAT=FILE``."""
    return [OtherReport(name, path) for name, _, path in (text.partition("=") for text in texts)]


def complaints(options: Namespace, checked: Sequence[str], *, has_runs: bool) -> Iterator[str]:
    """Why the reports about what is at these paths cannot be written to the files that are named."""
    reports = reports_of(options.report or ())
    if not has_runs and any(one.format == HTML for one in reports):
        yield f"--report {HTML}=FILE is a page about training runs and needs --smoke or --smoke-launches"
    written = [options.output_file or STANDARD_OUTPUT, *(one.path for one in reports)]
    if written.count(STANDARD_OUTPUT) > 1:
        yield "standard output takes one report; write the other one to a file, with --output-file or --report"
    files = [os.path.realpath(path) for path in written if path != STANDARD_OUTPUT]
    if twice := [path for path in files if files.count(path) > 1]:
        yield f"{os.path.relpath(twice[0])} can hold one report, and two would be written to it"
    if over := {os.path.realpath(path) for path in checked if os.path.isfile(path)}.intersection(files):
        yield f"{os.path.relpath(min(over))} is checked, and the report would replace it; write it to another file"


def _page(report: Report, _terminal: Terminal) -> str:
    """The page about the training runs."""
    from ds_lint.commands.invocation import invocation
    from ds_lint.output.html_page import MadeBy
    from ds_lint.smoke.html import page

    documents = [document for file in report.files for document in (file.document, *(file.material or ()))]
    return page.render(report.smoke, MadeBy(report.version, invocation()), documents)


def append_summary(report: Report, path: str) -> str | None:
    """Add the report to the summary of a step in a GitHub workflow; why that is not possible, or None."""
    from ds_lint.output import markdown_report

    if report.is_quiet and not report.findings and not report.smoke:
        return None
    try:
        room = _MOST_OF_A_SUMMARY - (os.path.getsize(path) if os.path.exists(path) else 0)
        text = harmlessly(lambda one, _: markdown_report.limited(one, room - _FOR_ESCAPES), "markdown")
        data = text(report, Terminal()).encode(errors="replace")
        if len(data) > room:
            return "the summary of the step has no room for this report"
        with open(path, "ab") as file:
            file.write(data)
    except OSError as error:
        return f"the summary of the step is not written: {path}: {error.strerror or error}"
    return None
