"""``ds-lint memory`` of runs with FSDP: a YAML for ``accelerate launch``, its flags, and training arguments."""

from __future__ import annotations

import json

import pytest
from command_line import write_into
from jsonschema import Draft7Validator

from ds_lint.commands.parser import parse
from ds_lint.knowledge import resources

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 11008, "num_attention_heads": 32, "num_key_value_heads": 32, "num_hidden_layers": 32,
    "tie_word_embeddings": False, "vocab_size": 32000,
}  # fmt: skip
PARAMETERS = 6_738_415_616  # of meta-llama/Llama-2-7b-hf, by its model card
YAML = """\
distributed_type: FSDP
mixed_precision: bf16
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
"""
OF_VERSION_1 = YAML.replace("fsdp_version: 2", "fsdp_version: 1\n  fsdp_use_orig_params: true")
TRAINER = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("model")
trainer = Trainer(model=model, args=args)
trainer.train()
trainer.save_model(args.output_dir)
"""
SIZES = ("--micro-batch", "2", "--sequence-length", "2048")
GIB = 2**30


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """A function that gives what the command prints of the files of a project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))

    def said(path, *arguments, model=LLAMA, **files):
        write_into(tmp_path)(
            {"train.py": TRAINER, "model/config.json": model, ".git/HEAD": ""}
            | {name.replace("_", "."): text for name, text in files.items()}
        )
        try:
            status = parse(["memory", path, "--model", "model", *arguments])
        except SystemExit as ended:
            status = int(ended.code or 0)
        out, err = capsys.readouterr()
        return status, out, err

    return said


@pytest.fixture
def described(said):
    """The JSON of a command, which the schema describes."""
    with open(resources.path("schemas", "memory.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)

    def described(path, *arguments, **files):
        _, out, err = said(path, *arguments, "--output-format", "json", **files)
        assert out, err
        found = json.loads(out)
        Draft7Validator(schema).validate(found)
        return found

    return described


OLDER = ("--transformers-version", "4.45")  # which loads in fp32 what newer releases map


def likely(found, kind, place="rank"):
    parts = found["rank"] if place == "rank" else found["host"]["parts"]
    return parts[kind]["bytes"]["likely"]


@pytest.mark.parametrize("text", [YAML, OF_VERSION_1])
def test_trained_parameters_are_kept_in_fp32_and_sharded(described, text):
    """Under mixed precision; each rank has an eighth of the parameters, their gradients, and Adam's two states."""
    found = described("a.yaml", *SIZES, a_yaml=text)
    assert likely(found, "parameters") == pytest.approx(PARAMETERS * 4 / 8, rel=1e-4)
    assert likely(found, "gradients") == likely(found, "parameters")
    assert likely(found, "optimizer_states") == pytest.approx(PARAMETERS * 8 / 8, rel=1e-4)
    assert found["rank"]["master_weights"]["bytes"]["most"] == 0
    assert found["setup"]["stage"] is None
    assert found["setup"]["fsdp"]["shard_ranks"] == 8


def test_without_mixed_precision_they_have_the_dtype_of_the_model(described):
    found = described("a.yaml", a_yaml=YAML.replace("bf16", "'no'"))
    assert likely(found, "parameters") == pytest.approx(PARAMETERS * 2 / 8, rel=1e-4)
    assert found["rank"]["parameters"]["bytes"]["most"] == pytest.approx(PARAMETERS * 4 / 8, rel=1e-4)  # loaded in fp32


@pytest.mark.parametrize(
    ("strategy", "ranks"), [("FULL_SHARD", 16), ("SHARD_GRAD_OP", 16), ("NO_SHARD", 1), ("HYBRID_SHARD", 8)]
)
def test_a_strategy_decides_among_how_many_ranks(described, strategy, ranks):
    text = f"{OF_VERSION_1}  fsdp_sharding_strategy: {strategy}\n".replace(": 8", ": 16\nnum_machines: 2")
    found = described("a.yaml", a_yaml=text)
    assert found["setup"]["fsdp"]["shard_ranks"] == ranks
    assert likely(found, "gradients") == pytest.approx(PARAMETERS * 4 / ranks, rel=1e-4)


def test_parameters_that_are_not_freed_stay_whole(described):
    freed, kept = (
        described("a.yaml", a_yaml=f"{YAML}  fsdp_reshard_after_forward: {word}\n")["peaks"]["step"]["gpu"]["least"]
        for word in ("true", "false")
    )
    assert kept - freed > 0.5 * PARAMETERS * 2


def test_without_a_policy_the_whole_model_is_gathered(described):
    text = OF_VERSION_1.replace("TRANSFORMER_BASED_WRAP", "NO_WRAP")
    assert likely(described("a.yaml", a_yaml=text), "live") == pytest.approx(PARAMETERS * 2, rel=1e-4)


def test_offload_moves_all_states_to_the_host(described):
    found = described("a.yaml", a_yaml=f"{YAML}  fsdp_offload_params: true\n")
    assert likely(found, "parameters") == likely(found, "optimizer_states") == 0
    assert likely(found, "parameters", "host") == pytest.approx(PARAMETERS * 4, rel=1e-4)
    assert likely(found, "optimizer_states", "host") == pytest.approx(PARAMETERS * 8, rel=1e-4)


def test_each_rank_loads_the_model_unless_one_does_for_all(described):
    once, each = (
        described("a.yaml", *OLDER, a_yaml=f"{OF_VERSION_1}  fsdp_cpu_ram_efficient_loading: {word}\n")["peaks"]
        for word in ("true\n  fsdp_sync_module_states: true", "false\n  fsdp_sync_module_states: false")
    )
    more = each["initialization"]["host"]["likely"] - once["initialization"]["host"]["likely"]
    assert more == pytest.approx(7 * PARAMETERS * 4, rel=0.01)


def test_version_2_makes_fp32_of_the_model_on_each_rank(described):
    found = described("a.yaml", a_yaml=YAML)["peaks"]["initialization"]["host"]
    assert found["likely"] == pytest.approx(8 * (PARAMETERS * 4 + 2 * GIB), rel=0.01)


def test_gradients_stay_whole_until_the_last_micro_batch(described):
    """``no_sync`` of Accelerate, which the Trainer uses, adds them up before they are sharded."""
    one, eight = (
        described(
            "run.sh",
            "--sequence-length",
            "64",
            run_sh=f"accelerate launch --config_file a.yaml train.py --gradient_accumulation_steps {steps} --bf16 True "
            "--per_device_train_batch_size 1 --gradient_checkpointing True --optim adamw_torch_fused --output_dir o\n",
            a_yaml=YAML,
        )["peaks"]["step"]["gpu"]["likely"]
        for steps in (1, 8)
    )
    assert eight - one > 0.7 * PARAMETERS * 2


def test_a_yaml_in_words(said):
    status, out, err = said("a.yaml", *SIZES, "--gpu", "A100-40GB", a_yaml=YAML)
    assert out.startswith("a.yaml: FSDP 2, parameters sharded, bf16, 8 ranks\n")
    assert "may not fit: A100 has 40.0 GiB" in out
    assert "\n  activation checkpointing: " in out
    assert "\n      fsdp_config.fsdp_activation_checkpointing = true\n" in out
    assert (status, err) == (0, "")


def test_flags_are_settings(said):
    flags = "accelerate launch --use_fsdp --fsdp_version 1 --fsdp_auto_wrap_policy TRANSFORMER_BASED_WRAP"
    launch = f"{flags} --mixed_precision bf16 --num_processes 8 train.py --per_device_train_batch_size 2\n"
    _, out, _ = said("run.sh", "--gpu", "A100-40GB", "--sequence-length", "2048", run_sh=launch)
    assert out.startswith("run.sh: FSDP 1, FULL_SHARD, bf16, ")
    assert "\n      --fsdp_activation_checkpointing true\n" in out


def test_training_arguments_are_settings(said):
    launch = 'torchrun --nproc_per_node 8 train.py --fsdp "full_shard auto_wrap" --bf16 True --output_dir out'
    _, out, _ = said(
        "run.sh",
        "--gpu",
        "A100-40GB",
        "--sequence-length",
        "2048",
        run_sh=f"{launch} --per_device_train_batch_size 2\n",
    )
    assert out.startswith("run.sh: FSDP 2, parameters sharded, bf16, ")
    assert "\n      fsdp_config.activation_checkpointing = true\n" in out


def test_a_run_without_sharding_has_no_estimate(said):
    status, _, err = said("a.yaml", a_yaml="distributed_type: MULTI_GPU\nnum_processes: 8\n")
    assert status == 2
    assert "`distributed_type` is MULTI_GPU" in err


def test_tensor_parallelism_is_named_and_the_model_counts_whole(described):
    """FSDP shards among the other ranks: what a rank of eight holds is at the most what one of four does."""
    degrees = "parallelism_config:\n  parallelism_config_tp_size: 2\n"
    divided = described("a.yaml", a_yaml=YAML + degrees)
    of_four = described("a.yaml", a_yaml=YAML.replace("processes: 8", "processes: 4"))
    assert divided["setup"]["ranks"] == 8
    assert "what `parallelism_config_tp_size` 2 splits among ranks" in divided["left_out"]
    for kind in ("parameters", "optimizer_states"):
        band, whole = (one["rank"][kind]["bytes"] for one in (divided, of_four))
        assert band["most"] == whole["most"]
        assert band["least"] == pytest.approx(whole["least"] / 8)
