"""The training run of the user's own script: started twice, read, and checked engine by engine."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CUDA, SCRIPT, Adaptation, Check, RankEnd, ScriptEngine, Verdict, worst
from ds_lint.smoke.expected.documented_optimizer import on_device, rule_of_config
from ds_lint.smoke.journal import areas, register
from ds_lint.smoke.probe.plan import RESTORE, RESUME, TRAIN, Plan
from ds_lint.smoke.processes.client import CouldNotRun, ending_signal, own_folder, undisturbed
from ds_lint.smoke.processes.kept_files import keep
from ds_lint.smoke.processes.leftovers import end_processes_of
from ds_lint.smoke.records.fsdp_inspection import FsdpInspection
from ds_lint.smoke.records.job import UpdateRule
from ds_lint.smoke.script import command_start, elsewhere, ending, evaluated, fsdp_proof
from ds_lint.smoke.script.expectation import expectation_of
from ds_lint.smoke.script.gathering import Gathering
from ds_lint.smoke.script.measurements import measurements
from ds_lint.smoke.script.node_ranks import nodes_of, other_releases
from ds_lint.smoke.script.predictions import is_refusal, seen_run
from ds_lint.smoke.script.processes import processes_in, ranks_of
from ds_lint.smoke.script.restore import finish_dead_runs, put_away
from ds_lint.smoke.script.saved_files import Inspected, SavedFiles
from ds_lint.smoke.verify import verify_evaluation, verify_script
from ds_lint.smoke.verify.check import Repetition, ScriptRun
from ds_lint.smoke.verify.script_steps import CALL_BACKWARD, WITHOUT_BACKWARD

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator, Sequence

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.journal.register import Register
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.script.command_start import CommandEnd
    from ds_lint.smoke.script.gathering import Led, Nodes
    from ds_lint.smoke.script.predictions import SeenRun

STEPS, STEPS_AFTER = 3, 2
SECONDS = 1800.0  # for each start
_TOO_LARGE = "its weights are too large to load"
_SHRUNK = "this check needs the shapes of your model, and --shrink makes it small"


class ScriptRunOptions(NamedTuple):
    """The options of a run of the user's own script."""

    steps: int = STEPS
    resumes: bool = True
    seconds: float = SECONDS
    uses_cpu: bool = False
    shrinks: bool = False
    profiles: bool = False  # the last step, for the share of communication
    keep: str | None = None  # a folder in which to keep everything
    folder: str | None = None  # where the run may write; None: a temporary one
    nodes: Nodes | None = None  # if the user starts ``ds-lint smoke`` on each of several nodes


class Follows(Exception):  # noqa: N818 - another node makes the run
    """What is raised where another node leads; the argument says which."""

    def __init__(self, follower: Led) -> None:
        super().__init__(follower.leader)
        self.follower = follower


class EngineOfConfig(NamedTuple):
    """The engines of one config of the script, which has several if it makes several engines with it."""

    config: Config
    verdict: Verdict
    seen: SeenRun
    is_of_fsdp: bool = False  # a model that FSDP of torch shards, without an engine of DeepSpeed


class WithoutEngine(NamedTuple):
    """A script that comes to no engine; the verdict fails if the libraries reject its config."""

    verdict: Verdict
    seen: SeenRun
    why: str


def prove(
    command: list[str],
    options: ScriptRunOptions,
    config_of: Callable[[EngineTrace], Config],
    on_phase: Callable[[str, str], None] | None = None,
) -> tuple[list[EngineOfConfig], WithoutEngine | None]:
    """Start the command once, or twice to resume, and check each of its engines.

    ``config_of`` gives the config of an engine, as the user wrote it. Without any engine, or if the command fails
    before one is observed to its checkpoint, the second of what is returned says why.
    """
    gathering = Gathering(options.folder or os.curdir, options.nodes) if options.nodes is not None else None
    with contextlib.ExitStack() as stack:
        try:
            if gathering is not None and not gathering.leads():
                raise Follows(gathering.follow())
            folder, runs = _entered(options, stack)
            if gathering is not None:
                _lead(gathering, folder)
        finally:
            if gathering is not None:
                gathering.leave()
        finish_dead_runs(runs)
        return _prove(_StartedCommand(command, options, folder, config_of), runs, on_phase)


def _entered(options: ScriptRunOptions, stack: contextlib.ExitStack) -> tuple[str, Register]:
    """The folder of the run, and the register of the runs that this one is in now."""
    folder = own_folder(options.folder, "--folder")
    areas.note_driver(folder)
    if not register.has_locks(folder):
        shutil.rmtree(folder)
        raise CouldNotRun(f"the file system of {folder} has no file locks: name another folder (--folder)")
    try:
        return folder, stack.enter_context(register.entered(folder))
    except OSError as error:
        shutil.rmtree(folder)
        raise CouldNotRun(f"no file locks in your home, /tmp and {folder}: {error.strerror}") from None


def _prove(
    script: _StartedCommand, runs: Register, on_phase: Callable[[str, str], None] | None
) -> tuple[list[EngineOfConfig], WithoutEngine | None]:
    interrupted, status = "", 2
    try:
        found = script.prove(on_phase or (lambda _part, _phase: None))
        status = 0
        if script.options.keep is not None:
            elsewhere.dismiss(script.folder, status)
            keep(script.folder, script.options.keep, "script")
        return found  # noqa: TRY300 - what the user keeps is moved before
    except (KeyboardInterrupt, SystemExit) as ended:
        interrupted = script.interrupted(ending_signal(ended))
        raise
    finally:
        with undisturbed():
            end_processes_of(script.plan.kept_folder)  # an inspection, if this is interrupted
            finish_dead_runs(runs)  # what they have changed, too, is this run's to restore
            elsewhere.dismiss(script.folder, status)
            put_away(script.folder, script.restore_nodes())
            if interrupted:
                with contextlib.suppress(OSError):  # the terminal may be closed
                    sys.stderr.write(f"ds-lint: {interrupted}\n")


def _lead(gathering: Gathering, folder: str) -> None:
    """Give the run to the other nodes; without them its folder goes."""
    try:
        elsewhere.note_followers(folder, gathering.lead(folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _StartedCommand:
    """One command on its way through its starts."""

    def __init__(
        self, command: list[str], options: ScriptRunOptions, folder: str, config_of: Callable[[EngineTrace], Config]
    ) -> None:
        self.command = command
        self.options = options
        self.folder = folder
        self.config_of = config_of
        self.began = time.monotonic()
        self.plan = Plan(
            folder,
            steps=options.steps,
            steps_after=STEPS_AFTER if options.resumes else 0,
            resumes=options.resumes,
            uses_cpu=options.uses_cpu,
            shrinks=options.shrinks,
            profiles=options.profiles,
        )

    def prove(self, on_phase: Callable[[str, str], None]) -> tuple[list[EngineOfConfig], WithoutEngine | None]:
        on_phase(TRAIN, "the script trains")
        first = command_start.run(self.command, self.plan, self.options.seconds)
        failed = ending.failure(first, self.plan, self.options.seconds)
        if failed is None and (why := other_releases(first)) is not None:
            failed = ending.ScriptFailure(why, is_of_script=False)
        if not evaluated.is_evaluation(first):
            evaluated.forget_passes(first)
        if not first.engines:
            return [], self._without_engine(first, failed)
        inspections = {number: self._inspect(ranks) for number, ranks in first.engines.items() if _is_over(ranks)}
        inspections |= {
            number: fsdp_proof.start_inspection(self.plan, ranks)
            for number, ranks in first.engines.items()
            if fsdp_proof.is_measured(ranks)
        }
        second = None
        if self.options.resumes and failed is None and any(_is_saved(ranks) for ranks in first.engines.values()):
            on_phase(RESUME, "the script starts again and resumes")
            second = command_start.run(self.command, self.plan._replace(part=RESUME), self.options.seconds)
        inspected = {number: _inspected(one) for number, one in inspections.items()}
        found = [
            EngineOfConfig(
                *self._checked(number, ranks, first, second, failed, inspected.get(number, "nothing was saved")),
                seen_run(first, ranks[0]),
                is_of_fsdp=ranks[0].fsdp is not None,
            )
            for number, ranks in first.engines.items()
        ]
        return found, None

    def restore_nodes(self) -> list[str]:
        """Restore the other nodes of the command; the names of those that could not be."""
        latest = self.plan._replace(part=RESUME)
        plan = latest if os.path.isdir(latest.own_folder) else self.plan
        if elsewhere.needs_restoring(plan):
            elsewhere.restore_nodes(self.command, command_start.environment_of(plan._replace(part=RESTORE)))
        return areas.nodes_to_restore(self.folder)

    def interrupted(self, by: str) -> str:
        """What a signal has ended."""
        starts = (self.plan._replace(part=part) for part in (RESUME, TRAIN))
        folder = next((one.own_folder for one in starts if os.path.isdir(one.own_folder)), self.plan.own_folder)
        return ending.interrupted(by, ranks_of(processes_in(folder)))

    def _checked(
        self,
        number: int,
        ranks: list[EngineTrace],
        first: CommandEnd,
        second: CommandEnd | None,
        failed: ending.ScriptFailure | None,
        inspected: Inspected | FsdpInspection | str,
    ) -> tuple[Config, Verdict]:
        """The config of an engine and the verdict on it."""
        one = ranks[0]
        config = self.config_of(one)
        checks: list[Check] = []
        measured = None
        is_evaluation = evaluated.is_evaluation(first)
        if is_evaluation:
            waiting = evaluated.uneven(ranks, first, expectation_of(config, one), failed, self.plan.own_folder)
            if waiting is not None:
                failed = None
                checks.append(waiting)
        is_other_refused = not one.is_refused and any(ranks[0].is_refused for ranks in first.engines.values())
        if failed is not None and failed.is_of_script and not is_other_refused:
            stage: Stage = "initialize" if one.is_refused else "train"
            checks.append(_stopped(failed, stage, lacks_backward=one.lacks_backward))
        are_equally_far = len({len(rank.evidence.steps) for rank in ranks}) == 1  # one may be killed in a step
        if fsdp_proof.is_measured(ranks):
            of_fsdp = inspected if isinstance(inspected, (str, FsdpInspection)) else ""
            checks += fsdp_proof.verified(ranks, self.plan, self._repetition(number, ranks, second), of_fsdp)
        elif is_evaluation and evaluated.is_seen(ranks) and not isinstance(inspected, FsdpInspection):
            if not checks:
                run = self._run(number, ranks, first, second, inspected)
                kept = evaluated.sources(ranks, self._kept(number), command_start.of_inspection(self.plan))
                checks += verify_evaluation(expectation_of(config, one), run, kept)
        elif (
            one.evidence.engine is not None
            and len(ranks) == one.world_size
            and are_equally_far
            and not isinstance(inspected, FsdpInspection)
        ):
            expectation = expectation_of(config, one)
            run = self._run(number, ranks, first, second, inspected)
            checks += verify_script(expectation, run)
            again = second.engines.get(number, []) if second is not None else []
            measured = measurements(ranks, again, self._kept(number), config, expectation.config)
        elif checks:  # the failure of the script explains it
            pass
        elif not one.is_trained:
            is_explained = is_other_refused or any(ranks[0].is_trained for ranks in first.engines.values())
            checks.append(_unseen("the script makes no optimizer step with this engine", is_explained=is_explained))
        elif failed is None:
            made, wanted = len(one.evidence.steps), self.plan.steps
            checks.append(_unseen(f"the script ends after {made} of {wanted} steps: pass --steps {made}"))
        status = worst([check.status for check in checks])
        error = None
        if failed is not None and not failed.is_of_script:
            status, error = "error", failed.message
        verdict = self._verdict(first, checks, status, error, ranks, second)._replace(
            path=config.document.path,
            stack=one.fsdp.stack if one.fsdp is not None else one.stack,
            world_size=one.world_size,
            model=one.evidence.model,
            parameter_count=sum(parameter.elements for parameter in one.evidence.parameters),
            steps=one.evidence.steps,
            held=[rank.evidence.held for rank in ranks if not rank.is_pipeline],
            versions=one.versions,
            engine=ScriptEngine(one.number, one.mode, one.model_class, one.optimizer, one.is_trained),
            measured=measured,
        )
        return config, verdict

    def _run(
        self,
        number: int,
        ranks: list[EngineTrace],
        first: CommandEnd,
        second: CommandEnd | None,
        inspected: Inspected | str,
    ) -> ScriptRun:
        one = ranks[0]
        is_shrunk = any(process.shrunk for process in first.ranks)
        return ScriptRun(
            train=[rank.evidence for rank in ranks],
            mode=one.mode,
            steps=self.plan.steps,
            steps_after=self.plan.steps_after,
            exported=inspected if isinstance(inspected, str) else inspected.exported or _TOO_LARGE,
            real_shapes=_SHRUNK if is_shrunk else [parameter.elements for parameter in one.evidence.parameters],
            has_adapters=one.has_adapters,
            is_of_transformers=all(rank.model_class.startswith("transformers.") for rank in ranks),
            ranks=ranks,
            repetition=self._repetition(number, ranks, second),
            recomputed=None if isinstance(inspected, str) else inspected.recomputed,
        )

    def _kept(self, number: int) -> str:
        """The folder of what an engine saves."""
        return os.path.join(self.plan.kept_folder, f"engine-{number}")

    def _repetition(self, number: int, ranks: list[EngineTrace], second: CommandEnd | None) -> Repetition | None:
        """The steps after the checkpoint, in both starts."""
        before = [one.replayed for one in ranks if one.replayed is not None]
        if second is None or not _is_saved(ranks):
            return None
        again = second.engines.get(number, [])
        after = [one.replayed for one in again if one.replayed is not None and one.replayed.restored]
        failed = ending.failure(second, self.plan._replace(part=RESUME), self.options.seconds)
        why = failed.message if failed is not None else None
        is_cut_off = failed is not None and not failed.is_of_script
        if len(after) == len(before):
            return Repetition(before, after, why, is_cut_off=is_cut_off)
        return Repetition(before, [], why or "it makes no step with this engine", is_cut_off=is_cut_off)

    def _inspect(self, ranks: list[EngineTrace]) -> subprocess.Popen[bytes]:
        """Start a process that loads what an engine has saved, while the script starts again."""
        one = ranks[0]
        kept = self._kept(one.number)
        stage = one.evidence.engine.stage if one.evidence.engine is not None else 0
        expectation = expectation_of(self.config_of(one), one)
        rule = rule_of_config(expectation)
        saved = SavedFiles(
            export=os.path.join(kept, "export"),
            checkpoint=os.path.join(kept, "checkpoint"),
            model_class=one.model_class,
            has_adapters=one.has_adapters,
            adapter_names=one.adapter_names or {},
            trained=[parameter.name for parameter in one.evidence.parameters if parameter.is_trainable],
            tied=one.evidence.tied,
            samples=kept,
            rule=on_device(rule, expectation, one.mode) if isinstance(rule, UpdateRule) else None,
            is_on_gpus=one.mode == CUDA,
            clipping=one.evidence.engine.clipping if one.evidence.engine is not None else 0.0,
            is_sharded=stage > 0,
            dtypes={name: digest.partition(" ")[0] for name, digest in one.evidence.live.items()},
            is_compared=one.has_checkpoint and one.evidence.uncompared is None,
        )
        return command_start.start_inspection(self.plan, "inspection", os.path.join(kept, "saved"), saved)

    def _without_engine(self, first: CommandEnd, failed: ending.ScriptFailure | None) -> WithoutEngine:
        seen = seen_run(first, None)
        why = failed.message if failed is not None else "the command ends without an engine of DeepSpeed"
        if failed is not None and seen.raised is not None and is_refusal(seen.raised):
            verdict = self._verdict(first, [_stopped(failed, "initialize")], "fail", None)
        else:
            verdict = self._verdict(first, [], "error", why)
        return WithoutEngine(verdict, seen, why)

    def _verdict(
        self,
        first: CommandEnd,
        checks: list[Check],
        status: str,
        error: str | None,
        ranks: Sequence[EngineTrace] = (),
        second: CommandEnd | None = None,
    ) -> Verdict:
        """The verdict on a command without an engine; the caller adds what an engine shows."""
        return Verdict(
            path="",
            stack="deepspeed",
            mode=SCRIPT,
            world_size=len(first.ranks),
            status=status,
            adaptations=list(_adaptations(first, ranks)),
            checks=checks,
            nodes=nodes_of(first),
            ranks=[*_ends(first), *(_ends_of_second(second, checks) if second is not None else ())],
            seconds=time.monotonic() - self.began,
            error=error,
        )


def _is_saved(ranks: list[EngineTrace]) -> bool:
    return all(one.has_checkpoint for one in ranks)


def _is_over(ranks: list[EngineTrace]) -> bool:
    """Whether all ranks of an engine have come to their checkpoint, be there room for it or not."""
    return all(one.fsdp is None and (one.has_checkpoint or one.no_room is not None) for one in ranks)


def _inspected(process: subprocess.Popen[bytes]) -> Inspected | FsdpInspection | str:
    """What the inspection found, or why it found nothing."""
    status = process.wait()
    path = str(process.args[-1])  # type: ignore[index] # the list above
    if status == 0:
        with open(f"{path}.found", "rb") as file:
            found: Inspected | FsdpInspection = pickle.load(file)  # noqa: S301 - our own process has written it
        return found
    with open(f"{path}.log", encoding="utf-8", errors="replace") as log:
        lines = [line.strip() for line in log if line.strip()]
    return lines[-1] if lines else f"the process that loads it ended with status {status}"


def _unseen(why: str, *, is_explained: bool = False) -> Check:
    """An engine of which nothing can be checked, which is not a pass unless another engine explains it."""
    return Check("start", "skip" if is_explained else "error", None, "a few steps of the script", None, None, why)


def _stopped(failed: ending.ScriptFailure, stage: Stage, *, lacks_backward: bool = False) -> Check:
    where = f"The exception comes from {failed.where}." if failed.where else ""
    if lacks_backward:
        where = f"{WITHOUT_BACKWARD[0].upper()}{WITHOUT_BACKWARD[1:]}. {CALL_BACKWARD} {where}".strip()
    return Check("start", "fail", None, "a few steps of the script", stage, None, failed.message, where)


def _adaptations(first: CommandEnd, ranks: Sequence[EngineTrace]) -> Iterator[Adaptation]:
    """What is different from the user's own run."""
    for op in sorted({op for rank in ranks for op in rank.evidence.stand_ins}):
        yield Adaptation(None, op, "torch operations", "the run does not build its kernel")
    shrunk = [(one.model, one.name, one.before, one.after) for process in first.ranks for one in process.shrunk]
    for model, name, before, after in dict.fromkeys(shrunk):
        what = f"{model} {name}".strip()
        yield Adaptation(None, f"{what}, {_counted(before)}", _counted(after), "--shrink makes models small")
    for sentence in dict.fromkeys(sentence for process in first.ranks for sentence in process.adaptations):
        yield Adaptation(None, None, None, sentence)
    for line in dict.fromkeys(one.command for one in first.later):
        yield Adaptation(None, None, None, f"the command starts {line} after the steps of the run: it ends at once")


def _counted(parameters: int | None) -> str:
    return f"{parameters:,} parameters" if parameters is not None else "parameters that are not known"


def _ends_of_second(second: CommandEnd, checks: list[Check]) -> list[RankEnd]:
    """The same of the start that resumes; an end that the skipped check explains is not repeated."""
    is_explained = any(check.id == "resume" and check.status == "skip" for check in checks)
    return [end for end in _ends(second) if end.exit == "ok" or not is_explained]


def _ends(part: CommandEnd) -> list[RankEnd]:
    return [
        RankEnd(one.rank or 0, ending.exit_of(one, part), one.phase, str(one.raised or "") or None)
        for one in part.ranks
    ]
