"""The training run of the user's own script: started twice, read, and checked engine by engine."""

from __future__ import annotations

import contextlib
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.diagnostics.verdict import CUDA, SCRIPT, Adaptation, Check, RankEnd, ScriptEngine, Verdict, worst
from ds_lint.smoke.expected.documented_optimizer import on_device, rule_of_config
from ds_lint.smoke.journal.hook import has_locks
from ds_lint.smoke.probe.plan import RESUME, TRAIN, Plan
from ds_lint.smoke.processes.client import CouldNotRun, ending_signal, own_folder, undisturbed
from ds_lint.smoke.processes.kept_files import keep
from ds_lint.smoke.processes.leftovers import end_processes_of
from ds_lint.smoke.records.job import UpdateRule
from ds_lint.smoke.script import command_start, ending
from ds_lint.smoke.script.expectation import expectation_of
from ds_lint.smoke.script.measurements import measurements
from ds_lint.smoke.script.predictions import is_refusal, seen_run
from ds_lint.smoke.script.processes import processes_in, ranks_of
from ds_lint.smoke.script.restore import restore
from ds_lint.smoke.script.saved_files import Inspected, SavedFiles
from ds_lint.smoke.verify import verify_script
from ds_lint.smoke.verify.check import Repetition, ScriptRun
from ds_lint.smoke.verify.script_steps import CALL_BACKWARD, WITHOUT_BACKWARD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.script.command_start import CommandEnd
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


class EngineOfConfig(NamedTuple):
    """The engines of one config of the script, which has several if it makes several engines with it."""

    config: Config
    verdict: Verdict
    seen: SeenRun


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
    folder = own_folder(options.folder, "--folder")
    if not has_locks(folder):
        shutil.rmtree(folder)
        raise CouldNotRun(f"the file system of {folder} has no file locks: name another folder (--folder)")
    script = _StartedCommand(command, options, folder, config_of)
    interrupted = ""
    try:
        found = script.prove(on_phase or (lambda _part, _phase: None))
        if options.keep is not None:
            keep(folder, options.keep, "script")
        return found  # noqa: TRY300 - what the user keeps is moved before
    except (KeyboardInterrupt, SystemExit) as ended:
        interrupted = script.interrupted(ending_signal(ended))
        raise
    finally:
        with undisturbed():
            end_processes_of(script.plan.kept_folder)  # an inspection, if this is interrupted
            _put_away(folder)
            if interrupted:
                with contextlib.suppress(OSError):  # the terminal may be closed
                    sys.stderr.write(f"ds-lint: {interrupted}\n")


def _put_away(folder: str) -> None:
    """Remove the folder of a run, unless it has the only copy of a file of the user."""
    failed = restore(folder).failed
    for path, why in failed:
        sys.stderr.write(f"ds-lint: {path} could not be restored: {why}\n")
    if failed:
        command = f"python -m ds_lint.smoke.script.restore {shlex.quote(folder)}"
        sys.stderr.write(f"ds-lint: its content is kept; `{command}` tries again\n")
    else:
        shutil.rmtree(folder, ignore_errors=True)


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
        if not first.engines:
            return [], self._without_engine(first, failed)
        inspections = {number: self._inspect(ranks) for number, ranks in first.engines.items() if _is_over(ranks)}
        second = None
        if self.options.resumes and failed is None and any(_is_saved(ranks) for ranks in first.engines.values()):
            on_phase(RESUME, "the script starts again and resumes")
            second = command_start.run(self.command, self.plan._replace(part=RESUME), self.options.seconds)
        inspected = {number: _inspected(one) for number, one in inspections.items()}
        found = [
            EngineOfConfig(
                *self._checked(number, ranks, first, second, failed, inspected.get(number, "nothing was saved")),
                seen_run(first, ranks[0]),
            )
            for number, ranks in first.engines.items()
        ]
        return found, None

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
        inspected: Inspected | str,
    ) -> tuple[Config, Verdict]:
        """The config of an engine and the verdict on it."""
        one = ranks[0]
        config = self.config_of(one)
        checks: list[Check] = []
        measured = None
        is_other_refused = not one.is_refused and any(ranks[0].is_refused for ranks in first.engines.values())
        if failed is not None and failed.is_of_script and not is_other_refused:
            stage: Stage = "initialize" if one.is_refused else "train"
            checks.append(_stopped(failed, stage, lacks_backward=one.lacks_backward))
        if one.evidence.engine is not None and len(ranks) == one.world_size:
            expectation = expectation_of(config, one)
            is_shrunk = any(process.shrunk for process in first.ranks)
            run = ScriptRun(
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
            stack=one.stack,
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
            is_compared=one.has_checkpoint and one.evidence.uncompared is None,
        )
        os.makedirs(kept, exist_ok=True)  # without room nothing is saved there
        path = os.path.join(kept, "saved")
        with open(path, "wb") as file:
            pickle.dump(saved, file)
        with open(f"{path}.log", "wb") as log:
            return subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "ds_lint.smoke.script.inspection", path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=command_start.of_inspection(self.plan),
            )

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
            ranks=[*_ends(first), *(_ends_of_second(second, checks) if second is not None else ())],
            seconds=time.monotonic() - self.began,
            error=error,
        )


def _is_saved(ranks: list[EngineTrace]) -> bool:
    return all(one.has_checkpoint for one in ranks)


def _is_over(ranks: list[EngineTrace]) -> bool:
    """Whether all ranks have come to their checkpoint, be there room for it or not."""
    return all(one.has_checkpoint or one.no_room is not None for one in ranks)


def _inspected(process: subprocess.Popen[bytes]) -> Inspected | str:
    """What the inspection found, or why it found nothing."""
    status = process.wait()
    path = str(process.args[-1])  # type: ignore[index] # the list above
    if status == 0:
        with open(f"{path}.found", "rb") as file:
            found: Inspected = pickle.load(file)  # noqa: S301 - our own process has written it
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
