"""CONTRIBUTING.md and docs/dev/ name files, modules, rooms and layers that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ds_lint import checks
from tools.documents import blocks

ROOT = Path(__file__).parent.parent
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [CONTRIBUTING, *sorted((ROOT / "docs" / "dev").glob("*.md"))]
FOLDERS = (".ci", "docs", "ds_lint", "editors", "requirements", "rules", "schemas", "tests", "tools")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def code(text):
    """What stands in backticks, and the blocks of commands."""
    yield from re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    yield from re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL))


def paths(text):
    """The paths of the repository in code; ``<`` begins a placeholder."""
    for words in code(text):
        for word in words.split():
            path = word.partition("::")[0].strip(",;:()")
            if path.partition("/")[0] in FOLDERS and "/" in path and "<" not in path:
                yield path


def modules(text):
    """The modules that commands start with ``python -m``, those of this repository."""
    for words in code(text):
        yield from re.findall(r"python -m (tools(?:\.\w+)+)", words)


@each_page
def test_paths_that_it_names_exist(page):
    assert [path for path in paths(page.read_text(encoding="utf-8")) if not (ROOT / path).exists()] == []


@each_page
def test_commands_that_it_names_exist(page):
    for module in modules(page.read_text(encoding="utf-8")):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file(), module


@each_page
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_what_is_checked_is_found():
    named = "`ds_lint/cli.py`, `tests/x.py::test_y`, `rules/<code>.md`, `a/b`\n\n"
    text = f"{named}    ```sh\n    python -m tools.bench.start tools/test\n    ```\n"
    assert sorted(paths(text)) == ["ds_lint/cli.py", "tests/x.py", "tools/test"]
    assert list(modules(text)) == ["tools.bench.start"]


# ------------------------------------------------------------------------------------------------------ the house


def house():
    """The rooms of ds_lint in the tree of CONTRIBUTING.md, each with the number of its layer."""
    (tree,) = [block.text for block in blocks(CONTRIBUTING.read_text(encoding="utf-8")) if block.language == "text"]
    for number, names in re.findall(r"^  (\d+) +(.*?)(?:  |$)", tree, re.MULTILINE):
        for name in names.split(", "):
            yield name, int(number)


def layers(name):
    """The layers of that name in the test of imports, the highest first."""
    text = (ROOT / "tests" / "test_import_discipline.py").read_text(encoding="utf-8")
    (value,) = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    ]
    return ast.literal_eval(value)


def numbered(name):
    return {(room, number) for number, rooms in enumerate(layers(name), start=1) for room in rooms}


def test_the_tree_has_the_rooms_in_their_layers():
    assert {(re.sub(r"/$|\.py$", "", name), number) for name, number in house()} == numbered("LAYERS")


def test_the_table_of_training_runs_has_their_rooms_in_their_layers():
    text = (ROOT / "docs" / "dev" / "training-runs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| `(\w+)` \|", text, re.MULTILINE)
    assert {(name, int(number)) for number, name in rows} == numbered("SMOKE_LAYERS")


def test_the_rooms_of_the_tree_exist():
    assert [name for name, _ in house() if not (ROOT / "ds_lint" / name).exists()] == []


def test_every_family_has_its_place_in_the_table():
    text = (ROOT / "docs" / "dev" / "rules.md").read_text(encoding="utf-8")
    table = text.partition("## Where a rule belongs")[2].partition("\n## ")[0]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("|")][2:]
    assert sorted(name for row in rows for name in re.findall(r"`(\w+)`", row[2])) == sorted(checks.every_family())
