"""The files below a folder that may hold a DeepSpeed config."""

from __future__ import annotations

import os
import stat

from ds_lint.project.gitignore import Ignored
from ds_lint.source.languages import SEARCHED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    LeavesOut: TypeAlias = Callable[[str, bool], bool]  # a path, and whether it is a folder


# What a search leaves out unless the settings say otherwise: hidden folders, and those that tools fill.
EXCLUDED = (
    ".*/", "__pycache__/", "build/", "dist/", "env/", "node_modules/", "site-packages/", "venv/", "wandb/",
)  # fmt: skip

_OF_TOOLS = ("pyproject.toml", "ds-lint.toml", "pixi.toml", "Cargo.toml")  # which hold no config
ENDINGS = (".json", ".jsonc", ".hjson", *SEARCHED)  # .pre-commit-hooks.yaml has them too


def candidates(
    directory: str,
    on_error: Callable[[OSError], None],
    *,
    leaves_out: LeavesOut = lambda _path, _is_folder: False,
    respects_gitignore: bool = False,
    included: Callable[[str, list[str]], list[str]] | None = None,
    wants: Callable[[str], bool] | None = None,
) -> Iterator[str]:
    """The files below a directory in a language that configs are written in, in a stable order.

    ``included`` tells which names in a folder are looked at instead, and ``wants`` whether another search looks for a
    name. ``on_error`` hears of the folders that cannot
    be opened; ``leaves_out`` says whether a file or folder is excluded.
    """
    ignored = Ignored(directory, on_error) if respects_gitignore else None
    for here, folders, files in os.walk(directory, onerror=on_error):
        if wants is not None:
            names = sorted(filter(wants, files))
        else:
            usual = [name for name in files if name.endswith(ENDINGS)] if included is None else included(here, files)
            names = sorted(name for name in usual if name not in _OF_TOOLS)
        if ignored is not None:
            in_folder = ignored.entering(here, (*folders, *files))
            if in_folder is not None:
                folders[:] = [name for name in folders if not in_folder.ignores(name, is_folder=True)]
                names = [name for name in names if not in_folder.ignores(name, is_folder=False)]
        folders[:] = sorted(name for name in folders if not leaves_out(os.path.join(here, name), True))
        for name in names:
            path = os.path.join(here, name)
            if not leaves_out(path, False) and _may_be_file(path):
                yield path


def _may_be_file(path: str) -> bool:
    """Whether there is a file, or something that cannot be looked at: who opens it says why. A dead link is neither."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False
