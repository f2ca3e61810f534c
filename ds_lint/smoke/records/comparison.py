"""What a step of the user's script shows beside the same step by the documented arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from torch import Tensor


class FarthestElement(NamedTuple):
    """The element that is farthest from what it should be."""

    parameter: str
    expected: float
    observed: float
    tolerance: float
    rank: int | None = None


class Recomputed(Record):
    """The comparison by check: ``averaging``, ``update`` and ``weights``."""

    optimizer: str
    elements: int
    compared: dict[str, int] = field(factory=dict)  # elements
    largest: dict[str, float] = field(factory=dict)  # difference as a share of its tolerance
    mismatches: dict[str, FarthestElement] = field(factory=dict)
    unable: dict[str, str] = field(factory=dict)  # why there is no comparison
    is_divided_by_next_scale: bool = False  # gradients in a step in which the loss scale rises
    lacking: list[str] = field(factory=list)  # parameters with gradients that the optimizer does not get
    decays: dict[str, tuple[float, float]] = field(factory=dict)  # requested and used, where they differ

    def note(self, check: str, parameter: str, observed: Tensor, expected: Tensor, bound: Tensor) -> None:
        """Compare elements of a parameter within a bound for each."""
        self.compared[check] = self.compared.get(check, 0) + observed.numel()
        share = ((observed - expected).abs() / bound.clamp(min=1e-300)).nan_to_num(nan=float("inf"))
        worst = int(share.argmax())
        if float(share[worst]) > self.largest.get(check, -1.0):
            self.largest[check] = float(share[worst])
            if self.largest[check] > 1.0:
                self.mismatches[check] = FarthestElement(
                    parameter, float(expected[worst]), float(observed[worst]), float(bound[worst])
                )

    def differ(self, check: str, parameter: str, rank: int) -> None:
        """Note elements of a parameter that are not the same bit for bit."""
        self.mismatches[check] = FarthestElement(parameter, 0.0, 0.0, 0.0, rank)
