"""Write ``schemas/layer_classes.json``: the classes of the layers that the model types of transformers may have.

    python -m tools.layer_classes --write [--cache DIR]

The files of the installed transformers and of some older releases, which pip downloads, are read and not imported. The
classes of all of them are put together, so that what no list has, no release has. Model types that make a part of
themselves of any other model are left out.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.extract import source
from tools.extract.models import model_type_of
from tools.extract.reading import STUMBLES, error_text
from tools.extract.releases import fetch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STORE = Path(__file__).parent.parent / "schemas" / "layer_classes.json"
OLDER = ("4.30.2", "4.39.3", "4.46.3", "4.57.6")
_LAYER = re.compile(r"\w+(?:Layer|Block)")
_ANY_MODEL = re.compile(r"\bAuto(?:Model|Backbone)\w*\.(?:_?from_config|from_pretrained)|\bload_backbone\(")
_OTHERS = ("modeling_flax_", "modeling_tf_")  # that torch does not train
_BASE = "GradientCheckpointingLayer"  # by whose name no layer is found
_WHOLE = "_no_split_modules"  # what a model names itself


def extract(models: Path) -> dict[str, set[str]]:
    """The names of layers by model type, of the folder ``transformers/models``; none for those with any model."""
    found: dict[str, set[str]] = {}
    for folder in sorted(one for one in models.glob("*") if one.is_dir()):
        modules = sorted(one for one in folder.glob("modeling_*.py") if not one.stem.startswith(_OTHERS))
        types = set(_types(folder))
        if not modules or not types:
            continue
        takes_any = any(_ANY_MODEL.search(path.read_text(encoding="utf-8")) for path in modules)
        names = set() if takes_any else {name for path in modules for name in _layers(path)}
        for model_type in types:
            found.setdefault(model_type, set()).update(names)
            if takes_any:
                found[model_type] = set()
    if not any(found.values()):
        raise LookupError(f"no modeling_*.py below {models} has a class of layers")
    return found


def _types(folder: Path) -> Iterator[str]:
    for path in folder.glob("configuration_*.py"):
        for node in source.parse(path).body:
            if isinstance(node, ast.ClassDef) and (name := model_type_of(node)) is not None:
                yield name


def _layers(path: Path) -> Iterator[str]:
    """The classes of layers that a module defines or imports, and those that its models name."""
    for node in ast.walk(source.parse(path)):
        if isinstance(node, ast.ClassDef) and _LAYER.fullmatch(node.name):
            yield node.name
        elif isinstance(node, ast.ImportFrom):
            yield from (one.name for one in node.names if _LAYER.fullmatch(one.name) and one.name != _BASE)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _WHOLE:
            yield from (name for name in source.literal(node.value, {}) or () if _LAYER.fullmatch(name))


def store(cache: Path) -> dict[str, Any]:
    """The content of the file, by the transformers that is installed and older releases."""
    spec = find_spec("transformers")
    assert spec is not None  # noqa: S101
    assert spec.origin is not None  # noqa: S101
    folders = [fetch("transformers", release, cache) / "transformers" for release in OLDER]
    every = [extract(folder / "models") for folder in (*folders, Path(spec.origin).parent)]
    types = sorted({name for one in every for name in one})
    layers = {name: sorted(set().union(*(one[name] for one in every if name in one))) for name in types}
    takes_any = {name for one in every for name, names in one.items() if not names}
    return {
        "library": "transformers",
        "release": version("transformers"),
        "older": [*OLDER],
        "layers": {name: names for name, names in layers.items() if names and name not in takes_any},
    }


def main(arguments: Sequence[str]) -> int:
    """Write the store; 2 if transformers is not laid out as it is known."""
    parser = argparse.ArgumentParser(prog="python -m tools.layer_classes", description=str(__doc__).splitlines()[0])
    parser.add_argument("--write", action="store_true", required=True)
    parser.add_argument("--cache", type=Path, metavar="DIR", help="keep what is downloaded here, and use it again")
    options = parser.parse_args(arguments)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = store(options.cache or Path(folder))
    except STUMBLES as error:
        sys.stderr.write(f"error: {error_text(error)}\n")
        return 2
    STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
