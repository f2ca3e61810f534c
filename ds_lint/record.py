"""``Record``: a class that is its fields, with their types, defaults and comments.

It reads as a dataclass and is checked as one by the type checker, which alone holds calls to the fields. Dataclasses
would cost the start of a clean run more than all that it does; a record costs nothing beside its class: all share one
``__init__``, which is compiled with this module. What it does not have are slots: a class of which a run makes
thousands, or that each config reads often, is written out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from typing_extensions import Self, dataclass_transform

    Value = TypeVar("Value")
else:

    def dataclass_transform(**_: object) -> Callable[[type], type]:
        """Nothing: only type checkers ask for it, and Python 3.10 lacks it."""
        return lambda cls: cls


class _Made:
    """A default that each record makes for itself, when it is first read."""

    __slots__ = ("factory", "name")

    def __init__(self, factory: Callable[[], Any]) -> None:
        self.factory = factory

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, record: Record, owner: type) -> Any:
        value = record.__dict__[self.name] = self.factory()
        return value


def field(*, factory: Callable[[], Value]) -> Value:
    """A field whose default each record makes for itself, such as a list."""
    return _Made(factory)  # type: ignore[return-value]  # it stands for the value


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Record:
    """The base of all records. Fields after ``_: KW_ONLY`` are given by name; ``__post_init__`` adds what follows."""

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self.__dict__
        if values:
            fields.update(zip(type(self).__annotations__, values, strict=False))
        fields.update(named)
        self.__post_init__()

    def __post_init__(self) -> None:
        pass

    def but(self, **changes: Any) -> Self:
        """The same, with other values for what is named."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **changes)
        other.__post_init__()
        return other

    def __repr__(self) -> str:
        values = [f"{name}={getattr(self, name)!r}" for name in type(self).__annotations__ if name[0] != "_"]
        return f"{type(self).__name__}({', '.join(values)})"
