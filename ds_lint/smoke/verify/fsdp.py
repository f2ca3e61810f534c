"""The checks of a small run with FSDP, and the settings that none of them is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import COVERAGE
from ds_lint.smoke.expected.fsdp_units import BY_SIZE
from ds_lint.smoke.records.fsdp import FSDP2
from ds_lint.smoke.verify import fsdp_saving, fsdp_settings, fsdp_steps
from ds_lint.smoke.verify.check import skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.fsdp_expectation import FsdpExpectation
    from ds_lint.smoke.verify.fsdp_run import ShardedRun

_CHECKS = (
    fsdp_steps.start,
    fsdp_settings.shares,
    fsdp_settings.units,
    fsdp_settings.dtypes,
    fsdp_settings.offload,
    fsdp_settings.recomputation,
    fsdp_steps.loss,
    fsdp_steps.batch,
    fsdp_steps.learning_rates,
    fsdp_steps.clipping,
    fsdp_steps.arithmetic,
    fsdp_saving.resume,
    fsdp_saving.export,
    fsdp_saving.recovery,
    fsdp_settings.keys,
)
_SPEED = "the run does not measure speed and peak memory"
_NOT_VERIFIED = {
    "fsdp_backward_prefetch": _SPEED,
    "fsdp_forward_prefetch": _SPEED,
    "fsdp_activation_checkpointing_offload": "a CPU keeps activations in the same memory",
}


def verify(expectation: FsdpExpectation, run: ShardedRun) -> list[Check]:
    """The checks of all properties."""
    checks = [check for property_ in _CHECKS for check in property_(expectation, run)]
    return [*checks, *_unverified(expectation, run)]


def _unverified(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    for name, path in expectation.written():
        value = expectation.launch.value(name)
        if name in _NOT_VERIFIED and value not in (None, False, "NO_PREFETCH") and expectation.plugin.reads(name):
            yield skipped(COVERAGE, path, _NOT_VERIFIED[name])
    if expectation.policy == BY_SIZE and expectation.version == FSDP2 and not run.seen[0].wanted:
        why = "no module of the small model is as large as that"
        yield skipped(COVERAGE, expectation.key("min_num_params"), why)
    if expectation.compute_dtype == "float16":
        why = "Accelerate scales the loss on a GPU only, so the run has no loss scale and no autocast"
        yield skipped(COVERAGE, expectation.precision_key, why)
