"""Write ``schemas/model_classes.json``: the model type of each class of transformers whose family a rule is about.

    python -m tools.model_classes --write

Run it in an environment that has transformers, whose files are read and not imported. A class of several model types
belongs to the one whose folder defines it.
"""

from __future__ import annotations

import ast
import json
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.extract import source
from tools.extract.reading import STUMBLES, error_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMAS = Path(__file__).parent.parent / "schemas"
STORE = SCHEMAS / "model_classes.json"
_MAPPINGS = Path("auto", "modeling_auto.py")
_NAMES = "_MAPPING_NAMES"  # of model types to classes
_OF_CONFIGS = f"CONFIG{_NAMES}"  # which is in another module


def extract(models: Path) -> dict[str, str]:
    """The classes by name, of the folder ``transformers/models``."""
    types: dict[str, set[str]] = {}
    for model_type, name in _entries(models / _MAPPINGS):
        types.setdefault(name, set()).add(model_type)
    families = _families()
    found = ((name, _defined_by(name, types[name], models)) for name in sorted(types))
    classes = {name: family for name, family in found if family is not None and family in families}
    if not classes:
        raise LookupError(f"no class in {models / _MAPPINGS} is of a family that a rule is about")
    return classes


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    module = source.parse(path)
    read = {_OF_CONFIGS}
    for statement in module.body:
        name = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
        if not isinstance(statement, ast.Assign) or not name.endswith(_NAMES):
            continue
        for entry in ast.walk(statement.value):
            pair = entry.elts if isinstance(entry, ast.Tuple) and len(entry.elts) == 2 else []
            if pair and all(isinstance(one, ast.Constant) for one in pair):
                read.add(name)
                yield ast.literal_eval(pair[0]), ast.literal_eval(pair[1])
    named = {node.id for node in ast.walk(module) if isinstance(node, ast.Name) and node.id.endswith(_NAMES)}
    if len(read) == 1 or named - read:
        raise LookupError(f"{min(named - read, default=f'*{_NAMES}')} in {path} is not a list of pairs")


def _defined_by(name: str, types: set[str], models: Path) -> str | None:
    """The model type of a class; None if several have it and none has the folder with it."""
    if len(types) == 1:
        return next(iter(types))
    for model_type in sorted(types):
        folder = models / model_type.replace("-", "_")
        if any(f"\nclass {name}(" in path.read_text(encoding="utf-8") for path in folder.glob("modeling_*.py")):
            return model_type
    return None


def _families() -> set[str]:
    """The model types of which the type alone tells a rule something."""
    models, families = (json.loads((SCHEMAS / name).read_text("utf-8")) for name in ("models.json", "families.json"))
    of_parts = {name for name in models["hidden_sizes"] if name.endswith("encoder-decoder")}
    return {*models["chosen_experts"], *families["overflow_in_fp16"], *of_parts}


def store() -> dict[str, Any]:
    """The content of the file, by the transformers that is installed."""
    spec = find_spec("transformers")
    assert spec is not None  # noqa: S101
    assert spec.origin is not None  # noqa: S101
    return {
        "library": "transformers",
        "release": version("transformers"),
        "classes": extract(Path(spec.origin).parent / "models"),
    }


def main(arguments: Sequence[str]) -> int:
    """Write the store; 2 if transformers is not laid out as it is known."""
    if arguments != ["--write"]:
        sys.stderr.write(str(__doc__))
        return 2
    try:
        found = store()
    except STUMBLES as error:
        sys.stderr.write(f"error: {error_text(error)}\n")
        return 2
    STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
