"""Which options of ``fsdp`` and keys of ``fsdp_config`` the TrainingArguments and the Trainer read before 5.10.1.

The options are those of ``FSDPOption`` (``trainer_utils.py``), the keys those that ``training_args.py`` and
``trainer.py`` look up.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.extract.history import Facts

SINCE = "4.31"  # from which on Accelerate prepares FSDP for the Trainer
_MODULES = ("training_args.py", "trainer.py")
_CONFIG = "fsdp_config"
_PREFIX = "fsdp_"
_LOADING, _SYNCING = "cpu_ram_efficient_loading", "sync_module_states"


def config_keys(package: Path) -> Facts:
    """The keys; ``needs`` is the key that must not be off beside one that is on."""
    trees = [source.parse(package / name) for name in _MODULES]
    names = sorted({name for tree in trees for name in _looked_up(tree)})
    if not names:
        raise LookupError(f"{' and '.join(_MODULES)} look up no key of {_CONFIG}")
    found: Facts = {name: {"versions": [1, 2]} for name in names}
    raised = (ast.unparse(node) for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Raise))
    if any(_SYNCING in text and _LOADING in text for text in raised):
        found[_LOADING]["needs"] = _SYNCING
    return found


def arguments(package: Path) -> Facts:
    """``options`` are the words of ``fsdp``; ``prefix`` says where ``fsdp_`` before a key is dropped."""
    options = source.find(source.parse(package / "trainer_utils.py"), "FSDPOption")
    words = [source.literal(node.value, {}) for node in options.body if isinstance(node, ast.Assign)]
    tree = source.parse(package / "training_args.py")
    return {"options": {"choices": words}, "prefix": {"choices": [*_where_dropped(tree)]}}


def _looked_up(tree: ast.AST) -> Iterator[str]:
    """The constants by which a config is looked up, and those of a loop that does it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and _is_config(node.value):
            yield from _constants(node.slice)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_config(node.func.value):
            yield from _constants(node.args[0] if node.args and node.func.attr in ("get", "setdefault") else None)
        elif isinstance(node, ast.For) and f"{_CONFIG}.get({ast.unparse(node.target)}" in ast.unparse(node):
            yield from (one for one in source.literal(node.iter, {}) or () if isinstance(one, str))


def _constants(node: ast.expr | None) -> Iterator[str]:
    name: Any = source.literal(node, {})
    if isinstance(name, str):
        yield name


def _is_config(node: ast.expr) -> bool:
    return ast.unparse(node).endswith(f".{_CONFIG}")


def _where_dropped(tree: ast.AST) -> Iterator[str]:
    """``files`` where the prefix is dropped while a file is read, ``dicts`` where that is done afterwards, too."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.With)]
    inside = {id(part) for block in blocks for part in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith(f".startswith('{_PREFIX}')"):
            yield from ["files"] if id(node) in inside else ["files", "dicts"]
