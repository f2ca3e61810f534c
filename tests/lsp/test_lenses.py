"""What a run needs of memory stands above ``zero_optimization``, if the facts suffice for it."""

from __future__ import annotations

import json
import re

import pytest
from command_line import write_into

ZERO = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "zero_optimization": {"stage": 2},
}
MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
SETTINGS = '[tool.ds-lint]\nstack = "deepspeed"\nmodel = "model"\nworld-size = {}\nnodes = 1\ngpu = "A100-80GB"\n'
LAUNCH = "torchrun --nproc_per_node {} train.py --deepspeed_config ds.json --model_name_or_path model\n"
REFRESH = "workspace/codeLens/refresh"


def text_of(config):
    return json.dumps(config, indent=2)


def titles(client, name="ds.json"):
    lenses = client.request("textDocument/codeLens", textDocument={"uri": client.uri(name)})
    assert {lens["command"]["command"] for lens in lenses} <= {""}  # a client has nothing to run
    return {lens["range"]["start"]["line"]: lens["command"]["title"] for lens in lenses}


def likely(title):
    """The likely figure per GPU, in GiB."""
    return float(re.match(r"([\d.]+) GiB", title)[1])


@pytest.fixture
def project(tmp_path):
    return write_into(tmp_path)


def test_the_figure_stands_above_the_section(client, project):
    project({"pyproject.toml": SETTINGS.format(8), "model/config.json": MODEL})
    text = text_of(ZERO)
    client.open("ds.json", text)
    ((line, title),) = titles(client).items()
    assert '"zero_optimization"' in text.splitlines()[line]
    assert re.fullmatch(r"[\d.]+ GiB of 80 GiB per GPU.*; [\d.]+ GiB per host.*", title), title


def test_the_figure_follows_the_text(client, project):
    project({"pyproject.toml": SETTINGS.format(8), "model/config.json": MODEL})
    client.open("ds.json", text_of(ZERO))
    (at_stage_2,) = titles(client).values()
    client.change("ds.json", text_of({**ZERO, "zero_optimization": {"stage": 3}}))
    (at_stage_3,) = titles(client).values()
    assert likely(at_stage_3) < likely(at_stage_2)
    client.change("ds.json", text_of({name: value for name, value in ZERO.items() if name != "zero_optimization"}))
    assert titles(client) == {}


@pytest.mark.parametrize("left_out", ["model", "world-size"])
def test_without_a_fact_there_is_no_lens(client, project, left_out):
    lines = SETTINGS.format(8).splitlines(keepends=True)
    settings = "".join(line for line in lines if not line.startswith(left_out))
    project({"pyproject.toml": settings, "model/config.json": MODEL})
    client.open("ds.json", text_of(ZERO))
    assert titles(client) == {}


def test_launches_tell_the_ranks(start, project):
    files = {"run.sh": LAUNCH.format(2), "large.sh": LAUNCH.format(8), "model/config.json": MODEL}
    project({**files, "ds.json": text_of(ZERO)})
    client = start().initialize(capabilities={"workspace": {"codeLens": {"refreshSupport": True}}})
    client.open("ds.json", text_of(ZERO))
    while not any(asked["method"] == REFRESH for asked in client.asked):
        client._next()
    lenses = client.request("textDocument/codeLens", textDocument={"uri": client.uri("ds.json")})
    found = {re.search(r"(\w+)\.sh:1", one["command"]["title"])[1]: one["command"]["title"] for one in lenses}
    assert sorted(found) == ["large", "run"]
    assert likely(found["large"]) < likely(found["run"])
