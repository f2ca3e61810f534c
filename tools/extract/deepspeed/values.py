"""Symbolic values: what an expression of DeepSpeed's source may evaluate to for an unknown config.

The one that matters is ``UserValue``: whatever the user wrote at a key path. Everything else is there so that the
``UserValue`` arrives where it is read: constants (they name the keys and the defaults), functions and classes of the
package (they are entered), dictionaries and lists that the package builds, and objects that hold any of these.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.extract.deepspeed.modules import Module

KeyPath: TypeAlias = tuple[str, ...]
Names: TypeAlias = "dict[str, Value]"
FunctionNode: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda"

ANY_KEY = "*"  # in a path: a name that is the user's own
ITEM = "[]"  # in a path: every element of an array

MOST_ALTERNATIVES = 10
DEEPEST_SEARCH = 3


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known: a tensor, a rank, the time."""


UNKNOWN = Unknown()


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """A literal; the member of an enumeration is the constant that it stands for."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and repr(self.value) == repr(other.value)  # 1, 1.0 and True differ

    def __hash__(self) -> int:
        return hash(repr(self.value))


@dataclass(frozen=True, slots=True)
class UserValue:
    """What the user wrote at a key path; the empty path is the whole config."""

    path: KeyPath


@dataclass(eq=False, slots=True)
class Table:
    """A dictionary that the package builds; the sections in ``overlaid`` are poured over its entries."""

    entries: dict[Any, Value] = field(default_factory=dict)
    overlaid: list[UserValue] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Array:
    """A list, tuple or set that the package builds."""

    items: list[Value]


@dataclass(frozen=True, slots=True)
class Function:
    """A function, or a method together with the object or class it belongs to."""

    module: Module
    node: FunctionNode
    owner: Class | None = None
    receiver: Value | None = None
    closure: Names = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The name it was defined by."""
        return self.node.name if not isinstance(self.node, ast.Lambda) else "<lambda>"


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the package."""

    module: Module
    node: ast.ClassDef
    closure: Names = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The name it was defined by."""
        return self.node.name


@dataclass(frozen=True, slots=True)
class Package:
    """A module of the package, as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class External:
    """Something of another library or a builtin, known by its dotted name alone."""

    name: str


@dataclass(frozen=True, slots=True)
class ChosenByUser:
    """``getattr(module, value)`` with a value of the user: some class of that module."""

    module: Package | External
    choice: UserValue


@dataclass(eq=False, slots=True)
class Instance:
    """An object of a class of the package; a validated model also knows which key each of its fields came from."""

    cls: Class
    attributes: Names = field(default_factory=dict)
    fields: dict[str, ModelField] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelField:
    """One field of a validated model: the key it was read from, and the model of a section below."""

    path: KeyPath
    model: Class | None


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a builtin value, such as the ``get`` of a section."""

    receiver: Value
    name: str


@dataclass(frozen=True, slots=True)
class Entries:
    """The ``items()``, ``keys()`` or ``values()`` of a section or a table."""

    of: UserValue | Table
    part: str


@dataclass(frozen=True, slots=True)
class Either:
    """One of several values: both sides of every condition are run."""

    alternatives: tuple[Value, ...]


Value: TypeAlias = (
    Unknown
    | Constant
    | UserValue
    | Table
    | Array
    | Function
    | Class
    | Package
    | External
    | ChosenByUser
    | Instance
    | Method
    | Entries
    | Either
)


def alternatives(value: Value) -> tuple[Value, ...]:
    """The values that a value may be."""
    return value.alternatives if isinstance(value, Either) else (value,)


def either(*values: Value) -> Value:
    """One of these values. What is unknown adds nothing to what is known."""
    if len(values) == 1:
        return values[0]
    distinct = dict.fromkeys(one for value in values for one in alternatives(value))
    known = [one for one in distinct if one != UNKNOWN]
    if not known:
        return UNKNOWN
    return known[0] if len(known) == 1 else Either(tuple(known[:MOST_ALTERNATIVES]))


def user_values(value: Value) -> Iterator[UserValue]:
    """The values of the user among the alternatives."""
    return (one for one in alternatives(value) if isinstance(one, UserValue))


def constant(value: Value) -> Constant | None:
    """The value as one constant, lists and tables of constants included; None where it is not fixed."""
    if isinstance(value, Constant):
        return value
    if isinstance(value, Array):
        items = [constant(item) for item in value.items]
        return None if None in items else Constant([item.value for item in items if item])
    if isinstance(value, Table) and not value.overlaid:
        entries = {key: constant(entry) for key, entry in value.entries.items()}
        return None if None in entries.values() else Constant({key: one.value for key, one in entries.items() if one})
    return None


def from_python(value: Any) -> Value:
    """The symbolic form of a plain value."""
    if isinstance(value, dict):
        return Table({key: from_python(entry) for key, entry in value.items()})
    if isinstance(value, (list, tuple)):
        return Array([from_python(item) for item in value])
    return Constant(value)


def folded(compute: Callable[..., Any], *operands: Any) -> Value:
    """The result of a computation on plain values; unknown where it fails."""
    try:
        return from_python(compute(*operands))
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return UNKNOWN


def holds_user_value(value: Value, depth: int = 0) -> bool:
    """Whether anything of the user's is in the value, so that code which is given it may read the config."""
    if depth > DEEPEST_SEARCH:
        return False
    for one in alternatives(value):
        if isinstance(one, (UserValue, Entries)):
            return True
        below: list[Value] = []
        if isinstance(one, Table):
            below = [*one.overlaid, *one.entries.values()]
        elif isinstance(one, Array):
            below = one.items
        elif isinstance(one, Instance):
            if one.fields:
                return True
            below = list(one.attributes.values())
        elif isinstance(one, Method):
            below = [one.receiver]
        if any(holds_user_value(part, depth + 1) for part in below):
            return True
    return False


class Arguments(NamedTuple):
    """The arguments of a call; ``spread`` are those with two stars."""

    positional: tuple[Value, ...] = ()
    named: Names = {}  # noqa: RUF012 - nothing changes it
    spread: tuple[Value, ...] = ()

    @property
    def first(self) -> Value:
        """The first positional argument."""
        return self.positional[0] if self.positional else UNKNOWN

    @property
    def default(self) -> Value | None:
        """What ``get`` and the like return for a missing key."""
        return self.positional[1] if len(self.positional) > 1 else self.named.get("default")

    def hold_user_values(self) -> bool:
        """Whether the callee gets anything of the user's."""
        return any(map(holds_user_value, (*self.positional, *self.named.values(), *self.spread)))
