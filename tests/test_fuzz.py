"""Mutated inputs of every surface, a few and always the same; ``python -m tools.fuzz`` tries more."""

from __future__ import annotations

import random

import pytest

from tools.fuzz.__main__ import fuzzed
from tools.fuzz.editor import NAMES
from tools.fuzz.mutations import mutated, smaller
from tools.fuzz.surfaces import SURFACES

pytest.importorskip("pygls")


def test_a_few_hundred_mutated_inputs_end_in_an_answer():
    tried, failed = fuzzed(seed=4, seconds=8, trials=350, each=10)
    assert not {what: failure.text for what, (failure, _) in failed.items()}
    assert tried


def test_the_same_seed_makes_the_same_inputs_and_each_surface_has_seeds():
    one, other = (mutated(random.Random(3), "train_batch_size: 8\n" * 3, ["zero"]) for _ in range(2))
    assert one == other
    names = [surface.name for surface in SURFACES] + list(NAMES)
    assert len(set(names)) == len(names) > 50


def test_what_fails_is_made_as_small_as_it_may_be():
    assert smaller("a" * 50 + "xyz" + "b" * 50, lambda text: "y" in text) == "y"
