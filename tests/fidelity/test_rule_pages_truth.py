"""What the examples of the rule pages claim about DeepSpeed is what the installed DeepSpeed does.

Judged are the examples with ``stack=deepspeed``, and those without a stack, of whose findings only the ones count that
hold for DeepSpeed. Where the library disagrees, the rule is wrong, not the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("deepspeed")

from oracle import Oracle, Verdict

from ds_lint import engine, pages
from ds_lint.finding import STAGES, Finding
from ds_lint.pages import Example
from tools.rule_pages import judge

pytestmark = pytest.mark.fidelity

# What only says that the config names no optimizer, which the script may bring.
NO_OPTIMIZER = ("requires an optimizer", "must provide optimizer", "set_gradient_accumulation_boundary")


@dataclass(slots=True)
class Case:
    """One example, and what DeepSpeed did with it."""

    example: Example
    findings: list[Finding]
    verdict: Verdict

    @property
    def is_rejected(self) -> bool:
        return self.verdict.rejected_at is not None and not any(text in str(self.verdict.error) for text in NO_OPTIMIZER)


def collect() -> dict[str, Example]:
    return {
        f"{rule.code}:{example.line}": example
        for rule in sorted(engine.RULES, key=lambda rule: rule.code)
        for example in pages.examples(pages.page(rule))
        if example.stack in (None, "deepspeed")
    }


EXAMPLES = collect()
each_example = pytest.mark.parametrize("name", EXAMPLES)


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, Case]]:
    """All examples, run at once: a process each, two at a time."""
    found: dict[str, Case] = {}
    with Oracle() as oracle:
        for world_size in sorted({example.world_size or 1 for example in EXAMPLES.values()}):
            here = {name: example for name, example in EXAMPLES.items() if (example.world_size or 1) == world_size}
            data = [example.data for example in here.values()]
            verdicts = oracle.verdicts(data, level="train", as_file=True, world_size=world_size)
            for (name, example), verdict in zip(here.items(), verdicts, strict=True):
                found[name] = Case(example, with_deepspeed(judge(example).findings), verdict)
    yield found


def with_deepspeed(findings: list[Finding]) -> list[Finding]:
    """The findings as they hold for DeepSpeed alone, where the stack of the example is open."""
    return [finding for finding in findings if not finding.effects or finding.effects["deepspeed"] == finding.effect]


@each_example
def test_rejected_is_rejected_at_the_stage_of_the_first(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    stages = [str(finding.stage) for finding in case.findings if finding.effect == "rejected"]
    if case.verdict.unjudged:
        pytest.skip(f"unjudged: {case.verdict.unjudged}")
    expected = min(stages, key=STAGES.index) if stages else None
    assert (case.verdict.rejected_at if case.is_rejected else None) == expected, case.verdict.error


@each_example
def test_ignored_is_ignored(name: str, cases: dict[str, Case]) -> None:
    case = cases[name]
    claimed = {finding.key for finding in case.findings if finding.effect == "ignored"}
    if case.verdict.unjudged or not claimed:
        pytest.skip("nothing to judge")
    assert claimed <= case.verdict.ignored
