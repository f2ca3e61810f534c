"""The text of a file, whatever the file is."""

from __future__ import annotations

import os

from ds_lint.targets.pin import LIBRARIES, TRAINERS

LARGEST = 16_000_000  # bytes; ten times the lock file of a large project

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")  # ``pip freeze > requirements.txt`` in Windows PowerShell writes it


def text_of(path: str) -> str:
    """The text of a file; empty where it is not a file, cannot be opened or is too large.

    Bytes that are not text are replaced: names and versions are ASCII, and what is broken is mostly a comment.
    """
    if not os.path.isfile(path):  # a named pipe would be waited for
        return ""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return ""
    if len(data) > LARGEST:
        return ""
    text = data.decode("utf-16" if data.startswith(_UTF_16) else "utf-8", "replace")
    return text.removeprefix("\ufeff")


def mentions_a_library(text: str) -> bool:
    """Whether it is worth parsing this text."""
    lower = text.lower()
    return any(library in lower for library in (*LIBRARIES, *TRAINERS))


def shown(path: str) -> str:
    """The path as a person would give it: from the working directory, if it lies below."""
    try:
        return path.removeprefix(os.path.join(os.getcwd(), "")) or path
    except OSError:  # it was deleted
        return path
