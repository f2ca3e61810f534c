"""``schemas/`` says what the installed libraries say of themselves: a new release that differs fails here first."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("deepspeed")

import deepspeed
from deepspeed.runtime import config as deepspeed_config
from deepspeed.runtime.zero.utils import ZERO_SUPPORTED_OPTIMIZERS
from pydantic_core import PydanticUndefined
from test_coercion import MODELS

from ds_lint import linting, resources
from ds_lint.checks.optimizer import ZERO_TESTED

pytestmark = pytest.mark.fidelity


def knowledge():
    return linting.knowledge()


def test_the_newest_known_release_is_installed():
    assert deepspeed.__version__.split("+")[0] == knowledge().deepspeed


@pytest.mark.parametrize("section", MODELS, ids=".".join)
def test_fields_aliases_defaults_and_bounds_of_strict_sections(section):
    known = knowledge().find(section)
    assert known.strict
    fields = MODELS[section].model_fields
    assert {key.name for key in map(known.child, known.names()) if "removed" not in key.facts} == {
        field.alias or name for name, field in fields.items()
    }
    for name, field in fields.items():
        key = known.child(field.alias or name)
        assert known.child(name) is key, f"{name} is read under its plain name too"
        if field.default is not PydanticUndefined and not key.is_section:
            assert key.facts.get("default") == plain(field.default), name
        bounds = {type(bound).__name__: next(iter(vars_of(bound).values())) for bound in field.metadata}
        named = {"Ge": "minimum", "Gt": "exclusiveMinimum", "Le": "maximum", "Lt": "exclusiveMaximum"}
        for kind, bound in bounds.items():
            assert key.facts.get(named[kind]) == bound, name


def test_removed_keys_are_those_that_deepspeed_refuses_by_name():
    removed = {".".join(key.path) for key in every_key() if "removed" in key.facts}
    refused = set(deepspeed_config._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    refused |= {f"zero_optimization.{name}" for name in deepspeed_config._REMOVED_ZERO_CONFIG_KEYS}
    assert removed == refused


def test_optimizers_tested_under_zero():
    supported = {optimizer.__name__ for optimizer in ZERO_SUPPORTED_OPTIMIZERS} | {"MuonWithAuxAdam"}
    assert supported == ZERO_TESTED


def test_optimizer_types():
    extracted = set(knowledge().types("optimizer.params")) | {"muon"}
    assert extracted == set(deepspeed_config.DEEPSPEED_OPTIMIZERS)


def test_dtype_names():
    from ds_lint.checks.precision import DTYPE_NAMES

    spellings = {
        spelling: dtype.name
        for dtype in deepspeed_config.DtypeEnum
        for spelling in dtype._all_values
        if isinstance(spelling, str)
    }
    assert spellings == DTYPE_NAMES


def test_torch_constructors_are_those_of_the_installed_torch():
    from tools.torch_constructors import constructors

    with open(resources.path("schemas", "torch.json"), encoding="utf-8") as file:
        assert json.load(file) == json.loads(json.dumps(constructors()))


def test_leaf_module_defaults():
    key = knowledge().find(("zero_optimization", "leaf_module", "classes"))
    from deepspeed.runtime.zero.leaf_module_config import DEFAULT_LEAF_MODULE_CLASSES

    assert key.facts["default"] == DEFAULT_LEAF_MODULE_CLASSES


def every_key():
    pending = [knowledge().root]
    while pending:
        section = pending.pop()
        for name in section.names():
            key = section.child(name)
            yield key
            pending.append(key)


def plain(default):
    if type(default).__name__ == "dtype":
        return str(default)  # torch.float16, which JSON cannot write
    if hasattr(default, "value"):
        return default.value
    return (
        float(default)
        if isinstance(default, float)
        else int(default)
        if isinstance(default, int) and not isinstance(default, bool)
        else default
    )


def vars_of(bound):
    return {name: getattr(bound, name) for name in bound.__slots__}
