"""The documents that a command line names, and the findings in each."""

from __future__ import annotations

import os

from ds_lint.commands.failures import unless_it_fails
from ds_lint.diagnostics.report import Complaint
from ds_lint.source.documents import configs_found_in, configs_in, unparsed
from ds_lint.source.files import MOST_BYTES, TooLargeError, bytes_of
from ds_lint.source.languages import JSON, YAML, language_of
from ds_lint.targets.directories import repository_of
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.session.launched import LaunchingProject
    from ds_lint.session.options import Options
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

    _Result = TypeVar("_Result")

STANDARD_INPUT = "-"


def complaints_into(unreadable: list[Complaint]) -> Callable[[OSError], None]:
    """A function to call with the errors about files and folders that cannot be opened."""

    def complain(error: OSError) -> None:
        unreadable.append(Complaint(shown(error.filename), error.strerror or str(error)))

    return complain


def standard_input_name(options: Options) -> str:
    """The path that is shown for standard input."""
    return options.stdin_filename or "<stdin>"


def documents(
    options: Options,
    session: Session,
    unreadable: list[Complaint],
    projects: list[LaunchingProject] | None = None,
) -> list[tuple[str, Document]]:
    """The named files, and the configs in named folders, each with the path of the command line.

    Complaints go to ``unreadable``. All are read before one is linted: a recipe tells of a config that was read before.
    The named folders go to ``projects`` with their launches, also where there is no config.
    """
    seen: set[str] = set()
    found = [
        (path, document)
        for path in options.paths
        for document in _documents_at(path, options, session, unreadable, seen)
    ]
    if named := [path for path in options.paths if not path.endswith(JSON) and _is_file(path, session)]:
        from ds_lint.commands import reached  # a config alone reaches nothing

        found = reached.with_reached(
            named, found, session, lambda path, detect: _documents_of(path, unreadable, detect=detect)
        )
        if not options.detect:
            reached.complain_of_others(named, found, session, unreadable)
    found += _of_flags(found, options, session, unreadable)
    if any(document.kind == "recipe" for _, document in found):
        from ds_lint.commands.recipe_configs import with_named_configs  # few projects have one

        found = list(with_named_configs(found, session, lambda path: _documents_of(path, unreadable, detect=False)))
    folders = [] if projects is None else [path for path in options.paths if _is_searched(path, session)]
    if folders or (found and _is_in_project(found)):
        from ds_lint.session.launched import add_launches  # a config alone has none

        read = add_launches(
            found, session, lambda work, path: unless_it_fails(work, path, unreadable), directories=folders
        )
        if projects is not None:
            projects += read
    return found


def _is_searched(path: str, session: Session) -> bool:
    """Whether a path is that of a folder that may be searched."""
    return path != STANDARD_INPUT and os.path.isdir(path) and not session.forbids(path, is_folder=True)


def _of_flags(
    before: list[tuple[str, Document]], options: Options, session: Session, unreadable: list[Complaint]
) -> list[tuple[str, Document]]:
    """The configs that commands of the named scripts, or of those in a named folder, make of their flags."""
    scripts: list[tuple[str, str]] = []
    for path in options.paths:
        if path == STANDARD_INPUT or path.endswith((*JSON, *YAML, ".py")):
            continue
        if _is_searched(path, session):
            from ds_lint.project.launches import scripts_with_flags  # a file alone needs none of it

            found_in = scripts_with_flags(path, session.leaves_out, session.respects_gitignore(path))
            scripts += ((path, one) for one in found_in if session.may_report_on(one))
        elif _is_file(path, session):
            scripts.append((path, path))
    found: list[tuple[str, Document]] = []
    for given, path in scripts:
        from ds_lint.session.flag_configs import flag_configs
        from ds_lint.session.reached import project_of

        directory = given if os.path.isdir(given) else project_of(path)
        made = unless_it_fails(lambda: list(flag_configs(path, directory)), path, unreadable)  # noqa: B023 - called at once
        for document in made or []:
            document.index += sum(one.path == document.path for _, one in before)
            found.append((given, document))
    return found


def _is_file(path: str, session: Session) -> bool:
    """Whether a path is that of a file that may be looked at."""
    return path != STANDARD_INPUT and os.path.isfile(path) and not session.forbids(path, is_folder=False)


def _is_in_project(found: list[tuple[str, Document]]) -> bool:
    """Whether a document is in a folder that was searched, or in a repository, whose scripts may launch it.

    A config that a shell script or a cell of a notebook writes may be launched there.
    """
    return any(
        os.path.isdir(given) or document.language in ("notebook", "shell") or repository_of(document.path) is not None
        for given, document in found
    )


def _documents_at(
    path: str, options: Options, session: Session, unreadable: list[Complaint], seen: set[str]
) -> Iterator[Document]:
    """The documents at one path, without the files that were ``seen`` at another."""
    if path == STANDARD_INPUT:
        if path not in seen and not is_input_forbidden(options, session):
            seen.add(path)
            yield from _in_input(options, unreadable)
    elif os.path.isdir(path):
        from ds_lint.project.discovery import candidates

        if session.forbids(path, is_folder=True):
            return
        for found in candidates(
            path,
            complaints_into(unreadable),
            leaves_out=session.leaves_out,
            respects_gitignore=session.respects_gitignore(path),
            included=session.included,
        ):
            if _is_first(found, seen):
                yield from _documents_of(found, unreadable, detect=True)
    elif _is_first(path, seen) and not session.forbids(path, is_folder=False):
        for document in _documents_of(path, unreadable, detect=options.detect):
            yield document
            if document.kind == "accelerate":
                yield from _named_by(document, unreadable, seen)


def _in_input(options: Options, unreadable: list[Complaint]) -> list[Document]:
    """The configs in standard input."""
    from ds_lint.commands import streams  # most configs are files

    name = standard_input_name(options)
    data = streams.standard_input().read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        unreadable.append(Complaint(name, TooLargeError(name, data).strerror or ""))
        return []
    configs = _in_file(data, name, detect=False)
    found = [*configs, *_unparsed_in(data, name, configs, detect=False)]
    if not found and options.fix:
        streams.write_standard_output(data)  # standard input is fixed onto standard output
    return found


def _named_by(document: Document, unreadable: list[Complaint], seen: set[str]) -> Iterator[Document]:
    """The DeepSpeed config that a YAML of Accelerate names, which its stack loads; none if it is not found."""
    from ds_lint.project.references import located

    node = document.root.at(("deepspeed_config", "deepspeed_config_file")) if document.root is not None else None
    named = located(node.value, document.path) if node is not None and isinstance(node.value, str) else None
    if named is not None and _is_first(named, seen):
        for config in _documents_of(named, unreadable, detect=False):
            config.stack = "accelerate"
            yield config


def is_input_forbidden(options: Options, session: Session) -> bool:
    """Whether the file that standard input stands for is excluded and ``--force-exclude`` is on."""
    return options.stdin_filename is not None and session.forbids(options.stdin_filename, is_folder=False)


def _is_first(path: str, seen: set[str]) -> bool:
    """Whether the file has not been named before, with this spelling or another."""
    try:
        whole = os.path.abspath(path)
    except OSError:  # the working directory is deleted
        whole = path
    if whole in seen:
        return False
    seen.add(whole)
    return True


def _documents_of(path: str, unreadable: list[Complaint], *, detect: bool) -> list[Document]:
    """The configs in a file; none if only configs are wanted and it has none."""
    try:
        data = bytes_of(path)
    except TooLargeError as error:
        from ds_lint.source.recognition import may_be_config

        if not detect or may_be_config(error.start):
            unreadable.append(Complaint(path, error.strerror or ""))
        return []
    except OSError as error:
        unreadable.append(Complaint(path, error.strerror or str(error)))
        return []

    def read() -> list[Document]:
        configs = _in_file(data, path, detect=detect)
        return [*configs, *_unparsed_in(data, path, configs, detect=detect)]

    return unless_it_fails(read, path, unreadable) or []


def _unparsed_in(data: bytes, path: str, configs: list[Document], *, detect: bool) -> list[Document]:
    """What Python does not parse in a file: a module then has no configs, a notebook may have some."""
    if configs and language_of(path) == "python":
        return []
    found = unparsed(data, path, is_named=not detect)
    for document in found:
        document.index = len(configs)
    return found


def _in_file(data: bytes, path: str, *, detect: bool) -> list[Document]:
    """The configs in the bytes of a file."""
    return configs_found_in(data, path) if detect else configs_in(data, path)


def linted_names(
    options: Options,
    found: list[tuple[str, Document]],
    projects: list[LaunchingProject],
    session: Session,
    unreadable: list[Complaint],
) -> list[tuple[FileReport, LintContext]]:
    """The reports on the files with names that lead nowhere, and with words and keywords that are refused."""
    paths = [path for path in options.paths if path != STANDARD_INPUT and not path.endswith(JSON)]
    if not paths:
        return []
    from ds_lint.session.absent_names import documents_with_absent_names  # a config alone names none
    from ds_lint.session.keyword_calls import documents_with_keyword_calls
    from ds_lint.session.launched_words import documents_with_launched_words
    from ds_lint.source.absent_name import joined

    def or_complain(work: Callable[[], _Result], path: str) -> _Result | None:
        return unless_it_fails(work, path, unreadable)

    found_in = [
        *documents_with_absent_names(paths, found, projects, session, or_complain),
        *documents_with_launched_words(paths, projects, session, or_complain),
        *documents_with_keyword_calls(paths, projects, session, or_complain),
    ]
    wanted = [one for one in joined(found_in) if _is_looked_at(one.path, options, session)]
    linted = (_linted(document, session, unreadable) for document in wanted)
    return [one for one in linted if one is not None and (one[0].findings or one[0].suppressed)]


def _is_looked_at(path: str, options: Options, session: Session) -> bool:
    """Whether a file is one that the search of a folder looks at, or in none that is searched."""
    if session.may_report_on(path) or path in options.paths:
        return True
    whole = os.path.abspath(path)
    folders = (os.path.join(os.path.abspath(one), "") for one in options.paths if os.path.isdir(one))
    return not any(whole.startswith(folder) for folder in folders)


def linted_documents(
    options: Options, session: Session, unreadable: list[Complaint]
) -> list[tuple[FileReport, LintContext]]:
    """The report on every document, with the context that it was linted in."""
    projects: list[LaunchingProject] = []
    found = documents(options, session, unreadable, projects)
    linted = [one for _, document in found if (one := _linted(document, session, unreadable)) is not None]
    return [*linted, *linted_names(options, found, projects, session, unreadable)]


def _linted(document: Document, session: Session, unreadable: list[Complaint]) -> tuple[FileReport, LintContext] | None:
    context = session.context(document.path)
    report = unless_it_fails(lambda: context.lint(document, context.rules), document.path, unreadable)
    return None if report is None else (report, context)


def locate(unreadable: list[Complaint], session: Session) -> None:
    """Find out what each file that could not be opened would have been checked against."""
    for complaint in unreadable:
        if complaint.path is not None:
            context = session.context(complaint.path)
            complaint.stack = context.basis.stack
            complaint.target = {library: releases[-1] for library, releases in context.choice.releases.items()}
