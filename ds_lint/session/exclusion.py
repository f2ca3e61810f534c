"""What a search looks at and leaves out: by patterns of the command line and of the settings, or the usual ones."""

from __future__ import annotations

import os

from ds_lint.project.discovery import ENDINGS, EXCLUDED
from ds_lint.project.globs import glob, relative, with_folders
from ds_lint.source.languages import DOCUMENTATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.project.globs import Glob
    from ds_lint.session.options import Options
    from ds_lint.settings.record import Settings


class Exclusion:
    """The patterns for what lies below a file of settings, each with the folder where it starts."""

    __slots__ = ("_by_folder", "_of_names")

    def __init__(self, patterns: Iterable[tuple[str, str]]) -> None:
        self._by_folder: dict[str, list[Glob]] = {}
        for folder, pattern in patterns:
            self._by_folder.setdefault(folder, []).append(glob(pattern))
        self._of_names = all(one.is_of_names for patterns in self._by_folder.values() for one in patterns)

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a pattern means exactly this path, and not only a folder above it."""
        for folder, patterns in self._by_folder.items():
            place = os.path.basename(path) if self._of_names else relative(path, folder)  # which is slow
            if any(pattern.means(place, is_folder=is_folder) for pattern in patterns):
                return True
        return False

    def covers(self, path: str, *, is_folder: bool) -> bool:
        """Whether a pattern means this path or a folder above it."""
        for folder, patterns in self._by_folder.items():
            place = relative(path, folder)
            for part in with_folders(place):
                if any(pattern.means(part, is_folder=is_folder or part != place) for pattern in patterns):
                    return True
        return False


def exclusion_by(options: Options, settings: Settings) -> Exclusion:
    """What is excluded below a file of settings; patterns of the command line start at the working directory."""
    here = [("", pattern) for pattern in (*(options.exclude or ()), *options.extend_exclude)]
    usual = [(settings.directory, pattern) for pattern in EXCLUDED] if settings.exclude is None else settings.exclude
    return Exclusion([*here, *(usual if options.exclude is None else ()), *settings.extend_exclude])


def exclusion_written(settings: Settings) -> Exclusion:
    """What the settings exclude by patterns that are written there."""
    return Exclusion([*(settings.exclude or ()), *settings.extend_exclude])


class Inclusion:
    """The files below a file of settings that a search looks at: by the ends of names, and by patterns."""

    __slots__ = ("_endings", "_matched")

    def __init__(self, endings: tuple[str, ...], patterns: list[tuple[str, str]]) -> None:
        self._endings = endings
        self._matched = Exclusion(patterns) if patterns else None

    def among(self, names: list[str], folder: str) -> list[str]:
        """The names in a folder that a search looks at."""
        if self._matched is None:
            return [name for name in names if name.endswith(self._endings)]
        return [
            name
            for name in names
            if name.endswith(self._endings) or self._matched.covers(os.path.join(folder, name), is_folder=False)
        ]


def inclusion_by(options: Options, settings: Settings) -> Inclusion:
    """What is looked at below a file of settings; patterns of the command line start at the working directory."""
    chosen = settings.include if options.include is None else [("", pattern) for pattern in options.include]
    more = [*settings.extend_include, *(("", pattern) for pattern in options.extend_include)]
    wants_markdown = settings.include_markdown if options.include_markdown is None else options.include_markdown
    endings = (*(ENDINGS if chosen is None else ()), *(DOCUMENTATION if wants_markdown else ()))
    return Inclusion(endings, [*(chosen or ()), *more])
