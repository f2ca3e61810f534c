"""What the expressions of a Python module are, as nodes: dicts, lists and scalars that show without running it.

A dict in a variable is followed through what the module does with it afterwards. What is done for certain, by a
statement that runs right after the assignment, is done to the node; a key that may or may not get another value becomes
unknown, and so does everything else that is computed. Unknown values are nodes of the kind ``template``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.record import Record
from ds_lint.source.limits import MOST_BITS
from ds_lint.source.python_names import ModuleNames, dotted_name, is_united
from ds_lint.source.tree import Member, Node, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from dataclasses import KW_ONLY

    from ds_lint.source.python_names import Assignment

_MOST_NODES = 50_000  # of one module: dicts that are unpacked into each other grow without bounds
_DEEPEST = 60  # nesting of values and of the names that stand for them
_LARGEST_EXPONENT = 64
_COPIES = frozenset({"dict", "copy", "copy.copy", "copy.deepcopy", "deepcopy"})
_NUMBERS: dict[str, Callable[[float], float]] = {"int": int, "float": float}
# Functions and methods that leave a dict as it is.
_READING = frozenset(
    {"bool", "id", "isinstance", "json.dump", "json.dumps", "len", "list", "pprint", "pprint.pprint", "print", "repr",
     "set", "sorted", "str", "tuple", "type", "yaml.dump", "HfDeepSpeedConfig", *_COPIES}
)  # fmt: skip
_READING_METHODS = frozenset({"copy", "get", "items", "keys", "values", "__contains__", "__getitem__"})


class Offsets:
    """Where the nodes of a module are in its text: the parser counts lines, and bytes of UTF-8 in them."""

    def __init__(self, text: str) -> None:
        self._mark = text.startswith("\ufeff")
        self._lines = _lines(text)
        self.starts = [int(self._mark)]  # of the lines, and the end
        for line in self._lines:
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """The half-open range of an expression or statement."""
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: S101, PT018 - it was parsed
        return Span(self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset))

    def offset(self, line: int, byte: int) -> int:
        """The offset of a place that the parser names."""
        text = self._lines[line - 1]
        return self.starts[line - 1] + (byte if text.isascii() else len(text.encode()[:byte].decode()))


def _lines(text: str) -> list[str]:
    """The lines as Python counts them: what else ends a line for ``splitlines``, such as a form feed, ends none."""
    if text.isascii() and not any(sign in text for sign in "\x0b\x0c\x1c\x1d\x1e"):
        return text.splitlines(keepends=True)
    import re

    return re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", text.removeprefix("\ufeff"))


class PythonValue(Record):
    """A node, and whether it may have further keys that nothing is known of."""

    node: Node
    _: KW_ONLY
    is_open: bool = False


class Values:
    """Evaluates the expressions of a module. Nothing of the module is run."""

    def __init__(self, names: ModuleNames, text: str) -> None:
        self._names = names
        self._text = text
        self._offsets = Offsets(text)
        self._left = _MOST_NODES
        self._users: frozenset[ast.Call] = frozenset()
        self._changes: dict[str, list[ast.expr]] = {}  # see ``_changing``
        self.dicts: set[ast.expr] = set()  # that have been part of a value

    def span(self, expression: ast.expr) -> Span:
        """Where an expression is in the text."""
        return self._offsets.span(expression)

    def value(self, expression: ast.expr, users: Iterable[ast.Call] = ()) -> PythonValue:
        """The value of an expression; ``users`` are calls that read a config and leave it as it is."""
        self._take(frozenset(users))
        return self._value(expression, expression, 0)

    def settled(self, dictionary: ast.expr) -> PythonValue:
        """The value of a dict that is written out, with all that happens to the variable that it is assigned to."""
        self._take(frozenset())
        value = self._value(dictionary, dictionary, 0)
        statement = self._names.parents.get(dictionary)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        name = dotted_name(target) if target is not None else ""
        uses = [use for use in self._names.uses.get(name, ()) if self._names.means_the_same(name, use, dictionary)]
        found = self._names.assignments(name, dictionary) if uses else []
        if len(found) == 1 and found[0].value is dictionary and value.node.kind == "object":
            last = max(uses, key=lambda use: use.lineno)
            for use in uses:
                self._apply(value, found[0], use, last, 0)
        return value

    def keywords(self, call: ast.Call) -> PythonValue:
        """The keywords of a call as an object, which is at the name that is called."""
        self._take(frozenset([call]))
        value = PythonValue(Node("object", self.span(call.func)))
        self._update(value, call, call, 0)
        return value

    def _take(self, users: frozenset[ast.Call]) -> None:
        if users is not self._users:
            self._users = users
            self._changes.clear()

    def _value(self, expression: ast.expr, use: ast.expr, depth: int) -> PythonValue:
        """The value of an expression when it is needed for ``use``."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return self._unknown(expression)
        if isinstance(expression, ast.Dict):
            return self._dict(expression, use, depth)
        if isinstance(expression, (ast.List, ast.Tuple)):
            array = PythonValue(Node("array", self.span(expression)))
            items = array.node.items = [self._element_of(array, item, use, depth) for item in expression.elts]
            kinds = {item.kind for item in items}
            return self._unknown(expression) if "template" in kinds and "object" not in kinds else array
        if isinstance(expression, ast.Constant):
            return self._constant(expression)
        if isinstance(expression, (ast.Name, ast.Attribute)):
            return self._named(expression, use, depth)
        if isinstance(expression, ast.Call):
            return self._called(expression, use, depth)
        if isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.BitOr):
            return self._union(expression, depth)
        if isinstance(expression, (ast.UnaryOp, ast.BinOp)):
            return self._computed(expression, use, depth)
        if isinstance(expression, ast.NamedExpr):
            return self._value(expression.value, use, depth + 1)
        return self._unknown(expression)

    def _unknown(self, expression: ast.expr) -> PythonValue:
        span = self.span(expression)
        return PythonValue(Node("template", span, self._text[span.start : span.end]), is_open=True)

    def _constant(self, expression: ast.Constant) -> PythonValue:
        value, span = expression.value, self.span(expression)
        if value is None:
            return PythonValue(Node("null", span))
        if isinstance(value, bool):
            return PythonValue(Node("boolean", span, value))
        if isinstance(value, (int, float)):
            return PythonValue(_number(value, span)) if _is_printable(value) else self._unknown(expression)
        if isinstance(value, str):
            return PythonValue(Node("string", span, value))
        return self._unknown(expression)

    def _element_of(self, container: PythonValue, expression: ast.expr, use: ast.expr, depth: int) -> Node:
        """An element of a dict or list: it is where it is named, although its own elements may be elsewhere."""
        element = self._value(expression, use, depth + 1)
        container.is_open |= element.is_open and element.node.kind != "template"
        element.node.span = self.span(expression)
        return element.node

    def _dict(self, expression: ast.Dict, use: ast.expr, depth: int) -> PythonValue:
        value = PythonValue(Node("object", self.span(expression)))
        self.dicts.add(expression)
        for key, element in zip(expression.keys, expression.values, strict=True):
            if key is None:
                _merge(value, self._copied(element, element, depth))
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                _set(value.node, Member(key.value, self.span(key), self._element_of(value, element, use, depth)))
            else:
                value.is_open = True
        return value

    def _named(self, expression: ast.Name | ast.Attribute, use: ast.expr, depth: int) -> PythonValue:
        """The value of a variable that is assigned once, before it is used, with what happens to it in between."""
        name = dotted_name(expression)
        found = self._names.assignments(name, expression) if name else []
        assigned = found[0].value if len(found) == 1 else None
        if assigned is None:
            return self._unknown(expression)
        assignment = found[0]
        if self._names.places[expression] == assignment.place and expression.lineno <= assigned.lineno:
            return self._unknown(expression)
        value = self._value(assigned, use, depth + 1)
        if value.node.kind == "object":
            for other in self._changing(name):
                if other is not expression and self._names.means_the_same(name, expression, other):
                    self._apply(value, assignment, other, use, depth)
        elif any(
            is_united(other, self._names.parents[other])
            for other in self._changing(name)
            if other is not expression and self._names.means_the_same(name, expression, other)
        ):  # numbers or sets
            return self._unknown(expression)
        return value

    def _copied(self, expression: ast.expr, use: ast.expr, depth: int) -> PythonValue:
        """The value of a dict when it is copied or unpacked; of what its own dicts get later nothing is known."""
        value = self._value(expression, use, depth + 1)
        name = dotted_name(expression)
        if name and value.node.kind == "object":
            for other in self._changing(name):
                if self._subscripts(other)[0] and self._names.means_the_same(name, expression, other):
                    value.is_open = True
        return value

    def _called(self, expression: ast.Call, use: ast.expr, depth: int) -> PythonValue:
        name = dotted_name(expression.func)
        if name == "dict" and len(expression.args) <= 1:
            value = PythonValue(Node("object", self.span(expression)))
            self.dicts.add(expression)
            self._update(value, expression, use, depth)
            return value
        if len(expression.args) == 1 and not expression.keywords:
            if name in _COPIES:
                return self._copied(expression.args[0], expression, depth)
            if name in _NUMBERS:
                return self._converted(expression, _NUMBERS[name], use, depth)
        if isinstance(expression.func, ast.Attribute) and expression.func.attr == "copy" and not expression.args:
            return self._copied(expression.func.value, expression, depth)
        functions = self._names.functions.get(name.removeprefix("self."), [])
        if len(functions) != 1:
            return self._unknown(expression)
        returned = [
            node
            for node in ast.walk(functions[0])
            if isinstance(node, ast.Return) and self._names.places[node].scope is functions[0]
        ]
        if len(returned) != 1 or returned[0].value is None:
            return self._unknown(expression)
        return self._value(returned[0].value, returned[0].value, depth + 1)

    def _converted(
        self, expression: ast.Call, convert: Callable[[float], float], use: ast.expr, depth: int
    ) -> PythonValue:
        number = self._value(expression.args[0], use, depth + 1).node.value
        if isinstance(number, (int, float)):
            try:
                return PythonValue(_number(convert(number), self.span(expression)))
            except (OverflowError, ValueError):
                pass
        return self._unknown(expression)

    def _computed(self, expression: ast.UnaryOp | ast.BinOp, use: ast.expr, depth: int) -> PythonValue:
        """Arithmetic with numbers that show."""
        operands = [expression.operand] if isinstance(expression, ast.UnaryOp) else [expression.left, expression.right]
        numbers = [self._value(operand, use, depth + 1).node.value for operand in operands]
        known = [number for number in numbers if isinstance(number, (int, float)) and not isinstance(number, bool)]
        result = _arithmetic(expression.op, known) if len(known) == len(numbers) else None
        return self._unknown(expression) if result is None else PythonValue(_number(result, self.span(expression)))

    def _union(self, expression: ast.BinOp, depth: int) -> PythonValue:
        """The dict that ``|`` makes of two."""
        left, right = (self._copied(one, one, depth) for one in (expression.left, expression.right))
        if left.node.kind != "object" or right.node.kind != "object":
            return self._unknown(expression)
        value = PythonValue(Node("object", self.span(expression)))
        _merge(value, left)
        _merge(value, right)
        return value

    # What happens to a dict in a variable.

    def _apply(self, value: PythonValue, assignment: Assignment, other: ast.expr, use: ast.expr, depth: int) -> None:
        """What one use of a variable does to the dict in it."""
        path, node = self._subscripts(other)
        if self._is_read(node) or self._is_past(other, use, assignment):
            return
        parent = self._names.parents[node]
        done: Callable[[PythonValue], None] | None = None
        if isinstance(parent, ast.AugAssign):
            done = self._united(parent, node)
        elif isinstance(parent, ast.Attribute):
            call = self._names.parents[parent]
            assert isinstance(call, ast.Call)  # noqa: S101 - otherwise it is only read
            done = {
                "update": lambda section: self._update(section, call, use, depth),
                "setdefault": lambda section: self._set_default(section, call, use, depth),
                "pop": lambda section: self._pop(section, call),
            }.get(parent.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            *path, last = path
            done = self._assigned(last, node, parent, use, depth)
        if done is None or not self._is_certain(assignment, other, use):
            self._make_unknown(value, path, done, node)
            return
        section = _section(value, path)
        if section is None:
            value.is_open = True
        else:
            done(section)
            value.is_open |= section.is_open

    def _is_read(self, node: ast.expr) -> bool:
        """Whether an expression that is a variable with some keys leaves the dict in it as it is."""
        parent = self._names.parents[node]
        if is_united(node, parent):
            return False
        if isinstance(parent, ast.keyword):
            parent = self._names.parents[parent]
        if isinstance(parent, ast.Call) and parent.func is not node:
            name = dotted_name(parent.func)
            return parent in self._users or name in _READING or name.rpartition(".")[2] in _READING
        if isinstance(parent, ast.Attribute):
            call = self._names.parents[parent]
            return not (isinstance(call, ast.Call) and call.func is parent) or parent.attr in _READING_METHODS
        if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and parent.value is node:
            target = parent.targets[0] if isinstance(parent, ast.Assign) else parent.target
            return self._stays(dotted_name(target), target)
        return not isinstance(node, ast.Subscript) or isinstance(node.ctx, ast.Load)

    def _stays(self, name: str, at: ast.expr) -> bool:
        """Whether no dict is changed through another name that it has."""
        if not name:
            return False
        return not any(self._names.means_the_same(name, at, other) for other in self._changing(name))

    def _changing(self, name: str) -> list[ast.expr]:
        """The uses of a name that may change the dict in it, found once for all that ask."""
        if name not in self._changes:
            self._changes[name] = []  # of names that are assigned to each other
            uses = self._names.uses.get(name, ())
            self._changes[name] = [other for other in uses if not self._is_read(self._subscripts(other)[1])]
        return self._changes[name]

    def _subscripts(self, name: ast.expr) -> tuple[list[str | None], ast.expr]:
        """The keys behind a name, None for one that does not show, and the whole expression with them."""
        path: list[str | None] = []
        node = name
        while isinstance(parent := self._names.parents[node], ast.Subscript) and parent.value is node:
            key = parent.slice
            path.append(key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None)
            node = parent
        return path, node

    def _is_certain(self, assignment: Assignment, other: ast.expr, use: ast.expr) -> bool:
        """Whether a statement runs once, and before the use: in the same sequence as the assignment, and behind it."""
        assert assignment.value is not None  # noqa: S101 - otherwise there is no dict
        alone = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Delete, ast.Expr)
        is_alone = isinstance(self._names.statement(other), alone)
        is_behind = self._names.places[other] == assignment.place and other.lineno > assignment.value.lineno
        return is_alone and is_behind and not self._names.repeats(other, use, assignment.value)

    def _is_past(self, other: ast.expr, use: ast.expr, assignment: Assignment) -> bool:
        """Whether something happens to the dict only after it has been used."""
        assert assignment.value is not None  # noqa: S101 - otherwise there is no dict
        is_in_same = self._names.places[other].scope is self._names.places[use].scope
        is_behind = other.lineno > self._names.statement(use).lineno
        return is_in_same and is_behind and not self._names.repeats(other, use, assignment.value)

    def _make_unknown(
        self, value: PythonValue, path: list[str | None], done: Callable[[PythonValue], None] | None, node: ast.expr
    ) -> None:
        """Forget what a statement changes that may run or not."""
        section = _section(value, path)
        if section is None or done is None:
            value.is_open = True
            return
        before = {member.key: member.value for member in section.node.members}
        done(section)
        value.is_open |= section.is_open
        after = {member.key: member for member in section.node.members}
        for key in [key for key, member in after.items() if before.get(key) is not member.value]:
            unknown = Node("template", after[key].value.span, self._source(after[key].value.span))
            _set(section.node, Member(key, after[key].key_span, unknown))
        for key in [key for key in before if key not in after]:
            section.node.members.append(Member(key, self.span(node), Node("template", self.span(node), key)))

    def _source(self, span: Span) -> str:
        return self._text[span.start : span.end]

    def _assigned(
        self, key: str | None, node: ast.Subscript, parent: ast.AST, use: ast.expr, depth: int
    ) -> Callable[[PythonValue], None] | None:
        """What ``config[key] = ...`` or ``del config[key]`` does; None if that does not show."""
        if key is None:
            return None
        if isinstance(parent, ast.Delete):
            return lambda section: _delete(section.node, key)
        if isinstance(parent, ast.Assign) and parent.targets == [node]:
            element = parent.value
            return lambda section: _set(
                section.node, Member(key, self.span(node.slice), self._element_of(section, element, use, depth))
            )
        return lambda section: _set(section.node, Member(key, self.span(node.slice), self._unknown(node).node))

    def _update(self, section: PythonValue, call: ast.Call, use: ast.expr, depth: int) -> None:
        """What ``update`` of a dict and ``dict`` do with their arguments."""
        for argument in call.args:
            _merge(section, self._copied(argument, argument, depth))
        for keyword in call.keywords:
            if keyword.arg is None:
                _merge(section, self._copied(keyword.value, keyword.value, depth))
            else:
                start = self._offsets.offset(keyword.lineno, keyword.col_offset)
                span = Span(start, start + len(keyword.arg))
                _set(section.node, Member(keyword.arg, span, self._element_of(section, keyword.value, use, depth)))

    def _united(self, statement: ast.AugAssign, node: ast.expr) -> Callable[[PythonValue], None] | None:
        """What ``config |= {...}`` does; None for any other operator, or another side of it."""
        if not is_united(node, statement):
            return None
        return lambda section: _merge(section, self._copied(statement.value, statement.value, 0))

    def _set_default(self, section: PythonValue, call: ast.Call, use: ast.expr, depth: int) -> None:
        key = _constant_key(call)
        if key is None:
            section.is_open = True
        elif section.node.get(key) is None and len(call.args) == 2:
            is_known = not section.is_open  # otherwise the key may have a value
            element = self._element_of(section, call.args[1], use, depth) if is_known else self._unknown(call).node
            _set(section.node, Member(key, self.span(call.args[0]), element))

    @staticmethod
    def _pop(section: PythonValue, call: ast.Call) -> None:
        key = _constant_key(call)
        if key is None:
            section.is_open = True
        else:
            _delete(section.node, key)


def is_product_with_fraction(text: str) -> bool:
    """Whether an expression multiplies by a number such as 0.9, which makes a float of it."""
    try:
        pending: list[ast.expr] = [ast.parse(text.strip(), mode="eval").body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    has_product = False
    for one in pending:
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult):
            pending += (one.left, one.right)
            has_product = True
    return has_product and any(
        isinstance(one, ast.Constant) and isinstance(one.value, float) and not one.value.is_integer() for one in pending
    )


def _constant_key(call: ast.Call) -> str | None:
    key = call.args[0] if call.args else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _section(value: PythonValue, path: list[str | None]) -> PythonValue | None:
    """The dict under these keys; None if it does not show."""
    node: Node | None = value.node
    for key in path:
        node = node.get(key) if node is not None and key is not None and node.kind == "object" else None
    return PythonValue(node, is_open=value.is_open) if node is not None and node.kind == "object" else None


def _set(section: Node, member: Member) -> None:
    """Give a key a value, in the place of the value that it has."""
    section.members = [*(one for one in section.members if one.key != member.key), member]
    section.forget_keys()


def _delete(section: Node, key: str) -> None:
    section.members = [member for member in section.members if member.key != key]
    section.forget_keys()


def _merge(value: PythonValue, other: PythonValue) -> None:
    """Put the keys of another dict into one."""
    if other.node.kind != "object":
        value.is_open = True
        return
    value.is_open |= other.is_open
    for member in other.node.members:
        _set(value.node, member)


def _is_printable(number: float) -> bool:
    """Whether str() takes a number: ``0x`` and 5,000 digits is one that it does not."""
    return not isinstance(number, int) or number.bit_length() <= MOST_BITS


def _number(value: float, span: Span) -> Node:
    return Node("float" if isinstance(value, float) else "integer", span, value)


def _printable(number: float) -> float | None:
    return number if _is_printable(number) else None


def _arithmetic(operator: ast.unaryop | ast.operator, numbers: list[float]) -> float | None:
    """The result, None if there is none or it is too large to be worth computing."""
    try:
        match operator, numbers:
            case ast.USub(), [number]:
                return -number
            case ast.UAdd(), [number]:
                return number
            case ast.Add(), [one, other]:
                return _printable(one + other)
            case ast.Sub(), [one, other]:
                return _printable(one - other)
            case ast.Mult(), [one, other]:
                return _printable(one * other)  # twice as long at the most
            case ast.Div(), [one, other]:
                return one / other
            case ast.FloorDiv(), [one, other]:
                return one // other
            case ast.Pow(), [one, other] if 0 <= other <= _LARGEST_EXPONENT and abs(one) <= _LARGEST_EXPONENT:
                return float(one**other) if isinstance(one, float) else int(one**other)
    except (ArithmeticError, ValueError):
        pass
    return None
