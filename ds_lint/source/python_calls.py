"""The calls in a Python module that make a DeepSpeed config of their keywords: of accelerate and of Lightning.

Lightning's ``Trainer`` and ``Fabric`` also take the name of a call: ``strategy="deepspeed_stage_2"``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Kind
    from ds_lint.source.python_names import ModuleNames


class Maker(NamedTuple):
    """A class whose keywords become a config; ``given`` is the keyword of a config, or its name, that is taken."""

    name: Kind
    packages: tuple[str, ...]  # that have it
    given: str
    stack: str


_MAKERS = (
    Maker("DeepSpeedPlugin", ("accelerate",), "hf_ds_config", "accelerate"),
    Maker("DeepSpeedStrategy", ("lightning.pytorch", "pytorch_lightning"), "config", "deepspeed"),
)
_TAKERS_OF_NAMES = (
    Maker("Trainer", ("lightning", "pytorch_lightning"), "strategy", "deepspeed"),
    Maker("Fabric", ("lightning", "lightning_fabric"), "strategy", "deepspeed"),
)
_CHANGED = ("deepspeed_config", "hf_ds_config.config")  # attributes of a plugin whose dict a program may change


class CallSite(NamedTuple):
    """A call that makes a config, and the call of ``Accelerator`` that takes it, if there is one."""

    call: ast.Call
    maker: Maker
    taker: ast.Call | None

    @property
    def gives_config(self) -> bool:
        """Whether nothing but a config is passed, which is then a config of its own."""
        is_null = any(isinstance(one.value, ast.Constant) and one.value.value is None for one in self.call.keywords)
        return {keyword.arg for keyword in self.call.keywords} == {self.maker.given} and not is_null


def config_calls(names: ModuleNames) -> Iterator[CallSite]:
    """The calls, those with positional arguments left out."""
    imports = _imports(names)
    takers = list(_takers(names))
    for call in names.calls:
        maker = _maker(call, names, imports, _MAKERS)
        if maker is not None and not call.args:
            taking = [taker for made, taker in takers if made is call]
            yield CallSite(call, maker, taking[0] if len(taking) == 1 else None)


def takers_of_names(names: ModuleNames) -> Iterator[tuple[ast.Call, Maker]]:
    """The calls that may name a strategy of Lightning."""
    calls = [call for call in names.calls if dotted_name(call.func).endswith(("Trainer", "Fabric"))]
    imports = _imports(names) if calls else {}
    for call in calls:
        if (maker := _maker(call, names, imports, _TAKERS_OF_NAMES)) is not None:
            yield call, maker


def changes_configs(names: ModuleNames) -> bool:
    """Whether a module takes the dict of a plugin in hand, and may change what is in it."""
    return any(
        isinstance(parent := names.parents.get(use), (ast.Subscript, ast.Attribute)) and parent.value is use
        for name, uses in names.uses.items()
        if name.endswith(_CHANGED)
        for use in uses
    )


def _maker(call: ast.Call, names: ModuleNames, imports: dict[str, str], makers: tuple[Maker, ...]) -> Maker | None:
    """The class that is called: imported from a package that has it, or not bound by the module at all."""
    written = dotted_name(call.func)
    first, _, rest = written.partition(".")
    if first in imports:
        origin = f"{imports[first]}.{rest}" if rest else imports[first]
        return next((maker for maker in makers if _is_of(origin, maker)), None)
    maker = next((maker for maker in makers if written == maker.name), None)
    if maker is None or first in names.functions or first in _classes(names) or names.assignments(first, call):
        return None
    return maker


def _is_of(origin: str, maker: Maker) -> bool:
    package, _, name = origin.rpartition(".")
    return name == maker.name and any(package == one or package.startswith(f"{one}.") for one in maker.packages)


def _imports(names: ModuleNames) -> dict[str, str]:
    """What the imported names of a module stand for."""
    found: dict[str, str] = {}
    for node in names.imports:
        if isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        else:
            found |= {alias.asname or alias.name: f"{node.module or ''}.{alias.name}" for alias in node.names}
    return found


def _classes(names: ModuleNames) -> set[str]:
    return {node.name for node in names.every(ast.ClassDef)}


def _takers(names: ModuleNames) -> Iterator[tuple[ast.expr, ast.Call]]:
    """What ``Accelerator`` gets as its plugin, also through a variable that is assigned once; and that call."""
    for call in names.calls:
        if dotted_name(call.func).rpartition(".")[2] == "Accelerator":
            for keyword in call.keywords:
                if keyword.arg in ("deepspeed_plugin", "deepspeed_plugins"):
                    assigned = names.assignments(dotted_name(keyword.value), call)
                    only = assigned[0].value if len(assigned) == 1 else None
                    yield only or keyword.value, call
