"""The CUDA toolkit and the tools with which torch compiles DeepSpeed's ops, found as torch finds them, by files.

Sources: ``_find_cuda_home``, ``get_cxx_compiler`` and ``is_ninja_available`` in ``torch/utils/cpp_extension.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import NamedTuple

from ds_lint.targets.text import text_of

_USUAL = "/usr/local/cuda"
_HEADERS = ("include/cuda.h", "targets/x86_64-linux/include/cuda.h", "targets/sbsa-linux/include/cuda.h")
_OWN_RELEASE = re.compile(r"-(\d+(?:\.\d+)*)\Z")  # x86_64-linux-gnu-g++-12


class Toolkit(NamedTuple):
    """A CUDA toolkit; ``release`` is None if no file of it tells, and ``has_compiler`` says whether nvcc is there."""

    home: str
    given_by: str
    release: str | None
    has_compiler: bool


class BuildTools(NamedTuple):
    """What compiles C++; None for what is not there."""

    compiler: str | None
    compiler_release: str | None  # by the name of its file; None if that does not tell
    ninja: str | None


def toolkit() -> Toolkit | None:
    """The toolkit that torch takes; None if there is none."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(variable):
            return _at(home, variable)
    nvcc = shutil.which("nvcc")
    if nvcc is not None:
        return _at(os.path.dirname(os.path.dirname(nvcc)), "nvcc on PATH")
    return _at(_USUAL, _USUAL) if os.path.exists(_USUAL) else None


def build_tools() -> BuildTools:
    """The compiler that torch starts, and ninja."""
    compiler = shutil.which(os.environ.get("CXX") or "c++")
    named = _OWN_RELEASE.search(os.path.basename(os.path.realpath(compiler))) if compiler is not None else None
    return BuildTools(compiler, named[1] if named is not None else None, shutil.which("ninja"))


def _at(home: str, given_by: str) -> Toolkit:
    has_compiler = os.path.isfile(os.path.join(home, "bin", "nvcc"))
    return Toolkit(home, given_by, _release(home), has_compiler)


def _release(home: str) -> str | None:
    """The release of nvcc, by ``version.json``, or that of the toolkit, by an older file or a header."""
    try:
        stated = json.loads(text_of(os.path.join(home, "version.json")) or "{}")
        for part in ("nvcc", "cuda_nvcc", "cuda"):  # nvcc is called cuda_nvcc there
            release = stated.get(part, {}).get("version")
            if isinstance(release, str):
                return release
    except (ValueError, AttributeError, RecursionError):
        pass
    older = re.search(r"CUDA Version (\d+(?:\.\d+)+)", text_of(os.path.join(home, "version.txt")))
    if older is not None:
        return older[1]
    for header in _HEADERS:
        number = re.search(r"#define\s+CUDA_VERSION\s+(\d+)", text_of(os.path.join(home, header)))
        if number is not None:
            return f"{int(number[1]) // 1000}.{int(number[1]) % 1000 // 10}"
    return None
