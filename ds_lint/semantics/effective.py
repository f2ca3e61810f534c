"""The config as the stack will use it: every value, and who says so."""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.semantics.constructors import optimizer_constructor, scheduler_constructor
from ds_lint.semantics.preparation import prepare
from ds_lint.semantics.preparation.words import source_of
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import ConfigObject, StackValue
    from ds_lint.source.tree import KeyPath

_PARAMETERS = {("optimizer", "params"): optimizer_constructor, ("scheduler", "params"): scheduler_constructor}


class Value:
    """One value, which may be UNKNOWN. ``by`` is written, filled, inserted, overwritten or default."""

    __slots__ = ("by", "path", "source", "value")

    def __init__(self, path: KeyPath, value: Any, by: str, source: str) -> None:
        self.path = path
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
    defaults = _defaults(config, config.knowledge.root, given, everything=everything)
    return [*found, *defaults, *_parameters(config, given)]


def _values(config: Config, section: ConfigObject, path: KeyPath, around: StackValue | None) -> Iterator[Value]:
    """The values below a section, which the stack may have added as a whole."""
    settings = prepare(config).settings
    for name, value in section.items():
        here = (*path, name)
        setting = settings.get(here, around)
        if isinstance(value, dict) and value:
            yield from _values(config, value, here, setting)
        elif setting is not None:
            yield Value(here, value, setting.did, source_of(here, setting))
        else:
            yield Value(here, value, "written", _place(config, here))


def _place(config: Config, path: KeyPath) -> str:
    """Where a key stands in the file; a key that nobody has written stands nowhere."""
    section = config.written.at(path[:-1])
    member = section.member(path[-1]) if section is not None else None
    if member is None:
        return "written"
    line, _ = config.document.position(member.key_span.start)
    return f"written, {config.document.path}:{line}"


def _defaults(config: Config, section: Key, given: set[KeyPath], *, everything: bool) -> Iterator[Value]:
    """The defaults of the keys that the config leaves out."""
    for name in section.names():
        key = section.child(name)
        if key is None or "removed" in key.facts or "deprecated" in key.facts or "no_effect" in key.facts:
            continue
        if key.path in _PARAMETERS:  # as each constructor has them
            continue
        if key.is_section:
            if everything or key.path in given:
                yield from _defaults(config, key, given, everything=everything)
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


class Difference:
    """A key that two configs do not have the same value for; None for the one that lacks it."""

    __slots__ = ("key", "one", "other")

    def __init__(self, key: str, one: Value | None, other: Value | None) -> None:
        self.key = key
        self.one = one
        self.other = other


def differences(ones: list[Value], others: list[Value]) -> list[Difference]:
    """What differs between two configs, in the order of the first; what is unknown in both is the same."""
    left, right = ({value.key: value for value in values} for values in (ones, others))
    found = (Difference(key, left.get(key), right.get(key)) for key in {**left, **right})
    return [each for each in found if each.one is None or each.other is None or not _is_same(each.one, each.other)]


def _is_same(one: Value, other: Value) -> bool:
    if UNKNOWN in (one.value, other.value):
        return one.value is other.value
    return bool(one.value == other.value)
