"""The record of a launch: one command that starts training, with what follows from its words alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launchers import LAUNCHERS, by_name

if TYPE_CHECKING:
    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.launchers import Launcher
    from ds_lint.launches.surroundings import Surroundings
    from ds_lint.launches.word import Argument, LooseWord, Word

NO_LAUNCHER = ""  # of a script that nothing in the project starts


class Launch(NamedTuple):
    """One command that starts training. What is not known is None.

    ``line`` counts from 1 and is where the command starts. ``arguments`` are the flags of the program that is started,
    with underscores for dashes, and ``flags`` the words that they come from. ``unknown`` names what the words depend
    on: variables, parameters, substitutions. ``loose`` are those words behind the program that may be options, and
    ``loose_before`` is what those before it depend on. ``environment`` are the variables that the script exports. Paths
    are as the program gets them, and ``cwd`` is the folder from which they count, within the project. ``memory`` are
    the bytes of each node that the job asks for, and ``gpu`` is the kind of its GPUs, as the cluster calls it.
    ``redirections`` are those of the command if an option is taken for the file of one.
    """

    path: str
    line: int
    launcher: str
    nodes: int | None
    processes_per_node: int | None
    world_size: int | None
    command: list[Word]
    script: str | None
    accelerate_config: str | None
    deepspeed_config: str | None
    arguments: dict[str, Argument]
    unknown: list[str]
    loose: tuple[LooseWord, ...]
    loose_before: tuple[str, ...]
    flags: list[Word]
    environment: dict[str, Word]
    cwd: str | None
    surroundings: Surroundings
    memory: int | None
    gpu: str | None
    redirections: tuple[str, ...]

    @property
    def record(self) -> Launcher | None:
        """The record of the launcher; None if there is none."""
        return LAUNCHERS.get(self.launcher)

    @property
    def is_per_gpu(self) -> bool:
        """Whether the launcher starts one process for each GPU."""
        return self.record is not None and self.record.is_per_gpu

    @property
    def framework(self) -> Framework | None:
        """The framework whose program is started, by its name or as a module; None if only a recipe can tell it."""
        started = [one for one in (self.record, by_name().get(self.script or "")) if one is not None]
        return next((one.framework for one in started if one.framework is not None), None)


def without_launcher(script: str, words: list[Word]) -> Launch:
    """A script that nothing in the project starts, with these words: how many ranks it has is unknown."""
    from ds_lint.launches.surroundings import Surroundings
    from ds_lint.launches.word import LooseWord

    return Launch(
        path=script,
        line=1,
        launcher=NO_LAUNCHER,
        nodes=None,
        processes_per_node=None,
        world_size=None,
        command=words,
        script=script,
        accelerate_config=None,
        deepspeed_config=None,
        arguments={},
        unknown=[],
        loose=(LooseWord(("the command line",), None),) if None in words else (),
        loose_before=(),
        flags=words,
        environment={},
        cwd="",
        surroundings=Surroundings(None, None, None, None, False, None, (), (), False, None),
        memory=None,
        gpu=None,
        redirections=(),
    )
