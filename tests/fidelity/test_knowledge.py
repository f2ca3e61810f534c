"""``schemas/`` says what the installed DeepSpeed says of itself: a new release that differs fails here first."""

from __future__ import annotations

import pytest

pytest.importorskip("deepspeed")

from deepspeed.runtime import config as deepspeed_config
from deepspeed.runtime.zero.utils import ZERO_SUPPORTED_OPTIMIZERS
from installed import INSTALLED, knowledge
from models import MODELS, NAMES, NO_DEFAULT, fields

from ds_lint.checks.optimizer import ZERO_TESTED

pytestmark = pytest.mark.fidelity


def test_the_installed_release_is_known():
    assert INSTALLED.deepspeed in knowledge().releases


@pytest.mark.parametrize("section", NAMES, ids=".".join)
def test_a_section_is_strict_where_it_has_a_model(section):
    known = knowledge().find(section)
    assert (known is not None and known.strict) == (section in MODELS)


@pytest.mark.parametrize("section", MODELS, ids=".".join)
def test_fields_aliases_defaults_and_bounds_of_strict_sections(section):
    known = knowledge().find(section)
    assert known.strict
    own = fields(MODELS[section])
    assert {key.name for key in map(known.child, known.names()) if "removed" not in key.facts} == {
        field.key for field in own
    }
    for field in own:
        key = known.child(field.key)
        assert known.child(field.name) is key, f"{field.name} is read under its plain name too"
        if field.default is not NO_DEFAULT and not key.is_section:
            assert key.facts.get("default") == plain(field.default), field.name
        assert {kind: key.facts.get(kind) for kind in field.bounds} == field.bounds, field.name


def test_removed_keys_are_those_that_deepspeed_refuses_by_name():
    removed = {".".join(key.path) for key in every_key() if "removed" in key.facts}
    refused = set(getattr(deepspeed_config, "_REMOVED_TOP_LEVEL_CONFIG_KEYS", ()))
    refused |= {f"zero_optimization.{name}" for name in getattr(deepspeed_config, "_REMOVED_ZERO_CONFIG_KEYS", ())}
    assert removed == refused


def test_optimizers_tested_under_zero():
    supported = {optimizer.__name__ for optimizer in ZERO_SUPPORTED_OPTIMIZERS}
    if not knowledge().does("zenflow-is-tested-under-zero"):
        supported.add("ZenFlowCPUAdam")
    assert supported <= ZERO_TESTED
    assert supported & built() == ZERO_TESTED & built()


def built():
    """The classes of the optimizers that the installed release builds for a type of its own."""
    section = "optimizer.params"
    constructors = [found for kind in knowledge().types(section) for found in knowledge().constructors(section, kind)]
    return {constructor["callee"].rpartition(".")[2] for constructor in constructors}


def test_optimizer_types():
    has_muon = knowledge().find(("optimizer", "params", "muon_lr")) is not None
    extracted = {*knowledge().types("optimizer.params"), *(["muon"] if has_muon else [])}
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


def test_leaf_module_defaults():
    key = knowledge().find(("zero_optimization", "leaf_module", "classes"))
    if key is None:
        pytest.skip(f"DeepSpeed {INSTALLED.deepspeed} reads no leaf modules from a config")
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
