"""One rank of a run: does its part of the job and records what it observes, even if it fails."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint import CheckpointException  # no Exception

from ds_lint.smoke.observe import census, recorder
from ds_lint.smoke.observe.observation import Watch, observe_engines
from ds_lint.smoke.observe.recording import Recording
from ds_lint.smoke.rank import (
    accelerate_run,
    deepspeed_run,
    environment,
    export,
    fsdp_export,
    fsdp_reference,
    fsdp_run,
    fsdp_simulation,
    loaded_config,
    overflows,
    reference,
    simulation,
    trainer_run,
)
from ds_lint.smoke.records.cause import cause_of
from ds_lint.smoke.records.job import EXPORT, REFERENCE, SCALING, TRAIN, WORLD, Evidence, Job, Raised
from ds_lint.smoke.standins import aio, kernels, offloaded, ops, pybind

if TYPE_CHECKING:
    from collections.abc import Callable

_FOR_LIBRARIES = (aio.__file__, kernels.__file__, offloaded.__file__, pybind.__file__, recorder.__file__)
_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def work(job: Job, number: int, say: Callable[[str], None]) -> Evidence:
    """Run as rank ``number`` of the job. ``say`` gets the name of every phase that begins."""
    evidence = Evidence(number)
    clock = _Clock(evidence, say)
    log: recorder.ReadLog | None = None
    try:
        if job.part == WORLD and not simulation.is_possible():
            evidence.lacks_fake_group = True
        elif job.fsdp is not None:
            _work_with_fsdp(job, number, evidence, clock)
        elif job.part == EXPORT:
            clock.enter("load the saved model")
            evidence.exported = export.inspect(job)
            evidence.real_shapes = export.real_shapes(job)
        elif job.part == REFERENCE:
            clock.enter("repeat the steps")
            evidence.reference = reference.repeat(job)
        else:
            clock.enter("load")
            config, log = loaded_config.load_recorded(job)
            clock.enter("meet")
            environment.set_up(job, number)
            recorder.watch()
            census.begin()
            recording = Recording(job, number) if job.part == TRAIN else None  # what a reference run repeats
            watch = Watch(job.part, evidence, clock.enter, recording, job=job)
            observe_engines(lambda _engine: None if watch.is_over else watch)
            _way(job)(job, number, config, watch)
            watch.finish()
            engine = watch.engine() if job.overflows and job.part == TRAIN else None
            if engine is not None:
                clock.enter(SCALING)
                overflows.provoke(job, number, engine, evidence)
        clock.enter("done")
    except (Exception, SystemExit, CheckpointException) as error:  # noqa: BLE001 - whatever a library raises is the result
        with contextlib.suppress(OSError):  # the log may lie on a full disk, of which the evidence has to tell
            traceback.print_exc()
        evidence.raised = Raised(type(error).__name__, str(error), evidence.phase, _where(error), cause_of(error))
    if log is not None:
        evidence.unread = loaded_config.unread(job, log) if evidence.phase == "done" else []
        evidence.stand_ins = ops.used()
    return evidence


def _work_with_fsdp(job: Job, number: int, evidence: Evidence, clock: _Clock) -> None:
    """The parts of a run with FSDP."""
    if job.part == EXPORT:
        clock.enter("load the saved model")
        evidence.exported, evidence.fsdp_saved = fsdp_export.inspect(job)
        evidence.real_shapes = export.real_shapes(job)
    elif job.part == REFERENCE:
        clock.enter("repeat the steps")
        evidence.reference = fsdp_reference.repeat(job)
    elif job.part == WORLD:
        fsdp_simulation.simulate(job, number, evidence, clock.enter)
    else:
        fsdp_run.train(job, number, evidence, clock.enter)


def _way(job: Job) -> Callable[[Job, int, Any, Watch], None]:
    """How the job is done."""
    if job.part == WORLD:
        return simulation.simulate
    ways = {"deepspeed": deepspeed_run.train, "trainer": trainer_run.train, "accelerate": accelerate_run.train}
    return ways[job.stack]


class _Clock:
    """Says which phase a rank is in, and keeps the seconds of each."""

    def __init__(self, evidence: Evidence, say: Callable[[str], None]) -> None:
        self._evidence = evidence
        self._say = say
        self._since = time.perf_counter()

    def enter(self, phase: str) -> None:
        now = time.perf_counter()
        seconds = self._evidence.seconds
        seconds[self._evidence.phase] = seconds.get(self._evidence.phase, 0.0) + now - self._since
        self._evidence.phase, self._since = phase, now
        self._say(phase)


def _where(error: BaseException) -> str:
    """The innermost frame, as ``deepspeed/runtime/engine.py:2482 _configure``; empty if it is ours.

    The recording dict and the stand-ins raise what the library would.
    """
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename not in _FOR_LIBRARIES]
    if not frames or frames[-1].filename.startswith(_OURS):
        return ""
    return f"{frames[-1].filename.rpartition('site-packages/')[2]}:{frames[-1].lineno} {frames[-1].name}"
