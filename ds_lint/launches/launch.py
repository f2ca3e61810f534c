"""The record of a launch: one command that starts training, with what follows from its words alone."""

from __future__ import annotations

import os
import posixpath
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launchers import LAUNCHERS, by_module
from ds_lint.launches.surroundings import Surroundings
from ds_lint.launches.word import LooseWord

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.container import Container
    from ds_lint.launches.launchers import Launcher
    from ds_lint.launches.word import Argument, UnknownWord, Word

_OLDER_TORCHRUN = "torch.distributed.launch"
_OTHER_WAYS = ("autotuning", "elastic_training")  # of ``deepspeed`` to start a script
_OF_ARGUMENTS = (".json", ".yaml", ".yml")
NOT_SET = object()
NO_LAUNCHER = ""  # of a script that nothing in the project starts


def last_line(lines: Sequence[str], first: int) -> int:
    """The last line of a command that begins in a line, both counted from 1: a backslash joins the next one."""
    last = first
    while last < len(lines) and lines[last - 1].rstrip().endswith("\\"):
        last += 1
    return last


class Launch(NamedTuple):
    """One command that starts training. What is not known is None.

    ``line`` counts from 1 and is where the command starts. ``arguments`` are the flags of the program that is started,
    with underscores for dashes, and ``flags`` the words that they come from. ``unknown`` names what the words depend
    on: variables, parameters, substitutions. ``loose`` are those words behind the program that may be options, and
    ``loose_before`` is what those before it depend on. ``environment`` are the variables that the script exports. Paths
    are as the program gets them, and ``cwd`` is the folder from which they count, within the project. ``memory`` are
    the bytes of each node that the job asks for, or its container may use, and ``gpu`` is the kind of its GPUs, as the
    cluster calls it. ``redirections`` are those of the command if an option is taken for the file of one, and
    ``cut_off`` the words behind the command that the shell takes for another one. ``around`` is the ``srun`` or
    ``mpirun`` that runs a text or a script with it. ``set_in`` are the other files that set variables of the
    environment, by their names, and ``container`` is the one around it. ``own_words`` are those of a launcher that
    starts a process for each GPU, before the script; ``behind`` those behind the program as they are,
    each with what is known of it if it is unknown. ``shipped_by`` is the framework whose repository has the config
    that is named, if the project does not have it.
    """

    path: str
    line: int
    launcher: str
    command: list[Word]
    flags: list[Word]
    arguments: dict[str, Argument]
    environment: dict[str, Word]
    unknown: list[str]
    cwd: str | None
    script: str | None
    nodes: int | None = None
    processes_per_node: int | None = None
    world_size: int | None = None
    accelerate_config: str | None = None
    deepspeed_config: str | None = None
    loose: tuple[LooseWord, ...] = ()
    loose_before: tuple[str, ...] = ()
    surroundings: Surroundings = Surroundings()
    memory: int | None = None
    gpu: str | None = None
    redirections: tuple[str, ...] = ()
    cut_off: tuple[Word, ...] = ()
    around: tuple[Word, ...] = ()
    set_in: tuple[tuple[str, str], ...] = ()
    container: Container | None = None
    own_words: tuple[Word, ...] = ()
    behind: tuple[tuple[Word, UnknownWord | None], ...] = ()
    shipped_by: Framework | None = None

    def within(self, container: Container | None) -> Launch:
        """The same in a container, which may limit the memory further."""
        if container is None:
            return self
        known = [one for one in (self.memory, container.memory) if one is not None]
        return self._replace(container=self.container or container, memory=min(known, default=None))

    @property
    def record(self) -> Launcher | None:
        """The record of the launcher; None if there is none."""
        return LAUNCHERS.get(self.launcher)

    @property
    def is_per_gpu(self) -> bool:
        """Whether the launcher starts one process for each GPU."""
        return self.record is not None and self.record.is_per_gpu

    @property
    def added_option(self) -> str:
        """The option with the local rank that the launcher puts before the words of the script; empty if none.

        Sources: ``main`` in ``deepspeed/launcher/launch.py``, ``config_from_args`` in ``torch/distributed/run.py``; the
        runners for MPI and Slurm in ``deepspeed/launcher/multinode_runner.py`` start the script itself, without it.
        """
        around = self.surroundings
        if not around.is_complete or around.inside is not None or around.has("no_python"):
            return ""
        if self.launcher == "deepspeed":
            starts_by_itself = (around.option("launcher") or "pdsh").lower() == "pdsh"
            return "--local_rank" if starts_by_itself and not around.has("no_local_rank", *_OTHER_WAYS) else ""
        is_older = self.launcher == "torchrun" and _OLDER_TORCHRUN in self.command
        return "--local-rank" if is_older and not around.has("use_env") else ""

    @property
    def only_file(self) -> str:
        """The file of arguments that is the only word behind the script; empty if it is not."""
        only = (self.flags[0] if len(self.flags) == 1 else None) or ""
        return only if only.endswith(_OF_ARGUMENTS) and not only.startswith("-") and not self.loose else ""

    @property
    def first_word(self) -> str:
        """The first word behind the script; empty if it is an option, or not known."""
        first = (self.flags[0] if self.flags else None) or "-"
        return "" if first.startswith("-") or self.loose else first

    def plugin_setting(self, name: str, variable: str) -> Any:
        """What the command gives a field of Accelerate's plugin; None if it is unknown, NOT_SET if it gives nothing.

        ``accelerate launch`` makes the variable of the flag.
        """
        if self.launcher == "accelerate" and self.surroundings.has(name):
            return self.surroundings.option(name)
        return self.environment.get(variable, NOT_SET)

    def names_yaml(self, path: str) -> bool:
        """Whether this is ``accelerate launch`` with a YAML of that name."""
        named = self.accelerate_config if self.launcher == "accelerate" else None
        return named is not None and posixpath.basename(named) == os.path.basename(path)

    @property
    def framework(self) -> Framework | None:
        """The framework whose program is started, by its name or as a module; None if only a recipe can tell it."""
        records = (self.record, by_module().get(self.script or ""))
        return next((one.framework for one in records if one is not None and one.framework is not None), None)


def module_places(name: str) -> list[str]:
    """Where the module behind ``-m`` may be: a file, a package, or either in ``src``; none if it is not a module."""
    if not all(part.isidentifier() for part in name.split(".")):
        return []
    place = name.replace(".", "/")
    return [f"{folder}{place}{ending}" for folder in ("", "src/") for ending in (".py", "/__main__.py")]


def without_launcher(script: str, words: list[Word]) -> Launch:
    """A script that nothing in the project starts, with these words: how many ranks it has is unknown."""
    loose = (LooseWord(("the command line",), None),) if None in words else ()
    return Launch(script, 1, NO_LAUNCHER, words, words, {}, {}, [], "", script, loose=loose)
