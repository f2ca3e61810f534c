"""The training run of one config: planned, run, and checked."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from importlib.metadata import version
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE, Adaptation, Check, RankEnd, Verdict, worst
from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.knowledge.keys import knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.smoke.expected.adaptation import Changes, adapt, fits, generation_edits, of_adapters
from ds_lint.smoke.expected.assumed_arguments import with_matching_arguments
from ds_lint.smoke.expected.documented_optimizer import NoReference
from ds_lint.smoke.expected.expectation import ZERO, Expectation, ranks_of_a_copy, with_meant_names
from ds_lint.smoke.expected.fsdp_expectation import launch_of
from ds_lint.smoke.expected.loss_scale_rule import provoked
from ds_lint.smoke.expected.reference_plan import planned
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.processes.kept_files import keep
from ds_lint.smoke.rank.loaded_config import apply
from ds_lint.smoke.records import accelerate_script
from ds_lint.smoke.records.failure import Failure, failure, key_of, rank_ends
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
from ds_lint.smoke.records.small_model import SWAPPED, TINY, Sizes
from ds_lint.smoke.small_run import fsdp_proof, real_world
from ds_lint.smoke.small_run.fsdp_proof import FsdpOptions
from ds_lint.smoke.verify import OF_SMALL_RUNS, verify
from ds_lint.smoke.verify.check import SmallRun
from ds_lint.source.tree import plain, walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.keys import Target
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.processes.client import Pool
    from ds_lint.smoke.records.job import Exported, Reference, TrainingFields
    from ds_lint.smoke.records.messages import Ended
    from ds_lint.smoke.small_run.ranks import LaunchedRanks
    from ds_lint.source.document import Document

    Runner = Pool | LaunchedRanks  # what starts the ranks of a run
STEPS, STEPS_AFTER = 3, 2
RANKS = 2
MOST_RANKS = 64  # that are reasonable on one machine
SECONDS = 120.0  # for each part of a run
_GENERATING, _TIMES = 15.0, 4.0  # seconds, and so many times those of the training
BUILDING = 1200.0  # more if ops are compiled
PEFT = "peft"  # which makes the adapters of --smoke-lora


class RunOptions(NamedTuple):
    """The options of runs."""

    ranks: int = RANKS
    seconds: float = SECONDS
    builds_ops: bool = False
    keep: str | None = None  # a folder in which to keep everything
    mode: str = CPU
    is_real_world: bool = False  # a launcher started the ranks, as many as the user has
    simulates: bool = True  # the user's real world size, if it is larger
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them
    about_gpus: str | None = None  # a sentence on those that the run does not use
    shared_gpu: str | None = None  # what carries the collectives of ranks that share one GPU
    has_adapters: bool = False  # of LoRA: the model itself is frozen
    batch: tuple[int, int] | None = None  # samples and micro steps of a loop with FSDP; None: two of two


class _Run:
    """One config on its way through the parts of a run."""

    def __init__(self, config: Config, options: RunOptions, folder: str) -> None:
        self.config = config
        self.options = options
        self.folder = folder
        self.began = time.monotonic()
        self.changes = adapt(
            config,
            folder,
            ranks=options.ranks,
            mode=options.mode,
            steps=STEPS + STEPS_AFTER,
            is_real_world=options.is_real_world,
        )
        if options.about_gpus is not None:
            self.changes.adaptations.append(Adaptation(None, None, None, options.about_gpus))
        self.expectation = _expectation(config, self.changes, options.ranks)
        sizes = _sizes(self.expectation)
        if options.has_adapters:
            self.changes.adaptations.append(of_adapters(sizes))
        self.optimizer = self.expectation.optimizer_of_script if config.stack == "deepspeed" else None
        if self.optimizer is not None:
            why = "the config sets no optimizer, so the script provides it"
            self.changes.adaptations.append(Adaptation(None, "the script's optimizer", self.optimizer, why))
        self.job = Job(
            text=_text(config),
            is_dict=config.document.is_dict,
            stack=config.stack or "deepspeed",
            folder=folder,
            model=config.facts.model.config if config.facts.model is not None else None,
            sizes=sizes,
            has_adapters=options.has_adapters,
            world_size=options.ranks,
            mode=options.mode,
            gpus=options.gpus,
            shared_gpu=options.shared_gpu,
            ranks_of_node=1 if options.shared_gpu is not None else None,
            edits=self.changes.edits,
            training=self.changes.training,
            steps=STEPS,
            steps_after=STEPS_AFTER,
            builds_ops=options.builds_ops,
            optimizer=self.optimizer,
            script=self.changes.script,
            seconds=options.seconds + (BUILDING if options.builds_ops else 0.0),
            overflows=_overflows(self.expectation),
        )
        self.ended: list[Ended] = []

    def part(self, part: str) -> Job:
        """The job of another part."""
        return self.job.but(part=part)


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
        stack = stack or _stack(document, target, facts)
        config = _config(document, stack, target, facts)
        if options.is_real_world and facts.world_size is None:
            there = _config(document, stack, target, _of_world(facts, options.ranks))
            config = there if fits(there, options.ranks) else config
        if launch_of(config) is not None:
            of_fsdp = FsdpOptions(
                options.ranks,
                options.seconds,
                options.mode,
                is_alone=options.simulates,
                has_adapters=options.has_adapters,
                batch=options.batch,
            )
            verdicts = fsdp_proof.prove(pool, config, of_fsdp, folder, on_phase)
        else:
            verdicts = _prove(pool, _Run(config, options, folder), on_phase)
        shutil.rmtree(os.path.join(folder, RECORDINGS), ignore_errors=True)
        if options.keep is not None:
            keep(folder, options.keep, document.path)
        return verdicts
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _config(document: Document, stack: Stack, target: Target, facts: Facts) -> Config:
    """The config of a document; for the Trainer, with arguments that match it if none are given."""
    config = configs.from_document(document, Basis(knowledge(target), stack, facts))
    return with_matching_arguments(config) if facts.training is None and config.stack == "trainer" else config


def _prove(pool: Runner, run: _Run, on_phase: Callable[[str, str], None] | None) -> list[Verdict]:
    if (obstacle := _obstacle(run)) is not None:
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
        world, generating = _world(run, trained), _generating(run, _all(trained)[0])
        repeating = None if isinstance(plan, NoReference) else run.part(REFERENCE)
        beside = [job for job in (repeating, generating, world.job if world else None) if job is not None]
    except CouldNotRun as error:
        return [_verdict(pool, run, [], status="error", error=str(error), log=pool.keep_log(run.folder))]
    try:
        resumed, saved, *others = pool.run([_resuming(run), run.part(EXPORT), *beside], on_phase)
    except CouldNotRun as error:
        return [_cut_short(pool, run, trained, str(error))]
    run.ended += [resumed, saved]
    reference = plan if isinstance(plan, NoReference) else _reference(run, others.pop(0))
    observed = _observed(run, trained, resumed, saved, reference)
    if generating is not None:
        generated = others.pop(0)
        observed.generation = generated, failure(generating, generated)
    checks = [*_of_locks(pool, run, observed.train), *verify(OF_SMALL_RUNS, run.expectation, observed)]
    verdicts = []
    if world is not None and any(evidence.lacks_fake_group for evidence in _all(others[0])):
        checks.append(real_world.not_simulated(world))
    elif world is not None:
        verdicts.append(_verdict_on_world(pool, run, world, others[0]))
    status = _status(checks)
    has_stopped = status == "error" or isinstance(observed.resumed, Failure) or isinstance(observed.exported, str)
    log = pool.keep_log(run.folder) if has_stopped else None
    return [_verdict(pool, run, checks, status=status, log=log), *verdicts]


def _cut_short(pool: Runner, run: _Run, trained: Ended, why: str) -> Verdict:
    """The verdict on a training whose saved files no process could look at: what failed in it counts all the same."""
    observed = _observed(run, trained, why, why, Failure(why, None, 0, None))
    checks = verify(OF_SMALL_RUNS, run.expectation, observed)
    return _verdict(pool, run, checks, status=_status(checks), log=pool.keep_log(run.folder))


def _resuming(run: _Run) -> Job:
    """The job that resumes: it begins with other frozen weights if the checkpoint is to bring them back.

    With hpZ it does not: the ranks keep the secondary partitions of frozen weights, because
    ``invalidate_secondary_tensor`` in deepspeed/runtime/zero/stage3.py drops those of trained weights only.
    """
    keeps_second_copies = (run.expectation.number(ZERO, "zero_hpz_partition_size") or 1) > 1
    saves_frozen = keeps_frozen(run.job.stack, has_adapters=run.job.has_adapters)
    has_others = run.job.has_adapters and saves_frozen and not keeps_second_copies
    return run.part(RESUME).but(has_other_weights=has_others)


def _generating(run: _Run, trained: Evidence) -> Job | None:
    """The job of ``generate``, if ranks share the weights of a model that has it; a hang should not take minutes."""
    is_sharded = trained.engine is not None and trained.engine.stage == 3 and run.options.ranks > 1
    if not is_sharded or not trained.can_generate or ranks_of_a_copy(run.expectation.final) > 1:
        return None
    seconds = run.job.seconds
    if run.job.mode == CPU:  # without imports, and with fewer steps than the training
        seconds = min(seconds, _GENERATING + _TIMES * sum(trained.seconds.values()))
    edits = generation_edits(run.config, run.changes)
    return run.part(GENERATE).but(seconds=seconds, edits=[*run.job.edits, *edits])


def _of_locks(pool: Runner, run: _Run, trained: list[Evidence]) -> list[Check]:
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


def _world(run: _Run, trained: Ended) -> real_world.World | None:
    """The user's real world size, if it is known and larger than the run."""
    ranks = run.config.world_size
    if not run.options.simulates or ranks is None or ranks <= run.options.ranks:
        return None
    changes = adapt(run.config, run.folder, ranks=ranks, mode=FAKE, steps=STEPS + STEPS_AFTER)
    return real_world.world_of(run.job, _expectation(run.config, changes, ranks), changes, _all(trained)[0], ranks)


def _verdict_on_world(pool: Runner, run: _Run, world: real_world.World, ended: Ended) -> Verdict:
    """The verdict on the world that was simulated."""
    failed, seen = failure(world.job, ended), _all(ended)
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
        status="error" if error is not None else _status(checks),
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


def _text(config: Config) -> str:
    """The config that the ranks load: a file's own text, or JSON of a dict in a program, a recipe or a plugin.

    A file of any language may be around it: ``content`` is what a here-document or a block becomes.
    """
    document = config.document
    if document.is_dict or document.is_python:
        return json.dumps(plain(config.written))
    return document.content.removeprefix("\ufeff")


def _obstacle(run: _Run) -> str | None:
    """Why a config cannot run at all; None if it can."""
    if run.config.accelerate is not None and run.config.written.kind != "object":
        return "Accelerate makes no DeepSpeed config of this file"
    if run.config.call is not None and run.config.written.kind != "object":
        return f"the call of `{run.config.call.name}` is given a config, which is checked on its own"
    issue = next((one for one in run.config.document.issues if one.kind == "template"), None)
    if issue is not None:
        placeholder = run.config.document.text[issue.span.start : issue.span.end]
        return f"`{placeholder}` is a placeholder: a run needs a config without placeholders"
    unknown = next((member for _, member in walk(run.config.written) if member.value.kind == "template"), None)
    if unknown is not None:
        return f"`{unknown.key}` is computed by the program: a run needs a config whose values are written out"
    if run.config.document.is_fragment:
        return _unknown_keys(run.config.document)
    if run.job.stack == "trainer" and run.config.written.kind == "object" and not run.config.written.members:
        return "the config is empty, so the Trainer trains without DeepSpeed"
    ranks = ranks_of_a_copy(run.expectation.final)
    if run.options.ranks % ranks and ranks <= MOST_RANKS:
        number = run.options.ranks
        return f"{ranks} ranks share each copy of the model, but the run has {number}: pass --smoke-ranks {ranks}"
    return None


def _unknown_keys(document: Document) -> str:
    """Why a config that may have further keys cannot run."""
    if document.language == "markdown":
        return "the text may show a part of the config: a run needs a batch size, a section, and no ellipsis"
    if document.is_python:
        return "the program may add keys to the config: a run needs all of them"
    return "the script may add keys to the config: a run needs all of them"


def _status(checks: list[Check]) -> str:
    return worst([check.status for check in checks])


def _observed(
    run: _Run,
    trained: Ended,
    resumed: Ended | str,
    saved: Ended | str,
    reference: Reference | NoReference | Failure,
) -> SmallRun:
    """What the parts of the run show; of a part that was not made, why."""
    found, real = None if isinstance(saved, str) else saved.evidence[0], run.config.world_size
    shapes = found.real_shapes if found is not None else None
    return SmallRun(
        train=_all(trained),
        mode=run.job.mode,
        steps=run.job.steps,
        steps_after=run.job.steps_after,
        exported=saved if isinstance(saved, str) else _exported(run, saved),
        real_shapes="this check needs the shapes of your model: pass --model" if shapes is None else shapes,
        has_adapters=run.job.has_adapters,
        adapted=run.changes.adapted,
        resumed=_resumed(run, resumed),
        reference=reference,
        real_ranks=real,
        real_batch=_expectation(run.config, Changes(), real).batch(real) if real else None,
        accelerate_script=run.job.script,
        overflows=run.job.overflows,
    )


def _resumed(run: _Run, ended: Ended | str) -> list[Evidence] | Failure:
    """What the ranks that resumed show, or why they do not."""
    if isinstance(ended, str):
        return Failure(ended, None, 0, None)
    return failure(run.part(RESUME), ended) or _all(ended)


def _exported(run: _Run, ended: Ended) -> Exported | str:
    """What is in the saved files, or why it was not read."""
    if (lost := failure(run.part(EXPORT), ended)) is not None:
        return lost.message
    found = _all(ended)[0].exported
    assert found is not None  # noqa: S101 - a rank that has finished this part has it
    return found


def _reference(run: _Run, ended: Ended) -> Reference | Failure:
    """What the reference run found, or why it did not finish."""
    if (stopped := failure(run.part(REFERENCE), ended)) is not None:
        return stopped
    found = _all(ended)[0].reference
    assert found is not None  # noqa: S101 - as above
    return found


def _all(ended: Ended) -> list[Evidence]:
    return [evidence for evidence in ended.evidence if evidence is not None]


def _failed(pool: Runner, run: _Run, failed: Failure) -> Verdict:
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
    check = Check(
        "start",
        "fail",
        key_of(failed, run.config.written),
        "a training run of a few steps",
        failed.stage,
        None,
        f"the run stops: {failed.message}",
        f"The exception comes from {failed.raised.where}." if failed.raised and failed.raised.where else "",
    )
    return _verdict(pool, run, [check], status="fail", log=log)


def _verdict(
    pool: Runner, run: _Run, checks: list[Check], *, status: str, error: str | None = None, log: str | None = None
) -> Verdict:
    trained = _all(run.ended[0]) if run.ended else []
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
        ranks=_worst_ends(run.ended),
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


def _worst_ends(ended: list[Ended]) -> list[RankEnd]:
    """How each rank ended: its first failure in any part, if there is one."""
    found: dict[int, RankEnd] = {}
    for part in ended:
        for end in rank_ends(part):
            if end.rank not in found or found[end.rank].exit == "ok":
                found[end.rank] = end
    return list(found.values())


# ------------------------------------------------------------------------------------------------------------ planning


def _stack(document: Document, target: Target, facts: Facts) -> Stack:
    """The stack of a config if none is given: DeepSpeed itself, if that is possible."""
    if facts.training is not None:
        return "trainer"
    stacks = configs.from_document(document, Basis(knowledge(target), facts=facts)).stacks
    return "deepspeed" if "deepspeed" in stacks else "trainer"


def _of_world(facts: Facts, ranks: int) -> Facts:
    """The same facts with a world size."""
    known = Facts(world_size=ranks, nodes=facts.nodes, training=facts.training)
    known.model = facts.model
    return known


def _expectation(config: Config, changes: Changes, ranks: int) -> Expectation:
    """What the config asks for in a run with these changes."""
    changed, written_as = with_meant_names(config)
    for edit in changes.edits:
        apply(changed, edit)
    if changes.script is not None:
        accelerate_script.fill(changed, changes.script, ranks)
    facts = Facts(world_size=ranks, training=_training(config.facts.training, changes.training))
    facts.model = config.facts.model
    seen = configs.from_document(config.document, config.basis.but(stack=config.stack, facts=facts))
    return Expectation(seen, changed, written_as)


def _training(given: TrainingArguments | None, changed: TrainingFields) -> TrainingArguments | None:
    """The training arguments with the changes of the run."""
    if given is None and not changed:
        return None
    joined = dict(given.given) if given is not None else {}
    for name, value in changed.items():
        if name not in joined or joined[name].value != value:
            joined[name] = Argument(value, "the smoke run")
    return TrainingArguments(joined, given.origin if given is not None else "the smoke run")


def _overflows(expectation: Expectation) -> list[bool]:
    """Which steps after the training are to overflow; none where ranks share a copy of the model."""
    rule, start = expectation.loss_scale_rule, expectation.first_loss_scale
    if rule is None or start is None or ranks_of_a_copy(expectation.final) > 1:
        return []
    return provoked(rule, start, steps=STEPS + STEPS_AFTER)


def _sizes(expectation: Expectation) -> Sizes:
    """The sizes of the model: larger if tensors go to NVMe."""
    places = [
        requested.value
        for requested in (expectation.optimizer_offload, expectation.parameter_offload)
        if requested is not None
    ]
    return SWAPPED if "nvme" in places else TINY
