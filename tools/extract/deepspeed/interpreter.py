"""Run DeepSpeed's source on symbolic values: statements, expressions and the names they see.

A ``Frame`` runs one body. Both sides of every ``if`` are run and their bindings united, loops run once over everything
that is known of what they loop over, and calls into the package are followed (``calls.py``). So every place that a
``UserValue`` can reach is reached, and each ``get``, ``[]``, ``in`` and ``**`` there is recorded. What depends on the
outside (torch, ranks, files) is unknown and stays so.

The ``Analysis`` is what the frames of one release share.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import operator
from typing import TYPE_CHECKING, Any

from tools.extract.deepspeed import calls, sections
from tools.extract.deepspeed.classes import Classes
from tools.extract.deepspeed.modules import ImportedModule, ImportedName, Sources
from tools.extract.deepspeed.records import Guard, Records
from tools.extract.deepspeed.values import (
    ANY_KEY,
    ITEM,
    UNKNOWN,
    Array,
    Class,
    Constant,
    Entries,
    External,
    Function,
    Instance,
    Package,
    Table,
    UserValue,
    alternatives,
    constant,
    either,
    folded,
    from_python,
    user_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tools.extract.deepspeed.modules import Definition, Module
    from tools.extract.deepspeed.values import Names, Value

MOST_ITERATIONS = 80
MOST_BITS = 100  # an exponent beyond this is no setting
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
_SIGNS: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


class Analysis:
    """One release while it is analysed: its modules, and everything that was found so far."""

    def __init__(self, tree: Path) -> None:
        self.sources = Sources(tree)
        self.records = Records()
        self.classes = Classes(self)
        self.calls = calls.History()
        self._names: dict[tuple[Module, str], Value | None] = {}

    def evaluate(self, module: Module, node: ast.expr, names: Names | None = None) -> Value:
        """The value of an expression that stands in a module or in the body of a class."""
        return Frame(self, module, dict(names or {})).evaluate(node)

    def value_of(self, module: Module, name: str) -> Value | None:
        """What a name means in a module; None if it means nothing there."""
        place = (module, name)
        if place not in self._names:
            self._names[place] = None  # a name that is defined by itself, which stays unknown
            self._names[place] = self._found(module, name)
        return self._names[place]

    def _found(self, module: Module, name: str) -> Value | None:
        if name in module.names:
            return self.resolve(module, module.names[name])
        for starred in reversed(module.starred):
            source = self.sources.module(starred)
            value = self.value_of(source, name) if source else None
            if value is not None:
                return value
        return None

    def resolve(self, module: Module, definition: Definition) -> Value:
        """The value that a definition in a module gives to its name."""
        match definition:
            case ImportedModule(name):
                return Package(name) if self.sources.module(name) else External(name)
            case ImportedName(source, name):
                return self.member_of(source, name)
            case ast.ClassDef():
                return Class(module, definition)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(module, definition)
            case _:
                return self.evaluate(module, definition)

    def member_of(self, module_name: str, name: str) -> Value:
        """``module.name``, also of another library."""
        module = self.sources.module(module_name)
        if module is None:
            return External(f"{module_name}.{name}")
        value = self.value_of(module, name)
        if value is None and self.sources.module(f"{module_name}.{name}"):
            return Package(f"{module_name}.{name}")
        return UNKNOWN if value is None else value

    def run(self, function: Function, names: Names) -> Value:
        """The value that a function returns when its parameters are bound to these names."""
        frame = Frame(self, function.module, names, function.owner)
        if isinstance(function.node, ast.Lambda):
            return frame.evaluate(function.node.body)
        frame.run(function.node.body)
        return either(*frame.returned) if frame.returned else Constant(None)


class Frame:
    """The run of one body. ``owner`` is the class whose method it is, which ``super()`` asks for."""

    def __init__(self, analysis: Analysis, module: Module, names: Names, owner: Class | None = None) -> None:
        self.analysis = analysis
        self.module = module
        self.names = names
        self.owner = owner
        self.returned: list[Value] = []
        self._unrolled: set[str] = set()  # loop variables that stand for one constant at a time

    # Statements

    def run(self, body: list[ast.stmt]) -> bool:
        """Run a block; true if nothing after it in the same block is reached."""
        return any(self._leaves(node) for node in body)

    def _leaves(self, node: ast.stmt) -> bool:
        match node:
            case ast.Return(value=value):
                self.returned.append(self.evaluate(value) if value else Constant(None))
                return True
            case ast.Raise(exc=exception):
                if exception:
                    self.evaluate(exception)
                return True
            case ast.Continue() | ast.Break():
                return True
            case ast.If():
                return self._condition(node)
            case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
                for item in items:
                    entered = self.evaluate(item.context_expr)
                    if item.optional_vars:
                        self._bind(item.optional_vars, entered)
                return self.run(body)
            case _:
                self._passes(node)
                return False

    def _passes(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=value):
                self.evaluate(value)
            case ast.Assign(targets=targets, value=value):
                assigned = self.evaluate(value)
                for target in targets:
                    self._bind(target, assigned)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._bind(target, self.evaluate(value))
            case ast.AugAssign(target=target, value=value):
                self.evaluate(value)
                self.evaluate(target)
            case ast.Assert(test=test):
                self.evaluate(test)
                self._note_choices(test, holds=True)
            case ast.For() | ast.AsyncFor():
                self._loop(node)
            case ast.While(test=test, body=body):
                self.evaluate(test)
                self.run(body)
            case ast.Try():
                self._try(node)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                self.names[name] = Function(self.module, node, closure=self.names)
            case ast.ClassDef(name=name):
                self.names[name] = Class(self.module, node, closure=self.names)
            case ast.Import() | ast.ImportFrom():
                self._import(node)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        binds = self.module.imported(node)
        for name, definition in binds.names.items():
            self.names[name] = self.analysis.resolve(self.module, definition)
        starred = self.analysis.sources.module(binds.starred) if binds.starred else None
        for name in starred.names if starred else ():
            self.names.setdefault(name, self.analysis.value_of(starred, name) or UNKNOWN)  # type: ignore[arg-type]

    def _loop(self, node: ast.For | ast.AsyncFor) -> None:
        for item in self.iterate(self.evaluate(node.iter)):
            self._bind(node.target, item)
            for part in ast.walk(node.target):
                if isinstance(part, ast.Name):
                    is_constant = isinstance(self.names.get(part.id), Constant)
                    (self._unrolled.add if is_constant else self._unrolled.discard)(part.id)
            self.run(node.body)
        self.run(node.orelse)

    def _try(self, node: ast.Try) -> None:
        self.run(node.body)
        for handler in node.handlers:
            before = dict(self.names)
            self.run(handler.body)
            self.names = _united(before, self.names)
        self.run(node.orelse)
        self.run(node.finalbody)

    def _condition(self, node: ast.If) -> bool:
        test = self.evaluate(node.test)
        if isinstance(node.body[-1], ast.Raise):
            if isinstance(node.test, ast.Compare) and isinstance(node.test.ops[0], ast.In):
                self._note_membership(node.test, "refused")
            self._note_choices(node.test, holds=False)
        if isinstance(test, Constant) and isinstance(test.value, bool) and self._is_unrolled(node.test):
            return self.run(node.body if test.value else node.orelse)
        guard = self._guard(node.test)
        before = dict(self.names)
        self._narrow(node.test)
        leaves_if = self._run_guarded(node.body, guard)
        after_if, self.names = self.names, before
        leaves_else = self._run_guarded(node.orelse, guard._replace(holds=False) if guard else None)
        if leaves_if and leaves_else:
            return True
        if leaves_else:
            self.names = after_if
        elif not leaves_if:
            self.names = _united(after_if, self.names)
        return False

    def _run_guarded(self, body: list[ast.stmt], guard: Guard | None) -> bool:
        if guard is None:
            return self.run(body)
        self.analysis.records.guards.append(guard)
        try:
            return self.run(body)
        finally:
            self.analysis.records.guards.pop()

    def _narrow(self, test: ast.expr) -> None:
        """Where ``isinstance(name, cls)`` holds, an unknown value is an object of that class of the package."""
        match test:
            case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), kind]):
                cls = self.evaluate(kind)
                if isinstance(cls, Class) and self._named(name) == UNKNOWN:
                    self.names[name] = Instance(cls)

    def _is_unrolled(self, test: ast.expr) -> bool:
        """Whether a loop variable and constants decide a test: ``if method == LAYER_REDUCTION: continue``."""
        names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
        has_call = any(isinstance(node, ast.Call) for node in ast.walk(test))
        return (
            not has_call
            and not names.isdisjoint(self._unrolled)
            and all(name in self._unrolled or name.isupper() for name in names)
        )

    def _note_membership(self, test: ast.Compare, way: str) -> None:
        """Record ``name in section`` and ``name not in section``."""
        match test:
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                name = constant(self.evaluate(left))
                for value in alternatives(self.evaluate(right)):
                    section = value.of if isinstance(value, Entries) else value
                    if isinstance(section, UserValue) and name and isinstance(name.value, str):
                        self.analysis.records.read((*section.path, name.value), way)

    def _guard(self, test: ast.expr) -> Guard | None:
        """The value of the user that must be one of some constants for a test to hold."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return next((guard for value in values if (guard := self._guard(value))), None)
            case ast.Compare(left=left, ops=[ast.Eq() | ast.In()], comparators=[right]):
                sides = (self.evaluate(left), self.evaluate(right))
                for one, other in (sides, sides[::-1]):
                    fixed = constant(other)
                    for value in user_values(one):
                        if value.path and fixed:
                            choices = fixed.value if isinstance(fixed.value, list) else [fixed.value]
                            return Guard(value.path, choices, holds=True)
        return None

    def _note_choices(self, test: ast.expr, *, holds: bool) -> None:
        """Record the values that an assertion, or a test that raises, leaves to the user."""
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self._note_choices(operand, holds=not holds)
            case ast.BoolOp(op=connective, values=values) if isinstance(connective, ast.And) == holds:
                for value in values:
                    self._note_choices(value, holds=holds)
            case ast.Compare(left=left, ops=[ast.In() | ast.NotIn() as relation], comparators=[right]):
                choices = self.evaluate(right)
                if isinstance(choices, Entries) and choices.part == "keys" and isinstance(choices.of, Table):
                    choices = from_python(list(choices.of.entries))
                fixed = constant(choices)
                is_choice = isinstance(relation, ast.In) == holds and not self.analysis.records.guards
                if fixed and isinstance(fixed.value, (list, dict)) and is_choice:
                    for chosen in user_values(self.evaluate(left)):
                        self.analysis.records.key(chosen.path).one_of.append(list(fixed.value))

    def _bind(self, target: ast.expr, value: Value) -> None:
        match target:
            case ast.Name(id=name):
                self.names[name] = value
            case ast.Attribute(value=owner, attr=name):
                for one in alternatives(self.evaluate(owner)):
                    if isinstance(one, Instance):
                        sections.set_attribute(one, name, value)
            case ast.Subscript(value=owner, slice=index):
                key = self.evaluate(index)
                for one in alternatives(self.evaluate(owner)):
                    sections.set_item(self.analysis, one, key, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                for place, part in enumerate(targets):
                    self._bind(part, _unpacked(value, place))
            case ast.Starred(value=rest):
                self._bind(rest, UNKNOWN)

    def iterate(self, value: Value) -> list[Value]:
        """What a loop over the value runs over."""
        items = [item for one in alternatives(value) for item in self._items(one)]
        return items or [UNKNOWN]

    def _items(self, value: Value) -> list[Value]:
        match value:
            case Array(items=items):
                return items[:MOST_ITERATIONS]
            case Constant(value=list() | tuple() | dict() as fixed):
                return [from_python(item) for item in itertools.islice(fixed, MOST_ITERATIONS)]
            case Table(entries=entries, overlaid=overlaid):
                unknown = [UNKNOWN] if overlaid else []
                return [*map(Constant, itertools.islice(entries, MOST_ITERATIONS)), *unknown]
            case Entries(of=of, part=part):
                return [Array(list(pair)) if part == "items" else pair[part == "values"] for pair in self._pairs(of)]
            case UserValue(path=path):
                self.analysis.records.key(path).used_as.add("array")
                return [UserValue((*path, ITEM))]
            case Class() if self.analysis.classes.is_enumeration(value):
                return [from_python(member) for member in self.analysis.classes.accepted(value)]
            case _:
                return [UNKNOWN]

    def _pairs(self, of: UserValue | Table) -> Iterator[tuple[Value, Value]]:
        if isinstance(of, Table):
            for name, entry in itertools.islice(list(of.entries.items()), MOST_ITERATIONS):
                yield Constant(name), entry
        else:
            self.analysis.records.treat(of.path, "open")
        for section in of.overlaid if isinstance(of, Table) else [of]:
            yield UNKNOWN, UserValue((*section.path, ANY_KEY))

    # Expressions

    def evaluate(self, node: ast.expr) -> Value:  # noqa: PLR0912 - one branch for each kind of expression
        """The symbolic value of an expression."""
        match node:
            case ast.Constant(value=value):
                return Constant(value)
            case ast.Name(id=name):
                return self._named(name)
            case ast.Attribute(value=owner, attr=name):
                return sections.attribute(self.analysis, self.evaluate(owner), name)
            case ast.Subscript(value=owner, slice=index):
                key = UNKNOWN if isinstance(index, ast.Slice) else self.evaluate(index)
                return sections.element(self.analysis, self.evaluate(owner), key, "read")
            case ast.Call():
                return self._call(node)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                return Array([item for part in parts for item in self._spliced(part)])
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp(left=left, op=operation, right=right):
                return _computed(operation, self.evaluate(left), self.evaluate(right))
            case ast.UnaryOp(op=sign, operand=operand):
                fixed = constant(self.evaluate(operand))
                return folded(_SIGNS[type(sign)], fixed.value) if fixed else UNKNOWN
            case ast.BoolOp(values=values):
                return either(*[self.evaluate(value) for value in values])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                self.evaluate(test)
                return either(self.evaluate(body), self.evaluate(orelse))
            case ast.NamedExpr(target=target, value=value):
                named = self.evaluate(value)
                self._bind(target, named)
                return named
            case ast.JoinedStr(values=values):
                return Constant("".join(self._text(value) for value in values))
            case ast.Lambda():
                return Function(self.module, node, closure=self.names)
            case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
                return Array(self._comprehension(node.generators, lambda: self.evaluate(part)))
            case ast.DictComp(key=key, value=entry):
                table = Table()
                self._comprehension(node.generators, lambda: self._add_entry(table, key, entry))
                return table
            case ast.Starred(value=value) | ast.Await(value=value):
                return self.evaluate(value)
            case _:
                return UNKNOWN

    def _named(self, name: str) -> Value:
        if name in self.names:
            return self.names[name]
        value = self.analysis.value_of(self.module, name)
        if value is not None:
            return value
        return External(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN

    def _spliced(self, part: ast.expr) -> list[Value]:
        return self.iterate(self.evaluate(part.value)) if isinstance(part, ast.Starred) else [self.evaluate(part)]

    def _dictionary(self, keys: list[ast.expr | None], values: list[ast.expr]) -> Table:
        table = Table()
        for key, value in zip(keys, values, strict=True):
            if key is None:
                sections.pour(self.analysis, table, self.evaluate(value))
            else:
                self._add_entry(table, key, value)
        return table

    def _add_entry(self, table: Table, key: ast.expr, value: ast.expr) -> Value:
        sections.set_item(self.analysis, table, self.evaluate(key), entry := self.evaluate(value))
        return entry

    def _text(self, part: ast.expr) -> str:
        fixed = constant(self.evaluate(part.value)) if isinstance(part, ast.FormattedValue) else None
        if isinstance(part, ast.Constant):
            return str(part.value)
        return str(fixed.value) if fixed else "..."

    def _comprehension(self, generators: list[ast.comprehension], element: Callable[[], Value]) -> list[Value]:
        before = dict(self.names)
        first, *inner = generators
        elements = []
        for item in self.iterate(self.evaluate(first.iter)):
            self._bind(first.target, item)
            for test in first.ifs:
                self.evaluate(test)
            for generator in inner:
                self._bind(generator.target, self.iterate(self.evaluate(generator.iter))[0])
            elements.append(element())
        self.names = before
        return elements

    def _comparison(self, node: ast.Compare) -> Value:
        self._note_membership(node, "tested")
        left, *rights = [self.evaluate(part) for part in (node.left, *node.comparators)]
        for relation, right in zip(node.ops, rights, strict=True):
            if isinstance(relation, _ORDERINGS):
                self._note_numbers(left, right)
                self._note_numbers(right, left)
        if len(rights) > 1 or isinstance(node.ops[0], _ORDERINGS):
            return UNKNOWN
        first, second = constant(left), constant(rights[0])
        return folded(_OPERATORS[type(node.ops[0])], first.value, second.value) if first and second else UNKNOWN

    def _note_numbers(self, value: Value, limit: Value) -> None:
        fixed = constant(limit)
        if fixed and isinstance(fixed.value, (int, float)):
            for one in user_values(value):
                self.analysis.records.key(one.path).used_as.add("number")

    def _call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super":
            return self._super()
        callee = self.evaluate(node.func)
        positional = [item for part in node.args for item in self._spliced(part)]
        named = {word.arg: self.evaluate(word.value) for word in node.keywords if word.arg}
        spread = [self.evaluate(word.value) for word in node.keywords if not word.arg]
        arguments = calls.Arguments(tuple(positional), named, tuple(spread))
        if callee == UNKNOWN and any(True for value in spread for _ in user_values(value)):
            callee = External(ast.unparse(node.func))
        return calls.call(self, callee, arguments)

    def _super(self) -> Value:
        """The same object, seen as one of its class's base."""
        instance = self.names.get("self")
        if isinstance(instance, Instance) and self.owner:
            for base in self.analysis.classes.bases(self.owner):
                if isinstance(base, Class):
                    return Instance(base, instance.attributes, instance.fields)
        return UNKNOWN


def _united(one: Names, other: Names) -> Names:
    """The names after either of two branches."""
    both = {name: either(one[name], other[name]) for name in one if name in other}
    return {**one, **other, **both}


def _unpacked(value: Value, place: int) -> Value:
    unpacked = [one.items for one in alternatives(value) if isinstance(one, Array)]
    return either(*[items[place] for items in unpacked if place < len(items)])


def _computed(operation: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(left, Array) and isinstance(right, Array) and isinstance(operation, ast.Add):
        return Array(left.items + right.items)
    first, second = constant(left), constant(right)
    compute = _OPERATORS.get(type(operation))
    if first is None or second is None or compute is None:
        return UNKNOWN
    if isinstance(operation, ast.Pow) and not (isinstance(second.value, int) and abs(second.value) <= MOST_BITS):
        return UNKNOWN
    return folded(compute, first.value, second.value)
