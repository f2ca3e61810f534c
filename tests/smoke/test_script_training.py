"""What a script does to its training: evaluation mode, a loss that is divided twice, parameters without gradients."""

from __future__ import annotations

import pytest
from shown_engines import expected, runs, shown

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.records.job import TrainedParameter
from ds_lint.smoke.verify.script_training import training


def told(**changes):
    ranks = [shown(rank, is_coverage_known=True, **changes) for rank in (0, 1)]
    return check_of(ranks)


def check_of(ranks):
    for one in ranks:
        one.evidence.parameters = [TrainedParameter(name, 10) for name in ("weight", "spare", "head")]
        one.evidence.held = {"master weights": Held(15, 60)}
    (check,) = training(expected(ranks[0]), runs(ranks))
    return check.status, check.message


def test_gradients_of_all_parameters_in_training_mode_pass():
    assert told(divided_again=[0, 0]) == ("pass", "gradients reach all 3 parameters of the optimizer")


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"in_evaluation": [1, 2, 3], "idle": ["dropout of 2 modules"]}, "warn", "in evaluation mode in every step"),
        ({"in_evaluation": [3], "idle": ["dropout of 2 modules"]}, "warn", "in evaluation mode in step 3"),
        ({"in_evaluation": [1, 2, 3]}, "pass", "gradients reach all"),  # the model has no such module
        ({"divided_again": [1, 1]}, "fail", "`engine.backward` divides it again: gradients are 2 times smaller"),
        ({"divided_again": [1, 0]}, "pass", "gradients reach all"),  # a number that the script divides by once
        ({"without_gradient": ["spare"]}, "pass", "gradients reach 2 of 3 parameters of the optimizer, but not spare"),
        ({"without_gradient": ["spare"], "changed_anyway": ["spare"]}, "warn", "the optimizer changes them all the"),
        ({"without_gradient": ["spare"], "cut_off": ["spare"]}, "warn", "compute with gradients switched off"),
        ({"without_gradient": ["spare", "head"]}, "warn", "2 of 3 parameters of the optimizer get no gradient"),
        ({"without_gradient": ["spare"], "frozen_later": ["spare"]}, "warn", "the script freezes 1 parameter after"),
    ],
)
def test_what_the_script_does_to_its_training(changes, status, words):
    found = told(**changes)
    assert found[0] == status
    assert words in found[1]


def test_a_gradient_on_one_rank_is_enough():
    """As of an expert that gets tokens on some ranks."""
    ranks = [shown(0, is_coverage_known=True, without_gradient=["spare"]), shown(1, is_coverage_known=True)]
    assert check_of(ranks) == ("pass", "gradients reach all 3 parameters of the optimizer")
