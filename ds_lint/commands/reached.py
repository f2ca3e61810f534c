"""The configs that named files reach, added to those that are checked, with a note that says which."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.diagnostics.report import Complaint
from ds_lint.facts.launched import LaunchFacts
from ds_lint.project.globs import relative
from ds_lint.session.reached import MOST_PINNED, Reach, helps, pinned, pins, reach
from ds_lint.source.languages import language_of
from ds_lint.targets.directories import repository_of
from ds_lint.targets.text import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

    Found: TypeAlias = tuple[str, Document]  # the path of the command line that leads to the document
    Read: TypeAlias = Callable[[str, bool], list[Document]]  # of a path, and whether only configs are wanted

_MOST_NAMED = 3  # configs in a note
_SEARCHED = ("markdown", "notebook", "python", "shell")  # languages of files that may hold configs or none


def with_reached(paths: list[str], found: list[Found], session: Session, read: Read) -> list[Found]:
    """The documents, and behind them the configs that these named files reach; ``read`` reads what was not read yet."""
    known = {os.path.realpath(document.path): document for _, document in found}
    whole = list(found)
    for path, reached in reach(paths, session).items():
        new = list(_launched(path, reached, known, session, read))
        whole += ((path, document) for document in new)
        _say(path, new, session)
    seen = {os.path.abspath(document.path) for document in known.values()}
    for path in filter(pins, paths):
        new, is_all = _pinned(path, seen, session, read)
        whole += ((path, document) for document in new)
        _say_pinned(path, new, session, is_all=is_all)
    return whole


def complain_of_others(paths: list[str], found: list[Found], session: Session, unreadable: list[Complaint]) -> None:
    """Say of each named file that neither is a config nor reaches one that it is not checked."""
    known = {os.path.realpath(document.path) for _, document in found}
    reaching = {given for given, _ in found}
    for path in paths:
        if path not in reaching and os.path.realpath(path) not in known:
            _say_nothing(path, session, unreadable)


def _launched(
    path: str, reached: Reach, known: dict[str, Document], session: Session, read: Read
) -> Iterator[Document]:
    """The configs that are not known yet of those that the launches of a file name."""
    for one in reached.paths:
        if one in known or os.path.realpath(path) == one or not os.path.isfile(one):
            continue
        place = relative(one, os.curdir)
        if session.excludes(place) or session.forbids(place, is_folder=False):
            continue
        names = [link.material for link in reached.links if one in link.paths]
        for document in read(place, False):
            if one in reached.named or any(material.may_name(document) for material in names):
                known[one] = document
                yield document
    for link in reached.links:
        for one in link.paths & known.keys():
            document = known[one]
            is_alone = repository_of(document.path) is None and document.language not in ("notebook", "shell")
            if (
                (is_alone or document.is_inline)
                and isinstance(link.material, LaunchFacts)
                and link.material.may_name(document)
            ):
                session.add_material(link.material, document.path)


def _pinned(path: str, seen: set[str], session: Session, read: Read) -> tuple[list[Document], bool]:
    """The configs whose releases a file pins, and whether these are all."""
    configs: list[Document] = []
    files: set[str] = set()
    for place in pinned(path, session, lambda _: None):
        documents = read(os.path.normpath(place), True)
        if not documents:
            continue
        if len(files) == MOST_PINNED:
            return configs, False
        files.add(place)
        if os.path.abspath(place) not in seen:
            seen.add(os.path.abspath(place))
            configs += documents
    return configs, True


def _say(path: str, new: list[Document], session: Session) -> None:
    names = list(dict.fromkeys(shown(document.path) for document in new))
    if names:
        session.say(f"{shown(path)} reaches {_listed(names)}, which {'is' if len(names) == 1 else 'are'} checked too")


def _say_pinned(path: str, new: list[Document], session: Session, *, is_all: bool) -> None:
    if is_all:
        _say(path, new, session)
    else:
        session.say(
            f"{shown(path)} reaches more than {MOST_PINNED} files with configs: the first {MOST_PINNED} are checked, "
            "and ds-lint check without a path checks all"
        )


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMED:
        return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _say_nothing(path: str, session: Session, unreadable: list[Complaint]) -> None:
    """Say that a named file neither has nor reaches a config."""
    if any(complaint.path == path for complaint in unreadable):
        return
    language = language_of(path)
    if language == "notebook" and (broken := _broken_json(path)):
        unreadable.append(Complaint(path, f"not a notebook: {broken}"))
    if language in _SEARCHED:
        return
    if helps(path):
        session.say(f"{shown(path)} holds no DeepSpeed config and reaches none")
    else:
        unreadable.append(
            Complaint(path, "neither a DeepSpeed config nor a file that launches with one or pins its releases")
        )


def _broken_json(path: str) -> str:
    """Why the JSON that a notebook is cannot be read; empty if it can."""
    from json import loads

    with open(path, "rb") as file:
        data = file.read()
    try:
        loads(data)
    except ValueError as error:
        return str(error)
    return ""
