"""Launches that resume from a folder of the project: DS713 and DS836."""

from __future__ import annotations

import json

import pytest
from saved_folders import archive, engine_folder, optimizer_states, safetensors, universal_folder, write

from ds_lint.commands.parser import parse

SCRIPT = """\
import deepspeed
from model import build_model

model = build_model()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")
engine.load_checkpoint("ckpt")
"""
TRAINER = """\
from transformers import HfArgumentParser, Trainer, TrainingArguments

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=model, args=args).train(resume_from_checkpoint=args.resume_from_checkpoint)
"""


@pytest.fixture
def found(tmp_path, monkeypatch, capsys):
    """The findings of a project whose script resumes from the folder ckpt: code and effect, and what they say."""
    monkeypatch.chdir(tmp_path)

    def found(stage=2, ranks=2, *, flags="", **more):
        config = {
            "train_micro_batch_size_per_gpu": 1,
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": stage},
            **more,
        }
        files = {
            "ds.json": json.dumps(config),
            "train.py": TRAINER if flags else SCRIPT,
            "run.sh": f"deepspeed --num_gpus {ranks} train.py {flags}\n",
        }
        write(tmp_path, {name: text.encode() for name, text in files.items()} | {".git/HEAD": b""})
        parse(["check", ".", "--select", "DS713,DS836", "--output-format", "json"])
        findings = json.loads(capsys.readouterr().out)["findings"]
        said = "\n".join(f"{one['message']} {one['help']}" for one in findings)
        return [(one["code"], one["effect"]) for one in findings], said

    return found


def test_a_whole_checkpoint(found, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    assert found() == ([], "")
    assert found(stage=1) == ([], "")


def test_other_ranks(found, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    assert found(ranks=4)[0] == [("DS836", "rejected")]
    engine_folder(tmp_path / "ckpt", 0)
    assert found(stage=0, ranks=4)[0] == []


def test_a_missing_file(found, tmp_path):
    name = "global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    (engine_folder(tmp_path / "ckpt", 2) / name).unlink()
    codes, message = found()
    assert codes == [("DS713", "rejected")]
    assert f"Rank 1: {name} is missing: FileNotFoundError" in message


def test_another_stage(found, tmp_path):
    engine_folder(tmp_path / "ckpt", 3)
    codes, message = found()
    assert codes == [("DS713", "rejected")]
    assert "Saved at stage 3, and the config has stage 2" in message


def test_files_of_two_steps(found, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    other = archive(optimizer_states(2, 2, step=5))
    write(tmp_path / "ckpt", {"global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt": other})
    assert found()[0] == [("DS713", "wrong-result")]


def test_training_starts_anew_without_latest(found, tmp_path):
    (engine_folder(tmp_path / "ckpt", 2) / "latest").unlink()
    assert found()[0] == [("DS713", "wrong-result")]


def test_a_universal_checkpoint(found, tmp_path):
    universal_folder(tmp_path / "ckpt", 2)
    assert found(ranks=4)[0] == [("DS713", "wrong-result")]
    assert found(ranks=4, checkpoint={"load_universal": True})[0] == []


def test_a_universal_checkpoint_that_is_not_made_yet(found, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    codes, message = found(checkpoint={"load_universal": True})
    assert codes == [("DS713", "rejected")]
    assert "ds_to_universal --input_folder ckpt/global_step2 --output_folder ckpt/global_step2_universal" in message


def test_pointers_of_git_lfs_are_not_the_files(found, tmp_path):
    name = "ckpt/global_step2/mp_rank_00_model_states.pt"
    engine_folder(tmp_path / "ckpt", 2)
    write(tmp_path, {name: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"})
    assert found()[0] == []


def test_the_trainer(found, tmp_path):
    flags = "--output_dir out --deepspeed ds.json --bf16 --learning_rate 1e-4 --resume_from_checkpoint out/checkpoint-2"
    folder = tmp_path / "out/checkpoint-2"
    state = {"trainer_state.json": b"{}", **{f"rng_state_{rank}.pth": archive({}) for rank in range(2)}}
    write(engine_folder(folder, 2), state)
    assert found(flags=flags)[0] == []
    (folder / "latest").unlink()
    assert found(flags=flags)[0] == [("DS713", "rejected")]


def test_the_trainer_and_weights_alone(found, tmp_path):
    flags = "--output_dir out --deepspeed ds.json --bf16 --learning_rate 1e-4 --resume_from_checkpoint out/checkpoint-2"
    write(tmp_path / "out/checkpoint-2", {"model.safetensors": safetensors({"a": (2,)}), "trainer_state.json": b"{}"})
    codes, message = found(flags=flags)
    assert codes == [("DS713", "rejected")]
    assert "Can't find a valid checkpoint" in message
