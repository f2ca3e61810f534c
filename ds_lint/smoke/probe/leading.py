"""Where a path of the script leads in the folder of the run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.journal import hook

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan


class Leading:
    """Leads paths below the folder for outputs, where they have the same structure as from the root of the system."""

    def __init__(self, plan: Plan) -> None:
        self._outputs = plan.outputs
        self._run = os.path.realpath(plan.folder) + os.sep

    def led(self, path: Any) -> Any:
        """The path in the folder of the run; None, URLs and paths that are already there stay."""
        if not isinstance(path, (str, os.PathLike)) or "://" in (name := os.fspath(path)) or not name:
            return path
        absolute = os.path.abspath(os.path.expanduser(name))
        if f"{os.path.realpath(absolute)}{os.sep}".startswith(self._run):
            return path
        return _like(path, self._outputs + absolute)

    def own(self, path: Any) -> Any:
        """The path of the user that leads to a path in the folder of the run."""
        name = os.fspath(path)
        return _like(path, name[len(self._outputs) :]) if name.startswith(self._outputs + os.sep) else path

    def for_saving(self, path: Any) -> Any:
        """Where a script may save: at a new path itself, which is removed after the run, but not over the user's files.

        What reads the new files again finds them, whichever library it uses.
        """
        journal = hook.installed()
        if journal is None or not isinstance(path, (str, os.PathLike)) or journal.is_free(path):
            return path
        if not journal.was_there(path):
            return path
        led = self.led(path)
        os.makedirs(os.path.dirname(led), exist_ok=True)
        return led

    def for_loading(self, path: Any) -> Any:
        """What the script has saved in this run instead of the user's own, if it has."""
        if not isinstance(path, (str, os.PathLike)):
            return path
        led = self.led(path)
        return led if os.path.exists(led) else path


def _like(path: Any, name: str) -> Any:
    return Path(name) if isinstance(path, Path) else name
