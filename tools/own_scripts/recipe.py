"""A public script, and how it is run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tools.own_scripts import materials as made

TRAINER, ACCELERATE, DEEPSPEED, TORCH = "trainer", "accelerate", "deepspeed", "torch"
TORCHRUN = "torchrun --nproc-per-node 2 --master-port {port}"
LAUNCHER = "deepspeed --num_gpus 2 --master_port {port}"
LAUNCH = "accelerate launch --num_processes 2 --main_process_port {port} --use_deepspeed"


class Source(NamedTuple):
    """Where a script comes from: a repository on GitHub at a commit, or an installed package."""

    name: str
    commit: str = ""
    paths: tuple[str, ...] = ()

    @property
    def is_package(self) -> bool:
        """Whether it is installed, and not a repository."""
        return not self.commit


class Recipe(NamedTuple):
    """A script and how it is run."""

    name: str
    source: Source
    script: str  # the path in the repository, or the module of the package
    launcher: str
    stack: str
    engines: int  # that the script makes, and trains or not
    command: str
    materials: tuple[made.Make, ...]
    importable: tuple[str, ...] = ()  # folders of the source that the script imports from
    older: str = ""  # the library of which it needs another release than the installed one, such as deepspeed 0.16.9
    wrapping: str = ""  # FSDP 1 or 2, in the place of an engine of DeepSpeed
