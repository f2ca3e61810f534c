"""What ds-lint finds in a dict, a text or a file, for tests that name what it is checked against one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.lint import lint, lint_for
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents
from ds_lint.targets.pin import LIBRARIES, Pin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ds_lint.diagnostics.finding import Finding, Severity
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.knowledge.keys import Target
    from ds_lint.linter.choice import Choice
    from ds_lint.semantics.config import Config
    from ds_lint.source.document import Document


def basis(*, target: Target | None = None, before: Target | None = None, **known: Any) -> Basis:
    """What a config is checked against; the releases that a target names are pinned, as on the command line."""
    if "pins" not in known and target is not None:
        named = {library: getattr(target, library) for library in LIBRARIES}
        known["pins"] = {name: Pin(name, f"=={one}", f"--{name}-version") for name, one in named.items() if one}
    return Basis(knowledge(target), before=knowledge(before) if before else None, **known)


def config_of(document: Document, **known: Any) -> Config:
    return configs.from_document(document, basis(**known))


def lint_document(document: Document, *, rules: Iterable[Rule] | None = None, **known: Any) -> FileReport:
    return lint(document, basis(**known), rules)


def problems(findings: Iterable[Finding]) -> list[tuple[str, str, str, str]]:
    """What findings are about, whatever file and place they stand in."""
    return sorted((one.code, one.key or "", one.severity, one.effect) for one in findings)


def lint_dict(config: Mapping[str, Any], **known: Any) -> FileReport:
    return lint_document(documents.from_dict(config), **known)


def lint_bytes(data: bytes, path: str, **known: Any) -> FileReport:
    return lint_document(documents.from_bytes(data, path), **known)


def lint_file(path: str, **known: Any) -> FileReport:
    with open(path, "rb") as file:
        return lint_bytes(file.read(), path, **known)


def lint_with(
    choice: Choice,
    document: Document,
    *,
    rules: Iterable[Rule] | None = None,
    severities: Mapping[str, Severity] | None = None,
    **known: Any,
) -> FileReport:
    """For the releases that a choice leaves possible, with the comments of the document."""
    return lint_for(choice, document, basis(target=choice.newest, **known), rules, severities)


def config_of_dict(config: Mapping[str, Any], **known: Any) -> Config:
    return configs.from_dict(config, basis(**known))
