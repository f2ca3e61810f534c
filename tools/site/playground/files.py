"""Build the playground: Python for browsers, ds-lint as its wheel has it, and the page.

npm verifies what it fetches by the hashes in package-lock.json. Node.js 20 makes the snapshot of Python's memory, with
the Python that the browser runs.
"""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from ds_lint.knowledge import tables
from ds_lint.targets.pin import LIBRARIES

NAME = "playground"  # the folder of the site
HERE = Path(__file__).parent
ROOT = HERE.parents[2]
INSTALL = "npm ci --prefix tools/site/playground --ignore-scripts"
_MODULES = HERE / "node_modules"
# Modules end with .js in the site, since not every server knows .mjs for one.
_FROM_NPM = {
    "pyodide/pyodide.mjs": "pyodide.js",
    "pyodide/pyodide.asm.mjs": "pyodide.asm.js",
    "pyodide/pyodide.asm.wasm": "pyodide.asm.wasm",
    "pyodide/pyodide-lock.json": "pyodide-lock.json",
    "pyodide/python_stdlib.zip": "python_stdlib.zip",
    "web-tree-sitter/web-tree-sitter.js": "web-tree-sitter.js",
    "web-tree-sitter/web-tree-sitter.wasm": "web-tree-sitter.wasm",
    "web-tree-sitter/LICENSE": "web-tree-sitter.txt",
    "tree-sitter-bash/tree-sitter-bash.wasm": "tree-sitter-bash.wasm",
    "tree-sitter-bash/LICENSE": "tree-sitter-bash.txt",
}
# Written in Python alone. jsonschema, for policies, is not: it needs rpds-py.
_LIBRARIES = ("packaging", "PyYAML")
_WITHIN = "/lib/ds-lint"  # where the packages lie in the browser


def is_installed() -> bool:
    """Whether what npm has is there."""
    return all((_MODULES / path).is_file() for path in _FROM_NPM)


def write(site: Path) -> None:
    """Write all files into the folder ``playground`` of a site or of its sources; raises FileNotFoundError."""
    if not is_installed():
        raise FileNotFoundError(f"no Pyodide in {_MODULES}: run {INSTALL}")
    folder = site / NAME
    folder.mkdir(parents=True, exist_ok=True)
    for path, name in _FROM_NPM.items():
        shutil.copyfile(_MODULES / path, folder / name)
    for one in (HERE / "page").iterdir():
        shutil.copyfile(one, folder / one.name)
    (folder / "choices.json").write_text(json.dumps(_choices()), encoding="utf-8")
    with TemporaryDirectory() as temporary:
        packages = Path(temporary, "packages")
        _collect(packages, Path(temporary, "wheel"))
        (folder / "ds-lint.packed").write_bytes(_packed(packages))
        subprocess.run(
            ["node", HERE / "snapshot.mjs", packages, _WITHIN, folder / "python.snapshot"], cwd=HERE, check=True
        )


def _collect(packages: Path, wheel: Path) -> None:
    """What Python imports in the browser: ds-lint from its wheel, two libraries, and what answers the page."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheel, ROOT], check=True
    )
    (built,) = wheel.iterdir()
    with ZipFile(built) as content:
        content.extractall(packages)
    for library in _LIBRARIES:
        for file in metadata.files(library) or ():
            if file.suffix not in (".pyc", ".so", ".pyd") and ".." not in file.parts:  # with its licence
                target = packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file.locate(), target)
    for module in (HERE / "browser").glob("*.py"):
        if module.stem != "__init__":
            shutil.copyfile(module, packages / module.name)


def _packed(packages: Path) -> bytes:
    """The files in one: a line with their names and sizes in JSON, and behind it their contents."""
    files = [path for path in sorted(packages.rglob("*")) if path.is_file()]
    contents = [path.read_bytes() for path in files]
    sizes = [
        (path.relative_to(packages).as_posix(), len(content)) for path, content in zip(files, contents, strict=True)
    ]
    line = json.dumps({"folder": _WITHIN, "sizes": sizes}).encode() + b"\n"
    return gzip.compress(line + b"".join(contents), mtime=0)


def _choices() -> dict[str, list[str]]:
    """What the fields suggest: the known releases, the newest first, models and GPUs."""
    releases = {f"{library}-version": list(reversed(tables.load(library)["releases"])) for library in LIBRARIES}
    gpus = [name.replace(" ", "-") for name in tables.load("gpus")["gpus"]]
    return {**releases, "model": list(tables.load("published_models")["models"]), "gpu": gpus}
