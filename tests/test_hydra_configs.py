"""Configs that launches compose with Hydra or OmegaConf: what is linted is what the run gets."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

SCRIPT = """\
import deepspeed
import hydra
from omegaconf import OmegaConf

@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(cfg):
    model = make(cfg)
    engine, *_ = deepspeed.initialize(
        model=model, model_parameters=model.parameters(), config=OmegaConf.to_container(cfg.deepspeed, resolve=True)
    )

main()
"""
ZERO = """\
train_micro_batch_size_per_gpu: ${trainer.batch_size}
optimizer: {type: AdamW, params: {lr: "${lr}"}}
bf16: {enabled: true}
zero_optimization:
  stage: %s
"""
PROJECT = {
    "train.py": SCRIPT,
    "conf/config.yaml": "defaults:\n- deepspeed: zero2\n- trainer: default\n- _self_\nlr: 1e-4\n",
    "conf/trainer/default.yaml": "batch_size: 4\n",
    "conf/deepspeed/zero2.yaml": ZERO % 2,
    "conf/deepspeed/zero3.yaml": ZERO % 3,
}


@pytest.fixture
def found(tmp_path, run):
    """The findings of a project with these words behind the script: code, file, line, and the text of the place."""

    def found(words, files=PROJECT, launcher="deepspeed --num_gpus 2"):
        write_into(tmp_path)({**files, "run.sh": f"{launcher} train.py {words}\n"})
        report = json.loads(run("check", ".", "--output-format", "json").stdout)
        result = []
        for one in report["findings"]:
            text = (tmp_path / one["path"]).read_text()
            span = one["span"]
            result.append((one["code"], one["path"][2:], text[span["start"]["offset"] : span["end"]["offset"]]))
        return result

    return found


def test_a_clean_project(found):
    assert found("deepspeed=zero3 trainer.batch_size=8") == []


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("deepspeed.zero_optimization.stage=4", ("DS201", "run.sh", "4")),
        ("deepspeed=zero3 'deepspeed.zero_optimization.stage=4'", ("DS201", "run.sh", "4")),
        (
            "+deepspeed.zero_optimization.overlap_com=true",
            ("DS101", "run.sh", "+deepspeed.zero_optimization.overlap_com"),
        ),
        ("++deepspeed.gradient_cliping=1.0", ("DS101", "run.sh", "++deepspeed.gradient_cliping")),
        ("trainer.batch_size=0", ("DS512", "run.sh", "0")),
        ("deepspeed.zero_optimization.stag=3", ("DS676", "run.sh", "deepspeed.zero_optimization.stag")),
        ("deepspeed.fp16.enabled=true", ("DS676", "run.sh", "deepspeed.fp16.enabled")),
        ("trainer.batchsize=8", ("DS676", "run.sh", "trainer.batchsize")),
    ],
)
def test_what_a_word_sets_is_reported_at_the_word(found, words, expected):
    assert found(words) == [expected]


@pytest.mark.parametrize(
    "words",
    [
        "deepspeed.zero_optimization.stage=$STAGE",
        "deepspeed=$ZERO deepspeed.zero_optimization.stage=9",
        "$MORE deepspeed.zero_optimization.stage=9",
        "--multirun deepspeed.zero_optimization.stage=2,9",
        "deepspeed.zero_optimization.stage=9 deepspeed.zero_optimization.stage=2",
        "deepspeed=other deepspeed.fp16.enabled=true",
    ],
)
def test_what_is_not_known_is_not_reported(found, words):
    assert found(words) == []


def test_what_a_file_sets_is_reported_there(found):
    files = {**PROJECT, "conf/trainer/default.yaml": "batch_size: 0\n"}
    assert found("", files) == [("DS512", "conf/deepspeed/zero2.yaml", "${trainer.batch_size}")]
    over = PROJECT["conf/config.yaml"] + "deepspeed: {zero_optimization: {stage: 7}}\n"
    assert found("", {**PROJECT, "conf/config.yaml": over}) == [("DS201", "conf/config.yaml", "7")]


def test_keys_of_configs_in_python_may_be_there(found):
    files = {**PROJECT, "schemas.py": "from hydra.core.config_store import ConfigStore\n"}
    assert found("deepspeed.fp16.enabled=true", files) == []


def test_options_of_hydra_choose_the_config(found):
    files = {**PROJECT, "conf/other.yaml": "defaults:\n- deepspeed: zero3\n- trainer: default\nlr: 0.1\n"}
    files["conf/deepspeed/zero3.yaml"] = ZERO % 5
    assert found("--config-name other", files) == [("DS201", "conf/deepspeed/zero3.yaml", "5")]
    moved = {"conf/deepspeed/zero3.yaml": ZERO % 3} | {
        name.replace("conf/", "more/"): text for name, text in PROJECT.items()
    }
    assert found("-cp more deepspeed.zero_optimization.stage=6", moved) == [("DS201", "run.sh", "6")]


OMEGACONF = """\
import deepspeed
from omegaconf import OmegaConf

cfg = OmegaConf.load("conf/run.yaml")
cfg = OmegaConf.merge(cfg, OmegaConf.from_cli())
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=model.parameters(), config=OmegaConf.to_container(cfg.ds, resolve=True)
)
"""
RUN = "batch: 2\nds:\n  train_micro_batch_size_per_gpu: ${batch}\n  zero_optimization:\n    stage: 2\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ds.zero_optimization.stage=4", [("DS201", "run.sh", "4")]),
        ("ds.zero_optimization.overlap_com=true", [("DS101", "run.sh", "ds.zero_optimization.overlap_com")]),
        ("ds.zero_optimization.stage=1 other.key=3", []),
    ],
)
def test_a_script_merges_with_omegaconf(found, words, expected):
    assert [one for one in found(words, {"train.py": OMEGACONF, "conf/run.yaml": RUN}) if one[0] != "DS302"] == expected


@pytest.mark.parametrize(
    "change",
    [
        "ds = OmegaConf.to_container(cfg.deepspeed)\n    ds.update(train_batch_size=8)",
        "cfg.deepspeed.zero_optimization.stage = 1\n    ds = cfg.deepspeed",
        "cfg['deepspeed']['zero_optimization'].update(stage=1)\n    ds = cfg.deepspeed",
    ],
)
def test_what_the_script_changes_is_not_known(found, change):
    text = SCRIPT.replace("model = make(cfg)", f"model = make(cfg)\n    {change}")
    text = text.replace("OmegaConf.to_container(cfg.deepspeed, resolve=True)", "ds")
    files = {**PROJECT, "train.py": text, "conf/deepspeed/zero2.yaml": "train_batch_size: auto\n" + ZERO % 2}
    assert found("", files) == []
    assert found("" if ".update(train" in change else "deepspeed.zero_optimization.stage=9", files) == []


def test_python_starts_a_script_with_such_words(found):
    assert ("DS201", "run.sh", "4") in found("deepspeed.zero_optimization.stage=4", launcher="python")
