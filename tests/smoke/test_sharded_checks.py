"""What is said of a model that FSDP shards, from records of its ranks and files that they leave."""

from __future__ import annotations

import pytest

from ds_lint.smoke.records.fsdp_trace import SeenClip

torch = pytest.importorskip("torch")
shards = pytest.importorskip("ds_lint.smoke.observe.fsdp_step")
steps = pytest.importorskip("ds_lint.smoke.observe.sampled_step")
inspection = pytest.importorskip("ds_lint.smoke.script.fsdp_inspection")


def rank_of(number, gradient, *, clips=(), factor=1.0, after=None):
    """The notes of one of two ranks, each with one element of a parameter of two."""
    samples = torch.tensor([number])
    own = torch.tensor([gradient], dtype=torch.float64)
    before, rate = torch.ones(1), 0.5
    given = (own * factor).float()
    update = steps.SampledUpdate(
        "weight", samples, samples, before, given, before - rate * given if after is None else after, None, {}, 0,
        {"lr": rate, "weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "nesterov": False},
    )  # fmt: skip
    return shards.SampledShards(
        step=2, ranks=2, micro_steps=1, local={"weight": torch.tensor([1.0, 3.0], dtype=torch.float64)},
        absolute={"weight": torch.tensor([1.0, 3.0], dtype=torch.float64)}, dtypes=["float32"],
        reduced={"weight": (samples, own)}, squares={"weight": float(own.square().sum())}, updates=[update],
        optimizer="torch.optim.sgd.SGD", clips=list(clips), live={}, shards={},
    )  # fmt: skip


@pytest.fixture
def found(tmp_path):
    """What is found of two ranks with these notes."""

    def found(*ranks):
        for number, one in enumerate(ranks):
            (tmp_path / f"rank-{number}").mkdir()
            torch.save(tuple(one), tmp_path / f"rank-{number}" / shards.STEP)
        return inspection.inspect(str(tmp_path), [], is_on_gpus=False)

    return found


def test_gradients_that_are_the_average_of_those_of_all_ranks_pass(found):
    seen = found(rank_of(0, 1.0), rank_of(1, 3.0))
    assert seen.recomputed.mismatches == {}
    assert {"averaging", "update"} <= seen.recomputed.compared.keys()


def test_a_sum_is_no_average(found):
    seen = found(rank_of(0, 2.0), rank_of(1, 6.0))
    assert set(seen.recomputed.mismatches) == {"averaging"}


def test_weights_after_another_update_fail(found):
    seen = found(rank_of(0, 1.0, after=torch.ones(1)), rank_of(1, 3.0))
    assert set(seen.recomputed.mismatches) == {"update"}


def test_gradients_are_clipped_by_the_norm_of_all_ranks(found):
    clip = SeenClip(1.0, 10**0.5)
    seen = found(*(rank_of(number, value, clips=[clip], factor=10**-0.5) for number, value in ((0, 1.0), (1, 3.0))))
    assert not seen.clipped.is_wrong
    assert seen.clipped.norm == pytest.approx(10**0.5)


def test_a_rank_that_clips_by_the_norm_of_its_own_shards_is_noticed(found):
    seen = found(
        rank_of(0, 1.0, clips=[SeenClip(1.0, 1.0)], factor=1.0),
        rank_of(1, 3.0, clips=[SeenClip(1.0, 3.0)], factor=1 / 3),
    )
    assert seen.clipped.is_wrong
    assert seen.clipped.observed == {0: pytest.approx(1.0), 1: pytest.approx(1 / 3)}


@pytest.fixture
def saved(tmp_path):
    """What is found of a saved model; two ranks hold halves of ``weight``."""

    def saved(stored):
        for number in range(2):
            folder = tmp_path / f"rank-{number}"
            folder.mkdir()
            piece = torch.arange(3.0) + 3 * number
            torch.save([("weight", 6, 3 * number, piece)], folder / inspection.SHARDS)
        (tmp_path / "export").mkdir()
        torch.save(stored, tmp_path / "export" / "pytorch_model.bin")
        return inspection.compare_saved(str(tmp_path))

    return saved


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_saved_tensor_is_compared_in_the_dtype_of_the_file(saved, dtype):
    seen = saved({"weight": torch.arange(6.0).reshape(2, 3).to(dtype)})
    assert (seen.same, seen.wrong, seen.missing) == (1, [], [])


def test_a_tensor_of_another_step_is_wrong(saved):
    assert saved({"weight": torch.arange(6.0).reshape(2, 3) + 1}).wrong == ["weight"]


def test_a_tensor_that_no_file_has_is_missing(saved):
    assert saved({"other": torch.zeros(6)}).missing == ["weight"]
