"""The training run of one file for ``accelerate launch`` that asks for FSDP: planned, run, and checked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.verdict import CPU, CUDA, Adaptation, Check, Verdict, worst
from ds_lint.output.text import counted
from ds_lint.smoke.expected.fsdp_expectation import OTHER_DEGREES, REPLICAS, SHARDS, FsdpExpectation, launch_of
from ds_lint.smoke.expected.fsdp_units import BY_LAYER, BY_SIZE
from ds_lint.smoke.expected.roundoff import OF_DTYPES
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.records.failure import Failure, failure, key_of, rank_ends, worst_ends
from ds_lint.smoke.records.fsdp import FSDP1, FsdpJob, FsdpSaved
from ds_lint.smoke.records.job import (
    EXPORT,
    REFERENCE,
    RESUME,
    WORLD,
    Evidence,
    Exported,
    Job,
    ReferencePlan,
    UpdateRule,
)
from ds_lint.smoke.small_run import fsdp_world, parts
from ds_lint.smoke.small_run.options import STEPS, STEPS_AFTER
from ds_lint.smoke.verify.fsdp import verify
from ds_lint.smoke.verify.fsdp_run import ShardedRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.messages import Ended
    from ds_lint.smoke.small_run.options import Runner, RunOptions

_LAYERS = ("LlamaDecoderLayer",)  # of the model without --model
_BATCH = 2, 2  # samples of a micro step, and micro steps
_LEAST = 8000  # elements of a unit of the small model, whose layers have more


class FsdpPlan:
    """One file on its way through the parts of a run."""

    def __init__(self, config: Config, options: RunOptions, folder: str) -> None:
        launch = launch_of(config)
        assert launch is not None  # noqa: S101 - expectation before
        self.config, self.options, self.folder = config, options, folder
        self.began = time.monotonic()
        self.expectation = FsdpExpectation(launch, options.ranks)
        self.adaptations: list[Adaptation] = []
        self.ended: list[Ended] = []
        self.job = Job(
            text=config.document.content.removeprefix("\ufeff"),
            stack="accelerate",
            folder=folder,
            model=config.facts.model.config if config.facts.model is not None else None,
            world_size=options.ranks,
            mode=options.mode,
            steps=STEPS,
            steps_after=STEPS_AFTER,
            seconds=options.seconds,
            fsdp=self._settings(),
        )
        self.job.plan = self._reference()

    def part(self, part: str) -> Job:
        """The job of another part."""
        return self.job.but(part=part)

    def _settings(self) -> FsdpJob:
        """What the parts need, with the arguments by which the run adapts the launch."""
        expectation, ranks = self.expectation, self.options.ranks
        self._note("num_processes", expectation.launch.value("num_processes"), ranks, "the ranks of this run")
        self._note(
            "num_machines", expectation.launch.value("num_machines"), 1, "the ranks of this run are on one machine"
        )
        least = expectation.least_elements if expectation.policy == BY_SIZE else 0
        if least > _LEAST and expectation.version == FSDP1:  # version 2 refuses lists of layers that are large enough
            self._note("fsdp_min_num_params", least, _LEAST, "all modules of a small model are smaller")
            least = _LEAST
        if expectation.compiler is not None:
            self._note("dynamo_backend", expectation.compiler, "no", "the run starts no compiler")
        layers = expectation.layers
        if layers and expectation.policy == BY_LAYER and self.config.facts.model is None and layers != _LAYERS:
            why = "the model of the run is a small Llama; --model gives it the layers of yours"
            self._note("fsdp_transformer_layer_cls_to_wrap", ",".join(layers), ",".join(_LAYERS), why)
            layers = _LAYERS
        compute = expectation.compute_dtype
        samples, micro_steps = self.options.batch or _BATCH
        found = FsdpJob(
            version=expectation.version,
            launch=expectation.arguments(layers, least),
            compute_dtype=compute,
            casts_buffers=expectation.version == FSDP1 and compute is not None,
            autocasts=compute == "bfloat16",
            keeps_original=expectation.keeps_original,
            batch_size=samples,
            accumulation_steps=micro_steps,
            shard_ranks=expectation.shard_ranks,
            ranks_of_node=expectation.ranks_of_node,
            syncs=expectation.syncs,
            policy=expectation.policy,
            layers=layers,
            least_elements=least,
        )
        words = (
            f"Accelerator(gradient_accumulation_steps={found.accumulation_steps}), "
            f"DataLoader(batch_size={found.batch_size}), AdamW(lr={found.rate:g}, "
            f"weight_decay={found.weight_decay:g}), clip_grad_norm_({found.clipping:g})"
        )
        is_trainers = self.config.facts.training is not None
        why = "the run has its own script with Accelerate" + (", in place of the Trainer" if is_trainers else "")
        self.adaptations.append(Adaptation(None, "your script", words, why))
        if expectation.ranks_of_node != self.options.ranks:
            why = "a hybrid strategy shards within a node, and the ranks of this run stand for two"
            self.adaptations.append(
                Adaptation(expectation.strategy_key, None, f"2 nodes of {expectation.ranks_of_node} ranks", why)
            )
        return found

    def _note(self, name: str, before: Any, after: Any, why: str) -> None:
        setting = self.expectation.launch.setting(name)
        if setting.path is not None and before != after:
            self.adaptations.append(Adaptation(".".join(map(str, setting.path)), before, after, why))

    def _reference(self) -> ReferencePlan:
        """What the reference run needs: the documented AdamW of torch, and the roundoff of what adds up gradients."""
        fsdp = self.job.fsdp
        assert fsdp is not None  # noqa: S101 - made above
        roundoff, smallest = OF_DTYPES[fsdp.compute_dtype or "float32"]
        rule = UpdateRule("AdamW", "adam", fsdp.weight_decay, (0.9, 0.999), 1e-8, is_decoupled=True)
        return ReferencePlan(
            rule,
            fsdp.clipping,
            roundoff,
            smallest,
            micro_batch=fsdp.batch_size,
            windows=fsdp.accumulation_steps,
            buffer_dtype=fsdp.compute_dtype if fsdp.casts_buffers else None,
            repeats_passes=False,
        )


def prove(
    pool: Runner, config: Config, options: RunOptions, folder: str, on_phase: Callable[[str, str], None] | None
) -> list[Verdict]:
    """Train with a file that asks for FSDP, and report the result; GPUs beside CPU ranks are left alone."""
    plan = FsdpPlan(config, options, folder)
    if options.mode == CUDA and not options.simulates:
        return []  # there is a run on CPU ranks
    if (obstacle := _obstacle(plan)) is not None:
        return [_verdict(pool, plan, [], status="error", error=obstacle)]
    try:
        (trained,) = pool.run([plan.job], on_phase)
        plan.ended.append(trained)
        failed = failure(plan.job, trained)
        if failed is not None:
            return [_failed(pool, plan, failed)]
        beside = [plan.part(RESUME), plan.part(EXPORT), plan.part(REFERENCE)]
        world = _world(plan, trained)
        resumed, saved, repeated, *simulated = pool.run([*beside, *([world.job] if world else [])], on_phase)
    except CouldNotRun as error:
        return [_verdict(pool, plan, [], status="error", error=str(error), log=pool.keep_log(folder))]
    plan.ended += [resumed, saved]
    assert plan.job.fsdp is not None  # noqa: S101 - made above
    run = ShardedRun(
        plan.job.fsdp,
        trained.seen,
        STEPS,
        STEPS_AFTER,
        parts.resumed(plan.part(RESUME), resumed),
        _saved_model(parts.saved(plan.part(EXPORT), saved)),
        parts.repeated(plan.part(REFERENCE), repeated),
    )
    checks = verify(plan.expectation, run)
    verdicts = []
    if world is not None and any(one.lacks_fake_group for one in simulated[0].seen):
        checks.append(parts.not_simulated(world.ranks))
    elif world is not None:
        verdicts.append(_verdict_on_world(pool, plan, world, simulated[0]))
    status = worst([check.status for check in checks])
    has_stopped = status == "error" or isinstance(run.resumed, Failure) or isinstance(run.exported, str)
    log = pool.keep_log(folder) if has_stopped else None
    return [_verdict(pool, plan, checks, status=status, log=log), *verdicts]


def _world(plan: FsdpPlan, trained: Ended) -> fsdp_world.FsdpWorld | None:
    """The user's real world size, if it is known and larger than the run."""
    launch = plan.expectation.launch
    ranks = fsdp_world.real_ranks(plan.config, launch)
    if not plan.options.simulates or ranks is None or ranks <= plan.options.ranks:
        return None
    there = fsdp_world.expectation_of(plan.config, launch, ranks)
    fsdp = plan.job.fsdp
    assert fsdp is not None  # noqa: S101 - made above
    layers, least = fsdp.layers, fsdp.least_elements
    if plan.job.model is not None:  # the user's own, in its full size, for which nothing has to be adapted
        layers, least = there.layers, there.least_elements if there.policy == BY_SIZE else 0
    simulated = fsdp.but(
        launch=there.arguments(layers, least), layers=layers, least_elements=least, ranks_of_node=there.ranks_of_node
    )
    return fsdp_world.world_of(plan.part(WORLD).but(fsdp=simulated), there, trained.seen[0])


def _verdict_on_world(pool: Runner, plan: FsdpPlan, world: fsdp_world.FsdpWorld, ended: Ended) -> Verdict:
    """The verdict on the world that was simulated."""
    failed, seen = failure(world.job, ended), ended.seen
    root = plan.config.document.root
    key = key_of(failed, root) if failed is not None and root is not None else None
    refusal = fsdp_world.refused(world, failed, key) if failed is not None else None
    error = failed.message if failed is not None and refusal is None else None
    checks = [refusal] if refusal is not None else [] if error is not None else fsdp_world.verify(world, seen)
    is_held = failed is None and world.job.model is not None
    return Verdict(
        path=plan.config.document.path,
        stack="accelerate",
        mode=world.job.mode,
        world_size=world.ranks,
        status="error" if error is not None else worst([check.status for check in checks]),
        adaptations=[],
        checks=checks,
        ranks=rank_ends(ended),
        seconds=sum(seen[0].seconds.values()) if seen else 0.0,
        model=seen[0].model if seen else "",
        parameter_count=sum(one.elements for one in seen[0].parameters) if seen else 0,
        held=[fsdp_world.held_of(world, seen[0])] if is_held else [],
        versions=pool.known_versions,
        error=error,
        log=pool.keep_log(plan.folder) if failed is not None else None,
        strategy=plan.expectation.version,
    )


def _obstacle(plan: FsdpPlan) -> str | None:
    """Why a file cannot run; None if it can."""
    expectation = plan.expectation
    if plan.options.mode != CPU:
        return "a run with FSDP needs CPU ranks: pass --smoke-device cpu"
    if plan.options.has_adapters:
        return "--smoke-lora has no run with FSDP"
    if plan.config.document.language != "yaml":
        return "a run with FSDP needs the settings in a YAML file"
    if expectation.plugin.version not in (1, 2) or not expectation.plugin.is_known:
        return "the version of FSDP is not known"
    if expectation.has_degrees:
        apart = next((name for name in OTHER_DEGREES if expectation.degree(name) > 1), None)
        if apart is not None:
            without = "a run with FSDP has no tensor, context or sequence parallelism"
            return f"{without}, and `{apart}` is {expectation.degree(apart)}"
        ranks, here = expectation.degree(REPLICAS) * expectation.degree(SHARDS), plan.options.ranks
        if ranks != here:
            divided = counted(ranks, "rank")
            return f"parallelism_config divides {divided}, but the run has {here}: pass --smoke-ranks {ranks}"
    precision = str(expectation.launch.value("mixed_precision")).lower()
    if precision == "fp8":
        return "fp8 needs a GPU"
    return None


def _saved_model(found: Evidence | str) -> tuple[Exported, FsdpSaved] | str:
    if isinstance(found, str):
        return found
    assert found.exported is not None and found.fsdp_saved is not None  # noqa: PT018, S101 - the part has finished
    return found.exported, found.fsdp_saved


def _failed(pool: Runner, plan: FsdpPlan, failed: Failure) -> Verdict:
    """The verdict on a run that failed: the libraries reject the file, or this machine cannot run it."""
    log = pool.keep_log(plan.folder)
    if failed.stage is None:
        return _verdict(pool, plan, [], status="error", error=failed.message, log=log)
    root = plan.config.document.root
    check = parts.rejected(failed, key_of(failed, root) if root is not None else None)
    return _verdict(pool, plan, [check], status="fail", log=log)


def _verdict(
    pool: Runner,
    plan: FsdpPlan,
    checks: list[Check],
    *,
    status: str,
    error: str | None = None,
    log: str | None = None,
) -> Verdict:
    trained = plan.ended[0].seen if plan.ended else []
    first = trained[0] if trained else None
    return Verdict(
        path=plan.config.document.path,
        stack="accelerate",
        mode=plan.job.mode,
        world_size=plan.job.world_size,
        status=status,
        adaptations=plan.adaptations,
        checks=checks,
        ranks=worst_ends(plan.ended),
        seconds=time.monotonic() - plan.began,
        model=first.model if first else "",
        parameter_count=sum(one.elements for one in first.parameters) if first else 0,
        steps=first.steps if first else [],
        held=[one.held for one in trained],
        versions=pool.known_versions,
        error=error,
        log=log,
        strategy=plan.expectation.version,
    )
