"""The training run of one config: planned, run, and checked."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from importlib.metadata import version
from shlex import quote
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE, Adaptation, Check, Verdict, worst
from ds_lint.smoke.expected.adaptation import Changes, adapt, fits, generation_edits
from ds_lint.smoke.expected.documented_optimizer import NoReference
from ds_lint.smoke.expected.expectation import ZERO, ranks_of_a_copy
from ds_lint.smoke.expected.fsdp_expectation import launch_of
from ds_lint.smoke.expected.reference_plan import planned
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.processes.kept_files import keep
from ds_lint.smoke.records.failure import Failure, failure, key_of, rank_ends, worst_ends
from ds_lint.smoke.records.job import (
    EXPORT,
    GENERATE,
    RECORDINGS,
    REFERENCE,
    RESUME,
    SCALING,
    Evidence,
    Job,
    keeps_frozen,
)
from ds_lint.smoke.small_run import fsdp_proof, parts, real_world
from ds_lint.smoke.small_run.options import STEPS, STEPS_AFTER
from ds_lint.smoke.small_run.run_plan import RunPlan, config_of, expectation_of, obstacle_of, of_world, stack_of
from ds_lint.smoke.verify import OF_SMALL_RUNS, verify
from ds_lint.smoke.verify.check import SmallRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts import Facts
    from ds_lint.knowledge.keys import Target
    from ds_lint.smoke.records.job import Reference
    from ds_lint.smoke.records.messages import Ended
    from ds_lint.smoke.small_run.options import Runner, RunOptions
    from ds_lint.source.document import Document

_GENERATING, _TIMES = 15.0, 4.0  # seconds, and so many times those of the training
PEFT = "peft"  # which makes the adapters of --smoke-lora


def prove(
    pool: Runner,
    document: Document,
    *,
    stack: Stack | None,
    facts: Facts,
    target: Target,
    options: RunOptions,
    on_phase: Callable[[str, str], None] | None = None,
) -> list[Verdict]:
    """Train with the config of a document, and report the result.

    A second verdict is about the user's real world size, if it is known and larger than the run.
    """
    folder = tempfile.mkdtemp(dir=pool.folder)
    try:
        stack = stack or stack_of(document, target, facts)
        config = config_of(document, stack, target, facts)
        if options.is_real_world and facts.world_size is None:
            there = config_of(document, stack, target, of_world(facts, options.ranks))
            config = there if fits(there, options.ranks) else config
        if launch_of(config) is not None:
            verdicts = fsdp_proof.prove(pool, config, options, folder, on_phase)
        else:
            verdicts = _prove(pool, RunPlan(config, options, folder), on_phase)
        shutil.rmtree(os.path.join(folder, RECORDINGS), ignore_errors=True)
        if options.keep is not None:
            keep(folder, options.keep, document.path)
        return verdicts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _prove(pool: Runner, run: RunPlan, on_phase: Callable[[str, str], None] | None) -> list[Verdict]:
    if (obstacle := obstacle_of(run)) is not None:
        return [_verdict(pool, run, [], status="error", error=obstacle)]
    try:
        (trained,) = pool.run([run.job], on_phase)
        run.ended.append(trained)
        failed = failure(run.job, trained)
        if failed is not None:
            return [_failed(pool, run, failed)]
        plan = planned(run.expectation, run.job)
        if not isinstance(plan, NoReference):
            run.job.plan = plan
        world, generating = _world(run, trained), _generating(run, trained.seen[0])
        repeating = None if isinstance(plan, NoReference) else run.part(REFERENCE)
        beside = [job for job in (repeating, generating, world.job if world else None) if job is not None]
    except CouldNotRun as error:
        return [_verdict(pool, run, [], status="error", error=str(error), log=pool.keep_log(run.folder))]
    try:
        resumed, saved, *others = pool.run([_resuming(run), run.part(EXPORT), *beside], on_phase)
    except CouldNotRun as error:
        return [_cut_short(pool, run, trained, str(error))]
    run.ended += [resumed, saved]
    reference = plan if isinstance(plan, NoReference) else parts.repeated(run.part(REFERENCE), others.pop(0))
    observed = _observed(run, trained, resumed, saved, reference)
    if generating is not None:
        generated = others.pop(0)
        observed.generation = generated, failure(generating, generated)
    checks = [*_of_locks(pool, run, observed.train), *verify(OF_SMALL_RUNS, run.expectation, observed)]
    verdicts = []
    if world is not None and any(evidence.lacks_fake_group for evidence in others[0].seen):
        checks.append(parts.not_simulated(world.ranks))
    elif world is not None:
        verdicts.append(_verdict_on_world(pool, run, world, others[0]))
    status = worst([check.status for check in checks])
    has_stopped = status == "error" or isinstance(observed.resumed, Failure) or isinstance(observed.exported, str)
    log = pool.keep_log(run.folder) if has_stopped else None
    return [_verdict(pool, run, checks, status=status, log=log), *verdicts]


def _cut_short(pool: Runner, run: RunPlan, trained: Ended, why: str) -> Verdict:
    """The verdict on a training whose saved files no process could look at: what failed in it counts all the same."""
    observed = _observed(run, trained, why, why, Failure(why, None, 0, None))
    checks = verify(OF_SMALL_RUNS, run.expectation, observed)
    return _verdict(pool, run, checks, status=worst([check.status for check in checks]), log=pool.keep_log(run.folder))


def _resuming(run: RunPlan) -> Job:
    """The job that resumes: it begins with other frozen weights if the checkpoint is to bring them back.

    With hpZ it does not: the ranks keep the secondary partitions of frozen weights, because
    ``invalidate_secondary_tensor`` in deepspeed/runtime/zero/stage3.py drops those of trained weights only.
    """
    keeps_second_copies = (run.expectation.number(ZERO, "zero_hpz_partition_size") or 1) > 1
    saves_frozen = keeps_frozen(run.job.stack, has_adapters=run.job.has_adapters)
    has_others = run.job.has_adapters and saves_frozen and not keeps_second_copies
    return run.part(RESUME).but(has_other_weights=has_others)


def _generating(run: RunPlan, trained: Evidence) -> Job | None:
    """The job of ``generate``, if ranks share the weights of a model that has it; a hang should not take minutes."""
    is_sharded = trained.engine is not None and trained.engine.stage == 3 and run.options.ranks > 1
    if not is_sharded or not trained.can_generate or ranks_of_a_copy(run.expectation.final) > 1:
        return None
    seconds = run.job.seconds
    if run.job.mode == CPU:  # without imports, and with fewer steps than the training
        seconds = min(seconds, _GENERATING + _TIMES * sum(trained.seconds.values()))
    edits = generation_edits(run.config, run.changes)
    return run.part(GENERATE).but(seconds=seconds, edits=[*run.job.edits, *edits])


def _of_locks(pool: Runner, run: RunPlan, trained: list[Evidence]) -> list[Check]:
    """Failed checks of ops that the script will build and this run replaced, if a lock stops every build."""
    key = run.expectation.key("optimizer", "type")
    left = pool.abandoned_locks
    return [
        Check(
            "start",
            "fail",
            key,
            "an op that can be built",
            "initialize",
            None,
            f"a killed build of DeepSpeed's op {op} left {left[op]}, so a script that builds the op waits forever",
            f"Remove the lock: rm {quote(left[op])}",
        )
        for op in sorted({op for one in trained for op in one.stand_ins} & left.keys())
    ]


def _world(run: RunPlan, trained: Ended) -> real_world.World | None:
    """The user's real world size, if it is known and larger than the run."""
    ranks = run.config.world_size
    if not run.options.simulates or ranks is None or ranks <= run.options.ranks:
        return None
    changes = adapt(run.config, run.folder, ranks=ranks, mode=FAKE, steps=STEPS + STEPS_AFTER)
    return real_world.world_of(run.job, expectation_of(run.config, changes, ranks), changes, trained.seen[0], ranks)


def _verdict_on_world(pool: Runner, run: RunPlan, world: real_world.World, ended: Ended) -> Verdict:
    """The verdict on the world that was simulated."""
    failed, seen = failure(world.job, ended), ended.seen
    refusal = real_world.refused(world, failed) if failed is not None else None
    error = failed.message if failed is not None and refusal is None else None
    checks = [refusal] if refusal is not None else [] if error is not None else real_world.verify(world, seen)
    full = seen[0].full_size if seen else None
    parameters = full.parameters if full is not None else seen[0].parameters if seen else []
    return Verdict(
        path=run.config.document.path,
        stack=run.job.stack,
        mode=world.job.mode,
        world_size=world.ranks,
        status="error" if error is not None else worst([check.status for check in checks]),
        adaptations=world.adaptations,
        checks=checks,
        ranks=rank_ends(ended),
        seconds=sum(seen[0].seconds.values()) if seen else 0.0,
        model=seen[0].model if seen else "",
        parameter_count=sum(parameter.elements for parameter in parameters),
        held=[real_world.by_formula(world, full)] if full is not None and failed is None else [],
        versions=pool.known_versions,
        error=error,
        log=pool.keep_log(run.folder) if failed is not None else None,
        place=place_of(run.config.document),
    )


def _observed(
    run: RunPlan,
    trained: Ended,
    resumed: Ended | str,
    saved: Ended | str,
    reference: Reference | NoReference | Failure,
) -> SmallRun:
    """What the parts of the run show; of a part that was not made, why."""
    found = saved if isinstance(saved, str) else parts.saved(run.part(EXPORT), saved)
    shapes = None if isinstance(found, str) else found.real_shapes
    exported = found if isinstance(found, str) else found.exported
    assert exported is not None  # noqa: S101 - a rank that has finished this part has it
    real = run.config.world_size
    return SmallRun(
        train=trained.seen,
        mode=run.job.mode,
        steps=run.job.steps,
        steps_after=run.job.steps_after,
        exported=exported,
        real_shapes="this check needs the shapes of your model: pass --model" if shapes is None else shapes,
        has_adapters=run.job.has_adapters,
        adapted=run.changes.adapted,
        resumed=Failure(resumed, None, 0, None)
        if isinstance(resumed, str)
        else parts.resumed(run.part(RESUME), resumed),
        reference=reference,
        real_ranks=real,
        real_batch=expectation_of(run.config, Changes(), real).batch(real) if real else None,
        accelerate_script=run.job.script,
        overflows=run.job.overflows,
    )


def _failed(pool: Runner, run: RunPlan, failed: Failure) -> Verdict:
    """The verdict on a run that failed: the libraries reject the config, or this machine cannot run it."""
    log = pool.keep_log(run.folder)
    if any(end.phase == SCALING and (end.exit == "timeout" or end.error == "SIGABRT") for end in run.ended[0].ends):
        key = run.expectation.key("fp16")
        what = "after the training, a gradient overflows on one rank, and the ranks do not go on together"
        apart = Check(
            "loss-scale", "fail", key, "the same steps on every rank", None, None, f"{what}: {failed.message}"
        )
        return _verdict(pool, run, [apart], status="fail", log=log)
    if failed.stage is None:
        return _verdict(pool, run, [], status="error", error=failed.message, log=log)
    check = parts.rejected(failed, key_of(failed, run.config.written))
    return _verdict(pool, run, [check], status="fail", log=log)


def _verdict(
    pool: Runner, run: RunPlan, checks: list[Check], *, status: str, error: str | None = None, log: str | None = None
) -> Verdict:
    trained = run.ended[0].seen if run.ended else []
    first = trained[0] if trained else None
    stand_ins = [
        Adaptation(None, name, "torch operations", "the run does not build its kernel; --smoke-build-ops builds it")
        for name in sorted({op for one in trained for op in one.stand_ins})
    ]
    return Verdict(
        path=run.config.document.path,
        stack=run.job.stack,
        mode=run.job.mode,
        world_size=run.job.world_size,
        status=status,
        adaptations=[*run.changes.adaptations, *stand_ins],
        checks=checks,
        ranks=worst_ends(run.ended),
        nodes=pool.nodes(log),
        seconds=time.monotonic() - run.began,
        model=first.model if first else "",
        parameter_count=sum(parameter.elements for parameter in first.parameters) if first else 0,
        steps=first.steps if first else [],
        held=[one.held for one in trained],
        versions=pool.known_versions | ({PEFT: version(PEFT)} if run.options.has_adapters else {}),
        error=error,
        log=log,
        peak_bytes=[one.peak_bytes for one in trained] if run.job.mode == CUDA else [],
        place=place_of(run.config.document),
    )


def place_of(document: Document) -> str | None:
    """Where a config begins in a file that may hold several; None where the file is the config."""
    if document.language in ("json", "yaml") or document.root is None:
        return None
    return document.shown_place(document.root.span.start)
