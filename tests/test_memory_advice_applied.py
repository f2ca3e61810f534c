"""Every kind of advice can be followed: with the change made, the run takes what was predicted and is accepted."""

from __future__ import annotations

import copy
import json

import pytest
from command_line import write_into
from test_memory_command import MODEL

from ds_lint.commands.parser import parse

CPU = {"device": "cpu"}
BATCH = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
PLAIN = {"bf16": {"enabled": True}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, **BATCH}
AUTO = {"bf16": {"enabled": "auto"}, **dict.fromkeys(BATCH, "auto")}
SCRIPT = """\
import os
import deepspeed, torch
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
# first
model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.bfloat16, attn_implementation=os.environ["KIND"])
# then
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
"""
TRAINER = """\
import os
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("model", attn_implementation=os.environ["KIND"])
trainer = Trainer(model=model, args=args)
"""
FLAGS = {
    "output_dir": "out", "deepspeed": "ds.json", "bf16": True, "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
}  # fmt: skip

AS_OPTIONS = {  # for what a script shows only in other words
    'attn_implementation="sdpa" in from_pretrained': ["--attention", "sdpa"],
    "model = get_peft_model(model, LoraConfig(r=16))": ["--lora", "r=16"],
}


class Run:
    """A project with one launch, to which advice is applied."""

    def __init__(self, folder, capsys, config, flags=None):
        self.folder, self.capsys = folder, capsys
        self.config, self.flags = copy.deepcopy(config), dict(flags or {})
        self.script = TRAINER if flags else SCRIPT
        self.launch = {"world_size": 8, "nodes": 1}
        self.options = []

    def write(self, key, value, place):
        if place == "config":
            *sections, name = key.split(".")
            section = self.config
            for one in sections:
                section = section.setdefault(one, {})
            section[name] = value
        elif place == "arguments":
            self.flags[key] = value
        elif place == "launch":
            self.launch[key] = value
        elif place == "data":
            self.options += [f"--{key.replace('_', '-')}", str(value)]
        elif key in AS_OPTIONS:
            self.options += AS_OPTIONS[key]
        else:
            mark = "# then" if key.startswith("model.") else "# first"
            self.script = self.script.replace(mark, key.replace("(config)", '("ds.json")'))

    def asked(self, *arguments):
        nodes, ranks = self.launch["nodes"], self.launch["world_size"]
        flags = " ".join(f"--{name} {value}" for name, value in self.flags.items())
        hosts = "".join(f"node{node} slots={ranks // nodes}\n" for node in range(nodes))
        where = "--hostfile hosts" if nodes > 1 else f"--num_gpus {ranks // nodes}"
        launch = f"deepspeed {where} train.py {flags}\n"
        files = {"ds.json": self.config, "train.py": self.script, "run.sh": launch, "model/config.json": MODEL}
        files["hosts"] = hosts
        write_into(self.folder)({**files, ".git/HEAD": ""})
        self.capsys.readouterr()
        options = self.options if arguments[0] == "memory" else []
        parse([*arguments, *options, "--output-format", "json"])
        return json.loads(self.capsys.readouterr().out)

    @property
    def errors(self):
        found = self.asked("check", ".")["findings"]
        return {one["code"] for one in found if one["effect"] == "rejected"}


def zero(stage, **settings):
    return {"zero_optimization": {"stage": stage, **settings}}


CHECKPOINTED = {**FLAGS, "per_device_train_batch_size": 1, "gradient_checkpointing": True}


@pytest.mark.parametrize(
    ("config", "flags", "length", "room", "kinds"),
    [
        ({**PLAIN, **zero(0)}, None, 4096, ("100GB",), {"ZeRO stage 2", "micro batch 1", "fused attention"}),
        (
            {**PLAIN, **zero(2)}, None, 4096, ("26.8GB",),
            {
                *("ZeRO stage 3", "activation checkpointing", "optimizer offload to the CPU", "micro batch 2"),
                *("micro batch 1", "fused attention"),
            },
        ),
        (
            {**PLAIN, **zero(3, offload_optimizer=CPU, offload_param=CPU)}, None, 4096, ("16GB",),
            {
                *("model built in shards", "activation checkpointing", "micro batch 1", "smaller buckets"),
                "sequences of 2048 tokens",
            },
        ),
        (
            {**AUTO, **zero(2, offload_optimizer={"pin_memory": False})}, FLAGS, 4096, ("27GB",),
            {
                *("ZeRO stage 3", "activation checkpointing", "optimizer offload to the CPU", "micro batch 2"),
                *("micro batch 1", "fused attention"),
            },
        ),
        (
            {**AUTO, **zero(3, offload_optimizer=CPU)},
            CHECKPOINTED, 128, ("17GB",),
            {
                *("smaller buckets", "parameter offload to the CPU", "optimizer and parameter offload to NVMe"),
            },
        ),
        (
            {**AUTO, **zero(3, offload_optimizer=CPU)}, FLAGS, 4096, ("200GB", "--host-memory", "100GB"),
            {"no offload", "16 ranks on 2 nodes", "micro batch 2", "fused attention"},
        ),
    ],
)  # fmt: skip
def test_a_change_brings_what_was_predicted(config, flags, length, room, kinds, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    memory = ("memory", "run.sh", "--sequence-length", str(length), "--gpu-memory", *room)
    before = Run(tmp_path, capsys, config, flags)
    advice, errors = before.asked(*memory)["advice"], before.errors
    said = {part.partition(" instead")[0] for one in advice for part in one["change"].split(", ")}
    assert said == kinds
    for one in advice:
        changed = Run(tmp_path, capsys, config, flags)
        for write in one["writes"]:
            changed.write(**write)
        found = changed.asked(*memory)
        assert found["rank"]["total"]["bytes"] == one["rank_bytes"], one["change"]
        assert found["host"]["bytes"] == one["host_bytes"], one["change"]
        assert changed.errors <= errors, one["change"]


def test_what_the_stack_rejects_is_not_advised(tmp_path, monkeypatch, capsys):
    """ZeRO refuses Lamb unless it is allowed to take optimizers that were not tested with it."""
    monkeypatch.chdir(tmp_path)
    memory = ("memory", "run.sh", "--sequence-length", "512", "--gpu-memory", "70GB")
    lamb = {**PLAIN, "optimizer": {"type": "Lamb", "params": {"lr": 1e-5}}, "zero_optimization": {"stage": 0}}
    assert not any("ZeRO" in one["change"] for one in Run(tmp_path, capsys, lamb).asked(*memory)["advice"])
    allowed = Run(tmp_path, capsys, {**lamb, "zero_allow_untested_optimizer": True}).asked(*memory)["advice"]
    assert any("ZeRO stage 3" in one["change"] for one in allowed)
