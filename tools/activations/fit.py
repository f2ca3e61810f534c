"""From the timelines of a few small models to bytes of each quantity."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.activations.timeline import Timeline

SMALL = 0.01  # of the peak: what has no quantity of its own
Form = dict[str, float]  # bytes of each quantity


class NotLinear(Exception):  # noqa: N818 - an answer, not an accident
    """Bytes that cannot be put as a sum of quantities."""


class Forms:
    """What is live at each moment of a step, as a sum of bytes of each quantity.

    The same storages come and go in models of every size. Each is as many bytes of one quantity, or of two (keys and
    queries in one matrix), in all models that were measured.
    """

    def __init__(self, timelines: Sequence[Timeline], measured: Sequence[dict[str, int]]) -> None:
        self.names = [name for name in measured[0] if any(one[name] for one in measured)]
        self._table = np.array([[float(one[name]) for name in self.names] for one in measured])
        first = timelines[0]
        if any(
            [(one.since, one.until) for one in timeline.storages] != [(one.since, one.until) for one in first.storages]
            for timeline in timelines
        ):
            raise NotLinear("models of other sizes do other things")
        self._peaks = np.array([timeline.peak for timeline in timelines], dtype=float)
        change = np.zeros((first.moments + 1, len(self.names)))
        known: dict[tuple[int, ...], np.ndarray] = {}
        for place, storage in enumerate(first.storages):
            sizes = tuple(timeline.storages[place].size for timeline in timelines)
            if sizes not in known:
                known[sizes] = self._of(np.array(sizes, dtype=float))
            change[storage.since] += known[sizes]
            change[storage.until] -= known[sizes]
        self._live = np.cumsum(change, axis=0)

    def at(self, moment: int) -> Form:
        """What is live at a moment."""
        return self._form(self._live[moment])

    def between(self, one: int, other: int) -> Form:
        """What comes from one moment to another."""
        return self._form(self._live[other] - self._live[one])

    def highest(self, last: int, realistic: Sequence[dict[str, int]]) -> list[Form]:
        """The moments, up to the last one, at which most is live for one of the realistic sizes."""
        points = np.array([[float(point[name]) for name in self.names] for point in realistic])
        unique = np.unique(self._live[: last + 1], axis=0)
        best = sorted({int(place) for place in (unique @ points.T).argmax(axis=0)})
        return [self._form(unique[place]) for place in best]

    def _of(self, sizes: np.ndarray) -> np.ndarray:
        """The bytes of each quantity in a storage that has these sizes in the models."""
        coefficients = np.zeros(len(self.names))
        if not sizes.any():
            return coefficients
        for place in range(len(self.names)):
            column = self._table[:, place]
            if column.all() and np.ptp(sizes / column) < 1e-9 * sizes[0]:
                coefficients[place] = sizes[0] / column[0]
                return coefficients
        for pair in itertools.combinations(range(len(self.names)), 2):
            columns = self._table[:, pair]
            found, *_ = np.linalg.lstsq(columns, sizes, rcond=None)
            if (found > 0).all() and np.abs(columns @ found - sizes).max() < 1e-6 * sizes.max():
                coefficients[list(pair)] = found
                return coefficients
        if (sizes < SMALL * self._peaks).all():
            coefficients[self.names.index("one")] = sizes.mean()
            return coefficients
        raise NotLinear(f"a storage of {sizes.astype(int).tolist()} bytes")

    def _form(self, coefficients: np.ndarray) -> Form:
        rounded = {name: round(float(value), 3) for name, value in zip(self.names, coefficients, strict=True)}
        return {name: int(value) if value == int(value) else value for name, value in rounded.items() if value}


def value(form: Form, quantities: dict[str, int]) -> float:
    """The bytes of a form."""
    return sum(number * quantities[name] for name, number in form.items())


def difference(one: Form, other: Form) -> Form:
    """One form less the other."""
    names = dict.fromkeys((*one, *other))
    return {name: left for name in names if (left := round(one.get(name, 0) - other.get(name, 0), 3))}
