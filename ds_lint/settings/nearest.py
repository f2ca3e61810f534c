"""Which file of settings counts for a config: the nearest above it."""

from __future__ import annotations

import os

from ds_lint.settings.record import NO_SETTINGS, OWN_TABLE, SHARED, SettingsError
from ds_lint.source.files import NotReadError, bytes_of
from ds_lint.targets.directories import with_parents
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.settings.record import Settings

# What is easily mistaken for the name of our table.
_MISTAKEN = ("dslint", "ds_lint", "deepspeed-lint", "deepspeed_lint")
NAMES = ("ds-lint.toml", SHARED)  # in the order in which they count


class Nearest:
    """The settings nearest to each config; every folder is looked at once.

    ``named`` is the one file that counts for all of them, and ``is_isolated`` says that none does. ``on_error`` hears
    of a file that cannot be opened, which then says nothing; without it the error is raised.
    """

    __slots__ = ("_by_directory", "_for_all", "_on_error", "notes")

    def __init__(
        self,
        named: str | None = None,
        *,
        is_isolated: bool = False,
        on_error: Callable[[OSError], None] | None = None,
    ) -> None:
        self.notes: list[str] = []  # on tables that are never read
        self._on_error = on_error
        self._by_directory: dict[str, Settings] = {}
        self._for_all = NO_SETTINGS if is_isolated else _named(named) if named is not None else None

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
            return NO_SETTINGS
        looked_at: list[str] = []
        found = NO_SETTINGS
        for folder in folders:
            if folder in self._by_directory:
                found = self._by_directory[folder]
                break
            looked_at.append(folder)
            self.notes += _mistaken(folder)
            if (here := self._in(folder)) is not None:
                found = here
                break
        self._by_directory.update(dict.fromkeys(looked_at, found))
        return found

    def _in(self, folder: str) -> Settings | None:
        """The settings that a folder has itself."""
        for name in NAMES:
            path = os.path.join(folder, name)
            try:
                if os.path.isfile(path) and (settings := _read(path)) is not None:
                    return settings
            except OSError as error:
                if self._on_error is None:
                    raise
                self._on_error(error)
        return None


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


def _read(path: str) -> Settings | None:
    """The settings in a file; None for a ``pyproject.toml`` that has none of ours."""
    try:
        data = bytes_of(path)
    except NotReadError as error:
        raise SettingsError(f"{shown(path)}: {error.strerror}") from None
    if os.path.basename(path) == SHARED and OWN_TABLE.encode() not in data:
        return None
    from ds_lint.settings import reader  # few projects have any

    return reader.parse(data, path)


def _named(path: str) -> Settings:
    """The settings in the file of ``--settings``."""
    settings = _read(path)
    if settings is None:
        raise SettingsError(f"{shown(path)}: it has no [tool.{OWN_TABLE}] table")
    return settings
