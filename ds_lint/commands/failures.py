"""Messages about a command line, a setting or a file that cannot be used."""

from __future__ import annotations

import sys

from ds_lint.diagnostics.report import Complaint
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.linter.choice import UnknownRelease
from ds_lint.output.harmless import complaint, without_secrets
from ds_lint.settings.record import SettingsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Result = TypeVar("Result")

WRONG_USAGE = (UnknownRelease, UnreadableFact, SettingsError)  # a message is enough


def unless_it_fails(work: Callable[[], Result], path: str, unreadable: list[Complaint]) -> Result | None:
    """The result of work on a file; None if ds-lint itself fails on it, which does not stop it from the other files."""
    try:
        return work()
    except (*WRONG_USAGE, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        from traceback import format_exc

        sys.stderr.write(without_secrets(format_exc()))
        unreadable.append(Complaint(path, f"internal error ({type(error).__name__}); please report it with this file"))
        return None


def complain(error: Exception | str) -> int:
    """Print what is wrong with the command line or the settings; return the exit status for it."""
    for line in [error] if isinstance(error, str) else str(error).splitlines():
        sys.stderr.write(complaint(line))
    return 2


def list_unreadable(unreadable: list[Complaint]) -> None:
    """Print what could not be read or written."""
    for each in unreadable:
        sys.stderr.write(complaint(str(each)))
