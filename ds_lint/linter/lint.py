"""From a document to the report on it, for one release of each library or for those that a project may use."""

from __future__ import annotations

from ds_lint.diagnostics.report import FileReport
from ds_lint.knowledge.keys import Target, knowledge, traced
from ds_lint.linter import engine
from ds_lint.semantics import configs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ds_lint.diagnostics.finding import Severity
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.knowledge.keys import KnownReleases
    from ds_lint.knowledge.trace import Trace
    from ds_lint.linter.choice import Choice
    from ds_lint.semantics.basis import Basis
    from ds_lint.semantics.config import Config
    from ds_lint.source.document import Document


def lint(
    document: Document, basis: Basis, rules: Iterable[Rule] | None = None, *, notes_possible: bool = False
) -> FileReport:
    """What these rules find in a document, or those that are on by default.

    ``notes_possible`` is whether the report tells which advisories may apply, for which more is looked up.
    """
    config = configs.from_document(document, basis)
    report = FileReport(
        document.path,
        document,
        stack=config.stack,
        stacks=config.stacks,
        target=_target(config),
        facts=config.facts.origins,
        missing=[
            *(config.facts.missing(config.stack) if config.foreign not in ("names", "fsdp") else ()),
            *(config.accelerate.unchecked if config.accelerate is not None else ()),
        ],
        material=[*config.facts.training.documents] if config.facts.training else [],
        findings=engine.check(config, rules),
    )
    if notes_possible and basis.pins and config.foreign is None and config.root.kind == "object":
        from ds_lint.semantics.reached_advisories import possible  # not without a release of the project

        report.possible_advisories = possible(config)
    report.material += config.quoted
    launch = config.facts.launch
    report.material += launch.documents if launch is not None else []
    return report


def _target(config: Config) -> dict[str, str]:
    """The releases that a config is checked against: of a script with FSDP, that of torch alone."""
    if config.foreign != "fsdp":
        return config.knowledge.target
    from ds_lint.knowledge.fsdp import newest_release
    from ds_lint.semantics.fsdp_script import torch_pin

    release = newest_release(torch_pin(config))
    return {} if release is None else {"torch": release}


def lint_for(
    choice: Choice,
    document: Document,
    basis: Basis,
    rules: Iterable[Rule] | None = None,
    severities: Mapping[str, Severity] | None = None,
    known: KnownReleases | None = None,
) -> FileReport:
    """The report for the releases that are possible; for an upgrade, what changes from the oldest to the newest.

    Comments in the document count. ``basis`` is for the newest of the releases. ``severities`` has, by code, the
    severity of the findings of a rule where it is to be another than its own. ``known`` is what was looked up for the
    same document with other facts, by release: what one of the lints depends on is taken for what all do, which at
    worst tells more releases apart.
    """
    rules = None if rules is None else list(rules)
    known = {} if known is None else known
    basis = basis.but(pins=choice.pins) if choice.pins else basis

    def lint_by(only: list[Rule] | None, basis: Basis = basis, *, notes_possible: bool = False) -> FileReport:
        report = lint(document, basis, only, notes_possible=notes_possible)
        for finding in report.findings:
            of_rule = (severities or {}).get(finding.code, finding.severity)
            finding.severity = (severities or {}).get(finding.advisory or "", of_rule)
        return report

    def lint_at(
        target: Target, before: Target | None = None, advisories: set[str] | None = None
    ) -> tuple[FileReport, Trace]:
        if target.key not in known:
            known[target.key] = traced(Target(*target.key))
        at_target, trace = known[target.key]
        older = knowledge(before) if before else None
        pins = choice.pins_of(target) if basis.is_upgrade else basis.pins
        at = basis.but(knowledge=at_target, before=older, pins=pins)
        if advisories is not None and pins:
            from ds_lint.knowledge.advisories import exposures

            at = at.but(skipped_advisories=frozenset(one.record["id"] for one in exposures(pins)) - advisories)
        return lint_by(rules, at, notes_possible=before is not None), trace

    if choice.is_range or basis.is_upgrade:
        from ds_lint.linter import release_ranges  # one release of each library does without

        report = (release_ranges.upgraded if basis.is_upgrade else release_ranges.linted)(choice, lint_at)
    else:
        report = lint_by(rules, notes_possible=True)
    is_elsewhere = any(finding.is_elsewhere for finding in report.findings)
    if document.issues or document.language != "json" or is_elsewhere:  # no clean JSON has a comment
        suppress(report, engine.default_rules() if rules is None else rules, lint_by)
    report.sources, report.ranges = choice.origins, choice.ranges
    report.states_releases = any(not pin.is_installed for pin in choice.pins.values())
    return report


def suppress(report: FileReport, rules: list[Rule], lint_by: Callable[[list[Rule]], FileReport]) -> None:
    """Take away what comments in the file suppress, or in the script that a finding is about.

    Those in the file that suppress nothing are findings of their own.
    """
    from ds_lint.diagnostics import suppression

    suppression.apply(report, rules)
    report.add(lint_by([rule for rule in rules if rule.name == suppression.UNUSED]).findings)
