"""The recipe that a launch starts a training framework with, and what the command line sets over it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.frameworks import SCRIPT
from ds_lint.launches.options import arguments
from ds_lint.launches.word import Word
from ds_lint.source.languages import YAML

if TYPE_CHECKING:
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.launches.word import Argument

_ENDINGS = (*YAML, ".json")


class LaunchedRecipe(NamedTuple):
    """``framework`` is None if only the recipe can tell it; ``overrides`` are fields that the command line sets."""

    path: str
    framework: str | None
    overrides: dict[str, Argument]


def recipe_of(launch: Launch, script: TrainingScript | None) -> LaunchedRecipe | None:
    """The recipe that a launch starts with, or that the script names that it starts; None if there is none.

    LLaMA-Factory and ms-swift take it as their first word, axolotl too, TRL's parser behind ``--config``. A script that
    parses with HfArgumentParser takes it as the only word.
    """
    files = {way.file for way in script.ways} if script is not None else set()
    if len(files) == 1 and (file := files.pop()):
        return LaunchedRecipe(file, None, {})
    framework = launch.framework or SCRIPT
    flag = framework.recipe_flag
    first, *rest = [*launch.flags, ""]
    if first is not None and not first.startswith("-") and first.endswith(_ENDINGS):
        path, left = first, list[Word](rest[:-1])
        if framework is SCRIPT and not all(word is not None and _is_pair(word) for word in left):
            return None
    else:
        given = launch.arguments.get(flag) if flag is not None else None
        if not (isinstance(given, str) and given.endswith(_ENDINGS)):
            return None
        path, left = given, launch.flags
    own = list[Word](takewhile(lambda word: word != "--", left))  # behind it, axolotl has options of the launcher
    overrides = {**arguments(own), **_pairs(own)}
    if flag is not None:
        overrides.pop(flag, None)
    if framework.sweeps is not None and framework.sweeps in overrides:
        return None
    overrides.update({one.sets: None for one in launch.loose if one.sets is not None})
    return LaunchedRecipe(path, framework.name if framework is not SCRIPT else None, overrides)


def _pairs(words: list[Word]) -> dict[str, Argument]:
    """``key=value``, as OmegaConf reads it."""
    pairs = (word.partition("=") for word in words if word is not None and _is_pair(word))
    return {name: value for name, _, value in pairs}


def _is_pair(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()
