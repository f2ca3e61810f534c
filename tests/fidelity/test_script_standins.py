"""What stands for GPUs and weights in a script that was written for them, with the real libraries."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from command_line import clean_environment
from installed import measured_with_the_newest

pytestmark = [
    measured_with_the_newest,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke"),
]

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
PATIENCE = 300
# 7.5 billion parameters with tied weights.
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
}
WHOLE, SMALL = 7_504_924_672, 8_278_336
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}
PLAIN = CONFIG | {
    "zero_optimization": {"stage": 2},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The working directory: configs, and a model without weights."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "plain.json").write_text(json.dumps(PLAIN))
    (tmp_path / "zero3.json").write_text(json.dumps(CONFIG))
    (tmp_path / "ungathered.json").write_text(json.dumps(CONFIG | {"zero_optimization": {"stage": 3}}))
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("CXX", "/bin/false")
    return tmp_path


def found_by(program, *arguments, **variables):
    done = subprocess.run(
        [sys.executable, os.path.join(PROGRAMS, program), *arguments],
        env=clean_environment() | variables, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.fidelity
def test_a_script_that_names_cuda_gets_the_cpu(unused_port):
    found = found_by(
        "cuda_script.py", RANK="0", WORLD_SIZE="1", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(unused_port),
    )  # fmt: skip
    assert found["devices"] == ["cpu"]
    assert found["questions"] == {
        "is_available": True,
        "of_a_library": False,
        "device_count": 2,
        "current_device": 1,
        "bf16": True,
        "capability": [8, 0],
        "major": 8,
        "allocated": 0,
    }
    assert found["accelerator"] == {"is_available": True, "device_count": 2, "type": "cuda", "index": 1}
    assert found["arithmetic"] == {
        "dtypes": ["torch.float16", "torch.bfloat16"],
        "scripted": [0.0, 1.0],
        "compiled": [4, 4],
        "milliseconds": True,
        "generator": True,
    }
    assert found["groups"] == {"backends": ["gloo", "gloo"], "mean": 3.0, "mesh": "cpu", "sharded": "cpu"}
    assert found["told"] == [
        "FSDP shards over ranks of the CPU, with the arithmetic that it has on GPUs",
        "an average over ranks is a sum, divided by their number: gloo has none",
        "streams and events of torch.cuda are those of the CPU, which has none",
        "the CPU takes the place of every CUDA device",
        "the backend nccl is gloo",
        "torch.accelerator shows the script a GPU for each rank of its node",
        "torch.autocast of CUDA is that of the CPU",
        "torch.compile leaves uncompiled what the compiler of this machine cannot compile",
        "torch.cuda reports no memory, because no GPU holds any",
        "torch.cuda shows the script a GPU for each rank of its node, with bf16 and compute capability 8.0",
    ]


@pytest.mark.long
@pytest.mark.fidelity
def test_fsdp_assembles_its_weights_on_cpu_ranks(unused_port):
    """By itself, FSDP 1 refuses CPU ranks, and frees the weights that it takes to the CPU for a state dict."""
    program = os.path.join(PROGRAMS, "sharded_script.py")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(unused_port),
         program],
        env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == {"devices": "cpu", "is_same": True}


@pytest.mark.fidelity
def test_every_way_to_make_a_model_makes_a_small_one(folder):
    found = found_by("shrunk_script.py", "model", "adapter", HF_HUB_OFFLINE="1")
    models = found["models"]
    alike = models.pop("alike")
    assert alike.pop("loss") == pytest.approx(11.8, abs=0.5)  # the logarithm of the vocabulary
    assert set(alike.values()) == {True}
    llamas = {name: one for name, one in models.items() if one["class"] == "LlamaForCausalLM"}
    assert {one["parameters"] for one in llamas.values()} == {SMALL}
    assert {one["vocabulary"] for one in llamas.values()} == {LLAMA["vocab_size"]}
    assert {one["positions"] for one in llamas.values()} == {LLAMA["max_position_embeddings"]}
    assert {one["attention"] for one in llamas.values()} == {"sdpa"}
    assert {one["name"] for one in llamas.values()} == {"model"}
    assert {name: one["dtype"].removeprefix("torch.") for name, one in models.items()} == {
        "loaded": "bfloat16", "again": "float16", "named": "bfloat16", "labels": "bfloat16",
        "from_config": "bfloat16", "direct": "float32", "own_config": "float32", "own_class": "float32",
    }  # fmt: skip
    assert {name for name, one in models.items() if not one["is_training"]} == {"loaded", "again", "named", "labels"}
    assert all(one["is_on_cpu"] and one["hidden"] == 64 for one in models.values())
    assert len(set(found["adapters"])) == 1
    assert {(one["model"], one["before"], one["after"]) for one in found["shrunk"]} == {
        ("LlamaForCausalLM", WHOLE, SMALL),
        ("LlamaForSequenceClassification", WHOLE + 5 * 4096, SMALL + 5 * 64),
        ("GPT2LMHeadModel", 354_823_168, models["own_config"]["parameters"]),
        ("Scorer", 12 * (1024 * 1024 + 1024), models["own_class"]["parameters"]),
    }
    assert found["told"] == [
        "attn_implementation flash_attention_2 is the attention of torch, because its kernels need a GPU",
    ]
    tokenizer = "is not on this machine: download it, or pass a local folder with it"
    config = "the config of `someone/absent` is not on this machine: pass a folder with its config.json"
    assert found["absent"] == {
        "tokenizer": f"the tokenizer of `someone/absent` {tokenizer}",
        "tokenizer of a folder": f"the tokenizer of `model` {tokenizer}",
        "config": config,
        "model": config,
        "file": None,
    }


def smoke(*command, options=()):
    done = start(*command, options=options)
    report = json.loads(done.stdout)
    return done, report["smoke"][0]


def start(*command, options=()):
    return subprocess.run(
        [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--cpu", "--output-format", "json", "--exit-zero",
         *options, "--", *command],
        env=clean_environment(), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def adapted(run):
    return [one["why"] for one in run["adaptations"] if one["key"] is None and one["from"] is None]


@pytest.mark.long
def test_a_plain_script_for_gpus_trains_on_cpu_ranks(folder, unused_port):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port")
    script = os.path.join(PROGRAMS, "users", "plain.py")
    done, run = smoke(*torchrun, str(unused_port), script, "--deepspeed_config", "plain.json")
    assert (done.returncode, run["status"]) == (0, "pass"), done.stderr[-3000:]
    assert "the backend nccl is gloo" in adapted(run)
    assert "2 GPUs" in done.stderr


@pytest.mark.long
def test_a_loop_with_accelerate_trains_small_under_zero_init(folder, unused_port):
    launch = (sys.executable, "-m", "accelerate.commands.launch", "--use_deepspeed", "--num_processes", "2")
    launch += ("--deepspeed_config_file", "zero3.json", "--zero3_init_flag", "true", "--main_process_port")
    script = os.path.join(PROGRAMS, "users", "loop.py")
    done, run = smoke(*launch, str(unused_port), script, "--model", "model", options=("--shrink",))
    assert (done.returncode, run["status"]) == (0, "pass"), done.stderr[-3000:]
    assert run["parameter_count"] == SMALL
    made = next(one for one in run["adaptations"] if "--shrink" in one["why"])
    assert (f"{WHOLE:,} parameters" in made["from"], made["to"]) == (True, f"{SMALL:,} parameters")


@pytest.mark.long
def test_the_trainer_trains_small(folder, unused_port):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port")
    script = os.path.join(PROGRAMS, "users", "trainer.py")
    flags = "--output_dir out --deepspeed zero3.json --bf16 --tf32 true --optim adamw_torch_fused --max_steps 50"
    flags += " --per_device_train_batch_size 2 --report_to none"
    done, run = smoke(
        *torchrun, str(unused_port), script, "--model", "model", *flags.split(), options=("--shrink",)
    )  # fmt: skip
    assert (done.returncode, run["status"]) == (0, "pass"), done.stderr[-3000:]
    assert "tf32 changes nothing, because only GPUs have it" in adapted(run)


@pytest.mark.long
def test_an_actor_begins_as_its_reference_though_no_weights_are_loaded(folder, unused_port):
    torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port")
    script = os.path.join(PROGRAMS, "users", "rlhf.py")
    done = start(*torchrun, str(unused_port), script, "ungathered.json", "model", options=("--shrink", "--no-resume"))
    runs = json.loads(done.stdout)["smoke"]
    assert [run["status"] for run in runs] == ["pass"] * 3, done.stderr[-3000:]
    assert done.stderr.count("divergence at the start: 0.0") == 2


@pytest.mark.long
def test_a_script_that_ends_for_an_absent_tokenizer_is_status_2_with_its_name(folder):
    (folder / "train.py").write_text(
        "import transformers\ntransformers.AutoTokenizer.from_pretrained('someone/absent')\n"
    )
    done = start(sys.executable, "train.py", options=("--shrink",))
    assert done.returncode == 2
    named = "the tokenizer of `someone/absent` is not on this machine: download it, or pass a local folder with it"
    assert named in done.stderr
