"""What a clean run imports, and which module may import which."""

from __future__ import annotations

import ast
import graphlib
import itertools
import os
import shutil
import subprocess
import sys

import pytest
from command_line import outside_environment

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGE = os.path.join(ROOT, "ds_lint")

# Each costs the start of a clean run more than reading the config does.
SLOW = {
    "argparse", "dataclasses", "difflib", "importlib.metadata", "inspect", "json", "logging", "pathlib", "tomllib",
    "typing", "jsonschema", "yaml", "accelerate", "deepspeed", "pydantic", "torch", "transformers",
}  # fmt: skip
FOR_PINS = {"functools", "re"}  # which only a project needs that says something of the libraries
# Only files with findings, other commands and folders need these.
OURS = {
    "ds_lint.checkpoints.kinds", "ds_lint.checkpoints.record", "ds_lint.commands.fixes", "ds_lint.commands.parser",
    "ds_lint.diagnostics.suppression", "ds_lint.fixes.application", "ds_lint.fixes.builders", "ds_lint.fixes.layout",
    "ds_lint.knowledge.suggestions", "ds_lint.linter.selection", "ds_lint.output.frame",
    "ds_lint.output.smoke", "ds_lint.output.story", "ds_lint.project.discovery",
    "ds_lint.project.gitignore", "ds_lint.project.globs", "ds_lint.rule_pages.pages", "ds_lint.session.exclusion",
    "ds_lint.settings.reader", "ds_lint.source.recognition", "ds_lint.source.tolerant",
}  # fmt: skip

TRAINING = {"accelerate", "deepspeed", "torch", "transformers"}

# The rooms of the house: each may import what stands below it, and nothing beside it.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("commands",),
    ("callback", "lsp"),
    ("session",),
    ("smoke",),
    ("settings",),
    ("output",),
    ("conversion", "json_schema", "logs", "scaffold"),
    ("linter", "project", "rule_pages"),
    ("checks",),
    ("fixes", "footprint"),
    ("semantics",),
    ("facts",),
    ("launches",),
    ("knowledge",),
    ("diagnostics",),
    ("checkpoints", "source"),
    ("frameworks", "targets"),
    ("addresses", "clean_path", "option", "record"),
)
# And those inside a room.
SMOKE_LAYERS = (
    ("meta_model", "worker"),
    ("html", "script", "small_run"),
    ("probe", "rank", "verify"),
    ("expected", "observe", "processes"),
    ("journal", "records", "standins"),
    ("wrapping",),
)
SEMANTICS_LAYERS = (
    ("configs", "effective", "reached_advisories", "recipe_fields", "resumed_settings", "rewritten", "schedules"),
    ("advisory_conditions",),
    ("constructors", "preparation", "swapping"),
    ("evaluation",),
    ("fsdp_layers", "fsdp_setup"),
    ("fsdp_places",),
    (
        "arguments",
        "batch",
        "features",
        "fsdp_arguments",
        "fsdp_script",
        "launched_values",
        "pin_places",
        "refused_fields",
        "refused_keywords",
        "refused_launcher_options",
        "related",
        "trainer_refusals",
    ),
    ("fsdp_arguments_before", "refused_script_options"),
    ("parser_of_script", "refused_words"),
    ("config",),
    ("config_call", "preset_config"),
    ("accelerate",),
    ("architectures", "basis", "deepspeed_hosts", "made_config"),
)
HOUSES = {"ds_lint": LAYERS, "ds_lint.semantics": SEMANTICS_LAYERS, "ds_lint.smoke": SMOKE_LAYERS}

CLEAN_CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from ds_lint.cli import run
status = run(["check", *sys.argv[2:]])
sys.stderr.write("\\n".join(sys.modules))
sys.exit(status)
"""


def _modules():
    for folder, _, files in os.walk(PACKAGE):
        for name in files:
            path = os.path.join(folder, name)
            parts = os.path.relpath(path, ROOT).removesuffix(".py").split(os.sep)
            if name.endswith(".py") and name != "_built.py" and parts[1] != "data":
                yield path, ".".join(parts).removesuffix(".__init__")


MODULES = list(_modules())  # path and dotted name of each


def imports(path, *, at_run_time=True):
    """The dotted names that a module imports, also inside functions; those for type checkers only if asked."""
    with open(path, encoding="utf-8") as file:
        pending = [ast.parse(file.read())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports by a relative name"
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif isinstance(node, ast.If) and at_run_time and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))


def part(module, package):
    """The module or folder of a package that a dotted name is in; None for the package itself and what is outside."""
    name = [*module.removeprefix(f"{package}.").split("."), ""][0]
    folder = os.path.join(ROOT, *package.split("."))
    is_inside = module.startswith(f"{package}.") and any(
        os.path.exists(os.path.join(folder, name + end)) for end in ("", ".py")
    )
    return name if is_inside else None


def layer(name, package):
    places = [place for place, names in enumerate(HOUSES[package]) if name in names]
    assert places, f"{package}.{name} has no place in the layers of {package}"
    return places[0]


@pytest.mark.parametrize("settings", ["", '[project]\ndependencies = ["deepspeed"]\n'])
def test_a_clean_check_imports_nothing_that_it_does_not_need(tmp_path, settings):
    clean = shutil.copy(os.path.join(ROOT, "examples", "clean.json"), tmp_path)
    (tmp_path / "pyproject.toml").write_text(settings)
    assert_clean_run_without(SLOW | OURS | (set() if settings else FOR_PINS), clean)


def test_a_hook_imports_no_parser_of_options(tmp_path):
    clean = shutil.copy(os.path.join(ROOT, "examples", "clean.json"), tmp_path)
    for_hooks = {"ds_lint.session.exclusion", "ds_lint.source.recognition"}
    searches = {name for name in OURS if name.startswith("ds_lint.project.")}
    assert_clean_run_without((SLOW | OURS | FOR_PINS) - for_hooks - searches, "--detect", "--force-exclude", clean)


def test_settings_cost_a_clean_check_no_slow_import(tmp_path):
    clean = shutil.copy(os.path.join(ROOT, "examples", "clean.json"), tmp_path)
    (tmp_path / "pyproject.toml").write_text('[tool.ds-lint]\nstack = "deepspeed"\nworld-size = 8\nfail-on = "error"\n')
    assert_clean_run_without(SLOW | OURS - {"ds_lint.settings.reader"}, clean)


def assert_clean_run_without(unwanted, *words):
    command = [sys.executable, "-I", "-S", "-c", CLEAN_CHECK, ROOT, *words]  # -S: what site imports is not ours
    result = subprocess.run(command, env=outside_environment(), capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    imported = set(result.stderr.split())
    assert "ds_lint.checks.zero" in imported
    assert imported & unwanted == set()


@pytest.mark.parametrize(("path", "module"), MODULES, ids=[module for _, module in MODULES])
def test_only_smoke_and_the_callback_import_the_training_libraries(path, module):
    if not module.startswith(("ds_lint.smoke", "ds_lint.callback")):
        assert TRAINING.isdisjoint(name.split(".")[0] for name in imports(path, at_run_time=False))


@pytest.mark.parametrize(("path", "module"), MODULES, ids=[module for _, module in MODULES])
def test_only_the_language_server_imports_what_speaks_its_protocol(path, module):
    if not module.startswith(("ds_lint.lsp", "ds_lint.commands.lsp")):  # the command asks whether it is there
        assert {"pygls", "lsprotocol"}.isdisjoint(name.split(".")[0] for name in imports(path, at_run_time=False))


@pytest.mark.parametrize(("path", "module"), MODULES, ids=[module for _, module in MODULES])
def test_imports_point_downward(path, module):
    for name, package in itertools.product(imports(path, at_run_time=False), HOUSES):
        importer, imported = part(module, package), part(name, package)
        if importer and imported and imported != importer:
            assert layer(importer, package) < layer(imported, package), f"{module} imports {name}"


def test_no_imports_go_in_a_circle():
    names = {module for _, module in MODULES}
    graph = {
        module: {name if name in names else name.rpartition(".")[0] for name in imports(path, at_run_time=False)}
        & names
        for path, module in MODULES
        if module != "ds_lint"  # which imports the callback when it is asked for
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_no_two_classes_share_a_name():
    found: dict[str, list[str]] = {}
    for path, module in MODULES:
        with open(path, encoding="utf-8") as file:
            for node in ast.walk(ast.parse(file.read())):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}
