"""The page that compares ds-lint memory with the estimators of other projects shows what the installed releases say."""

from __future__ import annotations

import pytest
from installed import measured_with_the_newest

pytest.importorskip("deepspeed")
pytest.importorskip("accelerate")

from tools import estimators

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]


def test_what_the_estimators_say_of_full_size_models():
    assert estimators.full_size_table() in estimators.PAGE.read_text(encoding="utf-8")


def test_what_the_engine_holds_of_small_siblings():
    assert estimators.sibling_table() in estimators.PAGE.read_text(encoding="utf-8")
