"""Every config that `ds-lint init` writes trains, and every key in it is read: with the real libraries."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from itertools import product
from pathlib import Path
from socket import socket

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin, DistributedType, patch_environment
from accelerate.utils.launch import prepare_deepspeed_cmd_env
from command_line import clean_environment
from installed import measured_with_the_newest
from oracle import Oracle
from trainer import HIDDEN_SIZE, prepare

from ds_lint.commands.init import LAUNCH_FILE, init
from ds_lint.commands.options import InitOptions
from ds_lint.facts import Sources
from ds_lint.scaffold.composition import OFFLOADS, PRECISIONS, STAGES, Purpose, config, refusal

# What is recommended today need not exist in older releases.
pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

POSSIBLE = [
    wish for choice in product(["deepspeed"], STAGES, OFFLOADS, PRECISIONS) if refusal(wish := Purpose(*choice)) is None
]
# A CPU has no libaio, so what goes to a drive is parsed; for fp16 the oracle has stand-ins.
TRAINED = [wish for wish in POSSIBLE if wish.offload != "nvme"]
PARSED = [wish for wish in POSSIBLE if wish.offload == "nvme"]

ADAMW = {"type": "AdamW", "params": {"lr": 5e-5}}  # stands in for the optimizer that the Trainer or the script makes
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}

# What Accelerator._prepare_deepspeed puts in for "auto", for batches of one on one rank.
BY_ACCELERATE = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization.reduce_bucket_size": HIDDEN_SIZE**2,
    "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * HIDDEN_SIZE**2),
    "zero_optimization.stage3_param_persistence_threshold": 10 * HIDDEN_SIZE,
}

# A process that opens no segment in /dev/shm leaves none there.
WITHOUT_SHARED_MEMORY = """
import deepspeed.ops
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
"""
# torch's threads may abort an interpreter that ends by itself.
END = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""

UNDER_ACCELERATE = """
from types import SimpleNamespace
import torch
from accelerate import Accelerator

accelerator = Accelerator(gradient_accumulation_steps=2)
model = torch.nn.Linear(64, 64)
model.config = SimpleNamespace(hidden_size=64)
batches = torch.utils.data.DataLoader(torch.randn(8, 64), batch_size=2)
engine, optimizer, batches = accelerator.prepare(model, torch.optim.AdamW(model.parameters()), batches)
for batch in batches:
    with accelerator.accumulate(engine):
        accelerator.backward(engine(batch.bfloat16()).float().pow(2).mean())
        optimizer.step()
print("trained", engine.global_steps, engine.zero_optimization_stage(), engine.train_batch_size(), model.weight.dtype)
"""

UNDER_THE_TRAINER = """
import safetensors.torch
import torch
import transformers.training_args
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

transformers.training_args.is_torch_bf16_gpu_available = lambda: True
arguments = TrainingArguments(
    "out", deepspeed="ds_config.json", bf16=True, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    max_steps=2, max_grad_norm=0.3, report_to=[], save_strategy="no",
)
shape = LlamaConfig(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=32)
example = {"input_ids": torch.arange(8), "labels": torch.arange(8)}
trainer = Trainer(LlamaForCausalLM(shape), arguments, train_dataset=[example] * 16)
trainer.train()
engine = trainer.model_wrapped
dtype = next(engine.parameters()).dtype
print("trained", engine.global_steps, engine.zero_optimization_stage(), engine.train_batch_size(), dtype)
print("clipped to", engine.gradient_clipping())
trainer.save_model("out/final")
saved = safetensors.torch.load_file("out/final/model.safetensors")
print("saved", len(saved), "tensors,", sum(not tensor.numel() for tensor in saved.values()), "of them empty")
"""


def name(wish: Purpose) -> str:
    return "-".join(map(str, wish[1:4]))


def assert_trained(verdict, wish):
    assert (verdict.undecided, verdict.rejected_at, verdict.error) == (None, None, None)
    assert (verdict.ignored, verdict.auto_dropped) == (set(), set())
    assert (verdict.facts["stage"], verdict.facts["param_dtype"]) == (wish.stage, DTYPES[wish.precision])
    assert verdict.facts["optimizer"] == ("DeepSpeedCPUAdam" if wish.offload == "cpu" else "FusedAdam")
    assert verdict.facts["steps"] == 2


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as oracle:
        yield oracle


def written(wish: Purpose, gpus: int | None = None) -> None:
    """Have the command write its files into the working directory."""
    options = InitOptions(
        stack=wish.stack,
        stage=wish.stage,
        offload=wish.offload,
        precision=wish.precision,
        sources=Sources(world_size=gpus),
    )
    assert init(options) == 0


def trained(script: str, *launcher: str, **environment: str) -> str:
    """What a training script prints that runs on one CPU rank."""
    Path("train.py").write_text(WITHOUT_SHARED_MEMORY + script + END, encoding="utf-8")
    on_cpu = {"DS_ACCELERATOR": "cpu", "ACCELERATE_TORCH_DEVICE": "cpu", "HOME": str(Path.cwd())}
    done = subprocess.run(
        [sys.executable, *launcher, "train.py"],
        env=clean_environment() | on_cpu | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Plain DeepSpeed


@pytest.mark.parametrize("hidden_size", [None, HIDDEN_SIZE])
@pytest.mark.parametrize("wish", TRAINED, ids=name)
def test_plain_deepspeed_trains_and_reads_every_key(oracle, wish, hidden_size):
    assert_trained(oracle.verdict(config(wish._replace(hidden_size=hidden_size))), wish)


def test_plain_deepspeed_takes_the_leaf_modules(oracle):
    wish = Purpose("deepspeed", stage=3, leaf_modules=("Linear",))  # a class of the oracle's model
    verdict = oracle.verdict(config(wish))
    assert_trained(verdict, wish)
    assert verdict.warnings == []
    strangers = oracle.verdict(config(wish._replace(leaf_modules=("PhimoeSparseMoeBlock",))))
    assert any("leaf" in warning for warning in strangers.warnings)


@pytest.mark.parametrize("wish", TRAINED, ids=name)
def test_plain_deepspeed_reads_the_file(oracle, wish):
    """On eight ranks that are not there, from the file that the command writes."""
    verdict = oracle.verdict(config(wish), as_file=True, world_size=8)
    assert (verdict.rejected_at, verdict.error) == (None, None)
    assert verdict.facts["train_batch_size"] == 8


@pytest.mark.parametrize("wish", PARSED, ids=name)
def test_what_goes_to_a_drive_is_parsed(oracle, wish):
    verdict = oracle.verdict(config(wish), level="parse")
    assert (verdict.rejected_at, verdict.error) == (None, None)
    assert verdict.ignored <= {"optimizer.params.lr"}  # read when the optimizer is built


# The Trainer


@pytest.mark.parametrize("wish", TRAINED, ids=name)
def test_the_trainer_fills_every_auto_and_deepspeed_reads_every_key(oracle, wish):
    """With default arguments, so in fp32; the scripts below have others."""
    prepared = prepare(config(wish._replace(stack="trainer")))
    assert '"auto"' not in json.dumps(prepared)
    assert_trained(oracle.verdict({**prepared, "optimizer": ADAMW}), wish._replace(precision="fp32"))


@pytest.mark.parametrize("wish", PARSED, ids=name)
def test_what_the_trainer_keeps_on_a_drive_is_parsed(oracle, wish):
    verdict = oracle.verdict(prepare(config(wish._replace(stack="trainer"))), level="parse")
    assert (verdict.rejected_at, verdict.error, verdict.ignored) == (None, None, set())


def test_a_train_batch_size_of_auto_would_change_nothing(oracle):
    """Guides write it, and DeepSpeed works it out from the other two."""
    without, besides = (
        oracle.verdict(prepare(config(Purpose("trainer")) | more), level="parse").facts
        for more in ({}, {"train_batch_size": "auto"})
    )
    assert without == besides


@pytest.mark.parametrize("stage", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_script_trains_with_the_trainer_and_saves_its_weights(tmp_path, monkeypatch, stage):
    monkeypatch.chdir(tmp_path)
    written(Purpose("trainer", stage))
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    one_rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "LOCAL_SIZE": "1"}
    printed = trained(UNDER_THE_TRAINER, **one_rank, MASTER_ADDR="127.0.0.1", MASTER_PORT=port)
    assert f"trained 2 {stage} 4 torch.bfloat16\nclipped to 0.3\n" in printed
    assert "saved 12 tensors, 0 of them empty\n" in printed


# Accelerate


def launcher_arguments(*words: str) -> Namespace:
    """The arguments that `accelerate launch` makes of the file, as `launch_command` does."""
    parsed = launch_command_parser().parse_args(["--config_file", LAUNCH_FILE, *words, "train.py"])
    arguments, defaults, has_precision = _validate_launch_command(parsed)
    fields = [*defaults.deepspeed_config, *(["mixed_precision"] if has_precision else [])]
    arguments.deepspeed_fields_from_accelerate_config = ",".join(fields)
    return arguments


@pytest.mark.parametrize("gpus", [None, 1, 8])
@pytest.mark.parametrize("wish", POSSIBLE, ids=name)
def test_accelerate_launches_with_the_file(tmp_path, monkeypatch, wish, gpus):
    monkeypatch.chdir(tmp_path)
    written(wish._replace(stack="accelerate"), gpus)
    assert load_config_from_file(LAUNCH_FILE).distributed_type == DistributedType.DEEPSPEED
    arguments = launcher_arguments() if gpus else launcher_arguments("--num_processes", "8")
    assert arguments.use_deepspeed
    assert arguments.num_processes == (gpus or 8)
    _, environment = prepare_deepspeed_cmd_env(arguments)
    with patch_environment(**environment):
        plugin = DeepSpeedPlugin()
    assert (plugin.zero_stage, plugin.zero3_init_flag) == (wish.stage, wish.stage == 3)
    assert plugin.offload_optimizer_device == wish.offload


def test_without_gpus_accelerate_asks_for_their_number(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(Purpose("accelerate"))
    with pytest.raises(ValueError, match="manually pass in `--num_processes`"):
        launcher_arguments()


@pytest.mark.parametrize("wish", TRAINED, ids=name)
def test_accelerate_fills_every_auto_and_deepspeed_reads_every_key(oracle, wish):
    plugin = DeepSpeedPlugin(hf_ds_config=config(wish._replace(stack="accelerate")))
    plugin.set_mixed_precision("no")  # what a script asks for that leaves it to the config
    plugin.fill_match("gradient_accumulation_steps", must_match=False, gradient_accumulation_steps=4)
    plugin.deepspeed_config_process(must_match=False, **BY_ACCELERATE)
    verdict = oracle.verdict({**plugin.deepspeed_config, "optimizer": ADAMW})
    assert_trained(verdict, wish)
    assert verdict.facts["gradient_accumulation_steps"] == 4


def test_a_script_trains_under_accelerate_launch(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(Purpose("accelerate"), gpus=1)
    printed = trained(UNDER_ACCELERATE, "-m", "accelerate.commands.launch", "--config_file", LAUNCH_FILE)
    assert "trained 2 2 4 torch.bfloat16\n" in printed
