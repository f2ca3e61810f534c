"""``ds-lint upgrade``: what changes for configs from one release to another."""

from __future__ import annotations

from ds_lint.commands.documents import linted_documents
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import finish
from ds_lint.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.session.options import Options
    from ds_lint.targets.pin import Library


def upgrade(options: Options, ends: dict[Library, tuple[str, str | None]]) -> int:
    """Print what is new with the newer releases, and return the exit status; ``ends`` are from and to by library."""
    unreadable: list[str] = []
    try:
        session = Session(options, ends)
        linted = linted_documents(options, session, unreadable)
    except WRONG_USAGE as error:
        return complain(error)
    steps = dict.fromkeys(
        f"{library} {' to '.join(choice.ranges.get(library, choice.releases[library]))}"
        for choice in session.choices.values()
        for library in ends
    )
    only = [f"only what changes is reported: {', '.join(steps)}"] if steps else []
    return finish(options, linted, [*session.notes, *only], unreadable, can_fix=False)
