"""What is recovered, read and written with ``round_robin_gradients``, held against constants that are known (DS710)."""

from __future__ import annotations

import re

import pytest
from linted import lint_dict

pytest.importorskip("deepspeed")

from installed import INSTALLED, measured_with_the_newest
from ranks import run

from ds_lint.facts import Facts

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

OUTDATED = "'numactl'|modified inplace|No module named 'deepspeed.checkpoint.ds_to_universal'"
ROUND_ROBIN, IN_ORDER = "true", "false"


def answer(what, stage, round_robin, folder, *, dtype="bf16", ranks=2):
    """How many parameters were right, by what gave them; None where the ranks parted ways."""
    done = run("recovery", what, str(stage), round_robin, dtype, str(folder), ranks=ranks, timeout=180)
    if any(re.search(OUTDATED, error) for error in done.errors):
        pytest.skip(f"DeepSpeed {INSTALLED.deepspeed} does not run this here")
    if done.answers[0] is None:
        print("\n".join(done.errors))
        return None
    return done.answers[0]


def wrong(answer):
    """What gave less parameters than there are."""
    return {what for what, count in answer.items() if count < answer["parameters"]}


def says(stage, round_robin, ranks):
    """What is said of a run that loads a universal checkpoint, which uses the same table as the functions."""
    zero = {"stage": stage, "round_robin_gradients": round_robin == ROUND_ROBIN}
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": zero,
        "checkpoint": {"load_universal": True},
    }
    report = lint_dict(config, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=ranks))
    return [finding.severity for finding in report.findings if finding.code == "DS710"]


EVERY_CASE = [
    (stage, ROUND_ROBIN, ranks, dtype) for stage in (1, 2) for ranks in (2, 3, 5) for dtype in ("bf16", "fp16", "fp32")
]


@pytest.mark.parametrize(
    ("stage", "round_robin", "ranks"),
    [
        (2, ROUND_ROBIN, 3),
        pytest.param(1, ROUND_ROBIN, 2, marks=pytest.mark.long),
        pytest.param(2, IN_ORDER, 2, marks=pytest.mark.long),
        pytest.param(2, ROUND_ROBIN, 1, marks=pytest.mark.long),
        pytest.param(3, ROUND_ROBIN, 2, marks=pytest.mark.long),
    ],
)
def test_the_files_of_a_checkpoint(stage, round_robin, ranks, tmp_path):
    """zero_to_fp32 is right in every case; ds_to_universal cuts the partitions in the order of the model."""
    found = answer("checkpoint", stage, round_robin, tmp_path, ranks=ranks)
    assert found is not None
    assert not wrong(found) & {"partitions", "zero_to_fp32"}
    is_universal_wrong = {"ds_to_universal", "ds_to_universal of states"} <= wrong(found)
    assert is_universal_wrong == (wrong(found) != set()) == bool(says(stage, round_robin, ranks))
    if (stage, round_robin, ranks) == (2, ROUND_ROBIN, 3):  # what was converted on three ranks, loaded on two
        loaded = answer("universal", stage, round_robin, tmp_path, ranks=2)
        assert loaded is not None
        assert wrong(loaded) != set()
        assert says(stage, round_robin, 2) == ["warning"]


@pytest.mark.parametrize(
    ("stage", "round_robin", "ranks"),
    [
        (2, ROUND_ROBIN, 2),
        pytest.param(1, ROUND_ROBIN, 3, marks=pytest.mark.long),
        pytest.param(2, IN_ORDER, 2, marks=pytest.mark.long),
        pytest.param(1, ROUND_ROBIN, 1, marks=pytest.mark.long),
    ],
)
def test_the_functions_that_take_a_parameter(stage, round_robin, ranks, tmp_path):
    found = answer("states", stage, round_robin, tmp_path, ranks=ranks)
    assert found is not None
    titles = set(found) - {"parameters"}
    assert wrong(found) == (titles if says(stage, round_robin, ranks) else set())


@pytest.mark.parametrize(
    ("stage", "round_robin"), [(2, ROUND_ROBIN), pytest.param(2, IN_ORDER, marks=pytest.mark.long)]
)
def test_the_gradients_of_a_parameter(stage, round_robin, tmp_path):
    """Those of another size raise on one rank, and the other one waits."""
    found = answer("gradients", stage, round_robin, tmp_path)
    assert (found is None or wrong(found) != set()) == bool(says(stage, round_robin, 2))


@pytest.mark.long
@pytest.mark.parametrize(("stage", "round_robin", "ranks", "dtype"), EVERY_CASE)
@pytest.mark.parametrize("what", ["checkpoint", "states"])
def test_every_number_of_ranks_and_precision(what, stage, round_robin, ranks, dtype, tmp_path):
    found = answer(what, stage, round_robin, tmp_path, dtype=dtype, ranks=ranks)
    assert found is not None
    right = {"parameters", "partitions", "zero_to_fp32"}
    assert wrong(found) == set(found) - right


@pytest.mark.long
@pytest.mark.parametrize("saved", [IN_ORDER, ROUND_ROBIN])
@pytest.mark.parametrize("stage", [1, 2])
def test_universal_checkpoints_among_ranks(stage, saved, tmp_path):
    """Two mistakes that are the same one cancel: converted with the switch, and loaded with it on as many ranks."""
    assert answer("checkpoint", stage, saved, tmp_path) is not None
    for loaded, ranks in [(ROUND_ROBIN, 2), (IN_ORDER, 2), (ROUND_ROBIN, 3), (IN_ORDER, 3)]:
        found = answer("universal", stage, loaded, tmp_path, ranks=ranks)
        assert found is not None
        is_right = saved == loaded and (loaded == IN_ORDER or ranks == 2)
        assert (wrong(found) == set()) == is_right
