"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

import sys

from ds_lint import linting
from ds_lint.choice import UnknownRelease, between
from ds_lint.commands.check import documents, finish
from ds_lint.ranges import upgraded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.choice import Choice
    from ds_lint.commands.check import Options
    from ds_lint.knowledge import Target
    from ds_lint.output.report import FileReport
    from ds_lint.rule import Rule
    from ds_lint.source.document import Document


def upgrade(options: Options, ends: dict[str, tuple[str, str | None]]) -> int:
    """Print what is new with the newer releases, and return the exit status; ``ends`` are from and to by library."""
    rules = None
    if options.select or options.ignore:
        from ds_lint.commands.selection import select

        rules = select(options.select, options.ignore)
    try:
        choice = between(ends)
    except UnknownRelease as error:
        sys.stderr.write(f"ds-lint: {error}\n")
        return 2
    unreadable: list[str] = []
    reports = [_changes(document, options, rules, choice) for document in documents(options, unreadable)]
    steps = (f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}" for library in ends)
    notes = [*choice.notes, f"only what changes is reported: {', '.join(steps)}"]
    return finish(options, reports, notes, unreadable)


def _changes(document: Document, options: Options, rules: list[Rule] | None, choice: Choice) -> FileReport:
    def judge(target: Target, before: Target | None = None) -> FileReport:
        return linting.lint_document(
            document,
            target=target,
            stack=options.stack,
            world_size=options.world_size,
            rules=rules,
            before=before,
            is_upgrade=True,
        )

    report = upgraded(choice, judge)
    report.sources, report.ranges = choice.origins, choice.ranges
    return report
