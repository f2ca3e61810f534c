"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

import sys

from ds_lint.choice import UnknownRelease, between
from ds_lint.commands.check import choice_for, chosen_rules, documents, finish, known_facts, notes
from ds_lint.facts import UnreadableFact
from ds_lint.judging import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.choice import Choice
    from ds_lint.commands.check import Options


def upgrade(options: Options, ends: dict[str, tuple[str, str | None]]) -> int:
    """Print what is new with the newer releases, and return the exit status; ``ends`` are from and to by library."""
    rules = chosen_rules(options)
    choices: dict[str, Choice] = {}
    unreadable: list[str] = []
    try:
        facts = known_facts(options)
        between("", ends)  # a release that there is not is wrong usage, whatever files there are
        reports = [
            judge(
                document,
                choice_for(document, choices, lambda directory: between(directory, ends)),
                stack=options.stack,
                facts=facts,
                rules=rules,
                is_upgrade=True,
            )
            for document in documents(options, unreadable)
        ]
    except (UnknownRelease, UnreadableFact) as error:
        sys.stderr.write(f"ds-lint: {error}\n")
        return 2
    steps = dict.fromkeys(
        f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}"
        for choice in choices.values()
        for library in ends
    )
    only = [f"only what changes is reported: {', '.join(steps)}"] if steps else []
    return finish(options, reports, [*notes(options, choices, facts), *only], unreadable)
