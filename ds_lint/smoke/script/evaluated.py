"""The engines of a script that trains none of them: whether its ranks came to their end, and what was loaded."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.script import loaded_weights
from ds_lint.smoke.verify import script_evaluation
from ds_lint.smoke.verify.script_evaluation import Source

if TYPE_CHECKING:
    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.script.command_start import CommandEnd
    from ds_lint.smoke.script.ending import ScriptFailure

# Where an exception comes from if other ranks do not take part in what this one calls.
_COLLECTIVES = ("torch/distributed/", "deepspeed/comm/", "deepspeed/runtime/zero/", "deepspeed/utils/")


def is_evaluation(end: CommandEnd) -> bool:
    """Whether the script trains nothing, and its engines are used nevertheless."""
    every = [one for ranks in end.engines.values() for one in ranks]
    is_used = any(one.evaluated is not None and one.evaluated.begun for one in every)
    return is_used and not any(one.is_trained or one.is_refused for one in every)


def forget_passes(end: CommandEnd) -> None:
    """In a script that trains, an engine without steps is a part of the training, such as a reference model."""
    for one in (one for ranks in end.engines.values() for one in ranks):
        if not one.is_inference:
            one.evaluated = None


def is_seen(ranks: list[EngineTrace]) -> bool:
    """Whether each rank shows a whole forward pass of an engine."""
    made = [one.evaluated is not None and one.evaluated.ended > 0 for one in ranks]
    return len(ranks) == ranks[0].world_size and all(made)


def uneven(
    ranks: list[EngineTrace], end: CommandEnd, expectation: Expectation, failed: ScriptFailure | None, folder: str
) -> Check | None:
    """Ranks that wait in a forward pass for others that make no more; an exception of the script is the reason then."""
    is_own = failed is not None and failed.is_of_script and not failed.where.startswith(_COLLECTIVES)
    if is_own or (failed is None and end.status == 0):
        return None
    idle = None if end.status is not None else _idle(ranks, folder)
    stage = expectation.stage.value if expectation.stage is not None and not ranks[0].is_inference else None
    return script_evaluation.uneven(ranks, stage, idle)


def sources(ranks: list[EngineTrace], kept: str, environment: dict[str, str]) -> dict[str, Source]:
    """What the files have for each parameter of an engine."""
    evaluated = ranks[0].evaluated
    if evaluated is None:
        return {}
    found = loaded_weights.look(loaded_weights.folders_of(evaluated), kept, environment)
    made: dict[str, Source] = {}
    for name, one in evaluated.loaded.items():
        weights = found.get(one.folder)
        if one.is_missing or one.digests is not None or weights is None or weights.error:
            made[name] = Source(one.digests, one.is_missing)
        else:
            made[name] = Source(weights.digests.get(one.name), is_missing=one.name in weights.missing)
    return made


def _idle(ranks: list[EngineTrace], folder: str) -> float:
    """Seconds since a rank has begun or ended a forward pass."""
    paths = (engine_trace.path_of_passes(folder, one.evidence.rank, one.number) for one in ranks)
    return time.time() - max((os.stat(path).st_mtime for path in paths if os.path.exists(path)), default=time.time())
