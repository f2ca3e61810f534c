"""What is installed, read off the names of the metadata; nothing is imported.

The environments, in order:

1. that of ds-lint itself: whoever installs it beside the libraries means those;
2. the active ones, ``$VIRTUAL_ENV`` before ``$CONDA_PREFIX``: pre-commit, pipx and uvx keep ds-lint in one of its own;
3. ``.venv`` and ``venv`` of the project, the nearest first.

The first with deepspeed is the one that trains, and its word counts for all three libraries: two environments are never
mixed. If none has deepspeed, it is the first that has any of the libraries.
"""

from __future__ import annotations

import os
import sys

from ds_lint.targets.directories import up_to_root
from ds_lint.targets.pin import LIBRARIES, PACKAGES, Pin, library_called
from ds_lint.targets.text import shown, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ACTIVE = ("VIRTUAL_ENV", "CONDA_PREFIX")
_OF_PROJECT = (".venv", "venv")
_METADATA = (".dist-info", ".egg-info")


def installed(directory: str) -> dict[str, Pin]:
    """The installed release of each library, in the environment that the project around a directory trains in."""
    return _installed_on(training_environment(directory))


def training_environment(directory: str) -> list[str]:
    """The import path of the environment that the project around a directory trains in; empty if there is none."""
    first: list[str] = []
    for paths in environments(directory):
        found = _installed_on(paths)
        if "deepspeed" in found:
            return paths
        if not first and any(library in found for library in LIBRARIES):
            first = paths
    return first


def environments(directory: str) -> Iterator[list[str]]:
    """The import path of each environment, as far as it is known without starting its interpreter."""
    yield sys.path
    for variable in _ACTIVE:
        if prefix := os.environ.get(variable):
            yield _site_packages(prefix)
    for here, names in up_to_root(directory):
        for name in _OF_PROJECT:
            if name in names:
                yield _site_packages(os.path.join(here, name))


def _site_packages(prefix: str) -> list[str]:
    library = os.path.join(prefix, "lib")
    pythons = sorted(name for name in _names_in(library) if name.startswith("python3"))
    found = [os.path.join(library, python, "site-packages") for python in pythons]
    return [*found, os.path.join(prefix, "Lib", "site-packages")]  # the latter on Windows


def _installed_on(paths: Sequence[str]) -> dict[str, Pin]:
    found: dict[str, Pin] = {}
    for path in paths:
        names = _names_of_ours(path)
        pins = [pin for name in names if (pin := _distribution(path, name))]
        for library in PACKAGES:
            copies = [pin for pin in pins if pin.library == library]
            if copies and library not in found:  # Python imports the first on its path
                from ds_lint.targets.combination import any_of

                found[library] = any_of(copies)
    return found


_of_ours: dict[str, tuple[int, list[str]]] = {}  # by directory, with its time: projects share an environment


def _names_of_ours(directory: str) -> list[str]:
    """The metadata of our libraries in a directory, which is listed again when it has changed."""
    try:
        time = os.stat(directory or ".").st_mtime_ns
    except OSError:
        return []
    if directory not in _of_ours or _of_ours[directory][0] != time:
        names = [name for name in _names_in(directory) if name.endswith(_METADATA)]
        ours = [name for name in names if library_called(os.path.splitext(name)[0].partition("-")[0]) is not None]
        _of_ours[directory] = time, ours
    return _of_ours[directory][1]


def _names_in(directory: str) -> list[str]:
    try:
        return os.listdir(directory or ".")
    except OSError:  # an archive, or not there at all
        return []


def _distribution(directory: str, name: str) -> Pin | None:
    """The pin of ``deepspeed-0.16.9.dist-info``, ``deepspeed-0.9.0-py3.10.egg-info`` or ``deepspeed.egg-info``."""
    project, _, rest = os.path.splitext(name)[0].partition("-")
    library = library_called(project)
    if library is None:
        return None
    version = rest.partition("-")[0] or version_in_metadata(os.path.join(directory, name))
    source = f"installed in {shown(directory)}"
    return Pin(library, f"=={version}", source, is_installed=True) if version else None


def version_in_metadata(directory: str) -> str:
    """The version that the metadata of a source tree gives, which has none in its name; empty if it gives none."""
    for line in text_of(os.path.join(directory, "PKG-INFO")).splitlines():
        field, _, value = line.partition(":")
        if field == "Version":
            return value.strip()
    return ""
