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

from agreement import assert_agreement, measure, measure_accelerate, measure_trainer
from installed import INSTALLED, measured_with_the_newest

from tools.fidelity.trial import Outcome, Trial

pytestmark = pytest.mark.fidelity


def test_random_configs_trained_for_real():
    assert_agreement(measure(20261121, 60))


def test_files_are_linted_as_hjson_reads_them():
    assert_agreement(measure(7, 40, as_file=True))


@measured_with_the_newest
def test_a_loop_of_accelerate_with_random_configs():
    assert_agreement(measure_accelerate(20261122, 40))


@measured_with_the_newest
def test_the_trainer_with_random_configs_and_arguments():
    assert_agreement(measure_trainer(1, 40))


def test_measure_prints_what_the_command_reads():
    script = Path(__file__).parent / "measure.py"
    done = subprocess.run([sys.executable, script, "--configs", "4", "--seed", "1"], capture_output=True, check=True)
    trial = Trial(**json.loads(done.stdout), tests=Outcome(0, 0, 0), seconds=0.0)
    assert (trial.release, trial.configs, len(trial.kinds)) == (INSTALLED.deepspeed, 4, 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", [20261121, *range(1000, 1005)])
def test_twelve_thousand_random_configs(seed: int):
    assert_agreement(measure(seed, 2000))


@pytest.mark.long
def test_two_hundred_more_files():
    assert_agreement(measure(7, 200, as_file=True))


@pytest.mark.long
@measured_with_the_newest
@pytest.mark.parametrize("seed", range(2))
def test_two_thousand_more_with_accelerate_and_the_trainer(seed: int):
    assert_agreement(measure_accelerate(1000 + seed, 500))
    assert_agreement(measure_trainer(1000 + seed, 500))
