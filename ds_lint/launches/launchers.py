"""What starts training: one record for each launcher, which everything else about it follows from."""

from __future__ import annotations

import posixpath
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.launches import ranks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.ranks import Ranks
    from ds_lint.launches.start import LauncherCall


class Launcher(NamedTuple):
    """A program that starts ranks, by the name that reports have for it.

    ``programs``, and ``modules`` that ``python -m`` starts, have the words of which one must be behind them; none if
    there is no such word. ``ranks`` reads off a call how many it starts. One that
    ``is_per_gpu`` starts a process for each GPU, with options of its own before the script: ``parser`` is the library
    that has their parser and the files there, and ``as_module`` the option that starts a module instead of a script.
    One that ``is_around`` others starts any program on any node.
    """

    name: str
    programs: Mapping[str, tuple[str, ...]]
    ranks: Callable[[LauncherCall], Ranks]
    modules: Mapping[str, tuple[str, ...]] = {}
    is_per_gpu: bool = False
    is_around: bool = False
    parser: tuple[str, tuple[str, ...]] | None = None
    as_module: str = "-m"
    framework: Framework | None = None  # whose program it is

    @property
    def starts_anything(self) -> bool:
        """Whether it starts any program or script, most of which do not train."""
        return not self.is_per_gpu and self.framework is None

    @property
    def mixes_options(self) -> bool:
        """Whether the options of the launcher that it starts are among its own."""
        program = self.framework.program if self.framework is not None else None
        return program is not None and program.starts == "accelerate"


DEEPSPEED = Launcher(
    "deepspeed",
    dict.fromkeys(("deepspeed", "ds", "deepspeed.pt"), ()),
    ranks.of_deepspeed,
    {"deepspeed.launcher.runner": ()},
    is_per_gpu=True,
    parser=("deepspeed", ("deepspeed/launcher/runner.py",)),
    as_module="--module",
)
TORCHRUN = Launcher(
    "torchrun",
    {"torchrun": ()},
    ranks.of_torchrun,
    dict.fromkeys(("torch.distributed.run", "torch.distributed.launch"), ()),
    is_per_gpu=True,
    parser=("torch", ("torch/distributed/run.py", "torch/distributed/launch.py")),
)
ACCELERATE = Launcher(
    "accelerate",
    {"accelerate": ("launch",), "accelerate-launch": ()},
    ranks.of_accelerate,
    {"accelerate.commands.launch": (), "accelerate.commands.accelerate_cli": ("launch",)},
    is_per_gpu=True,
    parser=("accelerate", ("accelerate/commands/launch.py",)),
)
SRUN = Launcher("srun", {"srun": ()}, ranks.of_srun, is_around=True)
MPIRUN = Launcher(
    "mpirun", dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun"), ()), ranks.of_mpirun, is_around=True
)
PYTHON = Launcher("python", {}, ranks.of_python)  # under any name, as ``invocation`` knows it
UNKNOWN = Launcher("?", {}, lambda _: ranks.Ranks())  # a word that is not known, such as ``$LAUNCHER``


_OF_DEEPSPEED = "deepspeed.launcher."  # modules that its launcher starts on each node


def _of_framework(framework: Framework) -> list[Launcher]:
    """The launcher that the program of a framework is: its first name."""
    if framework.program is None:
        return []
    counts = ranks.of_starter if framework.program.starts == "accelerate" else ranks.of_environment
    programs, modules = framework.program.programs, framework.program.modules
    return [Launcher(next(iter(programs)), programs, counts, modules, framework=framework)]


LAUNCHERS = {
    one.name: one
    for one in (
        *(DEEPSPEED, TORCHRUN, ACCELERATE, SRUN, MPIRUN, PYTHON),
        *(launcher for framework in FRAMEWORKS.values() for launcher in _of_framework(framework)),
    )
}


@cache
def by_program() -> dict[str, Launcher]:
    """The launchers by the names of their programs."""
    return {name: one for one in LAUNCHERS.values() for name in one.programs}


@cache
def by_module() -> dict[str, Launcher]:
    """The launchers by the modules that ``python -m`` starts."""
    return {name: one for one in LAUNCHERS.values() for name in one.modules}


def names_per_gpu() -> dict[str, Launcher]:
    """The launchers that start a process for each GPU, which are programs in Python, by program and by module."""
    return {name: one for name, one in (by_program() | by_module()).items() if one.is_per_gpu}


def is_launcher(words: list[str]) -> bool:
    """Whether a Python with this command line runs one of them, which imports the libraries and trains nothing."""
    names = [posixpath.basename(word) for word in words[1:4]]  # behind options of Python
    return any(name in names_per_gpu() or name.startswith(_OF_DEEPSPEED) for name in names)
