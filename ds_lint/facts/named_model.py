"""The model that a launch trains, by name: by its words, or the script that it starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts.script_values import argument_of, conditions_hold, flag_of, script_value
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.model_sources import ARGS
from ds_lint.launches.options import MODEL_FLAGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.model_sources import ModelSource
    from ds_lint.launches.script_code import CodePlace
    from ds_lint.launches.training_script import TrainingScript


class NamedModel(NamedTuple):
    """``name`` is that of the Hugging Face Hub, or a folder; None if it is unknown.

    ``class_name`` is the class of transformers that the script loads the model with; "" if it loads with none of its
    own, None if it is unknown which; ``base_name`` then is the one that the script derives its own class from. The
    name is behind ``flag``, or in the script at ``code``.
    """

    name: str | None
    class_name: str | None
    flag: str | None = None
    code: CodePlace | None = None
    base_name: str | None = None


def named_model(launch: Launch, script: TrainingScript | None) -> NamedModel:
    """What is known of the model that a launch without a recipe trains."""
    sources = list(taken(launch, script))
    bases = {source.base_name for source, _ in sources}
    named = _named(sources, launch, script)
    return named._replace(base_name=bases.pop() if len(bases) == 1 and named.class_name is None else None)


def _named(sources: list[tuple[ModelSource, bool | None]], launch: Launch, script: TrainingScript | None) -> NamedModel:
    class_name = _class_of(sources)
    names = {script_value(source.name, launch, script) for source, _ in sources}
    names = {name if isinstance(name, str) and name else UNKNOWN for name in names}
    given = [name for name in _flags(launch, script) if name in launch.arguments]
    if len(given) == 1 and (UNKNOWN in names or not names or launch.arguments[given[0]] in names):
        value = launch.arguments[given[0]]
        return NamedModel(value if isinstance(value, str) else None, class_name, given[0])
    if not given and names <= {UNKNOWN}:
        return _by_default(launch, script, class_name)
    name = names.pop() if len(names) == 1 else None
    if isinstance(name, str) and not _are_doubtful(sources):
        return NamedModel(name, class_name, *_place_of(sources[0][0], launch, script))
    return NamedModel(None, class_name)


def _flags(launch: Launch, script: TrainingScript | None) -> tuple[str, ...]:
    """The flags that may name the model: of a framework with one of its own, others are about something else.

    ms-swift teaches a model the name that ``--model_name`` gives it.
    """
    own = launch.framework.model if script is None and launch.framework is not None else ""
    return (own,) if own and own in launch.arguments else MODEL_FLAGS


def taken(launch: Launch, script: TrainingScript | None) -> Iterator[tuple[ModelSource, bool | None]]:
    """The sources of a script that a launch may use, and whether it surely does; later ones replace earlier ones."""
    sources = script.models if script is not None else ()
    found = [(source, _holds(source, launch, script)) for source in sources]
    last = {source.target: place for place, (source, holds) in enumerate(found) if holds}
    for place, (source, holds) in enumerate(found):
        if holds is not False and place >= last.get(source.target, 0):
            yield source, holds


def _holds(source: ModelSource, launch: Launch, script: TrainingScript | None) -> bool | None:
    return conditions_hold(source.conditions, launch, script)


def _class_of(sources: list[tuple[ModelSource, bool | None]]) -> str | None:
    """The class of the model; None if there are several, or if it may be another."""
    names = {source.class_name for source, _ in sources}
    if not names:
        return ""
    if all(name is not None and name.startswith("Auto") for name in names):
        return ""
    return names.pop() if len(names) == 1 and not _are_doubtful(sources) else None


def _are_doubtful(sources: list[tuple[ModelSource, bool | None]]) -> bool:
    """Whether another model may be trained than these."""
    return all(holds is None and source.has_rivals for source, holds in sources)


def _by_default(launch: Launch, script: TrainingScript | None, class_name: str | None) -> NamedModel:
    """The default of the one argument that is called like one of models, if nothing else tells."""
    declared = script.arguments if script is not None else {}
    found = [name for name in MODEL_FLAGS if name in declared]
    value = argument_of(found[0], launch, script) if len(found) == 1 else UNKNOWN
    if not isinstance(value, str) or not value:
        return NamedModel(None, class_name)
    return NamedModel(value, class_name, code=declared[found[0]].place)


def _place_of(
    source: ModelSource, launch: Launch, script: TrainingScript | None
) -> tuple[str | None, CodePlace | None]:
    """Where the name of a source is: in the words of the launch, as a default, or in the script."""
    name = source.name.removeprefix(f"{ARGS}.")
    is_argument = name != source.name
    if is_argument and (flag := flag_of(name, launch, script)) is not None:
        return flag, None
    declared = script.arguments.get(name) if script is not None and is_argument else None
    return None, declared.place if declared is not None else source.place
