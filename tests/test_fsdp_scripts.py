"""Rules about scripts that use FSDP of torch by themselves: what a text tells for certain, and what it leaves open."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from ds_lint.knowledge import resources
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source import python
from ds_lint.targets.pin import Pin

HEAD = """\
import functools
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, transformer_auto_wrap_policy
from transformers import AutoModelForCausalLM, LlamaForCausalLM
from transformers.models.gpt2.modeling_gpt2 import GPT2Block

rank = dist.get_rank()
"""
LOADED = 'model = AutoModelForCausalLM.from_pretrained("gpt2")\n'
WRAPPED = f"{LOADED}model = FSDP(model, auto_wrap_policy=policy)\n"


def found(text, head=HEAD, torch=None, **known):
    pins = {"torch": Pin("torch", torch, "requirements.txt")} if torch else {}
    documents = [one for one in python.read(head + text, "train.py") if one.is_of_fsdp]
    return [one for document in documents for one in lint(document, Basis(knowledge(), pins=pins, **known)).findings]


def codes(text, **known):
    return [one.code for one in found(text, **known)]


@pytest.mark.parametrize(
    "text",
    [
        f"{LOADED}model = FSDP(model)",
        f"{LOADED}sharded = torch.distributed.fsdp.FullyShardedDataParallel(model.cuda())",
        "model = FSDP(AutoModelForCausalLM.from_pretrained('gpt2').to(rank))",
        "def build():\n    return LlamaForCausalLM.from_pretrained('a')\n\nmodel = FSDP(build())",
        "def wrap(model):\n    return FSDP(model, device_id=rank)\n\nwrap(AutoModelForCausalLM.from_config(config))",
        f"options = dict(device_id=0)\n{LOADED}model = FSDP(model, **options)",
        (
            "class Trainer:\n    def __init__(self):\n        self.model = LlamaForCausalLM(config)\n"
            "        self.model = LlamaForCausalLM.from_pretrained('a')\n        self.model = FSDP(self.model)"
        ),
        f"{LOADED}fully_shard(model)",
    ],
)
def test_a_whole_model_is_one_unit(text):
    assert codes(text) == ["DS644"]


@pytest.mark.parametrize(
    "text",
    [
        f"{LOADED}model = FSDP(model, auto_wrap_policy=policy)",
        f"{LOADED}model = FSDP(model, auto_wrap_policy=None)",  # wanted
        f"{LOADED}model = FSDP(model, **options)",
        f"{LOADED}model = FSDP(model, sharding_strategy=ShardingStrategy.NO_SHARD)",
        f"{LOADED}model = FSDP(model, sharding_strategy=strategy)",
        "model = FSDP(build_model())",
        "def main(model):\n    return FSDP(model)",
        f"{LOADED}for layer in model.layers:\n    fully_shard(layer)\nfully_shard(model)",
        f"{LOADED}model.layers = [FSDP(layer) for layer in model.layers]\nmodel = FSDP(model)",
        f"{LOADED}shard_layers(model)\nmodel = FSDP(model)",
        f"wrapper = functools.partial(FSDP, device_id=0)\n{LOADED}model = FSDP(apply(model, wrapper))",
        (
            "from torch.distributed.fsdp.wrap import enable_wrap, wrap\n"
            f"with enable_wrap(wrapper_cls=FSDP):\n    part = wrap(layer)\n{LOADED}model = FSDP(model)"
        ),
        f"if big:\n    {LOADED}else:\n    model = other()\nmodel = FSDP(model)",
        "from fairscale.nn import FullyShardedDataParallel\n" + LOADED + "model = FullyShardedDataParallel(model)",
        f"import torch.sagemaker as tsm\n{LOADED}model = FSDP(model)",
        f"{LOADED}fully_shard(model, reshard_after_forward=False)",
    ],
)
def test_what_may_be_several_units_is_not_reported(text):
    assert codes(text) == []


def test_one_rank_shards_nothing():
    from ds_lint.facts import Facts

    facts = Facts()
    facts.world_size = 1
    assert codes(f"{LOADED}model = FSDP(model)", facts=facts) == []


@pytest.mark.parametrize(
    ("name", "layer", "is_reported"),
    [
        ("Qwen/Qwen2.5-7B", "transformers.models.llama.modeling_llama.LlamaDecoderLayer", True),
        ("meta-llama/Llama-2-7b-hf", "transformers.models.llama.modeling_llama.LlamaDecoderLayer", False),
        ("someone/model", "transformers.models.llama.modeling_llama.LlamaDecoderLayer", False),
        ("gpt2", "transformers.models.gpt_neox.modeling_gpt_neox.GPTNeoXLayer", False),  # too near to be certain
    ],
)
def test_a_policy_for_another_model(name, layer, is_reported):
    home, _, cls = layer.rpartition(".")
    text = (
        f"from {home} import {cls}\nmodel = AutoModelForCausalLM.from_pretrained({name!r})\n"
        f"model = FSDP(model, auto_wrap_policy=ModuleWrapPolicy({{{cls}}}))"
    )
    assert [(one.code, one.severity, one.key) for one in found(text)] == (
        [("DS644", "warning", "auto_wrap_policy")] if is_reported else []
    )


@pytest.mark.parametrize(
    ("text", "torch", "message"),
    [
        ("from torch.distributed.fsdp.wrap import auto_wrap", None, "no `auto_wrap` in"),
        ("from torch.distributed._fsdp import FullyShardedDataParallel", None, "no module `torch.distributed._fsdp`"),
        ("from torch.distributed.fsdp import ShardedGradScaler", None, "no `ShardedGradScaler` in"),
        ("from torch.distributed.fsdp import MixedPrecisionPolicy", "==2.5.1", "torch 2.5.1 has no"),
        ("from torch.distributed.fsdp import MixedPrecisionPolicy", ">=2.4", None),
        ("from torch.distributed.fsdp import MixedPrecisionPolicy", "==1.13.1", None),  # of which nothing is known
        ("from torch.distributed.fsdp.fully_sharded_data_parallel import CPUOffload, BackwardPrefetch", None, None),
        ("from torch.distributed._composable.fsdp import fully_shard", None, None),
        ("try:\n    from torch.distributed.fsdp.wrap import auto_wrap\nexcept ImportError:\n    pass", None, None),
        ("if old:\n    from torch.distributed.fsdp.wrap import auto_wrap", None, None),
    ],
)
def test_imports(text, torch, message):
    head = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(build())\n"
    reported = found(text, head=head, torch=torch)
    assert [one.code for one in reported] == (["DS645"] if message else [])
    assert all(message in one.message and one.stage == "load" for one in reported)


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ("FSDP(model, policy, limit_all_gather=True)", "limit_all_gather"),
        ("FSDP(model, device_mesh=mesh)", None),
        ("FSDP(model, mixed_precision='bf16')", "mixed_precision"),
        ("FSDP(model, mixed_precision=bf16_policy)", None),
        ("FSDP(model, None, ShardingStrategy.FULL)", ""),
        ("FSDP(model, sharding_strategy=1)", "sharding_strategy"),
        ("FSDP(model, auto_wrap_policy=transformer_auto_wrap_policy(transformer_layer_cls={A}))", "auto_wrap_policy"),
        (
            (
                "p = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=GPT2Block)\n"
                "FSDP(model, auto_wrap_policy=p)"
            ),
            "auto_wrap_policy",
        ),
        (
            (
                "p = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=LAYERS)\n"
                "FSDP(model, auto_wrap_policy=p)"
            ),
            None,
        ),
        ("FSDP(model, auto_wrap_policy=ModuleWrapPolicy(['GPT2Block']))", "auto_wrap_policy"),
        ("fully_shard(model, mixed_precision=policy)", "mixed_precision"),
        ("fully_shard(model, mesh)", ""),
        ("fully_shard(model, **options)", None),
    ],
)
def test_calls(call, key):
    """A parameter, the empty text where it has none, or None where nothing is refused."""
    reported = [one for one in found(f"model = build()\n{call}") if one.code == "DS645"]
    assert [one.key or "" for one in reported] == ([] if key is None else [key])


def test_a_keyword_of_a_newer_torch():
    (one,) = found(
        "model = build()\nFSDP(model, device_mesh=mesh)", torch="==2.1.2", head=HEAD.replace(", fully_shard", "")
    )
    assert one.message == (
        "`FullyShardedDataParallel` of torch 2.1.2 has no keyword `device_mesh`: the call raises a TypeError"
    )
    assert one.help == "It is new in torch 2.2.2."


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("model = FSDP(model, sync_module_states=True)", True),
        ("model = FSDP(model.cuda(), sync_module_states=True)", False),
        ("model.to(rank)\nmodel = FSDP(model, sync_module_states=True)", False),
        ("model = FSDP(model, sync_module_states=True, device_id=rank)", False),
        ("model = FSDP(model, sync_module_states=True, param_init_fn=init)", False),
    ],
)
def test_weights_are_sent_from_gpus(text, is_reported):
    assert ("DS645" in codes(LOADED + text)) == is_reported


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("optimizer = torch.optim.AdamW(model.parameters())\nmodel = FSDP(model, policy)\noptimizer.step()", True),
        ("optimizer = torch.optim.AdamW(model.parameters())\nfully_shard(model)\noptimizer.step()", True),
        (
            (
                "optimizer = torch.optim.AdamW(model.parameters())\nif sharded:\n    model = FSDP(model, policy)\n"
                "optimizer.step()"
            ),
            True,
        ),
        (
            (
                "optimizer = torch.optim.AdamW(model.parameters())\nmodel = FSDP(model, policy)\n"
                "optimizer = torch.optim.AdamW(model.parameters())\noptimizer.step()"
            ),
            False,
        ),
        (
            (
                "optimizer = torch.optim.AdamW(model.parameters())\nmodel = FSDP(model, policy, use_orig_params=True)\n"
                "optimizer.step()"
            ),
            False,
        ),
        (
            (
                "optimizer = torch.optim.AdamW(model.parameters())\nmodel = FSDP(model, policy, use_orig_params=flag)\n"
                "optimizer.step()"
            ),
            False,
        ),
        ("model = FSDP(model, policy)\noptimizer = torch.optim.AdamW(model.parameters())\noptimizer.step()", False),
        (
            "optimizer = torch.optim.AdamW(teacher.parameters())\nmodel = FSDP(model, policy)\noptimizer.step()",
            False,
        ),
        (
            (
                "optimizer = torch.optim.AdamW(model.parameters())\nmodel = other()\nmodel = FSDP(model, policy)\n"
                "optimizer.step()"
            ),
            False,
        ),
    ],
)
def test_optimizers(text, is_reported):
    assert ("DS646" in codes(LOADED + text)) == is_reported


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("model = FSDP(get_peft_model(model, lora), auto_wrap_policy=ModuleWrapPolicy({GPT2Block}))", True),
        ("model = get_peft_model(model, lora)\nmodel = FSDP(model.cuda())", True),
        ("model = FSDP(get_peft_model(model, lora), use_orig_params=True)", False),
        ("model = FSDP(get_peft_model(model, lora), auto_wrap_policy=fsdp_auto_wrap_policy(model))", False),
        ("if adapt:\n    model = get_peft_model(model, lora)\nmodel = FSDP(model)", False),
        ("for p in model.lm_head.parameters():\n    p.requires_grad = False\nmodel = FSDP(model)", True),
        ("model.lm_head.requires_grad_(False)\nmodel = FSDP(model)", True),
        ("model.requires_grad_(False)\nmodel = FSDP(model)", False),
        ("if frozen:\n    model.lm_head.requires_grad_(False)\nmodel = FSDP(model)", False),
    ],
)
def test_frozen_parameters(text, is_reported):
    assert ("DS647" in codes(f"from peft import get_peft_model\n{LOADED}{text}")) == is_reported


@pytest.mark.parametrize(
    ("chosen", "is_reported"),
    [
        ('for n, p in model.named_parameters() if "bias" not in n', True),
        ("for n, p in model.named_parameters() if not any(nd in n for nd in no_decay)", True),
        ("for p in model.parameters() if p.ndim >= 2", True),
        ("for n, p in model.named_parameters() if p.requires_grad", False),
        ('for n, p in model.named_parameters() if "norm" in n', False),  # may be the name of a unit
        ('for n, p in other.named_parameters() if "bias" not in n', False),
    ],
)
def test_groups(chosen, is_reported):
    element = "p"
    text = f'{WRAPPED}no_decay = ["bias", "LayerNorm.weight"]\ngroups = [{{"params": [{element} {chosen}]}}]'
    assert ("DS647" in codes(text)) == is_reported


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("if rank == 0:\n    torch.save(model.state_dict(), 'a.pt')", True),
        ("if dist.get_rank() != 0:\n    exit()\nelse:\n    state = model.state_dict()", True),
        ("state = model.state_dict()\nif rank == 0:\n    torch.save(state, 'a.pt')", False),
        ("if rank == 0:\n    state = model.state_dict()\nelse:\n    model.state_dict()", False),
        ("def save(model):\n    if rank == 0:\n        torch.save(model.state_dict(), 'a.pt')\n\nsave(model)", True),
        ("def save(model):\n    torch.save(model.state_dict(), 'a.pt')\n\nif rank == 0:\n    save(model)", True),
        ("if rank == 0:\n    torch.save(other.state_dict(), 'a.pt')", False),
        ("if rank == 0:\n    FSDP.optim_state_dict(model, optimizer)", True),
        ("if rank == 0:\n    model.save_pretrained('out')", True),
        ("if rank == 0:\n    model.save_pretrained('out', state_dict=state)", False),
        ("model.save_pretrained('out')", True),
        ("with FSDP.summon_full_params(model):\n    model.save_pretrained('out')", False),
        (("optimizer = torch.optim.AdamW(model.parameters())\nif rank == 0:\n"
         "    torch.save({'optimizer': optimizer.state_dict()}, 'a.pt')"), True),
        (("optimizer = torch.optim.AdamW(model.parameters())\nstates = optimizer.state_dict()\n"
         "torch.save(states, f'{rank}.pt')"), False),
    ],
)  # fmt: skip
def test_one_rank(text, is_reported):
    assert ("DS648" in codes(WRAPPED + text)) == is_reported


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("if rank == 0:\n    model.load_state_dict(state)\nmodel = FSDP(model, auto_wrap_policy=policy)", True),
        (
            (
                "if rank == 0:\n    model.load_state_dict(state)\n"
                "model = FSDP(model, auto_wrap_policy=policy, sync_module_states=True, device_id=0)"
            ),
            False,
        ),
        ("model.load_state_dict(state)\nmodel = FSDP(model, auto_wrap_policy=policy)", False),
        (
            (
                "if rank == 0:\n    model = AutoModelForCausalLM.from_pretrained('a')\n"
                "else:\n    model = AutoModelForCausalLM.from_config(config)\n"
                "model = FSDP(model, auto_wrap_policy=policy)"
            ),
            True,
        ),
    ],
)
def test_weights_that_one_rank_loads(text, is_reported):
    assert ("DS648" in codes(LOADED * ("else" not in text) + text)) == is_reported


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        ("torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", True),
        ("model.clip_grad_norm_(1.0)", False),
        ("torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)", False),
        ("torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)", False),
        ("def step(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n\nstep(model)", True),
        (("optimizer = torch.optim.SGD(model.parameters(), lr=1)\nscaler = torch.cuda.amp.GradScaler()\n"
         "scaler.step(optimizer)"), True),
        (("optimizer = torch.optim.SGD(model.parameters(), lr=1)\nscaler = torch.amp.GradScaler(enabled=fp16)\n"
         "scaler.step(optimizer)"), False),
    ],
)  # fmt: skip
def test_local_gradients(text, is_reported):
    assert ("DS649" in codes(WRAPPED + text)) == is_reported


def test_other_modules_are_no_scripts_with_fsdp():
    texts = [
        "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nisinstance(model, FSDP)",
        "from fairscale.nn import FullyShardedDataParallel as FSDP\nmodel = FSDP(model)",
        "from deepspeed import FullyShardedDataParallel\nFullyShardedDataParallel(model)",
    ]
    assert [python.read(text, "train.py") for text in texts] == [[], [], []]


SCHEMA = json.loads(Path(resources.path("schemas", "report.schema.json")).read_text(encoding="utf-8"))
SCRIPT = f"{HEAD}{LOADED}model = FSDP(model)\noptimizer = torch.optim.AdamW(model.parameters())\n"


def report_of(run, *arguments):
    result = run("check", *arguments, "--output-format", "json")
    report = json.loads(result.stdout)
    jsonschema.validate(report, SCHEMA)
    return report


def test_a_script_is_a_file_of_the_report(run, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "requirements.txt").write_text("torch==2.7.1\n")
    for name in (".", "train.py"):
        report = report_of(run, name)
        (file,), (one,) = report["files"], report["findings"]
        assert (file["path"].removeprefix("./"), file["stack"], file["target"]) == (
            "train.py",
            None,
            {"torch": "2.7.1"},
        )
        assert (one["code"], one["key"], one["span"]["start"]["line"]) == ("DS644", "auto_wrap_policy", 12)


def test_the_launch_of_a_script_says_how_many_ranks_share_the_model(run, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT)
    for ranks, codes_found in ((1, []), (8, ["DS644"])):
        (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node {ranks} train.py\n")
        assert [one["code"] for one in report_of(run, ".")["findings"]] == codes_found


def test_comments_suppress(run, tmp_path):
    (tmp_path / "train.py").write_text(SCRIPT.replace("FSDP(model)\n", "FSDP(model)  # ds-lint: ignore[DS644]\n"))
    assert report_of(run, "train.py")["findings"] == []


@pytest.mark.parametrize("command", [["memory"], ["convert", "--to", "deepspeed"], ["effective"]])
def test_a_script_has_no_config(run, tmp_path, command):
    (tmp_path / "train.py").write_text(SCRIPT)
    result = run(*command, "train.py")
    assert result.returncode == 2
    assert "train.py has no config" in result.stderr
