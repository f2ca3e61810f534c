"""The modules that each clean check imports are those that an import would make, and never older ones."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import outside_environment

import ds_lint
from ds_lint import clean_path, cli
from ds_lint.commands.parser import parse
from ds_lint.session.options import Options

ROOT = Path(ds_lint.__file__).parent.parent
NAMES = {f"ds_lint.{name}" for name in (*clean_path.FOR_ANY_FILE, *clean_path.FOR_CONFIGS)}

# Checks a config, and prints what was imported in which way, and each module as importlib describes it.
CHECK = """
import json, sys
sys.path.insert(0, sys.argv[1])

class Searches:
    def find_spec(self, name, path=None, target=None):
        searched.append(name)

searched = []
sys.meta_path.insert(0, Searches())
from ds_lint import clean_path, cli
if sys.argv[3] == "slowly":
    clean_path.load = lambda names: None
assert cli.run(["check", sys.argv[2]]) == 0
about = ("__name__", "__package__", "__file__", "__cached__", "__path__", "__doc__")
of_spec = ("name", "parent", "origin", "cached", "has_location", "submodule_search_locations")
modules = {
    name: [type(module.__loader__).__name__, module.__spec__.loader is module.__loader__, sorted(vars(module))]
    + [vars(module).get(one) for one in about]
    + [getattr(module.__spec__, one) for one in of_spec]
    + [getattr(sys.modules[name.rpartition(".")[0]], name.rpartition(".")[2]) is module]
    for name, module in sys.modules.items()
    if name.startswith("ds_lint.")
}
sys.stderr.write(json.dumps([searched, modules]))
"""


def checked(root, how="fast"):
    """What a check has searched for, and the modules that it has imported."""
    clean = shutil.copy(ROOT / "examples" / "clean.json", root.parent)
    command = [sys.executable, "-I", "-S", "-c", CHECK, root, clean, how]
    done = subprocess.run(command, env=outside_environment(), capture_output=True, text=True, check=True)
    searched, modules = json.loads(done.stderr)
    return {name for name in searched if name.startswith("ds_lint.")}, modules


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A copy of ds-lint, as a wheel has it, that Python has compiled for a check."""
    root = tmp_path_factory.mktemp("installation") / "first"
    shutil.copytree(ROOT / "ds_lint", root / "ds_lint", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "schemas", root / "ds_lint" / "data" / "schemas")
    checked(root)
    return root


def test_they_are_all_that_a_clean_check_imports_and_none_is_searched_for(installed):
    searched, modules = checked(installed)
    first = {"ds_lint.cli", "ds_lint.clean_path"}
    by_package = {"ds_lint.output.text", "ds_lint.output.harmless"}  # which its `__init__` imports
    for_tables = {"ds_lint._built", "ds_lint.knowledge.resources"}  # the first in a wheel, the other in a checkout
    assert searched - for_tables == first | by_package  # in another order, more would be
    assert modules.keys() - for_tables == first | by_package | NAMES


def test_they_are_what_an_import_makes(installed):
    searched, modules = checked(installed, "slowly")
    assert searched >= NAMES
    assert checked(installed)[1] == modules


def test_an_edited_module_is_read_again(installed):
    path = installed / "ds_lint" / "commands" / "check.py"
    before, times = path.read_bytes(), path.stat()
    path.write_bytes(before + b"\nraise RuntimeError('edited')\n")
    with pytest.raises(subprocess.CalledProcessError) as error:
        checked(installed)
    path.write_bytes(before)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert f'File "{path}"' in error.value.stderr
    assert "raise RuntimeError('edited')" in error.value.stderr


def test_an_installation_at_another_place_names_that(installed):
    moved = shutil.copytree(installed, installed.with_name("second"))
    named = loaded(moved, "__import__('ds_lint.commands.check').commands.check.check.__code__.co_filename")
    assert named == str(moved / "ds_lint" / "commands" / "check.py")


def test_an_archive_is_left_to_the_import(installed, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "ds_lint"), "zip", installed)
    assert loaded(archive, "'ds_lint.commands.check' in sys.modules") == "False"


def loaded(root, expression):
    """The value of an expression after the modules are loaded."""
    program = "import sys; sys.path.insert(0, sys.argv[1]); from ds_lint import clean_path\n"
    program += f"clean_path.load(clean_path.FOR_ANY_FILE); print({expression})"
    command = [sys.executable, "-I", "-c", program, root]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("words", [[], ["--detect", "--force-exclude"], ["--detect", "--force-exclude", "--fix"]])
def test_the_calls_of_hooks_mean_without_argparse_what_they_mean_with_it(words, monkeypatch):
    seen: list[Options] = []
    monkeypatch.setattr("ds_lint.commands.check.check", lambda options, *_: seen.append(options) or 0)
    cli.run(["check", *words, "a.json", "b.py"])

    parse(["check", *words, "a.json", "b.py"])
    fast, slow = ({one.name: getattr(options, one.name) for one in Options.options()} for options in seen)
    assert fast == slow
