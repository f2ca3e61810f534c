"""A training framework that a project carries itself: its fields, read off the copy."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.targets.directories import up_to_root
from ds_lint.targets.text import text_of

if TYPE_CHECKING:
    from ds_lint.frameworks.record import Framework

    FrameworkCopies = dict[tuple[str, str], frozenset[str] | None]  # by framework and directory

_FIELD = re.compile(r"^    ([A-Za-z_]\w*)[ \t]*:[ \t]*[^\s#]", re.MULTILINE)
_MOST_FOLDERS = 200  # beside a recipe that are looked into for a copy


def own_fields(framework: Framework, path: str, known: FrameworkCopies) -> frozenset[str] | None:
    """The fields of the copy of a framework around a file; empty if there is one that cannot be read, else None.

    Those in ``known`` are not read again: a folder may have many recipes and launches.
    """
    place = framework.name, os.path.dirname(os.path.abspath(path))
    if place not in known:
        known[place] = _found(framework, place[1])
    return known[place]


def _found(framework: Framework, directory: str) -> frozenset[str] | None:
    layout = framework.fields
    if layout is None:
        return None
    for folder, names in up_to_root(directory):
        if ".gitmodules" in names and _plain(framework.name) in _plain(text_of(os.path.join(folder, ".gitmodules"))):
            return frozenset()
        for place in (folder, *(os.path.join(folder, name) for name in names[:_MOST_FOLDERS])):
            for name in (layout.package, *layout.older):
                for package in (os.path.join(place, name), os.path.join(place, "src", name)):
                    if os.path.isfile(os.path.join(package, "__init__.py")):
                        return _fields(os.path.join(package, layout.own)) if layout.own else frozenset()
    return None


def _plain(text: str) -> str:
    return text.lower().replace("-", "").replace("_", "")


def _fields(folder: str) -> frozenset[str]:
    """The annotated names in the classes of the modules of a folder."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    files = [os.path.join(folder, name) for name in names if name.endswith(".py")]
    return frozenset(name for file in files for name in _FIELD.findall(text_of(file)))
