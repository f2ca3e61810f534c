"""The recipe that a launch starts a training framework with, and what the command line sets over it."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.options import arguments
from ds_lint.launches.word import Word
from ds_lint.source.languages import YAML

if TYPE_CHECKING:
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.word import Argument

_ENDINGS = (*YAML, ".json")
_OF_LAUNCHERS = {"axolotl": "axolotl", "llamafactory-cli": "LLaMA-Factory", "swift": "ms-swift", "trl": "TRL"}
_OF_MODULES = {"axolotl.cli.train": "axolotl"}
_SEVERAL = "sweep"  # of axolotl: it trains with other values than the recipe has
_TOLD_BY_FLAG = "config"


class LaunchedRecipe(NamedTuple):
    """``framework`` is None if only the recipe can tell it; ``overrides`` are fields that the command line sets."""

    path: str
    framework: str | None
    overrides: dict[str, Argument]


def framework_of(launch: Launch) -> str | None:
    """The framework whose program a launch starts; None if only a recipe can tell it."""
    return _OF_LAUNCHERS.get(launch.launcher) or _OF_MODULES.get(launch.script or "")


def recipe_of(launch: Launch) -> LaunchedRecipe | None:
    """The recipe that a launch starts with; None if it has none.

    LLaMA-Factory and ms-swift take it as their first word, axolotl too, TRL's parser behind ``--config``. A script that
    parses with HfArgumentParser takes it as the only word.
    """
    framework = framework_of(launch)
    first, *rest = [*launch.flags, ""]
    if first is not None and not first.startswith("-") and first.endswith(_ENDINGS):
        path, left = first, list[Word](rest[:-1])
        if framework is None and not all(word is not None and _is_pair(word) for word in left):
            return None
    else:
        told = launch.arguments.get(_TOLD_BY_FLAG)
        if framework in ("axolotl", "LLaMA-Factory") or not (isinstance(told, str) and told.endswith(_ENDINGS)):
            return None
        path, left = told, launch.flags
    own = list[Word](takewhile(lambda word: word != "--", left))  # behind it, axolotl has options of the launcher
    overrides = {**arguments(own), **_pairs(own)}
    overrides.pop(_TOLD_BY_FLAG, None)
    if _SEVERAL in overrides:
        return None
    overrides.update({one.sets: None for one in launch.loose if one.sets is not None})
    return LaunchedRecipe(path, framework, overrides)


def _pairs(words: list[Word]) -> dict[str, Argument]:
    """``key=value``, as OmegaConf reads it."""
    pairs = (word.partition("=") for word in words if word is not None and _is_pair(word))
    return {name: value for name, _, value in pairs}


def _is_pair(word: str) -> bool:
    name, sign, _ = word.partition("=")
    return bool(sign) and name.isidentifier()
