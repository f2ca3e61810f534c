"""A pickle as data: its opcodes are followed on a stack of plain values, nothing is imported and nothing is called.

What an unpickler would import is a ``Global``, what it would call is a ``Call`` with its arguments, what the reader of
the archive would look up is a ``Persistent``. https://docs.python.org/3/library/pickletools.html names the opcodes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


OPCODES = 20_000_000  # of all pickles of a folder; a rank of a model with 1,000 parameters has some 50,000


class NotAPickleError(ValueError):
    """The bytes end early, or are none of a pickle."""


class TooMuchError(ValueError):
    """There are more opcodes than are followed."""


class OpcodeAllowance:
    """How many opcodes may still be followed, so that a folder takes a bounded time."""

    def __init__(self, opcodes: int = OPCODES) -> None:
        """Allow so many."""
        self.opcodes = opcodes


class Global(NamedTuple):
    """A class or function, by the name that is in the pickle."""

    module: str
    name: str


class Persistent(NamedTuple):
    """An object outside of the pickle, as ``torch.save`` names a storage: type, key, device and number of elements."""

    identifier: Any


class Call:
    """An object that a function or class makes of arguments, and the state that it gets."""

    __slots__ = ("arguments", "function", "items", "state")

    def __init__(self, function: Any, arguments: Any) -> None:
        """Keep what is called, and with what."""
        self.function = function
        self.arguments = arguments
        self.state: Any = None
        self.items: list[Any] = []  # of a subclass of list or set


_MARK = object()
_DICTS = {Global("collections", "OrderedDict"), Global("collections", "defaultdict"), Global("builtins", "dict")}
# Opcodes whose argument is a number of a fixed size: its format, and what it is for.
_NUMBERS = {b"J": "<i", b"K": "<B", b"M": "<H", b"G": ">d"}
_CONSTANTS = {b"N": None, b"\x88": True, b"\x89": False, b")": (), b"]": list, b"}": dict, b"\x8f": list}
# Opcodes before bytes or text: the format of their length, and whether they are text.
_STRINGS = {
    b"X": ("<I", True), b"\x8c": ("<B", True), b"\x8d": ("<Q", True), b"T": ("<i", False), b"U": ("<B", False),
    b"B": ("<I", False), b"C": ("<B", False), b"\x8e": ("<Q", False), b"\x96": ("<Q", False),
}  # fmt: skip
_TUPLES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
_GETS = {b"h": "<B", b"j": "<I"}
_PUTS = {b"q": "<B", b"r": "<I"}


def read(data: bytes, allowance: OpcodeAllowance, start: int = 0) -> tuple[Any, int]:
    """The value of a pickle, and where it ends; NotAPickleError, TooMuchError."""
    machine = _Machine(data, start)
    try:
        return machine.run(allowance), machine.place
    except (TooMuchError, NotAPickleError):
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise NotAPickleError("it ends early" if machine.place >= len(data) else "it is damaged") from error


class _Machine:
    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.place = start
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, allowance: OpcodeAllowance) -> Any:
        data, stack = self.data, self.stack
        while True:
            allowance.opcodes -= 1
            if allowance.opcodes < 0:
                raise TooMuchError
            opcode = data[self.place : self.place + 1]
            self.place += 1
            if opcode == b".":
                return stack.pop()
            if opcode in _NUMBERS:
                stack.append(self.number(_NUMBERS[opcode]))
            elif opcode in _STRINGS:
                stack.append(self.string(*_STRINGS[opcode]))
            elif opcode in _CONSTANTS:
                constant = _CONSTANTS[opcode]
                stack.append(constant() if isinstance(constant, type) else constant)
            elif opcode in _PUTS:
                self.memo[self.number(_PUTS[opcode])] = stack[-1]
            elif opcode in _GETS:
                stack.append(self.memo[self.number(_GETS[opcode])])
            elif opcode in _TUPLES:
                size = _TUPLES[opcode]
                stack[-size:] = [tuple(stack[-size:])]
            else:
                _OTHERS[opcode](self)

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return value

    def bytes_of(self, size: int) -> bytes:
        end = self.place + size
        if size < 0 or end > len(self.data):
            raise NotAPickleError("it ends early")
        value = self.data[self.place : end]
        self.place = end
        return value

    def string(self, form: str, is_text: bool) -> Any:
        value = self.bytes_of(self.number(form))
        return value.decode("utf-8", "surrogatepass") if is_text else value

    def line(self, encoding: str = "utf-8") -> str:
        end = self.data.index(b"\n", self.place)
        value = self.data[self.place : end]
        self.place = end + 1
        return value.decode(encoding, "replace")

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise NotAPickleError("no mark")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def ignore(self) -> None:
        """A comment of the pickle, as its protocol and its frames."""

    def protocol(self) -> None:
        self.place += 1

    def frame(self) -> None:
        self.place += 8

    def mark(self) -> None:
        self.stack.append(_MARK)

    def pop(self) -> None:
        self.stack.pop()

    def pop_mark(self) -> None:
        self.since_mark()

    def duplicate(self) -> None:
        self.stack.append(self.stack[-1])

    def memoize(self) -> None:
        self.memo[len(self.memo)] = self.stack[-1]

    def text_get(self) -> None:
        self.stack.append(self.memo[int(self.line())])

    def text_put(self) -> None:
        self.memo[int(self.line())] = self.stack[-1]

    def text_integer(self) -> None:
        text = self.line()
        self.stack.append({"00": False, "01": True}[text] if text in ("00", "01") else int(text[:100].rstrip("L")))

    def text_float(self) -> None:
        self.stack.append(float(self.line()))

    def text_string(self) -> None:
        self.stack.append(self.line().strip("'\""))

    def text_unicode(self) -> None:
        self.stack.append(self.line("raw-unicode-escape"))

    def long(self, form: str = "<B") -> None:
        self.stack.append(int.from_bytes(self.bytes_of(self.number(form)), "little", signed=True))

    def long_4(self) -> None:
        self.long("<i")

    def tuple_of(self) -> None:
        self.stack.append(tuple(self.since_mark()))

    def list_of(self) -> None:
        self.stack.append(self.since_mark())

    def dict_of(self) -> None:
        values = self.since_mark()
        self.stack.append({})
        self.fill(values)

    def append(self) -> None:
        value = self.stack.pop()
        self.extend([value])

    def appends(self) -> None:
        self.extend(self.since_mark())

    def extend(self, values: list[Any]) -> None:
        into = self.stack[-1]
        (into.items if isinstance(into, Call) else into).extend(values)

    def set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.fill([key, value])

    def set_items(self) -> None:
        self.fill(self.since_mark())

    def fill(self, values: list[Any]) -> None:
        into = self.stack[-1]
        pairs = zip(values[::2], values[1::2], strict=True)
        if isinstance(into, Call):
            into.items.extend(pairs)
        else:
            into.update((_hashable(key), value) for key, value in pairs)

    def text_global(self) -> None:
        self.stack.append(Global(self.line(), self.line()))

    def stack_global(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise NotAPickleError("a global without a name")
        self.stack.append(Global(module, name))

    def instance(self) -> None:
        function = Global(self.line(), self.line())
        self.stack.append(Call(function, tuple(self.since_mark())))

    def object_of(self) -> None:
        function, *arguments = self.since_mark()
        self.stack.append(Call(function, tuple(arguments)))

    def reduce(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        is_dict = isinstance(function, Global) and function in _DICTS
        self.stack.append({} if is_dict else Call(function, arguments))

    def new_object_with_keywords(self) -> None:
        keywords, arguments, function = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.stack.append(Call(function, (*arguments, *keywords.items())))

    def build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Call):
            self.stack[-1].state = state

    def persistent(self) -> None:
        self.stack.append(Persistent(self.stack.pop()))

    def text_persistent(self) -> None:
        self.stack.append(Persistent(self.line()))


def _hashable(key: Any) -> Any:
    """The key itself, or what stands for it: a hash of nested tuples can take forever."""
    return key if isinstance(key, (str, bytes, int, float, Global)) or key is None else id(key)


_OTHERS: dict[bytes, Callable[[_Machine], None]] = {
    b"\x80": _Machine.protocol, b"\x95": _Machine.frame, b"(": _Machine.mark, b"0": _Machine.pop,
    b"1": _Machine.pop_mark, b"2": _Machine.duplicate, b"\x94": _Machine.memoize, b"g": _Machine.text_get,
    b"p": _Machine.text_put, b"I": _Machine.text_integer, b"L": _Machine.text_integer, b"F": _Machine.text_float,
    b"S": _Machine.text_string, b"V": _Machine.text_unicode, b"\x8a": _Machine.long, b"\x8b": _Machine.long_4,
    b"t": _Machine.tuple_of, b"l": _Machine.list_of, b"d": _Machine.dict_of, b"a": _Machine.append,
    b"e": _Machine.appends, b"s": _Machine.set_item, b"u": _Machine.set_items, b"c": _Machine.text_global,
    b"\x93": _Machine.stack_global, b"i": _Machine.instance, b"o": _Machine.object_of,
    b"R": _Machine.reduce, b"\x81": _Machine.reduce,
    b"\x92": _Machine.new_object_with_keywords, b"b": _Machine.build, b"Q": _Machine.persistent,
    b"P": _Machine.text_persistent, b"\x90": _Machine.appends, b"\x91": _Machine.tuple_of, b"\x97": _Machine.ignore,
    b"\x98": _Machine.ignore,
}  # fmt: skip
