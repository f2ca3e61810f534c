"""ds-lint and the real DeepSpeed agree on random configs: whether they start, when they stop, and which keys count.

The short form runs in every test run; ``-m long`` runs the long one, with other seeds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("deepspeed")

from agreement import Agreement, measure
from installed import INSTALLED

from tools.fidelity.trial import Outcome, Trial

pytestmark = pytest.mark.fidelity


def assert_agreement(agreement: Agreement) -> None:
    for disagreement in agreement.disagreements:
        print(disagreement)
    print(f"{agreement.agreed} of {agreement.count} agree, {agreement.unjudged} were not judged")
    assert agreement.is_enough
    assert len(agreement.unexplained) <= 0.005 * agreement.count, "explain them in agreement.KNOWN, or mend the rule"


def test_two_thousand_random_configs_trained_for_real():
    assert_agreement(measure(20261121, 2000))


def test_files_are_judged_as_hjson_reads_them():
    assert_agreement(measure(7, 300, as_file=True))


def test_measure_prints_what_the_command_reads():
    script = Path(__file__).parent / "measure.py"
    done = subprocess.run([sys.executable, script, "--configs", "4", "--seed", "1"], capture_output=True, check=True)
    trial = Trial(**json.loads(done.stdout), tests=Outcome(0, 0, 0), seconds=0.0)
    assert (trial.release, trial.configs, len(trial.kinds)) == (INSTALLED.deepspeed, 4, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_ten_thousand_more(seed: int):
    assert_agreement(measure(1000 + seed, 2000))
