"""What a release imports and calls of another library in a run that it always makes: importing it, or training.

A condition that cannot be known from the releases, such as an option, leaves out what is under it.
"""

from __future__ import annotations

import ast
import operator
import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from tools.pairs.modules import Package, walked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

# What holds in every run with DeepSpeed: the libraries are installed, and nothing replaces the GPU.
_TRUE = {
    "is_accelerate_available()", "is_deepspeed_available()", "is_torch_available()", "self.deepspeed",
    "self.args.deepspeed", "args.deepspeed", "self.is_deepspeed_enabled", "self.framework == 'pt'",
    "is_torch_available() and (not self.no_cuda)", "is_torch_elastic_compatible()",
}  # fmt: skip
_FALSE = {
    "TYPE_CHECKING", "typing.TYPE_CHECKING", "self.no_cuda", "self.use_cpu", "is_sagemaker_mp_enabled()",
    "is_sagemaker_dp_enabled()", "is_torch_tpu_available()", "is_torch_xla_available()", "is_torch_npu_available()",
    "is_torch_mlu_available()", "is_torch_musa_available()", "is_torch_xpu_available()", "is_torch_hpu_available()",
    "is_tpu_available()", "is_npu_available()", "is_mlu_available()", "is_musa_available()", "is_xpu_available()",
}  # fmt: skip
_ACCELERATOR_CONFIG = "self.args.accelerator_config"
_OPERATORS: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
_SIGNS = {ast.GtE: ">=", ast.Gt: ">", ast.LtE: "<=", ast.Lt: "<", ast.Eq: "==", ast.NotEq: "!="}
_VERSION_OF = re.compile(r"^_?(\w+?)(?:_version|\.__version__)$|^importlib(?:_|\.)metadata\.version\('(\w+)'\)$")


class Bound(NamedTuple):
    """A condition on the release of a library."""

    library: str
    sign: str
    version: str

    def holds(self, release: str) -> bool:
        """Whether a release of the library meets it."""
        return _OPERATORS[self.sign](_parsed(release), _parsed(self.version))


class Demand(NamedTuple):
    """A name that is imported from a module of another library, or a keyword that something of it is called with."""

    module: str
    name: str | None
    keyword: str | None
    when: str  # "import" or "train"
    only_if: tuple[Bound, ...]

    def fails(self, other: Package, release: str) -> bool:
        """Whether a release of the other library, whose code this is, certainly does not have it."""
        if not all(bound.holds(release) for bound in self.only_if if bound.library == other.name):
            return False
        if self.keyword is None:
            return other.lacks(self.module, self.name)
        parameters = other.parameters(self.module, self.name or "")
        return parameters is not None and self.keyword not in parameters

    @property
    def words(self) -> str:
        """What it is, for a message."""
        if self.keyword is not None:
            return f"{self.name}({self.keyword}=...)"
        return f"{self.module}.{self.name}" if self.name else self.module


Truth = tuple[bool | None, tuple[Bound, ...]]  # None: not known; with bounds, true if all of them hold


def imported(package: Package, roots: Iterable[str], other: str) -> Iterator[Demand]:
    """What importing these modules imports of another library, through all modules of the package that they import."""
    seen: set[str] = set()
    waiting = [part for root in roots for part in _with_parents(root)]
    while waiting:
        module = waiting.pop()
        if module in seen:
            continue
        seen.add(module)
        for node, bounds in _imports_in(package.path(module)):
            for source, name in _imports(package, module, node):
                if source.split(".")[0] == other:
                    yield Demand(source, name, None, "import", bounds)
                elif source.split(".")[0] == package.name:
                    waiting += _with_parents(f"{source}.{name}" if name else source)


_of_text: dict[bytes, list[tuple[ast.stmt, tuple[Bound, ...]]]] = {}  # most files stay the same from release to release


def _imports_in(path: Path | None) -> list[tuple[ast.stmt, tuple[Bound, ...]]]:
    """The imports that a module certainly runs as it is imported."""
    if path is None:
        return []
    data = path.read_bytes()
    text = sha256(data).digest()
    if text not in _of_text:
        body = ast.parse(data).body
        _of_text[text] = [one for one in _run(body, ()) if isinstance(one[0], (ast.Import, ast.ImportFrom))]
    return _of_text[text]


def called(package: Package, functions: Iterable[tuple[str, str]], other: str) -> Iterator[Demand]:
    """What these functions, each with its module, import of another library and pass to it by name."""
    for module, wanted in functions:
        parsed = package.module(module)
        if parsed is None:
            continue
        known = _names_from(parsed.body, other)
        for function in _functions(parsed, wanted):
            dicts = _Keywords(package, function)
            names = known | _names_from(function.body, other)
            for node, bounds in _run(function.body, ()):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == other and not node.level:
                    for alias in node.names:
                        yield Demand(node.module or "", alias.name, None, "train", bounds)
                dicts.follow(node, bounds)
                yield from _calls(node, bounds, names, dicts, other)


def _run(body: list[ast.stmt], bounds: tuple[Bound, ...]) -> Iterator[tuple[ast.stmt, tuple[Bound, ...]]]:
    """The statements that are certainly run, or that are if some bounds hold."""
    for node in body:
        if isinstance(node, ast.If):
            truth, more = _truth(node.test)
            if truth is True:
                yield from _run(node.body, (*bounds, *more))
                if len(more) == 1:
                    yield from _run(node.orelse, (*bounds, _negated(more[0])))
            elif truth is False:
                yield from _run(node.orelse, bounds)
        elif isinstance(node, ast.Try):
            if not any(_catches_imports(handler) for handler in node.handlers):
                yield from _run(node.body, bounds)
            yield from _run(node.finalbody, bounds)
        elif isinstance(node, ast.With):
            if not any("suppress" in ast.unparse(item) for item in node.items):
                yield from _run(node.body, bounds)
        elif isinstance(node, (ast.For, ast.While, ast.Match)):
            continue
        else:
            yield node, bounds
            if isinstance(node, (ast.Raise, ast.Return)):
                return


def _truth(test: ast.expr) -> Truth:
    text = ast.unparse(test)
    if text in _TRUE:
        return True, ()
    if text in _FALSE:
        return False, ()
    if isinstance(test, ast.Constant):
        return bool(test.value), ()
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        truth, bounds = _truth(test.operand)
        if truth is True and len(bounds) == 1:
            return True, (_negated(bounds[0]),)
        return (not truth, ()) if truth is not None and not bounds else (None, ())
    if isinstance(test, ast.BoolOp):
        return _joined(test)
    bound = _bound(test)
    return (True, (bound,)) if bound else (None, ())


def _joined(test: ast.BoolOp) -> Truth:
    parts = [_truth(value) for value in test.values]
    if isinstance(test.op, ast.And):
        if any(truth is False for truth, _ in parts):
            return False, ()
        if all(truth is True for truth, _ in parts):
            return True, tuple(bound for _, bounds in parts for bound in bounds)
        return None, ()
    if any(truth is True and not bounds for truth, bounds in parts):
        return True, ()
    return (False, ()) if all(truth is False for truth, _ in parts) else (None, ())


def _bound(test: ast.expr) -> Bound | None:
    """The bound on a release that a test is."""
    if isinstance(test, ast.Call):
        name = ast.unparse(test.func)
        given = [one.value for one in (*test.args, *(keyword.value for keyword in test.keywords))
                 if isinstance(one, ast.Constant)]  # fmt: skip
        if name == "is_accelerate_available" and len(given) == 1 and isinstance(given[0], str):
            return Bound("accelerate", ">=", given[0])
        if name.endswith("compare_versions") and len(given) == 3 and given[1] in _OPERATORS:
            return Bound(*(str(one) for one in given))
        if name == "is_torch_version" and len(given) == 2 and given[0] in _OPERATORS:
            return Bound("torch", *(str(one) for one in given))
        return None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or type(test.ops[0]) not in _SIGNS:
        return None
    left, right = _parsed_text(test.left), _parsed_text(test.comparators[0])
    match = _VERSION_OF.match(left or "")
    if match is None or right is None or not re.fullmatch(r"'[\d.]+'", right):
        return None
    return Bound(match[1] or match[2], _SIGNS[type(test.ops[0])], right.strip("'"))


def _parsed_text(node: ast.expr) -> str | None:
    """What ``version.parse`` is called with."""
    if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("parse", "Version") and node.args:
        return ast.unparse(node.args[0])
    return None


def _negated(bound: Bound) -> Bound:
    return bound._replace(sign=_OPPOSITE[bound.sign])


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    caught = ast.unparse(handler.type) if handler.type is not None else "Exception"
    return any(name in caught for name in ("Import", "ModuleNotFound", "Exception", "AttributeError", "RuntimeError"))


def _imports(package: Package, module: str, node: ast.stmt) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, None
    elif isinstance(node, ast.ImportFrom):
        source = package.absolute(module, node)
        for alias in node.names:
            yield source, None if alias.name == "*" else alias.name


def _with_parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _functions(module: ast.Module, wanted: str) -> Iterator[ast.FunctionDef]:
    owner, _, name = wanted.partition(".")
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and not name and node.name == owner:
            yield node
        elif isinstance(node, ast.ClassDef) and node.name == owner:
            yield from (one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == name)


def _names_from(body: list[ast.stmt], other: str) -> dict[str, tuple[str, str]]:
    """What the names stand for that are imported from another library anywhere in a body."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in walked(body)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == other and not node.level
        for alias in node.names
    }


class _Keywords:
    """The dicts of a function that are passed as keywords, as far as their keys are known."""

    def __init__(self, package: Package, function: ast.FunctionDef) -> None:
        self._package = package
        self._keys: dict[str, dict[str, tuple[Bound, ...]]] = {}  # by the name of the dict, key and on which conditions
        for node in ast.walk(function):
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith(_ACCELERATOR_CONFIG):
                self._keys[ast.unparse(node.targets[0])] = dict.fromkeys(self._of_accelerator_config(), ())

    def of(self, expression: ast.expr) -> dict[str, tuple[Bound, ...]]:
        """The keys that a dict certainly has."""
        text = ast.unparse(expression)
        if text == f"{_ACCELERATOR_CONFIG}.to_dict()":
            return dict.fromkeys(self._of_accelerator_config(), ())
        return self._keys.get(text, {})

    def follow(self, node: ast.stmt, bounds: tuple[Bound, ...]) -> None:
        """Take in what a statement does to a dict."""
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            keys = [str(key.value) for key in node.value.keys if isinstance(key, ast.Constant)]
            if keys or bounds:
                self._keys[ast.unparse(node.targets[0])] = dict.fromkeys(keys, bounds)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            target = node.targets[0]
            if isinstance(target.value, ast.Name) and isinstance(target.slice, ast.Constant):
                self._keys.setdefault(target.value.id, {})[str(target.slice.value)] = bounds
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            name = ast.unparse(call.func.value)
            if call.func.attr == "update" and len(call.args) == 1:
                added = {key: (*bounds, *more) for key, more in self.of(call.args[0]).items()}
                self._keys.setdefault(name, {}).update(added)
            elif call.func.attr == "pop" and call.args and name in self._keys:
                popped = call.args[0]
                if isinstance(popped, ast.Constant):
                    self._pop(name, str(popped.value), bounds)
                else:
                    self._keys[name] = {}

    def _pop(self, name: str, key: str, bounds: tuple[Bound, ...]) -> None:
        """A key that is popped on a condition stays where it does not hold."""
        had = self._keys[name].pop(key, None)
        if had is not None and len(bounds) == 1:
            self._keys[name][key] = (*had, _negated(bounds[0]))

    def _of_accelerator_config(self) -> list[str]:
        """The fields of the Trainer's own options for Accelerate, without those that its arguments take out."""
        fields = self._package.parameters("transformers.trainer_pt_utils", "AcceleratorConfig") or frozenset()
        path = self._package.path("transformers.training_args")
        text = path.read_text(encoding="utf-8") if path is not None else ""
        return sorted(fields - set(re.findall(r"accelerator_config\.pop\(\s*\"(\w+)\"", text)))


def _calls(
    node: ast.stmt, bounds: tuple[Bound, ...], names: dict[str, tuple[str, str]], dicts: _Keywords, other: str
) -> Iterator[Demand]:
    """The keywords that a statement passes to what is imported from another library."""
    for call in _always_called(node):
        function = ast.unparse(call.func)
        if function in names:
            module, name = names[function]
        elif other == "accelerate" and function.startswith("self.accelerator.") and function.count(".") == 2:
            module, name = "accelerate.accelerator", f"Accelerator.{function.rpartition('.')[2]}"
        else:
            continue
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield Demand(module, name, keyword.arg, "train", bounds)
            else:
                for key, more in dicts.of(keyword.value).items():
                    yield Demand(module, name, key, "train", (*bounds, *more))


def _always_called(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call):
        yield node
    if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp, ast.FunctionDef, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(node):
        yield from _always_called(child)


def _parsed(version: str) -> tuple[int, ...]:
    numbers = [int(part) for part in re.findall(r"\d+", version.partition("+")[0])]
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)
