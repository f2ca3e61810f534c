"""Whether the model that the framework of the user's script saves is the trained one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected.expectation import ranks_of_a_tensor
from ds_lint.smoke.records.job import Exported
from ds_lint.smoke.verify import saving
from ds_lint.smoke.verify.check import ScriptRun, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.expectation import Expectation


def export(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The saved model; what the script saves in a way of its own is not compared."""
    refusal = run.ranks[0].not_saved
    key = expectation.stage.key if expectation.stage is not None else None
    if (why := run.ranks[0].no_room) is not None:
        yield skipped("export", key, why)
        return
    exported = run.exported if isinstance(run.exported, Exported) else None
    if refusal is None and run.ranks[0].adapter_names is None and exported and exported.stored and not exported.empty:
        yield skipped("export", key, "peft saves what the prompt encoder returns, and not its parameters")
        return
    if refusal is None:
        found = list(saving.export(expectation, run))
        if run.ranks[0].saves_itself and any(check.status == "fail" for check in found):
            yield skipped("export", key, "the Trainer of the script saves its model in its own way")
        else:
            yield from found
        return
    if run.ranks[0].stack == "trainer":
        yield Check("export", "fail", key, "a saved model", None, None, f"trainer.save_model raises: {refusal}")
    else:
        yield skipped("export", key, f"{refusal}; the script may save its model in another way")


def recovery_of_slices(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Whether zero_to_fp32 recovers the weights where ranks share each tensor; pipelines have other files."""
    if ranks_of_a_tensor(expectation.final) > 1:
        yield from saving.recovery(expectation, run)
