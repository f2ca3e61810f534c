"""The config as the stack will use it: every value and its source."""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.semantics.constructors import optimizer_constructor, scheduler_constructor
from ds_lint.semantics.preparation import prepare
from ds_lint.semantics.preparation.words import source_of
from ds_lint.source.spelling import as_json
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import ConfigObject, StackValue
    from ds_lint.source.tree import KeyPath

_ZERO = ("zero_optimization",)
_OLD_BUCKET_SIZE = "allgather_size"  # which is read beside a boolean only
_PARAMETERS = {("optimizer", "params"): optimizer_constructor, ("scheduler", "params"): scheduler_constructor}


class Value:
    """One value, which may be UNKNOWN. ``by`` is written, filled, inserted, overwritten or default.

    ``meant`` is its key path in the spelling of DeepSpeed's documentation, where the config has another.
    """

    __slots__ = ("by", "meant", "path", "source", "value")

    def __init__(self, path: KeyPath, value: Any, by: str, source: str, meant: KeyPath | None = None) -> None:
        self.path = path
        self.meant = meant or path
        self.value = value
        self.by = by
        self.source = source  # in words

    @property
    def key(self) -> str:
        """The key path as people write it."""
        return dotted(self.path)


def effective(config: Config, *, everything: bool = False) -> list[Value]:
    """Every value that DeepSpeed gets, in the order of the config, then the defaults of the sections that it has.

    With ``everything``, the defaults of all sections.
    """
    prepared = prepare(config)
    found = list(_values(config, prepared.config, (), None))
    given = {value.path[:length] for value in found for length in range(len(value.path) + 1)}
    unknown = {value.path for value in found if value.value is UNKNOWN}
    defaults = _defaults(config, config.knowledge.root, given, unknown, everything=everything)
    return [*found, *defaults, *_parameters(config, given)]


def is_default(config: Config, value: Value) -> bool:
    """Whether DeepSpeed would take the same value if the config did not have it."""
    key: Key | None = config.knowledge.root
    for name in value.path:
        key = key.child(name) if key is not None else None
    return value.by == "default" or (key is not None and key.facts.get("default", UNKNOWN) == value.value)


def _values(config: Config, section: ConfigObject, path: KeyPath, around: StackValue | None) -> Iterator[Value]:
    """The values below a section, which the stack may have added as a whole."""
    settings = prepare(config).settings
    for name, value in section.items():
        here = (*path, name)
        setting = settings.get(here, around)
        if isinstance(value, dict) and value:
            yield from _values(config, value, here, setting)
        elif here == _ZERO and isinstance(value, bool):
            yield from _values_of_old_form(config, section, is_on=value)
        elif setting is not None:
            yield Value(here, value, setting.did, source_of(here, setting), _meant(config, here))
        elif config.maker is not None and config.maker.is_default(here):
            source = f"default of {config.maker.library}" if value is not UNKNOWN else "known when the program runs"
            yield Value(here, value, "default", source, _meant(config, here))
        else:
            yield Value(here, value, "written", _place(config, here), _meant(config, here))


def _values_of_old_form(config: Config, section: dict[str, Any], *, is_on: bool) -> Iterator[Value]:
    """What a boolean ``zero_optimization`` stands for, in every release since 0.3.1.

    Source: ``read_zero_config_deprecated`` in ``deepspeed/runtime/zero/config.py``.
    """

    def source(path: KeyPath, spelling: str) -> str:
        return _place(config, path, f"written as {spelling}")

    yield Value((*_ZERO, "stage"), int(is_on), "written", source(_ZERO, as_json(is_on)))
    if is_on and (size := section.get(_OLD_BUCKET_SIZE)) is not None:
        place = source((_OLD_BUCKET_SIZE,), _OLD_BUCKET_SIZE)
        yield Value((*_ZERO, "allgather_bucket_size"), size, "written", place)


def _meant(config: Config, path: KeyPath) -> KeyPath:
    """The key path with the name of each key that DeepSpeed's documentation uses, instead of an alias."""
    section: Key | None = config.knowledge.root
    names = []
    for name in path:
        section = section.child(name) if section is not None else None
        names.append(section.name if section is not None else name)
    return tuple(names)


def _place(config: Config, path: KeyPath, how: str = "written") -> str:
    """Where a key is in the file; a key that is not written is nowhere."""
    section = config.written.at(path[:-1])
    member = section.member(path[-1]) if section is not None else None
    if member is None:
        return how
    line, _ = config.document.position(member.key_span.start)
    return f"{how}, {config.document.path}:{line}"


def _defaults(
    config: Config, section: Key, given: set[KeyPath], unknown: set[KeyPath], *, everything: bool
) -> Iterator[Value]:
    """The defaults of the keys that the config leaves out; none of a section of which it is unknown what it holds."""
    for name in section.names():
        key = section.child(name)
        if key is None or "removed" in key.facts or "deprecated" in key.facts or "no_effect" in key.facts:
            continue
        if key.path in _PARAMETERS:  # as each constructor has them
            continue
        if key.is_section:
            if (everything or key.path in given) and key.path not in unknown:
                yield from _defaults(config, key, given, unknown, everything=everything)
        elif "default" in key.facts and name not in BATCH_SIZES and given.isdisjoint(_spellings(key)):
            yield Value(key.path, key.facts["default"], "default", f"default of DeepSpeed {config.knowledge.deepspeed}")


def _spellings(key: Key) -> set[KeyPath]:
    """The path of a key, and the one of its second name."""
    return {key.path, (*key.path[:-1], key.facts.get("alias", key.name))}


def _parameters(config: Config, given: set[KeyPath]) -> Iterator[Value]:
    """The defaults of the optimizer and the scheduler for the parameters that the config leaves out."""
    for section, constructor_of in _PARAMETERS.items():
        constructor = constructor_of(config)
        for name in dict.fromkeys(constructor.names()) if constructor is not None else ():
            default = constructor.default(name) if constructor is not None else None
            path = (*section, name)
            if constructor is not None and path not in given and default not in (None, "$required"):
                yield Value(path, default, "default", f"default of {constructor.name}")


class Difference(Record):
    """A key that two configs do not have the same value for; None for the one that lacks it."""

    key: str
    one: Value | None
    other: Value | None


def differences(ones: list[Value], others: list[Value]) -> list[Difference]:
    """What differs between two configs, in the order of the first; what is unknown in both is the same.

    Both lists have the defaults of every section, so that a section that one config leaves out is compared as well.
    """
    left, right = ({value.meant: value for value in values} for values in (ones, others))
    found = (Difference((left.get(path) or right[path]).key, left.get(path), right.get(path)) for path in left | right)
    return [each for each in found if not _is_same(each.one, each.other, left, right)]


def _is_same(one: Value | None, other: Value | None, left: dict[KeyPath, Value], right: dict[KeyPath, Value]) -> bool:
    if one is None or other is None:
        alone, others = (one, right) if one is not None else (other, left)
        return alone is not None and _says_nothing(alone, others)
    if UNKNOWN in (one.value, other.value):
        return one.value is other.value
    return bool(one.value == other.value)


def _says_nothing(alone: Value, others: dict[KeyPath, Value]) -> bool:
    """Whether a value that only one config has is not a difference.

    It is an empty section, whose defaults are compared, or a default in a section that is unknown in the other config.
    """
    if alone.value == {}:
        return any(path[: len(alone.meant)] == alone.meant for path in others)
    return alone.by == "default" and any(
        alone.meant[:length] in others and others[alone.meant[:length]].value is UNKNOWN
        for length in range(1, len(alone.meant))
    )
