"""An engine of the user's script that makes no step: what its ranks hold, compute with, and call.

Forward passes are counted at the model itself, because a script that generates calls ``engine.module``. How many have
begun and ended is in a file all the time: a rank that waits for others that have ended leaves nothing else.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.records import engine_trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.records.engine_trace import EngineTrace


class ForwardPasses:
    """Counts the forward passes of a model on one rank, until it is trained."""

    def __init__(
        self,
        plan: Plan,
        trace: EngineTrace,
        model: Any,
        before_first: Callable[[], None] | None = None,
        after_first: Callable[[], None] | None = None,
    ) -> None:
        self._before_first, self._after_first = before_first, after_first
        self._begun = self._ended = 0
        os.makedirs(plan.own_folder, exist_ok=True)
        path = engine_trace.path_of_passes(plan.own_folder, trace.evidence.rank, trace.number)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._pid = os.getpid()
        self._handles = [
            model.register_forward_pre_hook(self._begins, prepend=True),
            model.register_forward_hook(self._ends),
        ]

    def stop(self) -> None:
        """The model is trained: its passes belong to steps."""
        for handle in self._handles:
            handle.remove()
        if self._handles:
            self._handles = []
            os.close(self._file)

    def _begins(self, *_: Any) -> None:
        if os.getpid() != self._pid:
            return
        if self._begun == 0 and self._before_first is not None:
            self._before_first()
        self._begun += 1
        self._write()

    def _ends(self, *_: Any) -> None:
        if os.getpid() != self._pid:
            return
        self._ended += 1
        self._write()
        if self._ended == 1 and self._after_first is not None:
            self._after_first()

    def _write(self) -> None:
        os.pwrite(self._file, struct.pack(engine_trace.PASSES, self._begun, self._ended), 0)
