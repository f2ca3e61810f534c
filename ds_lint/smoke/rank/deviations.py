"""Where numbers of a run differ from those of a reference, and what explains the difference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ds_lint.smoke.records.job import Deviation

if TYPE_CHECKING:
    from torch import Tensor

NEARLY = 0.02  # relative, of a ratio that is named


def difference(number: int, observed: Tensor, expected: Tensor, bound: Tensor) -> Deviation | None:
    """The element that is furthest off, if any is off by more than its bound."""
    is_off = ~((observed - expected).abs() <= bound)
    if not is_off.any():
        return None
    at = worst(observed, expected, bound)
    return Deviation(number + 1, int(is_off.sum()), "", float(expected[at]), float(observed[at]), float(bound[at]))


def worst(observed: Tensor, expected: Tensor, bound: Tensor) -> int:
    """The element that is furthest off."""
    return int(((observed - expected).abs() / bound.clamp(min=1e-300)).nan_to_num(math.inf).argmax())


def fits(observed: Tensor, expected: Tensor, bound: Tensor) -> bool:
    """Whether all elements are within the bounds."""
    return bool(((observed - expected).abs() <= 2 * bound).all())  # twice: of both sides


def ratio_of(observed: Tensor, expected: Tensor, bound: Tensor) -> float | None:
    """The number by which the observed values are larger, if there is one."""
    squares = float(expected.square().sum())
    if not squares:
        return None
    ratio = float((observed * expected).sum()) / squares
    return ratio if fits(observed, ratio * expected, bound * max(1.0, abs(ratio))) else None


def shares_of(observed: Tensor, parts: Tensor, bound: Tensor) -> list[float] | None:
    """How often each part counts in the observed values, if they are a sum of the parts."""
    if not (observed.isfinite().all() and parts.isfinite().all()):
        return None  # which LAPACK rejects with an error
    shares = torch.linalg.lstsq(parts.T, observed[:, None]).solution[:, 0]
    return shares.tolist() if fits(observed, shares @ parts, bound) else None


def in_words(ratio: float, ranks: int, windows: int, scale: float) -> str:
    """What a ratio between gradients means."""
    if not ratio or not math.isfinite(ratio):
        return "they are zero" if not ratio else ""
    factor, size = (ratio, "larger") if ratio > 1 else (1 / ratio, "smaller")
    named = {
        "the number of ranks": ranks,
        "the number of micro steps": windows,
        "the ranks times the micro steps": ranks * windows,
        "the loss scale": scale,
    }
    known = [words for words, number in named.items() if number > 1 and math.isclose(factor, number, rel_tol=NEARLY)]
    known = known[:2] if ranks > 1 and windows > 1 else known[:1]
    return f"they are {factor:.4g} times {size}" + (f" ({' or '.join(known)})" if known else "")
