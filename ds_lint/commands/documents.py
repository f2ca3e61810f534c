"""The documents that a command line asks for, and what is found in each."""

from __future__ import annotations

import os
import sys

from ds_lint.commands.failures import unless_it_fails
from ds_lint.source.documents import from_bytes
from ds_lint.source.files import MOST_BYTES, TooLargeError, bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

STANDARD_INPUT = "-"


def documents(options: Options, session: Session, unreadable: list[str]) -> Iterator[Document]:
    """The files that were asked for, and those in a folder that hold a config; complaints go to ``unreadable``."""
    seen: set[str] = set()
    for path in options.paths:
        yield from documents_at(path, options, session, unreadable, seen)


def documents_at(
    path: str, options: Options, session: Session, unreadable: list[str], seen: set[str]
) -> Iterator[Document]:
    """The same for one of the paths that were asked for, without those that were ``seen`` at another."""
    if path == STANDARD_INPUT:
        name = options.stdin_filename or "<stdin>"
        data = sys.stdin.buffer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            unreadable.append(f"{name}: {TooLargeError(name, data).strerror}")
        else:
            yield from_bytes(data, name)
    elif os.path.isdir(path):
        from ds_lint.project.discovery import json_files

        def on_error(error: OSError) -> None:
            unreadable.append(f"{error.filename}: {error.strerror}")

        for found in json_files(path, on_error, session.excludes):
            if _is_first(found, seen):
                yield from _document(found, unreadable, detect=True)
    elif _is_first(path, seen) and not (options.detect and session.excludes(path)):
        yield from _document(path, unreadable, detect=options.detect)


def _is_first(path: str, seen: set[str]) -> bool:
    """Whether nobody has named the file before, in this way or another."""
    try:
        whole = os.path.abspath(path)
    except OSError:  # the working directory is deleted
        whole = path
    if whole in seen:
        return False
    seen.add(whole)
    return True


def _document(path: str, unreadable: list[str], *, detect: bool) -> Iterator[Document]:
    """The document of a file; none where it is to be detected and holds no config."""
    try:
        data = bytes_of(path)
    except TooLargeError as error:
        from ds_lint.project.discovery import may_be_config

        if not detect or may_be_config(error.start):
            unreadable.append(f"{path}: {error.strerror}")
        return
    except OSError as error:
        unreadable.append(f"{path}: {error.strerror or error}")
        return
    read = _detected if detect else from_bytes
    document = unless_it_fails(lambda: read(data, path), path, unreadable)
    if document is not None:
        yield document


def _detected(data: bytes, path: str) -> Document | None:
    """The document of a file that holds a DeepSpeed config, None for any other file."""
    from ds_lint.project import discovery

    if not discovery.may_be_config(data):
        return None
    document = from_bytes(data, path)
    return document if discovery.is_config(document) else None


def linted_documents(options: Options, session: Session, unreadable: list[str]) -> list[tuple[FileReport, LintContext]]:
    """The report on every document that was asked for, with the terms that it was linted on."""
    linted = []
    for document in documents(options, session, unreadable):
        context = session.context(document.path)
        report = unless_it_fails(lambda: context.lint(document, context.rules), document.path, unreadable)  # noqa: B023 - called at once
        if report is not None:
            linted.append((report, context))
    return linted
