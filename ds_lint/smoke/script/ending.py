"""How a start of the user's command ended, in one sentence, and whether the script or the machine is the cause."""

from __future__ import annotations

import re
import signal
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.records.failure import CAUSES, first_line

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.job import Raised
    from ds_lint.smoke.script.command_start import CommandEnd
    from ds_lint.smoke.script.processes import ScriptProcess

_DONE, _IMPORT = "done", "import"
_BY_ITSELF = "exit"  # how a process says that its script has ended
_OF_LAUNCHERS = "ChildFailedError"  # torch.distributed.elastic, after a rank has failed
_AFTER_A_RANK = (_OF_LAUNCHERS, "CalledProcessError")  # what launchers raise
_LAUNCHERS = ("deepspeed/launcher/", "torch/distributed/", "accelerate/commands/")  # in site-packages
_TRACEBACK = "Traceback (most recent call last)"
_LIBRARIES = "deepspeed, transformers or accelerate"
_OF_SPAWN = "ProcessRaisedException"  # torch.multiprocessing.spawn, which catches what its ranks raise
_OWN = "ds_lint/smoke/"  # in the path of a frame
_OF_CALLS = ("ds_lint/smoke/standins/", "ds_lint/smoke/wrapping.py")  # where a wrong call of the script raises
_ALTERNATIVE = "make `import ds_lint.smoke.probe` the first line of the script"
_WITHOUT_HOOK = (
    "if the command sets PYTHONPATH, keep what is in it (`PYTHONPATH=DIR:$PYTHONPATH`); if it drops it (python -I, "
    f"srun --export=NONE, a container), pass PYTHONPATH and DS_LINT_PROBE on, or {_ALTERNATIVE}"
)
_PHASES = {
    "import": "while it imports its libraries",
    "before initialize": "before deepspeed.initialize",
    "before shard": "before FSDP shards its model",
    "shard": "while FSDP shards its model",
    "initialize": "in deepspeed.initialize",
    "init_inference": "in deepspeed.init_inference",
    "after initialize": "between deepspeed.initialize and its first step",
    "evaluate": "while it evaluates",
    "step": "in a training step",
    "save": "while it saves",
    "load": "while it loads the checkpoint",
}


class ScriptFailure(NamedTuple):
    """Why a start did not reach its last step."""

    message: str
    is_of_script: bool  # an engine was there, and the script or its config is the cause
    where: str = ""


def failure(end: CommandEnd, plan: Plan, seconds: float) -> ScriptFailure | None:
    """What stopped the ranks of a start; None if all of them made their steps, or if the script ended by itself."""
    ranks = end.ranks
    if ranks and all(one.phase == _DONE for one in ranks):
        return _at_once(ranks)
    unable = _unable(end)
    if unable is not None:
        return ScriptFailure(unable, is_of_script=False)
    raised = [one for one in ranks if one.raised is not None and one.raised.kind != _OF_LAUNCHERS]
    spawned = next((one for one in end.processes if one.raised is not None and one.raised.kind == _OF_SPAWN), None)
    if not raised and spawned is not None and spawned.raised is not None:
        return _of_exception(end, spawned._replace(phase=_latest_phase(ranks)), spawned.raised)
    first = next((one for one in raised if not _is_of_peer(one)), None)
    silent = [one for one in ranks if one.raised is None and one.ended is None and one.phase != _DONE]
    if first is None and raised and silent and (end.status is not None or _has_nodes(ranks)):
        return ScriptFailure(_killed(end.status, silent, ranks), is_of_script=False)
    first = first or next(iter(raised), None)
    if first is not None and first.raised is not None:
        return _of_exception(end, first, first.raised)
    if all(one.rank is None and one.phase == _IMPORT for one in end.processes):
        return ScriptFailure(_unreached(end, seconds), is_of_script=False)
    phase = _latest(ranks)
    if end.status is None:
        apart = _apart(ranks)
        waits = f"{apart}; " if apart is not None else ""
        message = f"{waits}the command did not finish within {seconds:g} s (--timeout): {places_of(ranks)}"
        return ScriptFailure(message, is_of_script=apart is not None and bool(end.engines))
    if end.status == 0:
        if end.engines:
            return None  # it makes fewer steps than the run
        if all(one.phase == _IMPORT for one in ranks):
            return ScriptFailure(f"the command ends, and no rank imports {_LIBRARIES}", is_of_script=False)
        return ScriptFailure(f"the command ends {phase}, without an engine of DeepSpeed", is_of_script=False)
    how = next((one.ended for one in ranks if one.ended is not None), None)
    if how is None:  # nothing in a rank has ended it
        if end.status > 0:
            return ScriptFailure(_killed(end.status, ranks, ranks), is_of_script=False)
        hint = "; the system usually does this when memory runs out" if end.status == -signal.SIGKILL else ""
        return ScriptFailure(f"the command {_how(end.status)} {phase}{hint}", is_of_script=False)
    cause = _own_words(end) or ("the script exits by itself" if how == _BY_ITSELF else f"the script calls {how}")
    return ScriptFailure(f"the command {_how(end.status)} {phase}: {cause}", is_of_script=bool(end.engines))


def _unable(end: CommandEnd) -> str | None:
    """What keeps ds-lint from observing the start, or a process of it from going on; None if nothing does."""
    if end.elsewhere is not None:
        return end.elsewhere
    if end.unobserved is not None:
        why = f"{end.unobserved} imports torch without the startup hook of ds-lint, so the run ends before it trains"
        return f"{why}: {_WITHOUT_HOOK}"
    return next((one.unable for one in end.processes if one.unable), None)


def places_of(ranks: list[ScriptProcess]) -> str:
    """Where each rank is, such as "rank 0 while it saves, rank 1 in a training step"."""
    return ", ".join(f"{_name_of(one, ranks)} {_place_of(one)}" for one in ranks)


def _has_nodes(ranks: list[ScriptProcess]) -> bool:
    """Whether they are on several nodes."""
    return len({one.node for one in ranks}) > 1


def _name_of(one: ScriptProcess, ranks: list[ScriptProcess]) -> str:
    """``rank 3``, and its node if there are several."""
    node = f" on {one.node}" if _has_nodes(ranks) else ""
    return f"rank {one.rank or 0}{node}"


def _place_of(one: ScriptProcess) -> str:
    return f"in `{one.call}`" if one.call is not None else _PHASES.get(one.phase, one.phase)


def _apart(ranks: list[ScriptProcess]) -> str | None:
    """What some ranks call and the others do not, though it waits for all of them; None if there is no such call."""
    calls = {one.call for one in ranks}
    call = next((one for one in calls if one is not None), None)
    if call is not None and len(calls) > 1:
        waiting = next(one for one in ranks if one.call == call)
        other = next(one for one in ranks if one.call != call)
        return f"{_name_of(waiting, ranks)} waits in `{call}` for {_name_of(other, ranks)}, which does not call it"
    for name in sorted({name for one in ranks for name in one.calls}):
        callers, others = ([one for one in ranks if (name in one.calls) is has] for has in (True, False))
        if others:  # a collective of the call has met another one of the ranks that did not call it
            pair = _name_of(callers[0], ranks), _name_of(others[0], ranks)
            return f"{pair[0]} has called `{name}`, which all ranks have to, and {pair[1]} has not"
    return None


def interrupted(by: str, ranks: list[ScriptProcess]) -> str:
    """What a signal to ds-lint has ended."""
    phase = _latest(ranks) or f"before it imports {_LIBRARIES}"
    return f"{by} ended the run of the script {phase}; its processes and temporary files are removed"


def exit_of(one: ScriptProcess, end: CommandEnd) -> str:
    """How a rank ended, in the words of ``RankEnd``."""
    if one.raised is not None:
        return "exception"
    if one.phase == _DONE or (one.ended is not None and end.status == 0):
        return "ok"
    if one.ended is not None:
        return "exception"
    if end.unobserved is not None:
        return "ended"
    if end.status is None:
        return "timeout"
    has_failed = any((other.raised or other.ended) and not _is_of_peer(other) for other in end.ranks)
    return "ended" if has_failed else "signal"


def _of_worker(raised: Raised) -> tuple[str, Raised]:
    """What is raised, in a line; torch raises the traceback of a worker again as the text of an exception."""
    if _TRACEBACK not in raised.text:
        return first_line(str(raised)), raised
    first, *lines = [line.strip() for line in str(raised).splitlines() if line.strip()]
    frames = re.findall(r'File "(.+)", line (\d+), in (\S+)', raised.text)
    message = f"{first} {lines[0]}" if first.endswith(":") else first
    path, line, function = frames[-1] if frames else ("", "", "")
    where = f"{path.rpartition('site-packages/')[2]}:{line} {function}" if path else raised.where
    return f"{message.rstrip('.:')}: {lines[-1]}", raised.but(where=where)


def _at_once(ranks: list[ScriptProcess]) -> ScriptFailure | None:
    """Ranks that are there twice: what they show of their engines is of one training or of the other."""
    first = [one for one in ranks if one.rank == 0]
    if len(first) < 2:
        return None
    what = f"the command starts {len(first)} trainings at the same time: name the launch of one of them"
    return ScriptFailure(what, is_of_script=False)


def _is_of_peer(one: ScriptProcess) -> bool:
    """Whether a rank raised because another one has ended."""
    return one.raised is not None and one.raised.cause == "peer"


def _killed(status: int | None, silent: list[ScriptProcess], ranks: list[ScriptProcess]) -> str:
    """A rank that says nothing was killed; if there are several, some of them by their launcher, after the first."""
    which = _name_of(silent[0], ranks) if len(silent) == 1 else "a rank"
    if status is None:  # ds-lint has ended the others, which wait for it
        return f"{which} has ended {_latest(silent)} and left no exception: it or its node was killed"
    why = f"because {which} is killed: if by SIGKILL, memory has usually run out"
    return f"the command {_how(status)} {_latest(silent)}, {why}"


def _of_exception(end: CommandEnd, one: ScriptProcess, raised: Raised) -> ScriptFailure:
    text, raised = _of_worker(raised)
    if raised.cause is None and _OWN in raised.where and not any(one in raised.where for one in _OF_CALLS):
        why = f"ds-lint itself raises {_PHASES.get(one.phase, one.phase)}: {text} ({raised.where}); please report it"
        return ScriptFailure(why, is_of_script=False)
    blame = CAUSES.get(raised.cause or "")
    if not raised.text and raised.where:
        text = f"{text} at {raised.where}"
    phase = _PHASES.get(one.phase, one.phase)
    who = f"the script raises {phase}"
    if one.rank is None and raised.where.startswith(_LAUNCHERS):
        who = "the launcher raises before it starts a rank"
    if _has_nodes(end.ranks) and one.rank is not None:
        who = f"{who} in {_name_of(one, end.ranks)}"
    message = f"{f'{blame}: ' if blame else ''}{who}: {text}"
    return ScriptFailure(message, is_of_script=bool(end.engines) and raised.cause not in CAUSES, where=raised.where)


def _unreached(end: CommandEnd, seconds: float) -> str:
    """No process of the command imports a training library with the probe."""
    for one in end.hooked:
        if one.error:
            return f"the probe of ds-lint cannot start in Python {one.release} ({one.command}): {one.error}"
    if not end.hooked and end.status == 0:
        return f"no Python of the command has run the startup hook of ds-lint: {_WITHOUT_HOOK}"
    how = f"did not finish within {seconds:g} s (--timeout)" if end.status is None else _how(end.status)
    if not end.hooked:
        return f"the command {how}, and no Python of it has run the startup hook of ds-lint: {_WITHOUT_HOOK}"
    commands = ", ".join(dict.fromkeys(one.command for one in end.hooked))
    if end.status != 0:
        return f"the command {how} before it imports {_LIBRARIES}: {_own_words(end) or commands}"
    return (
        f"no Python that has run the startup hook of ds-lint imports {_LIBRARIES}: {commands}; if another one trains, "
        f"pass PYTHONPATH and DS_LINT_PROBE on to it, or {_ALTERNATIVE}"
    )


def _own_words(end: CommandEnd) -> str | None:
    """What a program of the command says about its end; a launcher, which ends after it, repeats that it failed."""
    ends = [one.end for one in end.hooked if one.end is not None and one.end.kind not in _AFTER_A_RANK]
    return ends[-1].sentence if ends else None


def _latest(ranks: list[ScriptProcess]) -> str:
    return _PHASES.get(_latest_phase(ranks), "")


def _latest_phase(ranks: list[ScriptProcess]) -> str:
    phases = [one.phase for one in ranks]
    return next((phase for phase in reversed(_PHASES) if phase in phases), phases[0] if phases else "")


def _how(status: int) -> str:
    return f"is killed by {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"
