"""What the text asks for against what the ranks saw: one function a property, in the module of its subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.verify import keys, offload, precision, saving, shares, steps

if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.driver.expectation import Expectation
    from ds_lint.smoke.verify.check import Runs, Verify

PROPERTIES: tuple[Verify, ...] = (
    shares.stage,
    shares.sharding,
    shares.persistence,
    offload.offload,
    offload.placement,
    precision.dtypes,
    precision.loss,
    precision.overflow,
    precision.loss_scale,
    steps.batch,
    steps.learning_rates,
    steps.clipping,
    saving.resume,
    saving.export,
    saving.recovery,
    keys.keys,
)


def verify(expectation: Expectation, runs: Runs) -> list[Check]:
    """Every property that the text promises."""
    return [check for property_ in PROPERTIES for check in property_(expectation, runs)]
