"""``schemas/recipes.json`` against the frameworks: what their sources say, and what axolotl's own code makes.

The releases are downloaded. Nothing is installed: of axolotl, the functions that make training arguments are run alone.
"""

from __future__ import annotations

import ast
import json
import random
from collections import defaultdict
from types import SimpleNamespace

import pytest

from ds_lint.facts.argument_values import argument
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.knowledge.keys import knowledge
from ds_lint.source import documents
from ds_lint.source.tree import plain
from tools.extract import recipes, source
from tools.extract.releases import UnavailableError, fetch

pytestmark = pytest.mark.long

STORE = json.loads(recipes.STORE.path.read_text(encoding="utf-8"))["frameworks"]
CHOICES = {
    "adam_beta2": ("0.95",),
    "adapter": ("lora", "qlora"),
    "bf16": ("true", "false", "auto"),
    "fp16": ("true", "false"),
    "gradient_accumulation_steps": ("1", "4"),
    "gradient_checkpointing": ("true", "false"),
    "lr_scheduler": ("cosine", "linear", "one_cycle", "rex"),
    "max_grad_norm": ("1.0", "0.3", "0"),
    "micro_batch_size": ("1", "2"),
    "num_epochs": ("3",),
    "optimizer": ("adamw_torch", "paged_adamw_8bit", "muon", "adopt_adamw"),
    "save_steps": ("10",),
    "save_total_limit": ("2",),
    "warmup_ratio": ("0.1",),
    "warmup_steps": ("1", "10"),
    "weight_decay": ("0.0", "0.1", "1e-2"),
}


def tree_of(package, release, tmp_path_factory):
    try:
        return fetch(package, release, tmp_path_factory.getbasetemp() / "releases")
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", STORE)
def test_the_store_has_what_the_newest_release_says(name, tmp_path_factory):
    framework = recipes.FRAMEWORKS[name]
    release = recipes.STORE.known(name)[-1]
    state = STORE[name]["states"][-1]
    assert state["releases"][-1] == release
    found = json.loads(json.dumps(recipes.extract(framework, tree_of(framework.package, release, tmp_path_factory))))
    assert set(found.pop("fields")) <= set(STORE[name]["fields"])
    assert found == {key: value for key, value in state.items() if key != "releases"}


class Settings(dict):
    """What axolotl keeps a recipe in: a setting that it does not have is None."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    """A function that makes training arguments of settings, by the source of axolotl."""
    tree = tree_of("axolotl", recipes.STORE.known("axolotl")[-1], tmp_path_factory)
    names = {
        "AcceleratorConfig": dict,
        "Any": object,
        "CustomSupportedOptimizers": None,
        "LOG": SimpleNamespace(debug=lambda *_: None),
        "Path": None,
        "build_parallelism_config": lambda _: (None, None),
        "is_torch_bf16_gpu_available": lambda: True,
        "torch": SimpleNamespace(bfloat16=1, float16=2, float32=3, set_float32_matmul_precision=lambda _: None),
    }
    exec_of(tree, "utils/schemas/enums.py", "CustomSupportedOptimizers", {**names, "str": str}, names)
    exec_of(tree, "utils/config/__init__.py", "resolve_dtype", names, names)
    exec_of(tree, "core/builders/base.py", "TrainerBuilderBase", names, names)
    return names


def exec_of(tree, path, wanted, names, into):
    """Run the definition of one class or function of axolotl, a class without what takes the whole package."""
    (file,) = tree.glob(f"**/axolotl/{path}")
    node = source.find(source.parse(file), wanted)
    if wanted == "TrainerBuilderBase":
        kept = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name.startswith(("_set", "_conf"))]
        node = ast.ClassDef(node.name, [], [], [drop_custom(one) for one in kept], [])
    if wanted == "CustomSupportedOptimizers":
        from enum import Enum

        names = {**names, "Enum": Enum}
    module = ast.parse("from __future__ import annotations")
    module.body.append(node)
    exec(compile(ast.fix_missing_locations(module), str(file), "exec"), scope := dict(names))  # noqa: S102 - of axolotl
    into[wanted] = scope[wanted]
    if wanted != "CustomSupportedOptimizers":
        scope.update(into)


def drop_custom(function):
    """A method that makes no optimizer of axolotl's own, for which it imports other packages."""
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef) and node.name == "_configure_custom_optimizer":
            node.body = [ast.Pass()]
    return function


def test_axolotl_makes_the_same_training_arguments(builder):
    chosen, known = random.Random(1), knowledge()
    state = STORE["axolotl"]["states"][-1]
    fields = known.table("transformers", "training_arguments")
    compared: dict[str, int] = defaultdict(int)
    for _ in range(300):
        said = {name: chosen.choice(values) for name, values in CHOICES.items() if chosen.random() < 0.5}
        said |= {
            "base_model": "x",
            "sequence_len": "8",
            "learning_rate": chosen.choice(("2e-5", "0.1")),
            "deepspeed": "x",
        }
        text = "".join(f"{name}: {value}\n" for name, value in said.items())
        (document,) = documents.configs_in(text.encode(), "a.yaml")
        training = TrainingRecipe(document).training
        settings = Settings({**state["defaults"], **plain(document.root)})
        for name in ("learning_rate", "weight_decay"):  # pydantic converts what PyYAML reads as a string
            settings[name] = float(settings[name])
        builder["resolve_dtype"](settings)
        made = builder["TrainerBuilderBase"]()
        made.cfg, made.eval_dataset = settings, None
        passed, _ = made._set_base_training_args(100)
        for name, value in passed.items():
            ours = argument(training, known, name) if name in fields else None
            if ours is not None and not isinstance(value, (dict, list)):
                assert ours.value == value, (name, text)
                compared[name] += 1
    assert {
        "bf16",
        "fp16",
        "gradient_accumulation_steps",
        "learning_rate",
        "lr_scheduler_type",
        "max_grad_norm",
    } <= set(compared)
    assert {"num_train_epochs", "optim", "per_device_train_batch_size", "weight_decay"} <= set(compared)
    assert "warmup_steps" not in compared
