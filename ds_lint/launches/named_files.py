"""The files that a launch cannot do without, by the words that name them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.hostfile import MISSING
from ds_lint.launches.recipe import recipe_of
from ds_lint.source.languages import JSON, YAML

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.source.absent_name import Role

_CONFIGS = (*JSON, *YAML)  # other values of the flags are presets, or base64


class NamedFile(NamedTuple):
    """A file by the word that names it, and the program that opens it.

    ``meant`` is the config in the repository of a framework that the word hardly differs from, or "".
    """

    role: Role
    name: str
    taker: str
    meant: str = ""


def named_files(launch: Launch, script: TrainingScript | None) -> Iterator[NamedFile]:
    """The files that a launch names in known words."""
    around = launch.surroundings
    starts_file = around.inside is None and not _has(launch, "module", "m", "no_python")
    if starts_file and launch.script is not None and launch.script.endswith(".py"):
        yield NamedFile("script", launch.script, "Python")
    if launch.deepspeed_config is not None and launch.deepspeed_config.endswith(_CONFIGS):
        yield NamedFile("config", launch.deepspeed_config, "DeepSpeed")
    if launch.accelerate_config is not None and launch.accelerate_config.endswith(_CONFIGS):
        yield NamedFile("accelerate", launch.accelerate_config, "accelerate launch")
    recipe = recipe_of(launch, script._replace(ways=()) if script is not None else None)
    takes_recipe = launch.framework is not None or (script is not None and script.takes_recipe)
    if recipe is not None and takes_recipe:
        yield NamedFile("recipe", recipe.path, launch.launcher)
    hosts = around.option("hostfile", "H") if launch.launcher == "deepspeed" else around.option("deepspeed_hostfile")
    if hosts and hosts not in MISSING:
        yield NamedFile("hostfile", hosts, "deepspeed")


def _has(launch: Launch, *names: str) -> bool:
    return any(name in names for name, _ in launch.surroundings.options)
