"""``ds-lint checkpoint``: what it prints, and its exit status."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
from jsonschema import Draft7Validator
from saved_folders import engine_folder, safetensors, write

from ds_lint.commands.parser import parse
from ds_lint.knowledge import resources


class Printed(NamedTuple):
    """What a command printed, and its status."""

    status: int
    out: str
    err: str


@pytest.fixture
def checkpoint(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def checkpoint(*words):
        status = parse(["checkpoint", *words])
        return Printed(status, *capsys.readouterr())

    return checkpoint


@pytest.fixture
def described(checkpoint):
    """The JSON of a command, which the schema describes."""
    with open(resources.path("schemas", "checkpoint.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft7Validator.check_schema(schema)

    def described(*words):
        found = json.loads(checkpoint(*words, "--output-format", "json").out)
        Draft7Validator(schema).validate(found)
        return found

    return described


def test_a_checkpoint_that_resumes(checkpoint, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    assert checkpoint("ckpt") == Printed(
        0,
        "ckpt: DeepSpeed, ZeRO stage 2, 2 ranks, DeepSpeed 0.18.2\n"
        "  4 files, all whole; tag global_step2\n"
        "  elements of the model: 64 bfloat16\n"
        "resumes on 2 ranks: saved by 2 ranks at ZeRO stage 2; it loads on the same world size\n",
        "",
    )


def test_a_checkpoint_that_has_to_be_converted(checkpoint, described, tmp_path):
    engine_folder(tmp_path / "my ckpt", 3)
    found = checkpoint("my ckpt", "--world-size", "4")
    assert found.status == 1
    command = "python -m deepspeed.checkpoint.ds_to_universal --input_folder 'my ckpt/global_step2'"
    assert f"  {command}" in found.out
    given = described("my ckpt", "--world-size", "4")["resumes"]
    assert (given["world_size"], given["status"]) == (4, "convert")
    assert given["command"].startswith(command)


def test_a_broken_file(checkpoint, described, tmp_path):
    name = "global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
    (engine_folder(tmp_path, 2) / name).unlink()
    found = checkpoint(".")
    assert found.status == 1
    assert f"broken: rank 1: {name} is missing: FileNotFoundError" in found.out
    assert {"path": name, "rank": 1, "status": "missing"} in described(".")["files"]


def test_weights_alone(checkpoint, described, tmp_path):
    write(tmp_path, {"model.safetensors": safetensors({"a": (2, 2)})})
    assert checkpoint(".").status == 0
    assert described(".")["resumes"] is None
    assert checkpoint(".", "--world-size", "2").status == 1


def test_the_config_of_the_run_that_resumes(checkpoint, described, tmp_path):
    engine_folder(tmp_path / "ckpt", 2)
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
    write(tmp_path, {"ds.json": json.dumps(config).encode()})
    words = ("ckpt", "--config", "ds.json", "--stack", "deepspeed")
    found = checkpoint("ckpt", "--config", "ds.json")
    assert found.status == 1
    assert "saved at stage 2, and the config has stage 3" in found.out
    assert described(*words[:3])["config"]


@pytest.mark.parametrize(
    "words", [["nowhere"], ["file"], ["ckpt", "--torch-version", "new"], ["ckpt", "--config", "no.json"]]
)
def test_wrong_usage(checkpoint, tmp_path, words):
    engine_folder(tmp_path / "ckpt", 2)
    write(tmp_path, {"file": b""})
    found = checkpoint(*words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith("ds-lint: ")


def test_names_are_shown_without_control_characters(checkpoint, described, tmp_path):
    write(engine_folder(tmp_path, 2), {"latest": b"\x1b[31mred\xe2\x80\xae"})
    assert "\x1b" not in checkpoint(".").out
    assert "<U+001B>[31mred<U+202E>" in checkpoint(".").out
    assert described(".")["files"][1]["path"] == "<U+001B>[31mred<U+202E>"
