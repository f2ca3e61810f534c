"""A config dict that records which of its keys the libraries read.

A key is *read* when a library asks for it by name (`d["k"]`, `d.get("k")`, `"k" in d`, `d.pop("k")`) or passes it on
by name, as an argument of a call (`f(**d)`): a constructor takes the argument or raises. It is not read when the whole
dict is swept: `.items()`, `dict(d)`, `copy.copy(d)`, `json.dumps(d)`. Copies made by the sweeps that DeepSpeed does go
on recording.

A section that becomes a `DeepSpeedConfigModel` is consumed whole: its fields are read, except those whose value is
"auto", which that class deletes before it validates (`DeepSpeedConfigModel.__init__`).
"""

from __future__ import annotations

import copy
import dis
import sys
from collections.abc import Callable, Iterator, KeysView
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

    from ds_lint.knowledge.records import JsonObject

KeyPath = tuple["str | int", ...]


class ReadLog:
    """What happened to the keys of one config; shared by all its sections and their copies."""

    __slots__ = ("auto_dropped", "candidates", "read", "readers")

    def __init__(self, readers: str = "") -> None:
        self.readers = readers  # how the names of the modules begin whose reading counts
        self.read: set[KeyPath] = set()
        self.auto_dropped: set[KeyPath] = set()
        # Sections that the next model may be made from: those swept, and values in models.
        self.candidates: list[RecDict] = []


class RecDict(dict[Any, Any]):
    """A dict (also for `isinstance`, `==`, JSON, pickle) that notes in its `Log` who reads what."""

    __slots__ = ("_log", "_path", "_sweep")

    def __init__(self, data: dict[Any, Any] | None = None, path: KeyPath = (), log: ReadLog | None = None) -> None:
        super().__init__()
        self._path = path
        self._log = ReadLog() if log is None else log
        self._sweep: tuple[CodeType, int] | None = None  # the instruction that asked for the keys last
        for key, value in (data or {}).items():
            super().__setitem__(key, self._wrap(key, value))

    @property
    def log(self) -> ReadLog:
        return self._log

    def _wrap(self, key: Any, value: Any) -> Any:
        return wrap(value, (*self._path, key), self._log)

    def _note(self, key: Any) -> None:
        if not dict.__contains__(self, key):
            return
        frame = sys._getframe(2)
        if not frame.f_globals.get("__name__", "").startswith(self._log.readers):
            return
        # `f(**d)`, `{**d}` and `dict(d)` are C code that calls `d.keys()` and then `d[k]` for every key, all within one
        # instruction of the caller. Python code that loops over the keys does it in two instructions.
        swept = self._sweep == (frame.f_code, frame.f_lasti)
        if not swept or dis.opname[frame.f_code.co_code[frame.f_lasti]] == "DICT_MERGE":
            self._log.read.add((*self._path, key))

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def pop(self, key: Any, *default: Any) -> Any:
        self._note(key)
        return super().pop(key, *default)

    def setdefault(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().setdefault(key, default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, self._wrap(key, value))

    # `**` takes an invisible short cut through C, unless __iter__ is overridden.
    def __iter__(self) -> Iterator[Any]:
        return super().__iter__()

    def keys(self) -> Any:
        frame = sys._getframe(1)
        self._sweep = frame.f_code, frame.f_lasti
        self._log.candidates.append(self)
        return _Keys(self)

    def copy(self) -> RecDict:
        clone = RecDict(None, self._path, self._log)
        for key, value in self.items():
            dict.__setitem__(clone, key, value)
        return clone

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> RecDict:
        clone = RecDict(None, self._path, self._log)
        for key, value in self.items():
            dict.__setitem__(clone, key, copy.deepcopy(value, memo))
        return clone

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


class _Keys(KeysView[Any]):
    """`d.keys()`; asking whether a key is in it is reading the key."""

    _mapping: RecDict

    def __contains__(self, key: object) -> bool:
        self._mapping._note(key)
        return dict.__contains__(self._mapping, key)

    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self._mapping)

    def __repr__(self) -> str:
        return repr(dict.keys(self._mapping))


def wrap(value: Any, path: KeyPath, log: ReadLog) -> Any:
    """`value` with every dict in it, in lists too, recording under `path`."""
    if isinstance(value, RecDict):
        return value
    if isinstance(value, dict):
        return RecDict(value, path, log)
    if type(value) is list:
        return [wrap(item, (*path, i), log) for i, item in enumerate(value)]
    return value


def plain(value: Any) -> Any:
    """The same value in plain dicts."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if type(value) is list else value


def unread(config: Any, log: ReadLog) -> set[KeyPath]:
    """The topmost keys of `config` that nothing read."""
    done = log.read | log.auto_dropped

    def walk(node: Any, path: KeyPath) -> Iterator[KeyPath]:
        if isinstance(node, dict):
            for key, value in node.items():
                here = (*path, key)
                if here in done:
                    yield from walk(value, here)
                else:
                    yield here
        elif isinstance(node, list):
            for i, value in enumerate(node):
                yield from walk(value, (*path, i))

    return set(walk(config, ()))


def watch_models(model_class: type) -> None:
    """Make `DeepSpeedConfigModel` tell the log of the section it is made from which fields it takes.

    Its `__init__(**data)` gets a plain dict, for a section in a section from pydantic's compiled core; the section is
    recognised by having the same keys with the same values.
    """
    original: Callable[..., None] = model_class.__init__  # type: ignore[misc]

    def watched(self: Any, strict: bool = False, **data: Any) -> None:
        log = _current
        index = next((i for i, section in enumerate(log.candidates) if _same(section, data)), None)
        if index is not None:
            section = log.candidates.pop(index)
            for key, value in data.items():
                dropped = not strict and isinstance(value, str) and value == "auto" and key != "replace_method"
                (log.auto_dropped if dropped else log.read).add((*section._path, key))
        log.candidates += [value for value in data.values() if isinstance(value, RecDict)]
        original(self, strict=strict, **data)
        # Pydantic copies free-form dicts, which would end the recording.
        for key, value in data.items():
            if isinstance(value, RecDict) and type(self.__dict__.get(key)) is dict:
                self.__dict__[key] = value

    model_class.__init__ = watched  # type: ignore[misc]


def _same(section: RecDict, data: JsonObject) -> bool:
    return dict.keys(section) == data.keys() and all(
        dict.__getitem__(section, key) is value for key, value in data.items()
    )


def start(readers: str = "") -> ReadLog:
    """A new log, and the one that watched models write to."""
    global _current  # noqa: PLW0603 - the models are watched for one log at a time
    _current = ReadLog(readers)
    return _current


def watch() -> None:
    """Make the parts of DeepSpeed that copy sections of the config go on recording in the copies."""
    from deepspeed.runtime import config, config_utils, engine

    watch_models(config_utils.DeepSpeedConfigModel)
    engine.dict = RecordingDict
    # Both copy the section item by item into a plain dict, and the engine reads that.
    for name, section in (("get_data_efficiency_config", "data_efficiency"), ("get_pipeline_config", "pipeline")):
        setattr(config, name, _recording_result(getattr(config, name), section))


def _recording_result(function: Callable[[Any], Any], section: str) -> Callable[[Any], Any]:
    return lambda read_from: wrap(function(read_from), (section,), _current)


_current = ReadLog()


class _RecordingDictType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, dict)


class RecordingDict(dict[Any, Any], metaclass=_RecordingDictType):
    """To stand in for the name `dict` in a module, so that `dict(section)` there goes on recording."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], RecDict):
            clone = args[0].copy()
            clone.update(kwargs)
            return clone
        return dict(*args, **kwargs)
