"""Which files state requirements, how they relate, and who reads them."""

from __future__ import annotations

import os

from ds_lint.targets.text import mentions_a_library, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ds_lint.targets.pin import Requirement

    Reader = Callable[[str, str], Iterator[Requirement]]  # of the text and the path of a file

# A file with a lower number decides over one with a higher.
_STANDING = {
    "uv.lock": 0,
    "poetry.lock": 1,
    "pdm.lock": 2,
    "pylock.toml": 3,
    "Pipfile.lock": 4,
    "requirements.txt": 5,
    "pyproject.toml": 6,
    "setup.cfg": 7,
    "setup.py": 8,
    "environment.yml": 9,
    "environment.yaml": 9,
}
_OTHER_REQUIREMENTS = 10
_UNCOMPILED_REQUIREMENTS = 11
_FOLDER = "requirements"  # a folder of that name holds nothing else
# The same files, for programs that watch for changes by pattern.
PATTERNS = (*_STANDING, "pylock.*.toml", "*requirements*.txt", "*requirements*.in", f"{_FOLDER}/*.txt")


def by_standing(directory: str, names: Sequence[str]) -> list[list[str]]:
    """The paths of the files in a directory that state requirements, those of the same standing together."""
    found: dict[int, list[str]] = {}
    for name in names:
        if (standing := _standing(name)) is not None:
            found.setdefault(standing, []).append(os.path.join(directory, name))
    if _FOLDER in names:
        for path in _folder(os.path.join(directory, _FOLDER)):
            found.setdefault(_OTHER_REQUIREMENTS, []).append(path)
    return [sorted(found[standing]) for standing in sorted(found)]


def states_requirements(path: str) -> bool:
    """Whether a file states requirements, by its name."""
    folder, name = os.path.split(path)
    is_in_folder = name.endswith(".txt") and os.path.basename(os.path.abspath(folder)) == _FOLDER
    return is_in_folder or _standing(name) is not None


def requirements_of(path: str, companion: str = "") -> list[Requirement]:
    """What a file says about the libraries; nothing if it is broken, huge or something else than its name says.

    A file without one is read only if it mentions the ``companion`` that is looked for.
    """
    text, name = text_of(path), os.path.basename(path)
    is_about = mentions_a_library(text) or (bool(companion) and companion in text.lower())
    if not is_about and not (name.endswith((".txt", ".in")) and _refers(text)):
        return []
    return list(_reader(name)(text, path))


def _standing(name: str) -> int | None:
    if (standing := _STANDING.get(name)) is not None:
        return standing
    stem, dot, ending = name.rpartition(".")
    if not dot or ending not in ("txt", "in", "toml"):
        return None
    if ending == "toml":
        return _STANDING["pylock.toml"] if name.startswith("pylock.") else None  # PEP 751: pylock.*.toml
    if not stem.startswith("requirements") and not stem.endswith(("-requirements", "_requirements")):
        return None
    return _OTHER_REQUIREMENTS if ending == "txt" else _UNCOMPILED_REQUIREMENTS


def _folder(path: str) -> list[str]:
    try:
        return [os.path.join(path, name) for name in os.listdir(path) if name.endswith(".txt")]
    except OSError:  # a file of that name, or closed to us
        return []


def _refers(text: str) -> bool:
    """Whether a file of requirements includes another one."""
    return any(line.lstrip().startswith(("-r", "-c", "--requirement", "--constraint")) for line in text.splitlines())


def _reader(name: str) -> Reader:
    if name == "pyproject.toml":
        from ds_lint.targets import pyproject

        return pyproject.requirements
    if name == "Pipfile.lock":
        from ds_lint.targets import pipfile

        return pipfile.requirements
    if name.endswith((".lock", ".toml")):
        from ds_lint.targets import locks

        return locks.requirements
    if name == "setup.cfg":
        from ds_lint.targets import setup_cfg

        return setup_cfg.requirements
    if name == "setup.py":
        from ds_lint.targets import setup_script

        return setup_script.requirements
    if name.startswith("environment."):
        from ds_lint.targets import conda

        return conda.requirements
    from ds_lint.targets import requirements_file

    return requirements_file.requirements
