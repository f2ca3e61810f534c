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

A step that is skipped has no gradients; its weights must not move. What feeds the three is checked elsewhere, against
the config: the learning rate, the norm to clip to, the loss scale.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from ds_lint.smoke.expected import roundoff
from ds_lint.smoke.expected.roundoff import U
from ds_lint.smoke.expected.update_rules import Optimizer, Stepped, drift
from ds_lint.smoke.observe import probes, recording
from ds_lint.smoke.rank import training_model
from ds_lint.smoke.rank.linear_of_stage_3 import linear
from ds_lint.smoke.records.job import Deviation, Reference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from ds_lint.smoke.observe.recording import MicroStep, Recorded, RecordedStep
    from ds_lint.smoke.records.job import Job, ReferencePlan, UpdateRule

_OF_ALL = "num_items_in_batch"  # with which transformers divides the loss by the tokens of the whole batch
_NO_LABEL = -100  # what the losses of transformers leave out
_LARGE, _FEW = 2**20, 2  # elements of a model of which a few steps, and as many elements, are enough
_NEARLY = 0.02  # relative, of a ratio that is named
# Roundings to float32 on the way of the factor that clips: the norm over the scale, plus 1e-6, over the norm to clip
# to, times the scale, and 1 over it (stage_1_and_2.py); all elements have the same error of it.
_OF_FACTOR = 5


class _Owned(NamedTuple):
    """The elements that the ranks update, one rank behind the other."""

    place: Tensor  # of each in the row of all parameters
    rank: Tensor
    before: Tensor
    after: Tensor
    gradient: Tensor
    rate: Tensor
    is_updated: Tensor


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
        self.model = training_model.build(training_model.recipe_of(job))
        self.parameters = dict(self.model.named_parameters())
        self.starts = dict(zip(self.parameters, _starts(one.numel() for one in self.parameters.values()), strict=True))
        self.elements = sum(one.numel() for one in self.parameters.values())
        self.found = Reference()
        self.weights = torch.zeros(self.elements, dtype=torch.float64)  # as the step before left them
        self.is_frozen = torch.zeros(self.elements, dtype=torch.bool)
        self.are_known = False
        self.optimizers: list[Optimizer] = []  # those that fit all steps so far
        self.plain: Optimizer | None = None  # the one of them that begins with the first step
        self._prepare()
        self.squares = torch.zeros(self.elements, dtype=torch.float64)  # of what each token adds to a bias
        if not plan.repeats_passes:
            self._watch_biases()
        self.first_weights = torch.cat([one.detach().reshape(-1).double() for one in self.parameters.values()])

    def compare(self) -> Reference:
        """Go through the steps until something differs."""
        for number in range(min(len(one.steps) for one in self.ranks)):
            steps = [one.steps[number] for one in self.ranks]
            self.found.samples = self.found.samples or _same_samples(steps)
            self._compare(number, steps)
            self.found.steps += 1
            if self.found.averaging or self.found.update or self.found.weights:
                break
            if self.elements > _LARGE and self.found.made == _FEW:
                break
        return self.found

    def _compare(self, number: int, steps: list[RecordedStep]) -> None:
        is_made = not steps[0].is_skipped
        self.found.made += is_made
        if is_made:
            owned = self._owned(steps)
            covered = self.is_frozen.clone()
            covered[owned.place] = True
            if owned.place.numel() and not covered.all():
                self.found.unseen = f"the optimizer updates {int(covered.sum()):,} of {self.elements:,} elements"
            if self.are_known:
                self._compare_rest(number, owned)
            self.weights[owned.place] = owned.before
            if not owned.is_updated.any():
                self.found.unseen = "the optimizer does not get its gradients from its parameters"
            some = _Owned(*(part[:: -(-self.elements // _LARGE)] for part in owned))
            if self.found.unseen is None:
                self._compare_gradients(number, steps, some)
            self._compare_update(number, some)
            self.weights[owned.place] = owned.after
            self.are_known = bool(covered.all())
        if self.are_known:
            self._compare_live(number, steps)

    def _prepare(self) -> None:
        """Give the model what a run may have changed before its first step."""
        buffers = dict(self.model.named_buffers())
        for name, value in self.ranks[0].buffers.items():
            if name in buffers:
                buffers[name].data = value
        for name, dtype in self.ranks[0].dtypes.items():
            self.parameters[name].data = self.parameters[name].data.to(dtype)
        for part in (part for one in self.ranks for part in one.frozen):
            start = self.starts[part.name] + part.start
            self.weights[start : start + part.weights.numel()] = part.weights.double()
            self.is_frozen[start : start + part.weights.numel()] = True

    def _name_at(self, place: int) -> str:
        """The parameter of an element."""
        name: str = next(name for name, start in reversed(self.starts.items()) if start <= place)
        return name

    def _owned(self, steps: list[RecordedStep]) -> _Owned:
        """What the optimizers of all ranks did in a step."""
        parts: list[list[Tensor]] = [[] for _ in _Owned._fields]
        for rank, (recorded, step) in enumerate(zip(self.ranks, steps, strict=True)):
            for update in sorted(step.updates, key=lambda one: one.tensor):
                for where in recorded.places.get(update.tensor, []):
                    cut = slice(where.begin, where.begin + where.length)
                    start = self.starts[where.name] + where.start
                    after = update.after.reshape(-1)[cut].double()
                    gradient = torch.zeros_like(after)
                    if update.gradient is not None:
                        gradient = update.gradient.reshape(-1)[cut].double()
                    place = torch.arange(start, start + where.length)
                    known = self.weights[place] if update.before is None else update.before.reshape(-1)[cut].double()
                    filled = (torch.full_like(after, one) for one in (rank, update.rate, update.gradient is not None))
                    of_rank, rate, is_updated = filled
                    for part, value in zip(
                        parts, (place, of_rank.long(), known, after, gradient, rate, is_updated.bool()), strict=True
                    ):
                        part.append(value)
        nothing = (torch.zeros(0, dtype=one) for one in (torch.long, torch.long, *[torch.double] * 4, torch.bool))
        return _Owned(*(torch.cat(part) if part else none for part, none in zip(parts, nothing, strict=True)))

    # ------------------------------------------------------------------------------------------------- the gradients

    def _compare_gradients(self, number: int, steps: list[RecordedStep], owned: _Owned) -> None:
        """The gradients that the optimizer was given, before they were clipped, and those of this process."""
        terms = self._terms(steps)
        if terms is None:
            self.found.unseen = "the loss is not that which the model returns"
            return
        ranks, windows = terms.shape[:2]
        whole, absolute = terms.sum((0, 1)), terms.abs().sum((0, 1))
        roundings = ranks + windows + 4  # additions; by the micro steps, ranks, loss scale and clipping it is divided
        wide = math.expm1(roundings * math.log1p(self.plan.unit_roundoff))
        bound = wide * absolute + roundings * self.plan.smallest / steps[0].scale
        norm, reported = float(whole.norm()), steps[0].norm
        of_norm = float(bound.norm()) + self.elements * U * norm
        if not self.plan.repeats_passes:
            of_passes = self._of_passes(absolute)
            bound = bound + of_passes
            of_norm += float(of_passes.norm()) / roundoff.SIGMAS  # what is random adds up as its standard deviation
        clip = self._clip(norm if reported is None else reported)
        observed, expected = owned.gradient / clip, whole[owned.place]
        one_way = _OF_FACTOR * U * (clip != 1) * expected.abs()
        bound = bound[owned.place] + one_way
        bound = bound + (3 * U + of_norm / max(norm, 1e-300) * (reported is None)) * expected.abs()
        self._note("averaging", observed, expected, bound)
        found = _difference(number, observed, expected, bound)
        if found is not None:
            found.parameter = self._name_at(int(owned.place[_worst(observed, expected, bound)]))
        elif reported is not None and not abs(reported - norm) <= of_norm:
            found = Deviation(number + 1, self.elements, "", norm, reported, of_norm)
            found.words = self._words(reported / norm if norm else math.inf, ranks, windows, steps[0].scale)
        if found is not None and not found.words:
            self._explain(found, terms, observed, owned, bound, steps[0].scale)
        self.found.averaging = found or self._unequal_parts(number, terms, observed, owned, bound, one_way)

    def _terms(self, steps: list[RecordedStep]) -> Tensor | None:
        """What each micro step of each rank contributes to the gradient: ranks x micro steps x elements."""
        for name, parameter in self.parameters.items():
            start = self.starts[name]
            value = self.weights[start : start + parameter.numel()].float().to(parameter.dtype)
            parameter.data = value.reshape(parameter.shape)
        counts = [_labels(step) for step in steps]
        self.squares.zero_()
        terms = [
            [self._term(one, len(step.micro_steps), counts, rank) for one in step.micro_steps]
            for rank, step in enumerate(steps)
        ]
        if any(one is None for of_rank in terms for one in of_rank) or len({len(one) for one in terms}) != 1:
            return None
        self.squares /= len(steps) ** 2
        return torch.stack([torch.stack([one for one in of_rank if one is not None]) for of_rank in terms]) / len(steps)

    def _term(self, micro_step: MicroStep, windows: int, counts: list[tuple[int, int]], rank: int) -> Tensor | None:
        """The gradient of a micro step, as a part of the average over the window.

        It is taken with the factor that the run multiplied the loss by, since each factor rounds differently, and
        then scaled to the factor that it should have been.
        """
        if micro_step.factor is None or not micro_step.factor:
            return None
        self.model.zero_grad(set_to_none=True)
        torch.set_rng_state(micro_step.random)  # models of experts choose by chance between equal ones
        before = self.squares.clone()
        loss = self.model(**micro_step.inputs).loss
        loss.backward(torch.full_like(loss, micro_step.factor))
        right = _share(micro_step.inputs, windows, counts, rank) / micro_step.factor
        self.squares = before + right**2 * (self.squares - before)
        return right * torch.cat(
            [
                torch.zeros(one.numel(), dtype=torch.float64) if one.grad is None else one.grad.reshape(-1).double()
                for one in self.parameters.values()
            ]
        )

    def _watch_biases(self) -> None:
        """Add up the squares of the gradients of each token, of which the gradient of a bias is the sum.

        They may cancel: softmax does not change if all keys move, so the gradient of the bias of keys is roundoff.
        """
        starts = {id(parameter): self.starts[name] for name, parameter in self.parameters.items()}
        for module in self.model.modules():
            bias = getattr(module, "bias", None)
            if isinstance(bias, torch.Tensor) and id(bias) in starts and bias.dim() == 1:
                module.register_forward_hook(functools.partial(self._watch_output, starts[id(bias)], bias.numel()))

    def _watch_output(self, start: int, elements: int, _module: Any, _inputs: Any, output: Any) -> None:
        squares = self.squares[start : start + elements]

        def add(gradient: Tensor) -> None:
            squares.add_(gradient.double().reshape(-1, elements).square().sum(0))

        if torch.is_tensor(output) and output.requires_grad and output.shape[-1:] == (elements,):
            output.register_hook(add)

    def _of_passes(self, absolute: Tensor) -> Tensor:
        """What the order of additions within a forward and backward pass may change in each element."""
        shapes = [one.shape for one in self.parameters.values() if one.dim() > 1]
        tokens = max(
            one.numel() for one in self.ranks[0].steps[0].micro_steps[0].inputs.values() if torch.is_tensor(one)
        )
        products, longest = 3 * len(shapes), max(tokens, *(max(shape) for shape in shapes))
        terms = torch.maximum(absolute, self.squares.sqrt())
        most = torch.cat(
            [
                terms[start : start + one.numel()].max().expand(one.numel())
                for start, one in zip(self.starts.values(), self.parameters.values(), strict=True)
            ]
        )
        # The dtype of the pass is that of the weights, whatever gradients are added up in.
        of_pass = max(torch.finfo(one.dtype).eps / 2 for one in self.parameters.values())
        return most * roundoff.of_passes(of_pass, products, longest, rounds_factors=self.plan.rounds_factors)

    def _clip(self, norm: float) -> float:
        """The factor that clips gradients of this norm."""
        most = self.plan.clipping
        return most / (norm + 1e-6) if most and norm + 1e-6 > most else 1.0

    def _explain(
        self, found: Deviation, terms: Tensor, observed: Tensor, owned: _Owned, bound: Tensor, scale: float
    ) -> None:
        """Find what the gradients are instead: a multiple of the average, of one rank, or other shares of its parts."""
        ranks, windows = terms.shape[:2]
        found.ratio = _ratio(observed, terms.sum((0, 1))[owned.place], bound)
        if found.ratio is not None:
            found.words = self._words(found.ratio, ranks, windows, scale)
        elif ranks > 1 and _ratio(observed, terms.sum(1)[owned.rank, owned.place], bound) is not None:
            found.words = "they are those of the rank alone, as if the ranks exchanged none"
        else:
            names = [f"rank {rank}" for rank in range(ranks)], [f"micro step {one + 1}" for one in range(windows)]
            for of_parts, parts in zip(names, (terms.sum(1), terms.sum(0)), strict=True):
                shares = _shares(observed, parts[:, owned.place], bound)
                if shares is not None and not found.words:
                    found.words = " and ".join(
                        f"{name} counts {share:.3g} times" if abs(share) > _NEARLY else f"{name} does not count"
                        for name, share in zip(of_parts, shares, strict=True)
                        if abs(share - 1) > _NEARLY
                    )

    def _unequal_parts(
        self, number: int, terms: Tensor, observed: Tensor, owned: _Owned, bound: Tensor, one_way: Tensor
    ) -> Deviation | None:
        """A rank or a micro step that counts more or less than its part, though each element is within its bound.

        ``one_way`` is what a factor that all elements share may be off.
        """
        expected = terms.sum((0, 1))[owned.place]
        parts = {f"rank {rank}": part for rank, part in enumerate(terms.sum(1))}
        parts |= {f"micro step {window + 1}": part for window, part in enumerate(terms.sum(0))}
        worst, found = 1.0, None
        for name, part in parts.items():
            direction = part[owned.place]
            off, may_be = drift(observed - expected, direction, bound - one_way, one_way)
            if not abs(off) <= worst * may_be:
                worst, right = abs(off) / may_be, float(direction.square().sum())
                words = f"{name} counts {max(0.0, 1 + off / right):.3g} times"
                elements = owned.place.numel()
                found = Deviation(number + 1, elements, "", right, right + off, may_be, words=words)
        return found

    def _words(self, ratio: float, ranks: int, windows: int, scale: float) -> str:
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
        known = [
            words for words, number in named.items() if number > 1 and math.isclose(factor, number, rel_tol=_NEARLY)
        ]
        known = known[:2] if ranks > 1 and windows > 1 else known[:1]
        return f"they are {factor:.4g} times {size}" + (f" ({' or '.join(known)})" if known else "")

    # ------------------------------------------------------------------------------------------ the step, the weights

    def _compare_update(self, number: int, owned: _Owned) -> None:
        """The fp32 weights after the step, and those of the documented arithmetic."""
        rule = self.plan.rule
        if rule is None:
            return
        if not owned.place.numel():
            self.found.update = Deviation(number + 1, self.elements, "", 0.0, 0.0, 0.0)
            self.found.update.words = "the optimizer is not called"
            return
        decays = torch.full((self.elements,), rule.decay, dtype=torch.float64)
        for name in self.plan.undecayed:
            decays[self.starts[name] : self.starts[name] + self.parameters[name].numel()] = 0.0
        decay = decays[owned.place]
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
        found.parameter = self._name_at(int(owned.place[_worst(owned.after, expected, stepped.bound)]))
        if torch.equal(owned.after, owned.before):
            found.words = "no weight changes"
        elif decay.any() and _fits(owned.after, stepped.weights + owned.rate * decay * owned.before, stepped.bound):
            found.words = "they are those without weight decay"
        self.found.update = found

    def _optimizers(self, rule: UpdateRule, owned: _Owned, decay: Tensor) -> Iterator[Optimizer]:
        """An optimizer that begins with the first step, and if the run may have, one after a step with zero gradients.

        A learning rate of 0 does not tell them apart, so the first steps of a warm-up fit both.
        """
        yield Optimizer(rule, owned.place.numel())
        if self.plan.may_start_with_zeros:
            after_zeros, zeros = Optimizer(rule, owned.place.numel()), torch.zeros_like(owned.gradient)
            after_zeros.step(self.first_weights[owned.place], zeros, zeros, decay)
            yield after_zeros

    def _compare_rest(self, number: int, owned: _Owned) -> None:
        """The fp32 weights between two steps: nothing moves them."""
        left = self.weights[owned.place]
        found = _difference(number, owned.before, left, torch.zeros_like(left))
        if found is not None:
            found.parameter = self._name_at(int(owned.place[_worst(owned.before, left, torch.zeros_like(left))]))
            found.words = "they change before the step"
            self.found.update = found

    def _compare_live(self, number: int, steps: list[RecordedStep]) -> None:
        """The weights that the ranks compute with, bit for bit."""
        wrong = []
        for rank, (recorded, step) in enumerate(zip(self.ranks, steps, strict=True)):
            for name, live in step.live.items():
                start = self.starts[name] + live.start
                cast = self.weights[start : start + live.length].float().to(recorded.dtypes[name])
                if probes.digest(cast) != live.digest:
                    wrong.append((rank, name, live.length))
        if wrong:
            rank, name, _ = wrong[0]
            elements = sum(length for _, _, length in wrong)
            self.found.weights = Deviation(number + 1, elements, name, 0.0, float(rank), 0.0)

    def _note(self, what: str, observed: Tensor, expected: Tensor, bound: Tensor) -> None:
        """Remember the largest share of a tolerance."""
        if observed.numel():
            share = float(((observed - expected).abs() / bound.clamp(min=1e-300)).max())
            self.found.largest[what] = max(share, self.found.largest.get(what, 0.0))


def _starts(sizes: Iterator[int]) -> Iterator[int]:
    start = 0
    for size in sizes:
        yield start
        start += size


def _labels(step: RecordedStep) -> tuple[int, int]:
    """The tokens that a rank learns to predict in a step: all labels, and those after the first of each sequence."""
    labels = [one.inputs["labels"] for one in step.micro_steps if torch.is_tensor(one.inputs.get("labels"))]
    return sum(int((one != _NO_LABEL).sum()) for one in labels), sum(
        int((one[..., 1:] != _NO_LABEL).sum()) for one in labels
    )


def _share(inputs: dict[str, Any], windows: int, counts: list[tuple[int, int]], rank: int) -> float:
    """What the loss of a micro step counts in the sum over the window of a rank.

    The Trainer lets a model divide the sum over its tokens by the tokens of the whole batch, or of the rank, and counts
    all labels or only those that are predicted. Every token counts the same then.
    """
    items = inputs.get(_OF_ALL)
    for of_ranks in zip(*counts, strict=True):
        if items is not None and float(items) in (sum(of_ranks), of_ranks[rank]):
            return float(len(counts) * items / sum(of_ranks))
    return 1 / windows


def _same_samples(steps: list[RecordedStep]) -> str | None:
    """Which ranks got a sample that another one got too in a step."""
    seen: dict[bytes, int] = {}
    for rank, step in enumerate(steps):
        for micro_step in step.micro_steps:
            tokens: Any = next(
                (one for one in micro_step.inputs.values() if torch.is_tensor(one) and one.dim() > 1), None
            )
            for sample in tokens if tokens is not None else ():
                before = seen.setdefault(sample.numpy().tobytes(), rank)
                if before != rank:
                    return f"ranks {before} and {rank}"
    return None


def _difference(number: int, observed: Tensor, expected: Tensor, bound: Tensor) -> Deviation | None:
    """The element that is furthest off, if any is off by more than its bound."""
    is_off = ~((observed - expected).abs() <= bound)
    if not is_off.any():
        return None
    at = _worst(observed, expected, bound)
    return Deviation(number + 1, int(is_off.sum()), "", float(expected[at]), float(observed[at]), float(bound[at]))


def _expected(stepped: Stepped, owned: _Owned) -> Tensor:
    """The weights after a step, in which those without a gradient stay."""
    return torch.where(owned.is_updated, stepped.weights, owned.before)


def _step_differs(number: int, stepped: Stepped, owned: _Owned) -> Deviation | None:
    """The element that is furthest off, or the direction in which all are off."""
    expected = _expected(stepped, owned)
    return _difference(number, owned.after, expected, stepped.bound) or _drifted(number, stepped, owned)


def _drifted(number: int, stepped: Stepped, owned: _Owned) -> Deviation | None:
    """Weights that are all within their bounds, but off in the same direction: along the weights, or along the step."""
    for direction in (owned.before, stepped.weights - owned.before):
        off, may_be = drift(owned.after - stepped.weights, direction, stepped.either_way, stepped.one_way)
        if not abs(off) <= may_be:
            right = float(((stepped.weights - owned.before) * direction).sum())
            return Deviation(number + 1, owned.after.numel(), "", right, right + off, may_be)
    return None


def _worst(observed: Tensor, expected: Tensor, bound: Tensor) -> int:
    return int(((observed - expected).abs() / bound.clamp(min=1e-300)).nan_to_num(math.inf).argmax())


def _fits(observed: Tensor, expected: Tensor, bound: Tensor) -> bool:
    return bool(((observed - expected).abs() <= 2 * bound).all())  # twice: of both sides


def _ratio(observed: Tensor, expected: Tensor, bound: Tensor) -> float | None:
    """The number by which the observed values are larger, if there is one."""
    squares = float(expected.square().sum())
    if not squares:
        return None
    ratio = float((observed * expected).sum()) / squares
    return ratio if _fits(observed, ratio * expected, bound * max(1.0, abs(ratio))) else None


def _shares(observed: Tensor, parts: Tensor, bound: Tensor) -> list[float] | None:
    """How often each part counts in the observed values, if they are a sum of the parts."""
    if not (observed.isfinite().all() and parts.isfinite().all()):
        return None  # which LAPACK rejects with an error
    shares = torch.linalg.lstsq(parts.T, observed[:, None]).solution[:, 0]
    return shares.tolist() if _fits(observed, shares @ parts, bound) else None
