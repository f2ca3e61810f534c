"""What the config asks for, compared with what the ranks show: one function per property."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.verify import (
    arithmetic,
    coverage,
    frozen,
    generation,
    groups,
    keys,
    loss_scales,
    offload,
    parts,
    precision,
    recomputation,
    replayed,
    saving,
    script_arithmetic,
    script_evaluation,
    script_rates,
    script_saving,
    script_steps,
    script_training,
    shares,
    steps,
    storages,
    ties,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.verify.check import AnyRun, ObservedRun, ScriptRun, SmallRun, Verify

# Of any engine whose ranks hold shares of one model.
_OF_SHARES: tuple[Verify[ObservedRun], ...] = (
    shares.stage,
    shares.sharding,
    groups.secondary_partitions,
    shares.persistence,
    storages.memory,
    offload.offload,
    offload.placement,
    precision.dtypes,
    precision.loss,
    precision.overflow,
    precision.loss_scale,
)
OF_SMALL_RUNS: tuple[Verify[SmallRun], ...] = (
    *_OF_SHARES,
    loss_scales.whole_course,
    steps.batch,
    steps.learning_rates,
    steps.clipping,
    arithmetic.arithmetic,
    recomputation.recomputation,
    frozen.frozen,
    saving.resume,
    saving.export,
    ties.tied_weights,
    saving.recovery,
    generation.generate,
    keys.keys,
)


# Of the user's own script: what depends on its model and data is not compared with a small model.
OF_SCRIPTS: tuple[Verify[ScriptRun], ...] = (
    *_OF_SHARES,
    loss_scales.course,
    script_steps.batch,
    script_steps.samples,
    script_rates.learning_rates,
    steps.clipping,
    script_arithmetic.arithmetic,
    script_training.training,
    recomputation.recomputation,
    frozen.frozen,
    replayed.resume,
    script_saving.export,
    ties.tied_weights,
    saving.recovery,
    keys.keys,
)
# Of those, what can be checked if ranks have parts of a model: a rank holds parameters that others do not have.
OF_PIPELINES: tuple[Verify[ScriptRun], ...] = (
    shares.stage,
    parts.sharding,
    precision.dtypes,
    precision.loss,
    precision.overflow,
    script_steps.batch,
    script_rates.learning_rates,
    script_arithmetic.of_parts,
    replayed.resume,
    script_saving.export,
    script_saving.recovery_of_slices,
    keys.keys,
)


# Of an engine that makes no step.
OF_UNTRAINED: tuple[Verify[ScriptRun], ...] = (shares.stage, shares.untrained, precision.dtypes, keys.keys)


def verify(properties: tuple[Verify[AnyRun], ...], expectation: Expectation, run: AnyRun) -> list[Check]:
    """The checks of these properties, and the keys that the config asks for and none of them is about."""
    checks = [check for property_ in properties for check in property_(expectation, run)]
    return [*checks, *coverage.unverified(expectation, run.mode, checks)]


def verify_script(expectation: Expectation, run: ScriptRun) -> list[Check]:
    """The checks of an engine of the user's own script."""
    if not run.ranks[0].is_trained:
        return [check for property_ in OF_UNTRAINED for check in property_(expectation, run)]
    has_parts = run.is_pipeline or run.data_parallel != run.world_size
    return verify(OF_PIPELINES if has_parts else OF_SCRIPTS, expectation, run)


def verify_evaluation(
    expectation: Expectation, run: ScriptRun, sources: Mapping[str, script_evaluation.Source]
) -> list[Check]:
    """The checks of an engine with which a script evaluates, and trains nothing."""
    own = list(script_evaluation.evaluation(expectation, run, sources))
    if run.train[0].engine is None:  # of ``init_inference``, which has a config of its own
        return own
    properties = (shares.stage, precision.dtypes, script_evaluation.offload, keys.keys)
    return [*(check for property_ in properties for check in property_(expectation, run)), *own]
