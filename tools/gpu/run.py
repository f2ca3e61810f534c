"""Measure on a GPU what only a GPU shows, in the minutes for which it is borrowed.

    tools/gpu/run --out DIR [--minutes 8] [--only PART ...] [--after DIR]
    tools/gpu/run --rehearse [--out DIR]

Each part gets its share of the time, and what the parts before it have left. DIR gets a file for each part and a log:
eight, which is as many as come back from the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from tools.gpu import builds, machine, rehearsal
from tools.gpu.installation import LIBAIO, ROOT, NotInstalled, install
from tools.gpu.part import SHARES
from tools.gpu.record import RUNNING, STOPPED, read, write
from tools.gpu.setting import BAD, OPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.gpu.setting import Result

MINUTES, MOST_MINUTES = 8.0, 10.0
LOG = "log.txt"
_OF_OPS = "ops"  # the part whose file also has what became of the builds
_MOST_LOG = 8 * 2**20  # bytes that are kept of it
_LAST = 8.0  # seconds of the whole time that no part gets: for the end of one, and for the table
_GRACE = 6.0  # and those in which a part that gets the signal to end may end
_LEAST = 5.0  # of a part, or it does not begin
_REHEARSED_BUILDS = 150.0
_NAMED = 4  # items of a part that the table names


class Places(NamedTuple):
    """Where the results go, and where ops are built."""

    out: str
    after: str | None
    ops: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the parts, and print a table; 1 if anything is not as it should be, 2 if nothing can be measured."""
    options = _parser().parse_args(arguments)
    end = time.monotonic() + options.minutes * 60
    if (complaint := _complaint(options)) is not None:
        _parser().error(complaint)
    if options.rehearse and not options.here:
        return rehearsal.again(arguments if arguments is not None else sys.argv[1:])
    out = os.path.abspath(options.out or tempfile.mkdtemp(prefix="ds-lint-gpu-results-"))
    os.makedirs(out, exist_ok=True)
    try:
        folder = install()
    except NotInstalled as why:
        return _say(f"tools/gpu/run: {why}", 2)
    if not options.rehearse and machine.describe(rehearses=False)["gpu"] is None:
        return _say("tools/gpu/run: nvidia-smi names no GPU; --rehearse needs none", 2)
    sys.path[:0] = [folder] if folder else []  # whose releases are described
    device = "cpu" if options.rehearse else "cuda"
    of_what = f"ops-{device}-{sys.implementation.cache_tag}"  # no other device or Python loads them
    places = Places(out, options.after, os.path.join(tempfile.gettempdir(), f"ds-lint-gpu-{os.getuid()}", of_what))
    environment = _environment(folder, places)
    flags = [*(["--rehearse"] if options.rehearse else []), *(["--first"] if options.first else [])]
    with open(os.path.join(out, LOG), "ab") as log, _building(places, environment, log.fileno(), options):
        for name, seconds in _shared(options.only or list(SHARES), end):
            _measure(name, seconds, flags, places, environment, log.fileno())
    built = [] if options.first else builds.results(places.ops)
    _keep_builds(out, built)
    _shorten(os.path.join(out, LOG))
    return _table(out, options.only or list(SHARES), built)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/gpu/run", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", metavar="DIR", help="where the results are written")
    parser.add_argument("--minutes", type=float, default=MINUTES, help="of the whole run, at most 10 (default: 8)")
    parser.add_argument("--only", nargs="+", default=[], metavar="PART", help=f"of {', '.join(SHARES)}")
    parser.add_argument("--after", metavar="DIR", help="go on: leave out what the results in DIR have")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU, in an environment like that machine's")
    parser.add_argument("--here", action="store_true", help="rehearse in the environment of this Python")
    parser.add_argument("--first", action="store_true", help="the first item of each part, and no builds")
    return parser


def _complaint(options: argparse.Namespace) -> str | None:
    """What is wrong with the arguments, in a sentence."""
    out, after = options.out, options.after
    if not 0 < options.minutes <= MOST_MINUTES:
        return f"--minutes {options.minutes:g}: a machine is lent for at most {MOST_MINUTES:g} minutes a call"
    if unknown := [name for name in options.only if name not in SHARES]:
        return f"--only {unknown[0]}: the parts are {', '.join(SHARES)}"
    if out is None and not options.rehearse:
        return "--out is missing: where are the results to be written?"
    if after is not None and not any(os.path.exists(os.path.join(after, f"{name}.json")) for name in SHARES):
        return f"--after {after}: no results of an earlier call are there"
    if after is not None and out is not None and os.path.realpath(after) == os.path.realpath(out):
        return f"--after {after}: --out has to be another folder, because the results there would be overwritten"
    return None


def _shared(names: list[str], end: float) -> Iterator[tuple[str, float]]:
    """Each part with its seconds: its share of the time that is left for it and those after it."""
    for place, name in enumerate(names):
        left = end - _LAST - time.monotonic()
        share = SHARES[name] / sum(SHARES[one] for one in names[place:])
        yield name, left * share


def _measure(
    name: str, seconds: float, flags: list[str], places: Places, environment: dict[str, str], log: int
) -> None:
    """Run one part to its end, or to that of its time."""
    if seconds < _LEAST:
        return
    path = os.path.join(places.out, f"{name}.json")
    after = ["--after", os.path.join(places.after, f"{name}.json")] if places.after else []
    words = ["tools.gpu.part", name, "--out", path, "--seconds", f"{seconds:.0f}", *flags, *after]
    process = _started(words, environment, log)
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    finally:
        _end(process)
    content = read(path)
    if content is not None and content["status"] == RUNNING:
        write(path, {**content, "status": STOPPED})


def _started(words: list[str], environment: dict[str, str], log: int) -> subprocess.Popen[bytes]:
    """A module of Python in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *words],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a part with all that it has started: what it has started ends with it."""
    for number, patience in ((signal.SIGTERM, _GRACE), (signal.SIGKILL, None)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


def _environment(folder: str | None, places: Places) -> dict[str, str]:
    """That of the parts: the installed packages, the checkout, and nothing of a model hub."""
    path = filter(None, [folder, ROOT, os.environ.get("PYTHONPATH")])
    libaio = {builds.LIBAIO: LIBAIO} if os.path.isdir(LIBAIO) else {}
    return {
        **os.environ,
        **libaio,
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "",  # each process would compile what it imports again
        "HF_HUB_OFFLINE": "1",
        OPS: places.ops,
        **_numbered(os.environ.get("CUDA_VISIBLE_DEVICES")),
    }


def _numbered(visible: str | None) -> dict[str, str]:
    """GPUs by their numbers: ZeRO 1 and 2 stop at any other name (deepspeed/accelerator/cuda_accelerator.py)."""
    is_named = visible is not None and not all(one.strip().isdecimal() for one in visible.split(","))
    return {"CUDA_VISIBLE_DEVICES": "0"} if is_named else {}


@contextlib.contextmanager
def _building(places: Places, environment: dict[str, str], log: int, options: argparse.Namespace) -> Iterator[None]:
    """While the parts measure, build the ops that an earlier call has not built."""
    if options.first:
        yield
        return
    builds.prepare(places.ops)  # before any part looks there
    words = ["tools.gpu.builds", places.ops, "cpu" if options.rehearse else "cuda"]
    process = _started(words, environment, log)
    try:
        if options.rehearse:  # a machine for rehearsals has few cores
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_REHEARSED_BUILDS)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _keep_builds(out: str, built: list[Result]) -> None:
    """Put what became of the builds into the file of the part that needs them: one of their own would be a ninth."""
    path = os.path.join(out, f"{_OF_OPS}.json")
    content = read(path)
    if built and content is not None:
        write(path, {**content, "builds": built})


def _shorten(path: str) -> None:
    """Keep the end of a log that is too long to come back."""
    if os.path.getsize(path) > _MOST_LOG:
        with open(path, "rb") as file:
            file.seek(-_MOST_LOG, os.SEEK_END)
            kept = file.read()
        with open(path, "wb") as file:
            file.write(kept)


def _table(out: str, names: list[str], every_build: list[Result]) -> int:
    """Print a line for each part, and one for each build; whether anything is not as it should be."""
    status = 0
    for name in names:
        content = read(os.path.join(out, f"{name}.json"))
        sys.stdout.write(f"{name:10} {_line(content)}\n")
        is_bad = content is None or "error" in content or any(one["status"] in BAD for one in content["items"])
        status = max(status, int(is_bad))
    for built in every_build:
        how = f"built in {built['seconds']:g} s" if built["is_built"] else "not built"
        sys.stdout.write(f"{built['op']:10} {how}\n")
    sys.stdout.write(f"results: {out}\n")
    return status


def _line(content: Result | None) -> str:
    """How far a part came, and what is not as it should be."""
    if content is None:
        return "not begun"
    counts: dict[str, int] = {}
    for item in content["items"]:
        counts[item["status"]] = counts.get(item["status"], 0) + 1
    bad = [item["name"] for item in content["items"] if item["status"] in BAD]
    more = f", and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
    words = [
        f"{content['status']:12}",
        f"{content['seconds']:6.1f} s ",
        ", ".join(f"{number} {status}" for status, number in sorted(counts.items())),
        f"; {len(content['left_out'])} left out" if content["left_out"] else "",
        f" ({'; '.join(bad[:_NAMED])}{more})" if bad else "",
        "; a lane failed, see its file" if "error" in content else "",
    ]
    return "".join(words)


def _say(message: str, status: int) -> int:
    sys.stderr.write(f"{message}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
