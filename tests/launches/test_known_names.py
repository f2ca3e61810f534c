"""The names that are typed by hand are those of the libraries: a release that has others fails here."""

from __future__ import annotations

import ast

import pytest

from ds_lint.facts.launched import _OF_TRAINER
from ds_lint.frameworks import FRAMEWORKS, TRAINERS
from ds_lint.knowledge import tables
from ds_lint.launches.training_script import _OF_OPTIMIZERS
from tools.extract import recipes
from tools.extract.releases import UnavailableError, fetch

FIELDS = set(tables.load("transformers")["training_arguments"])
STORE = tables.load("recipes")["frameworks"]


@pytest.mark.parametrize("names", [_OF_TRAINER, _OF_OPTIMIZERS, TRAINERS], ids=["trainer", "optimizers", "recipes"])
def test_names_of_training_arguments_are_some_of_a_release(names):
    assert set(names) <= FIELDS


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_keys_that_tell_a_recipe_are_fields_of_the_framework(framework):
    assert FIELDS | set(STORE[framework.name]["fields"]) >= {framework.model, *framework.keys}


def words_of(name):
    """The words behind which the program of a framework trains."""
    return set(next(iter(FRAMEWORKS[name].program.programs.values())))


def tree_of(name, tmp_path_factory):
    try:
        return fetch(
            FRAMEWORKS[name].package, recipes.STORE.known(name)[-1], tmp_path_factory.getbasetemp() / "releases"
        )
    except UnavailableError as error:
        pytest.skip(str(error))


def strings_in(path):
    """The constants of a module."""
    return {
        node.value for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Constant)
    }


@pytest.mark.long
def test_the_commands_of_trl_that_train_are_known(tmp_path_factory):
    module = ast.parse((tree_of("TRL", tmp_path_factory) / "trl/cli/commands/__init__.py").read_text(encoding="utf-8"))
    trains = {
        node.args[0].value
        for node in ast.walk(module)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "TrainingCommand"
    }
    assert trains
    assert words_of("TRL") >= trains


@pytest.mark.long
def test_the_commands_and_variables_of_swift_are_known(tmp_path_factory):
    main = tree_of("ms-swift", tmp_path_factory) / "swift/cli/main.py"
    module = ast.parse(main.read_text(encoding="utf-8"))
    of_torchrun = [ast.literal_eval(node) for node in ast.walk(module) if isinstance(node, ast.Set)]
    assert {*words_of("ms-swift"), "infer"} in of_torchrun
    assert strings_in(main) >= {"NNODES", "NPROC_PER_NODE"}


@pytest.mark.long
def test_the_commands_and_variables_of_llama_factory_are_known(tmp_path_factory):
    launcher = strings_in(tree_of("LLaMA-Factory", tmp_path_factory) / "llamafactory/launcher.py")
    assert launcher >= {*words_of("LLaMA-Factory"), "NNODES", "NPROC_PER_NODE", "FORCE_TORCHRUN"}


@pytest.mark.long
def test_the_command_of_axolotl_and_its_module_are_known(tmp_path_factory):
    tree = tree_of("axolotl", tmp_path_factory)
    main = ast.parse((tree / "axolotl/cli/main.py").read_text(encoding="utf-8"))
    commands = {node.name for node in ast.walk(main) if isinstance(node, ast.FunctionDef)}
    assert commands >= words_of("axolotl")
    (module,) = FRAMEWORKS["axolotl"].program.modules
    assert (tree / f"{module.replace('.', '/')}.py").is_file()
