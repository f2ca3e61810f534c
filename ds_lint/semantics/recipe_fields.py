"""The fields of a recipe, and the arguments of the command that starts a framework, that it does not take."""

from __future__ import annotations

import re
from collections import Counter
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.own_framework import own_fields
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge.framework_fields import FrameworkFields
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.options import is_flag
from ds_lint.launches.recipe import recipe_of
from ds_lint.semantics.refused_fields import (
    RefusedField,
    field_twice,
    pair_behind_recipe,
    refused_field,
    refused_value,
    unknown_field,
)
from ds_lint.source.recognition import NAMES_CONFIG
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.own_framework import FrameworkCopies
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.word import Word
    from ds_lint.source.document import Document
    from ds_lint.targets.pin import Pin

_NAME = re.compile(r"[A-Za-z_][\w-]*")  # else a person is to replace it, or a template does
_SWITCHES_OFF = ("ALLOW_EXTRA_ARGS", "USE_MCA", "USE_V1")  # with which LLaMA-Factory takes other fields
_MOST_STRANGE = 2  # fields that no release has, and that resemble none
_TAKES_ALL = "ignore_args_error"  # of ms-swift


class RefusedArgument(NamedTuple):
    """A word of a command line, or a field of the recipe that it names, with its place and what happens."""

    refused: RefusedField
    document: Document
    span: Span
    name: str


def refused_in_recipe(
    recipe: TrainingRecipe, pins: Mapping[str, Pin], launch: LaunchFacts | None, copies: FrameworkCopies
) -> Iterator[tuple[str, RefusedField]]:
    """What the framework of a recipe does not take of it, as far as the recipe itself says it."""
    framework = FRAMEWORKS.get(recipe.framework)
    if framework is None or framework.fields is None or _takes_others(framework, launch, recipe):
        return
    fields = FrameworkFields(framework, pins, own_fields(framework, recipe.document.path, copies))
    command = _command(framework, launch)
    written = {name: one for name, one in recipe.fields.items() if recipe.place_of(name) is not None}
    strange = [name for name in written if fields.lacking(name, command) and fields.meant(name, command) is None]
    if not fields.is_pinned and fields.own is None and len(strange) > _MOST_STRANGE:
        return  # of a fork, or of another program
    twice = _twice(recipe)
    for name, argument in written.items():
        if not _NAME.fullmatch(name):
            continue
        if argument.value is None and framework.ignores_unknown:
            continue
        found = field_twice(name, fields) if name in twice else None
        found = found or unknown_field(name, fields, command, set_too=recipe.fields)
        if found is None and name != NAMES_CONFIG:
            found = refused_field(name, argument.value, fields) or refused_value(name, argument.value, fields, command)
        if found is not None:
            yield name, found


def refused_at_launch(
    launch: LaunchFacts, pins: Mapping[str, Pin], copies: FrameworkCopies
) -> Iterator[RefusedArgument]:
    """What the framework does not take of the command that starts it, and of a recipe that names no config."""
    framework = launch.launch.framework
    recipe = launch.recipe
    layout = framework.fields if framework is not None else None
    if framework is None or layout is None or layout.is_pydantic or _takes_others(framework, launch, recipe):
        return  # axolotl hands words on to the launcher
    fields = FrameworkFields(framework, pins, own_fields(framework, launch.document.path, copies))
    command = _command(framework, launch)
    for word, name, value in _arguments(launch, framework):
        if framework.pairs_since and recipe_of(launch.launch, launch.script) is not None:
            refused = pair_behind_recipe(word, fields)
            if refused is not None:
                yield RefusedArgument(refused, launch.document, _place_of(word, launch), name)
                break  # it holds for all of them
        found = unknown_field(name, fields, command, shown=word, set_too=launch.launch.arguments, is_flag=True)
        if found is None and value is not None and not _is_compared(name, launch):
            found = refused_value(name, value, fields, command, shown=word, is_flag=True)
        if found is not None:
            yield RefusedArgument(found, launch.document, _place_of(word, launch), name)
    if recipe is not None and recipe.place is None and recipe.framework == framework.name:
        for name, found in refused_in_recipe(recipe, pins, launch, copies):
            yield RefusedArgument(found, recipe.document, recipe.place_of(name) or Span(0, 0), name)


def _is_compared(name: str, launch: LaunchFacts) -> bool:
    """Whether a rule about training arguments reports the value."""
    given = launch.training.given.get(name.replace("-", "_")) if launch.training is not None else None
    return given is not None and given.is_flag and given.value is not UNKNOWN


def _twice(recipe: TrainingRecipe) -> set[str]:
    """The fields that a recipe has more than once."""
    root = recipe.document.root
    count = Counter(member.key for member in root.members) if root is not None else {}
    return {name for name, times in count.items() if times > 1}


def _arguments(launch: LaunchFacts, framework: Framework) -> Iterator[tuple[str, str, list[Word] | None]]:
    """The arguments of a command line: the word as it is written, the field, and the values; None if one is unknown."""
    words: list[Word] = launch.launch.flags
    named = recipe_of(launch.launch, launch.script)
    if named is not None and framework.recipe_flag is None:
        words = words[1:]
    if framework.pairs_since and named is not None:
        yield from _pairs(words)
        return
    for at, word in enumerate(words):
        if word == "--":
            return
        if word is None or not is_flag(word) or not word.startswith("--"):
            continue
        written = word.partition("=")[0]
        name = written.lstrip("-")
        if name == framework.recipe_flag or not _NAME.fullmatch(name):
            continue
        values: list[Word] = [word.partition("=")[2]] if "=" in word else list(takewhile(_is_value, words[at + 1 :]))
        yield written, name, None if None in values else values


def _is_value(word: Word) -> bool:
    return word is None or not is_flag(word)


def _pairs(words: list[Word]) -> Iterator[tuple[str, str, None]]:
    """``key=value`` behind a recipe of LLaMA-Factory; a value is YAML, of which little is certain."""
    for word in words:
        if word is None:
            continue
        key, _, _ = word.partition("=")
        if "." not in key and "[" not in key:
            yield key, key, None


def _command(framework: Framework, launch: LaunchFacts | None) -> str:
    """The word behind the program, if the fields depend on it."""
    layout = framework.fields
    if layout is None or launch is None or launch.launch.framework is not framework:
        return ""
    return next((word for word in launch.launch.command if word in layout.roots), "")


def _takes_others(framework: Framework, launch: LaunchFacts | None, recipe: TrainingRecipe | None) -> bool:
    """Whether something lets the framework take fields that are not known."""
    environment = launch.launch.environment if launch is not None else {}
    if any(environment.get(name, "0") not in ("0", "false", "False", "") for name in _SWITCHES_OFF):
        return True
    given = launch.launch.arguments if launch is not None else {}
    if _TAKES_ALL in given or (recipe is not None and recipe.value(_TAKES_ALL) not in (None, False)):
        return True
    return recipe is not None and framework.ignores_unknown and framework.trains_otherwise(recipe.value)


def _place_of(word: str, launch: LaunchFacts) -> Span:
    """Where a word of the command is; its line if it comes from a variable."""
    text, start = launch.document.text, launch.place.start
    found = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])").search(text, start)
    return launch.place if found is None else Span(found.start(), found.end())
