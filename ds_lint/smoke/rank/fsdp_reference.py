"""The steps of a run with FSDP again, in one process of plain torch without ranks, units or a library's optimizer.

The weights begin as the definition of the model makes them, in the dtypes that the settings ask for; the run gives only
what its ranks were fed and what they made of it. Each step is checked in four links, as ``reference.py`` does for
DeepSpeed: the weights before it are those after the last one, bit for bit; the gradients are the average over ranks and
micro steps; the weights after it are the documented arithmetic; and every rank goes forward with those, rounded.
"""

from __future__ import annotations

import contextlib
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ds_lint.smoke.expected import roundoff
from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.expected.update_rules import Optimizer, drift
from ds_lint.smoke.observe import fsdp_recording, probes
from ds_lint.smoke.rank import data, training_model
from ds_lint.smoke.rank.deviations import NEARLY, difference, in_words, ratio_of, shares_of, worst
from ds_lint.smoke.records.job import Deviation, Reference

if TYPE_CHECKING:
    from torch import Tensor

    from ds_lint.smoke.observe.fsdp_recording import ForwardPass, FsdpStep
    from ds_lint.smoke.records.job import Job

_OF_FACTOR = 5  # roundings of the factor that clips
_OF_ALL, _NO_LABEL = "num_items_in_batch", -100  # as transformers divides its losses


class _Shards(NamedTuple):
    """What the optimizers of all ranks did in a step, one element after the other."""

    place: Tensor  # in the row of all parameters
    rank: Tensor
    before: Tensor
    after: Tensor
    gradient: Tensor
    rate: Tensor
    is_updated: Tensor


def repeat(job: Job) -> Reference:
    """Repeat the steps that the ranks of a job recorded, and say where they differ."""
    torch.set_num_threads(1)  # as the ranks do
    return _Steps(job).compare(fsdp_recording.load(job))


class _Steps:
    def __init__(self, job: Job) -> None:
        assert job.fsdp is not None and job.plan is not None  # noqa: PT018, S101 - of a job with FSDP
        self.job, self.fsdp, self.plan = job, job.fsdp, job.plan
        self.recipe = training_model.recipe_of(job)
        self.model = training_model.build(self.recipe)
        self.parameters = dict(self.model.named_parameters())
        self.starts: dict[str, int] = {}
        self.elements = 0
        for name, one in self.parameters.items():
            self.starts[name] = self.elements
            self.elements += one.numel()
        self.weights = torch.cat([one.detach().reshape(-1).double() for one in self.parameters.values()])
        self.dtype: torch.dtype = getattr(torch, self.fsdp.compute_dtype or "float32")
        if self.fsdp.casts_buffers:
            for buffer in self.model.buffers():
                buffer.data = buffer.data.to(self.dtype) if buffer.is_floating_point() else buffer.data
        self.squares = torch.zeros(self.elements, dtype=torch.float64)  # of what each token adds to a bias
        self._watch_biases()
        self.optimizer = Optimizer(self.plan.rule, self.elements) if self.plan.rule is not None else None
        self.decay = torch.full((self.elements,), self.plan.rule.decay if self.plan.rule else 0.0, dtype=torch.float64)
        self.found = Reference()

    def compare(self, ranks: list[list[FsdpStep]]) -> Reference:
        """Go through the steps until something differs."""
        wanted = self.job.steps + self.job.steps_after
        if any(len(one) != wanted for one in ranks):
            self.found.update = Deviation(1, self.elements, "", wanted, min(len(one) for one in ranks), 0.0)
            self.found.update.words = f"a rank made {min(len(one) for one in ranks)} steps, not {wanted}"
        self.found.samples = self._samples(ranks)
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

    def _row(self, name: str) -> slice:
        return slice(self.starts[name], self.starts[name] + self.parameters[name].numel())

    def _name_at(self, place: int) -> str:
        return next(name for name, start in reversed(self.starts.items()) if start <= place)

    def _shards(self, steps: list[FsdpStep]) -> _Shards:
        parts: list[list[Tensor]] = [[] for _ in _Shards._fields]
        for rank, step in enumerate(steps):
            for update in step.updates:
                for at in update.places:
                    if at.name not in self.starts:
                        continue
                    cut = slice(at.begin, at.begin + at.elements)
                    after = update.after.reshape(-1)[cut].double()
                    gradient = torch.zeros_like(after)
                    if update.gradient is not None:
                        gradient = update.gradient.reshape(-1)[cut].double()
                    start = self.starts[at.name] + at.start
                    values = (
                        torch.arange(start, start + len(after)),
                        torch.full_like(after, rank).long(),
                        update.before.reshape(-1)[cut].double(),
                        after,
                        gradient,
                        torch.full_like(after, update.rate),
                        torch.full_like(after, update.gradient is not None).bool(),
                    )
                    for part, value in zip(parts, values, strict=True):
                        part.append(value)
        kinds = (torch.long, torch.long, *[torch.double] * 4, torch.bool)
        return _Shards(
            *(torch.cat([torch.zeros(0, dtype=kind), *part]) for part, kind in zip(parts, kinds, strict=True))
        )

    def _samples(self, ranks: list[list[FsdpStep]]) -> str | None:
        """What is wrong with the samples of all steps: each is one of the data, and none comes twice."""
        known = {one["input_ids"].numpy().tobytes() for one in data.Tokens(self.recipe, self._number_of_samples())}
        seen: dict[bytes, tuple[int, int]] = {}
        for rank, steps in enumerate(ranks):
            for number, step in enumerate(steps):
                for one in step.passes:
                    for sample in one.inputs["input_ids"]:
                        raw = sample.numpy().tobytes()
                        if raw not in known:
                            return f"step {number + 1} of rank {rank} trains on a sample that is not in the data"
                        if raw in seen:
                            other, before = seen[raw]
                            return (
                                f"ranks {other} and {rank} train on the same samples in step {number + 1}"
                                if other != rank and before == number
                                else f"step {number + 1} of rank {rank} trains on samples of step {before + 1} of "
                                f"rank {other}"
                            )
                        seen[raw] = rank, number
        return None

    def _number_of_samples(self) -> int:
        micro_steps = (self.job.steps + self.job.steps_after + 1) * self.fsdp.accumulation_steps
        return micro_steps * self.fsdp.batch_size * self.job.world_size

    # --------------------------------------------------------------------------------------------------- the weights

    def _compare_before(self, number: int, shards: _Shards) -> None:
        """Every element is updated by some rank, and it is where the last step left it."""
        missing = torch.ones(self.elements, dtype=torch.bool)
        missing[shards.place[shards.is_updated]] = False
        if missing.any():
            at = int(missing.nonzero()[0])
            self.found.update = Deviation(number + 1, int(missing.sum()), self._name_at(at), 0.0, 0.0, 0.0)
            self.found.update.words = (
                f"the optimizers of all ranks together leave out {int(missing.sum()):,} of {self.elements:,} elements, "
                f"such as those of {self._name_at(at)}"
            )
            return
        left = self.weights[shards.place]
        found = difference(number, shards.before, left, torch.zeros_like(left))
        if found is not None:
            found.parameter = self._name_at(int(shards.place[worst(shards.before, left, torch.zeros_like(left))]))
            found.words = "the weights before it are not those " + (
                "of the step before" if number else "with which the model is built"
            )
            self.found.update = found

    def _compare_update(self, number: int, shards: _Shards) -> None:
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
        found.parameter = self._name_at(int(shards.place[worst(shards.after, expected, bound)]))
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
                    name in self.starts
                    and probes.digest(self.weights[self._row(name)].float().to(self.dtype)) != digest
                ):
                    wrong.append((rank, name))
        if wrong:
            rank, name = wrong[0]
            elements = sum(self.parameters[one].numel() for _, one in wrong)
            self.found.weights = Deviation(number + 1, elements, name, 0.0, float(rank), 0.0)

    # ------------------------------------------------------------------------------------------------- the gradients

    def _compare_gradients(self, number: int, steps: list[FsdpStep], shards: _Shards) -> None:
        """The gradients that the optimizers were given, before they were clipped, and those of this process."""
        windows = {len(step.passes) for step in steps}
        lost = [
            (rank, place) for rank, step in enumerate(steps) for place, one in enumerate(step.passes) if not one.factor
        ]
        if lost or windows != {self.fsdp.accumulation_steps}:
            self.found.averaging = Deviation(number + 1, self.elements, "", 0.0, 0.0, 0.0)
            self.found.averaging.words = (
                f"micro step {lost[0][1] + 1} of rank {lost[0][0]} adds nothing to them"
                if lost
                else f"a step has {min(windows)} micro steps, not {self.fsdp.accumulation_steps}"
            )
            return
        terms = self._terms(steps)
        ranks, micro_steps = terms.shape[:2]
        whole, absolute = terms.sum((0, 1)), terms.abs().sum((0, 1))
        roundings = ranks + micro_steps + 4
        wide = math.expm1(roundings * math.log1p(self.plan.unit_roundoff))
        of_passes = self._of_passes(absolute, steps)
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
            found.parameter = self._name_at(int(shards.place[worst(observed, expected, bound)]))
            self._explain(found, terms, observed, shards, bound)
        elif reported is not None and not abs(reported - norm) <= of_norm:
            found = Deviation(number + 1, self.elements, "", norm, reported, of_norm)
            found.words = f"their norm is reported as {reported:.6g}, not {norm:.6g}"
        self.found.averaging = found or self._unequal(number, terms, observed, shards, bound - one_way, one_way)

    def _terms(self, steps: list[FsdpStep]) -> Tensor:
        """What each micro step of each rank contributes to the gradient: ranks x micro steps x elements."""
        for name, one in self.parameters.items():
            one.data = self.weights[self._row(name)].float().to(self.dtype).reshape(one.shape)
        self.squares.zero_()
        counts = [_labels(step.passes) for step in steps]
        terms = [
            torch.stack([self._term(one, len(step.passes), counts, rank) for one in step.passes])
            for rank, step in enumerate(steps)
        ]
        self.squares /= len(steps) ** 2
        return torch.stack(terms) / len(steps)

    def _term(self, one: ForwardPass, windows: int, counts: list[tuple[int, int]], rank: int) -> Tensor:
        """The gradient of a micro step, as a part of the average over the window."""
        assert one.factor is not None  # noqa: S101 - looked for before
        self.model.zero_grad(set_to_none=True)
        torch.set_rng_state(one.random)
        before = self.squares.clone()
        casting = torch.autocast("cpu", self.dtype) if self.fsdp.autocasts else contextlib.nullcontext()
        with casting:
            loss = self.model(**one.inputs).loss
        loss.backward(torch.full_like(loss, one.factor))
        right = _share(one.inputs, windows, counts, rank) / one.factor
        self.squares = before + right**2 * (self.squares - before)
        return right * torch.cat(
            [
                torch.zeros(each.numel(), dtype=torch.float64) if each.grad is None else each.grad.reshape(-1).double()
                for each in self.parameters.values()
            ]
        )

    def _watch_biases(self) -> None:
        """Add up the squares of the gradients of each token, of which the gradient of a bias is the sum."""
        names = {id(one): name for name, one in self.parameters.items()}
        for module in self.model.modules():
            bias = getattr(module, "bias", None)
            if isinstance(bias, torch.Tensor) and id(bias) in names and bias.dim() == 1:
                module.register_forward_hook(self._adding(self._row(names[id(bias)])))

    def _adding(self, row: slice) -> Any:
        elements = row.stop - row.start

        def watch(_module: Any, _inputs: Any, output: Any) -> None:
            def add(gradient: Tensor) -> None:
                self.squares[row] += gradient.double().reshape(-1, elements).square().sum(0)

            if torch.is_tensor(output) and output.requires_grad and output.shape[-1:] == (elements,):
                output.register_hook(add)

        return watch

    def _of_passes(self, absolute: Tensor, steps: list[FsdpStep]) -> Tensor:
        """What the order of additions within a forward and backward pass may change in each element."""
        shapes = [one.shape for one in self.parameters.values() if one.dim() > 1]
        tokens = max(one.numel() for one in steps[0].passes[0].inputs.values() if torch.is_tensor(one))
        products, longest = 3 * len(shapes), max(tokens, *(max(shape) for shape in shapes))
        terms = torch.maximum(absolute, self.squares.sqrt())
        most = torch.cat([terms[self._row(name)].max().expand(one.numel()) for name, one in self.parameters.items()])
        of_pass = torch.finfo(self.dtype).eps / 2
        return most * roundoff.of_passes(of_pass, products, longest, rounds_factors=False)

    def _explain(self, found: Deviation, terms: Tensor, observed: Tensor, shards: _Shards, bound: Tensor) -> None:
        """Find what the gradients are instead: a multiple, those of one rank, or other shares of their parts."""
        ranks, windows = terms.shape[:2]
        found.ratio = ratio_of(observed, terms.sum((0, 1))[shards.place], bound)
        if found.ratio is not None:
            found.words = in_words(found.ratio, ranks, windows, scale=1.0)
        elif ranks > 1 and ratio_of(observed, terms.sum(1)[shards.rank, shards.place], bound) is not None:
            found.words = "they are those of the rank alone, as if the ranks exchanged none"
        else:
            names = [f"rank {rank}" for rank in range(ranks)], [f"micro step {one + 1}" for one in range(windows)]
            for of_parts, parts in zip(names, (terms.sum(1), terms.sum(0)), strict=True):
                if not found.words and (shares := shares_of(observed, parts[:, shards.place], bound)) is not None:
                    found.words = " and ".join(
                        f"{name} counts {share:.3g} times" if abs(share) > NEARLY else f"{name} does not count"
                        for name, share in zip(of_parts, shares, strict=True)
                        if abs(share - 1) > NEARLY
                    )

    def _unequal(
        self, number: int, terms: Tensor, observed: Tensor, shards: _Shards, bound: Tensor, one_way: Tensor
    ) -> Deviation | None:
        """A rank or a micro step that counts more or less than its part, though each element is within its bound."""
        expected = terms.sum((0, 1))[shards.place]
        parts = {f"rank {rank}": part for rank, part in enumerate(terms.sum(1))}
        parts |= {f"micro step {window + 1}": part for window, part in enumerate(terms.sum(0))}
        worst, found = 1.0, None
        for name, part in parts.items():
            direction = part[shards.place]
            off, may_be = drift(observed - expected, direction, bound, one_way)
            if not abs(off) <= worst * may_be:
                worst, right = abs(off) / may_be, float(direction.square().sum())
                words = f"{name} counts {max(0.0, 1 + off / right):.3g} times"
                found = Deviation(number + 1, shards.place.numel(), "", right, right + off, may_be, words=words)
        return found

    def _note(self, what: str, observed: Tensor, expected: Tensor, bound: Tensor) -> None:
        if observed.numel():
            share = float(((observed - expected).abs() / bound.clamp(min=1e-300)).max())
            self.found.largest[what] = max(share, self.found.largest.get(what, 0.0))


def _labels(passes: list[ForwardPass]) -> tuple[int, int]:
    """The tokens that a rank learns to predict in a step: all labels, and those after the first of each sequence."""
    labels = [one.inputs["labels"] for one in passes if torch.is_tensor(one.inputs.get("labels"))]
    return sum(int((one != _NO_LABEL).sum()) for one in labels), sum(
        int((one[..., 1:] != _NO_LABEL).sum()) for one in labels
    )


def _share(inputs: dict[str, Any], windows: int, counts: list[tuple[int, int]], rank: int) -> float:
    """What the loss of a micro step counts in the sum over the window of a rank; see ``reference.py``."""
    items = inputs.get(_OF_ALL)
    for of_ranks in zip(*counts, strict=True):
        if items is not None and float(items) in (sum(of_ranks), of_ranks[rank]):
            return float(len(counts) * items / sum(of_ranks))
    return 1 / windows
