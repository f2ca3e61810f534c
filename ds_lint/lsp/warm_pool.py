"""The warm process in which the editor trains with configs; torch is imported there, and never in the server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import STATUSES
from ds_lint.linter.choice import choose
from ds_lint.lsp.runs import RunAnswer
from ds_lint.output.smoke import headline, phase_in_words
from ds_lint.targets.distributions import installed

if TYPE_CHECKING:
    from ds_lint.lsp.runs import OnPhase
    from ds_lint.session.context import LintContext
    from ds_lint.smoke.processes.client import Pool
    from ds_lint.source.document import Document

_STARTING = "importing the libraries"


class WarmPool:
    """Started by the first run, and kept for the next ones. One thread runs and closes; any thread may do the rest."""

    def __init__(self) -> None:
        self._pool: Pool | None = None

    def prove(self, document: Document, context: LintContext, on_phase: OnPhase) -> RunAnswer:
        """Train with a config for a few steps, as ``ds-lint check --smoke --smoke-device cpu`` does."""
        from ds_lint.smoke.processes.client import CouldNotRun, Pool
        from ds_lint.smoke.small_run.options import RunOptions
        from ds_lint.smoke.small_run.proof import prove

        try:
            pool = self._pool = self._pool or Pool()
            if not pool.known_versions:
                on_phase(_STARTING)
            _ = pool.versions  # waits for the imports
            verdicts = prove(
                pool,
                document,
                stack=context.lint(document, context.rules).stack or context.basis.stack,
                facts=context.basis.facts,
                target=choose("", {}, installed("")).newest,  # the releases that run, whatever the project pins
                options=RunOptions(),
                on_phase=lambda part, phase: on_phase(phase_in_words(part, phase)),
            )
        except CouldNotRun as error:
            self.close()  # another process may find what is installed meanwhile
            return RunAnswer(f"could not run: {error}", error=str(error))
        except RecursionError:
            return RunAnswer("could not run: the config is nested too deeply")
        worst = min(verdicts, key=lambda verdict: STATUSES.index(verdict.status))
        return RunAnswer(headline(worst), verdicts=verdicts, logs=[one.log for one in verdicts if one.log is not None])

    def cancel(self) -> None:
        """End the current run; imports go on, which the next run needs too."""
        if self._pool is not None:
            self._pool.end_ranks()

    def interrupt(self) -> None:
        """End the process at once, whatever it does."""
        if self._pool is not None:
            self._pool.interrupt()

    def close(self) -> None:
        """End the process, and remove its files and logs."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.close(is_over=False)


class ConfigWork:
    """The run of one config."""

    def __init__(self, pool: WarmPool, document: Document, context: LintContext) -> None:
        self.do = partial(pool.prove, document, context)
        self.cancel = pool.cancel
