"""Whether training leaves the frozen weights of a model alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.verify.check import ObservedRun, ScriptRun, checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation


def frozen(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The frozen weights after the steps, compared with those before the first one, on every rank."""
    all_frozen = [parameter for parameter in run.train[0].parameters if not parameter.is_trainable]
    if not all_frozen:
        return
    key = expectation.stage.key if expectation.stage is not None else None
    seen = {name for one in run.train for name in one.frozen}
    if not seen:
        yield skipped("frozen", key, "parameters on NVMe are in memory only while they are used")
        return
    moved = sorted({name for one in run.train for name in one.moved})
    if moved and isinstance(run, ScriptRun) and not any(one.moved_in_step for one in run.train):
        why = f"the script itself changes {len(moved)} of them outside `engine.step` ({', '.join(moved[:3])})"
        yield skipped("frozen", key, why)
        return
    tensors, steps = f"of {len(all_frozen)} frozen tensors", run.steps
    yield checked(
        "frozen",
        Requested("frozen weights that do not change", key),
        f"{len(moved)} {tensors} change",
        not moved,
        kept=f"{len(seen)} {tensors} are the same bitwise after {steps} steps, on every rank"
        + ("; the others are on NVMe" if len(seen) < len(all_frozen) else ""),
        broken=f"{len(moved)} {tensors} change in {steps} steps ({', '.join(moved[:3])})",
    )
