"""What FSDP made of the settings: shares, units, dtypes, offload and recomputation, each compared with its setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.verify import fsdp_shares
from ds_lint.smoke.verify.check import skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.fsdp_expectation import FsdpExpectation
    from ds_lint.smoke.records.fsdp import FsdpHolding
    from ds_lint.smoke.verify.fsdp_run import ShardedRun

_GRADIENTS, _STATES = "gradients", "optimizer-states"
_NAMED = 3  # of many


def shares(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The part of the parameters, the gradients and the states that each rank holds."""
    key, ranks, holdings = expectation.strategy_key, expectation.shard_ranks, run.holdings
    made = sorted({one.version for one in holdings})
    if made != [expectation.version]:
        yield Check(
            "parameters",
            "fail",
            expectation.key("fsdp_version"),
            expectation.version,
            ", ".join(made),
            None,
            f"the run has {' and '.join(made) or 'no FSDP'}, but the file asks for {expectation.version}",
        )
        return
    yield fsdp_shares.parameters(holdings, key, ranks)
    held = [one.gradients.elements for one in run.seen]
    yield fsdp_shares.of_trained(_GRADIENTS, "gradients", held, holdings, key, ranks)
    for name in sorted({name for one in run.seen for name in one.states}) or ["exp_avg"]:
        found = [one.states[name].elements if name in one.states else 0 for one in run.seen]
        yield fsdp_shares.of_trained(_STATES, name, found, holdings, key, ranks)
    if any(one.foreign for one in run.seen):
        most = max(one.foreign for one in run.seen)
        yield Check(
            _STATES,
            "fail",
            key,
            0,
            most,
            "elements",
            f"the optimizer updates {most:,} elements outside the model that trains",
        )


def units(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The modules that are gathered and freed by themselves, and whether they are freed after the forward pass."""
    key = expectation.key("auto_wrap_policy")
    wanted = set(run.seen[0].wanted)
    found = {name for unit in run.holdings[0].units for name in unit.modules}
    missing = sorted(wanted - found)
    of_layers = {name for name in found if any(part.isdigit() for part in name.split("."))}
    extra = sorted(of_layers - wanted)
    broken = None
    if missing:
        broken = f"{_named(missing)} should be {'units' if len(missing) > 1 else 'a unit'} by {expectation.policy}"
    elif extra:
        are = "are units" if len(extra) > 1 else "is a unit"
        broken = f"{_named(extra)} {are}, which {expectation.policy} does not ask for"
    elif differing := [rank for rank, one in enumerate(run.holdings) if _modules(one) != _modules(run.holdings[0])]:
        broken = f"rank {differing[0]} has other units than rank 0"
    yield Check(
        "units",
        "pass" if broken is None else "fail",
        key,
        sorted(wanted),
        sorted(found),
        "units",
        broken or f"{len(wanted)} modules are units by {expectation.policy}, of {len(run.holdings[0].units)} in all",
    )
    yield from _freed(expectation, run, wanted)


def _modules(holding: FsdpHolding) -> list[tuple[str, ...]]:
    return [unit.modules for unit in holding.units]


def _freed(expectation: FsdpExpectation, run: ShardedRun, wanted: set[str]) -> Iterator[Check]:
    """Whether the units of layers are whole between the forward and the backward pass, as the strategy says."""
    inside = [one.name for unit in run.holdings[0].units if wanted.intersection(unit.modules) for one in unit.shards]
    if not inside or expectation.shard_ranks == 1:
        return
    key = expectation.strategy_key
    kept = [sum(name in one.whole_after_forward for name in inside) for one in run.seen]
    is_right = all(not number if expectation.reshards else number == len(inside) for number in kept)
    asks = "frees them" if expectation.reshards else "keeps them"
    yield Check(
        "units",
        "pass" if is_right else "fail",
        key,
        0 if expectation.reshards else len(inside),
        max(kept, key=lambda one: abs(one - (0 if expectation.reshards else len(inside)))),
        "parameters",
        f"after the forward pass, {max(kept)} of {len(inside)} parameters of these units are whole: "
        f"{expectation.strategy} {asks}"
        if is_right
        else f"after the forward pass, {max(kept)} of {len(inside)} parameters of these units are whole, but "
        f"{expectation.strategy} {asks}",
    )


def dtypes(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The dtypes of what is computed with, reduced, and kept."""
    key, compute = expectation.precision_key, expectation.compute_dtype or "float32"
    kept = "float32"
    found = {
        "the weights in the forward pass": (compute, {dtype for one in run.seen for dtype in one.computed}),
        "what reduces gradients": (compute, {dtype for one in run.seen for dtype in one.reduced}),
        "the shards of parameters": (kept, {dtype for one in run.train for dtype in one.dtypes.get("parameters", ())}),
        "the gradients of the optimizer": (
            kept,
            {dtype for one in run.train for dtype in one.dtypes.get("gradients", ())},
        ),
    }
    for name in run.seen[0].states:
        found[name] = kept, {dtype for one in run.train for dtype in one.dtypes.get(name, ())}
    buffers = {dtype for one in run.holdings for _, dtype in one.buffers if "float" in dtype}
    if buffers:
        found["the buffers"] = (compute if run.job.casts_buffers else kept), buffers
    if len(run.train) == 1 or not any(one.reduced for one in run.seen):
        del found["what reduces gradients"]
    wrong = {what: (requested, seen) for what, (requested, seen) in found.items() if seen != {requested}}
    for what, (requested, seen) in wrong.items():
        yield Check(
            "dtypes",
            "fail",
            key,
            requested,
            ", ".join(sorted(seen)) or None,
            None,
            f"the dtype of {what} is {' and '.join(sorted(seen)) or 'unknown'}, but the settings ask for {requested}",
        )
    if not wrong:
        yield Check(
            "dtypes",
            "pass",
            key,
            compute,
            ", ".join(sorted(found["the weights in the forward pass"][1])),
            None,
            f"weights are {compute} in the forward pass, and {kept} in the shards, gradients and states",
        )


def offload(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """Whether the units offload what they keep: on a CPU, which code path they take."""
    is_requested = expectation.is_on("cpu_offload")
    found = {unit.offloads for one in run.holdings for unit in one.units}
    if not is_requested and found == {False}:
        return
    yield Check(
        "offload",
        "pass" if found == {is_requested} else "fail",
        expectation.key("cpu_offload"),
        is_requested,
        sorted(found),
        None,
        "the shards are offloaded to the CPU after each pass"
        if found == {is_requested}
        else f"{'not all units offload' if is_requested else 'units offload'} their shards to the CPU",
    )


def recomputation(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """Whether the layers run again in the backward pass."""
    is_requested = expectation.is_on("activation_checkpointing")
    layers, again = run.train[0].layers or [], run.train[0].recomputed
    if not is_requested and not again:
        return
    key = expectation.key("activation_checkpointing")
    if is_requested and not layers:
        yield skipped("recomputation", key, "the run finds no list of layers in this model")
        return
    wanted = [name for name in layers if name in run.seen[0].wanted] or layers
    is_kept = set(wanted) <= set(again) if is_requested else not again
    yield Check(
        "recomputation",
        "pass" if is_kept else "fail",
        key,
        len(wanted) if is_requested else 0,
        len(again),
        "layers",
        f"the backward pass runs {len(again)} of {len(layers)} layers again"
        if is_kept
        else f"the backward pass runs {len(again)} of {len(layers)} layers again, but the file asks for "
        f"{len(wanted) if is_requested else 'none'}",
        "" if is_kept else "All activations stay in memory until the backward pass." * is_requested,
    )


def keys(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """Settings in the file that nothing has read: no argument of the launch, or no variable of the environment."""
    arguments, variables = set(run.seen[0].arguments), set(run.seen[0].variables)
    names = expectation.plugin.variables
    strange, unused = [], []
    for name, path in expectation.written():
        if not name.startswith("fsdp_"):
            continue
        if name not in arguments:
            strange.append(path)
        elif names.get(name) is not None and names[name] not in variables:
            unused.append(path)
    for path in strange:
        yield Check(
            "keys",
            "warn",
            path,
            "read",
            "never read",
            None,
            f"`accelerate launch` never reads `{path}`",
            "Delete the key, or correct its name.",
        )
    rest = f"this run does not use {len(unused)} known keys: {', '.join(unused)}"
    read = f"{len(strange)} never read" if strange else "every key read"
    yield Check(
        "keys", "pass", None, "read", rest if unused else read, None, rest if unused else "the run read every key"
    )


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
