"""What runs keep: their folders with ``--smoke-keep``, and compiled kernels of a GPU in the cache of the user."""

from __future__ import annotations

import itertools
import os
import shutil


def keep(folder: str, into: str, config: str) -> str:
    """Move the folder of a run and return its new path; existing files stay unchanged."""
    kept = _free(os.path.join(into, _below(config)))
    os.makedirs(os.path.dirname(kept), exist_ok=True)
    shutil.move(folder, kept)
    return kept


def kernel_caches() -> dict[str, str]:
    """Where ranks on a GPU keep compiled kernels from run to run, by the variable; the user's own settings count."""
    folders = {"CUDA_CACHE_PATH": "cuda", "TRITON_CACHE_DIR": "triton"}
    kept = {name: os.path.join(user_cache(), "ds-lint", "kernels", folder) for name, folder in folders.items()}
    return {name: os.environ.get(name, folder) for name, folder in kept.items()}


def user_cache() -> str:
    """The folder for caches of this user."""
    return os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")


def _below(config: str) -> str:
    """The path of a config relative to another folder: from the working directory, or else from the root."""
    path = os.path.relpath(config)
    if path.startswith(os.pardir):
        path = os.path.splitdrive(os.path.abspath(config))[1].lstrip(os.sep)
    return path


def _free(path: str) -> str:
    names = itertools.chain([path], (f"{path}-{number}" for number in itertools.count(2)))
    return next(name for name in names if not os.path.lexists(name))
