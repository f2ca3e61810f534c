"""Whole projects in the notations of other users: what is wrong is found, and nothing where all is well."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

ZERO_2 = {"stage": 2, "contiguous_gradients": True}
ZERO_3 = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
WITH_AUTO = {**AUTO, "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}


@pytest.fixture
def codes(run, tmp_path):
    """The codes of the warnings and errors in a project of these files."""

    def check(files):
        write_into(tmp_path)(files)
        found = json.loads(run("check", ".", "--output-format", "json").stdout)["findings"]
        return sorted({finding["code"] for finding in found if finding["severity"] != "info"})

    return check


LIGHTNING = """\
import lightning.pytorch as pl
from lightning.pytorch.strategies import DeepSpeedStrategy
trainer = pl.Trainer(devices=4, precision="bf16-mixed", strategy=DeepSpeedStrategy({keywords}))
trainer.fit(model)
"""


def test_lightning_adds_the_batch_size_to_a_file(codes):
    project = {
        "ds.json": {"zero_optimization": ZERO_2, "bf16": {"enabled": True}},
        "train.py": LIGHTNING.format(keywords='config="ds.json"'),
        "run.sh": "python train.py\n",
    }
    assert codes(project) == []
    assert codes({**project, "ds.json": {"zero_optimization": {**ZERO_2, "overlap_com": True}}}) == ["DS101"]


@pytest.mark.parametrize("release", ["0.15.4", "0.19.8"])
def test_the_precision_that_lightning_adds_is_unknown(codes, release):
    keywords = "stage=2, overlap_comm=True"
    project = {"train.py": LIGHTNING.format(keywords=keywords), "requirements.txt": f"deepspeed=={release}\n"}
    assert codes(project) == []
