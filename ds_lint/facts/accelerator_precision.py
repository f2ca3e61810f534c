"""The precision that ``Accelerator`` of a script runs with: its own argument, else a flag or a variable of the launch.

Sources: ``AcceleratorState.__init__`` in ``accelerate/state.py``, and ``prepare_deepspeed_cmd_env`` in
``utils/launch.py``, which overwrites the variable.
"""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.facts.script_values import script_value
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.facts.launched import LaunchFacts

_FLAG, _VARIABLE = "mixed_precision", "ACCELERATE_MIXED_PRECISION"


class AcceleratorPrecision(Record):
    """A word in lower case, or UNKNOWN, with what gives it, in words, and where that is."""

    word: Any
    origin: str
    related: list[Related]
    is_of_script: bool


def accelerator_precision(launch: LaunchFacts) -> AcceleratorPrecision | None:
    """The precision that the script or the command gives; None if neither does."""
    of_script = script_precision(launch)
    if of_script is not None:
        return of_script
    around = launch.launch.surroundings
    if launch.launch.launcher == "accelerate" and around.has(_FLAG):
        word = around.option(_FLAG)
        return AcceleratorPrecision(
            UNKNOWN if word is None else word.lower(),
            f"`--{_FLAG} {word}`",
            [Related(launch.place, f"`{_FLAG}`", launch.document.path)],
            is_of_script=False,
        )
    if launch.launch.launcher != "accelerate" and _VARIABLE in launch.launch.environment:
        word = launch.launch.environment[_VARIABLE]
        return AcceleratorPrecision(
            UNKNOWN if word is None else word.lower(),
            f"`{_VARIABLE}={word}`",
            [Related(launch.place, f"`{_VARIABLE}`", launch.document.path)],
            is_of_script=False,
        )
    return None


def script_precision(launch: LaunchFacts) -> AcceleratorPrecision | None:
    """The precision that the script gives to ``Accelerator``; None if it gives none."""
    loop = launch.script.calls.loop if launch.script is not None else None
    if loop is None or loop.precision is None:
        return None
    word = script_value(loop.precision.expression, launch.launch, launch.script)
    if word is None:
        return None
    return AcceleratorPrecision(
        word.lower() if isinstance(word, str) else UNKNOWN,
        f"`Accelerator(mixed_precision={word!r})`".replace("'", '"'),
        launch.related(loop.precision.place, "`mixed_precision`"),
        is_of_script=True,
    )
