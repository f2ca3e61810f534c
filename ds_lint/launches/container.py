"""The shared memory of a container that a command starts: /dev/shm, which its processes have in common."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from ds_lint.launches.launchers import by_program
from ds_lint.source.shell.runners import RUNNERS, SHELLS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.launches.word import Word

_PROGRAMS = ("docker", "nerdctl", "nvidia-docker", "podman")
_STARTED = {*by_program(), *SHELLS, "python", "python3"}  # within the container
_DEFAULT = 64 * 2**20  # bytes, unless the daemon has another `default-shm-size`
_SIZE = re.compile(r"(\d+)([bkmg]?)b?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}
_OWN = ("", "private", "shareable")  # of `--ipc`: a /dev/shm of its own


def small_shared_memory(words: Sequence[Word]) -> str | None:
    """The program that starts a container with the /dev/shm that is the default, or less; None if it may have more."""
    at = next((at for at, word in enumerate(words) if posixpath.basename(word or "") in _PROGRAMS), None)
    if at is None or words[at + 1 : at + 2] != ["run"]:  # a file has the size for `docker compose run`
        return None
    behind = words[at:]
    end = next((end for end, word in enumerate(behind) if posixpath.basename(word or "") in _STARTED), len(behind))
    if any(word is None and not _takes_word(before) for before, word in pairwise(behind[:end])):
        return None
    given = [word or "" for word in behind[:end]]
    if any("/dev/shm" in word for word in given):  # noqa: S108 - a mount of it
        return None
    size = _value(given, "--shm-size")
    if _value(given, "--ipc") not in _OWN or (size and (_bytes(size) or _DEFAULT + 1) > _DEFAULT):
        return None
    return posixpath.basename(given[0])


def _takes_word(option: Word) -> bool:
    return option is not None and option.startswith("-") and (RUNNERS["docker"].words_of(option) or 0) > 1


def _value(words: list[str], option: str) -> str:
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return behind
        if word.startswith(f"{option}="):
            return word[len(option) + 1 :]
    return ""


def _bytes(size: str) -> int | None:
    match = _SIZE.fullmatch(size)
    return int(match[1]) * _UNITS[match[2].lower()] if match is not None else None
