"""How much there is of something, and where it lies."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.band import NOTHING, Band, exactly

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FULL = 4  # bytes of an element in fp32


class Amount(NamedTuple):
    """How many elements there are, and the bytes that they take."""

    elements: Band = NOTHING
    bytes: Band = NOTHING

    def plus(self, other: Amount) -> Amount:
        """Two amounts together."""
        return Amount(self.elements.plus(other.elements), self.bytes.plus(other.bytes))

    def times(self, factor: float) -> Amount:
        """The amount so many times."""
        return Amount(self.elements.times(factor), self.bytes.times(factor))


class Placed(NamedTuple):
    """What one rank holds of a kind, by where it lies."""

    gpu: Amount = Amount()
    host: Amount = Amount()
    nvme: Amount = Amount()

    def at_the_most(self) -> Placed:
        """The same where it is not known whether it is there."""
        return Placed(*(Amount(*(Band(0, band.likely, band.most) for band in one)) for one in self))

    def least_times(self, factor: float) -> Placed:
        """The same where the least is so much of it."""
        return Placed(*(Amount(*(band._replace(least=band.least * factor) for band in one)) for one in self))

    def plus(self, other: Placed) -> Placed:
        """Two of them together, place by place."""
        return Placed(self.gpu.plus(other.gpu), self.host.plus(other.host), self.nvme.plus(other.nvme))


def amount(elements: float | Band, width: int) -> Amount:
    """So many elements of so many bytes."""
    band = elements if isinstance(elements, Band) else exactly(elements)
    return Amount(band, band.times(width))


def on_node(parts: Mapping[str, Placed], ranks: int) -> Band:
    """The bytes that so many ranks hold of these parts in the memory of their node."""
    found = NOTHING
    for placed in parts.values():
        found = found.plus(placed.host.bytes)
    return found.times(ranks)
