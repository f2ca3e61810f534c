"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

from ds_lint.commands.documents import complaints_into, linted_documents, locate
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import finish
from ds_lint.diagnostics.report import Complaint
from ds_lint.session.session import Session
from ds_lint.source.dialect import hjson_refusal, json_refuses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.options import Options
    from ds_lint.targets.pin import Library


def upgrade(options: Options, ends: dict[Library, tuple[str, str | None]]) -> int:
    """Report what changes, and return the exit status; ``ends`` has the old and the new release by library."""
    unreadable: list[Complaint] = []
    try:
        session = Session(options, ends, on_error=complaints_into(unreadable))
        linted = []
        for report, context in linted_documents(options, session, unreadable):
            if report.document.is_of_fsdp or (report.document.is_of_names and not report.findings):
                continue  # whatever the release of these libraries
            if report.document.is_unparsed:
                session.say(f"{report.path} is not checked: Python cannot parse it; run ds-lint check to see why")
            elif report.document.is_of_names or _can_be_read(report):
                linted.append((report, context))
            else:
                unreadable.append(Complaint(report.path, "cannot be parsed; run ds-lint check to see why"))
        locate(unreadable, session)
    except WRONG_USAGE as error:
        return complain(error)
    steps = dict.fromkeys(
        f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}"
        for choice in session.choices.values()
        for library in ends
    )
    only = (f"only changes are reported: {', '.join(steps)}",) if steps else ()
    return finish(options, linted, session.notes, unreadable, can_fix=False, about_report=only)


def _can_be_read(report: FileReport) -> bool:
    """Whether one of the stacks that may load a text makes a config of it, now or once its placeholders are filled in.

    Of a text that none of them reads, no release does anything, and so nothing changes.
    """
    document = report.document
    if any(issue.kind == "template" for issue in document.issues):
        return True
    return any(
        hjson_refusal(document) is None if stack == "deepspeed" else not json_refuses(document)
        for stack in report.stacks
    )
