"""The process of a notebook: its environment at each line, and what that makes of a training in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launch import without_launcher
from ds_lint.launches.surroundings import OF_RANKS, Surroundings
from ds_lint.source.counts import count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.notebook_python import EnvironmentChange
    from ds_lint.launches.scripts import WrittenConfig
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.source.notebook_cells import Notebook

_HOMES = ("/content", "/kaggle/working")  # where the notebooks of Colab and Kaggle start


class KernelEnvironment(NamedTuple):
    """The variables that a notebook has set when it comes to a line, None for a value that is not known.

    ``is_certain`` says that nothing else may have set any.
    """

    variables: dict[str, str | None]
    is_certain: bool


class NotebookReading(NamedTuple):
    """What a notebook does, with lines of the text of its cells, and its ``python``, which stands in the same lines."""

    notebook: Notebook
    python: str
    launches: list[Launch]
    misread: list[int]
    written: tuple[WrittenConfig, ...]
    changes: tuple[EnvironmentChange, ...]


def environment_at(line: int, changes: Iterable[EnvironmentChange]) -> KernelEnvironment:
    """The environment of a process when it comes to a line, after these changes in the order of their lines."""
    variables: dict[str, str | None] = {}
    is_certain = True
    for change in changes:
        if change.line > line:
            break
        if change.name is None:
            is_certain = False
        elif change.is_removed:
            variables.pop(change.name, None)
        elif not (change.is_default and change.name in variables):
            variables[change.name] = change.value
    return KernelEnvironment(variables, is_certain)


def in_home(name: str) -> str:
    """A path below the folder in which the notebooks of Colab or Kaggle start as one from there; others as they are."""
    for home in _HOMES:
        if name == home or name.startswith(f"{home}/"):
            return name[len(home) + 1 :] or "."
    return name


def in_notebook(path: str, script: TrainingScript, reading: NotebookReading) -> Launch:
    """The training of a notebook as a launch without a launcher: one process, unless it says otherwise."""
    environment = environment_at(script.engine_line, reading.changes)
    variables = environment.variables
    ranks = tuple(name for name in OF_RANKS if name in variables) if environment.is_certain else OF_RANKS
    size = count(variables["WORLD_SIZE"] or "") or None if "WORLD_SIZE" in variables else 1
    alone = without_launcher(path, [])
    return alone._replace(
        line=script.engine_line,
        environment=variables,
        surroundings=Surroundings(ranks=ranks),
        nodes=1 if size == 1 and environment.is_certain else None,
        world_size=size if environment.is_certain else None,
    )
