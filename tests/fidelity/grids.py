"""Grids of cases of which a few tell the most: those are in the default run, and the others are ``long``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import product
from typing import Any

import pytest


def grid(*sides: Iterable[Any], first: Collection[Any]) -> list[Any]:
    """Every combination of the sides as parameters; all but those in ``first`` are long."""
    cases = list(product(*sides))
    assert set(first) <= set(cases)
    return [pytest.param(*case, marks=() if case in first else pytest.mark.long) for case in cases]
