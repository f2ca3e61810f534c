"""DeepSpeed's ops as the runs here get them: those that were built, and stand-ins for the others."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.standins import device as of_device
from ds_lint.smoke.standins import ops as standins
from tools.gpu import builds
from tools.gpu.setting import OPS

if TYPE_CHECKING:
    from collections.abc import Sequence

_loaded: dict[str, Any] = {}


class OpNotBuilt(RuntimeError):  # noqa: N818 - what is missing
    """A claim about a kernel, and the kernel is not there (yet)."""


def provide(device: str, needed: Sequence[str] = (), compiled: Sequence[str] = ()) -> None:
    """Give DeepSpeed each op that is built, and a stand-in where an op is not, unless it is ``needed``.

    A rehearsal on the CPU has stand-ins for all. DeepSpeed itself compiles those in ``compiled``, or fails to.
    """
    from deepspeed.ops.op_builder.builder import OpBuilder

    compiles = OpBuilder.jit_load
    if not hasattr(OpBuilder, "_stand_in"):
        standins.install(builds=False)
        of_device.ask_no_processor()
        OpBuilder._stand_in, OpBuilder._compiles = OpBuilder.jit_load, compiles  # noqa: SLF001 - for a second run
    if device == "cpu":
        of_device.stand_in_of_deepspeed()

    def load(builder: Any, verbose: bool = True) -> Any:
        if builder.name in compiled:
            return OpBuilder._compiles(builder, verbose)  # noqa: SLF001
        if device != "cpu" and _is_built(builder.name):
            return _library(builder.name)
        if device != "cpu" and builder.name in needed:
            raise OpNotBuilt(f"{builder.name} is not built in {_folder(builder.name)}")
        return OpBuilder._stand_in(builder, verbose)  # noqa: SLF001

    OpBuilder.jit_load = load


def compile_all() -> None:
    """Leave every op to DeepSpeed, which compiles it, or fails to."""
    from deepspeed.ops.op_builder.builder import OpBuilder

    OpBuilder.jit_load = getattr(OpBuilder, "_compiles", OpBuilder.jit_load)


def copy(ops: Sequence[str]) -> None:
    """Let other processes find built ops in a folder of this run, as they find them after a build."""
    os.environ.update(builds.environment(os.path.abspath("extensions")))
    for op in ops:
        if not _is_built(op):
            raise OpNotBuilt(f"{op} is not built in {_folder(op)}")
        shutil.copytree(_folder(op), os.path.join(os.environ["TORCH_EXTENSIONS_DIR"], op), dirs_exist_ok=True)


def used() -> dict[str, str]:
    """Each op that a run has loaded, with where it comes from."""
    return {**dict.fromkeys(standins.used(), "stand-in"), **dict.fromkeys(_loaded, "built")}


def _folder(op: str) -> str:
    return os.path.join(os.environ.get(OPS, ""), op)


def _is_built(op: str) -> bool:
    return builds.is_built(os.environ.get(OPS, ""), op)


def _library(op: str) -> Any:
    """The compiled module, as torch imports it after a build.

    Torch's own ``load`` would first ask ninja whether it is up to date, and build it again where a variable differs.
    """
    from torch.utils import cpp_extension

    if op not in _loaded:
        if libaio := os.environ.get(builds.LIBAIO):
            for library in sorted(glob.glob(f"{libaio}/lib/libaio.so*")):
                ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)  # the linker does not know this folder
        _loaded[op] = cpp_extension._import_module_from_library(op, _folder(op), True)  # noqa: SLF001 - as ``load`` does
    return _loaded[op]
