"""What a script asks FSDP of torch for, compared with what the ranks show: one function per property."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CUDA, Check
from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.records.fsdp import FSDP1
from ds_lint.smoke.verify import fsdp_shares
from ds_lint.smoke.verify.check import checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.fsdp import FsdpHolding
    from ds_lint.smoke.records.fsdp_trace import FsdpTrace, WrapCall

UNITS, DTYPES, OFFLOAD, RECOMPUTATION, LOSS, RATES = (
    "units", "dtypes", "offload", "recomputation", "loss", "learning-rate",
)  # fmt: skip
_ROUNDED, _CHANCE = 1e-2, 1e-12  # of a weight in 16 bit
_SHOWN = 3


class ShardedRanks(NamedTuple):
    """The ranks of one model of a script, which have come to their checkpoint."""

    ranks: list[EngineTrace]

    @property
    def own(self) -> list[FsdpTrace]:
        """What they note of FSDP."""
        return [one.fsdp for one in self.ranks if one.fsdp is not None]

    @property
    def holdings(self) -> list[FsdpHolding]:
        """What they hold."""
        return [one.holding for one in self.own if one.holding is not None]

    @property
    def is_on_gpus(self) -> bool:
        """Whether they compute on GPUs."""
        return self.ranks[0].mode == CUDA


def shares(run: ShardedRanks) -> Iterator[Check]:
    """The elements of parameters, gradients and states on each rank; and nothing whole between the steps."""
    holdings, own = run.holdings, run.own
    requested = {call.shard_ranks for one in own for call in one.calls}
    ranks = requested.pop() if len(requested) == 1 and 0 not in requested else None
    if any(one.is_by_columns for one in own):
        yield skipped(fsdp_shares.PARAMETERS, None, "parameters are sharded along other dimensions than the first")
        return
    yield fsdp_shares.parameters(holdings, None, ranks)
    stepped = [one for one in own if one.optimizers]
    if not stepped:
        return
    if any(one.foreign for one in own) or any(one.unheld for one in own):
        for name in (fsdp_shares.GRADIENTS, fsdp_shares.STATES):
            yield skipped(name, None, "the optimizer does not step on all that is trained")
        return
    held = [one.gradients or 0 for one in own]
    yield fsdp_shares.of_trained(fsdp_shares.GRADIENTS, "gradients", held, holdings, None, ranks)
    states = sorted({name for one in own for name in one.states})
    if not states:
        yield skipped(fsdp_shares.STATES, None, f"{_short(own[0].optimizers[0])} keeps no state of each element")
    elif not all(one.makes_states for one in own):
        yield skipped(fsdp_shares.STATES, None, f"{_short(own[0].optimizers[0])} keeps its states in another form")
    for name in states if all(one.makes_states for one in own) else ():
        of_state = [one.states.get(name, 0) for one in own]
        yield fsdp_shares.of_trained(fsdp_shares.STATES, f"`{name}`", of_state, holdings, None, ranks)
    whole = [one.unsharded for one in own]
    if not any(one.keeps_gathered for one in own):
        yield checked(
            "memory",
            Requested(0, None),
            whole,
            not any(whole),
            unit="elements",
            kept="no unit stays gathered between the steps",
            broken=f"rank {whole.index(max(whole))} keeps {max(whole):,} elements of units gathered between the steps",
        )


def units(run: ShardedRanks) -> Iterator[Check]:
    """What is gathered at once, and what no unit has."""
    first = run.own[0]
    holding = run.holdings[0]
    named = [tuple(unit.modules) for unit in holding.units]
    other = next((one for one in run.holdings if [tuple(unit.modules) for unit in one.units] != named), None)
    if other is not None:
        rank = run.holdings.index(other)
        yield Check(
            UNITS, "fail", None, len(named), len(other.units), "units", f"rank {rank} has other units than rank 0"
        )
        return
    lost = _other_shapes(run)
    if lost is not None:
        yield Check(UNITS, "fail", None, None, None, None, lost)
        return
    outside = [one for one in holding.outside if one.is_trained and 0 not in one.shape]
    if outside:
        elements = sum(one.elements for one in outside)
        yield Check(
            UNITS, "warn", None, 0, elements, "elements",
            f"no unit of FSDP has {_listed([one.name for one in outside])}: {elements:,} elements are whole on each "
            "rank",
            "FSDP neither shards them nor averages their gradients. Shard the model itself after its layers.",
        )  # fmt: skip
        return
    policy = next((call.policy for call in first.calls if call.policy and not call.name), "")
    is_whole = len(holding.units) == 1
    is_divided = holding.units[0].ranks > 1 if holding.units else False
    yield checked(
        UNITS,
        Requested(f"the units of {policy}" if policy else None, None),
        len(holding.units),
        not (policy and is_whole and is_divided),
        unit="units",
        bad="warn",
        kept=f"FSDP gathers the model in {len(holding.units)} unit{'s' * (len(holding.units) != 1)}",
        broken=f"{policy} wraps no module, so the model is one unit: each pass gathers all its parameters at once",
        help="Name the classes of the layers of this model." if policy else "",
    )


def _other_shapes(run: ShardedRanks) -> str | None:
    """A parameter that had another shape, or more elements, before FSDP took it."""
    for one, holding in zip(run.own, run.holdings, strict=True):
        found: dict[str, tuple[int, ...]] = {own.name: own.shape for own in (*holding.shards, *holding.outside)}
        for name, shape in one.shapes.items():
            if name in found and tuple(found[name]) != tuple(shape):
                return f"{name} has the shape {list(found[name])}, but {list(shape)} before it is sharded"
    return None


def dtypes(run: ShardedRanks) -> Iterator[Check]:
    """The dtypes of what is computed, of gradients on their way, and of what is kept."""
    own, holding = run.own, run.holdings[0]
    kept = sorted({shard.dtype for one in run.holdings for shard in one.shards if shard.is_trained})
    requested: dict[str, set[str]] = {"compute": set(), "reduce": set()}
    by_name = {call.name: call for call in own[0].calls}
    for unit in holding.units:
        call = next((by_name[name] for name in unit.modules if name in by_name), None)
        for shard in unit.shards if call is not None else ():
            assert call is not None  # noqa: S101 - otherwise there are none
            requested["compute"].add(call.compute or shard.dtype)
            if shard.is_trained:
                requested["reduce"].add(_reduces_in(call, shard.dtype))
    computed = sorted({dtype for one in own for dtype in one.compute_dtypes})
    autocasts = any(one.autocasts for one in own)
    if computed and requested["compute"]:
        wanted = sorted(requested["compute"])
        yield checked(
            DTYPES, Requested(wanted, None), computed, set(computed) <= set(wanted),
            kept=f"the layers compute with weights in {_listed(computed)}" + " within autocast" * autocasts,
            broken=f"the layers compute with weights in {_listed(computed)}, but the script asks for {_listed(wanted)}",
        )  # fmt: skip
    reduced = sorted({dtype for one in own for dtype in one.reduced_dtypes})
    if reduced and requested["reduce"]:
        wanted = sorted(requested["reduce"])
        yield checked(
            DTYPES, Requested(wanted, None), reduced, set(wanted) <= set(reduced) and set(reduced) <= {*wanted, *kept},
            kept=f"the gradients are reduced in {_listed(wanted)}",
            broken=f"the gradients are reduced in {_listed(reduced)}, but the script asks for {_listed(wanted)}",
        )  # fmt: skip
    if kept and any(call.compute in ("bfloat16", "float16") for call in own[0].calls):
        yield checked(
            DTYPES, Requested(["float32"], None), kept, kept == ["float32"], bad="warn",
            kept="the weights that the optimizer steps on are kept in float32",
            broken=f"the optimizer steps on weights in {_listed(kept)}: small updates round away",
            help="Mixed precision keeps the dtype that the model has: load it in float32, and let FSDP cast it.",
        )  # fmt: skip
    buffers = {call.buffers for call in own[0].calls if call.version == FSDP1 and call.buffers}
    seen = sorted({dtype for one in own for dtype in one.buffer_dtypes})
    if len(buffers) == 1 and seen:
        wanted = sorted(filter(None, buffers))
        yield checked(
            DTYPES, Requested(wanted, None), seen, seen == wanted,
            kept=f"the buffers are in {_listed(seen)}",
            broken=f"the buffers are in {_listed(seen)}, but the script asks for {_listed(wanted)}",
        )  # fmt: skip


def _reduces_in(call: WrapCall, stored: str) -> str:
    return call.reduce or call.compute or stored


def offload(run: ShardedRanks) -> Iterator[Check]:
    """Shards that a script wants in host memory."""
    if not any(call.offloads for one in run.own for call in one.calls):
        return
    if not run.is_on_gpus:
        yield skipped(OFFLOAD, None, "on CPUs all tensors are in host memory")
        return
    devices = sorted({shard.device for one in run.holdings for shard in one.shards})
    yield checked(
        OFFLOAD, Requested("cpu", None), devices, devices == ["cpu"],
        kept="between the steps, the shards are in host memory",
        broken=f"between the steps, shards are on {_listed(devices)}, though the script offloads them",
    )  # fmt: skip


def recomputation(run: ShardedRanks) -> Iterator[Check]:
    """Layers whose activations are not kept run again in the backward pass."""
    for one in run.own:
        lost = sorted(set(one.ran) - set(one.recomputed))
        if lost:
            yield Check(
                RECOMPUTATION, "fail", None, len(one.ran), len(one.ran) - len(lost), "modules",
                f"{_listed(lost)} do not run again in the backward pass, though they are checkpointed",
            )  # fmt: skip
            return
    first = run.own[0]
    asks = first.recomputation or (f"{len(first.ran)} modules are checkpointed" if first.ran else "")
    if not asks or not (first.layers or first.ran):
        return
    again = len(first.recomputed) if first.ran else len(first.layers_again)
    yield checked(
        RECOMPUTATION,
        Requested(asks, None),
        again,
        again > 0,
        unit="layers",
        kept=f"{again} layers run again in the backward pass",
        broken=f"{first.recomputation} asks for it, but no layer runs again in the backward pass",
    )


def loss(run: ShardedRanks) -> Iterator[Check]:
    """Losses that are numbers."""
    for rank, one in enumerate(run.ranks):
        bad = next((n for n, step in enumerate(one.evidence.steps, 1) if not math.isfinite(step.loss)), None)
        if bad is not None:
            value = one.evidence.steps[bad - 1].loss
            yield Check(
                LOSS, "fail", None, "finite", str(value), None, f"the loss of step {bad} is {value} on rank {rank}"
            )
            return
    losses = [step.loss for step in run.ranks[0].evidence.steps]
    yield Check(LOSS, "pass", None, "finite", losses, None, f"the losses of {len(losses)} steps are finite")


def rates(run: ShardedRanks) -> Iterator[Check]:
    """The same learning rates on every rank; and the same number of micro steps."""
    first, *others = run.ranks
    for rank, one in enumerate(others, start=1):
        pairs = list(zip(first.evidence.steps, one.evidence.steps, strict=False))
        wrong = next((n for n, (a, b) in enumerate(pairs, 1) if a.learning_rates != b.learning_rates), None)
        if wrong is not None:
            own, other = pairs[wrong - 1][1].learning_rates, pairs[wrong - 1][0].learning_rates
            yield Check(
                RATES, "fail", None, other, own, None,
                f"rank {rank} steps with the learning rate {own[0]:g} in step {wrong}, and rank 0 with {other[0]:g}",
            )  # fmt: skip
            return
    if first.evidence.steps:
        used = first.evidence.steps[-1].learning_rates
        yield Check(
            RATES, "pass", None, "the same on all ranks", used, None, "all ranks step with the same learning rates"
        )


def begun(run: ShardedRanks) -> Iterator[Check]:
    """Ranks that wrap other weights than each other, and that compute with a mixture of them."""
    own = run.own
    for name, first in own[0].wrapped.items():
        values = [one.wrapped.get(name) for one in own]
        used = own[0].begun.get(name)
        if used is None or any(one is None for one in values) or all(one == first for one in values):
            continue
        if any(_are_close(used, one) for one in values if one is not None):
            continue  # those of one rank, which are sent to all, or none of them, which are loaded afterwards
        sources = [any(_are_close([value], [one[place]]) for one in values if one) for place, value in enumerate(used)]
        if all(sources):
            yield Check(
                "weights", "warn", None, "the same weights on all ranks", name, None,
                f"the ranks shard different weights: {name} begins as a mixture of them",
                "Seed all ranks alike, pass `sync_module_states=True` to FSDP 1, or load the weights after "
                "`fully_shard`.",
            )  # fmt: skip
            return


def _are_close(one: list[float], other: list[float]) -> bool:
    pairs = zip(one, other, strict=False)
    return len(one) == len(other) and all(math.isclose(*pair, rel_tol=_ROUNDED, abs_tol=_CHANCE) for pair in pairs)


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    shown = ", ".join(names[:_SHOWN])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _short(name: str) -> str:
    return name.rpartition(".")[2]
