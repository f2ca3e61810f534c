"""What a report of a bug contains, before it is written as Markdown or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.facts.machine.machine import Machine
    from ds_lint.launches.launch import Launch
    from ds_lint.logs.diagnosis import Diagnosis
    from ds_lint.output.private import PrivateNames
    from ds_lint.project.launches import LaunchFile
    from ds_lint.semantics.effective import Value
    from ds_lint.source.document import Document


class EffectiveConfig(Record):
    """A config as the stack uses it; ``changed`` are the values that are not DeepSpeed's defaults.

    ``problem`` says why there are no values. ``launch`` is what names the config. If it is unknown what loads it, the
    stack is the one that its values are written for.
    """

    path: str
    stack: str | None = None
    is_stack_known: bool = True
    target: dict[str, str] = field(factory=dict)
    launch: str | None = None
    values: list[Value] = field(factory=list)
    changed: list[Value] = field(factory=list)
    problem: str | None = None


class BugReport(Record):
    """All of it. ``others`` are configs that are not shown; ``smoke`` says whether training runs were requested.

    ``problems`` are what could not be read or run. ``names`` are hidden in the text.
    """

    version: str  # of ds-lint
    machine: Machine
    launches: list[tuple[LaunchFile, Launch]]
    configs: list[EffectiveConfig]
    others: list[str]
    files: list[FileReport]
    diagnosis: Diagnosis | None
    smoke: bool
    problems: list[str]
    documents: list[Document]
    names: PrivateNames

    @property
    def releases(self) -> set[str]:
        """Numbers with points in them, which may look like addresses."""
        installed = {one.release for one in self.machine.software.installed}
        in_logs = set(self.diagnosis.releases.values()) if self.diagnosis is not None else set()
        others = {self.machine.driver.release, self.machine.toolkit.release if self.machine.toolkit else None}
        return {release for release in installed | in_logs | others if release}
