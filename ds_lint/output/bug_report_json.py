"""A bug report for programs, as ``schemas/bug_report.schema.json`` describes it."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any, TypeAlias

from ds_lint.diagnostics.report import Report
from ds_lint.output import bug_report, diagnosis_json, effective_values, launches
from ds_lint.output import json as report_json
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.private import hidden
from ds_lint.output.secrets import masked, secrets_of
from ds_lint.output.text import visible

if TYPE_CHECKING:
    from ds_lint.facts.machine.machine import Machine
    from ds_lint.output.bug_report_contents import BugReport, EffectiveConfig

VERSION = 1  # raised when a reader of it would have to change

Json: TypeAlias = "dict[str, object]"


def text(report: BugReport) -> str:
    """The report as JSON."""
    known = secrets_of(report.documents)
    releases = report.releases

    def clean(value: Any) -> Any:
        """A value without secrets and private names; in the text, an escape would part them from their neighbours."""
        if isinstance(value, str):
            return hidden(masked(value, known), report.names, releases)
        if isinstance(value, dict):
            return {name: clean(each) for name, each in value.items()}
        return [clean(each) for each in value] if isinstance(value, (list, tuple)) else value

    return harmless(dumps(clean(document(report)), indent=2) + "\n", JSON, report.documents)


def document(report: BugReport) -> Json:
    """The report as an object of JSON."""
    checked = report_json.as_object(Report(report.files, report.version))
    return {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": report.version},
        "machine": _machine(report.machine),
        "launches": [launches.as_object(file, launch) for file, launch in report.launches],
        "configs": [_config(one) for one in report.configs],
        "not_shown": report.others,
        "files": checked["files"],
        "findings": checked["findings"],
        "advisories": [
            {
                "path": file.path,
                "reached": sorted({one.advisory for one in file.findings if one.advisory}),
                "possible": [{"id": one, "unknown": words} for one, words in file.possible_advisories.items()],
            }
            for file in report.files
        ],
        "diagnosis": diagnosis_json.document(report.diagnosis) if report.diagnosis is not None else None,
        "traceback": [visible(line) for line in bug_report.traceback(report)],
        "smoke": checked.get("smoke", []) if report.smoke else None,
        "problems": report.problems,
    }


def _machine(machine: Machine) -> Json:
    software = machine.software
    return {
        "python": software.python,
        "platform": software.system,
        "distribution": software.distribution,
        "container": software.container,
        "environment": software.environment,
        "installed": [one._asdict() for one in software.installed],
        "missing": [{"name": one.name, "pinned": one.pinned} for one in software.missing],
        "torch": machine.torch._asdict() if machine.torch is not None else None,
        "gpus": [kind._asdict() for kind in machine.driver.kinds],
        "driver": {
            "release": machine.driver.release,
            "cuda": machine.driver.cuda,
            "visible": machine.driver.visible,
            "problem": machine.driver.problem,
        },
        "toolkit": machine.toolkit._asdict() if machine.toolkit is not None else None,
        "build_tools": machine.tools._asdict(),
        "ops": {**machine.ops._asdict(), "ops": [op._asdict() for op in machine.ops.ops]},
        "processors": machine.processors,
        "processor": machine.processor,
        "memory": machine.memory,
        "shared_memory": machine.shared_memory,
        "infiniband": list(machine.infiniband),
        "accelerate_default": machine.accelerate_default._asdict() if machine.accelerate_default is not None else None,
    }


def _config(one: EffectiveConfig) -> Json:
    changed = {value.key for value in one.changed}
    return {
        "path": one.path,
        "stack": one.stack,
        "is_stack_known": one.is_stack_known,
        "target": one.target,
        "launch": one.launch,
        "problem": one.problem,
        "values": [
            {**effective_values.as_object(value), "is_default": value.key not in changed} for value in one.values
        ],
    }
