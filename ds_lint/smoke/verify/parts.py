"""What each rank holds if ranks have parts of one model: stages of a pipeline, or slices of tensors.

ZeRO divides the model states of a part among the ranks that have the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.verify.check import ScriptRun, checked, skipped
from ds_lint.smoke.verify.shares import CHECK_OF, STATES, expected_shares, least_to_most, states_of, whole_in_run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check


def sharding(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The exact number of elements of parameters, master weights and states on each rank."""
    requested = expectation.stage
    if requested is None or requested.value == 0 or requested.value != run.engine.stage:
        return
    if run.ranks[0].sequence_parallel > 1:
        why = "ranks share the sequences of a batch, so shares are not checked"
        yield skipped("parameters", requested.key, why)
        return
    if not run.steps_made:
        yield skipped(STATES, requested.key, "DeepSpeed made no step, so there are no states to count")
        return
    ranks = run.data_parallel
    states = expectation.states or states_of(run.train[0])
    expected = [expected_shares(expectation, one.parts, states, ranks) for one in run.ranks]
    for kind in expected[0]:
        shares = [one[kind] for one in expected]
        if kind == "parameters" and requested.value == 3:
            whole = (whole_in_run(expectation, one.parts) for one in run.ranks)
            shares = [share + kept for share, kept in zip(shares, whole, strict=True)]
        observed = run.held(kind)
        wrong = next((pair for pair in zip(observed, shares, strict=True) if pair[0] != pair[1]), None)
        yield checked(
            CHECK_OF.get(kind, STATES),
            Requested(shares, requested.key),
            observed,
            wrong is None,
            unit="elements",
            kept=f"each rank holds {least_to_most(shares)} elements of {kind} of its part of the model"
            + (f", which {ranks} ranks share" if ranks > 1 else ""),
            broken=""
            if wrong is None
            else f"rank {observed.index(wrong[0])} holds {wrong[0]:,} elements of {kind}, but the share of its part of "
            f"the model at stage {requested.value} on {ranks} rank{'s' * (ranks > 1)} is {wrong[1]:,}",
        )
