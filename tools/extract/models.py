"""What a release of transformers makes of its model types: how they run their experts, and where their width is.

A mixture of experts whose experts are modules of their own may run only those that the tokens of its rank chose; then
ranks run different modules, which ZeRO stage 3 cannot follow unless the block around them is a leaf module.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract import source
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "transformers"
STORE = Path(__file__).parent.parent.parent / "schemas" / "models.json"

_CONTAINERS = ("ModuleList", "ModuleDict")
_ROOTS = ("PreTrainedConfig", "PretrainedConfig")  # of the configs; the second before 5.0
_WITHOUT_TYPE = ("auto", "mmbt")  # folders: of any model, and of one that has no config.json of its own
Classes = dict[str, ast.ClassDef]


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    models = tree / LIBRARY / "models"
    folders = sorted(folder for folder in models.glob("*") if folder.is_dir())
    configs = {folder.name: _classes(folder.glob("configuration_*.py")) for folder in folders}
    everywhere = {name: node for classes in configs.values() for name, node in classes.items()}
    hidden_sizes, experts = {}, {}
    for folder in folders:
        modules = sorted(folder.glob("modeling_*.py"))
        types = {name: node for node in configs[folder.name].values() if (name := model_type_of(node)) is not None}
        if modules and not types and folder.name not in _WITHOUT_TYPE:
            raise LookupError(f"no configuration_*.py in {folder} has a class with a model_type")
        found = {name: _hidden_size(_lineage(node, everywhere)) for name, node in types.items()}
        hidden_sizes.update({name: facts for name, facts in found.items() if facts != {"key": "hidden_size"}})
        blocks = [block for path in modules for block in _blocks(path, folder.name)]
        if blocks:
            experts.update({name: {"blocks": blocks} for name in types})
    if not any(configs.values()):
        raise LookupError(f"there is no configuration_*.py below {models}")
    if not any(path for folder in folders for path in folder.glob("modeling_*.py")):
        raise LookupError(f"there is no modeling_*.py below {models}")
    return {"hidden_sizes": dict(sorted(hidden_sizes.items())), "chosen_experts": dict(sorted(experts.items()))}


def _classes(paths: Iterable[Path]) -> Classes:
    return {
        node.name: node for path in sorted(paths) for node in source.parse(path).body if isinstance(node, ast.ClassDef)
    }


def _lineage(node: ast.ClassDef, known: Classes) -> list[ast.ClassDef]:
    """A class and those of its bases that are known, itself first."""
    bases = [known[name] for base in node.bases if (name := ast.unparse(base)) in known and known[name] is not node]
    return [node, *(one for base in bases for one in _lineage(base, known))]


# ------------------------------------------------------------------------------------------------------------ configs


def model_type_of(node: ast.ClassDef) -> str | None:
    named = [value for name, value in _assigned(node.body) if name == "model_type"]
    if not named:
        return None
    model_type = source.literal(named[0], {})
    if not isinstance(model_type, str):
        raise LookupError(f"the model_type of {node.name} is {ast.unparse(named[0])}")  # noqa: TRY004 - another layout
    return model_type


def _hidden_size(lineage: list[ast.ClassDef]) -> Facts:
    """Under which key config.json has the hidden size, or that it is calculated; a key of None where there is none."""
    _verify_bases(lineage)
    aliases = (
        source.items(value, f"attribute_map of {one.name}")
        for one in lineage
        for name, value in _assigned(one.body)
        if name == "attribute_map"
    )
    renamed = next(
        (source.literal(entries["hidden_size"], {}) for entries in aliases if "hidden_size" in entries), None
    )
    given = [renamed] if renamed else [name for one in lineage for name in _named_by(one)]
    if not given:
        return {"key": None}
    return {"key": given[0]} if given[0] is not None else {"calculated": True}


def _verify_bases(lineage: list[ast.ClassDef]) -> None:
    """Every class that a config inherits from is one that is read, or adds no field."""
    known = {one.name for one in lineage}
    for one in lineage:
        for base in map(ast.unparse, one.bases):
            if base not in known and base not in _ROOTS and not base.endswith("Mixin"):
                raise LookupError(f"{one.name} inherits from {base}, which no configuration_*.py defines")


def _named_by(node: ast.ClassDef) -> Iterator[str | None]:
    """What a class takes its hidden size from: a key, or None where it calculates it."""
    if any(name == "hidden_size" for name, _ in _assigned(node.body)):
        yield "hidden_size"
    for part in ast.walk(node):
        if isinstance(part, ast.Assign) and ast.unparse(part.targets[0]) == "self.hidden_size":
            yield part.value.id if isinstance(part.value, ast.Name) else None
        elif isinstance(part, ast.FunctionDef) and part.name == "hidden_size":
            last = part.body[-1]
            returned = (
                ast.unparse(last.value).removeprefix("self.") if isinstance(last, ast.Return) and last.value else ""
            )
            yield returned if returned.isidentifier() else None
        elif isinstance(part, ast.FunctionDef) and part.name in ("__getattr__", "__getattribute__"):
            yield None  # it may pass on what a part of it has
        elif (
            isinstance(part, ast.Call)
            and ast.unparse(part.func) == "super().__init__"
            and isinstance(given := source.keyword(part, "hidden_size"), ast.Name)
        ):
            yield given.id


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The names that the body of a class gives values to."""
    for statement in body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, statement.value or ast.Constant(None)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield statement.targets[0].id, statement.value


# ------------------------------------------------------------------------------------------------------------ experts


def _blocks(path: Path, folder: str) -> Iterator[str]:
    """The classes in a module that run only the experts that were chosen, by their full names."""
    if "xpert" not in path.read_text(encoding="utf-8"):
        return
    classes = _classes([path])
    for name, node in classes.items():
        methods = _methods(_lineage(node, classes))
        container = _container(node, methods)
        if container and any(_chooses(function, container) for function in methods.values()):
            yield f"{LIBRARY}.models.{folder}.{path.stem}.{name}"


def _methods(lineage: list[ast.ClassDef]) -> dict[str, ast.FunctionDef]:
    """The methods of a class by name, its own before those of its bases."""
    found: dict[str, ast.FunctionDef] = {}
    for one in lineage:
        for function in one.body:
            if isinstance(function, ast.FunctionDef):
                found.setdefault(function.name, function)
    return found


def _container(node: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> str | None:
    """What a class has its experts in: itself, or an attribute that is a list or a dict of modules."""
    if any(ast.unparse(base).endswith(_CONTAINERS) for base in node.bases):
        return "self"
    for statement in ast.walk(methods["__init__"]) if "__init__" in methods else ():
        if (
            isinstance(statement, ast.Assign)
            and ast.unparse(statement.targets[0]) == "self.experts"
            and isinstance(statement.value, ast.Call)
            and ast.unparse(statement.value.func).endswith(_CONTAINERS)
        ):
            return "self.experts"
    return None


def _chooses(function: ast.FunctionDef, container: str) -> bool:
    """Whether a method runs only some experts: it loops over those that were hit, or skips those that were not."""
    return any(
        _runs(loop, container) and (not _goes_over_all(loop, container) or _skips(loop, container))
        for loop in ast.walk(function)
        if isinstance(loop, ast.For)
    )


def _goes_over_all(loop: ast.For, container: str) -> bool:
    text = ast.unparse(loop.iter)
    return text.startswith("range(") or (text != "self" and container in text)


def _runs(loop: ast.AST, container: str) -> bool:
    """Whether an expert is called in a loop: as an element of the container, or by a name that stands for one."""
    experts = _experts(loop, container)
    return any(_is_expert(call.func, experts, container) for call in ast.walk(loop) if isinstance(call, ast.Call))


def _experts(loop: ast.AST, container: str) -> set[str]:
    """The names that stand for one expert."""
    names = set()
    for node in ast.walk(loop):
        if isinstance(node, ast.Assign) and _is_element(node.value, container):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.For) and container != "self" and container in ast.unparse(node.iter):
            names |= {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
    return names


def _is_expert(called: ast.expr, names: set[str], container: str) -> bool:
    return _is_element(called, container) or (isinstance(called, ast.Name) and called.id in names)


def _is_element(node: ast.expr, container: str) -> bool:
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.value) == container
    return isinstance(node, ast.Call) and ast.unparse(node).startswith(f"getattr({container}, ")


def _skips(loop: ast.For, container: str) -> bool:
    """Whether a round of the loop may run no expert."""
    experts = _experts(loop, container)
    for node in ast.walk(loop):
        if not isinstance(node, ast.If):
            continue
        if any(isinstance(one, ast.Continue) for one in ast.walk(node)):
            return True
        called = (call.func for call in ast.walk(node) if isinstance(call, ast.Call))
        if any(_is_expert(one, experts, container) for one in called) and not _runs_in_else(node, experts, container):
            return True
    return False


def _runs_in_else(node: ast.If, experts: set[str], container: str) -> bool:
    """Whether an expert runs whichever way the condition goes."""
    ways = (node.body, node.orelse)
    return all(
        any(
            _is_expert(call.func, experts, container)
            for one in way
            for call in ast.walk(one)
            if isinstance(call, ast.Call)
        )
        for way in ways
    )
