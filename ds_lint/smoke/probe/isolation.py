"""Keeps what a script writes apart from the user's own files, and keeps it from sending anything.

What Python writes is in the journal anyway, and undone after the run. The rest is here: outputs of the frameworks go to
the folder of the run, writers that Python does not see tell the journal, loggers and pushes to the hub are off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.smoke.probe import hub, loggers, outputs, swap, writers

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan


def install(plan: Plan) -> None:
    """Hook each library as soon as it is imported."""
    outputs.install(plan)
    swap.install(plan)
    writers.install(plan)
    loggers.install(plan)
    hub.install()
