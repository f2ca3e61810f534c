"""The GPU that a script takes by the number of its rank: of all ranks, where those of the node are meant."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, keyword, literal, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GET_RANK = ("deepspeed.comm.get_rank", "torch.distributed.get_rank")
_ENVIRONMENT = ("os.environ.get", "os.getenv")
# Conditions that hold in a run of several nodes with GPUs.
_HOLDS = re.compile(r"is_available|is_initialized|is_distributed|world_size|__name__")
_DEPTH = 4  # variables that lead to each other


class DeviceOfRank(NamedTuple):
    """A call that takes the GPU of this number: the text of the call and of the rank in it."""

    function: str
    rank: str
    place: CodePlace


def device_of_rank(trained: TrainedNames, imported: ImportedNames) -> DeviceOfRank | None:
    """The first GPU that a script takes by the global rank; None if it takes none so."""
    reader = _DeviceReader(trained, imported)
    for call in trained.names.calls:
        index = reader.index(call)
        if index is not None and reader.is_global_rank(index) and reader.runs(call):
            return DeviceOfRank(dotted_name(call.func) or ast.unparse(call.func), ast.unparse(index), place(call))
    return None


class _DeviceReader:
    def __init__(self, trained: TrainedNames, imported: ImportedNames) -> None:
        self.names = trained.names
        self.imported = imported

    def index(self, call: ast.Call) -> ast.expr | None:
        """The number of a GPU that a call is given."""
        full = self.imported.full_name(dotted_name(call.func))
        first = call.args[0] if call.args else keyword(call, "device")
        if full == "torch.cuda.set_device":
            return _number(first) if isinstance(first, ast.JoinedStr) else first
        if full == "torch.device":
            if literal(first) == "cuda" and len(call.args) == 2:
                return call.args[1]
            return _number(first)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("cuda", "to") and len(call.args) == 1:
            return self._moved_to(call.args[0])
        is_accelerator = isinstance(call.func, ast.Attribute) and call.func.attr == "set_device"
        if is_accelerator and ast.unparse(call.func).startswith(("get_accelerator()", "deepspeed.get_accelerator()")):
            return first
        return None

    def _moved_to(self, device: ast.expr) -> ast.expr | None:
        """The number of the GPU that something is moved to, also through a variable with its name."""
        if isinstance(device, ast.Name):
            found = self.names.assignments(device.id, device)
            value = found[0].value if len(found) == 1 else None
            if isinstance(value, ast.JoinedStr):
                return _number(value)
        return _number(device) if isinstance(device, ast.JoinedStr) else device

    def is_global_rank(self, node: ast.expr, depth: int = _DEPTH) -> bool:
        """Whether an expression is the number of the rank among all."""
        while isinstance(node, ast.Call) and dotted_name(node.func) == "int" and len(node.args) == 1:
            node = node.args[0]
        if isinstance(node, ast.Subscript):
            return dotted_name(node.value) == "os.environ" and literal(node.slice) == "RANK"
        if isinstance(node, ast.Call):
            if dotted_name(node.func) in _ENVIRONMENT:
                return bool(node.args) and literal(node.args[0]) == "RANK"
            return self.imported.full_name(dotted_name(node.func)) in _GET_RANK and not (node.args or node.keywords)
        name = dotted_name(node)
        found = self.names.assignments(name, node) if name else []
        values = [one.value for one in found]
        return (
            depth > 0
            and bool(values)
            and all(one is not None and self.is_global_rank(one, depth - 1) for one in values)
        )

    def runs(self, node: ast.AST) -> bool:
        """Whether a call runs on several nodes if its function is called."""
        below = node
        while (around := self.names.parents.get(below)) is not None and not isinstance(around, _FUNCTIONS):
            if isinstance(around, ast.If) and below is not around.test:
                if below in around.orelse or not _HOLDS.search(ast.unparse(around.test)):
                    return False
            elif isinstance(around, (ast.IfExp, ast.ExceptHandler, ast.Lambda, ast.Match)):
                return False
            below = around
        return True


def _number(node: ast.expr | None) -> ast.expr | None:
    """The number in ``f"cuda:{rank}"``."""
    if not isinstance(node, ast.JoinedStr) or len(node.values) != 2:
        return None
    first, last = node.values
    return last.value if literal(first) == "cuda:" and isinstance(last, ast.FormattedValue) else None
