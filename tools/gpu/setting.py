"""Where a part measures: on a GPU, or on the CPU that takes its place in a rehearsal."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.smoke.small_run import devices

if TYPE_CHECKING:
    from collections.abc import Callable

    Result = dict[str, Any]  # what an item has measured, as JSON; `status` is one of those below

PASS, WARN, FAIL, ERROR = "pass", "warn", "fail", "error"  # of a check; an error is one that could not be made
BAD = (WARN, FAIL, ERROR)  # what has to be looked at
MEASURED = "measured"  # of a figure
UNANSWERED = "only a GPU answers"  # of a rehearsal
OPS = "DS_LINT_GPU_OPS"  # the variable with the folder in which `builds.py` builds DeepSpeed's ops


class Setting(NamedTuple):
    """What the items of a part need to know."""

    folder: str  # in which they may write
    rehearses: bool = False

    @property
    def mode(self) -> str:
        """The mode of a training run."""
        return CPU if self.rehearses else CUDA

    @property
    def device(self) -> str:
        """As torch names it."""
        return "cpu" if self.rehearses else "cuda"

    @property
    def gpu(self) -> str | None:
        """The GPU that is measured, by its UUID; None in a rehearsal."""
        return None if self.rehearses else _first().uuid

    @property
    def gpus(self) -> tuple[str, ...]:
        """The same for CUDA_VISIBLE_DEVICES, of which DeepSpeed reads numbers only."""
        return () if self.rehearses else (_first().name,)

    @property
    def ops(self) -> str:
        """Where built ops are."""
        return os.environ.get(OPS) or os.path.join(self.folder, "ops")


@functools.cache
def _first() -> devices.Device:
    return devices.devices()[0]


class Item(NamedTuple):
    """One thing to measure."""

    name: str
    measure: Callable[[Any], Result]  # gets what its lane shares
    seconds: float = 10.0  # that it may take: with less time left, it is left out


class Later(Exception):  # noqa: N818 - nothing is wrong
    """Something that an item needs is on its way: other items come first."""


class Unanswered(Exception):  # noqa: N818 - it is a question
    """A question that only a GPU answers; the message is the question."""
