"""How the arguments of a release of transformers are written on a command line, besides their names and types.

``HfArgumentParser`` makes options of the fields (``hf_argparser.py``); the enumerations that types name are in
``training_args.py``, ``trainer_utils.py`` and ``debug_utils.py``.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.extract.history import Facts

_SEQ2SEQ = "training_args_seq2seq.py"
_MODULES = ("training_args.py", "trainer_utils.py", "debug_utils.py")
_ENUMS = ("Enum", "ExplicitEnum")
# Names of types that are not enumerations: those of typing and of Python, and classes that no text becomes.
_OTHERS = {
    "Any", "Dict", "False", "List", "Literal", "None", "Optional", "ParallelismConfig", "Union", "bool", "dict",
    "float", "int", "list", "str",
}  # fmt: skip


def seq2seq_arguments(package: Path) -> Facts:
    """The fields that Seq2SeqTrainingArguments adds."""
    module = source.parse(package / _SEQ2SEQ)
    return source.own_fields(source.find(module, "Seq2SeqTrainingArguments"), bases=("TrainingArguments",))


def words(package: Path, fields: Facts) -> Facts:
    """The values of the enumerations that types of these fields name."""
    named = {name for field in fields.values() for name in re.findall(r"\w+", field["type"])} - _OTHERS
    known = {name: values for module in _MODULES for name, values in _enums(source.parse(package / module))}
    if missing := sorted(named - known.keys()):
        raise LookupError(f"the types of fields name {', '.join(missing)}, which is not an enumeration of {_MODULES}")
    return {name: {"choices": known[name]} for name in sorted(named)}


def _enums(module: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in module.body:
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) in _ENUMS for base in node.bases):
            values = [one.value for one in node.body if isinstance(one, ast.Assign)]
            yield node.name, [one.value for one in values if isinstance(one, ast.Constant)]  # type: ignore[misc]


def options(package: Path) -> Facts:
    """The spellings of an option besides that of its field: with dashes."""
    function = source.find(source.parse(package / "hf_argparser.py"), "_parse_dataclass_field")
    has_dashes = any(_replaces_underscores(node) for node in ast.walk(function))
    return {"dashes": {}} if has_dashes else {}


def _replaces_underscores(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "replace"):
        return False
    return [one.value for one in node.args if isinstance(one, ast.Constant)] == ["_", "-"]
