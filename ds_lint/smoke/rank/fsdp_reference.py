"""The steps of a run with FSDP again, in one process of plain torch without ranks, units or a library's optimizer.

The weights begin as the definition of the model makes them, in the dtypes that the settings ask for; the run gives only
what its ranks were fed and what they made of it. Each step is checked in four links, as ``reference.py`` does for
DeepSpeed: the weights before it are those after the last one, bit for bit; the gradients are the average over ranks and
micro steps; the weights after it are the documented arithmetic; and every rank goes forward with those, rounded.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from ds_lint.smoke.expected import roundoff
from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.expected.update_rules import Optimizer, drift
from ds_lint.smoke.observe import fsdp_recording, probes
from ds_lint.smoke.rank.definition import Definition
from ds_lint.smoke.rank.deviations import OwnedElements, difference, explain, unequal_parts, worst
from ds_lint.smoke.rank.drawn_samples import wrong_samples
from ds_lint.smoke.rank.passes import Passes
from ds_lint.smoke.records.job import Deviation, Reference

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.observe.fsdp_recording import FsdpStep
    from ds_lint.smoke.records.job import Job

_OF_FACTOR = 5  # roundings of the factor that clips


def repeat(job: Job) -> Reference:
    """Repeat the steps that the ranks of a job recorded, and say where they differ."""
    torch.set_num_threads(1)  # as the ranks do
    return _Steps(job).compare(fsdp_recording.load(job))


class _Steps:
    def __init__(self, job: Job) -> None:
        assert job.fsdp is not None and job.plan is not None  # noqa: PT018, S101 - of a job with FSDP
        self.job, self.fsdp, self.plan = job, job.fsdp, job.plan
        self.definition = Definition(job, job.plan)
        self.elements = self.definition.elements
        self.weights = self.definition.weights.clone()  # as the step before left them
        self.dtype: torch.dtype = getattr(torch, self.fsdp.compute_dtype or "float32")
        for one in self.definition.parameters.values():
            one.data = one.data.to(self.dtype)
        self.passes = Passes(self.definition, self.plan, self.dtype if self.fsdp.autocasts else None)
        self.optimizer = Optimizer(self.plan.rule, self.elements) if self.plan.rule is not None else None
        self.decay = self.definition.decays(self.plan.rule.decay if self.plan.rule is not None else 0.0)
        self.found = Reference()

    def compare(self, ranks: list[list[FsdpStep]]) -> Reference:
        """Go through the steps until something differs."""
        wanted = self.job.steps + self.job.steps_after
        if any(len(one) != wanted for one in ranks):
            self.found.update = Deviation(1, self.elements, "", wanted, min(len(one) for one in ranks), 0.0)
            self.found.update.words = f"a rank made {min(len(one) for one in ranks)} steps, not {wanted}"
        self.found.samples = wrong_samples(self.job, self.plan, ranks)
        for number, steps in enumerate(zip(*ranks, strict=False)):
            self._compare(number, list(steps))
            self.found.steps += 1
            if self.found.averaging or self.found.update or self.found.weights:
                break
        return self.found

    def _compare(self, number: int, steps: list[FsdpStep]) -> None:
        if all(step.is_skipped for step in steps):
            return
        self.found.made += 1
        shards = self._shards(steps)
        self._compare_before(number, shards)
        if self.found.update is None:
            self._compare_gradients(number, steps, shards)
            self._compare_update(number, shards)
            self.weights[shards.place] = shards.after
            self._compare_live(number, steps)

    def _shards(self, steps: list[FsdpStep]) -> OwnedElements:
        rows = []
        for rank, step in enumerate(steps):
            for update in step.updates:
                for at in update.places:
                    if at.name not in self.definition.starts:
                        continue
                    cut = slice(at.begin, at.begin + at.length)
                    after = update.after.reshape(-1)[cut].double()
                    gradient = torch.zeros_like(after)
                    if update.gradient is not None:
                        gradient = update.gradient.reshape(-1)[cut].double()
                    start = self.definition.starts[at.name] + at.start
                    values = (
                        torch.arange(start, start + len(after)),
                        torch.full_like(after, rank).long(),
                        update.before.reshape(-1)[cut].double(),
                        after,
                        gradient,
                        torch.full_like(after, update.rate),
                        torch.full_like(after, update.gradient is not None).bool(),
                    )
                    rows.append(values)
        return OwnedElements.of(rows)

    # --------------------------------------------------------------------------------------------------- the weights

    def _compare_before(self, number: int, shards: OwnedElements) -> None:
        """Every element is updated by some rank, and it is where the last step left it."""
        missing = torch.ones(self.elements, dtype=torch.bool)
        missing[shards.place[shards.is_updated]] = False
        if missing.any():
            at = int(missing.nonzero()[0])
            self.found.update = Deviation(number + 1, int(missing.sum()), self.definition.name_at(at), 0.0, 0.0, 0.0)
            self.found.update.words = (
                f"the optimizers of all ranks together leave out {int(missing.sum()):,} of {self.elements:,} elements, "
                f"such as those of {self.definition.name_at(at)}"
            )
            return
        left = self.weights[shards.place]
        found = difference(number, shards.before, left, torch.zeros_like(left))
        if found is not None:
            at = worst(shards.before, left, torch.zeros_like(left))
            found.parameter = self.definition.name_at(int(shards.place[at]))
            found.words = "the weights before it are not those " + (
                "of the step before" if number else "with which the model is built"
            )
            self.found.update = found

    def _compare_update(self, number: int, shards: OwnedElements) -> None:
        """The weights after the step, and those of the documented arithmetic."""
        if self.optimizer is None:
            return
        gradient, rate = torch.zeros(self.elements).double(), torch.zeros(self.elements).double()
        gradient[shards.place], rate[shards.place] = shards.gradient, shards.rate
        stepped = self.optimizer.step(self.weights, gradient, rate, self.decay)
        expected, bound = stepped.weights[shards.place], stepped.bound[shards.place]
        self._note("update", shards.after, expected, bound)
        found = difference(number, shards.after, expected, bound)
        if found is None:
            after = self.weights.clone()
            after[shards.place] = shards.after
            for direction in (self.weights, stepped.weights - self.weights):
                off, may_be = drift(after - stepped.weights, direction, stepped.either_way, stepped.one_way)
                if not abs(off) <= may_be:
                    right = float(((stepped.weights - self.weights) * direction).sum())
                    found = found or Deviation(number + 1, self.elements, "", right, right + off, may_be)
        if found is None:
            return
        found.parameter = self.definition.name_at(int(shards.place[worst(shards.after, expected, bound)]))
        without = stepped.weights + rate * self.decay * self.weights
        if torch.equal(shards.after, shards.before):
            found.words = "no weight changes"
        elif self.decay.any() and bool(((shards.after - without[shards.place]).abs() <= 2 * bound).all()):
            found.words = "they are those without weight decay"
        self.found.update = found

    def _compare_live(self, number: int, steps: list[FsdpStep]) -> None:
        """The whole parameters with which each rank goes forward after the step, bit for bit."""
        wrong = []
        for rank, step in enumerate(steps):
            for name, digest in step.live.items():
                if (
                    name in self.definition.starts
                    and probes.digest(self.weights[self.definition.row(name)].float().to(self.dtype)) != digest
                ):
                    wrong.append((rank, name))
        if wrong:
            rank, name = wrong[0]
            elements = sum(self.definition.parameters[one].numel() for _, one in wrong)
            self.found.weights = Deviation(number + 1, elements, name, 0.0, float(rank), 0.0)

    # ------------------------------------------------------------------------------------------------- the gradients

    def _compare_gradients(self, number: int, steps: list[FsdpStep], shards: OwnedElements) -> None:
        """The gradients that the optimizers were given, before they were clipped, and those of this process."""
        windows = {len(step.micro_steps) for step in steps}
        every = [(rank, *pair) for rank, step in enumerate(steps) for pair in enumerate(step.micro_steps)]
        lost = [(rank, place) for rank, place, micro_step in every if not micro_step.factor]
        if lost or windows != {self.fsdp.accumulation_steps}:
            self.found.averaging = Deviation(number + 1, self.elements, "", 0.0, 0.0, 0.0)
            self.found.averaging.words = (
                f"micro step {lost[0][1] + 1} of rank {lost[0][0]} adds nothing to them"
                if lost
                else f"a step has {min(windows)} micro steps, not {self.fsdp.accumulation_steps}"
            )
            return
        terms = self.passes.terms(self.weights, steps)
        ranks, micro_steps = terms.shape[:2]
        whole, absolute = terms.sum((0, 1)), terms.abs().sum((0, 1))
        roundings = ranks + micro_steps + 4
        wide = math.expm1(roundings * math.log1p(self.plan.unit_roundoff))
        of_passes = self.passes.roundoff(absolute)
        bound = wide * absolute + roundings * self.plan.smallest + of_passes
        norm, reported = float(whole.norm()), steps[0].norm
        of_norm = float((bound - of_passes).norm()) + self.elements * U * norm
        of_norm += float(of_passes.norm()) / roundoff.SIGMAS
        most = self.plan.clipping
        clip = most / (norm + 1e-6) if most and norm + 1e-6 > most else 1.0
        observed, expected = shards.gradient / clip, whole[shards.place]
        one_way = (_OF_FACTOR * U * (clip != 1) + (of_norm / max(norm, 1e-300)) * (clip != 1) + 3 * U) * expected.abs()
        bound = bound[shards.place] + one_way
        self._note("averaging", observed, expected, bound)
        found = difference(number, observed, expected, bound)
        if found is not None:
            found.parameter = self.definition.name_at(int(shards.place[worst(observed, expected, bound)]))
            explain(found, terms, observed, shards, bound, scale=1.0)
        elif reported is not None and not abs(reported - norm) <= of_norm:
            found = Deviation(number + 1, self.elements, "", norm, reported, of_norm)
            found.words = f"their norm is reported as {reported:.6g}, not {norm:.6g}"
        self.found.averaging = found or unequal_parts(number, terms, observed, shards, bound, one_way)

    def _note(self, what: str, observed: Tensor, expected: Tensor, bound: Tensor) -> None:
        if observed.numel():
            share = float(((observed - expected).abs() / bound.clamp(min=1e-300)).max())
            self.found.largest[what] = max(share, self.found.largest.get(what, 0.0))
