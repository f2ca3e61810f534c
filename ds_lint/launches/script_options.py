"""The options that a training script defines itself, each with the number of values that it takes.

Those are ``add_argument`` of argparse, and the fields of the dataclasses that ``HfArgumentParser`` gets, as
``_parse_dataclass_field`` in ``transformers/hf_argparser.py`` adds them.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.script_code import keyword, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import ModuleNames

_BARE = ("store_true", "store_false", "store_const", "append_const", "count", "help", "version")
# Of ``add_config_arguments`` in ``deepspeed/__init__.py``.
_OF_DEEPSPEED = {"deepspeed": "0", "deepspeed_config": "1", "deepspeed_mpi": "0", "deepscale": "0"}


def script_options(module: ast.Module, names: ModuleNames) -> dict[str, str]:
    """The options of a script by their names without dashes: ``0``, ``1``, ``?`` or ``+`` values."""
    found: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.ClassDef) and any(
            dotted_name(one.func if isinstance(one, ast.Call) else one).rpartition(".")[2] == "dataclass"
            for one in node.decorator_list
        ):
            found.update(_fields(node))
    for call in names.calls:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted_name(call.func)
        if name == "add_argument":
            found.update(_added(call))
        elif name == "add_config_arguments":
            found.update(_OF_DEEPSPEED)
    return found


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            declared = ast.unparse(statement.annotation).lower()
            taken = "+" if "list" in declared else "?" if "bool" in declared else "1"
            yield statement.target.id, taken


def _added(call: ast.Call) -> Iterator[tuple[str, str]]:
    action, values = literal(keyword(call, "action")), keyword(call, "nargs")
    if action in _BARE:
        taken = "0"
    elif values is None:
        taken = "1" if action in (None, "store", "append") else "?"  # an action of the script's own
    else:
        number = literal(values)
        taken = "+" if number in ("+", "*") or isinstance(number, int) else "?"
    for given in call.args:
        name = literal(given)
        if isinstance(name, str) and name.startswith("-"):
            yield name.lstrip("-").replace("-", "_"), taken
