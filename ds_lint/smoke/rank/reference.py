"""The same steps again in one process of plain torch, without an engine, a process group, or an optimizer of a library.

Each step of the run is checked from where the run itself began it, in three links, so that no tolerance has to grow
with the number of steps:

1. The gradients. A model of plain torch gets the fp32 weights of before the step, cast down, and goes forward and
   backward with each micro batch of each rank, in the dtype of the run. The average over ranks and micro steps is what
   the optimizer should have been given, unscaled and clipped. Forward and backward repeat the run's operations, so what
   differs is the order of additions: with ``n`` roundings on the way of each term, each of unit roundoff ``u`` of the
   dtype that they are added up in, the error of an element is at most ``((1 + u)**n - 1)`` times the sum of the
   absolute terms. The bound is on each element, so one in which gradients cancel gets a wide bound, and no other does.
   The linear layers of ZeRO-3 are repeated in the order in which they multiply matrices. What else it changes, and GPUs
   change, is an error of the pass itself, relative to the largest element of a tensor: see ``roundoff.py``. The
   gradients of tokens may cancel in that of a bias, so the root of the sum of their squares counts there if it is
   larger. What is within these bounds everywhere may still be off in one direction, so the differences are added up
   along the part of each rank and of each micro step.
2. The step. From the fp32 weights of before and the gradient that the optimizer was given, the documented arithmetic
   with states of this process: see ``update_rules.py``. Starting from the reference's own gradients instead would be of
   no use: Adam divides by the root of the squares, and a gradient that is all roundoff moves a weight by ``lr``.
3. The weights that the ranks compute with are the fp32 weights of after the step, cast down: bit for bit.

A step that is skipped has gradients beyond the numbers of their dtype; its weights must not move. What the run is
compared with comes from the config, from the model's definition and from the data, never from the run itself: see
``definition.py``, ``drawn_samples.py`` and ``expected/reference_plan.py``. What feeds the links is checked elsewhere,
against the config: the learning rate, the norm to clip to, the loss scale.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ds_lint.smoke.expected import roundoff
from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.expected.update_rules import Optimizer, Stepped, drift
from ds_lint.smoke.observe import probes, recording
from ds_lint.smoke.rank.definition import Definition
from ds_lint.smoke.rank.deviations import OwnedElements, difference, explain, fits, in_words, unequal_parts, worst
from ds_lint.smoke.rank.drawn_samples import wrong_samples
from ds_lint.smoke.rank.linear_of_stage_3 import linear
from ds_lint.smoke.rank.passes import Passes
from ds_lint.smoke.records.job import Deviation, Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ds_lint.smoke.observe.recording import Recorded, RecordedStep
    from ds_lint.smoke.records.job import Job, ReferencePlan, UpdateRule

_LARGE, _FEW = 2**20, 2  # elements of a model of which a few steps, and as many elements, are enough
_OF_BUFFER = 2**-20  # relative, of a buffer that a GPU has computed
_OF_ZEROS = 1.1  # learning rates, by which a step with zero gradients moves a weight at the most, beside its decay
# Roundings to float32 on the way of the factor that clips: the norm over the scale, plus 1e-6, over the norm to clip
# to, times the scale, and 1 over it (stage_1_and_2.py); all elements have the same error of it.
_OF_FACTOR = 5


def repeat(job: Job) -> Reference:
    """Repeat the run that the ranks of a job recorded, and say where it differs."""
    assert job.plan is not None  # noqa: S101 - the part is not made without one
    torch.set_num_threads(1)  # as the ranks do, which decides the order of additions
    if job.plan.replaces_linear:
        torch.nn.functional.linear = linear
    return _Repetition(job, job.plan, recording.load(job)).compare()


class _Repetition:
    def __init__(self, job: Job, plan: ReferencePlan, ranks: list[Recorded]) -> None:
        self.plan = plan
        self.ranks = ranks
        self.definition = Definition(job, plan)
        self.elements = self.definition.elements
        self.found = Reference(samples=wrong_samples(job, plan, [one.steps for one in ranks]))
        self.weights = self.definition.weights.clone()  # as the step before left them
        self.is_frozen = torch.zeros(self.elements, dtype=torch.bool)
        self.are_known = not (plan.is_partitioned or plan.may_start_with_zeros)  # to the last bit
        self.optimizers: list[Optimizer] = []  # those that fit all steps so far
        self.plain: Optimizer | None = None  # the one of them that begins with the first step
        self.decays = self.definition.decays(plan.rule.decay if plan.rule is not None else 0.0)
        self._note_frozen()
        self.passes = Passes(self.definition, plan)

    def compare(self) -> Reference:
        """Go through the steps until something differs."""
        self.found.begin = self._other_begin()
        if self.found.begin is not None:
            return self.found
        for number in range(min(len(one.steps) for one in self.ranks)):
            if self.found.averaging or self.found.update or self.found.weights:
                break
            if self.elements > _LARGE and self.found.made == _FEW:
                break
            self._compare(number, [one.steps[number] for one in self.ranks])
            self.found.steps += 1
        return self.found

    def _compare(self, number: int, steps: list[RecordedStep]) -> None:
        self.found.averaging = self._unequal_steps(number, steps)
        if self.found.averaging is not None:
            return
        if steps[0].is_skipped:
            self._compare_skipped(number, steps)
        else:
            self._compare_made(number, steps)
        if self.are_known:
            self._compare_live(number, steps)

    def _compare_made(self, number: int, steps: list[RecordedStep]) -> None:
        self.found.made += 1
        owned = self._owned(steps)
        self._compare_rest(number, owned)
        live = self.weights.clone()  # before a step of zeros, which leaves the weights that the ranks compute with
        self.weights[owned.place] = owned.before
        if self.plan.is_partitioned and self.found.made == 1:
            live = self.weights
        covered = self.is_frozen.clone()
        covered[owned.place] = True
        self.found.unseen = self.plan.uncompared
        some = OwnedElements(*(part[:: -(-self.elements // _LARGE)] for part in owned))
        if owned.place.numel() and not covered.all() and self.plan.updates_all:
            self.found.averaging = self._left_out(number, covered)
        elif owned.place.numel() and not covered.all():
            self.found.unseen = f"the optimizer has {int(covered.sum()):,} of {self.elements:,} elements in memory"
        if not owned.place.numel() and self.plan.rule is not None:
            self.found.unseen = "the optimizer is not called, which `update` reports"
        if self.found.unseen is None and self.found.averaging is None:
            self._compare_gradients(number, steps, some, live)
        self._compare_update(number, some)
        self.weights[owned.place] = owned.after
        self.are_known = bool(covered.all())

    def _compare_skipped(self, number: int, steps: list[RecordedStep]) -> None:
        """A step is skipped if its gradients are not finite in their dtype, and not otherwise."""
        begins = not self.plan.is_partitioned or self.found.made > 0
        if not begins or self.plan.uncompared or self.passes.may_overflow(self.weights, steps):
            return
        self.found.averaging = _event(number, self.elements, "is skipped, but no gradient overflows")

    def _unequal_steps(self, number: int, steps: list[RecordedStep]) -> Deviation | None:
        """Ranks that do not make the same step."""
        for rank, step in enumerate(steps):
            words = ""
            if step.is_skipped != steps[0].is_skipped:
                which, other = (rank, 0) if step.is_skipped else (0, rank)
                words = f"is skipped on rank {which}, and made on rank {other}"
            elif len(step.micro_steps) != self.plan.windows:
                words = f"has {len(step.micro_steps)} of {self.plan.windows} micro steps on rank {rank}"
            elif step.scale != steps[0].scale:
                words = f"has the loss scale {step.scale:g} on rank {rank}, and {steps[0].scale:g} on rank 0"
            if words:
                return _event(number, self.elements, words)
        return None

    def _left_out(self, number: int, covered: Tensor) -> Deviation:
        """Elements that no rank updates."""
        name = self.definition.name_at(int((~covered).nonzero()[0]))
        own = int(covered.sum())
        words = f"updates {own:,} of {self.elements:,} elements: the optimizer has not all of {name}"
        return _event(number, self.elements - own, words)

    def _note_frozen(self) -> None:
        """Parameters that are not trained; a model that is partitioned while it is built shows what they are."""
        for name, parameter in self.definition.parameters.items():
            if not parameter.requires_grad:
                start = self.definition.starts[name]
                self.is_frozen[start : start + parameter.numel()] = True
        for part in (part for one in self.ranks for part in one.frozen if self.plan.is_partitioned):
            start = self.definition.starts[part.name] + part.start
            self.weights[start : start + part.weights.numel()] = part.weights.double()

    def _other_begin(self) -> str | None:
        """A dtype or a buffer with which a rank begins, and which the model's definition does not have."""
        for rank, recorded in enumerate(self.ranks):
            others = sorted(recorded.dtypes.keys() ^ self.definition.parameters.keys())
            if others:
                has = "has" if others[0] in recorded.dtypes else "has not"
                return f"the model of rank {rank} {has} the parameter {others[0]}, unlike the model's definition"
            for name, dtype in recorded.dtypes.items():
                if not self.definition.has_dtype(name, dtype):
                    return f"rank {rank} begins with {name} in {_name(dtype)}, not in {_name(self.definition.dtype)}"
            for name, wanted in self.definition.buffers.items():
                observed = recorded.buffers.get(name)
                if observed is None or not _is_same_buffer(observed, wanted, is_exact=self.plan.repeats_buffers):
                    return f"rank {rank} computes with another buffer {name} than the model's definition has"
        for name, dtype in self.ranks[0].dtypes.items():
            self.definition.parameters[name].data = self.definition.parameters[name].data.to(dtype)
        return None

    def _owned(self, steps: list[RecordedStep]) -> OwnedElements:
        """What the optimizers of all ranks did in a step."""
        rows = []
        for rank, (recorded, step) in enumerate(zip(self.ranks, steps, strict=True)):
            for update in sorted(step.updates, key=lambda one: one.tensor):
                for where in recorded.places.get(update.tensor, []):
                    cut = slice(where.begin, where.begin + where.length)
                    start = self.definition.starts[where.name] + where.start
                    after = update.after.reshape(-1)[cut].double()
                    gradient = torch.zeros_like(after)
                    if update.gradient is not None:
                        gradient = update.gradient.reshape(-1)[cut].double()
                    place = torch.arange(start, start + where.length)
                    known = self.weights[place] if update.before is None else update.before.reshape(-1)[cut].double()
                    filled = (torch.full_like(after, one) for one in (rank, update.rate, update.gradient is not None))
                    of_rank, rate, is_updated = filled
                    rows.append((place, of_rank.long(), known, after, gradient, rate, is_updated.bool()))
        return OwnedElements.of(rows)

    # ------------------------------------------------------------------------------------------------- the gradients

    def _compare_gradients(self, number: int, steps: list[RecordedStep], owned: OwnedElements, live: Tensor) -> None:
        """The gradients that the optimizer was given, before they were clipped, and those of this process."""
        terms = self.passes.terms(live, steps)
        ranks, windows = terms.shape[:2]
        whole, absolute = terms.sum((0, 1)), terms.abs().sum((0, 1))
        roundings = ranks + windows + 4  # additions; by the micro steps, ranks, loss scale and clipping it is divided
        wide = math.expm1(roundings * math.log1p(self.plan.unit_roundoff))
        bound = wide * absolute + roundings * self.plan.smallest / steps[0].scale
        norm, reported = float(whole.norm()), steps[0].norm
        of_norm = float(bound.norm()) + self.elements * U * norm
        if not self.plan.repeats_passes:
            of_passes = self.passes.roundoff(absolute)
            bound = bound + of_passes
            of_norm += float(of_passes.norm()) / roundoff.SIGMAS  # what is random adds up as its standard deviation
        clip = self._clip(norm if reported is None else reported)
        observed, expected = owned.gradient / clip, whole[owned.place]
        one_way = _OF_FACTOR * U * (clip != 1) * expected.abs()
        bound = bound[owned.place] + one_way
        bound = bound + (3 * U + of_norm / max(norm, 1e-300) * (reported is None)) * expected.abs()
        self._note("averaging", observed, expected, bound)
        found = difference(number, observed, expected, bound)
        if found is not None:
            found.parameter = self.definition.name_at(int(owned.place[worst(observed, expected, bound)]))
        elif reported is not None and not abs(reported - norm) <= of_norm:
            found = Deviation(number + 1, self.elements, "", norm, reported, of_norm)
            found.words = in_words(reported / norm if norm else math.inf, ranks, windows, steps[0].scale)
        if found is not None and not found.words:
            explain(found, terms, observed, owned, bound, steps[0].scale)
        self.found.averaging = found or unequal_parts(number, terms, observed, owned, bound, one_way)

    def _clip(self, norm: float) -> float:
        """The factor that clips gradients of this norm."""
        most = self.plan.clipping
        return most / (norm + 1e-6) if most and norm + 1e-6 > most else 1.0

    # ------------------------------------------------------------------------------------------ the step, the weights

    def _compare_update(self, number: int, owned: OwnedElements) -> None:
        """The fp32 weights after the step, and those of the documented arithmetic."""
        rule = self.plan.rule
        if rule is None:
            return
        if not owned.place.numel():
            self.found.update = Deviation(number + 1, self.elements, "", 0.0, 0.0, 0.0)
            self.found.update.words = "the optimizer is not called"
            return
        decay = self.decays[owned.place]
        if not self.optimizers:
            self.optimizers = list(self._optimizers(rule, owned, decay))
            self.plain = self.optimizers[0]
        steps = [(one, one.step(owned.before, owned.gradient, owned.rate, decay)) for one in self.optimizers]
        compared = [(one, stepped, _step_differs(number, stepped, owned)) for one, stepped in steps]
        fitting = [one for one in compared if one[2] is None] or compared[:1]
        self.optimizers = [one for one, _, _ in fitting]
        self.found.starts_with_zeros = self.plain not in self.optimizers
        _, stepped, found = fitting[0]
        expected = _expected(stepped, owned)
        self._note("update", owned.after, expected, stepped.bound)
        if found is None:
            return
        found.parameter = self.definition.name_at(int(owned.place[worst(owned.after, expected, stepped.bound)]))
        if torch.equal(owned.after, owned.before):
            found.words = "no weight changes"
        elif decay.any() and fits(owned.after, stepped.weights + owned.rate * decay * owned.before, stepped.bound):
            found.words = "they are those without weight decay"
        self.found.update = found

    def _optimizers(self, rule: UpdateRule, owned: OwnedElements, decay: Tensor) -> Iterator[Optimizer]:
        """An optimizer that begins with the first step, and if the run may have, one after a step with zero gradients.

        A learning rate of 0 does not tell them apart, so the first steps of a warm-up fit both.
        """
        yield Optimizer(rule, owned.place.numel())
        if self.plan.may_start_with_zeros:
            after_zeros, zeros = Optimizer(rule, owned.place.numel()), torch.zeros_like(owned.gradient)
            after_zeros.step(self.definition.weights[owned.place], zeros, zeros, decay)
            yield after_zeros

    def _compare_rest(self, number: int, owned: OwnedElements) -> None:
        """The fp32 weights before a step: those of the model's definition at first, and nothing moves them between."""
        is_first = self.found.made == 1
        if is_first and self.plan.is_partitioned:
            return
        left = self.weights[owned.place]
        bound = torch.zeros_like(left)
        if is_first and self.plan.may_start_with_zeros:
            bound = (
                owned.rate.clamp(min=self.plan.rate) * (_OF_ZEROS + self.decays[owned.place] * left.abs())
                + 2 * U * left.abs()
            )
        found = difference(number, owned.before, left, bound)
        if found is not None:
            found.parameter = self.definition.name_at(int(owned.place[worst(owned.before, left, bound)]))
            found.words = "they are not those of the model's definition" if is_first else "they change before the step"
            self.found.update = found

    def _compare_live(self, number: int, steps: list[RecordedStep]) -> None:
        """The weights and the buffers that the ranks compute with, bit for bit."""
        wrong = []
        for rank, (recorded, step) in enumerate(zip(self.ranks, steps, strict=True)):
            for name, live in step.live.items():
                start = self.definition.starts[name] + live.start
                cast = self.weights[start : start + live.length].float().to(recorded.dtypes[name])
                if probes.digest(cast) != live.digest:
                    wrong.append((rank, name, live.length))
        if wrong:
            rank, name, _ = wrong[0]
            elements = sum(length for _, _, length in wrong)
            self.found.weights = Deviation(number + 1, elements, name, 0.0, float(rank), 0.0)
            return
        now = dict(self.definition.model.named_buffers())
        for name, wanted in self.definition.buffers.items():
            if not torch.equal(now[name], wanted):
                continue  # the model itself changes it in a forward pass
            for rank, (recorded, step) in enumerate(zip(self.ranks, steps, strict=True)):
                if step.buffers.get(name) != probes.digest(recorded.buffers[name]):
                    words = f"changes the buffer {name} on rank {rank}, and the model itself does not"
                    self.found.weights = _event(number, 1, words)
                    return

    def _note(self, what: str, observed: Tensor, expected: Tensor, bound: Tensor) -> None:
        """Remember the largest share of a tolerance."""
        if observed.numel():
            share = float(((observed - expected).abs() / bound.clamp(min=1e-300)).max())
            self.found.largest[what] = max(share, self.found.largest.get(what, 0.0))


def _event(number: int, elements: int, words: str) -> Deviation:
    """What happens in a step, other than numbers that differ."""
    return Deviation(number + 1, elements, "", 0.0, 0.0, 0.0, words=words, is_event=True)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_same_buffer(observed: Tensor, wanted: Tensor, *, is_exact: bool) -> bool:
    if (observed.dtype, observed.shape) != (wanted.dtype, wanted.shape):
        return False
    if is_exact or not wanted.is_floating_point():
        return probes.digest(observed) == probes.digest(wanted)
    return bool(torch.allclose(observed.double(), wanted.double(), rtol=_OF_BUFFER, atol=0.0, equal_nan=True))


def _expected(stepped: Stepped, owned: OwnedElements) -> Tensor:
    """The weights after a step, in which those without a gradient stay."""
    return torch.where(owned.is_updated, stepped.weights, owned.before)


def _step_differs(number: int, stepped: Stepped, owned: OwnedElements) -> Deviation | None:
    """The element that is furthest off, or the direction in which all are off."""
    expected = _expected(stepped, owned)
    return difference(number, owned.after, expected, stepped.bound) or _drifted(number, stepped, owned)


def _drifted(number: int, stepped: Stepped, owned: OwnedElements) -> Deviation | None:
    """Weights that are all within their bounds, but off in the same direction: along the weights, or along the step."""
    for direction in (owned.before, stepped.weights - owned.before):
        off, may_be = drift(owned.after - stepped.weights, direction, stepped.either_way, stepped.one_way)
        if not abs(off) <= may_be:
            right = float(((stepped.weights - owned.before) * direction).sum())
            return Deviation(number + 1, owned.after.numel(), "", right, right + off, may_be)
    return None
