"""Which file of settings counts for a config: the nearest above it, else the user's own."""

from __future__ import annotations

import os

from ds_lint.settings.record import NO_SETTINGS, OWN_TABLE, SHARED, SettingsError
from ds_lint.source.files import NotReadError, bytes_of
from ds_lint.targets.directories import with_parents
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.settings.record import Layer, Settings

# What is easily mistaken for the name of our table.
_MISTAKEN = ("dslint", "ds_lint", "deepspeed-lint", "deepspeed_lint")
NAMES = ("ds-lint.toml", SHARED)  # in the order in which they count


class Nearest:
    """The settings nearest to each config; every folder is looked at once.

    ``named`` is the one file that counts for all of them, with the folder that its paths are relative to if it is not
    its own, and ``is_isolated`` says that none does. ``given`` is what the command line gives, which counts over all
    files. ``on_error`` hears of a file that cannot be opened, which then says nothing; without it the error is raised.
    """

    __slots__ = ("_by_directory", "_for_all", "_given", "_of_user", "_on_error", "none", "notes")

    def __init__(
        self,
        named: str | None = None,
        directory: str | None = None,
        *,
        is_isolated: bool = False,
        given: Sequence[Layer] = (),
        on_error: Callable[[OSError], None] | None = None,
    ) -> None:
        self.notes: list[str] = []  # on tables that are never read
        self._on_error = on_error
        self._by_directory: dict[str, Settings] = {}
        self._given = given
        self.none = NO_SETTINGS.below(given)
        self._of_user: Settings | None = None
        self._for_all: Settings | None = None
        if is_isolated:
            self._for_all = self.none
        elif named is not None:
            self._for_all = _named(named, directory).below(given)

    def to(self, directory: str) -> Settings:
        """The settings that count in a folder. Raises OSError and SettingsError."""
        if self._for_all is not None:
            return self._for_all
        if directory not in self._by_directory:
            self._by_directory[directory] = self._above(directory)
        return self._by_directory[directory]

    def _above(self, directory: str) -> Settings:
        try:
            folders = with_parents(os.path.abspath(directory))
        except OSError:  # the working directory was deleted
            return self.none
        looked_at: list[str] = []
        found: Settings | None = None
        for folder in folders:
            if folder in self._by_directory:
                found = self._by_directory[folder]
                break
            looked_at.append(folder)
            self.notes += _mistaken(folder)
            if (here := self._in(folder)) is not None:
                found = here
                break
        if found is None:
            found = self._user()
        self._by_directory.update(dict.fromkeys(looked_at, found))
        return found

    def _in(self, folder: str) -> Settings | None:
        """The settings that a folder has itself."""
        for name in NAMES:
            if (found := self._at(os.path.join(folder, name))) is not None:
                return found
        return None

    def _user(self) -> Settings:
        """What counts where no project has settings: the user's own, whose paths are relative to where they work."""
        if self._of_user is None:
            path = user_file()
            self._of_user = (self._at(path, "") if path else None) or self.none
        return self._of_user

    def _at(self, path: str, directory: str | None = None) -> Settings | None:
        try:
            found = _read(path, directory) if os.path.isfile(path) else None
        except OSError as error:
            if self._on_error is None:
                raise
            self._on_error(error)
            return None
        return None if found is None else found.below(self._given)


def user_file() -> str | None:
    """Where the settings of the user are, if there are any; None on a system that does not say."""
    if os.name == "nt":
        folder = os.environ.get("APPDATA", "")
    else:
        folder = os.environ.get("XDG_CONFIG_HOME", "")
        if not os.path.isabs(folder):  # which the standard wants to be ignored
            folder = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(folder, "ds-lint", NAMES[0]) if os.path.isabs(folder) else None


def _mistaken(folder: str) -> list[str]:
    """A note on each table of a ``pyproject.toml`` that was meant for us and has another name."""
    path = os.path.join(folder, SHARED)
    if not os.path.isfile(path):
        return []
    try:
        data = bytes_of(path)
    except OSError:  # reported where the settings are read
        return []
    return [
        f"{shown(path)}: [tool.{name}] is not read; write [tool.{OWN_TABLE}]"
        for name in _MISTAKEN
        if f"[tool.{name}]".encode() in data
    ]


def _read(path: str, directory: str | None = None) -> Settings | None:
    """The settings in a file; None for a ``pyproject.toml`` that has none of ours."""
    try:
        data = bytes_of(path)
    except NotReadError as error:
        raise SettingsError(f"{shown(path)}: {error.strerror}") from None
    if os.path.basename(path) == SHARED and OWN_TABLE.encode() not in data:
        return None
    from ds_lint.settings import reader  # few projects have any

    return reader.parse(data, path, directory)


def _named(path: str, directory: str | None) -> Settings:
    """The settings in the file of ``--settings`` or ``--config``."""
    settings = _read(path, directory)
    if settings is None:
        raise SettingsError(f"{shown(path)}: it has no [tool.{OWN_TABLE}] table")
    return settings
