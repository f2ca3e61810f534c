"""What a release of Lightning makes of the keywords of ``DeepSpeedStrategy``.

``_create_default_config`` (``pytorch/strategies/deepspeed.py``) makes the DeepSpeed config of them if ``config`` is not
given. ``pytorch_lightning`` is the same code under another name. ``register_strategies`` there and in
``fabric/strategies/deepspeed.py`` gives names to calls with some keywords: ``Trainer(strategy="deepspeed_stage_2")``.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract import source
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "lightning"
STORE = Path(__file__).parent.parent.parent / "schemas" / "lightning.json"

_Section = dict[str, "_Section | ast.expr"]  # a dict that is being built: what each key gets


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    strategy = _strategy(tree, "pytorch")
    constructor = source.find(strategy, "__init__")
    return {
        "strategy": _keywords(constructor),
        "strategy_config": _Maker(source.find(strategy, "_create_default_config"), constructor).records(),
        "trainer_names": dict(_registered(strategy)),
        "fabric_names": dict(_registered(_strategy(tree, "fabric"))),
    }


def _strategy(tree: Path, package: str) -> source.Definition:
    return source.find(source.parse(tree / LIBRARY / package / "strategies" / "deepspeed.py"), "DeepSpeedStrategy")


def _registered(strategy: source.Definition) -> Iterator[tuple[str, Facts]]:
    """The names that the class registers for itself, each with the keywords of the call that it stands for."""
    for statement in _body(source.find(strategy, "register_strategies")):
        call = statement.value if isinstance(statement, ast.Expr) else None
        if not isinstance(call, ast.Call) or not ast.unparse(call.func).endswith("registry.register"):
            raise LookupError(f"strategies are registered by {source.brief(statement)}")
        name, made = [ast.unparse(one) if isinstance(one, ast.Name) else ast.literal_eval(one) for one in call.args]
        if made != "cls" or any(keyword.arg is None for keyword in call.keywords):
            raise LookupError(f"strategies are registered by {source.brief(statement)}")
        keywords = {one.arg: ast.literal_eval(one.value) for one in call.keywords if one.arg != "description"}
        yield name, {"keywords": keywords}


def _keywords(constructor: source.Definition) -> Facts:
    """The keywords of the constructor, with their defaults."""
    arguments = _arguments_of(constructor)
    names = [one.arg for one in arguments.args[1:]]
    if arguments.kwonlyargs or arguments.kwarg:
        raise LookupError("DeepSpeedStrategy takes keyword-only arguments or **kwargs, which are not read")
    if len(arguments.defaults) != len(names):
        raise LookupError("DeepSpeedStrategy takes something without a default")
    return {name: source.default(default) for name, default in zip(names, arguments.defaults, strict=True)}


def _arguments_of(function: source.Definition) -> ast.arguments:
    if not isinstance(function, ast.FunctionDef):
        raise LookupError(f"{function.name} is not a function")  # noqa: TRY004 - another layout
    return function.args


class _Maker:
    """Follows the function that makes the config, statement by statement.

    A record has, by the path of a key, the ``keyword`` whose value it gets, or nothing if it is a section; and the
    expression without which neither the key nor anything below it is there (``only_if``).
    """

    def __init__(self, function: source.Definition, constructor: source.Definition) -> None:
        arguments = _arguments_of(function)
        declared = {one.arg for one in arguments.args[1:]}
        calls = (node for node in ast.walk(constructor) if isinstance(node, ast.Call))
        call = next((node for node in calls if ast.unparse(node.func) == f"self.{function.name}"), None)
        if call is None:
            raise LookupError(f"the constructor of DeepSpeedStrategy does not call {function.name}")
        if any(keyword.arg is None for keyword in call.keywords):
            raise LookupError("keywords of DeepSpeedStrategy are passed on in a dict")
        passed = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
        passed |= {one.arg: value for one, value in zip(arguments.args[1:], call.args, strict=False)}
        if any(not isinstance(value, ast.Name) or value.id != name for name, value in passed.items()):
            raise LookupError("a keyword of DeepSpeedStrategy is passed on as something else")
        rest = {name: value for name, value in passed.items() if name not in declared}
        self._names: dict[str, _Section] = {arguments.kwarg.arg: {**rest}} if arguments.kwarg else {}
        self._only_if: dict[int, str] = {}  # by the identity of a section or of an expression in one
        *body, last = _body(function)
        self._run(body)
        if not isinstance(last, ast.Return) or not isinstance(last.value, ast.Name):
            first = ast.unparse(last).splitlines()[0]
            raise LookupError(f"the config is made by {first}")  # noqa: TRY004 - another layout
        self._returned = self._named(last.value)
        if not self._returned:
            raise LookupError(f"{function.name} returns no config that is read")

    def records(self) -> Facts:
        """The records of the config."""
        return dict(self._records(self._returned, ""))

    def _records(self, section: _Section, path: str) -> Iterator[tuple[str, Facts]]:
        for name, value in section.items():
            record = {"only_if": [self._only_if[id(value)]]} if id(value) in self._only_if else {}
            if isinstance(value, dict):
                yield f"{path}{name}", record
                yield from self._records(value, f"{path}{name}.")
            elif isinstance(value, ast.Name):
                yield f"{path}{name}", {"keyword": value.id, **record}
            else:
                raise LookupError(f"{path}{name} gets {ast.unparse(value)}")  # noqa: TRY004 - another layout

    def _run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if isinstance(statement, ast.If) and not statement.orelse:
                before = {name: dict(section) for name, section in self._names.items()}
                self._run(statement.body)
                self._note(before, ast.unparse(statement.test))
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], statement.value)
            else:
                raise LookupError(f"the config is made by {ast.unparse(statement).splitlines()[0]}")

    def _note(self, before: dict[str, _Section], test: str) -> None:
        """Remember the condition of what an ``if`` has put into sections that were there before."""
        for name, section in self._names.items():
            for key, value in section.items():
                if name in before and key not in before[name]:
                    self._only_if.setdefault(id(value), test)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = self._section(value)
        elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
            self._named(target.value)[ast.literal_eval(target.slice)] = self._section(value)
        else:
            raise LookupError(f"the config is made by an assignment to {ast.unparse(target)}")  # noqa: TRY004 - another layout

    def _named(self, name: ast.Name) -> _Section:
        if name.id not in self._names:
            raise LookupError(f"the config is made of {name.id}, which is not followed")
        return self._names[name.id]

    def _section(self, value: ast.expr) -> _Section:
        """The section that an expression stands for; a name stands for one and the same."""
        if isinstance(value, ast.Name) and value.id in self._names:
            return self._names[value.id]
        if not isinstance(value, ast.Dict):
            raise LookupError(f"the config is made of {ast.unparse(value)}")  # noqa: TRY004 - another layout
        section: _Section = {}
        for key, inner in zip(value.keys, value.values, strict=True):
            if key is None:
                section |= self._section(inner)
            else:
                is_section = isinstance(inner, ast.Dict) or (isinstance(inner, ast.Name) and inner.id in self._names)
                section[ast.literal_eval(key)] = self._section(inner) if is_section else inner
        return section


def _body(function: source.Definition) -> list[ast.stmt]:
    """The statements of a function, without its docstring."""
    return [one for one in function.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
