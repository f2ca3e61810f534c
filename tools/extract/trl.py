"""The classes of trl that arguments are read into: their fields, with types, defaults and choices.

The configs of its trainers (``trl/trainer/*_config.py``, since 0.24 also ``trl/experimental/*``), the models' and the
scripts' (``trl/scripts``; before 0.13 ``trl/commands/cli_utils.py``), and the classes below which they are. A class of
``trl.experimental`` has that in its name, because trl itself may have one that is called the same.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tools.extract import source
from tools.extract.deprecations import constructor, deprecations
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "trl"
STORE = Path(__file__).parent.parent.parent / "schemas" / "trl.json"

_MODULES = (
    "trainer/*_config.py", "trainer/utils.py", "scripts/utils.py", "scripts/grpo.py", "scripts/rloo.py", "utils.py",
    "commands/cli_utils.py", "experimental/*/*_config.py", "experimental/*/__init__.py",
    "experimental/utils.py",
)  # fmt: skip
_OF_TRAINERS = ("trainer/*_trainer.py", "experimental/*/*_trainer.py")
_CONFIG = re.compile(r"\w+(Config|Arguments)")
_UNREAD = ("PretrainedConfig",)  # a model's own
_TRAINER = re.compile(r"_?[A-Z]\w*Trainer")


class _Class(NamedTuple):
    node: ast.ClassDef
    module: str  # below trl, with dots


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = tree / LIBRARY
    found = dict(_classes(package))
    if not any(name.endswith("Config") for name in found):
        raise LookupError(f"there is no class of arguments in {', '.join(_MODULES)}")
    exported = _exported(package)
    classes: Facts = {}
    fields: Facts = {}
    for name, cls in sorted(found.items()):
        classes[name] = {
            "bases": [_key_of_base(base, cls, package, found) for base in map(ast.unparse, cls.node.bases)],
            **({"exported": True} if name in exported else {}),
            **({"sets": sets} if (sets := sorted(_set(cls.node))) else {}),
        }
        own = source.fields(cls.node) if _is_dataclass(cls.node) else {}
        for field, facts in own.items():
            fields[f"{name}.{field}"] = facts
        for field, facts in _more(cls.node, own):
            if field in own:
                fields[f"{name}.{field}"] |= facts
    return {
        "classes": classes,
        "fields": fields,
        "trainers": dict(_trainers(package)),
        "requires": {"transformers": {"specifier": _required(tree)}},
    }


def _classes(package: Path) -> Iterator[tuple[str, _Class]]:
    """The classes, by the name that they have below trl."""
    for pattern in _MODULES:
        for path in sorted(package.glob(pattern)):
            module = ".".join(path.relative_to(package).with_suffix("").parts)
            for node in source.parse(path).body:
                if isinstance(node, ast.ClassDef) and _CONFIG.fullmatch(node.name):
                    yield _key(node.name, module), _Class(node, module)


def _key(name: str, module: str) -> str:
    """``SFTConfig``, ``experimental.gkd.GKDConfig``."""
    parts = module.split(".")
    return ".".join([*parts[:2], name]) if parts[0] == "experimental" and len(parts) > 1 else name


def _key_of_base(base: str, cls: _Class, package: Path, found: dict[str, _Class]) -> str:
    """The class that a name means as a base: one of the store, or one of another library by its own name."""
    last = base.rpartition(".")[2]
    if last == "object":
        return last
    for node in ast.walk(source.parse(_path(package, cls.module))):
        for alias in node.names if isinstance(node, ast.ImportFrom) else ():
            if (alias.asname or alias.name) == last and isinstance(node, ast.ImportFrom):
                return _imported(alias.name, node, cls, found)
    key = _key(last, cls.module)
    if key in found and found[key].module == cls.module:
        return key
    raise LookupError(f"{cls.node.name} inherits from {base}, which is not found")


def _imported(name: str, node: ast.ImportFrom, cls: _Class, found: dict[str, _Class]) -> str:
    parts = cls.module.split(".")
    within = parts[: len(parts) - node.level] if node.level else []  # of __init__, that is its package
    module = [*within, *(node.module or "").split(".")]
    if not node.level and module[0] != LIBRARY:
        return name
    module = module if node.level else module[1:]
    key = _key(name, ".".join(one for one in module if one))
    if key not in found:
        raise LookupError(f"{cls.node.name} inherits from {key}, whose fields are not read")
    return key


def _path(package: Path, module: str) -> Path:
    return package.joinpath(*module.split(".")).with_suffix(".py")


def _required(tree: Path) -> str:
    """The releases of transformers that the package requires."""
    for path in tree.glob("trl-*.dist-info/METADATA"):
        stated = re.search(
            r"^Requires-Dist: transformers ?\(?([^;)\n]*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
        if stated is not None:
            return stated[1].strip()
    return ""


def _is_dataclass(cls: ast.ClassDef) -> bool:
    return any("dataclass" in ast.unparse(one) for one in cls.decorator_list)


def _exported(package: Path) -> set[str]:
    """The names that ``from trl import`` takes."""
    parts = list(ast.walk(source.parse(package / "__init__.py")))
    listed = {one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
    taken = {alias.asname or alias.name for one in parts if isinstance(one, ast.ImportFrom) for alias in one.names}
    if any(alias == "*" for alias in taken):
        for path in package.glob("*/__init__.py"):
            inner = ast.walk(source.parse(path))
            taken |= {alias.asname or alias.name for one in inner if isinstance(one, ast.ImportFrom)
                      for alias in one.names}  # fmt: skip
    return listed | taken


def _more(cls: ast.ClassDef, names: Collection[str]) -> Iterator[tuple[str, Facts]]:
    """What the metadata and ``__post_init__`` say of a field: its choices, what stands in for null or for it."""
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, source.metadata(node.value, "choices", "aliases")
        elif isinstance(node, ast.FunctionDef) and node.name == "__post_init__":
            for statement in source.statements(node):
                yield from _filled(statement.node)
    yield from deprecations(cls, names).items()


def _filled(node: ast.stmt) -> Iterator[tuple[str, Facts]]:
    """``self.bf16 = not self.fp16 if self.bf16 is None else self.bf16``."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.IfExp):
        return
    target = ast.unparse(node.targets[0])
    owner, _, name = target.rpartition(".")
    is_filled = ast.unparse(node.value.test) == f"{target} is None" and ast.unparse(node.value.orelse) == target
    if owner == "self" and is_filled:
        yield name, {"if_null": source.text(node.value.body, {}, {"self": ""})}


def _set(cls: ast.ClassDef) -> Iterator[str]:
    """The attributes that ``__post_init__`` sets, other than those that stand in for null."""
    for node in cls.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__post_init__":
            found = {
                target.attr
                for one in ast.walk(node)
                if isinstance(one, ast.Assign) and not any(_filled(one))
                for target in one.targets
                if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
            }
            yield from found


def _trainers(package: Path) -> Iterator[tuple[str, Facts]]:
    """What the constructor of each trainer takes; a trainer of the same name that is only moved has none of its own."""
    for pattern in _OF_TRAINERS:
        for path in sorted(package.glob(pattern)):
            module = ".".join(path.relative_to(package).with_suffix("").parts)
            for node in source.parse(path).body:
                if isinstance(node, ast.ClassDef) and _TRAINER.fullmatch(node.name):
                    yield _key(node.name, module), constructor(node) or {"is_open": True}
