"""``ds-lint memory``: what it prints of a config or a launch, and what it says if a fact is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest
from command_line import clean_environment, write_into
from jsonschema import Draft7Validator

from ds_lint.commands.parser import parse
from ds_lint.knowledge import resources
from ds_lint.output.text import width_of

if TYPE_CHECKING:
    from pathlib import Path

ZERO_2 = {
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "train_micro_batch_size_per_gpu": 2,
    "zero_optimization": {"stage": 2},
}
ZERO_3 = {
    "bf16": {"enabled": "auto"},
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "tie_word_embeddings": False, "vocab_size": 128256,
}  # fmt: skip
PARAMETERS = 8_030_261_248  # of meta-llama/Llama-3.1-8B, by its model card
LAUNCH = """\
#!/bin/bash
deepspeed --num_gpus 8 train.py --deepspeed conf/z3.json --model_name_or_path model --bf16 True \\
  --per_device_train_batch_size 4 --max_seq_length 2048 --gradient_checkpointing True --output_dir out --do_train

torchrun --nproc-per-node 4 train.py --deepspeed conf/z3.json --model_name_or_path acme/unheard-of-7b --bf16 True \\
  --output_dir out --do_train --save_steps 10
"""
SCRIPT = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments
arguments = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
"""
FACTS = ("--model", "model", "--world-size", "8", "--stack", "deepspeed")


class Said(NamedTuple):
    """What a command printed, and its status."""

    status: int
    out: str
    err: str


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    files = {"ds.json": ZERO_2, "conf/z3.json": ZERO_3, "model/config.json": MODEL, "run.sh": LAUNCH}
    write_into(tmp_path)({**files, "train.py": SCRIPT, ".git/HEAD": ""})
    return tmp_path


@pytest.fixture
def memory(project, capsys):
    def memory(*arguments) -> Said:
        try:
            status = parse(["memory", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        return Said(status, *capsys.readouterr())

    return memory


@pytest.fixture
def described(memory):
    """The JSON of a command, which the schema describes."""
    with open(resources.path("schemas", "memory.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft7Validator.check_schema(schema)

    def described(*arguments):
        said = memory(*arguments, "--output-format", "json")
        found = json.loads(said.out)
        Draft7Validator(schema).validate(found)
        return found

    return described


def test_the_table_has_every_kind_and_the_verdict(memory, described):
    said = memory("ds.json", *FACTS, "--gpu", "A100-80GB")
    assert said.status == 0
    lines = said.out.splitlines()
    assert lines[0] == "ds.json: ZeRO stage 2, bf16, optimizer adamw, 8 ranks"
    assert lines[1] == "  model: 8.03 billion parameters; micro batch 2"
    cells = {line[:20].strip(): line[20:].split()[0] for line in lines if "GiB" in line and ":" not in line}
    found = described("ds.json", *FACTS, "--gpu", "A100-80GB")
    for kind in ("parameters", "gradients", "master_weights", "optimizer_states"):
        gib = found["rank"][kind]["bytes"]["likely"] / 2**30
        assert float(cells[kind.replace("_", " ")]) == pytest.approx(gib, rel=0.005)
    assert float(cells["parameters"]) == pytest.approx(2 * PARAMETERS / 2**30, rel=0.005)
    assert cells["capacity"] == "80.0"


def test_what_is_not_known_is_named_and_leaves_it_open(memory, described):
    said = memory("ds.json", *FACTS, "--gpu", "A100-80GB")
    assert "not included: activations (set --sequence-length)" in said.out
    assert "may fit: A100 has 80.0 GiB" in said.out
    found = described("ds.json", *FACTS, "--gpu", "A100-80GB")
    assert "activations" not in found["rank"]
    assert found["fits"] == {"gpu": None, "host": None}
    assert found["left_out"] == ["activations (set --sequence-length)"]


def test_a_run_that_does_not_fit_has_status_1_and_gets_advice(memory, described):
    said = memory("ds.json", *FACTS, "--gpu-memory", "33.8GB")
    assert said.status == 1
    assert "does not fit: the GPU has 33.8 GiB, but the run takes at least " in said.out
    assert "\nThis makes what is counted surely fit:\n  ZeRO stage 3, smaller buckets" in said.out
    assert "\n      zero_optimization.stage = 3\n      zero_optimization.reduce_bucket_size = 50000000\n" in said.out
    assert "\n      speed: parameters are gathered in each pass" in said.out
    assert "\n      saving: whole weights are saved only with stage3_gather_16bit_weights_on_model_save\n" in said.out
    found = described("ds.json", *FACTS, "--gpu-memory", "33.8GB")
    assert found["fits"]["gpu"] is False
    first, *_ = found["advice"]
    assert first["writes"][0] == {"place": "config", "key": "zero_optimization.stage", "value": 3}
    assert {price["kind"] for price in first["price"]} == {"speed", "saving"}
    assert not any(one["is_sure"] for one in found["advice"])  # activations are not counted
    assert all(one["rank_bytes"]["likely"] <= 33.8 * 2**30 for one in found["advice"])


def test_the_host_counts_too(memory, described):
    config = ("conf/z3.json", "--gpu", "A100-80GB")
    said = memory(*config, "--host-memory", "64GB")
    assert said.status == 1
    assert "does not fit: the host has 64.0 GiB" in said.out
    assert "no offload: " in said.out
    assert memory(*config, "--host-memory", "2000GB").status == 0
    found = described(*config, "--host-memory", "64GB")
    assert found["fits"]["host"] is False
    assert found["advice"]
    for one in found["advice"]:
        assert one["host_bytes"]["most" if one["is_sure"] else "likely"] <= 64 * 2**30


def test_a_launch_tells_everything(memory, described):
    said = memory("run.sh:2")
    assert (said.status, said.err) == (0, "")
    assert said.out.startswith("conf/z3.json: ZeRO stage 3 with optimizer offload to CPU, bf16, ")
    assert "; micro batch 4; sequence length up to 2048; activation checkpointing; launched at run.sh:2" in said.out
    found = described("run.sh:2")
    assert (found["path"], found["launch"]) == ("conf/z3.json", "run.sh:2")
    known = {name: found["setup"][name] for name in ("parameters", "ranks", "micro_batch", "sequence_length")}
    assert known == {"parameters": PARAMETERS, "ranks": 8, "micro_batch": 4, "sequence_length": 2048}
    assert found["setup"]["activation_checkpointing"] is True


def test_a_recipe_and_the_makefile_that_starts_it_tell_the_same(described, project):
    recipe = (
        "model_name_or_path: model\nstage: sft\nfinetuning_type: full\ntemplate: llama3\ndataset: identity\n"
        "deepspeed: conf/z3.json\ncutoff_len: 1024\nper_device_train_batch_size: 2\nbf16: true\n"
    )
    write_into(project)({"sft.yaml": recipe, "Makefile": "train:\n\tllamafactory-cli train sft.yaml\n"})
    (project / "run.sh").unlink()
    for path in ("sft.yaml", "Makefile:2"):
        found = described(path, "--world-size", "4")
        known = {name: found["setup"][name] for name in ("ranks", "stage", "micro_batch", "sequence_length")}
        assert known == {"ranks": 4, "stage": 3, "micro_batch": 2, "sequence_length": 1024}
        assert found["setup"]["activation_checkpointing"] is True
        assert found["path"] == "conf/z3.json"


def test_a_yaml_of_accelerate_tells_its_ranks(described, project):
    yaml = (
        "distributed_type: DEEPSPEED\nmixed_precision: bf16\nnum_machines: 2\nnum_processes: 16\n"
        "deepspeed_config:\n  zero_stage: 3\n  offload_param_device: cpu\n"
    )
    write_into(project)({"accelerate.yaml": yaml})
    found = described("accelerate.yaml", "--model", "model")
    known = {name: found["setup"][name] for name in ("ranks", "nodes", "stage", "dtype", "offload_param")}
    assert known == {"ranks": 16, "nodes": 2, "stage": 3, "dtype": "bf16", "offload_param": "cpu"}


def test_a_config_gets_the_facts_of_the_launch_that_names_it(described):
    found = described("conf/z3.json")
    assert (found["launch"], found["setup"]["ranks"], found["setup"]["micro_batch"]) == ("run.sh:2", 8, 4)


def test_checkpointing_is_open_if_a_script_that_is_not_there_may_set_it(described, project):
    (project / "train.py").unlink()
    text = LAUNCH.replace("--gradient_checkpointing True ", "")
    (project / "run.sh").write_text(text, encoding="utf-8")
    assert described("run.sh:2")["setup"]["activation_checkpointing"] is None


def test_a_reference_model_and_pairs_count(described, memory, project):
    """TRL keeps a frozen copy of the model, whole below stage 3, and computes two sequences of each sample."""
    flags = (
        "--model_name_or_path model --deepspeed ds.json --bf16 True --per_device_train_batch_size 1 --max_length 512"
    )
    write_into(project)(
        {
            f"{name}.sh": f"trl {name} {flags} --gradient_checkpointing True --output_dir out --num_processes 8\n"
            for name in ("sft", "dpo", "rloo")
        }
    )
    alone, paired, rewarded = (described(f"{name}.sh", "--gpu", "H200") for name in ("sft", "dpo", "rloo"))
    assert paired["rank"]["reference_model"]["bytes"]["least"] == 2 * PARAMETERS
    assert paired["rank"]["activations"]["bytes"]["most"] > 1.7 * alone["rank"]["activations"]["bytes"]["most"]
    assert paired["peaks"]["step"]["gpu"]["least"] >= alone["peaks"]["step"]["gpu"]["least"] + 2 * PARAMETERS
    assert (paired["left_out"], rewarded["fits"]["gpu"]) == ([], None)
    assert "reward models (RLOO)" in rewarded["left_out"]
    assert "not included: reward models (RLOO)" in memory("rloo.sh", "--gpu", "H200").out


def test_ranks_that_share_a_sequence_hold_less_of_it(described, project):
    write_into(project)({"sequences.json": {**ZERO_2, "sequence_parallel_size": 8}})
    arguments = (*FACTS, "--sequence-length", "8192")
    whole, shared = (described(name, *arguments)["rank"] for name in ("ds.json", "sequences.json"))
    assert shared["activations"]["bytes"]["likely"] < whole["activations"]["bytes"]["likely"] / 7
    assert shared["activations"]["bytes"]["most"] == whole["activations"]["bytes"]["most"]
    assert shared["master_weights"] == whole["master_weights"]


SERVES = """\
import deepspeed
engine = deepspeed.init_inference(model, tensor_parallel={"tp_size": 2}, dtype=torch.bfloat16)
engine.module.generate(prompts, max_new_tokens=64)
"""
GENERATES = """\
import deepspeed
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
kept = HfDeepSpeedConfig("z3.json")
model = AutoModelForCausalLM.from_pretrained("model")
engine = deepspeed.initialize(model=model, config="z3.json")[0]
engine.module.generate(prompts, max_new_tokens=64, num_beams=2)
"""
EVALUATES = """\
from transformers import Trainer, TrainingArguments
arguments = TrainingArguments("out", deepspeed="z3.json", per_device_eval_batch_size=2)
trainer = Trainer(model=model, args=arguments, eval_dataset=samples, compute_metrics=accuracy)
trainer.evaluate()
"""
LENGTHS = ("--model", "model", "--micro-batch", "2", "--sequence-length", "448")


def test_inference_needs_no_config(described, project):
    """``init_inference`` divides the matrices of the layers among the ranks of ``tp_size``; each has all embeddings."""
    write_into(project)({"serve.py": SERVES, "serve.sh": "deepspeed --num_gpus 2 serve.py\n"})
    found = described("serve.sh", *LENGTHS)
    assert PARAMETERS < found["rank"]["parameters"]["bytes"]["likely"] < 2 * PARAMETERS
    assert list(found["peaks"]) == ["initialization", "generation"]
    assert found["rank"]["key_value_cache"]["bytes"]["likely"] > 0


def test_generation_at_stage_3_has_partitions_and_a_cache(described, project):
    write_into(project)({"serve.py": GENERATES, "serve.sh": "deepspeed --num_gpus 2 serve.py\n", "z3.json": ZERO_3})
    rank = described("serve.sh", *LENGTHS)["rank"]
    assert {name: rank[name]["bytes"]["most"] for name in ("gradients", "master_weights", "optimizer_states")} == {
        "gradients": 0, "master_weights": 0, "optimizer_states": 0,
    }  # fmt: skip
    assert rank["live"]["bytes"]["likely"] > 0
    whole = described("serve.sh", *LENGTHS, "--new-tokens", "576")["rank"]
    ratio = whole["key_value_cache"]["bytes"]["likely"] / rank["key_value_cache"]["bytes"]["likely"]
    assert ratio == (448 + 576) / (448 + 64)


def test_generation_below_stage_3_raises(memory, project):
    files = {"serve.py": GENERATES, "serve.sh": "deepspeed --num_gpus 2 serve.py\n"}
    write_into(project)({**files, "z3.json": {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}})
    said = memory("serve.sh", *LENGTHS)
    assert (said.status, said.out) == (2, "")
    assert "`deepspeed.initialize` needs an optimizer at stage 2" in said.err


def test_an_evaluation_keeps_logits_for_metrics(described, project):
    run = {"run.sh": "deepspeed --num_gpus 2 run.py\n", "z3.json": ZERO_3}
    write_into(project)({**run, "run.py": EVALUATES})
    found = described("run.sh", *LENGTHS)
    assert list(found["peaks"]) == ["initialization", "evaluation"]
    assert found["left_out"] == [one for one in found["left_out"] if "compute_metrics" in one] != []
    write_into(project)({"run.py": EVALUATES.replace(", compute_metrics=accuracy", "")})
    assert described("run.sh", *LENGTHS)["left_out"] == []


def test_an_evaluation_beside_a_training_has_a_peak(described, project):
    """The Trainer evaluates eight samples at once unless it is told otherwise: their logits may be the most."""
    flags = "--deepspeed ds.json --model_name_or_path model --bf16 True --do_train --per_device_train_batch_size 1"
    flags += " --max_seq_length 512"
    write_into(project)({
        "quiet.sh": f"deepspeed --num_gpus 8 train.py {flags} --output_dir out\n",
        "run.sh": f"deepspeed --num_gpus 8 train.py {flags} --output_dir out --eval_strategy steps\n",
    })  # fmt: skip
    assert "evaluation" not in described("quiet.sh")["peaks"]
    peaks = described("run.sh")["peaks"]
    assert peaks["evaluation"]["gpu"]["likely"] > peaks["saving"]["gpu"]["likely"]


def test_a_reward_model_has_no_logits(described, project):
    flags = "--model_name_or_path model --deepspeed ds.json --per_device_train_batch_size 1 --max_length 512"
    write_into(project)({f"{name}.sh": f"trl {name} {flags} --output_dir out\n" for name in ("sft", "reward")})
    alone, pairs = (described(f"{name}.sh", "--world-size", "8")["rank"]["activations"] for name in ("sft", "reward"))
    assert pairs["bytes"]["likely"] < 2 * alone["bytes"]["likely"]


def test_a_reward_model_of_known_size_counts(described, project):
    flags = "--model_name_or_path model --deepspeed ds.json --per_device_train_batch_size 1 --reward_model_path model"
    write_into(project)({"run.sh": f"trl rloo {flags} --output_dir out --max_completion_length 64\n"})
    found = described("run.sh", "--world-size", "8", "--sequence-length", "448")
    assert "generation" in found["peaks"]


WHOLE = """\
import deepspeed, torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("model", dtype=torch.bfloat16)
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="conf/plain.json")
"""
OFFLOADED = {
    "bf16": {"enabled": True}, "optimizer": {"type": "AdamW"}, "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("before", "whole"),
    [
        ("", ("least", "likely", "most")),
        ("from models import setup_deepspeed\nsetup_deepspeed()\n", ("most",)),
        ('from transformers.integrations import HfDeepSpeedConfig\ndschf = HfDeepSpeedConfig("conf/plain.json")\n', ()),
    ],
)
def test_without_zero_init_the_whole_model_is_on_the_gpu_at_initialization(described, project, before, whole):
    write_into(project)({"conf/plain.json": OFFLOADED, "plain.py": before + WHOLE})
    (project / "run.sh").write_text("deepspeed --num_gpus 4 plain.py\n", encoding="utf-8")
    held = described("run.sh")["peaks"]["initialization"]["gpu"]
    assert {bound: size >= 2 * PARAMETERS for bound, size in held.items()} == {
        bound: bound in whole for bound in ("least", "likely", "most")
    }


def test_of_several_launches_each_has_a_report(described, memory, project):
    (project / "model2").mkdir()
    (project / "model2" / "config.json").write_text(json.dumps({**MODEL, "num_hidden_layers": 16}), encoding="utf-8")
    text = LAUNCH.replace("acme/unheard-of-7b", "model2")
    (project / "run.sh").write_text(text, encoding="utf-8")
    found = described("run.sh")
    assert [(run["launch"], run["setup"]["ranks"]) for run in found["runs"]] == [("run.sh:2", 8), ("run.sh:5", 4)]
    assert memory("run.sh").out.count("ZeRO stage 3") == 2


def test_launches_with_the_same_figures_are_one_report(described, memory, project):
    first = LAUNCH.partition("torchrun")[0].strip()
    (project / "run.sh").write_text("".join(f"{first} {seed}\n" for seed in ("", "--run_name b")), encoding="utf-8")
    assert described("conf/z3.json")["launch"] == "run.sh:2"
    assert memory("conf/z3.json").out.count("ZeRO stage 3") == 1
    assert described("run.sh")["launch"] == "run.sh:2"


def test_a_model_that_is_not_at_hand_is_asked_for(memory):
    said = memory("run.sh:5")
    assert said[:2] == (2, "")
    assert said.err == (
        "ds-lint: run.sh:5: no file of the model acme/unheard-of-7b is on this machine; set --model (or --parameters)\n"
    )
    assert "note: run.sh:5: no file of the model acme/unheard-of-7b" in " ".join(memory("run.sh").err.split())


def test_adapters_leave_the_model_frozen(described, memory):
    whole = described("ds.json", *FACTS)
    found = described("ds.json", *FACTS, "--lora", "r=16,targets=q_proj+v_proj")
    trained = 32 * 16 * (2 * 4096 + 4096 + 1024)  # 32 layers; a matrix with 4096 and one with 4096 or 1024 outputs
    assert found["setup"]["parameters"] == PARAMETERS + trained
    elements = found["rank"]["master_weights"]["elements"]
    assert elements["least"] == elements["most"] == trained // 8
    assert whole["rank"]["master_weights"]["elements"]["least"] >= PARAMETERS // 8
    said = memory("ds.json", *FACTS, "--lora", "r=16,targets=q_proj+v_proj").out
    assert "  model: 8.04 billion parameters, 6.82 million of them trained; " in said


def test_adapters_that_are_not_known_are_asked_for(memory):
    said = memory("ds.json", *FACTS, "--stack", "trainer", "--trainer-args", "--output_dir out --use_peft True")
    assert said == Said(2, "", "ds-lint: ds.json: the run trains adapters, and which is not known; set --lora\n")
    assert memory("ds.json", *FACTS, "--lora", "r=4,targets=nothing").status == 2


def test_a_number_of_parameters_stands_in_for_a_model(described):
    found = described("ds.json", "--parameters", "7B", "--world-size", "8", "--stack", "deepspeed")
    assert found["setup"]["parameters"] == pytest.approx(7e9, rel=0.02)


def test_a_published_name_is_enough(described):
    found = described("ds.json", "--model", "meta-llama/Llama-3.1-8B", "--world-size", "8", "--stack", "deepspeed")
    assert found["setup"]["parameters"] == PARAMETERS


def test_quantized_weights_train_adapters_alone(memory, project):
    quantized = {**MODEL, "quantization_config": {"quant_method": "awq"}}
    (project / "model" / "config.json").write_text(json.dumps(quantized), encoding="utf-8")
    assert memory("ds.json", *FACTS) == Said(
        2, "", "ds-lint: ds.json: the run trains adapters, and which is not known; set --lora\n"
    )


def test_weights_of_other_methods_are_not_included(described, project):
    quantized = {**MODEL, "quantization_config": {"quant_method": "awq"}}
    (project / "model" / "config.json").write_text(json.dumps(quantized), encoding="utf-8")
    found = described("ds.json", *FACTS, "--lora", "r=8,targets=q_proj")
    assert found["left_out"][0] == "the weights, which are quantized by awq (model/config.json)"
    assert found["setup"]["parameters"] > PARAMETERS > found["rank"]["parameters"]["elements"]["most"]
    assert found["fits"]["gpu"] is None


def test_options_win_over_the_launch(described):
    found = described(
        "run.sh:2", "--micro-batch", "1", "--sequence-length", "512", "--world-size", "16", "--nodes", "2"
    )
    known = {name: found["setup"][name] for name in ("ranks", "nodes", "micro_batch", "sequence_length")}
    assert known == {"ranks": 16, "nodes": 2, "micro_batch": 1, "sequence_length": 512}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ds.json",), "ds.json: the model is not known and the number of ranks is not known; set --model "),
        (("ds.json", "--model", "model"), "ds.json: the number of ranks is not known; set --world-size"),
        (("run.sh:4", *FACTS), "run.sh has launches at 2 and 5, and none at 4"),
        (("train.py", *FACTS), "train.py has no config"),
        (("ds.json", *FACTS, "--gpu-memory", "much"), "'much' is not a size of memory such as 512GB"),
        (("ds.json", *FACTS, "--gpu", "A100-8OGB"), "unknown GPU 'A100-8OGB'; did you mean A100-80GB?"),
        (("ds.json", *FACTS, "--sequence-length", "9" * 400), "--sequence-length is more than 1,000,000,000,000"),
        (("ds.json", *FACTS, "--gpu-memory", "9" * 400), f"'{'9' * 400}' is not a size of memory such as 512GB"),
        (("ds.json", *FACTS, "--micro-batch", "0"), "--micro-batch: '0' is not a whole number of at least 1"),
        (("ds.json", *FACTS, "--plot", "a.pdf"), "--plot writes .svg, .html or .png, or text on standard output"),
        (("ds.json", *FACTS, "--plot", "-", "--output-format", "json"), "--plot - prints text, not JSON; write the "),
        ((), "memory needs a config, or a file that launches training; to compare all stages without one, set --mo"),
        (("--model", "model"), "memory needs a config, or a file that launches training; to compare all stages "),
        (("ds.json", *FACTS, "--attention", "fast"), "--attention: unknown value fast; choose from eager, sdpa, "),
    ],
)  # fmt: skip
def test_wrong_usage_is_one_sentence_and_status_2(memory, arguments, said):
    found = memory(*arguments)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"ds-lint: {said}"), found.err
    assert found.err.count("\n") == 1


def test_a_sweep_has_every_stage_and_offload(memory, described):
    found = described("ds.json", *FACTS, "--gpu-memory", "24GB", "--sweep")
    rows = {(row["stage"], tuple(row["offload"]), row["device"]): row for row in found["sweep"]}
    both = ("optimizer", "param")
    assert rows.keys() == {
        *((stage, (), None) for stage in (0, 1, 2, 3)),
        *((stage, ("optimizer",), "cpu") for stage in (1, 2, 3)),
        *((3, both, device) for device in ("cpu", "nvme")),
    }
    assert [key for key, row in rows.items() if row["is_chosen"]] == [(2, (), None)]
    assert rows[2, (), None]["rank_bytes"] == found["rank"]["total"]["bytes"]
    least = [rows[stage, (), None]["rank_bytes"]["least"] for stage in (0, 2, 3)]
    assert least == sorted(least, reverse=True)
    lines = memory("ds.json", *FACTS, "--gpu-memory", "24GB", "--sweep").out.splitlines()
    assert [line for line in lines if line.startswith(">")] == [
        line for line in lines if line.startswith(">     2  none")
    ]


FITTED = ("--model", "model", "--world-size", "8", "--gpu", "A100-80GB", "--sequence-length", "4096")


def test_without_a_config_all_stages_are_compared(memory, described):
    found = described(*FITTED)
    assert found["path"] is None
    assert found["assumed"][0] == "the Trainer (--stack)"
    assert "stage" not in found["setup"]
    assert found["setup"]["micro_batch"] == 1
    assert len(found["sweep"]) == 18
    assert not any(row["is_chosen"] for row in found["sweep"])
    assert [row["rank"]["likely"] for row in found["sweep"]][:2] == [1, 2]
    assert {row["checkpointing"] for row in found["sweep"]} == {True, False}
    for row in found["sweep"]:
        assert row["largest_micro_batch"]["likely"] >= row["largest_micro_batch"]["surely"]
        assert (row["rank"]["likely"] is not None) == (row["largest_micro_batch"]["likely"] > 0)
    said = memory(*FITTED)
    assert (said.status, said.err) == (0, "")
    assert "  assumed: the Trainer (--stack), bf16 (--trainer-args), AdamW (--optimizer), the kernels of" in said.out
    assert said.out.splitlines()[-2].startswith("fastest that likely fits: ZeRO stage ")
    assert said.out.splitlines()[-1].startswith("fastest that surely fits: ZeRO stage ")


def test_a_length_is_assumed_that_the_model_has_positions_for(memory, described):
    options = FITTED[:-2]
    assert "2048 tokens for the figures (--sequence-length)" in described(*options)["assumed"]
    assert described(*options)["sweep"] == described(*options, "--sequence-length", "2048")["sweep"]
    gpt2 = described("--model", "gpt2", *options[2:])
    assert "1024 tokens for the figures (--sequence-length)" in gpt2["assumed"]
    assert all(row["largest_micro_batch"] is not None for row in gpt2["sweep"])
    said = memory(*options, "--trainer-args", "--bf16 --max_seq_length 512").out
    assert "sequence length up to 512" in said
    assert "tokens for the figures" not in said


def test_a_pattern_that_cannot_stand_within_another_skips_nothing(memory):
    done = memory(*FITTED, "--quantization", "nf4,skip=(?i)lm_head", "--lora", "r=8")
    assert (done.status, done.err) == (0, "")


def test_the_row_of_a_sweep_is_what_its_config_takes(described, project):
    """The config that a row stands for, written."""
    options = ("--stack", "deepspeed", "--optimizer", "adamw", "--activation-checkpointing")
    config = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 1}
    write_into(project)({"two.json": config})
    rows = described(*FITTED, *options)["sweep"]
    assert {row["checkpointing"] for row in rows} == {True}
    row = next(row for row in rows if (row["stage"], row["offload"]) == (2, []))
    found = described("two.json", *FITTED, *options)
    assert row["rank_bytes"] == found["rank"]["total"]["bytes"]
    size = row["largest_micro_batch"]["likely"]
    fits = described("two.json", *FITTED, *options, "--micro-batch", str(size))
    beyond = described("two.json", *FITTED, *options, "--micro-batch", str(size + 1))
    assert fits["rank"]["total"]["bytes"]["likely"] <= 80 * 2**30 < beyond["rank"]["total"]["bytes"]["likely"]


def test_a_sweep_for_a_t4_is_in_fp16(described):
    found = described("--model", "model", "--world-size", "8", "--gpu", "T4")
    assert found["setup"]["dtype"] == "fp16"
    assert "bf16" not in json.dumps(found)


def test_without_a_gpu_a_sweep_has_figures_and_no_places(memory, described):
    found = described("--model", "model", "--world-size", "8", "--sequence-length", "4096")
    assert {tuple(row["rank"].values()) for row in found["sweep"]} == {(None, None)}
    assert {tuple(row["largest_micro_batch"].values()) for row in found["sweep"]} == {(None, None)}
    assert "fit" not in memory("--model", "model", "--world-size", "8").out


def test_training_arguments_decide_without_a_config(described):
    arguments = "--fp16 True --per_device_train_batch_size 3 --gradient_checkpointing True --output_dir out"
    found = described("--model", "model", "--world-size", "8", "--trainer-args", arguments)
    assert (found["setup"]["dtype"], found["setup"]["micro_batch"]) == ("fp16", 3)
    assert found["assumed"] == ["the Trainer (--stack)", "2048 tokens for the figures (--sequence-length)"]


def test_what_the_run_may_grow_to_fits(memory, described):
    run = ("ds.json", "--world-size", "8", "--stack", "deepspeed", "--gpu", "A100-80GB", "--activation-checkpointing")
    run = (*run, "--attention", "sdpa")
    model, length = ("--model", "model"), ("--sequence-length", "2048")
    found = described(*run, *model, *length, "--largest")["largest"]
    assert all(one["likely"] >= one["surely"] > 0 for one in found.values())
    surely = {name: str(one["surely"]) for name, one in found.items()}
    for grown in (
        (*model, *length, "--micro-batch", surely["micro_batch"]),
        (*model, "--sequence-length", surely["sequence_length"]),
        ("--parameters", surely["parameters"], *length),
    ):
        assert described(*run, *grown)["fits"]["gpu"] is True
    said = memory(*run, *model, *length, "--largest").out
    assert f"largest that fits, each alone: micro batch {found['micro_batch']['likely']} (surely " in said


@pytest.mark.parametrize(
    ("option", "changed"),
    [
        (("--attention", "eager"), "more"),
        (("--no-activation-checkpointing",), "more"),
        (("--optimizer", "SGD"), "less"),
        (("--micro-batch", "1"), "less"),
    ],
)
def test_what_the_user_says_wins(described, option, changed):
    """The launch checkpoints, with Adam by default, and the kind of attention is not known."""
    before, after = described("run.sh:2"), described("run.sh:2", *option)
    kind = "host" if "--optimizer" in option else "rank"
    sizes = [
        (found["host"]["bytes"] if kind == "host" else found["rank"]["total"]["bytes"])["likely"]
        for found in (before, after)
    ]
    assert sizes[1] > sizes[0] if changed == "more" else sizes[1] < sizes[0]


def test_an_open_precision_is_taken_for_16_bit_and_said(memory):
    said = memory("conf/z3.json", "--isolated", "--model", "model", "--world-size", "8", "--stack", "accelerate")
    assert ", bf16, " in said.out
    assert "note: conf/z3.json: the run is taken to train in 16 bit" in said.err
    assert memory("run.sh:2").err == ""


def test_a_narrow_terminal_gets_narrow_lines(project: Path):
    environment = clean_environment() | {"COLUMNS": "60"}
    command = [sys.executable, "-m", "ds_lint", "memory", "run.sh:2", "--gpu", "T4", "--host-memory", "8GB", "--sweep"]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 1, done.stderr
    table = [line for line in done.stdout.splitlines() if "GiB" in line]
    assert table
    assert max(map(width_of, done.stdout.splitlines()[:30])) <= 60


def test_torch_is_not_imported(project: Path):
    program = (
        "import sys; from ds_lint.commands.parser import parse; "
        f"parse(['memory', 'ds.json', *{FACTS!r}, '--gpu', 'T4', '--sweep', '--output-format', 'json']); "
        "print([one for one in ('torch', 'numpy', 'matplotlib', 'dataclasses', 'yaml') if one in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project, env=clean_environment(), capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "[]"


def test_who_has_one_small_gpu_is_shown_adapters(described, project):
    """With a T4, the whole model needs five changes, and nothing in bf16 or on other machines is advised."""
    options = ("--model", "model", "--world-size", "1", "--stack", "deepspeed", "--gpu", "T4")
    write_into(project)({"half.json": {**ZERO_2, "bf16": {"enabled": False}, "fp16": {"enabled": True}}})
    found = described("half.json", *options, "--sequence-length", "1024")
    adapted = next(one for one in found["advice"] if "LoRA adapters" in one["change"])
    assert {"kind": "saving", "words": "adapters are saved, which are loaded with the model or merged into it"} in (
        adapted["price"]
    )
    assert "bf16" not in json.dumps(found["advice"])
    assert "ranks" not in json.dumps([one["change"] for one in found["advice"]])


def test_what_nothing_makes_fit_is_told_what_it_needs(memory, described):
    options = ("--parameters", "70B", "--world-size", "1", "--stack", "deepspeed", "--gpu", "T4")
    options = (*options, "--host-memory", "64GB", "--sequence-length", "512", "--micro-batch", "1")
    found = described("ds.json", *options)
    assert found["advice"] == []
    assert found["needs_at_least"]["ranks"] > 8
    assert found["needs_at_least"]["rank_bytes"]["likely"] <= 16 * 2**30
    said = " ".join(memory("ds.json", *options).out.split())
    assert (
        f"Nothing within reach makes it fit. It likely needs {found['needs_at_least']['ranks']} such GPUs on " in said
    )


def test_the_largest_model_needs_no_model(described):
    found = described("--world-size", "8", "--gpu", "A100-80GB", "--host-memory", "1000GB", "--largest")
    assert found["assumed"][0] == "7 billion parameters for the figures (--model)"
    sizes = {(row["stage"], row["device"]): row["largest_parameters"]["likely"] for row in found["sweep"]}
    assert sizes[0, None] < sizes[1, None] < sizes[2, None] < sizes[3, None] < sizes[3, "nvme"]
    assert all(row["largest_sequence_length"]["likely"] is not None for row in found["sweep"])
