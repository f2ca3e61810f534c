"""The batch of a step in the user's own script, and the data of its ranks."""

from __future__ import annotations

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.smoke.records.engine_trace import GOES_ON, SETS_RATES
from ds_lint.smoke.verify import precision
from ds_lint.smoke.verify.script_rates import learning_rates
from ds_lint.smoke.verify.script_steps import batch, samples


def told_batch(*ranks, config=None):
    (check,) = batch(expected(ranks[0], config), runs(list(ranks)))
    return check.status, check.message


def told_samples(*ranks):
    (check,) = samples(expected(ranks[0]), runs(list(ranks)))
    return check.status, check.message


def test_a_step_as_configured():
    assert told_batch(shown(), shown(1)) == ("pass", "a step takes 2 x 2 micro steps x 2 ranks = 8 samples")


@pytest.mark.parametrize(
    ("multiplied_by", "size"),
    [
        pytest.param(4, 16, id="DeepSpeed counts all ranks"),
        pytest.param(2, 8, id="an mpu of the script tells the copies"),
    ],
)
def test_ranks_that_share_tensors_train_on_the_same_samples(multiplied_by, size):
    split = CONFIG | {"tensor_parallel": {"autotp_size": 2}}
    ranks = [shown(rank, world_size=4, multiplied_by=multiplied_by, config=split) for rank in range(4)]
    for one in ranks:
        one.evidence.engine.train_batch_size = size
    assert told_batch(*ranks, config=split) == ("pass", "a step takes 2 x 2 micro steps x 2 ranks = 8 samples")


def test_an_engine_with_other_sizes_fails():
    status, message = told_batch(shown(), shown(1), config=CONFIG | {"gradient_accumulation_steps": 4})
    assert status == "fail"
    assert message.endswith("= 8 samples, but the config asks for 2 x 4 micro steps x 2 ranks = 16")


@pytest.mark.parametrize(
    ("passes", "words"),
    [([1, 1, 1], "1 backward pass"), ([4, 4, 4], "4 backward passes"), ([2, 3, 2], "2 or 3 backward passes")],
)
def test_steps_of_other_numbers_of_micro_steps_fail(passes, words):
    status, message = told_batch(shown(micro_steps=passes), shown(1, micro_steps=passes))
    assert status == "fail"
    assert message == f"the script makes {words} for a step, but the config asks for 2 micro steps"


def test_a_loop_of_accelerate_that_does_not_accumulate_gets_help():
    ranks = [shown(rank, micro_steps=[1, 1, 1], stack="accelerate") for rank in (0, 1)]
    (check,) = batch(expected(ranks[0]), runs(ranks))
    assert check.status == "fail"
    assert check.key == "gradient_accumulation_steps"
    assert "accelerator.accumulate(model)" in check.help


def test_several_losses_in_one_micro_step_are_warned_of():
    one, other = (shown(rank, micro_steps=[4, 4, 4], last_micro_steps=[3, 3, 3]) for rank in (0, 1))
    status, message = told_batch(one, other)
    assert status == "warn"
    assert message.startswith("the script calls `engine.backward` 3 times before `engine.step`")


def test_a_step_without_a_backward_pass_fails():
    ranks = [shown(rank, micro_steps=[0, 0, 0], lacks_backward=True) for rank in (0, 1)]
    status, message = told_batch(*ranks)
    assert status == "fail"
    assert message.startswith("the script does not call `engine.backward` before `engine.step`")
    (loss,) = precision.loss(expected(ranks[0]), runs(ranks))
    assert loss.status == "skip"


def test_passes_of_skipped_micro_steps_fail():
    one, other = (shown(rank, micro_steps=[4, 4, 4], last_micro_steps=[2, 2, 2]) for rank in (0, 1))
    assert told_batch(one, other)[0] == "fail"


def test_a_window_that_ends_with_the_epoch_is_told_and_is_no_failure():
    status, message = told_batch(shown(micro_steps=[2, 2, 1]), shown(1, micro_steps=[2, 2, 1]))
    assert status == "pass"
    assert message.endswith("samples; some steps take 1 micro steps, as at the end of an epoch")


def test_rows_of_packed_and_paired_samples_are_told_and_not_compared():
    assert told_batch(shown(rows=[4, 4]), shown(1, rows=[1])) == (
        "pass",
        "a step takes 2 x 2 micro steps x 2 ranks = 8 samples; the model gets tensors of 1 or 4 rows",
    )


def told_rates(one, other=None):
    (check,) = learning_rates(expected(one), runs([one, other or one]))
    return check.status, check.message


def test_rates_are_those_of_the_config():
    assert told_rates(shown())[0] == "pass"
    one = shown()
    one.evidence.steps = [step._replace(learning_rates=[0.5]) for step in one.evidence.steps]
    assert told_rates(one) == (
        "fail",
        "step 1 has the learning rate 0.5, but the config asks for 0.001",
    )


def test_a_rank_with_other_rates_fails():
    other = shown(1)
    other.evidence.steps = [*other.evidence.steps[:2], other.evidence.steps[2]._replace(learning_rates=[2e-3])]
    for own_rates in (None, "the script sets the learning rates itself"):
        assert told_rates(shown(own_rates=own_rates), other) == (
            "fail",
            "rank 1 steps with the learning rate 0.002 in step 3, and rank 0 with 0.001",
        )


def of_script(rates, why=SETS_RATES, config=None):
    one = shown(own_rates=why)
    steps = [step._replace(learning_rates=[rate]) for step, rate in zip(one.evidence.steps, rates, strict=True)]
    one.evidence.steps = steps
    (check,) = learning_rates(expected(one, config), runs([one, one]))
    return check.status, check.message


PASSES = "the script passes `lr_scheduler` to deepspeed.initialize"
SCHEDULED = {**CONFIG, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 9, "warmup_type": "linear"}}}


@pytest.mark.parametrize(
    ("rates", "why", "status", "words"),
    [
        ([1e-3] * 3, SETS_RATES, "pass", "0.001, 0.001, 0.001 as the config asks for"),
        ([1e-4, 2e-4, 3e-4], SETS_RATES, "pass", "the steps are made with 0.0001, 0.0002, 0.0003"),
        ([1e-4] * 3, SETS_RATES, "warn", "made with 0.0001, 0.0001, 0.0001, but the config asks for 0.001"),
        ([1e-3, 2e-3, 3e-3], SETS_RATES, "warn", "but the config asks for 0.001"),
        ([1e-2, 2e-2, 3e-2], PASSES, "pass", "the steps are made with 0.01, 0.02, 0.03"),
        ([1e-3] * 3, GOES_ON, "skip", "so the learning rates need not be those of the config"),
    ],
)
def test_rates_of_the_script_are_named_and_compared_with_those_that_they_overwrite(rates, why, status, words):
    found = of_script(rates, why)
    assert found[0] == status
    assert why in found[1]
    assert words in found[1]


def test_a_scheduler_of_the_config_whose_rates_the_script_overwrites_is_warned_of():
    status, message = of_script([1e-3] * 3, config=SCHEDULED)
    assert status == "warn"
    assert "but the WarmupLR of the config asks for 0, 0, 0.0001111" in message


def test_ranks_with_the_same_inputs_are_warned_of():
    first = shown()
    status, message = told_samples(first, shown(1, batches=first.batches))
    assert status == "warn"
    assert message.startswith("ranks 0 and 1 train on the same inputs in every step")


def test_ranks_with_the_same_inputs_from_a_micro_step_on_are_warned_of():
    first = shown(batches=[["a", "b"], ["same", "inputs"]])
    status, message = told_samples(first, shown(1, batches=[["c", "d"], ["same", "inputs"]]))
    assert status == "warn"
    assert message.startswith("ranks 0 and 1 train on the same inputs from micro step 3 on: the batch has fewer")


def test_a_few_batches_in_common_at_the_end_are_chance():
    """As in the variable batch sizes of DeepSpeedExamples, whose inputs are constants of few shapes."""
    first = shown(batches=[["a", "b", "c"], ["d", "same", "inputs"]])
    assert told_samples(first, shown(1, batches=[["e", "f", "g"], ["h", "same", "inputs"]]))[0] == "pass"


def test_one_batch_in_common_is_chance():
    first = shown(batches=[["same", "a"], ["b", "c"]])
    assert told_samples(first, shown(1, batches=[["same", "d"], ["e", "f"]]))[0] == "pass"


def test_a_model_without_tensors_as_inputs_shows_nothing():
    for batches in ([["", ""]], [[], []]):
        assert told_samples(shown(batches=batches), shown(1, batches=batches)) == (
            "skip",
            "the engine itself gets no tensors as inputs",
        )


@pytest.mark.parametrize("one", [{"world_size": 1, "data_parallel": 1}, {"world_size": 4, "data_parallel": 2}])
def test_ranks_that_share_samples_are_not_compared(one):
    assert told_samples(shown(**one))[0] == "skip"
