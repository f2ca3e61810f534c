"""What a class of the package is: its bases, its members, the values of an enumeration."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from tools.extract.deepspeed.values import Array, Class, External, Function, alternatives, constant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.extract.deepspeed.modules import Statement
    from tools.extract.deepspeed.values import Instance, Value

MemberNode: TypeAlias = "Statement | ast.Assign | ast.AnnAssign"

_ENUMERATIONS = ("Enum", "IntEnum", "StrEnum")
_EXCEPTIONS = ("BaseException", "Exception", "RuntimeError", "ValueError", "Warning")
_SCALARS = ("int", "float", "str")


class Member(NamedTuple):
    """A method, an inner class or an assignment in a class's body."""

    owner: Class
    node: MemberNode


class Classes:
    """Questions about classes; the answers are kept, since a release asks for each of them some thousand times."""

    def __init__(self, evaluate: Callable[..., Value]) -> None:
        self._evaluate = evaluate  # an expression of a module
        self._lineages: dict[Class, list[Class | External]] = {}
        self._members: dict[Class, dict[str, Member]] = {}

    def bases(self, cls: Class) -> list[Class | External]:
        """The direct bases; one that the source does not explain goes by the name it is written with."""
        found: list[Class | External] = []
        for node in cls.node.bases:
            values = alternatives(self._evaluate(cls.module, node, cls.closure))
            known = [value for value in values if isinstance(value, (Class, External))]
            found += known or [External(ast.unparse(node))]
        return found

    def lineage(self, cls: Class) -> list[Class | External]:
        """The class and everything it inherits from, nearest first."""
        if cls not in self._lineages:
            self._lineages[cls] = [cls]  # a class that inherits from itself ends here
            for base in self.bases(cls):
                self._lineages[cls] += self.lineage(base) if isinstance(base, Class) else [base]
        return self._lineages[cls]

    def own_lineage(self, cls: Class) -> list[Class]:
        """The part of the lineage that the package defines."""
        return [one for one in self.lineage(cls) if isinstance(one, Class)]

    def inherits(self, cls: Class, names: tuple[str, ...]) -> bool:
        """Whether one of these names is in the lineage."""
        return any(one.name.rsplit(".", 1)[-1] in names for one in self.lineage(cls))

    def is_model(self, cls: Class) -> bool:
        """Whether pydantic validates it."""
        return self.inherits(cls, ("BaseModel",))

    def is_enumeration(self, cls: Class) -> bool:
        """Whether its members are constants."""
        return self.inherits(cls, _ENUMERATIONS)

    def is_exception(self, cls: Class) -> bool:
        """Whether it is there to be raised."""
        return self.inherits(cls, _EXCEPTIONS)

    def is_scalar(self, cls: Class) -> bool:
        """Whether it is a number or text with a finer ``repr``, such as ``pp_int``."""
        return self.inherits(cls, _SCALARS) and not self.is_enumeration(cls)

    def member(self, cls: Class, name: str) -> Member | None:
        """What a name means in the class, looked up along the lineage."""
        if cls not in self._members:
            self._members[cls] = dict(self._found_members(cls))
        return self._members[cls].get(name)

    def _found_members(self, cls: Class) -> Iterator[tuple[str, Member]]:
        for owner in reversed(self.own_lineage(cls)):
            for node in owner.node.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield node.name, Member(owner, node)
                elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                    yield from ((target.id, Member(owner, node)) for target in targets if isinstance(target, ast.Name))

    def constructor(self, cls: Class, instance: Instance | None = None) -> Function | None:
        """Its ``__init__``, bound to an object."""
        member = self.member(cls, "__init__")
        if member is None or not isinstance(member.node, ast.FunctionDef):
            return None
        return Function(member.owner.module, member.node, member.owner, instance, member.owner.closure)

    def enumeration(self, cls: Class) -> dict[str, list[Any]]:
        """The spellings of each member of an enumeration: the value, and further ones that are taken for it."""
        members: dict[str, list[Any]] = {}
        for node in cls.node.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if not name.startswith("_"):
                    members[name] = self._spellings(cls, node.value)
        return members

    def accepted(self, cls: Class) -> list[Any]:
        """Every value that an enumeration takes."""
        spellings = [spelling for member in self.enumeration(cls).values() for spelling in member]
        return list(dict.fromkeys(spelling for spelling in spellings if spelling is not None))

    def _spellings(self, cls: Class, node: ast.expr) -> list[Any]:
        value = self._evaluate(cls.module, node)
        written = value.items if isinstance(value, Array) else [value]
        return [one.value if (one := constant(item)) else None for item in written]


def is_dataclass(cls: Class) -> bool:
    """Whether a class's constructor follows from its fields."""
    return any("dataclass" in ast.unparse(decorator) for decorator in cls.node.decorator_list)
