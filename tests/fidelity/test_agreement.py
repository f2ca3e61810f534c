"""ds-lint and the real DeepSpeed agree on random configs: whether they start, when they stop, and which keys count.

The short form runs in every test run; ``-m long`` runs the long one, with other seeds.
"""

from __future__ import annotations

import copy
import json

import pytest

pytest.importorskip("deepspeed")

from agreement import INSTALLED, Disagreement, compare, is_known
from generate import configs
from oracle import Oracle

from ds_lint import linting

pytestmark = pytest.mark.fidelity

JUDGED = {"target": INSTALLED, "stack": "deepspeed", "world_size": 1}
AGREED = 0.99  # the share of configs on which both must agree


def disagreements(seed: int, count: int, *, level: str, as_file: bool = False) -> list[Disagreement]:
    made = list(configs(seed, count, linting.knowledge(INSTALLED)))
    with Oracle() as oracle:
        given = [json.dumps(config) for config in made] if as_file else copy.deepcopy(made)
        verdicts = oracle.verdicts(given, level=level, as_file=as_file)
    found = []
    for config, verdict in zip(made, verdicts, strict=True):
        if as_file:
            report = linting.lint_bytes(json.dumps(config).encode(), "x.json", **JUDGED)
        else:
            report = linting.lint_dict(config, **JUDGED)
        findings = report.findings
        if level == "parse":
            findings = [finding for finding in findings if finding.stage in ("load", "parse")]
        if (difference := compare(config, findings, verdict)) and (level != "parse" or difference.kind != "ignored"):
            found.append(difference)
    return found


def assert_agreement(found: list[Disagreement], count: int) -> None:
    for difference in found:
        print(difference)
    print(f"{count - len(found)} of {count} agree")
    assert count - len(found) >= AGREED * count
    unexplained = [difference for difference in found if not is_known(difference)]
    assert len(unexplained) <= 0.005 * count, "explain them in agreement.KNOWN, or mend the rule"


def test_two_thousand_random_configs_trained_for_real():
    assert_agreement(disagreements(20261121, 2000, level="train"), 2000)


def test_files_are_judged_as_hjson_reads_them():
    assert_agreement(disagreements(7, 300, level="train", as_file=True), 300)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_ten_thousand_more(seed: int):
    assert_agreement(disagreements(1000 + seed, 2000, level="train"), 2000)
