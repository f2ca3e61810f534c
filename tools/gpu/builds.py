"""Build DeepSpeed's ops, all at once, while other things are measured: ``python -m tools.gpu.builds FOLDER DEVICE``.

What became of each is in ``FOLDER/built``, a file for each op, as soon as it is known. ``prepare`` comes first.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from ds_lint.smoke.processes import locks
from tools.gpu.record import read, write
from tools.gpu.setting import Later

if TYPE_CHECKING:
    from tools.gpu.setting import Result

OPS = {  # what is built for each device, the most used first
    "cuda": (
        "fused_adam", "cpu_adam", "async_io", "fused_lamb", "utils", "pin_memory", "cpu_lion", "fused_lion",
        "cpu_adagrad",
    ),
    "cpu": ("cpu_adam", "async_io"),
}  # fmt: skip
SECONDS = 480.0  # for all of them
LIBAIO = "DS_LINT_GPU_LIBAIO"  # the variable with the folder of its header and library, where the machine lacks them
_LONGEST = 4000  # characters of what a compiler says
_BUILT, _LINKED = "built", "linked"
_OF_DRIVERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
_LOAD = "from deepspeed.ops.op_builder.all_ops import ALL_OPS; ALL_OPS[{op!r}].load(verbose=False)"


def prepare(ops: str) -> None:
    """Keep what an earlier call has built, and remove what it has left beside that.

    A build that is killed leaves its lock, for which torch waits without end (torch/utils/file_baton.py); and the
    result of a failed build would be taken for that of the next one.
    """
    os.makedirs(os.path.join(ops, _BUILT), exist_ok=True)
    locks.remove(locks.stale(glob.glob(f"{glob.escape(ops)}/*/lock")))
    for one in results(ops):
        if not (one["is_built"] and is_built(ops, one["op"])):
            os.unlink(_place(ops, one["op"]))


def main(ops: str, device: str) -> int:
    """Build each op that is not built, in a process of its own, and write down what became of it."""
    _link_driver(ops)
    missing = [op for op in OPS[device] if read(_place(ops, op)) is None]
    with ThreadPoolExecutor(max(1, len(missing))) as builders:
        list(builders.map(partial(_build, ops, device), missing))
    return 0


def is_built(ops: str, op: str) -> bool:
    """Whether a build of an op has come to its end: torch holds a lock while it builds."""
    folder = os.path.join(ops, op)
    return os.path.isfile(os.path.join(folder, f"{op}.so")) and not os.path.exists(os.path.join(folder, "lock"))


def results(ops: str) -> list[Result]:
    """What became of each op, as far as it is known."""
    found = (read(_place(ops, op)) for op in dict.fromkeys(op for of_device in OPS.values() for op in of_device))
    return [one for one in found if one is not None]


def result(ops: str, op: str) -> Result | None:
    """What became of the build of an op; None if nothing builds it. Raises ``Later`` while it is built."""
    if not os.path.isdir(os.path.join(ops, _BUILT)):
        return None
    found = read(_place(ops, op))
    if found is None:
        raise Later
    return found


def environment(ops: str) -> dict[str, str]:
    """What a build needs beside the compiler: one architecture, and headers and libraries that the machine may lack.

    A toolkit with the compiler alone has no ``cusparse.h``, which torch includes; torch's own packages bring it. The
    driver's library may be where no linker looks, and without the name that it looks for.
    """
    of_torch = os.path.join(sysconfig.get_path("purelib"), "nvidia", "cu13", "include")
    toolkit = _toolkit()
    libaio = os.environ.get(LIBAIO)
    lacking = {
        "CPATH": [
            *([of_torch] if os.path.isdir(of_torch) and not os.path.exists(f"{toolkit}/include/cusparse.h") else []),
            *([f"{libaio}/include"] if libaio else []),
        ],
        "LIBRARY_PATH": [*([f"{libaio}/lib"] if libaio else []), os.path.join(ops, _LINKED)],
        "LD_LIBRARY_PATH": [f"{libaio}/lib"] if libaio else [],
    }
    joined = {
        name: os.pathsep.join(filter(None, [*found, os.environ.get(name, "")])) for name, found in lacking.items()
    }
    return {
        **os.environ,
        **{name: value for name, value in joined.items() if value},
        **({"CUDA_HOME": toolkit} if os.path.isdir(toolkit) else {}),
        "TORCH_CUDA_ARCH_LIST": _architectures(os.environ.get("TORCH_CUDA_ARCH_LIST", "9.0")),
        "TORCH_EXTENSIONS_DIR": ops,
        "MAX_JOBS": "2",  # of each of the builds
        "DS_NVCC_THREADS": "1",
    }


def _architectures(named: str) -> str:
    """Those that a machine names: of ``9.0a``, DeepSpeed reads numbers only (deepspeed/ops/op_builder/builder.py)."""
    return re.sub(r"(?<=\d)[af]\b", "", named)


def _toolkit() -> str:
    """The folder of the compiler: an ``nvcc`` on the path may be a script that starts it."""
    usual = os.environ.get("CUDA_HOME") or "/usr/local/cuda"
    found = shutil.which("nvcc")
    if os.path.exists(os.path.join(usual, "bin", "nvcc")) or found is None:
        return usual
    return os.path.dirname(os.path.dirname(os.path.realpath(found)))


def _link_driver(ops: str) -> None:
    """Give the library of the driver the name by which DeepSpeed links async_io, wherever it is."""
    folders = [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), *_OF_DRIVERS]
    every = (path for folder in filter(None, folders) for path in sorted(glob.glob(f"{folder}/libcuda.so*")))
    library = next(every, None)
    place = os.path.join(ops, _LINKED)
    os.makedirs(place, exist_ok=True)
    if library is not None and not os.path.lexists(f"{place}/libcuda.so"):
        os.symlink(library, f"{place}/libcuda.so")


def _build(ops: str, device: str, op: str) -> None:
    began = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-c", _LOAD.format(op=op)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**environment(ops), "DS_ACCELERATOR": device},
            timeout=SECONDS,
            check=False,
        )
        failed, output = done.returncode != 0, done.stdout
    except subprocess.TimeoutExpired as late:
        failed, output = True, f"{late.stdout!r}\nended after {SECONDS:g} s"
    seconds = round(time.monotonic() - began, 1)
    write(
        _place(ops, op),
        {"op": op, "is_built": not failed, "seconds": seconds, "said": output[-_LONGEST:] if failed else None},
    )


def _place(ops: str, op: str) -> str:
    return os.path.join(ops, _BUILT, f"{op}.json")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
