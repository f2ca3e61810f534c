"""The training arguments of a script under a launch, from what the script shows and what the command line says.

A script may make them in several ways: what these agree about is known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.argument_values import kind_of
from ds_lint.facts.class_default import ClassDefault, differing
from ds_lint.facts.script_values import converted, flag_of, script_value
from ds_lint.facts.training import Argument, TrainingArguments, flag_values
from ds_lint.knowledge import tables
from ds_lint.knowledge.trl import class_called
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.argument_classes import TRANSFORMERS, TRL
from ds_lint.launches.model_sources import ARGS
from ds_lint.launches.training_ways import Expression

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.launches.argument_classes import ArgumentsClass
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.launches.training_ways import ArgumentsWay, KeywordArgument

_OF_LIBRARY = object()  # a default that the class of the project leaves as it is
_ONE_ARGUMENT = re.compile(rf"{ARGS}\.(\w+)")


class StartedScript(NamedTuple):
    """A script and how it is started. ``is_loose`` says that unknown words may give any flag.

    ``at`` makes an argument of a value with its place in the script, and ``behind`` one of a value that a flag gives.
    """

    script: TrainingScript
    launch: Launch
    recipe: TrainingRecipe | None
    flags: Mapping[str, Argument]
    is_loose: bool
    origin: str
    at: Callable[[Any, KeywordArgument], Argument]
    behind: Callable[[Any, str], Argument]


class _MadeArguments(NamedTuple):
    """What one way gives, and what the other fields are that it knows of; UNKNOWN also where it knows nothing."""

    given: dict[str, Argument]
    defaults: dict[str, Any]
    changes: tuple[tuple[str, bool], ...]


def script_training(started: StartedScript) -> TrainingArguments:
    """What is known of the training arguments."""
    fields, script = tables.load("transformers")["training_arguments"], started.script
    made = [_made(started, way) for way in script.ways] or [_of_nothing(started)]
    given, defaults = _agreed([(one.given, one.defaults) for one in made])
    if (resumed := script.keywords.get("resume_from_checkpoint")) is not None:  # of ``Trainer.train``, too
        given["resume_from_checkpoint"] = _keyword(started, resumed)
    changes = script.changes
    later: dict[str, Argument] = {}
    unknown = {name for one in made for name, _ in one.changes} | script.unused
    for name in fields if changes.rest else unknown:
        later[name] = Argument(UNKNOWN, started.origin)
    for name, change in changes.fields.items():
        if name in fields:
            later[name] = _keyword(started, change) if name not in later else later[name]
    for name in (*changes.remade, *later) if changes.is_copied else ():  # by a copy, which is compared with the config
        if name in fields:
            given.pop(name, None)
            defaults[name] = UNKNOWN
    return TrainingArguments(
        given,
        started.origin,
        are_taken=True,
        defaults=defaults,
        defaults_of=_who_has_defaults(started),
        later=_of_fields(later),
    )


def _who_has_defaults(started: StartedScript) -> str:
    """The module whose defaults count over those of transformers: the script, or one that it imports the class from."""
    own = [way.of.path for way in started.script.ways if way.of.fields]
    script = str(started.launch.script)
    return "" if not own else own[0] if own[0] and not own[0].endswith(script) else script


def _of_fields(given: dict[str, Argument]) -> dict[str, Argument]:
    fields = tables.load("transformers")["training_arguments"]
    return {name: one for name, one in given.items() if name in fields}


def _made(started: StartedScript, way: ArgumentsWay) -> _MadeArguments:
    names = tables.load("transformers")["training_arguments"]
    takes_line = way.takes_flags and way.words is None
    defaults: dict[str, Any] = {}
    if not (takes_line and started.is_loose) and not way.is_open:
        defaults = {name: field.default for name, field in way.of.fields.items()}
    given = {name: _keyword(started, keyword) for name, keyword in way.given.items()}
    recipe = started.recipe
    is_complete = way.of.is_known and bool(way.of.library) and not way.is_open and way.file != ""
    if recipe is not None and recipe.training is not None and (takes_line or way.file is not None):
        given.update(recipe.training.given)
        is_complete = way.of.is_known and bool(way.of.library)
    elif way.file is not None:
        defaults, is_complete = {}, False
    elif way.takes_flags and not way.is_open:
        given.update(_flags(started, way))
        is_complete = is_complete and not (takes_line and started.is_loose)
    unknown = _unknown_of(way.of) if is_complete else dict.fromkeys(names, UNKNOWN)
    defaults.update({name: one for name, one in unknown.items() if name not in given and name not in defaults})
    for name, is_before in way.of.changes:
        if is_before:
            given.pop(name, None)
            defaults[name] = UNKNOWN
    if not way.of.is_known or (way.of.library == TRL and not _are_of_trl(way)):
        given, defaults = {}, dict.fromkeys(names, UNKNOWN)
    return _MadeArguments(given, defaults, way.of.changes)


def _of_nothing(started: StartedScript) -> _MadeArguments:
    """Where the script does not show how it makes them: its flags may be their fields."""
    names, recipe = tables.load("transformers")["training_arguments"], started.recipe
    given: dict[str, Argument] = {}
    if recipe is not None and recipe.training is not None:
        given.update(recipe.training.given)
    elif started.script.parses_flags:
        given.update(started.flags)
    return _MadeArguments(given, {name: UNKNOWN for name in names if name not in given}, ())


def _unknown_of(of: ArgumentsClass) -> dict[str, Any]:
    """The fields of which a class of a library has defaults of its own, which its release tells if that is known."""
    if of.library != TRL:
        return {}
    name = class_called(of.root) if of.root else ""
    if name and (own := differing(name)):
        return {field: ClassDefault(name, field) for field in own}
    states = tables.load("recipes")["frameworks"]["TRL"]["states"]
    return {field: UNKNOWN for state in states for field in (*state["unknown"], *state["sets"])}


def _are_of_trl(way: ArgumentsWay) -> bool:
    """Whether a call has only fields of the newer classes of trl, which are below TrainingArguments."""
    names = {*tables.load("transformers")["training_arguments"], *tables.load("recipes")["frameworks"]["TRL"]["fields"]}
    return names.issuperset({*way.given} - {*way.of.fields})


def _flags(started: StartedScript, way: ArgumentsWay) -> dict[str, Argument]:
    """The flags as the class of the arguments takes them."""
    fields = tables.load("transformers")["training_arguments"]
    found = dict(started.flags)
    if way.words is not None:
        found = {name: Argument(value, started.origin, is_flag=True) for name, value in flag_values(way.words).items()}
    for name in list(found):
        if name in fields or name in way.of.fields or name.removeprefix("no_") in fields:
            continue
        named = [one for one, field in way.of.fields.items() if name in field.flags]
        if named:
            found[named[0]] = found.pop(name)
        elif name not in started.script.arguments:  # argparse takes the beginning of an option for it
            longer = [one for one in (*fields, *way.of.fields) if one.startswith(name) and one not in found]
            found.update({one: Argument(UNKNOWN, started.origin) for one in longer})
    for name, declared in way.of.fields.items():
        one = found.get(name)
        if one is not None and name in fields and way.of.library == TRANSFORMERS:
            runs = fields[name].get("runs", [fields[name]])
            if declared.kind != kind_of(runs[-1]):
                value = converted(True if one.value is None else one.value, declared)
                found[name] = Argument(value, one.origin, one.document, one.span)
    return found


def _keyword(started: StartedScript, keyword: KeywordArgument) -> Argument:
    """What the script gives a field."""
    if not isinstance(keyword.value, Expression):
        return started.at(keyword.value, keyword)
    value = script_value(keyword.value.text, started.launch, started.script)
    one = _ONE_ARGUMENT.fullmatch(keyword.value.text)
    flag = flag_of(one[1], started.launch, started.script) if one is not None else None
    return started.at(value, keyword) if flag is None else started.behind(value, flag)


def _agreed(
    ways: list[tuple[dict[str, Argument], dict[str, Any]]],
) -> tuple[dict[str, Argument], dict[str, Any]]:
    """What all ways give and leave to a default; unknown where they differ."""
    given, defaults = ways[0]
    for other_given, other_defaults in ways[1:]:
        for name in {*given, *other_given, *defaults, *other_defaults}:
            one, other = given.get(name), other_given.get(name)
            if one is not None and other is not None:
                is_same = (repr(one.value), one.is_flag) == (repr(other.value), other.is_flag)
            else:
                left, right = (repr(known.get(name, _OF_LIBRARY)) for known in (defaults, other_defaults))
                is_same = one is other and left == right
            if not is_same:
                given.pop(name, None)
                defaults[name] = UNKNOWN
    return given, defaults
