"""A config linted with the recipes and launches that name it: what several of them bring up is reported once."""

from __future__ import annotations

import os

from ds_lint.diagnostics.finding import Related
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.reads import Reads, values_at
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.facts.reads import Names
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.semantics.basis import Basis

    Material: TypeAlias = TrainingRecipe | LaunchFacts


def linted(basis: Basis, material: Sequence[Material], lint: Callable[[Basis], FileReport]) -> FileReport:
    """The report on a config by each recipe or launch, those that say the same taken together."""
    groups: list[list[Material]] = []
    reports: list[FileReport] = []
    # By what is alike beside values of arguments, and by the values that were read of others: the group of those.
    answered: dict[object, dict[Names, dict[tuple[str, ...], list[Material]]]] = {}
    distinct = grouped(material)
    for group in distinct:
        first = group[0]
        reads: Reads | None = None
        if isinstance(first, LaunchFacts) and len(distinct) > 1:
            alike = answered.setdefault(first.circumstances, {})
            same = (groups_of.get(values_at(names, first)) for names, groups_of in alike.items())
            if (answer := next(filter(None, same), None)) is not None:
                answer += group
                continue
            reads = Reads(first)
        report = lint(with_material(first if reads is None else reads.launch, basis))
        if reads is not None and isinstance(first, LaunchFacts):
            alike.setdefault(reads.names, {})[values_at(reads.names, first)] = group
        _doubt(report, first, basis, lint)
        groups.append(group)
        reports.append(report)
    alone: set[object] | None = None  # what is found without any, once a finding asks
    whole = reports[0]
    by_identity: dict[object, list[int]] = {}
    found: dict[object, Finding] = {}
    for index, report in enumerate(reports):
        for identity, finding in _identified(report, groups[index][0]):
            if identity not in found or (found[identity].doubts and not finding.doubts):
                found[identity] = finding
            by_identity.setdefault(identity, []).append(index)
    for identity, indices in by_identity.items():
        those = [one for index in dict.fromkeys(indices) for one in groups[index]]
        is_due_to_those = len(set(indices)) < len(groups) or _tells_place(found[identity], those)
        if not is_due_to_those and those[0].is_mentioned:
            if alone is None:
                alone = {one for one, _ in _identified(lint(basis))}
            is_due_to_those = identity not in alone
        if is_due_to_those:
            _name(found[identity], those)
    whole.possible_advisories = _possible_advisories(reports)
    whole.findings = []
    whole.add(list(found.values()))
    every = [one for group in groups for one in group]
    documents = [
        *(document for one in every for document in one.documents),
        *(document for report in reports for document in report.material),
    ]
    whole.material = list({document.path: document for document in reversed(documents)}.values())
    if len(every) > 1 and "training arguments" in whole.facts:
        whole.facts = {**whole.facts, "training arguments": f"{every[0].origin}, and {len(every) - 1} more"}
    return whole


def _possible_advisories(reports: Sequence[FileReport]) -> dict[str, list[str]]:
    """What may apply by one recipe or launch, with what the first of those leaves unknown."""
    return {one: words for report in reversed(reports) for one, words in report.possible_advisories.items()}


def grouped(material: Sequence[Material]) -> list[list[Material]]:
    """The recipes and launches, those that say the same together.

    A recipe that a launch starts with counts as the launch has it, and a script that starts itself with a launcher as
    that launches it.
    """
    started = {
        os.path.abspath(one.recipe.document.path)
        for one in material
        if isinstance(one, LaunchFacts) and one.recipe is not None
    }
    again = {one.script_path for one in material if isinstance(one, LaunchFacts) and one.starts_itself}
    kept: list[Material] = []
    for one in material:
        if isinstance(one, LaunchFacts) and one.script_path in again and one.only_starts_script:
            continue
        if not isinstance(one, LaunchFacts) and os.path.abspath(one.document.path) in started:
            continue
        kept.append(one)
    if len(kept) == 1:
        return [kept]
    alike: dict[object, list[Material]] = {}
    for one in kept:
        alike.setdefault(one.says, []).append(one)
    return list(alike.values())


def with_material(one: Material, basis: Basis) -> Basis:
    """What a config is checked against if a recipe or a launch of it is known."""
    facts = basis.facts.with_launch(one) if isinstance(one, LaunchFacts) else basis.facts.with_recipe(one)
    return basis.but(facts=facts, stack=basis.stack or one.stack)


def _doubt(report: FileReport, one: Material, basis: Basis, lint: Callable[[Basis], FileReport]) -> None:
    """Note at each finding that there may not be one because of unknown words of a launch, and which these are."""
    doubts = one.doubts if isinstance(one, LaunchFacts) else []
    if not isinstance(one, LaunchFacts) or not doubts or not report.findings:
        return
    certain = {_cause(finding) for finding in lint(with_material(one.certain(), basis)).findings}
    for finding in report.findings:
        if _cause(finding) not in certain:
            finding.doubts = doubts
            finding.severity = "warning" if finding.severity == "error" else finding.severity


def _cause(finding: Finding) -> object:
    """What is the same if a finding does not depend on a fact, although its subject may be one."""
    return finding.code, finding.key, finding.span, finding.effect


def _identified(report: FileReport, one: Material | None = None) -> Iterator[tuple[object, Finding]]:
    """The findings of a report, each with what is the same in the report of another recipe or launch.

    Where the recipe or launch itself stands makes no difference, another file does, such as the script. Two findings of
    one report are never the same.
    """
    own = _own_paths(one) if one is not None else frozenset()
    numbers: dict[object, int] = {}
    for finding in report.findings:
        elsewhere = frozenset((place.path, place.span) for place in finding.related if place.path not in own)
        same = finding.identity, elsewhere
        numbers[same] = numbers.get(same, 0) + 1
        yield (same, numbers[same]), finding


def _own_paths(one: Material) -> frozenset[str]:
    """The files that a recipe or a launch stands in, with its training arguments."""
    documents = [one.document, *(one.training.documents if one.training is not None else ())]
    if isinstance(one, LaunchFacts) and one.recipe is not None:
        documents.append(one.recipe.document)
    return frozenset(document.path for document in documents)


def _tells_place(finding: Finding, material: Sequence[Material]) -> bool:
    """Whether a finding refers to one of several that bring it up."""
    paths = {one.document.path for one in material}
    return len(material) > 1 and any(related.path in paths for related in finding.related)


def _name(finding: Finding, material: Sequence[Material]) -> None:
    """Let a finding name what brings it up: the first, and how many more."""
    first, others = material[0], len(material) - 1
    plural = "" if others == 1 else "es" if first.noun == "launch" else "s"
    more = f", and {others} more {first.noun}{plural}"
    if any(related.path == first.document.path for related in finding.related) and not others:
        return
    place = first.place or Span(0, 0)
    finding.related = [*finding.related, Related(place, first.label + (more if others else ""), first.document.path)]
