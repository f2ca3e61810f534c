"""A checkpoint beside the config of the run that resumes."""

from __future__ import annotations

import pytest
from saved_folders import engine_folder, universal_folder, write

from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.resumed_config import ResumedConfig, differences
from ds_lint.checkpoints.resumption import answer


def compared(path, **settings):
    resumed = ResumedConfig(**{"stage": 2, "dtype": "bf16", **settings})
    saved = saved_folder(str(path), is_universal=resumed.loads_universal)
    found = differences(saved, resumed)
    return [(one.key, one.raises) for one in found], answer(saved, "ckpt", None, None, found)


STAGES = [
    (0, 1, "FileNotFoundError"), (0, 3, "AssertionError"), (1, 0, "TypeError"), (1, 2, None), (2, 1, None),
    (2, 3, "AssertionError"), (3, 0, "AssertionError"), (3, 2, "AssertionError"), (3, 3, None),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "raised"), STAGES)
def test_another_stage(tmp_path, before, after, raised):
    _, given = compared(engine_folder(tmp_path, before), stage=after)
    assert given.status == ("no" if raised else "yes")
    assert raised is None or raised in given.why


@pytest.mark.parametrize(
    ("prefix", "dtype", "raised"),
    [("bf16_", "fp32", True), ("bf16_", "fp16", True), ("", "bf16", True), ("", "fp16", False), ("", "fp32", None)],
)
def test_another_dtype(tmp_path, prefix, dtype, raised):
    found, _ = compared(engine_folder(tmp_path, 2, prefix=prefix), dtype=dtype)
    assert found == ([] if raised is None else [(dtype, raised)])


def test_another_optimizer(tmp_path):
    engine_folder(tmp_path, 2)
    assert compared(tmp_path, optimizer="sgd")[0] == [("optimizer.type", True)]
    assert compared(tmp_path, optimizer="adam")[0] == []


def test_a_scheduler_that_the_saved_run_did_not_have(tmp_path):
    engine_folder(tmp_path, 2, lr_scheduler=None)
    assert compared(tmp_path, scheduler="WarmupLR")[0] == [("scheduler", True)]


def test_a_universal_checkpoint_needs_its_setting(tmp_path):
    universal_folder(tmp_path, 2)
    assert compared(tmp_path)[0] == [("checkpoint.load_universal", True)]
    assert compared(tmp_path, loads_universal=True)[0] == []
    assert compared(tmp_path, loads_universal=True, stage=3)[1].status == "no"


def test_the_setting_needs_a_universal_checkpoint(tmp_path):
    _, given = compared(engine_folder(tmp_path, 2), loads_universal=True)
    assert given.status == "convert"
    assert "ds_to_universal" in given.command


def test_weights_are_no_checkpoint(tmp_path):
    write(tmp_path, {"pytorch_model.bin": b""})
    assert "Can't find a valid checkpoint" in compared(tmp_path)[1].why
