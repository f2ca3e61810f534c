"""What a lint reads of the arguments of a launch: launches that agree in that, and in all else, find the same.

Scripts of a project often start the same training with another learning rate or folder, which no rule reads. The copy
of a launch that is linted with notes which values are read. That an argument is given at all counts without being read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.training import Argument, TrainingArguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.facts.model import Model
    from ds_lint.source.tree import Span

Value = TypeVar("Value")
Names = tuple[tuple[str, str], ...]  # each where a value is, and its name there
# Where values are: the words of the command, the arguments by the reading of the program and by that of
# HfArgumentParser, and the training arguments with what they are by default.
_WORDS, _ARGUMENTS, _FLAGS, _TRAINING, _DEFAULTS = "words", "arguments", "flags", "training", "defaults"
_LATER = "later"  # what the script sets once they are made
_MODEL = "model"  # its name


class Reads:
    """The values that were read of a launch. ``launch`` is the one that notes it."""

    def __init__(self, launch: LaunchFacts) -> None:
        self._read: set[tuple[str, str]] = set()
        self.launch = self._noting(launch)

    @property
    def names(self) -> Names:
        """Which values were read: a lint with a launch that is alike, and has the same values there, finds the same."""
        return tuple(sorted(self._read))

    def _noting(self, launch: LaunchFacts) -> LaunchFacts:
        words = self._noter(_WORDS, "")
        noting = _NotingLaunch.__new__(_NotingLaunch)
        noting.plain, noting.note = launch, self._noter(_MODEL, "")
        for name in launch.__slots__:
            setattr(noting, name, getattr(launch, name))
        noting.launch = launch.launch._replace(
            arguments=_NotingValues(launch.launch.arguments, self._noter_of(_ARGUMENTS)),  # type: ignore[arg-type]
            flags=_NotingWords(launch.launch.flags, words),  # type: ignore[arg-type]
            command=_NotingWords(launch.launch.command, words),  # type: ignore[arg-type]  # they stand for dict and list
        )
        noting.values = _NotingValues(launch.values, self._noter_of(_FLAGS))
        if launch.training is not None:
            noting.training = self._noting_training(launch.training)
        return noting

    def _noting_training(self, training: TrainingArguments) -> TrainingArguments:
        given = {**training.given, **training.others}
        return TrainingArguments(
            {name: _NotingArgument.of(one, self._noter(_TRAINING, name)) for name, one in given.items()},
            training.origin,
            are_taken=training.are_taken,
            defaults=_NotingValues(training.defaults, self._noter_of(_DEFAULTS)),
            defaults_of=training.defaults_of,
            later={name: _NotingArgument.of(one, self._noter(_LATER, name)) for name, one in training.later.items()},
        )

    def _noter_of(self, table: str) -> Callable[[str], None]:
        return lambda name: self._read.add((table, name))

    def _noter(self, table: str, name: str) -> Callable[[], None]:
        return lambda: self._read.add((table, name))


def values_at(names: Names, facts: LaunchFacts) -> tuple[str, ...]:
    """The values of a launch that were read of another one."""
    return tuple(_value(facts, table, name) for table, name in names)


def _value(facts: LaunchFacts, table: str, name: str) -> str:
    """A value of a launch, as a text that tells 1 from true."""
    launch, training = facts.launch, facts.training
    if table == _WORDS:
        return repr((launch.flags, launch.command))
    if table == _ARGUMENTS:
        return repr(launch.arguments.get(name))
    if table == _FLAGS:
        return repr(facts.values.get(name))
    if table == _MODEL:
        return repr(facts.model_name)
    if training is None:
        return ""
    if table == _DEFAULTS:
        return repr(training.defaults.get(name))
    given = training.later.get(name) if table == _LATER else training.given.get(name) or training.others.get(name)
    return repr(given and given.value)


class _NotingLaunch(LaunchFacts):
    __slots__ = ("note", "plain")

    plain: LaunchFacts
    note: Callable[[], None]

    @property
    def model_name(self) -> str | None:
        self.note()
        return self.plain.model_name

    @property
    def family(self) -> Model | None:
        return self.plain.family


class _NotingValues(Mapping[str, Value]):
    """Values by name. Not a dict: those are copied without a call of a method that could note it."""

    def __init__(self, values: Mapping[str, Value], note: Callable[[str], None]) -> None:
        self._values = values
        self._note = note

    def __getitem__(self, name: str) -> Value:
        value = self._values[name]
        self._note(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._values))

    def __len__(self) -> int:
        return len(self._values)


class _NotingWords(Sequence[Value]):
    def __init__(self, words: Sequence[Value], note: Callable[[], None]) -> None:
        self._words = words
        self._note = note

    @overload
    def __getitem__(self, place: int) -> Value: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Value]: ...

    def __getitem__(self, place: int | slice) -> Value | Sequence[Value]:
        self._note()
        return self._words[place]

    def __len__(self) -> int:
        self._note()
        return len(self._words)

    def __bool__(self) -> bool:
        return bool(self._words)


class _NotingArgument(Argument):
    @classmethod
    def of(cls, argument: Argument, note: Callable[[], None]) -> _NotingArgument:
        noting = object.__new__(cls)
        noting.__dict__.update(document=argument.document, is_flag=argument.is_flag, plain=argument, _note=note)
        return noting

    if not TYPE_CHECKING:  # for which the fields of a record are attributes

        @property
        def value(self) -> Any:
            self.__dict__["_note"]()
            return self.plain.value

        @property
        def origin(self) -> str:
            return self.plain.origin

        @property
        def span(self) -> Span | None:
            return self.plain.span
