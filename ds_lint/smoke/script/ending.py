"""How a start of the user's command ended, in one sentence, and whether the script or the machine is the cause."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.driver.failure import CAUSES, first_line

if TYPE_CHECKING:
    from ds_lint.smoke.job import Raised
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.script.start import CommandEnd, ScriptProcess

_DONE = "done"
_PHASES = {
    "import": "while it imports its libraries",
    "before initialize": "before deepspeed.initialize",
    "initialize": "in deepspeed.initialize",
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
        return None
    unable = next((one.unable for one in end.processes if one.unable), None)
    if unable is not None:
        return ScriptFailure(unable, is_of_script=False)
    raised = [one for one in ranks if one.raised is not None]
    first = next((one for one in raised if one.raised is not None and one.raised.cause != "peer"), None)
    first = first or next(iter(raised), None)
    if first is not None and first.raised is not None:
        return _of_exception(end, first, first.raised)
    if not end.processes:
        return ScriptFailure(_unreached(end), is_of_script=False)
    phase = _latest(ranks)
    if end.status is None:
        places = ", ".join(f"rank {one.rank} {_PHASES.get(one.phase, one.phase)}" for one in ranks)
        return ScriptFailure(
            f"the command did not finish within {seconds:g} s (--timeout): {places}", is_of_script=False
        )
    if end.status == 0:
        if end.engines:
            return None  # it makes fewer steps than the run
        return ScriptFailure(f"the command ends {phase}, without an engine of DeepSpeed", is_of_script=False)
    return ScriptFailure(f"the command {_how(end.status)} {phase}", is_of_script=bool(end.engines))


def _of_exception(end: CommandEnd, one: ScriptProcess, raised: Raised) -> ScriptFailure:
    text = first_line(str(raised))
    blame = CAUSES.get(raised.cause or "")
    phase = _PHASES.get(one.phase, one.phase)
    message = f"{f'{blame}: ' if blame else ''}the script raises {phase}: {text}"
    return ScriptFailure(message, is_of_script=bool(end.engines) and raised.cause not in CAUSES, where=raised.where)


def _unreached(end: CommandEnd) -> str:
    """No process of the command has loaded the probe."""
    if end.status:
        return f"the command {_how(end.status)} before it imports deepspeed, transformers or accelerate"
    return (
        "no Python process of the command imports deepspeed, transformers or accelerate with the startup hook of "
        "ds-lint: if it drops PYTHONPATH (python -I, srun --export=NONE, a container), pass PYTHONPATH and "
        "DS_LINT_PROBE on, or make `import ds_lint.smoke.probe` the first line of the script"
    )


def _latest(ranks: list[ScriptProcess]) -> str:
    phases = [one.phase for one in ranks]
    latest = next((phase for phase in reversed(_PHASES) if phase in phases), phases[0] if phases else "")
    return _PHASES.get(latest, "")


def _how(status: int) -> str:
    return f"is killed by {signal.Signals(-status).name}" if status < 0 else f"ends with status {status}"
