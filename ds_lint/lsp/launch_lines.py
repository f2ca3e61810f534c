"""The launches in an open text, and the run of one of them."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import STATUSES
from ds_lint.launches.files import kind_of
from ds_lint.lsp.documents import HUGE, whole_path
from ds_lint.lsp.runs import RunAnswer
from ds_lint.output.smoke import headline
from ds_lint.project.launches import read_launches
from ds_lint.session.launch_runs import LaunchProcess, runnable
from ds_lint.source.files import MOST_BYTES, Files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.launches.launch import Launch
    from ds_lint.lsp.documents import OpenDocument, OpenDocuments
    from ds_lint.lsp.runs import OnPhase

_LONGEST_PHASE = 100  # characters of a line that the script prints
_NOTEBOOK = ".ipynb"


class _OpenFiles(Files):
    """The files on the disk, and in place of some the texts that are open."""

    __slots__ = ("_texts",)

    def __init__(self, opened: Iterable[OpenDocument]) -> None:
        self._texts = {one.whole_path: one.text for one in opened}

    def bytes_of(self, path: str, most: int = MOST_BYTES) -> bytes:
        """The content of a file. Raises OSError."""
        text = self._texts.get(whole_path(path))
        return text.encode(errors="replace") if text is not None else super().bytes_of(path, most)

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return whole_path(path) in self._texts or super().has(path)


def launches_of(opened: OpenDocument, documents: OpenDocuments, project: str) -> list[Launch]:
    """The launches that a text of a project has and that this machine may run: one for each line."""
    is_script = kind_of(opened.path, opened.text[:1000].encode(errors="replace")) not in (None, "python")
    if opened.path.endswith(_NOTEBOOK) or len(opened.text) > HUGE or not (is_script or opened.path.endswith(".py")):
        return []
    file = read_launches(opened.path, project, _OpenFiles(documents))
    if file is None:
        return []
    here = [one for one in file.launches if one.path == file.path and not isinstance(runnable(one, project, 0), str)]
    return list({one.line: one for one in reversed(here)}.values())[::-1]


class LaunchWork:
    """The run of one launch, in a process of its own: it runs what the user has written."""

    def __init__(self, launch: Launch, project: str) -> None:
        self._launch = launch
        self._project = project
        self._process: LaunchProcess | None = None
        self._is_cancelled = False

    def do(self, on_phase: OnPhase) -> RunAnswer:
        """Run it, and say what came of it; what the script prints is shown as it comes."""
        from ds_lint.smoke.small_run import devices  # asks nvidia-smi

        wanted = runnable(self._launch, self._project, devices.visible())
        if isinstance(wanted, str):
            return RunAnswer(f"could not run: {wanted}", error=wanted)
        self._process = LaunchProcess(wanted, first_on_path=os.path.dirname(sys.executable))
        if self._is_cancelled:
            self._process.end()
        outcome = self._process.outcome(lambda line: on_phase(line[:_LONGEST_PHASE]))
        if outcome.error is not None:
            return RunAnswer(f"could not run: {outcome.error}", error=outcome.error)
        worst = min(outcome.verdicts, key=lambda verdict: STATUSES.index(verdict.status))
        others = len(outcome.verdicts) - 1
        more = f" (and {others} more engine{'s' if others > 1 else ''})" if others else ""
        return RunAnswer(f"{headline(worst)}{more}", outcome.verdicts, findings=outcome.findings)

    def cancel(self) -> None:
        """End it like on Ctrl-C."""
        self._is_cancelled = True
        if self._process is not None:
            self._process.end()
