"""Where numbers of a run differ from those of a reference, and what explains the difference."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from ds_lint.smoke.expected.update_rules import drift
from ds_lint.smoke.records.job import Deviation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

_NEARLY = 0.02  # relative, of a ratio that is named


class OwnedElements(NamedTuple):
    """The elements that the ranks update in a step, one rank behind the other."""

    place: Tensor  # of each in the row of all parameters
    rank: Tensor
    before: Tensor
    after: Tensor
    gradient: Tensor
    rate: Tensor
    is_updated: Tensor

    @classmethod
    def of(cls, rows: Sequence[tuple[Tensor, ...]]) -> OwnedElements:
        """Those of these tensors of the ranks, of which each row has the fields of some elements."""
        dtypes = (torch.long, torch.long, *[torch.double] * 4, torch.bool)
        nothing = tuple(torch.zeros(0, dtype=dtype) for dtype in dtypes)
        return cls(*(torch.cat(parts) for parts in zip(nothing, *rows, strict=True)))


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
    known = [words for words, number in named.items() if number > 1 and math.isclose(factor, number, rel_tol=_NEARLY)]
    known = known[:2] if ranks > 1 and windows > 1 else known[:1]
    return f"they are {factor:.4g} times {size}" + (f" ({' or '.join(known)})" if known else "")


def explain(
    found: Deviation, terms: Tensor, observed: Tensor, owned: OwnedElements, bound: Tensor, scale: float
) -> None:
    """Find what gradients are instead of the average: a multiple, those of one rank, or other shares of its parts.

    ``terms`` are what each micro step of each rank adds: ranks x micro steps x elements.
    """
    ranks, windows = terms.shape[:2]
    found.ratio = ratio_of(observed, terms.sum((0, 1))[owned.place], bound)
    if found.ratio is not None:
        found.words = in_words(found.ratio, ranks, windows, scale)
    elif ranks > 1 and ratio_of(observed, terms.sum(1)[owned.rank, owned.place], bound) is not None:
        found.words = "they are those of the rank alone, as if the ranks exchanged none"
    else:
        names = [f"rank {rank}" for rank in range(ranks)], [f"micro step {one + 1}" for one in range(windows)]
        for of_parts, parts in zip(names, (terms.sum(1), terms.sum(0)), strict=True):
            shares = shares_of(observed, parts[:, owned.place], bound)
            if shares is not None and not found.words:
                found.words = " and ".join(
                    f"{name} counts {share:.3g} times" if abs(share) > _NEARLY else f"{name} does not count"
                    for name, share in zip(of_parts, shares, strict=True)
                    if abs(share - 1) > _NEARLY
                )


def unequal_parts(
    number: int, terms: Tensor, observed: Tensor, owned: OwnedElements, bound: Tensor, one_way: Tensor
) -> Deviation | None:
    """A rank or a micro step that counts more or less than its part, though each element is within its bound.

    ``one_way`` is what a factor that all elements share may be off.
    """
    expected = terms.sum((0, 1))[owned.place]
    parts = {f"rank {rank}": part for rank, part in enumerate(terms.sum(1))}
    parts |= {f"micro step {window + 1}": part for window, part in enumerate(terms.sum(0))}
    most, found = 1.0, None
    for name, part in parts.items():
        direction = part[owned.place]
        off, may_be = drift(observed - expected, direction, bound - one_way, one_way)
        if not abs(off) <= most * may_be:
            most, right = abs(off) / may_be, float(direction.square().sum())
            words = f"{name} counts {max(0.0, 1 + off / right):.3g} times"
            found = Deviation(number + 1, owned.place.numel(), "", right, right + off, may_be, words=words)
    return found
