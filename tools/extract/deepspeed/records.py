"""What the interpreter writes down while it runs: how each key path is read, and what each section does."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tools.extract.deepspeed.values import Class, KeyPath

NO_DEFAULT = ...
DEEPEST_PATH = 9  # nothing in a config is deeper; recursion through unknown names would go on for ever


class Declaration(NamedTuple):
    """A field of a pydantic model: what it takes, its default, and what its ``Field`` says besides."""

    schema: dict[str, Any]
    default: Any = NO_DEFAULT
    replaced_by: str | None = None
    deprecated: bool = False
    field_name: str | None = None  # where the key is an alias of it


@dataclass
class Key:
    """Everything that was seen of one key path, in the order in which it was seen."""

    ways: set[str] = field(default_factory=set)  # read, tested, declared, spread, overlaid, refused
    declarations: list[Declaration] = field(default_factory=list)
    defaults: list[Any] = field(default_factory=list)
    casts: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)  # tested by isinstance
    used_as: set[str] = field(default_factory=set)  # text, number, array
    one_of: list[list[Any]] = field(default_factory=list)
    is_case_blind: bool = False
    has_model: bool = False


class Guard(NamedTuple):
    """A condition on a value of the user under which code runs: ``if self.optimizer_name() == LAMB_OPTIMIZER``."""

    path: KeyPath
    values: list[Any]
    holds: bool


class Spread(NamedTuple):
    """A section that became keyword arguments: ``FusedLamb(parameters, **optimizer_parameters)``.

    ``parameters`` is None for a callable of another library.
    """

    path: KeyPath
    guards: tuple[Guard, ...]
    callee: str
    parameters: dict[str, Any] | None
    takes_any: bool


class Records:
    """The notes of one release."""

    def __init__(self) -> None:
        self.keys: dict[KeyPath, Key] = {}
        self.treatments: dict[KeyPath, list[str]] = {}  # of unknown keys, per section: rejected, ignored, open
        self.spreads: list[Spread] = []
        self.guards: list[Guard] = []
        self.models: dict[Class, None] = {}
        self.readers: set[str] = set()  # functions that read a config file
        self._written: set[KeyPath] = set()

    def key(self, path: KeyPath) -> Key:
        """The notes on a key, which are thrown away where the key is not the user's."""
        if path in self._written or len(path) > DEEPEST_PATH:
            return Key()
        return self.keys.setdefault(path, Key())

    def read(self, path: KeyPath, way: str, default: Any = NO_DEFAULT) -> None:
        """A key is read in one of the ways, with a default if that is a constant."""
        key = self.key(path)
        key.ways.add(way)
        if default is not NO_DEFAULT:
            _add(key.defaults, default)

    def declare(self, path: KeyPath, declaration: Declaration) -> None:
        """A pydantic model has a field for the key."""
        key = self.key(path)
        key.ways.add("declared")
        _add(key.declarations, declaration)

    def write(self, path: KeyPath) -> None:
        """DeepSpeed itself puts a key into the user's section; one that it never read before is none of the user's."""
        if path not in self.keys:
            self._written.add(path)

    def treat(self, section: KeyPath, unknown: str) -> None:
        """What one reader of a section does with keys that it does not know."""
        _add(self.treatments.setdefault(section, []), unknown)

    def spread(self, spread: Spread) -> None:
        """A section becomes keyword arguments."""
        _add(self.spreads, spread)
        for name, default in (spread.parameters or {}).items():
            self.read((*spread.path, name), "spread", default)


def _add(notes: list[Any], note: Any) -> None:
    if note not in notes:
        notes.append(note)
