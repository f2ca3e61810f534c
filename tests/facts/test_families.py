"""Families that overflow in fp16: each is one of transformers, with a report of it."""

from __future__ import annotations

import pytest

from ds_lint.facts.families import family_of_name
from ds_lint.knowledge import tables

FAMILIES = tables.load("families")["overflow_in_fp16"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_source(family):
    assert FAMILIES[family]["trained_in"] == "bfloat16"
    assert FAMILIES[family]["sources"]
    assert all(source.startswith("https://") for source in FAMILIES[family]["sources"])


@pytest.mark.fidelity
def test_every_family_is_one_of_transformers():
    names = pytest.importorskip("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    assert set(FAMILIES) <= set(names)


@pytest.mark.parametrize("name", ["bigscience/T0pp", "bigscience/T0_3B", "google/ul2", "google/byt5-small"])
def test_other_models_of_the_type_t5_are_known_by_name(name):
    assert family_of_name(name).model_type == "t5"
