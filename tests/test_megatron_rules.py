"""Options of Megatron-DeepSpeed: what a launch and its config say of each other."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.cli import run

SIZES = "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024"
BATCH = "--micro-batch-size 4 --global-batch-size 64"
NO_PIPELINE = "--no-pipeline-parallel"
CONFIG = {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}


@pytest.fixture
def codes(monkeypatch, capsys, tmp_path):
    """A function that says what is found in a project, by code."""
    monkeypatch.chdir(tmp_path)

    def check(options, config=None, *, ranks=8, script=None):
        words = f"pretrain_gpt.py {SIZES} {options} --deepspeed --deepspeed_config ds.json"
        files = {"run.sh": f"deepspeed --num_gpus {ranks} {words}\n", "ds.json": CONFIG | (config or {})}
        write_into(tmp_path)(files | ({} if script is None else {"pretrain_gpt.py": script}))
        run(["check", ".", "--output-format", "json", "--ignore", "DS881"])
        return {one["code"]: one["message"] for one in json.loads(capsys.readouterr().out)["findings"]}

    return check


@pytest.mark.parametrize(
    "options",
    [
        f"{BATCH} --bf16",
        f"{BATCH} --bf16 --zero-stage 1 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2",
        f"--micro-batch-size 4 --bf16 {NO_PIPELINE}",
        f"{BATCH} --bf16 --clip-grad 1.0",
    ],
)
def test_options_that_agree_with_the_config(codes, options):
    assert codes(options) == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (f"{BATCH} --bf16 --tensor-model-parallel-size 3", "world size (8) is not divisible by"),
        (f"{BATCH} --bf16 --fp16", "`not args.bf16` is false"),
        (f"{BATCH} --bf16 --pipeline-model-parallel-size 2 {NO_PIPELINE}", "must be 1 if pipeline parallel"),
        ("--micro-batch-size 4 --global-batch-size 60 --bf16", "global batch size (60) is not divisible"),
        (f"{BATCH} --bf16 --train-iters 10 --train-samples 10", "expected iteration-based training"),
    ],
)
def test_options_that_megatron_refuses(codes, options, message):
    found = codes(options)
    assert list(found) == ["DS689"]
    assert message in found["DS689"]


def test_more_stages_than_ranks_are_as_many_as_there_are_ranks(codes):
    """Megatron takes the smaller number, so that one rank has no pipeline."""
    options = f"{BATCH} --bf16 --pipeline-model-parallel-size 2 {NO_PIPELINE}"
    assert "DS689" not in codes(options, ranks=1)


def test_stage_2_needs_a_model_without_pipeline(codes):
    stage_2 = {"zero_optimization": {"stage": 2}}
    assert list(codes(f"{BATCH} --bf16", stage_2)) == ["DS690"]
    assert codes(f"{BATCH} --bf16 {NO_PIPELINE}", stage_2) == {}


@pytest.mark.parametrize(
    ("options", "config", "message"),
    [
        (f"{BATCH} --bf16 --zero-stage 2", {}, "trains with stage 1 of the config"),
        (f"{BATCH} --bf16 --zero-stage 3 {NO_PIPELINE}", {}, "the first forward pass raises at stage 1"),
        (f"{BATCH} --bf16 --zero-stage 1 {NO_PIPELINE}", {"zero_optimization": {"stage": 3}}, "holds the whole model"),
        (f"{BATCH} --bf16", {"train_micro_batch_size_per_gpu": 2}, "counts 4 micro-batches a step"),
        (f"{BATCH} --bf16", {"train_micro_batch_size_per_gpu": 3}, "64 is not a multiple of 3 on 8 ranks"),
        (f"{BATCH} --bf16", {"train_batch_size": 32}, "overrides `train_batch_size` 32"),
        (f"{BATCH} --fp16", {}, "casts the model to bfloat16"),
        (f"{BATCH} --bf16 --clip-grad 0.5", {}, "clips at 1 by default"),
        (f"{BATCH} --bf16 --clip-grad 0.5", {"gradient_clipping": 0.0}, "does not clip"),
        (f"{BATCH} --bf16", {"optimizer": {"type": "Adam"}}, "ignores `optimizer` of the config"),
    ],
)
def test_options_against_the_config(codes, options, config, message):
    found = codes(options, config)
    assert list(found) == ["DS691"]
    assert message in found["DS691"]


def test_a_dtype_that_the_config_switches_off_is_not_the_other_one(codes):
    assert codes(f"{BATCH} --bf16", {"fp16": {"enabled": False, "loss_scale": 0}}) == {}


def test_the_optimizer_is_where_the_offload_is(codes):
    offload = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    plain = f"{BATCH} --bf16 {NO_PIPELINE}"
    assert list(codes(plain, offload)) == ["DS692"]
    assert codes(f"{plain} --cpu-optimizer", offload) == {}
    assert list(codes(f"{plain} --cpu-optimizer")) == ["DS692"]
    assert codes(plain, offload | {"zero_force_ds_cpu_optimizer": False}) == {}


def test_ranks_that_share_a_model_count_as_one(codes):
    """DS512: on 8 ranks with tensor parallelism of 2, 4 ranks have samples of their own."""
    sizes = {"train_batch_size": 64, "gradient_accumulation_steps": 4}
    options = f"{BATCH} --bf16 --tensor-model-parallel-size 2"
    assert codes(options, sizes) == {}
    assert list(codes(f"{BATCH} --bf16", sizes)) == ["DS512"]


@pytest.mark.parametrize(
    ("options", "script"),
    [
        (f"{BATCH} --bf16 --tensor-model-parallel-size 3 --my-own-option 1", None),  # of another edition
        (f"{BATCH} --bf16 --tensor-model-parallel-size $TP", None),
        (f"{BATCH} --bf16 --tensor-model-parallel-size 3", "import argparse\nargs = argparse.ArgumentParser()\n"),
    ],
)
def test_what_is_not_known_is_not_reported(codes, options, script):
    assert not {"DS689", "DS690", "DS691", "DS692"} & codes(options, script=script).keys()


def test_a_script_that_imports_megatron_is_one(codes):
    script = "from megatron.training import pretrain\n\npretrain()\n"
    assert "DS689" in codes(f"{BATCH} --bf16 --tensor-model-parallel-size 3", script=script)
    assert "DS690" not in codes(f"{BATCH} --bf16", {"zero_optimization": {"stage": 2}}, script=script)


PIPELINE = """
import deepspeed
from deepspeed.pipe import PipelineModule

{}
engine, _, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config="ds.json")
"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("net = PipelineModule(layers=layers(), num_stages=2)", ["DS690"]),
        ("class Net(PipelineModule):\n    pass\n\nnet = Net(layers())", ["DS690"]),
        ("net = Net(layers())", []),
        ("net = PipelineModule(layers=layers()) if stages() > 1 else Net(layers())", []),
    ],
)
def test_a_pipeline_of_the_script(tmp_path, monkeypatch, capsys, made, found):
    monkeypatch.chdir(tmp_path)
    config = CONFIG | {"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    files = {"run.sh": "deepspeed train.py\n", "train.py": PIPELINE.format(made), "ds.json": config}
    write_into(tmp_path)(files)
    run(["check", ".", "--output-format", "json"])
    assert [one["code"] for one in json.loads(capsys.readouterr().out)["findings"]] == found
