"""``setup.py``, as far as it can be read without running it: literal lists in the call or under a module's name."""

from __future__ import annotations

import ast
import warnings

from ds_lint.targets import requirement
from ds_lint.targets.pin import PinPlace
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.targets.pin import Requirement


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The requirements of a project; those of extras are conditional."""
    try:
        with warnings.catch_warnings():  # about "\d" in strings of the project
            warnings.simplefilter("ignore")
            module = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for key, value in _arguments_of_setup(module):
        if key == "install_requires":
            yield from _listed(value, PinPlace(shown(path), within=key), is_conditional=False)
        elif key == "extras_require" and isinstance(value, dict):
            for extra, requirements in value.items():
                place = PinPlace(shown(path), within=f"{key} {extra}")
                yield from _listed(requirements, place, is_conditional=True)


def _arguments_of_setup(module: ast.Module) -> Iterator[tuple[str | None, object]]:
    named = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in ast.walk(module):
        if isinstance(call, ast.Call) and _is_setup(call.func):
            for keyword in call.keywords:
                value = keyword.value
                yield keyword.arg, _literal(named.get(value.id, value) if isinstance(value, ast.Name) else value)


def _is_setup(function: ast.expr) -> bool:
    """Whether this is ``setup``, or ``setup`` of some module."""
    name = (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )
    return name == "setup"


def _literal(node: ast.expr) -> object:
    """The value that an expression is, None if it has to be worked out."""
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return None


def _listed(requirements: object, place: PinPlace, *, is_conditional: bool) -> Iterator[Requirement]:
    """The requirements of a list, or of a single text, which setuptools takes too."""
    texts = requirements.splitlines() if isinstance(requirements, str) else requirements
    for text in texts if isinstance(texts, (list, tuple)) else ():
        found = requirement.parse(text, place, is_conditional=is_conditional) if isinstance(text, str) else None
        if found:
            yield found
