"""``ds-lint doctor`` for programs, as ``schemas/doctor.schema.json`` describes it."""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, TypeAlias

from ds_lint import __version__
from ds_lint.output.text import visible

if TYPE_CHECKING:
    from ds_lint.logs.cause import Cause
    from ds_lint.logs.diagnosis import Contradiction, Diagnosis

VERSION = 1  # raised when a reader of it would have to change

Json: TypeAlias = "dict[str, object]"


def text(diagnosis: Diagnosis) -> str:
    """The diagnosis as JSON."""
    return dumps(document(diagnosis), indent=2) + "\n"


def document(diagnosis: Diagnosis) -> Json:
    """The diagnosis as an object of JSON."""
    return {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        "causes": [_cause(one) for one in diagnosis.causes],
        "contradictions": [_contradiction(one) for one in diagnosis.contradictions],
        "launch": _launch(diagnosis),
        "releases": {name: visible(release) for name, release in diagnosis.releases.items()},
        "logs": [{"path": visible(log.path), "rank": log.rank, "lines": log.lines} for log in diagnosis.logs],
        "unread": diagnosis.unread,
    }


def _cause(cause: Cause) -> Json:
    return {
        "message": visible(cause.message),
        "help": visible(cause.help) or None,
        "code": cause.codes[0] if cause.codes else None,
        "codes": cause.codes,
        "advisory": cause.advisory,
        "key": cause.key,
        "rank": cause.rank,
        "phase": cause.phase,
        "library": cause.library,
        "exception": visible(cause.exception) if cause.exception is not None else None,
        "path": visible(cause.path) if cause.path is not None else None,
        "line": cause.line,
        "confidence": cause.confidence,
        "memory": [visible(text) for text in cause.memory],
        "followers": [{"rank": one.rank, "how": one.how} for one in cause.followers],
        "evidence": [
            {"path": visible(one.path), "line": one.line, "text": visible(one.text)} for one in cause.evidence
        ],
    }


def _contradiction(one: Contradiction) -> Json:
    finding = one.reported.finding
    return {
        "code": finding.code,
        "message": visible(finding.message),
        "path": visible(one.reported.path),
        "line": one.reported.line,
        "evidence": {"path": visible(one.path), "line": one.line},
    }


def _launch(diagnosis: Diagnosis) -> Json | None:
    size = diagnosis.world_size
    command = next((log.facts["command"] for log in diagnosis.logs if "command" in log.facts), None)
    if size is None and command is None:
        return None
    return {"world_size": size, "command": visible(command) if command is not None else None}
