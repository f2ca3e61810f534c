"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

from ds_lint.commands.documents import complaints_into, linted_documents, locate
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import finish
from ds_lint.diagnostics.report import Complaint
from ds_lint.knowledge.advisories import advisories
from ds_lint.knowledge.advisory_words import in_prose
from ds_lint.session.release_defects import defects
from ds_lint.session.session import Session
from ds_lint.source.dialect import hjson_refusal, json_refuses
from ds_lint.targets.releases import numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.session.release_defects import Defects
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
        of_settings = session.output_format
    except WRONG_USAGE as error:
        return complain(error)
    steps = dict.fromkeys(
        f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}"
        for choice in session.choices.values()
        for library in ends
    )
    about = () if options.quiet else tuple(_about_defects(linted, session, ends))
    only = (f"only changes are reported: {', '.join(steps)}",) if steps else ()
    return finish(
        options,
        linted,
        session.notes,
        unreadable,
        can_fix=False,
        about_report=(*only, *about),
        of_settings=of_settings,
    )


def _about_defects(
    linted: list[tuple[FileReport, LintContext]], session: Session, ends: Mapping[Library, object]
) -> Iterator[str]:
    """Which known defects the newer release fixes, brings and keeps, and which release has the fewest."""
    configs = [(report.document, context) for report, context in linted if not report.document.is_of_names]
    for library in ends if configs else ():
        first = min((getattr(choice.oldest, library) for choice in session.choices.values()), key=_numbers_of)
        last = max((getattr(choice.newest, library) for choice in session.choices.values()), key=_numbers_of)
        found = defects(library, first, configs)
        before, after = set(found.certain[first]), set(found.certain[last])
        possible = set(found.possible[last]) - set(found.possible[first])
        name = in_prose(library)
        if fixed := sorted(before - after):
            yield f"fixed in {name} {last}: {_named(fixed)}"
        if new := sorted(after - before):
            yield f"new in {name} {last}: {_named(new)}"
        if kept := sorted(before & after):
            yield f"still in {name} {last}: {_named(kept)}"
        if possible:
            yield f"possible in {name} {last}, as a fact is not known: {', '.join(sorted(possible))}"
        best = found.least()
        if found.certain[best] or found.possible[best]:
            yield f"{name} {best} has the fewest known defects that these configs reach: {_numbers(found, best)}"
        elif before or after or found.possible[first] or found.possible[last]:
            yield f"these configs reach no known defect of {name} {best}"


def _numbers_of(release: str) -> tuple[int, ...]:
    return numbers_of(release) or ()


def _named(ids: list[str]) -> str:
    known = advisories()
    return "; ".join(f"{one} ({known[one]['summary']})" for one in ids)


def _numbers(found: Defects, release: str) -> str:
    certain, possible = len(found.certain[release]), len(found.possible[release])
    return f"{certain} certain, {possible} possible" if certain and possible else f"{certain or f'{possible} possible'}"


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
