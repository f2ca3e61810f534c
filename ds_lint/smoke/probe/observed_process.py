"""What the probe does in a process of the command, from its first import of a training library to its end."""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from ds_lint.launches.launchers import is_launcher
from ds_lint.smoke.probe import cpu, engines, imports, isolation, missing, shrinking
from ds_lint.smoke.probe.presence import BEFORE, BEFORE_FSDP, IMPORT, Presence

if TYPE_CHECKING:
    from types import TracebackType

    from ds_lint.smoke.probe.plan import Plan

_FIRST_IMPORTED = ("transformers", "accelerate", "deepspeed")
_OF_FSDP = "torch.distributed.fsdp"


def begin(plan: Plan) -> None:
    """Watch this process from now on; whatever the user imports next is hooked as soon as it is there."""
    presence = Presence(plan)
    _watch_ends(presence, plan)
    for name in () if is_launcher(sys.orig_argv) else _FIRST_IMPORTED:
        imports.after(name, lambda _module: presence.enter(BEFORE) if presence.phase in (IMPORT, BEFORE_FSDP) else None)
    if not is_launcher(sys.orig_argv):
        imports.after(_OF_FSDP, lambda _module: presence.enter(BEFORE_FSDP) if presence.phase == IMPORT else None)
    if plan.uses_cpu:
        cpu.install(presence.adapted)
    isolation.install(plan)
    if plan.shrinks:
        shrinking.install(presence)
    engines.install(plan, presence)


def _watch_ends(presence: Presence, plan: Plan) -> None:
    """Note an exception that ends the script, and each way in which it ends by itself."""
    report, leave = sys.excepthook, os._exit

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        presence.raised(error)
        if (why := missing.from_this_machine(error, uses_cpu=plan.uses_cpu)) is not None:
            presence.unable(why)
        report(kind, error, trace)

    def noted(status: int) -> NoReturn:
        presence.ended(f"os._exit({status})")
        leave(status)

    sys.excepthook = note
    os._exit = noted
    atexit.register(presence.ended, "exit")
