"""The probe in the processes of the user's own command; importing it starts it, if ``ds-lint smoke`` runs the command.

A script that does not get ``PYTHONPATH`` from its launcher (``python -I``, a container) imports it as its first line.
"""

from __future__ import annotations

import os

from ds_lint.smoke.probe import plan as plans


def _begin() -> None:
    plan = plans.of_environment()
    if plan is None:
        return
    from ds_lint.smoke.journal import hook
    from ds_lint.smoke.probe import observed_process

    if hook.installed() is None:  # the startup hook was dropped
        if os.path.exists(plan.over):
            os._exit(0)
        hook.install(plan.folder)
    observed_process.begin(plan)


_begin()
