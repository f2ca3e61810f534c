"""What the examples of the rule pages claim about DeepSpeed is what the installed DeepSpeed does.

Trained are the examples with ``stack=deepspeed``, and those without a stack, of whose findings only the ones count that
hold for DeepSpeed; those that show a training run are trained with where their pages are tested. An example that names
no release is linted with the installed one: an older release may do something
else with it than the page says, and then so must ds-lint. Where the library disagrees, the rule is wrong, not the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("deepspeed")

import endings
from agreement import is_decided
from installed import INSTALLED, knowledge
from oracle import Job, Oracle

from ds_lint.diagnostics.finding import STAGES
from ds_lint.linter import engine  # noqa: F401 - the engine registers the rules
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.rule_pages import lint_example

if TYPE_CHECKING:
    from oracle import Verdict

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.rule_pages.pages import Example

pytestmark = pytest.mark.fidelity


@dataclass(slots=True)
class Case:
    """One example, and what DeepSpeed did with it."""

    example: Example
    findings: list[Finding]
    verdict: Verdict

    @property
    def is_up_to_the_script(self) -> bool:
        """Whether the run ended because it needs another model, which the user's script provides."""
        return self.verdict.rejected_at is not None and not is_decided(self.verdict)

    @property
    def is_rejected(self) -> bool:
        return self.verdict.rejected_at is not None and not self.is_up_to_the_script

    @property
    def undecided(self) -> str | None:
        """Why the verdict says nothing; a template is not what DeepSpeed will see."""
        return "a template" if any(finding.name == "template" for finding in self.findings) else self.verdict.undecided


def collect() -> dict[str, Example]:
    """The examples that DeepSpeed alone may load, by the code of the page and the line."""
    return {
        f"{rule.code}:{example.line}": for_the_installed(example)
        for rule in every_rule()
        if Path(pages.path(rule)).exists() and rule.kind not in ("accelerate", "call", "recipe")  # others run those
        for example in pages.examples(pages.page(rule))
        if example.stack in (None, "deepspeed") and holds_here(example) and not example.is_run
        if not example.files  # test_scripts_truth.py runs their scripts
        if example.language not in ("bash", "python")  # tests of names and of Python run theirs
    }


def holds_here(example: Example) -> bool:
    """Whether the example is about the installed release: it names this one or none, and no upgrade from another."""
    is_upgrade = example.before is not None
    return example.target.deepspeed in (None, INSTALLED.deepspeed) and (knowledge().is_newest or not is_upgrade)


def for_the_installed(example: Example) -> Example:
    example.target = INSTALLED
    return example


EXAMPLES = collect()
REJECTED = [
    name
    for name, one in EXAMPLES.items()
    if any(finding.effect == "rejected" for finding in lint_example(one).findings)
]
WITH_IGNORED = [
    name for name, one in EXAMPLES.items() if any(finding.effect == "ignored" for finding in lint_example(one).findings)
]


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """All examples, run at once: a process each, two at a time."""
    found: dict[str, Case] = {}
    jobs = [Job(one.data, world_size=one.facts.world_size or 1, as_file=True) for one in EXAMPLES.values()]
    with Oracle() as oracle:
        verdicts = oracle.run(jobs)
    for (name, example), verdict in zip(EXAMPLES.items(), verdicts, strict=True):
        found[name] = Case(example, with_deepspeed(lint_example(example).findings), verdict)
    return found


def with_deepspeed(findings: list[Finding]) -> list[Finding]:
    """The findings as they hold for DeepSpeed alone, where the stack of the example is open."""
    return [finding for finding in findings if not finding.effects or finding.effects["deepspeed"] == finding.effect]


@pytest.mark.parametrize("name", EXAMPLES)
def test_rejected_is_rejected_at_the_stage_of_the_first(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    stages = [str(finding.stage) for finding in case.findings if finding.effect == "rejected"]
    if case.undecided:
        pytest.skip(f"undecided: {case.undecided}")
    expected = min(stages, key=STAGES.index) if stages else None
    if expected and case.is_up_to_the_script:
        pytest.skip(f"the run did not come that far: {case.verdict.error}")
    assert (case.verdict.rejected_at if case.is_rejected else None) == expected, case.verdict.error


@endings.of_a_measured_release
@pytest.mark.parametrize("name", REJECTED)
def test_what_raised_leads_to_the_rule(name: str, cases: dict[str, Case]) -> None:
    """``ds-lint doctor`` reads it in a log."""
    case = cases[name]
    if case.undecided or case.is_up_to_the_script:
        pytest.skip(f"undecided: {case.undecided or case.verdict.error}")
    causes = endings.causes(case.findings, case.verdict)
    if case.verdict.ending is None or not causes:
        pytest.skip("ds-lint claims another end, or none")  # the test above
    assert endings.unexplained(causes, case.verdict.ending, case.example.data) is None


@pytest.mark.parametrize("name", WITH_IGNORED)
def test_ignored_is_ignored(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    claimed = {finding.key for finding in case.findings if finding.effect == "ignored"}
    if case.undecided or case.is_rejected:
        pytest.skip("a config that is rejected is not read to its end")
    assert claimed <= case.verdict.ignored
