"""What the real bash hands to the programs that a script starts: stand-ins for all of them write their words down."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

# Every program is one that bash does not find. It prints a mark, and `cd` and `source` find everything.
STAND_INS = r"""
command_not_found_handle() {
  printf '%s\0' "${BASH_LINENO[0]}" "$@" > "$DS_LINT_LOG/$EPOCHREALTIME.$BASHPID"
  printf '%s\n' "$DS_LINT_MARK"
  runs_text "$@" >&2
  return 0
}
runs_text() {  # as a program does that runs `bash -c TEXT`
  while [ $# -gt 2 ]; do
    [[ $1 == bash && $2 == -*c ]] && { /bin/bash "${@:2}"; return; }
    shift
  done
}
cd() { :; }
source() { :; }
pushd() { :; }
popd() { :; }
sleep() { :; }
bash() { /bin/bash "$@"; }
mkdir() { /bin/mkdir "$@"; }
expr() { echo $(( $* )); }
"""
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?=[\[}#%/^,:])|([A-Za-z_]\w*))")
_WITH_DEFAULT = re.compile(r"\$\{([A-Za-z_]\w*):?[-=]")
_TESTS_POSITIONAL = re.compile(r"\$\{\d:?-|\$#|\$\{#|\$[@*]|\"\$\{?@|\$\{@|\bshift\b|\bgetopts\b")
_OUTSIDE = {"PATH", "HOME", "PWD", "SHELL", "IFS", "BASH_SOURCE", "RANDOM", "LINENO", "SECONDS", "UID", "EUID", "PPID"}


class Ran(NamedTuple):
    """A program that ran: its line, and its words with None for each that depends on what is outside of the script."""

    line: int
    words: list[str | None]


def programs(script: str) -> list[Ran] | None:
    """The programs that a script starts; None if it starts others under other circumstances, or does not end."""
    one, other = _run(script, 7000), _run(script, 91000)
    if one is None or other is None or len(one) != len(other):
        return None
    one, other = sorted(one), sorted(other)  # what runs in the background begins at any time
    found = []
    for (line, words), (other_line, other_words) in zip(one, other, strict=True):
        if line != other_line or len(words) != len(other_words):
            return None
        pairs = zip(words, other_words, strict=True)
        found.append(Ran(line, [word if word == other_word else None for word, other_word in pairs]))
    return found


def _run(script: str, mark: int) -> list[tuple[int, list[str]]] | None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)  # noqa: S103 - another user writes into it
        log = Path(folder, ".log")
        log.mkdir()
        log.chmod(0o777)
        Path(folder, ".stand-ins").write_text(STAND_INS)
        Path(folder, "script.sh").write_text(script, encoding="utf-8", errors="surrogateescape")
        defaults = set(_WITH_DEFAULT.findall(script)) | _OUTSIDE
        names = {name or braced for braced, name in _VARIABLE.findall(script)} - defaults
        environment = {name: str(mark + number) for number, name in enumerate(sorted(names), 10)}  # also in arithmetic
        environment |= {
            "PATH": "/nowhere",
            "BASH_ENV": f"{folder}/.stand-ins",
            "DS_LINT_LOG": str(log),
            "DS_LINT_MARK": str(mark),
            "FUNCNEST": "20",
            "HOME": f"/home{mark}",
        }
        positional = [] if _TESTS_POSITIONAL.search(script) else [str(mark + number) for number in range(1, 10)]
        process = subprocess.Popen(
            ["/bin/bash", "script.sh", *positional],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_limit,  # noqa: PLW1509 - the tests have no threads
            user=65534 if os.getuid() == 0 else None,
        )
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _kill(process.pid)
            process.wait()
        return _read(log)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_NPROC, (400, 400))
    resource.setrlimit(resource.RLIMIT_CPU, (5, 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def _read(log: Path) -> list[tuple[int, list[str]]]:
    """What the stand-ins wrote, each program a file, in the order of time."""
    found = []
    for path in sorted(log.iterdir()):
        line, *words = path.read_bytes().decode("utf-8", "surrogateescape").split("\0")[:-1]
        found.append((int(line), words))
    return found
