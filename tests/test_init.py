"""`ds-lint init` as people use it: what it writes, what it says, and what it refuses."""

from __future__ import annotations

import json
import os
from itertools import product

import pytest
import yaml
from linted import lint_file

from ds_lint.commands.init import init
from ds_lint.commands.options import InitOptions
from ds_lint.diagnostics.finding import STACKS
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.scaffold.composition import OFFLOADS, PRECISIONS, STAGES, Purpose, config

# Those of which stage 3 has something to shard.
SHARDED = ("gpt2", "llama", "mixtral", "olmoe", "phimoe", "qwen3_moe", "t5", "vision_text", "wide")
MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def test_without_options_it_writes_what_most_runs_start_from(run, tmp_path):
    result = run("init")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "Wrote ds_config.json: ZeRO stage 2, bf16, for the Trainer.\n"
        "Next:\n"
        "  ds-lint check ds_config.json --stack trainer\n"
        "  deepspeed train.py --deepspeed ds_config.json --bf16\n"
    )
    text = (tmp_path / "ds_config.json").read_text(encoding="utf-8")
    assert text == json.dumps(config(Purpose()), indent=2) + "\n"


def test_the_next_command_has_no_finding(run):
    run("init", "--stage", "3", "--offload", "cpu", "--world-size", "8")
    result = run("check", "ds_config.json", "--stack", "trainer", "--world-size", "8")
    assert result.returncode == 0
    assert result.stdout.startswith("ds_config.json: no findings.")


def test_accelerate_gets_a_file_to_launch_with(run, tmp_path):
    (tmp_path / "conf").mkdir()
    result = run(
        "init", "--stack", "accelerate", "--stage", "1", "--world-size", "8", "--output-file", "conf/ds zero.json"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "Wrote conf/ds zero.json and conf/accelerate_config.yaml: ZeRO stage 1, bf16, for Accelerate.\n"
        "Next:\n"
        "  ds-lint check 'conf/ds zero.json' --stack accelerate --world-size 8\n"
        "  accelerate launch --config_file conf/accelerate_config.yaml train.py\n"
    )
    assert yaml.safe_load((tmp_path / "conf" / "accelerate_config.yaml").read_text(encoding="utf-8")) == {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "conf/ds zero.json"},
        "num_processes": 8,
    }


def test_without_gpus_accelerate_is_told_on_its_command_line(run):
    result = run("init", "--stack", "accelerate")
    assert result.stdout.endswith(
        "  accelerate launch --config_file accelerate_config.yaml --num_processes N train.py\n"
    )


def test_plain_deepspeed(run):
    result = run("init", "--stack", "deepspeed", "--precision", "fp32")
    assert result.stdout == (
        "Wrote ds_config.json: ZeRO stage 2, fp32, for plain DeepSpeed.\n"
        "note: the batch size of 1 and the learning rate are starting points; the script must create a schedule\n"
        "Next:\n"
        "  ds-lint check ds_config.json --stack deepspeed\n"
        "  deepspeed train.py --deepspeed --deepspeed_config ds_config.json\n"
    )


def test_standard_output_holds_nothing_but_the_config(run, tmp_path):
    result = run("init", "--stage", "3", "--offload", "nvme", "--nvme-path", "/scratch", "--output-file", "-")
    assert result.returncode == 0
    assert json.loads(result.stdout) == config(Purpose(stage=3, offload="nvme", nvme_path="/scratch"))
    assert result.stderr == (
        "note: /scratch must be a writable directory on an NVMe drive of each machine (--nvme-path sets another), and "
        "DeepSpeed needs libaio; `ds_nvme_tune` measures the best values for `aio`\n"
        "note: a checkpoint lacks some of what is on NVMe, so a resumed run gives different results (DS702)\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_one_gpu_has_no_other_to_shard_with(run):
    result = run("init", "--world-size", "1")
    assert (
        "note: with 1 rank, stage 2 has nothing to shard: it costs time and saves no memory; "
        "--offload cpu saves memory, --stage 0 saves time\n"
    ) in result.stdout
    assert "note" not in run("init", "--world-size", "1", "--offload", "cpu", "--force").stdout
    assert "note" not in run("init", "--world-size", "1", "--stage", "0", "--force").stdout


def test_a_file_that_is_there_is_kept(run, tmp_path):
    (tmp_path / "ds_config.json").write_text("mine")
    result = run("init")
    assert (result.returncode, result.stdout) == (2, "")
    assert (
        result.stderr == "ds-lint: ds_config.json already exists; use --force to overwrite it, or --output-file FILE\n"
    )
    assert (tmp_path / "ds_config.json").read_text() == "mine"
    assert run("init", "--force").returncode == 0
    assert json.loads((tmp_path / "ds_config.json").read_text()) == config(Purpose())


def test_of_two_files_none_is_written_where_one_is_there(run, tmp_path):
    (tmp_path / "accelerate_config.yaml").write_text("mine")
    result = run("init", "--stack", "accelerate")
    assert result.returncode == 2
    assert result.stderr.startswith("ds-lint: accelerate_config.yaml already exists; ")
    assert [path.name for path in tmp_path.iterdir()] == ["accelerate_config.yaml"]


REFUSED = {
    "--offload nvme": "--offload nvme needs --stage 3: at stage 2 DeepSpeed never writes to the drive; "
    "choose --stage 3, or --stage 2 --offload cpu",
    "--stage 0 --offload cpu": "--offload cpu needs --stage 1, 2 or 3: at stage 0 DeepSpeed offloads nothing; "
    "choose --stage 2",
    "--nvme-path /scratch": "--nvme-path needs --offload nvme",
    "--stack accelerate --output-file -": "--stack accelerate writes two files and cannot write to standard output; "
    "use --output-file FILE",
    "--stack accelerate --output-file conf/accelerate_config.yaml": "accelerate_config.yaml is the file for "
    "`accelerate launch`; use another --output-file for the config",
    "--output-file nowhere/ds.json": "nowhere/ds.json: No such file or directory",
}


@pytest.mark.parametrize(("words", "said"), REFUSED.items())
def test_what_cannot_be_written_is_2_and_says_what_to_choose(run, tmp_path, words, said):
    result = run("init", *words.split())
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"ds-lint: {said}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_the_terminal_cannot_show_is_escaped(run, tmp_path):
    result = run("init", "--output-file", "größe.json", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("Wrote gr\\xf6\\xdfe.json: ")
    assert (tmp_path / "größe.json").exists()


@pytest.mark.parametrize(
    "words", ["--stage 4", "--offload gpu", "--precision fp8", "--world-size 0", "--stack lightning"]
)
def test_a_value_that_there_is_not_is_2(run, words):
    assert run("init", *words.split()).returncode == 2


def test_the_help_names_every_choice(run):
    shown = run("init", "--help").stdout
    assert all(f"{{{','.join(map(str, choices))}}}" in shown for choices in (STACKS, STAGES, OFFLOADS, PRECISIONS))


# The model


def test_the_model_decides_the_precision_and_the_sizes(run, tmp_path):
    result = run("init", "--stack", "deepspeed", "--stage", "3", "--model", os.path.join(MODELS, "llama"))
    assert result.returncode == 0
    assert f"  ds-lint check ds_config.json --stack deepspeed --model {MODELS}/llama\n" in result.stdout
    written = json.loads((tmp_path / "ds_config.json").read_text(encoding="utf-8"))
    assert written == config(Purpose("deepspeed", 3, hidden_size=4096))


def test_fp16_for_a_model_of_bf16_is_written_with_a_warning(run, tmp_path):
    result = run("init", "--precision", "fp16", "--model", os.path.join(MODELS, "llama"))
    assert (
        "note: the model was trained or saved in bf16: its values may be too large for fp16, and then the loss "
        "becomes NaN; use --precision bf16, which needs an Ampere GPU or newer\n"
    ) in result.stdout
    assert "fp16" in json.loads((tmp_path / "ds_config.json").read_text(encoding="utf-8"))


def test_a_model_of_fp32_is_trained_in_bf16_unless_it_is_not_to_be(run, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "dtype": "float32"}')
    note = "note: the model was saved in fp32; bf16 has the same range but fewer digits; --precision fp32 keeps them\n"
    result = run("init", "--model", ".")
    assert result.stdout.startswith(f"Wrote ds_config.json: ZeRO stage 2, bf16, for the Trainer.\n{note}")
    assert note not in run("init", "--model", ".", "--precision", "fp32", "--force").stdout


def test_a_model_of_fp16_is_trained_in_fp16(run, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2", "torch_dtype": "float16"}')
    assert "Wrote ds_config.json: ZeRO stage 2, fp16, " in run("init", "--model", ".").stdout


def test_a_model_that_is_not_there_is_2(run, tmp_path):
    result = run("init", "--model", "nowhere/")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("ds-lint: nowhere/ is neither a folder with a config.json nor a model ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stack", STACKS)
@pytest.mark.parametrize("name", SHARDED)
def test_what_suits_a_model_has_no_finding_for_it(tmp_path, monkeypatch, name, stack):
    monkeypatch.chdir(tmp_path)
    model = os.path.join(MODELS, name)
    for place, (stage, offload) in enumerate(product((2, 3), ("none", "cpu"))):
        sources = Sources(model=model, world_size=8)
        wanted = {"stack": stack, "stage": stage, "offload": offload, "output_file": f"{place}.json", "force": True}
        assert init(InitOptions(**wanted, sources=sources)) == 0
        facts = gather(sources)
        report = lint_file(f"{place}.json", stack=stack, facts=facts)
        assert [(finding.code, finding.message) for finding in report.findings] == []


@pytest.mark.parametrize("stack", STACKS)
def test_a_mixture_of_experts_gets_the_leaf_modules_that_its_transformers_needs(run, tmp_path, stack):
    (tmp_path / "requirements.txt").write_text("transformers==4.57.6\n")
    model = os.path.join(MODELS, "phimoe")
    run("init", "--stack", stack, "--stage", "3", "--model", model)
    written = json.loads((tmp_path / "ds_config.json").read_text(encoding="utf-8"))
    assert written["zero_optimization"]["leaf_module"] == {"classes": ["PhimoeSparseMoeBlock"]}
    result = run("check", "ds_config.json", "--stack", stack, "--model", model, "--world-size", "8")
    assert result.stdout.startswith("ds_config.json: no findings.")
