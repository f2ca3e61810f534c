"""What an expression of a module is, as far as that shows: scalars, dicts, lists, functions, classes and objects.

A value that may change is a cell, whose content is never changed but replaced, so that a branch can be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import ast
    from collections.abc import Hashable

    Place = ast.AST | None  # the text that wrote a value


class Slot:
    """A value in a variable, under a key or in a list, and the text that wrote it there.

    ``is_fixed`` tells that another text in this place would not write another value, or would write more than one.
    """

    __slots__ = ("is_fixed", "key_place", "may_be_missing", "place", "value")

    def __init__(
        self,
        value: Value,
        place: Place,
        key_place: Place = None,
        *,
        is_fixed: bool = False,
        may_be_missing: bool = False,
    ) -> None:
        self.value = value
        self.place = place
        self.key_place = key_place
        self.is_fixed = is_fixed
        self.may_be_missing = may_be_missing

    def with_key(self, key_place: Place) -> Slot:
        """The same under a key."""
        return Slot(self.value, self.place, key_place, is_fixed=self.is_fixed)


class Known:
    """A value that cannot change and is known: a number, a text, None, a path, a range."""

    __slots__ = ("place", "value")

    def __init__(self, value: Any, place: Place) -> None:
        self.value = value
        self.place = place


class Undecided:
    """A value that does not show.

    ``candidates`` are what it may be: cells that a write may change, functions that a call may run.
    ``is_fraction`` tells the product of a fraction and of what does not show, ``attributes`` what the module has set.
    """

    __slots__ = ("attributes", "candidates", "choices", "is_fraction", "place")

    def __init__(self, place: Place, candidates: tuple[Value, ...] = (), *, is_fraction: bool = False) -> None:
        self.place = place
        self.candidates = candidates
        self.is_fraction = is_fraction
        self.choices: tuple[Known, ...] = ()  # one of which it is; empty if that does not show
        self.attributes: Dict | None = None


class Table(NamedTuple):
    """The content of a dict; one that ``is_open`` may have further keys."""

    entries: dict[Hashable, Slot]
    is_open: bool = False


class Changeable:
    """A value that may change; of one that ``is_lost`` nothing is known any more."""

    __slots__ = ("content", "is_lost", "place", "serial")
    content: Any

    def __init__(self, content: Any, place: Place, serial: int) -> None:
        self.content = content
        self.place = place
        self.serial = serial
        self.is_lost = False


class Dict(Changeable):
    """A dict, also that of the variables of a function, or of the attributes of an object."""

    __slots__ = ("factory",)
    content: Table
    factory: Value | None  # of a defaultdict

    def __init__(self, content: Table, place: Place, serial: int) -> None:
        super().__init__(content, place, serial)
        self.factory = None


class List(Changeable):
    """A list, tuple, set or iterator; its content is None if its items do not show."""

    __slots__ = ("kind",)
    content: tuple[Slot, ...] | None

    def __init__(self, kind: str, content: tuple[Slot, ...] | None, place: Place, serial: int) -> None:
        super().__init__(content, place, serial)
        self.kind = kind


class View(NamedTuple):
    """``keys()``, ``values()`` or ``items()`` of a dict."""

    cell: Dict
    what: str


class Environment:
    """The variables of a function, a class or the module; ``passed`` are those that stand for what they were given."""

    __slots__ = (
        "globals",
        "is_class",
        "is_comprehension",
        "kept",
        "local",
        "nonlocals",
        "outer",
        "passed",
        "variables",
    )

    def __init__(self, variables: Dict, outer: Environment | None, local: frozenset[str] | None) -> None:
        self.variables = variables
        self.outer = outer
        self.local = local  # the names that a function binds; None for a module or a class
        self.passed: set[str] = set()
        self.globals: frozenset[str] = frozenset()
        self.nonlocals: frozenset[str] = frozenset()
        self.is_class = False
        self.is_comprehension = False
        self.kept: Class | None = None  # the class that a method belongs to, for ``super()``


class ModuleFunction:
    """A function of the module, with the values of its defaults."""

    __slots__ = ("attributes", "defaults", "environment", "memory", "named", "node", "owner")

    def __init__(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        environment: Environment,
        defaults: list[Slot],
        named: dict[str, Slot],
    ) -> None:
        self.node = node
        self.environment = environment
        self.defaults = defaults
        self.named = named
        self.owner: Class | None = None
        self.memory: dict[Any, Value] | None = None  # of a function with a cache
        self.attributes: Dict | None = None


class Wrapped(NamedTuple):
    """A function behind ``property``, ``staticmethod`` or ``classmethod``."""

    kind: str
    function: Value


class Bound(NamedTuple):
    """A method of an object of the module, or a function with its first arguments."""

    function: Value
    arguments: tuple[Slot, ...]
    keywords: tuple[tuple[str, Slot], ...] = ()


class Method(NamedTuple):
    """A method of a built-in type."""

    receiver: Value
    name: str
    place: Place


class LibraryName(NamedTuple):
    """What an import or a built-in name stands for; its value does not show."""

    name: str


class Class:
    """A class of the module."""

    __slots__ = ("attributes", "bases", "fields", "is_plain", "kind", "members", "name", "node", "order")

    def __init__(self, name: str, node: ast.ClassDef | None, bases: list[Value], attributes: Dict) -> None:
        self.name = name
        self.node = node
        self.bases = bases
        self.attributes = attributes
        self.order: list[Class] = [self]
        self.is_plain = True  # all that it inherits shows
        self.kind = ""  # dataclass, enum, namedtuple, namespace, dict
        self.fields: list[Field] = []
        self.members: list[Object] = []  # of an enum


class Field(NamedTuple):
    """A field of a dataclass or named tuple."""

    name: str
    default: Slot | None
    factory: Value | None = None
    takes: bool = True
    is_keyword: bool = False


class Object:
    """An object of a class of the module."""

    __slots__ = ("attributes", "cls", "place")

    def __init__(self, cls: Class, attributes: Dict, place: Place) -> None:
        self.cls = cls
        self.attributes = attributes
        self.place = place


class Super(NamedTuple):
    """``super()`` in a method."""

    after: Class
    receiver: Object | Class


Value: TypeAlias = (
    "Known | Undecided | Dict | List | View | ModuleFunction | Wrapped | Bound | Method | LibraryName | Class | Object"
    " | Super"
)


class Arguments(NamedTuple):
    """What a call passes; None for keywords or positions that do not show."""

    positional: list[Slot]
    keywords: dict[str, Slot]
    is_open: bool = False


class ModuleError(Exception):
    """The module raises an exception of this class."""

    def __init__(self, kind: type[BaseException] | None) -> None:
        super().__init__(kind)
        self.kind = kind


class NotKnown(Exception):  # noqa: N818 - a normal outcome
    """A value is needed that does not show."""


class Exhausted(Exception):  # noqa: N818
    """The module takes more steps than it is worth."""
