"""The documented arithmetic of optimizers in float64, and how far float32 may be from it.

No code of a library: the formulas are those of the documentation, element by element. With each result comes a bound on
what an optimizer that computes in float32 can get instead, by running error analysis: every operation contributes one
unit roundoff ``u = 2**-24`` of its result, errors of operands go through as by the derivative, and what is subtracted
keeps the sum of its absolute errors. Four properties of Adam decide how it is done:

* ``m / sqrt(v)`` does not depend on the size of the gradient, so the smallest gradients move a weight as far as the
  largest, in a direction that is roundoff. Here the step starts from the gradient that the optimizer was given, not
  from another one that is nearly equal, and so no such element is left.
* A library keeps ``beta2 = 0.999`` in float32 or in float64, and ``1 - beta2`` differs by 1e-5 of itself. Both are
  computed, and the distance between them is part of the bound.
* The kernels of FusedAdam, FusedLamb and FusedLion are compiled with ``--use_fast_math``, whose divisions may be off by
  2 units in the last place, and roots by ``2**-23`` of themselves (``div.approx`` and ``sqrt.approx`` of the PTX ISA).
* A step of ``lr * weight_decay`` may be below the last digit of a weight. ``drift`` adds such differences up: rounding
  errors cancel in a sum over many elements, and a part of the step that is missing does not.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import torch

from ds_lint.smoke.expected.roundoff import SIGMAS, U

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.records.job import UpdateRule

_ENOUGH = 2**18  # elements to add up


class Stepped(NamedTuple):
    """Weights after a step, and the largest error of float32 for each.

    The last roundings of a weight go either way; other errors may have the same sign for all weights.
    """

    weights: Tensor
    either_way: Tensor
    one_way: Tensor

    @property
    def bound(self) -> Tensor:
        """Of both kinds together."""
        return self.either_way + self.one_way


class Optimizer:
    """Makes the steps of one rule for a row of elements, with states of its own."""

    def __init__(self, rule: UpdateRule, elements: int) -> None:
        makes = {"adam": _Adam, "lion": _Lion, "adagrad": _Adagrad, "sgd": _Sgd}[rule.kind]
        # Two of a kind where a library may keep its factors in float64 or in float32.
        self._exact = makes(rule, is_single=False, elements=elements)
        self._single = makes(rule, is_single=True, elements=elements)

    def go_on_from(self, steps: int, first: Tensor | None, second: Tensor | None) -> None:
        """Take the states of an optimizer that has made some steps: the average of gradients, and that of squares."""
        for one in (self._exact, self._single):
            one.t = steps
            one.m = one.m if first is None else first
            one.v = one.v if second is None else second

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        """The weights after a step with this gradient; ``rate`` and ``decay`` are given for each element."""
        exact = self._exact.step(weights, gradient, rate, decay)
        single = self._single.step(weights, gradient, rate, decay)
        return exact._replace(one_way=exact.one_way + (exact.weights - single.weights).abs())


class _Rule:
    """A momentum and a sum of squares with their errors, and what the rules have in common."""

    def __init__(self, rule: UpdateRule, *, is_single: bool, elements: int) -> None:
        self.rule = rule
        self.first, self.second = (_single(one) if is_single else one for one in rule.betas)
        self.of_division, self.of_sqrt = (4 * U, 2 * U) if rule.is_fast else (U, U)
        self.t = 0
        # A momentum and its error, a sum of squares and its error.
        self.m, self.dm, self.v, self.dv = (torch.zeros(elements, dtype=torch.float64) for _ in range(4))

    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        """The weights after a step."""
        raise NotImplementedError

    def with_decay(self, weights: Tensor, gradient: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
        """The gradient with weight decay in it, if that is where it belongs, and its error."""
        if self.rule.is_decoupled or not decay.any():
            return gradient, torch.zeros_like(gradient)
        return gradient + decay * weights, 2 * U * (gradient.abs() + (decay * weights).abs())

    def average(self, beta: float, before: Tensor, error: Tensor, value: Tensor, of_value: Tensor) -> Tensor:
        """The error of ``beta * before + (1 - beta) * value``."""
        terms = beta * before.abs() + (1 - beta) * value.abs()
        return beta * error + (1 - beta) * of_value + 3 * U * terms

    def moved(self, weights: Tensor, rate: Tensor, decay: Tensor, change: Tensor, of_change: Tensor) -> Stepped:
        """``weights - rate * change``, with decoupled weight decay if the rule has one."""
        shrunk = weights * (1 - rate * decay) if self.rule.is_decoupled else weights
        step = rate * change
        after = shrunk - step
        of_product = U * weights.abs() * (self.rule.is_decoupled * decay * rate > 0)
        of_factor = 0.5 * of_product  # numbers below 1 are half as far apart
        return Stepped(after, U * after.abs() + of_product, of_factor + rate * of_change + 3 * U * step.abs())


class _Adam(_Rule):
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        self.t += 1
        g, dg = self.with_decay(weights, gradient, decay)
        b1, b2 = self.first, self.second
        self.dm = self.average(b1, self.m, self.dm, g, dg)
        self.dv = self.average(b2, self.v, self.dv, g * g, 2 * g.abs() * dg)
        self.m = b1 * self.m + (1 - b1) * g
        self.v = b2 * self.v + (1 - b2) * g * g
        c1, c2, of_c1, of_c2 = 1.0, 1.0, 0.0, 0.0
        if self.rule.corrects_bias:
            c1, c2 = 1 - b1**self.t, 1 - b2**self.t
            of_c1, of_c2 = ((self.t - 1 + one) * U / one for one in (c1, c2))  # of powers, multiplied up
        root = (self.v / c2).sqrt()
        roundings = self.of_sqrt + self.of_division + U
        of_root = root * (0.5 * (self.dv / self.v.clamp(min=1e-300) + of_c2) + roundings)
        denominator = root + self.rule.epsilon
        change = self.m / c1 / denominator
        roundings = 2 * self.of_division + 2 * U
        of_change = self.dm / c1 / denominator + change.abs() * (of_c1 + of_root / denominator + roundings)
        return self.moved(weights, rate, decay, change, of_change.nan_to_num(0.0, 0.0))


class _Lion(_Rule):
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        zero = torch.zeros_like(gradient)
        direction = self.first * self.m + (1 - self.first) * gradient
        error = self.average(self.first, self.m, self.dm, gradient, zero)
        self.dm = self.average(self.second, self.m, self.dm, gradient, zero)
        self.m = self.second * self.m + (1 - self.second) * gradient
        # The sign of what may be zero is anything.
        return self.moved(weights, rate, decay, direction.sign(), 2.0 * (direction.abs() <= error))


class _Adagrad(_Rule):
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        g, dg = self.with_decay(weights, gradient, decay)
        self.v = self.v + g * g
        self.dv = self.dv + 2 * g.abs() * dg + 2 * U * self.v
        root = self.v.sqrt()
        of_root = 0.5 * self.dv / root.clamp(min=1e-150) + U * root
        denominator = root + self.rule.epsilon
        change = g / denominator
        of_change = dg / denominator + change.abs() * (of_root / denominator + 3 * U)
        return self.moved(weights, rate, decay, change, of_change.nan_to_num(0.0, 0.0))


class _Sgd(_Rule):
    def step(self, weights: Tensor, gradient: Tensor, rate: Tensor, decay: Tensor) -> Stepped:
        self.t += 1
        g, dg = self.with_decay(weights, gradient, decay)
        momentum, kept = self.rule.momentum, 1 - self.rule.dampening
        if not momentum:
            return self.moved(weights, rate, decay, g, dg)
        if self.t == 1:
            self.m, self.dm = g, dg
        else:
            self.dm = momentum * self.dm + kept * dg + 3 * U * (momentum * self.m.abs() + kept * g.abs())
            self.m = momentum * self.m + kept * g
        if not self.rule.is_nesterov:
            return self.moved(weights, rate, decay, self.m, self.dm)
        of_change = dg + momentum * self.dm + 2 * U * (g.abs() + momentum * self.m.abs())
        return self.moved(weights, rate, decay, g + momentum * self.m, of_change)


def drift(
    difference: Tensor, direction: Tensor, either_way: Tensor, one_way: Tensor | None = None
) -> tuple[float, float]:
    """How far values are off along a direction, as a sum, and how far they may be.

    By Hoeffding's inequality, a sum of errors that go either way is above 6 times the root of the sum of their squares
    once in 10 million times. Elements that are equal may be rounded alike, so one of them is added up; of a large
    model, some of the elements are enough.
    """
    some = torch.arange(0, difference.numel(), -(-difference.numel() // _ENOUGH))
    kinds, which = torch.unique(direction[some], return_inverse=True)
    some = torch.zeros(kinds.numel(), dtype=torch.long).scatter_(0, which, some)
    difference, direction, either_way = difference[some], direction[some], either_way[some]
    may_be = SIGMAS * float((either_way * direction).norm())
    if one_way is not None:
        may_be += float((one_way[some] * direction.abs()).sum())
    return float((difference * direction).sum()), may_be


def _single(value: float) -> float:
    """A number as float32 has it."""
    return float(struct.unpack("f", struct.pack("f", value))[0])
