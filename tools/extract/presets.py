"""Bring ``schemas/presets.json`` up to new releases of the frameworks that ship configs.

    python -m tools.extract.presets ms-swift 4.7.0 4.8.0
    python -m tools.extract.presets TRL 1.17.0 --check
    python -m tools.extract.presets axolotl 0.7.0 --repository DIR
    python -m tools.extract.presets --cache DIR [--check] [--repository DIR]

The records of ``presets`` are those that a word names: ``is`` is the JSON, or the YAML, of the package. ``changes`` are
the keys that the framework sets in the config of a run, whatever names that. Without a framework, all releases of the
store are read again. Standard output is the change log.

Configs that lie in the repository of a framework are read from the source distribution. That of axolotl 0.5.2 and 0.7.0
to 0.16.1 has none: ``--repository`` is a clone, of which the tag of the release is read then.
"""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from ds_lint import frameworks
from tools.extract import source
from tools.extract.framework_stores import FrameworkStore
from tools.extract.framework_stores import main as run
from tools.extract.frameworks import Facts, is_of
from tools.extract.reading import ExtractionError, Parser, tree_of
from tools.extract.releases import fetch_source

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from ds_lint.frameworks.layout import PresetLayout
    from ds_lint.frameworks.record import Framework

FRAMEWORKS = {name: one for name, one in frameworks.FRAMEWORKS.items() if one.presets is not None}


def extract(framework: Framework, tree: Path, release: str | None = None) -> Facts:
    """The configs that a release ships, by the words that name them, and the keys that it sets in one."""
    layout = framework.presets
    if layout is None:
        raise LookupError(f"the record of {framework.name} does not say where it has configs")
    files = _files(layout, tree, release)
    if not any(is_of(part, release) for part in layout.files):
        return {"presets": {}}  # older than the first
    words = _words(layout, tree) if layout.mapping else {_word(layout, name): name for name in files}
    absent = sorted(set(words.values()) - set(files))
    if absent or not words:
        raise LookupError(f"there is no {', '.join(absent) or 'config'} in {tree}")
    facts: Facts = {"presets": {word: {"is": _content(files[name])} for word, name in words.items()}}
    if layout.changed:
        facts["changes"] = dict(_changes(layout, tree))
    return facts


def _files(layout: PresetLayout, tree: Path, release: str | None) -> dict[str, Path]:
    found = (path for part in layout.files if is_of(part, release) for path in sorted(tree.glob(part.what)))
    return {path.relative_to(tree).as_posix() if layout.in_repository else path.name: path for path in found}


def _word(layout: PresetLayout, name: str) -> str:
    return name if layout.in_repository else name.rpartition(".")[0]


def _content(path: Path) -> object:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def _modules(tree: Path, mark: str) -> Iterator[Path]:
    """The modules of a package with this text."""
    for path in sorted(tree.rglob("*.py")):
        if mark in path.read_text(encoding="utf-8", errors="replace"):
            yield path


def _words(layout: PresetLayout, tree: Path) -> dict[str, str]:
    """The files by the words that name them."""
    nodes = (node for path in _modules(tree, layout.mapping) for node in ast.walk(source.parse(path)))
    found = [
        _mapping(node.value)
        for node in nodes
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == layout.mapping
    ]
    if not found or any(one != found[0] for one in found):
        raise LookupError(f"{layout.mapping} has {len(found)} meanings in {tree}")
    return found[0]


def _mapping(node: ast.expr) -> dict[str, str]:
    """A dict of constants, or ``{name: f"{name}.json" for name in [...]}``."""
    if not isinstance(node, ast.DictComp):
        return dict(ast.literal_eval(node))
    (loop,) = node.generators
    names = ast.literal_eval(loop.iter)
    if ast.unparse(node.key) != ast.unparse(loop.target) or not isinstance(node.value, ast.JoinedStr):
        raise LookupError(f"the words are made by {source.brief(node)}")
    before, after = ast.unparse(node.value)[2:-1].split(f"{{{ast.unparse(loop.target)}}}")
    return {name: f"{before}{name}{after}" for name in names}


def _changes(layout: PresetLayout, tree: Path) -> Iterator[tuple[str, Facts]]:
    """The keys that functions set in the config, each with the value and the conditions."""
    for path in _modules(tree, layout.changed.removeprefix("self.")):
        for cls in (node for node in ast.walk(source.parse(path)) if isinstance(node, ast.ClassDef)):
            for function in cls.body:
                if isinstance(function, ast.FunctionDef) and layout.changed in ast.unparse(function):
                    yield from _changed_by(function, cls.name, layout.changed)


def _changed_by(function: ast.FunctionDef, cls: str, owner: str) -> Iterator[tuple[str, Facts]]:
    for statement in source.statements(function):
        node = statement.node
        path = _path(node.targets[0], owner) if isinstance(node, ast.Assign) else None
        if path is None or not isinstance(node, ast.Assign):
            continue
        only_if = [source.text(test, statement.names, {"self": ""}) for test in statement.only_if]
        if cls.endswith("Config"):  # the arguments of one trainer, by its kind: ``swift/trainers/trainer_factory.py``
            only_if.insert(0, f"rlhf_type == '{cls.removesuffix('Config').lower()}'")
        value = node.value
        if isinstance(value, ast.Dict):
            (key,), (value,) = value.keys, value.values
            path = (*path, ast.literal_eval(key)) if key is not None else path
        yield ".".join(path), {"value": source.text(value, statement.names, {"self": ""}), "only_if": only_if}


def _path(target: ast.expr, owner: str) -> tuple[str, ...] | None:
    """The keys of an item below the owner: ``owner["a"]["b"]``, ``owner.setdefault("a", {})["b"]``."""
    keys: list[str] = []
    while not (is_owner := ast.unparse(target) == owner):
        if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
            keys.insert(0, str(target.slice.value))
            target = target.value
        elif isinstance(target, ast.Call) and ast.unparse(target.func).endswith(".setdefault"):
            keys.insert(0, ast.literal_eval(target.args[0]))
            target = target.func.value if isinstance(target.func, ast.Attribute) else target
        else:
            break
    return tuple(keys) if is_owner and keys else None


@contextmanager
def _source_of(framework: Framework, release: str, options: argparse.Namespace) -> Iterator[Path]:
    """The folder with the configs of a release."""
    layout = framework.presets
    if layout is None or not layout.in_repository or options.tree:
        with tree_of(framework.package, release, options) as tree:
            yield tree
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = fetch_source(framework.package, release, options.cache or Path(folder))
        if options.repository and not _files(layout, tree, release):
            tree = _at_tag(options.repository, f"v{release}", Path(folder) / "tag")
        yield tree


def _at_tag(repository: Path, tag: str, folder: Path) -> Path:
    """The files of a tag of a clone."""
    folder.mkdir()
    done = subprocess.run(["git", "-C", str(repository), "archive", tag], capture_output=True, check=False)
    if done.returncode:
        raise ExtractionError(f"git: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _is_line(value: object, _depth: int, key: str) -> bool:
    """Each list of releases and each config."""
    return key == "is" or (isinstance(value, list) and not isinstance(value[0], dict))


class _Presets(FrameworkStore):
    def tree(self, framework: Framework, release: str, options: argparse.Namespace) -> AbstractContextManager[Path]:
        return _source_of(framework, release, options)

    def add_options(self, parser: Parser) -> None:
        parser.add_argument(
            "--repository", type=Path, metavar="DIR", help="a clone with the configs that a source distribution lacks"
        )


STORE = _Presets("presets", FRAMEWORKS, extract, _is_line)
main = partial(run, STORE, __doc__)

if __name__ == "__main__":
    sys.exit(main())
