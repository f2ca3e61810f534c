"""Progress of training runs on a terminal: one line for each config with its phase and its seconds."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from ds_lint.output.smoke import phase_in_words
from ds_lint.output.text import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TextIO

    from rich.progress import Progress

    OnPhase = Callable[[str, str], None]


class Show(Protocol):
    """What displays the runs."""

    def config(self, path: str) -> OnPhase:
        """The run of this config begins; returns what to call with its parts and phases."""

    def done(self, outcome: str) -> None:
        """The run is over."""


@contextlib.contextmanager
def shown(
    count: int,
    stream: TextIO | None = None,
    environment: Mapping[str, str] = os.environ,
    *,
    quiet: bool = False,
) -> Iterator[Show]:
    """Show the progress of so many runs on a terminal; in a pipe, a file or CI, or if ``quiet``, write nothing."""
    stream = stream or sys.stderr
    if quiet or not _is_looked_at(stream, environment):
        yield _Nothing()
        return
    try:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn
    except ImportError:
        stream.write(f"ds-lint: training with {'a config' if count == 1 else f'{count:,} configs'}\n")
        stream.flush()
        yield _Nothing()
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TextColumn("{task.elapsed:.1f} s"))
    # Lines of others go where they would: stdout may be a report that another program reads.
    with Progress(
        *columns, console=Console(file=stream), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:
        yield _Lines(bars, count)


def _is_looked_at(stream: TextIO, environment: Mapping[str, str]) -> bool:
    try:
        return stream.isatty() and not environment.get("CI") and environment.get("TERM") != "dumb"
    except ValueError:  # closed
        return False


class _Nothing:
    """Displays nothing."""

    def config(self, _path: str) -> OnPhase:
        return lambda _part, _phase: None

    def done(self, _outcome: str) -> None:
        pass


class _Lines:
    """The current run at the bottom, the finished ones above it."""

    def __init__(self, bars: Progress, count: int) -> None:
        self._bars = bars
        self._count = count
        self._number = 0
        self._path = ""
        self._began = time.monotonic()
        self._line = bars.add_task("importing the libraries")

    def config(self, path: str) -> OnPhase:
        self._number += 1
        self._path = visible(path)
        self._began = time.monotonic()
        self._bars.remove_task(self._line)
        self._line = self._bars.add_task(self._path)
        place = f" ({self._number:,} of {self._count:,})" if self._count > 1 else ""

        def enter(part: str, phase: str) -> None:
            self._bars.update(self._line, description=f"{self._path}{place}  {phase_in_words(part, phase)}")

        return enter

    def done(self, outcome: str) -> None:
        seconds = time.monotonic() - self._began
        self._bars.console.print(
            f"{self._path}  {outcome}  {seconds:.1f} s", markup=False, highlight=False, emoji=False, soft_wrap=True
        )
