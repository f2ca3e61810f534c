"""FSDP as flags of ``accelerate launch``, as variables, and as training arguments of a call or a launch."""

from __future__ import annotations

import json

import pytest
from linted import lint_document
from newest import FLAGS, NEWEST

from ds_lint.knowledge.keys import Target
from ds_lint.source import python

SCRIPT = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B")
trainer = Trainer(model=model, args=args)
trainer.train()
trainer.save_model(args.output_dir)
"""
FSDP = "accelerate launch --use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP --num_processes 8"
WHOLE = "--fsdp_state_dict_type FULL_STATE_DICT"
YAML = "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"


@pytest.fixture
def findings(run, tmp_path):
    """A function that checks a project with a launching script, and gives code, file and message of each finding."""

    def check(command, *, script=SCRIPT, files=None):
        for name, text in {"run.sh": command, "train.py": script, **(files or {})}.items():
            (tmp_path / name).write_text(text)
        done = run("check", ".", "--output-format", "json", *FLAGS)
        found = json.loads(done.stdout)["findings"]
        return [(one["code"], one["path"].rpartition("/")[2], one["message"]) for one in found]

    return check


def of_call(call, release=NEWEST["transformers"]):
    """The codes of the findings in a call."""
    (document,) = python.read(
        f'from transformers import TrainingArguments\n\nTrainingArguments("out", {call})\n', "a.py"
    )
    return [one.code for one in lint_document(document, target=Target(**{**NEWEST, "transformers": release})).findings]


def codes(found):
    return [code for code, _, _ in found]


@pytest.mark.parametrize(
    ("flags", "code", "told"),
    [
        (f"{WHOLE} --fsdp_offload_params cpu", "DS652", "`--fsdp_offload_params` is neither true nor false"),
        (f"{WHOLE} --fsdp_sharding_strategy NO_SHARD", "DS653", "`--fsdp_sharding_strategy` has no effect: FSDP 2"),
        (f"{WHOLE} --zero_stage 3", "DS653", "`--zero_stage` has no effect"),
        (f"{WHOLE} --fsdp_transformer_layer_cls_to_wrap LlamaDecoderLayer", "DS668", "names LlamaDecoderLayer"),
        ("", "DS659", "writes no weights for from_pretrained"),
    ],
)
def test_flags_are_settings(findings, flags, code, told):
    ((found, path, message),) = findings(f"{FSDP} {flags} train.py --output_dir out\n")
    assert (found, path) == (code, "run.sh")
    assert told in message


def test_flags_that_are_right(findings):
    assert findings(f"{FSDP} {WHOLE} --fsdp_transformer_layer_cls_to_wrap Qwen2DecoderLayer train.py\n") == []


def test_variables_are_settings(findings):
    variables = "export ACCELERATE_USE_FSDP=true\nexport FSDP_VERSION=2\nexport FSDP_STATE_DICT_TYPE=FULL_STATE_DICT\n"
    wrong = f"{variables}export FSDP_AUTO_WRAP_POLICY=TRANSFORMER_BASED_WARP\ntorchrun --nproc_per_node 8 train.py\n"
    ((code, path, message),) = findings(wrong)
    assert (code, path) == ("DS652", "run.sh")
    assert message.startswith("`FSDP_AUTO_WRAP_POLICY` is not one of")
    assert findings(wrong.replace("WARP", "WRAP")) == []


def test_flags_of_a_script(findings):
    found = findings("torchrun --nproc_per_node 8 train.py --output_dir out --fsdp full_shrad\n")
    assert found == [("DS660", "run.sh", "`fsdp` has an unknown option, full_shrad: the Trainer raises")]


def test_a_file_that_the_arguments_name(findings):
    config = '{"fsdp_offload_params": true, "state_dict_type": "sharded"}'
    command = "torchrun --nproc_per_node 8 train.py --output_dir out --fsdp --fsdp_config fsdp.json\n"
    found = findings(command, files={"fsdp.json": config})
    assert sorted((code, path) for code, path, _ in found) == [("DS660", "fsdp.json"), ("DS661", "fsdp.json")]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ('fsdp="full_shard auto_wrap"', []),
        ('fsdp=True, fsdp_config={"offload_params": True}', ["DS661"]),
        ("fsdp=True, fsdp_config=load()", []),
        ('fsdp=option, fsdp_config={"offload_params": True}', []),
        ('fsdp=True, fsdp_config={"version": 1, "reshard_after_forward": "hybrid_shrad"}', ["DS660"]),
        ('fsdp_config={"version": 2}', ["DS661"]),
    ],
)
def test_calls(call, expected):
    assert of_call(call) == expected


@pytest.mark.parametrize(
    ("release", "call", "expected"),
    [
        ("4.46.3", 'fsdp="full_shard offload"', []),
        ("4.46.3", 'fsdp="offload"', ["DS660"]),
        ("4.46.3", 'fsdp="full_shard shard_grad_op"', ["DS660"]),
        ("4.46.3", 'fsdp="full_shard auto_wrap", fsdp_config={"fsdp_backward_prefetch": "backward_pre"}', ["DS661"]),
        ("4.57.6", 'fsdp="full_shard auto_wrap", fsdp_config={"fsdp_backward_prefetch": "backward_pre"}', []),
        ("4.57.6", 'fsdp="full_shard", fsdp_config={"transformer_layer_cls_to_wrap": ["A"]}', ["DS661"]),
        ("4.57.6", 'fsdp="full_shard", fsdp_config={"state_dict_type": "SHARDED_STATE_DICT"}', ["DS661"]),
        ("4.30.2", 'fsdp="full_shard", fsdp_config={"state_dict_type": "SHARDED_STATE_DICT"}', []),  # not read
        ("4.35.2", 'fsdp="hybrid_shard"', ["DS660"]),
        ("4.36.0", 'fsdp="hybrid_shard"', []),
        (
            "4.41.0",
            'fsdp="full_shard", fsdp_config={"cpu_ram_efficient_loading": True, "sync_module_states": False}',
            ["DS660"],
        ),
    ],
)
def test_calls_by_release(release, call, expected):
    assert of_call(call, release) == expected


QUANTIZED = """\
import torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM, BitsAndBytesConfig

accelerator = Accelerator()
config = BitsAndBytesConfig(load_in_4bit=True{})
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-1.5B", quantization_config=config)
model = accelerator.prepare(model)
"""


@pytest.mark.parametrize(
    ("version", "more", "expected"),
    [
        (1, "", ["DS669"]),
        (1, ", bnb_4bit_quant_storage=torch.bfloat16", []),
        (1, ", **others", []),
        (2, "", []),
    ],
)
def test_weights_in_4_bits(findings, version, more, expected):
    files = {"fsdp.yaml": f"{YAML}  fsdp_version: {version}\n"}
    command = "accelerate launch --config_file fsdp.yaml train.py\n"
    assert codes(findings(command, script=QUANTIZED.format(more), files=files)) == expected


def test_a_script_that_changes_the_policy(findings):
    """DS668 says nothing then."""
    files = {"fsdp.yaml": f"{YAML}  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"}
    command = "accelerate launch --config_file fsdp.yaml train.py --output_dir out\n"
    assert codes(findings(command, files=files)) == ["DS668"]
    changed = SCRIPT.replace("trainer.train()", "trainer.accelerator.state.fsdp_plugin.auto_wrap_policy = own\n")
    assert codes(findings(command, script=changed, files=files)) == []
