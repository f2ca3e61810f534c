"""Where in a run an exception was raised: in which phase, whose code, and from which line of the user's script."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.logs.tracebacks import Frame, RaisedException

_INSTALLED = re.compile(r"(?:site|dist)-packages[/\\]([A-Za-z_]\w*)")
_STANDARD = re.compile(r"[/\\]lib(?:64)?[/\\]python\d|<frozen |<string>|[/\\]runpy\.py$|^/usr/lib/python")
_PARSERS = ("pydantic", "pydantic_core", "hjson")
# By the functions that are on the stack, the later phase first: a checkpoint is loaded in `train`, for one.
_PHASES = (
    ("save", re.compile(r":(?:save_\w+|_save\w*|save|_zero3_consolidated_16bit_state_dict)$")),
    (
        "resume",
        re.compile(
            r":(?:_?load_checkpoint|deepspeed_load_checkpoint|load_state|_load_from_checkpoint|load_from_json)$"
        ),
    ),
    ("step", re.compile(r":(?:training_step|backward|step|forward|train_batch|compute_loss|_take_model_step)$")),
    ("load", re.compile(r":from_pretrained$")),
    (
        "initialize",
        re.compile(
            r"deepspeed/__init__\.py:initialize|deepspeed/runtime/config\.py"
            r"|:(?:prepare|_prepare_deepspeed|deepspeed_init|init_distributed|init_process_group)$"
        ),
    ),
)


_OF_DEEPSPEED = re.compile(r"-packages[/\\]deepspeed[/\\](?:__init__|runtime)")
_OF_TRAINER = re.compile(r"-packages[/\\]transformers[/\\](?:trainer|training_args|integrations)")
_OF_ACCELERATE = re.compile(r"-packages[/\\]accelerate[/\\](?!commands)")


class ScriptLine(NamedTuple):
    """A line of a script."""

    path: str
    line: int

    @property
    def name(self) -> str:
        """Its name without folders."""
        return os.path.basename(self.path)


def is_installed(frame: Frame) -> bool:
    """Whether a frame is of a package or of Python itself."""
    return bool(_INSTALLED.search(frame.path) or _STANDARD.search(frame.path))


def script_place(raised: RaisedException) -> ScriptLine | None:
    """The innermost line of the user's own code."""
    frame = next((one for one in reversed(raised.frames) if not is_installed(one)), None)
    return ScriptLine(frame.path, frame.line) if frame is not None else None


def library_of(raised: RaisedException) -> str:
    """Whose code has raised: a package, ``python``, or ``script``; a parser of values speaks for who calls it."""
    for frame in reversed(raised.frames):
        if installed := _INSTALLED.search(frame.path):
            if installed[1] in _PARSERS:
                continue
            return installed[1]
        if not _STANDARD.search(frame.path):
            return "script"
    return "python" if raised.frames else "script"


def stack_of(raised: RaisedException) -> Stack | None:
    """What loads the config, by the libraries between the script and DeepSpeed; None if DeepSpeed is not called."""
    places = [f"{frame.path}:{frame.function}" for frame in raised.frames]
    if not any(_OF_DEEPSPEED.search(place) for place in places):
        return None
    if any(_OF_TRAINER.search(place) for place in places):
        return "trainer"
    return "accelerate" if any(_OF_ACCELERATE.search(place) for place in places) else "deepspeed"


def function_of(raised: RaisedException) -> str | None:
    """The innermost function of an installed package."""
    return next((one.function for one in reversed(raised.frames) if _INSTALLED.search(one.path)), None)


def phase_of(raised: RaisedException) -> str | None:
    """The phase of the run; None if nothing on the stack says."""
    places = [f"{frame.path}:{frame.function}" for frame in raised.frames]
    for phase, pattern in _PHASES:
        if any(pattern.search(place) for place in places):
            return phase
    if raised.short_name in ("ImportError", "ModuleNotFoundError"):
        return "import"
    return None
