"""What the configs of a folder are linted with, read again when one of its settings files has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.linter.choice import UnknownRelease
from ds_lint.linter.selection import UnknownRule
from ds_lint.session.inputs import inputs, stamp, stamps
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.settings.record import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.session.context import LintContext
    from ds_lint.session.inputs import Stamps

UNUSABLE = (SettingsError, UnreadableFact, UnknownRelease, UnknownRule, OSError)  # a message is enough


class Project:
    """The settings, options and releases for the configs of one folder.

    Where the settings cannot be read, ``complain`` hears why, once, and the last that could be read go on to count.
    """

    def __init__(self, directory: str, options: Options, complain: Callable[[str], None]) -> None:
        self._directory = directory
        self._options = options
        self._complain = complain
        self._session: Session | None = None
        self._stamps: Stamps = {}
        self._last_complaint = ""

    def session(self, *, reload: bool = False) -> Session:
        """What is wanted of the configs here; ``reload`` asks all files again, whatever their times say."""
        if self._session is None or reload or any(stamp(path) != known for path, known in self._stamps.items()):
            self._session = self._read()
        return self._session

    def context(self, path: str, *, reload: bool = False) -> LintContext:
        """On what terms a config is linted."""
        try:
            return self.session(reload=reload).context(path)
        except UNUSABLE as error:  # of the settings of this config alone
            self._complain_once(str(error))
            return Session(Options([], isolated=True)).context(path)

    def _read(self) -> Session:
        """The session as the files have it now; where they cannot be read the last ones, or what can be of them."""
        place = os.path.join(self._directory, "any.json")
        before = stamps([*self._stamps, *inputs(self._directory, None)])  # what changes meanwhile is read again
        complaint = ""
        extended: tuple[str, ...] = ()  # by settings that cannot be used
        for options in (self._options, Options([]), Options([], isolated=True)):
            try:
                session = Session(options)
                context = session.context(place)
            except UNUSABLE as error:
                complaint = complaint or str(error)
                extended += getattr(error, "files", ())
            else:
                found = (*inputs(self._directory, context), *extended)
                self._stamps = {path: before[path] if path in before else stamp(path) for path in found}
                self._complain_once(complaint)
                return session
            if self._session is not None:
                break
        self._stamps = before | {path: stamp(path) for path in extended}
        self._complain_once(complaint)
        return self._session or Session(Options([], isolated=True))

    def _complain_once(self, complaint: str) -> None:
        if complaint and complaint != self._last_complaint:
            self._complain(complaint)
        self._last_complaint = complaint


class Projects:
    """What the configs of every folder are linted with; ``complain`` hears what of it cannot be read."""

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._options = Options([])
        self._by_folder: dict[str, Project] = {}

    def configure(self, options: Options) -> None:
        """Lint by other options from now on."""
        self._options = options
        self._by_folder.clear()

    def context(self, path: str, *, reload: bool = False) -> LintContext:
        """On what terms a config is linted."""
        return self._of(path).context(path, reload=reload)

    def session(self, path: str) -> Session:
        """What is wanted of the configs in the folder of a path."""
        return self._of(path).session()

    def excludes(self, path: str) -> bool:
        """Whether the settings leave a file out."""
        return self._of(path).session().excludes(path)

    def _of(self, path: str) -> Project:
        directory = os.path.dirname(path)
        if directory not in self._by_folder:
            self._by_folder[directory] = Project(directory, self._options, self._complain)
        return self._by_folder[directory]
