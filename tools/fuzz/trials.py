"""One trial: a mutated input in a folder, and a command line in this process, with a bound on time."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint import cli
from tools.fuzz import editor
from tools.fuzz.mutations import mutated, smaller
from tools.fuzz.seeds import seeds
from tools.fuzz.surfaces import SURFACES, Surface

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

_FRAME = re.compile(r'File "[^"]*?((?:ds_lint|tools)/[^"]+)", line (\d+)')
_STATUSES = (0, 1, 2)
_WAITS_OR_WRITES = re.compile("lsp|smoke|--watch|--smoke|--report|--output-file=|-[a-zA-Z]*[wo]")


class Failure(NamedTuple):
    """An input that ended in something else than an answer; ``what`` is the same for all of a kind."""

    surface: str
    what: str
    command: list[str]
    text: str
    stderr: str


class _TooSlow(BaseException):
    """The time of one trial is over; no handler of errors takes it for one of its own."""


class Trials:
    """Trials of every surface, in a folder that is theirs."""

    def __init__(self, chance: random.Random, seconds: float, corpus: tuple[str, ...] = ()) -> None:
        self._chance = chance
        self._seconds = seconds  # of one trial
        self._corpus = corpus
        self.slowest: dict[str, float] = {}  # by surface
        self._seen: set[str] = set()  # kinds of failures

    def names(self, only: str = "") -> list[str]:
        """The names of the surfaces that there are, with the text of an editor among them."""
        return [name for name in (*(one.name for one in SURFACES), *editor.NAMES) if only in name]

    def one(self, name: str) -> Failure | None:
        """Make a trial of a surface."""
        surface = next((one for one in SURFACES if one.name == name), None)
        if surface is None:
            return self._in_editor(name)
        texts = self._seeds(surface)
        text = mutated(self._chance, self._chance.choice(texts), texts)
        command = list(self._command(surface, text))
        failure = self._tried(surface, command, text)
        if failure is None or failure.what in self._seen:
            return failure
        self._seen.add(failure.what)

        def fails(shorter: str) -> bool:
            shown = [word.replace(text, shorter) if text and text in word else word for word in command]
            again = self._tried(surface, shown, shorter)
            return again is not None and again.what == failure.what

        if failure.what.startswith("slow"):
            return failure
        least = smaller(text, fails)
        shown = [word.replace(text, least) if text and text in word else word for word in command]
        return self._tried(surface, shown, least) or failure

    def _in_editor(self, name: str) -> Failure | None:
        texts = seeds(editor.KINDS[name], self._corpus) or ["{}"]
        text = mutated(self._chance, self._chance.choice(texts), texts)
        seed = self._chance.random()

        def fails(shorter: str) -> str | None:
            what, _, _ = self._watched(name, lambda: editor.edit(name, shorter, seed))
            return what

        what = fails(text)
        if what is None:
            return None
        if what not in self._seen:
            self._seen.add(what)
            text = smaller(text, lambda one: fails(one) == what) if name in editor.TEXTS else text
        return Failure(name, what, ["editor", str(seed)], text, what)

    def _seeds(self, surface: Surface) -> list[str]:
        own = list(surface.texts)
        return own * (1 if not surface.kind else 20) + (seeds(surface.kind, self._corpus) if surface.kind else [])

    def _command(self, surface: Surface, text: str) -> list[str]:
        if not surface.commands:
            return text.split()
        return [text if word == "{}" else word.replace("{}", text) for word in self._chance.choice(surface.commands)]

    def _tried(self, surface: Surface, command: list[str], text: str) -> Failure | None:
        """The failure of one input, if it fails."""
        if not _is_harmless(command):
            return None
        _empty()
        for name, content in (*surface.beside, *([(surface.file, text)] if surface.file else [])):
            path = Path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8", errors="surrogateescape" if _is_strange(content) else "strict")
        what, status, stderr = self._watched(surface.name, lambda: cli.run(command), text)
        if what is None and status not in _STATUSES:
            what = f"status {status}"
        if what is None and ("Traceback (most recent call last)" in stderr or "internal error" in stderr):
            what = _kind_of(stderr)
        return Failure(surface.name, what, command, text, stderr[-4000:]) if what is not None else None

    def _watched(self, name: str, run: object, stdin: str = "") -> tuple[str | None, object, str]:
        """What went wrong while something ran, its status, and what it wrote to standard error."""
        assert callable(run)  # noqa: S101 - for the type checker
        begun, status, what = time.process_time(), None, None
        with _streams(stdin) as (_, error):
            try:
                with _within(self._seconds):
                    status = run()
            except _TooSlow:
                what = "slow: " + _place_of(sys.exc_info()[2])
            except SystemExit as ending:
                status = ending.code if ending.code is not None else 0
            except OSError:
                status = 2  # ``main`` says why
            except Exception:  # noqa: BLE001 - this is what the trial is for
                from traceback import format_exc

                what = _kind_of(format_exc())
                error.write(format_exc())
            stderr = error.getvalue()
        self.slowest[name] = max(self.slowest.get(name, 0.0), time.process_time() - begun)
        return what, status, stderr


def _is_harmless(command: list[str]) -> bool:
    """Whether a command line neither waits nor runs or writes something elsewhere."""
    if any(map(_WAITS_OR_WRITES.match, command)):
        return False
    files = [file for word, file in pairwise(command) if word == "--output-file"]
    return set(files) <= {"-"} and not any("/" in word and word.startswith(("/", "..")) for word in command)


def _is_strange(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _empty() -> None:
    """Remove what earlier trials have left."""
    for entry in os.scandir("."):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            os.unlink(entry.path)


def _kind_of(stderr: str) -> str:
    """The error and the last line of ds-lint in a traceback."""
    frames = _FRAME.findall(stderr)
    lines = (line for line in reversed(stderr.splitlines()) if not line.startswith("ds-lint:"))
    last = next((line for line in lines if re.match(r"\w[\w.]*(Error|Exception|Warning)?\b", line)), "")
    return f"{last.partition(':')[0]} at {':'.join(frames[-1]) if frames else '?'}"


def _place_of(trace: object) -> str:
    """The function of ds-lint that was running, and the one that called it first of its module."""
    names = []
    while trace is not None:
        code = trace.tb_frame.f_code  # type: ignore[attr-defined]
        if "ds_lint" in code.co_filename:
            names.append(f"{Path(code.co_filename).stem}.{code.co_name}")
        trace = trace.tb_next  # type: ignore[attr-defined]
    return " < ".join(dict.fromkeys(reversed(names[-3:])))


@contextlib.contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise where a block takes more CPU time; systems without such a timer go without."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def over(_number: int, _frame: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextlib.contextmanager
def _streams(stdin: str) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Standard streams that are kept in memory."""
    given = io.TextIOWrapper(io.BytesIO(stdin.encode(errors="surrogatepass")), encoding="utf-8")
    out, error = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict"), io.StringIO()
    before = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = given, out, error
    try:
        yield io.StringIO(), error
        out.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before
