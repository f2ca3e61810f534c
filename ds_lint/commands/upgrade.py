"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

from ds_lint.choice import UnknownRelease, between
from ds_lint.commands.check import choice_for, complain, documents, finish, notes
from ds_lint.commands.wishes import Wishes
from ds_lint.facts import UnreadableFact
from ds_lint.judging import judge
from ds_lint.settings.record import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.choice import Choice
    from ds_lint.commands.check import Options
    from ds_lint.commands.wishes import Terms
    from ds_lint.output.report import FileReport


def upgrade(options: Options, ends: dict[str, tuple[str, str | None]]) -> int:
    """Print what is new with the newer releases, and return the exit status; ``ends`` are from and to by library."""
    choices: dict[str, Choice] = {}
    unreadable: list[str] = []
    judged: list[tuple[FileReport, Terms]] = []
    try:
        between("", ends)  # a release that there is not is wrong usage, whatever files there are
        wishes = Wishes(options)
        for document in documents(options, wishes, unreadable):
            terms = wishes.terms(document.path)
            report = judge(
                document,
                choice_for(document, choices, lambda directory: wishes.choice_between(directory, ends)),
                stack=terms.stack,
                facts=terms.facts,
                rules=terms.rules,
                severities=terms.severities,
                policies=terms.policies,
                is_upgrade=True,
            )
            judged.append((report, terms))
    except (UnknownRelease, UnreadableFact, SettingsError) as error:
        return complain(error)
    steps = dict.fromkeys(
        f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}"
        for choice in choices.values()
        for library in ends
    )
    only = [f"only what changes is reported: {', '.join(steps)}"] if steps else []
    return finish(options, judged, [*notes(options, choices), *wishes.notes, *only], unreadable)
