"""Whether the cause of an exception of a rank is not the config, but the machine or another rank.

The type and the errno show it, or for ds-lint's own exceptions an attribute ``cause``. From C++ torch always raises
RuntimeError, and DeepSpeed and transformers assert that a package is installed: only for these, the text shows it.
"""

from __future__ import annotations

import errno
import re
import subprocess
import sys

_BY_ERRNO = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.ENOMEM: "memory",
    errno.EACCES: "file",
    errno.EROFS: "file",
    errno.EADDRINUSE: "port",
    errno.EMFILE: "open files",
    errno.ENFILE: "open files",
    errno.ECONNRESET: "peer",
    errno.EPIPE: "peer",
}
# Texts of errors whose type tells nothing, with who writes them.
_BY_TEXT = (
    # caffe2/serialize/inline_container.cc, which writes what torch.save writes
    (r"No space left|Disk quota exceeded|inline_container|enforce fail at .*write|iostream error", "disk"),
    (r"Permission denied|Read-only file system", "file"),
    # c10/core/impl/alloc_cpu.cpp; CUDAException.h for errors other than torch.OutOfMemoryError
    (r"[Cc]an(no|')t allocate memory|not enough memory|out of memory", "memory"),
    # cudaGetErrorString and torch/cuda/__init__.py, of a GPU or a driver that cannot be used
    (
        r"driver version is insufficient|driver on your system is too old|no NVIDIA driver|driver/library version",
        "driver",
    ),
    (r"no kernel image is available|kernel image is invalid", "architecture"),
    (r"(busy or unavailable|uncorrectable ECC|fallen off the bus|device not ready|GPU is lost)", "busy gpu"),
    # torch/cuda/__init__.py, torch/utils/cpp_extension.py, builder.py of deepspeed/ops, c10/core/Device.cpp
    (r"only support(s|ed) (for |NVIDIA )?CUDA|not compiled with CUDA|CUDA_HOME|No CUDA", "gpu"),
    (r"accelerator device when none is available|mixed dtype \(CPU\)|Invalid device string", "gpu"),
    # torch/utils/cpp_extension.py
    (r"Error building extension|[Nn]inja is required", "compiler"),
    # of transformers/utils/import_utils.py, and builder.py in deepspeed/ops/op_builder
    (r"No module named|[Pp]lease install|make sure it is installed|is not installed", "package"),
    # torch/csrc/distributed/c10d/socket.cpp
    (r"Address already in use|EADDRINUSE", "port"),
    # aten/src/ATen/MapAllocator.cpp
    (r"Too many open files", "open files"),
    # gloo/transport/tcp/pair.cc and torch/csrc/distributed/c10d/socket.cpp, of a rank whose peer is gone
    (r"gloo|Connection (closed|reset) by peer|Broken pipe|NCCL|store->get|Socket Timeout", "peer"),
)


def cause_of(error: BaseException) -> str | None:
    """The cause of an exception; None if it is unknown."""
    chain = (error, error.__cause__, error.__context__)
    own = (getattr(one, "cause", None) for one in chain if type(one).__module__.startswith("ds_lint."))
    return next(own, None) or _by_type(error) or _by_text(f"{type(error).__name__}: {error}")


def _by_text(text: str) -> str | None:
    return next((cause for pattern, cause in _BY_TEXT if re.search(pattern, text)), None)


def _by_type(error: BaseException) -> str | None:
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_ERRNO.get(error.errno)
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, ModuleNotFoundError):
        return "package"
    # _run_ninja_build in torch/utils/cpp_extension.py raises a RuntimeError from it.
    if isinstance(error, subprocess.CalledProcessError) or isinstance(error.__cause__, subprocess.CalledProcessError):
        return "compiler"
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(error, torch.OutOfMemoryError):
        return "memory"
    return "peer" if isinstance(error, _of_peers(torch.distributed)) else None


def _of_peers(distributed: object) -> tuple[type[BaseException], ...]:
    """NCCL's errors and those of the store, which a torch without distributed does not have."""
    names = ("DistBackendError", "DistStoreError")
    return tuple(getattr(distributed, name) for name in names if hasattr(distributed, name))
