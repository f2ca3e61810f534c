"""Products that Python makes floats of."""

from __future__ import annotations

import pytest

from ds_lint.source.python_values import is_product_with_fraction


@pytest.mark.parametrize("text", ["0.9 * h * h", "h * h * 0.9", "h * (0.9 * h)", "1.5 * model.config.hidden_size"])
def test_a_number_with_a_fraction_makes_a_float(text):
    assert is_product_with_fraction(text)


@pytest.mark.parametrize(
    "text", ["h * h", "10 * h", "2.0 * h", "int(0.9 * h * h)", "0.9", "h / 2", "h * h // 2", "0.9 *"]
)
def test_other_expressions_are_left_alone(text):
    assert not is_product_with_fraction(text)
