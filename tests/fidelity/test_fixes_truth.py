"""What the fixes make of a config is what the installed DeepSpeed wants: nothing stops sooner, and keys count."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from linted import lint_document

from ds_lint.source import documents

pytest.importorskip("deepspeed")

from agreement import is_decided
from generate import configs
from handwriting import HANDS, written
from installed import INSTALLED, knowledge
from oracle import Oracle, Verdict

from ds_lint.diagnostics.finding import STAGES, Finding
from ds_lint.fixes.application import ALL, SAFE, fix
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from ds_lint.source.spelling import is_comment

pytestmark = pytest.mark.fidelity

# Fixes after which DeepSpeed runs what it ran before, and not what was meant instead.
SAME_RUN = {"DS104", "DS105", "DS106", "DS107", "DS202", "DS301", "DS314"}


@dataclass(slots=True)
class Pair:
    """A config as it was and as it was fixed, and what DeepSpeed did with either."""

    name: str
    before: str
    after: str
    fixed: list[Finding]
    left: list[Finding]
    verdicts: tuple[Verdict, Verdict] | None = None

    @property
    def is_decided(self) -> bool:
        return self.verdicts is not None and all(is_decided(verdict) for verdict in self.verdicts)


def lint_document_as_installed(document):
    return lint_document(document, stack="deepspeed", target=INSTALLED)


def pair(name, text, safeties) -> Pair | None:
    report = fix(documents.from_bytes(text.encode(), name), lint_document_as_installed, safeties)
    return Pair(name, text, report.document.text, report.fixed, report.findings) if report.fixed else None


def random_pairs(seed, count, safeties):
    chance = random.Random(seed)
    for number, config in enumerate(configs(seed, count, knowledge())):
        hand = chance.choice(list(HANDS))
        yield pair(f"{seed}:{number} {hand}", written(config, HANDS[hand], chance), safeties)


def pairs_of_pages():
    for rule in every_rule():
        if rule.kind not in ("config", "syntax"):
            continue  # its examples are for Accelerate or a framework
        for example in pages.examples(Path(pages.path(rule)).read_text(encoding="utf-8")):
            is_for_one_rank = example.stack in (None, "deepspeed") and (example.facts.world_size or 1) == 1
            if example.fixed and is_for_one_rank and example.target.key == (None, None, None):
                yield pair(f"{rule.code}:{example.line}", example.config, example.fixed.safeties)


@pytest.fixture(scope="module", params=[120, pytest.param(800, marks=pytest.mark.long)])
def pairs(request) -> list[Pair]:
    """All of them, trained at once."""
    count = request.param
    found = [
        one
        for one in (*random_pairs(1, count, SAFE), *random_pairs(2, count // 2, ALL), *pairs_of_pages())
        if one is not None and not any(finding.name == "template" for finding in one.left)
    ]
    with Oracle() as oracle:
        texts = [text.encode() for one in found for text in (one.before, one.after)]
        verdicts = oracle.verdicts(texts, as_file=True)
    for one, before, after in zip(found, verdicts[::2], verdicts[1::2], strict=True):
        one.verdicts = before, after
    return found


def stage_of(verdict: Verdict) -> int:
    return STAGES.index(verdict.rejected_at) if verdict.rejected_at else len(STAGES)


def test_there_is_something_to_compare(pairs):
    decided = [one for one in pairs if one.is_decided]
    print(f"{len(decided)} of {len(pairs)} pairs were decided")
    assert len(decided) > len(pairs) / 2 > 40


def is_told(one: Pair) -> bool:
    """Whether a finding that is left says that the fixed config is rejected where it is."""
    _, after = one.verdicts
    return any(finding.effect == "rejected" and finding.stage == after.rejected_at for finding in one.left)


def test_a_fixed_config_stops_no_sooner(pairs):
    for one in pairs:
        if one.is_decided:
            before, after = one.verdicts
            # A `betas: true` stops whatever optimizer takes it; the one that a fixed key selects may take it sooner.
            stops_anyway = before.rejected_at is not None and is_told(one)
            assert stage_of(after) >= stage_of(before) or stops_anyway, (one, after.error)


def test_a_fixed_config_without_a_rejection_trains(pairs):
    for one in pairs:
        if one.is_decided and not any(finding.effect == "rejected" for finding in one.left):
            _, after = one.verdicts
            assert after.rejected_at is None, (one, after.error)


def test_no_key_is_ignored_that_was_read(pairs):
    for one in pairs:
        before, after = one.verdicts
        if one.is_decided and before.rejected_at is None and after.rejected_at is None:
            gone = {finding.key.rpartition(".")[2] for finding in one.fixed if finding.key}
            unread = {key for key in after.ignored - before.ignored - gone if not is_comment(key.rpartition(".")[2])}
            assert not {key for key in unread if knowledge().find(tuple(key.split("."))) is None}, one


def test_the_run_is_the_same_where_nothing_else_is_claimed(pairs):
    compared = 0
    for one in pairs:
        before, after = one.verdicts
        if one.is_decided and before.rejected_at is None and {finding.code for finding in one.fixed} <= SAME_RUN:
            assert after.facts == before.facts, one
            compared += 1
    print(f"{compared} runs were compared")
    assert compared
