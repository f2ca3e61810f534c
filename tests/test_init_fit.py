"""``ds-lint init --fit``: the fastest config that fits, what it says of it, and what it needs to know."""

from __future__ import annotations

import json

import pytest

from ds_lint.commands.parser import parse
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.footprint.capacity import capacity
from ds_lint.knowledge.keys import knowledge
from ds_lint.scaffold import fitting
from ds_lint.scaffold.composition import Purpose

MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 4096,
    "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "tie_word_embeddings": False, "vocab_size": 128256,
}  # fmt: skip
OWN_CHOICE = "--fit chooses the stage and the offload; leave out --stage and --offload"
FACTS = ("--model", "model", "--world-size", "8")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    return tmp_path


def fastest(memory, host="4000GB", stack="trainer"):
    facts = gather(Sources(model="model", world_size=8, gpu_memory=memory, host_memory=host))
    wish = Purpose(stack=stack)
    return fitting.fastest(wish, facts, knowledge()), capacity(facts)


@pytest.mark.parametrize("stack", ["trainer", "deepspeed", "accelerate"])
def test_less_memory_makes_it_slower_and_what_is_written_fits(folder, stack):
    found = []
    for memory in ("1000GB", "70GB", "48GB", "30GB", "16GB", "10GB"):
        one, there = fastest(memory, stack=stack)
        assert there.holds(one.estimate, "most" if one.is_sure else "likely")
        found.append((one.purpose.stage, one.purpose.offload, one.purpose.keeps_parameters))
    order = [(stage, offload, keeps) for stage, offload, keeps in fitting._BY_SPEED]
    places = [order.index(one) for one in found]
    assert places[0] == 0
    assert places == sorted(places)
    assert len(set(places)) >= 4


def test_nothing_faster_fits(folder):
    one, there = fastest("48GB")
    place = [candidate[:2] for candidate in fitting._BY_SPEED].index((one.purpose.stage, one.purpose.offload))
    assert place > 0
    facts = gather(Sources(model="model", world_size=8, gpu_memory="48GB", host_memory="4000GB"))
    for stage, offload, keeps in fitting._BY_SPEED[:place]:
        purpose = Purpose(stage=stage, offload=offload, keeps_parameters=keeps)
        assert not there.holds(fitting._estimate(purpose, 1, facts, knowledge()))


def test_the_config_is_written_with_a_note_of_its_estimate(folder, capsys):
    assert parse(["init", "--fit", *FACTS, "--gpu", "A100-80GB", "--stack", "deepspeed"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Wrote ds_config.json: ZeRO stage ")
    assert "note: this is the fastest config that " in said
    assert " of its 80.0 GiB" in said
    config = json.loads((folder / "ds_config.json").read_text(encoding="utf-8"))
    stage = int(said.split("ZeRO stage ")[1][0])
    assert config["zero_optimization"]["stage"] == stage
    assert parse(["memory", "ds_config.json", *FACTS, "--gpu", "A100-80GB", "--stack", "deepspeed"]) == 0


def test_an_optimizer_that_is_offloaded_alone_leaves_the_parameters(folder):
    one, _ = fastest("10GB")
    assert (one.purpose.stage, one.purpose.offload, one.purpose.keeps_parameters) == (3, "cpu", True)
    assert "offload_param" not in fitting.composition.config(one.purpose)["zero_optimization"]


def test_if_nothing_fits_nothing_is_written(folder, capsys):
    assert parse(["init", "--fit", *FACTS, "--gpu-memory", "1MB"]) == 1
    assert capsys.readouterr().err == (
        "ds-lint: no config fits, not even ZeRO stage 3 with everything offloaded to NVMe; use more ranks\n"
    )
    assert not (folder / "ds_config.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--fit needs --model or --parameters, --gpu or --gpu-memory, --world-size"),
        ((*FACTS, "--gpu", "T4", "--stage", "2"), OWN_CHOICE),
        ((*FACTS, "--gpu", "T4", "--offload", "cpu"), OWN_CHOICE),
    ],
)  # fmt: skip
def test_what_it_needs_is_said(folder, capsys, arguments, said):
    assert parse(["init", "--fit", *arguments]) == 2
    assert capsys.readouterr().err == f"ds-lint: {said}\n"


def test_who_does_without_checkpointing_gets_a_config_that_fits_so(folder, capsys):
    arguments = ("init", "--fit", *FACTS, "--gpu", "H200", "--sequence-length", "1024", "--no-activation-checkpointing")
    assert parse([*arguments, "--attention", "sdpa"]) == 0
    said = capsys.readouterr().out
    assert "and activation checkpointing" not in said
    assert " --gradient_checkpointing False" in said
