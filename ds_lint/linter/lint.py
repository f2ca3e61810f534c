"""From a file, a text or a dict to its findings."""

from __future__ import annotations

from _thread import get_ident  # ``threading`` costs the start of a clean check

from ds_lint.diagnostics.report import FileReport
from ds_lint.knowledge.keys import Knowledge, Target
from ds_lint.linter import engine
from ds_lint.semantics.config import Config
from ds_lint.source import json as json_source
from ds_lint.source.files import bytes_of
from ds_lint.source.tree import Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.facts import Facts
    from ds_lint.facts.policy import Policy
    from ds_lint.source.document import Document

_known: dict[tuple[int | str | None, ...], Knowledge] = {}


def knowledge(target: Target | None = None) -> Knowledge:
    """What the libraries of a target know, read once a thread; without a target, the newest known releases.

    It keeps what it was asked, for ``ranges``, and the language server judges large texts in a thread of their own.
    """
    target = target or Target()
    key = (get_ident(), *target.key)
    if key not in _known:
        _known[key] = Knowledge(target)
    return _known[key]


def lint_file(
    path: str,
    *,
    target: Target | None = None,
    stack: Stack | None = None,
    facts: Facts | None = None,
    rules: Iterable[Rule] | None = None,
) -> FileReport:
    """Findings for a file; raises OSError where it cannot be read."""
    return lint_bytes(bytes_of(path), path, target=target, stack=stack, facts=facts, rules=rules)


def lint_bytes(
    data: bytes,
    path: str,
    *,
    target: Target | None = None,
    stack: Stack | None = None,
    facts: Facts | None = None,
    rules: Iterable[Rule] | None = None,
) -> FileReport:
    """Findings for the content of a file."""
    return lint_document(read(data, path), target=target, stack=stack, facts=facts, rules=rules)


def read(data: bytes, path: str) -> Document:
    """The document of a file's bytes, whatever is wrong with them."""
    text, issue = json_source.decode(data)
    document = json_source.read(text, path)
    if issue is not None:
        document.issues.insert(0, issue)
    return document


def lint_dict(
    config: Mapping[str, Any],
    *,
    target: Target | None = None,
    stack: Stack | None = None,
    facts: Facts | None = None,
) -> FileReport:
    """Findings for a dict; their spans point into the JSON that the dict would be written as."""
    return lint_document(as_text(config), target=target, stack=stack, facts=facts, from_file=False)


def as_text(config: Mapping[str, Any]) -> Document:
    """The document of a dict, as JSON would write it."""
    from json import dumps

    text = dumps(dict(config), indent=2, default=lambda value: type(value).__name__)
    document = json_source.read(text, "<dict>")
    document.issues = [issue for issue in document.issues if issue.kind == "template"]  # a dict has no syntax
    return document


def lint_document(
    document: Document,
    *,
    target: Target | None = None,
    stack: Stack | None = None,
    facts: Facts | None = None,
    from_file: bool = True,
    rules: Iterable[Rule] | None = None,
    before: Target | None = None,
    is_upgrade: bool = False,
    policies: Sequence[Policy] = (),
) -> FileReport:
    """Findings for a document that is read already; ``before`` is an older target to compare with."""
    config = config_of(
        document,
        target=target,
        stack=stack,
        facts=facts,
        from_file=from_file,
        before=before,
        is_upgrade=is_upgrade,
        policies=policies,
    )
    findings = engine.check(config) if rules is None else engine.check(config, rules)
    return FileReport(
        document.path,
        document,
        stack=config.stack,
        stacks=config.stacks,
        target=config.knowledge.target,
        facts=config.facts.origins,
        missing=config.facts.missing(config.stack),
        material=config.facts.training.documents if config.facts.training else None,
        findings=findings,
    )


def config_of(
    document: Document,
    *,
    target: Target | None = None,
    stack: Stack | None = None,
    facts: Facts | None = None,
    from_file: bool = True,
    before: Target | None = None,
    is_upgrade: bool = False,
    policies: Sequence[Policy] = (),
) -> Config:
    """The config in a document, as the rules see it."""
    root = document.root or Node("missing", Span(0, 0))
    is_template = any(issue.kind == "template" for issue in document.issues)  # hjson sees no placeholders
    if document.issues and stack == "deepspeed" and not is_template:
        root = _as_deepspeed_reads(document) or root
    config = Config(
        document,
        root,
        knowledge(target),
        stack=stack,
        facts=facts,
        from_file=from_file,
        before=knowledge(before) if before else None,
        is_upgrade=is_upgrade,
        policies=policies,
    )
    if config.facts.training is None:
        return config
    from ds_lint.semantics.preparation.filled import fill_in  # without training arguments hardly anything is known

    return fill_in(config)


def _as_deepspeed_reads(document: Document) -> Node | None:
    """What hjson makes of a text that is no clean JSON; None where it refuses it too."""
    from ds_lint.source import hjson

    try:
        return hjson.read(document.text)
    except hjson.Refused:
        return None
