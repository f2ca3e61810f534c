"""``ds-lint check``: lint configs and report."""

from __future__ import annotations

from ds_lint.commands.documents import complaints_into, linted_documents, locate
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import finish
from ds_lint.output import FORMATS
from ds_lint.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ds_lint.commands.smoke_launches import LaunchRuns
    from ds_lint.commands.training_runs import Smoke
    from ds_lint.diagnostics.report import Complaint
    from ds_lint.session.options import Options


def check(
    options: Options,
    smoke: Smoke | None = None,
    launches: LaunchRuns | None = None,
    *,
    formats: Collection[str] = tuple(FORMATS),
) -> int:
    """Lint, apply fixes, train or suppress as the options demand, print, and return the exit status.

    ``formats`` are those that the settings may choose.
    """
    unreadable: list[Complaint] = []
    try:
        session = Session(options, on_error=complaints_into(unreadable))
        if options.fix or options.diff:
            from ds_lint.commands import fixes

            if options.diff:
                return fixes.diff(options, session, unreadable)
            linted = fixes.fix(options, session, unreadable)
        else:
            linted = linted_documents(options, session, unreadable)
        if smoke is not None:
            from ds_lint.commands import training_runs

            unreadable += training_runs.prove_all(linted, smoke)
        if launches is not None:
            from ds_lint.commands import smoke_launches

            smoke_launches.prove_launches(options, session, linted, launches, unreadable)
        notes = session.notes
        if not unreadable and all(report.document.is_of_names or report.document.is_of_fsdp for report, _ in linted):
            from ds_lint.commands import undecided  # the configs of scripts that compute them

            notes += undecided.notes(options, session)
        if any(context.baseline is not None for _, context in linted):
            from ds_lint.commands import baselines  # few runs have one

            notes += baselines.suppress(linted, is_written=options.write_baseline)
        if options.add_ignore:
            from ds_lint.commands import ignores

            return ignores.add(options, linted, notes, unreadable)
        if options.fix_only:
            from ds_lint.commands import fixes

            return fixes.finish(options, [report for report, _ in linted], notes, unreadable)
        locate(unreadable, session)
        of_settings = session.output_format
    except WRONG_USAGE as error:
        return complain(error)
    return finish(options, linted, notes, unreadable, of_settings=of_settings if of_settings in formats else None)
