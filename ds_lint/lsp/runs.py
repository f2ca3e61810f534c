"""Runs that people start in the editor: one at a time, beside the loop that answers.

What came of a run is shown until the text changes that it was made with.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from uuid import uuid4

from lsprotocol import types
from pygls.exceptions import JsonRpcException

if TYPE_CHECKING:
    from collections.abc import Callable

    from pygls.progress import Progress

    from ds_lint.diagnostics.verdict import Verdict

    OnPhase = Callable[[str], None]

CONFIG, LAUNCH = "config", "launch"


class Subject(NamedTuple):
    """What is run: a config of a text, by its index there, or a launch, by its line from 0."""

    kind: str
    uri: str
    place: int


class RunAnswer(NamedTuple):
    """What came of a run: in one sentence, and as verdicts; ``error`` says why there are none."""

    headline: str
    verdicts: list[Verdict] = []  # noqa: RUF012 - a NamedTuple's default
    error: str = ""
    findings: list[dict[str, Any]] = []  # noqa: RUF012 - of a launch, as the report for programs has them
    logs: list[str] = []  # noqa: RUF012 - files with the output of the libraries


class Work(Protocol):
    """What a run does."""

    @property
    def do(self) -> Callable[[OnPhase], RunAnswer]:
        """Does it, in the thread of the runs; what it is given hears of each phase."""

    @property
    def cancel(self) -> Callable[[], None]:
        """Ends it soon; any thread may call it."""


class RunListener(Protocol):
    """Who hears of runs, on the loop."""

    def run_changed(self, run: Run) -> None:
        """A run begins, ends, or is forgotten."""

    def report_server_error(self, error: BaseException, source: type[BaseException]) -> None:
        """A run ended by a bug of ds-lint."""


class Run:
    """One run, from the click on."""

    def __init__(self, subject: Subject, title: str, work: Work) -> None:
        self.subject = subject
        self.title = title
        self.work = work
        self.answer: RunAnswer | None = None  # once it has ended by itself
        self.is_cancelled = False
        self.is_running = False  # in the thread of the runs
        self.token: str | None = None  # of its progress in the client

    @property
    def is_active(self) -> bool:
        """Whether it waits or runs."""
        return self.answer is None and not self.is_cancelled


class RunQueue:
    """All runs: the one that is made, those that wait, and the newest of each subject that has ended."""

    def __init__(
        self, listener: RunListener, progress: Callable[[], Progress | None], at_rest: Callable[[], None]
    ) -> None:
        self._listener = listener
        self._progress = progress  # of a client that shows some
        self._at_rest = at_rest  # is called in the thread of the runs after ``idle`` seconds without one
        self.idle = 300.0
        self._by_subject: dict[Subject, Run] = {}
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._resting: asyncio.TimerHandle | None = None
        self._progress_tasks: set[asyncio.Task[None]] = set()

    def get(self, subject: Subject) -> Run | None:
        """The newest run of a subject that is not forgotten."""
        return self._by_subject.get(subject)

    def of(self, uri: str) -> list[Run]:
        """The newest runs of a text."""
        return [run for subject, run in self._by_subject.items() if subject.uri == uri]

    def start(self, subject: Subject, title: str, work: Work) -> None:
        """Run a subject when it is its turn; one that is active goes on."""
        known = self._by_subject.get(subject)
        if known is not None and known.is_active:
            return
        run = self._by_subject[subject] = Run(subject, title, work)
        self._stop_resting()
        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, self._do, run, loop).add_done_callback(partial(self._done, run))
        if (progress := self._progress()) is not None:
            task = loop.create_task(self._show(run, progress))
            self._progress_tasks.add(task)
            task.add_done_callback(self._progress_tasks.discard)
        self._listener.run_changed(run)

    def cancel(self, subject: Subject) -> None:
        """End a run, or do not begin it; what came of an earlier one is forgotten, too."""
        run = self._by_subject.pop(subject, None)
        if run is None:
            return
        if run.is_active:
            self._stop(run)
            self._end_progress(run)
        self._listener.run_changed(run)

    def cancel_all(self, uri: str) -> None:
        """The same for all of a text."""
        for subject in [one for one in self._by_subject if one.uri == uri]:
            self.cancel(subject)

    def close(self) -> None:
        """Cancel everything, and wait until nothing runs; the loop has ended."""
        for run in self._by_subject.values():
            if run.is_active:
                self._stop(run)
        self._thread.submit(self._at_rest)
        self._thread.shutdown(wait=True)

    def _stop(self, run: Run) -> None:
        run.is_cancelled = True
        if run.is_running:
            run.work.cancel()

    def _do(self, run: Run, loop: asyncio.AbstractEventLoop) -> RunAnswer | None:
        """Make a run, in the thread of the runs."""
        if run.is_cancelled:
            return None
        run.is_running = True
        try:
            return run.work.do(lambda phase: _on_loop(loop, partial(self._enter, run, phase)))
        finally:
            run.is_running = False

    def _done(self, run: Run, future: asyncio.Future[RunAnswer | None]) -> None:
        error = future.exception()
        if error is not None:
            self._listener.report_server_error(error, type(error))
        if run.is_active:
            self._end_progress(run)
            answer = future.result() if error is None else None
            run.answer = answer or RunAnswer(f"could not run: an internal error ({error})", error=str(error))
            self._listener.run_changed(run)
        self._rest()

    def _rest(self) -> None:
        """Be at rest soon, unless a run begins."""
        self._stop_resting()
        if not any(run.is_active for run in self._by_subject.values()):
            self._resting = asyncio.get_running_loop().call_later(self.idle, self._thread.submit, self._at_rest)

    def _stop_resting(self) -> None:
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None

    async def _show(self, run: Run, progress: Progress) -> None:
        """Show the progress of a run in the client, which may cancel it there."""
        token = f"ds-lint-{uuid4()}"
        try:
            await progress.create_async(token)
        except JsonRpcException:
            return  # the client declines
        if run.is_active:
            progress.tokens[token].add_done_callback(lambda _: self.cancel(run.subject) if run.is_active else None)
            run.token = token
            progress.begin(token, types.WorkDoneProgressBegin(run.title, cancellable=True))

    def _enter(self, run: Run, phase: str) -> None:
        progress = self._progress()
        if run.is_active and run.token is not None and progress is not None:
            progress.report(run.token, types.WorkDoneProgressReport(message=phase, cancellable=True))

    def _end_progress(self, run: Run) -> None:
        progress = self._progress()
        if run.token is not None and progress is not None:
            progress.end(run.token, types.WorkDoneProgressEnd())
            progress.tokens.pop(run.token, None)


def _on_loop(loop: asyncio.AbstractEventLoop, act: Callable[[], None]) -> None:
    """Do something on the loop, unless it has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(act)
