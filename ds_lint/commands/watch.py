"""``ds-lint check --watch``: check again when a file changes that the result depends on.

The files are looked at in intervals. An interval is long enough that looking takes about a hundredth of one processor,
however many files there are.
"""

from __future__ import annotations

import gc
import os
import sys
import time

from ds_lint.commands.check import check
from ds_lint.commands.conflicts import WATCHED_IN
from ds_lint.commands.documents import documents
from ds_lint.commands.failures import WRONG_USAGE
from ds_lint.output.terminal import understands_escapes
from ds_lint.project.discovery import candidates
from ds_lint.session.inputs import inputs, inputs_of, settings_above, stamps
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.targets.directories import up_to_root
from ds_lint.targets.files import by_standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.session.inputs import Stamps

_SHORTEST = 0.3  # seconds between two looks
_REST = 80  # times as long as a look took
_SETTLED = 0.05  # seconds without a further change: a program that saves a file empties it first
_CLEARED = "\x1b[2J\x1b[3J\x1b[H"  # the screen, what scrolled out of it, and the cursor at the top


def watch(options: Options) -> int:
    """Check, and check again after each change, until Ctrl-C."""
    gc.enable()  # unlike a run that ends after one check
    while True:
        watched = _watched(options)  # before anything is read: what changes meanwhile is checked again
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and understands_escapes(sys.stdout):
            sys.stdout.write(_CLEARED)
        check(options, formats=WATCHED_IN)
        sys.stdout.flush()
        sys.stderr.write("Watching for changes; press Ctrl-C to stop.\n")
        sys.stderr.flush()
        watched.wait()


class _Watched:
    """The files that a result depends on, as they were when the check began."""

    def __init__(self, options: Options, session: Session) -> None:
        self._options = options
        self._session = session
        self._read: set[str] = set()
        self._folders: set[str] = set()  # in which files may appear that say something about releases
        self._searched = {path if os.path.isdir(path) else os.path.dirname(path) for path in options.paths}
        self._stamps = self._look()  # of the configs, before they are opened
        self._read.update(settings_above(self._searched))  # they may exclude all that a folder has
        for directory in {os.path.dirname(document.path) for _, document in documents(options, session, [])}:
            context = session.context(os.path.join(directory, "any.json"))
            self._read.update(inputs(directory, context))
            self._folders.update(here for here, _ in up_to_root(directory))
            if context.baseline is not None:
                self._read.add(context.baseline)
        self._read.update(inputs_of(options.sources))
        self._read.update(filter(None, (options.settings, *options.config_options)))
        self._read -= self._folders  # much may change in them that says nothing
        self._stamps = self._look() | self._stamps

    def add(self, paths: Iterable[str]) -> None:
        """Watch these files too."""
        self._read.update(paths)
        self._stamps = self._look() | self._stamps

    def wait(self) -> None:
        """Return when a file has changed, appeared or been deleted, and is not being written any more."""
        while True:
            begun = time.process_time()
            found = self._look()
            if found != self._stamps:
                break
            time.sleep(max(_SHORTEST, _REST * (time.process_time() - begun)))
        before = None
        while found != before:
            time.sleep(_SETTLED)
            before, found = found, self._look()

    def _look(self) -> Stamps:
        return stamps({*self._configs(), *self._read, *self._about_releases()})

    def _configs(self) -> Iterator[str]:
        """What may be a config: each file that is named, and what a search finds."""
        for path in self._options.paths:
            if os.path.isdir(path):
                yield from candidates(
                    path,
                    lambda _error: None,
                    leaves_out=self._leaves_out,
                    respects_gitignore=self._session.respects_gitignore(path),
                    included=self._session.included,
                )
            else:
                yield path

    def _leaves_out(self, path: str, is_folder: bool) -> bool:
        self._searched.add(os.path.dirname(path))
        return self._session.leaves_out(path, is_folder)

    def _about_releases(self) -> Iterator[str]:
        for folder in self._folders:
            try:
                names = os.listdir(folder)
            except OSError:
                continue
            for paths in by_standing(folder, names):
                yield from paths


def _watched(options: Options) -> _Watched:
    """What to watch; if settings cannot be used, what would be checked without any, and the settings near it."""
    try:
        return _Watched(options, Session(options, on_error=lambda _error: None))
    except WRONG_USAGE as error:
        watched = _Watched(options, Session(Options([], isolated=True)))
        watched.add(getattr(error, "files", ()))
        return watched
