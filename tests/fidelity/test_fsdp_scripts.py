"""What torch does on ranks with scripts that use FSDP by themselves, against what the rules say of their texts."""

from __future__ import annotations

import importlib
import inspect
import json
import math
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest

pytest.importorskip("torch")

from ranks import run

from ds_lint.knowledge import tables
from ds_lint.knowledge.fsdp import FsdpNames
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source import python
from ds_lint.targets.pin import Pin

pytestmark = pytest.mark.fidelity

TORCH = version("torch").partition("+")[0]
# Two, and as many as no weight can be divided by; some of five have no part of a weight.
RANKS = [2, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (3, 5))]
HEAD = """\
import functools
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, MixedPrecisionPolicy, ShardingStrategy, fully_shard
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy, transformer_auto_wrap_policy

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.third = nn.Linear(8, 4)

    def forward(self, x):
        return self.third(self.second(self.first(x)))

policy = ModuleWrapPolicy({nn.Linear})
model = Net()
"""
# By rule, the texts that it reports and those that it does not; what each leaves in ``seen`` on the first rank.
UNITS = {
    "FSDP 1 alone": ("model = FSDP(model)\nseen = units(model)", "DS644", [3, 3, 3]),
    "a policy": ("model = FSDP(model, auto_wrap_policy=policy)\nseen = units(model)", "", [1, 1, 1]),
    "no shards": (
        "model = FSDP(model, sharding_strategy=ShardingStrategy.NO_SHARD)\nseen = units(model)", "", [3, 3, 3]
    ),
    "FSDP 2 alone": ("fully_shard(model, mesh=mesh)\nseen = units(model)", "DS644", [3, 3, 3]),
    "layers first": (
        ("for layer in model.children():\n    fully_shard(layer, mesh=mesh)\n"
        "fully_shard(model, mesh=mesh)\nseen = units(model)"), "", [1, 1, 1],
    ),
}  # fmt: skip
REFUSED = {
    "called policy": ("FSDP(model, auto_wrap_policy=size_based_auto_wrap_policy(min_num_params=100))", "TypeError"),
    "no layers": ("FSDP(model, auto_wrap_policy=transformer_auto_wrap_policy)", "TypeError"),
    "a class of layers": (
        ("policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls=nn.Linear)\n"
        "FSDP(model, auto_wrap_policy=policy)"),
        "TypeError",
    ),
    "a class": ("FSDP(model, auto_wrap_policy=ModuleWrapPolicy(nn.Linear))", "TypeError"),
    "a list of classes": ("FSDP(model, auto_wrap_policy=ModuleWrapPolicy([nn.Linear]))", None),
    "names": ('FSDP(model, auto_wrap_policy=ModuleWrapPolicy({"Linear"}))', "TypeError"),
    "a set": ("FSDP(model, auto_wrap_policy={nn.Linear})", "TypeError"),
    "size": ("FSDP(model, auto_wrap_policy=size_based_auto_wrap_policy)", None),
    "a dtype": ("FSDP(model, mixed_precision=torch.bfloat16)", "AttributeError"),
    "a policy of FSDP 2": (
        "FSDP(model, mixed_precision=MixedPrecisionPolicy(param_dtype=torch.bfloat16))", "AttributeError"
    ),
    "a switch": ("FSDP(model, cpu_offload=True)", "AttributeError"),
    "no switch": ("FSDP(model, cpu_offload=False)", None),
    "a word": ('FSDP(model, sharding_strategy="FULL_SHARD")', "KeyError"),
    "hybrid": ("FSDP(model, sharding_strategy=ShardingStrategy.HYBRID_SHARD)", "ValueError"),
    "unknown keyword": ("FSDP(model, offload_params=True)", "TypeError"),
    "no member": ("FSDP(model, sharding_strategy=ShardingStrategy.SHARD)", "AttributeError"),
    "policy of FSDP 1": ("fully_shard(model, auto_wrap_policy=policy)", "TypeError"),
    "mesh by position": ("fully_shard(model, mesh)", "TypeError"),
    "no import": ("from torch.distributed.fsdp.wrap import auto_wrap\nFSDP(model)", "ImportError"),
    "no module": ("import torch.distributed._fsdp\nFSDP(model)", "ModuleNotFoundError"),
    "clipping of FSDP 1": ("fully_shard(model, mesh=mesh)\nmodel.clip_grad_norm_(1.0)", "AttributeError"),
    "synced on the CPU": ("FSDP(model, sync_module_states=True)", "ValueError"),
}  # fmt: skip
SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
STEP = "seen = has_moved(model, optimizer)"
STEPS = {
    "before": (f"{SGD}model = FSDP(model, auto_wrap_policy=policy)\n{STEP}", "DS646", False),
    "after": (f"model = FSDP(model, auto_wrap_policy=policy)\n{SGD}{STEP}", "", True),
    "original parameters": (
        f"{SGD}model = FSDP(model, auto_wrap_policy=policy, use_orig_params=True)\n{STEP}", "", True
    ),
    "before FSDP 2": (f"{SGD}fully_shard(model, mesh=mesh)\n{STEP}", "DS646", False),
    "after FSDP 2": (f"fully_shard(model, mesh=mesh)\n{SGD}{STEP}", "", True),
}  # fmt: skip
FREEZE = "for parameter in model.first.parameters():\n    parameter.requires_grad = False\n"
GROUPS = "seen = len([p for n, p in model.named_parameters() if 'bias' in n])\n"
GROUPED = 'torch.optim.SGD([{"params": [p for n, p in model.named_parameters() if "bias" in n]}], lr=1)'
FLAT = {
    "frozen beside trained": (f"{FREEZE}model = FSDP(model)", "DS647", "ValueError"),
    "frozen, original parameters": (f"{FREEZE}model = FSDP(model, use_orig_params=True)", "", None),
    "frozen unit": (f"{FREEZE}model = FSDP(model, auto_wrap_policy=policy)", "", None),
    "names of flat ones": (f"model = FSDP(model, auto_wrap_policy=policy)\n{GROUPS}{GROUPED}", "DS647", 0),
    "original names": (
        f"model = FSDP(model, auto_wrap_policy=policy, use_orig_params=True)\n{GROUPS}{GROUPED}", "", 3
    ),
}  # fmt: skip
BACKWARD = "model(torch.full((2, 8), rank + 1.0)).sum().backward()\n"
CLIP = "seen = float(getattr(norm, 'full_tensor', lambda: norm)())"
SCALED = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = {}("cpu", init_scale=4.0)
scaler.scale(model(torch.ones(2, 8)).sum()).backward()
gradient = next(one.grad for one in model.parameters())
if rank == 1:
    getattr(gradient, "to_local", lambda: gradient)().view(-1)[0] = float("inf")
scaler.step(optimizer)
scaler.update()
seen = scaler.get_scale()
"""
# What the mean of the gradients of all ranks is without FSDP.
PLAIN = """\
for one in range(dist.get_world_size()):
    model(torch.full((2, 8), one + 1.0)).sum().backward()
seen = float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)) / dist.get_world_size()
"""
GRADIENTS = {
    "torch's norm": (
        (f"model = FSDP(model, auto_wrap_policy=policy)\n{BACKWARD}"
        f"norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{CLIP}"), "DS649",
    ),
    "torch's norm, gathered once": (
        (f"model = FSDP(model, auto_wrap_policy=policy, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP)\n{BACKWARD}"
        f"norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{CLIP}"), "DS649",
    ),
    "torch's norm, no shards": (
        (f"model = FSDP(model, sharding_strategy=ShardingStrategy.NO_SHARD)\n{BACKWARD}"
        f"norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{CLIP}"), "",
    ),
    "own norm": (
        f"model = FSDP(model, auto_wrap_policy=policy)\n{BACKWARD}norm = model.clip_grad_norm_(1.0)\n{CLIP}", ""
    ),
    "norm of FSDP 2": (
        (f"fully_shard(model, mesh=mesh)\n{BACKWARD}"
        f"norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n{CLIP}"), "",
    ),
}  # fmt: skip
SCALERS = {
    "torch's scaler": ("FSDP(model, auto_wrap_policy=policy)", "torch.amp.GradScaler", "DS649"),
    "own scaler": ("FSDP(model, auto_wrap_policy=policy)", "ShardedGradScaler", ""),
    "scaler of FSDP 2": ("fully_shard(model, mesh=mesh)", "torch.amp.GradScaler", ""),
}
ELEMENTS = 180  # of the model
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=0.1)\nhas_moved(model, optimizer)\n"
STATES = "[one['exp_avg'] for one in optimizer.state_dict()['state'].values()]"
WHOLE = """\
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
seen = elements(weights.values())
if rank == 0:
    torch.save(weights, '/dev/null')
"""
# What leaves in ``seen`` how many elements a rank would save.
SAVED = {
    "states of the optimizer": (
        (f"model = FSDP(model)\n{ADAM}seen = elements({STATES})\n"
        "if rank == 0:\n    torch.save(optimizer.state_dict(), '/dev/null')"), "DS648",
    ),
    "states of all": (
        (f"model = FSDP(model)\n{ADAM}"
        "states = FSDP.optim_state_dict(model, optimizer)['state']\n"
        "seen = elements([one['exp_avg'] for one in states.values()])\n"
        "if rank == 0:\n    torch.save(states, '/dev/null')"), "",
    ),
    "states of FSDP 2": (
        (f"fully_shard(model, mesh=mesh)\n{ADAM}"
        f"seen = elements({STATES})\n"
        "if rank == 0:\n    torch.save(optimizer.state_dict(), '/dev/null')"), "DS648",
    ),
    "weights of FSDP 2": (
        ("fully_shard(model, mesh=mesh)\nseen = elements(model.state_dict().values())\n"
        "if rank == 0:\n    torch.save(model.state_dict(), '/dev/null')"), "DS648",
    ),
    "all weights of FSDP 2": (f"fully_shard(model, mesh=mesh)\n{WHOLE}", ""),
}  # fmt: skip
# The rank that a weight is from, or 7.0 if it was loaded.
FILLED = "with torch.no_grad():\n    for one in model.parameters():\n        one.fill_(float(rank))\n"
LOAD = "model.load_state_dict({name: torch.full_like(one, 7.0) for name, one in model.state_dict().items()})\n"
ON_FIRST = f"{FILLED}if dist.get_rank() == 0:\n    {LOAD}"
FROM = "with FSDP.summon_full_params(model):\n    seen = sorted(set(model.first.weight.flatten().tolist()))"
FROM_2 = "seen = sorted(set(model.first.weight.full_tensor().flatten().tolist()))"
LATER = """\
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
loaded = {name: torch.full(one.shape, 7.0) for name, one in model.named_parameters()} if rank == 0 else {}
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
"""
LOADED = {
    "by one rank": (f"{ON_FIRST}model = FSDP(model, auto_wrap_policy=policy)\n{FROM}", "DS648"),
    "by all ranks": (f"{FILLED}{LOAD}model = FSDP(model, auto_wrap_policy=policy)\n{FROM}", ""),
    "by one rank, FSDP 2": (f"{ON_FIRST}fully_shard(model, mesh=mesh)\n{FROM_2}", "DS648"),
    "by one rank after FSDP 2": (
        (f"{FILLED}{LATER}fully_shard(model, mesh=mesh)\n"
        f"set_model_state_dict(model, loaded, options=options)\n{FROM_2}"), "",
    ),
}  # fmt: skip
# A model of transformers; the parameters of which a file does not have the whole weight.
GPT2 = """\
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.models.gpt2.modeling_gpt2 import GPT2Block
net = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_embd=8, n_layer=1, n_head=2, n_positions=16))
shapes = {name: one.shape for name, one in net.named_parameters()}
model = FSDP(net, auto_wrap_policy=ModuleWrapPolicy([GPT2Block]), use_orig_params=keeps)
"""
LACKS = """\
found = load_file(f"{folder}/model.safetensors") if rank == 0 else shapes
seen = sorted(name for name, shape in shapes.items() if getattr(found.get(name), "shape", None) != shape)
"""
ROOT = ["transformer.ln_f.bias", "transformer.ln_f.weight", "transformer.wpe.weight", "transformer.wte.weight"]
PRETRAINED = {
    "flat parameters": (f"keeps = False\n{GPT2}model.save_pretrained(folder)\n{LACKS}", ROOT),
    "kept parameters": (f"keeps = True\n{GPT2}model.save_pretrained(folder)\n{LACKS}", ROOT),
    "a state": (
        f"keeps = False\n{GPT2}state = model.state_dict()\nmodel.save_pretrained(folder, state_dict=state)\n{LACKS}", []
    ),
}  # fmt: skip
HANGING = {
    "weights": "if rank == 0:\n    torch.save(model.state_dict(), '/dev/null')\n",
    "norm": f"{BACKWARD}if rank == 0:\n    model.clip_grad_norm_(1.0)\n",
    "whole parameters": "if rank == 0:\n    with FSDP.summon_full_params(model):\n        pass\n",
    "states": f"{SGD}if rank == 0:\n    FSDP.optim_state_dict(model, optimizer)\n",
    "loaded weights": "weights = model.state_dict()\nif rank == 0:\n    model.load_state_dict(weights)\n",
    "weights of both versions": (
        "from torch.distributed.checkpoint.state_dict import get_model_state_dict\n"
        "if rank == 0:\n    get_model_state_dict(model)\n"
    ),
}


def texts() -> dict[str, str]:
    tables_of_texts = (UNITS, REFUSED, STEPS, FLAT, GRADIENTS, SAVED, LOADED, PRETRAINED)
    found = {name: text for table in tables_of_texts for name, (text, *_) in table.items()}
    assert len(found) == sum(len(table) for table in tables_of_texts)  # no two have the same name
    for name, (wrapped, scaler, _) in SCALERS.items():
        found[name] = f"model = {wrapped}\n{SCALED.format(scaler)}"
    return {name: HEAD + text for name, text in {**found, "plain": PLAIN}.items()}


@cache
def outcomes(ranks: int) -> list[dict[str, Any]]:
    """What is seen on each rank."""
    done = run("fsdp_scripts", json.dumps(texts()), ranks=ranks)
    assert done.is_complete, "\n".join(done.errors)
    return [answer for answer in done.answers if answer is not None]


def seen(name: str, ranks: int) -> list[Any]:
    """What a text leaves on each rank."""
    return [answer[name] for answer in outcomes(ranks)]


def codes(text: str) -> set[str]:
    """The rules about FSDP that report something of a text."""
    basis = Basis(knowledge(), pins={"torch": Pin("torch", f"=={TORCH}", "here")})
    (document,) = [one for one in python.read(text, "train.py") if one.is_of_fsdp]
    return {one.code for one in lint(document, basis).findings}


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", UNITS)
def test_units(name: str, ranks: int) -> None:
    """DS644: without a policy, or with `fully_shard` alone, all layers are whole while each of them runs."""
    _, code, layers = UNITS[name]
    assert seen(name, ranks) == [layers] * ranks
    assert ("DS644" in codes(texts()[name])) == (code == "DS644")


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str, ranks: int) -> None:
    """DS645: what the rule reports raises, and what it does not report runs."""
    assert seen(name, ranks) == [REFUSED[name][1]] * ranks
    assert ("DS645" in codes(texts()[name])) == (REFUSED[name][1] is not None)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", STEPS)
def test_optimizers(name: str, ranks: int) -> None:
    """DS646: the steps of an optimizer from before change no weight on any rank."""
    _, code, moves = STEPS[name]
    assert seen(name, ranks)[0] is moves
    assert any(seen(name, ranks)) is moves
    assert ("DS646" in codes(texts()[name])) == bool(code)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", FLAT)
def test_flat_parameters(name: str, ranks: int) -> None:
    """DS647: mixed units raise, and names are not those of the parameters, unless the original ones stay."""
    _, code, found = FLAT[name]
    assert seen(name, ranks) == [found] * ranks
    assert ("DS647" in codes(texts()[name])) == bool(code)


@pytest.mark.parametrize("ranks", RANKS)
def test_norms(ranks: int) -> None:
    """DS649: the norm of a shard is not that of all gradients, which is the mean of all passes."""
    right = outcomes(ranks)[0]["plain"]
    for name, (_, code) in GRADIENTS.items():
        norms = seen(name, ranks)
        assert ("DS649" in codes(texts()[name])) == bool(code), name
        is_right = [math.isclose(one, right, rel_tol=1e-5) for one in norms]
        assert is_right == [not code] * ranks, (name, norms, right)
        if code:  # the shards together have all gradients
            assert math.isclose(math.hypot(*norms), right, rel_tol=1e-5)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", SCALERS)
def test_scalers(name: str, ranks: int) -> None:
    """DS649: one rank lowers its scale and skips the step that the others make."""
    others = 4.0 if SCALERS[name][2] else 2.0
    assert seen(name, ranks) == [2.0 if rank == 1 else others for rank in range(ranks)]
    assert ("DS649" in codes(texts()[name])) == bool(SCALERS[name][2])


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", SAVED)
def test_parts(name: str, ranks: int) -> None:
    """DS648: what one rank saves has not all elements, which the ranks have together."""
    code, elements = SAVED[name][1], seen(name, ranks)
    if code:
        assert max(elements) < ELEMENTS == sum(elements)
    else:
        assert elements[0] == ELEMENTS
    assert ("DS648" in codes(texts()[name])) == bool(code)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", LOADED)
def test_loads(name: str, ranks: int) -> None:
    """DS648: what one rank loads before the model is wrapped is mixed with what the others have."""
    code = LOADED[name][1]
    for values in seen(name, ranks):
        assert {7.0} < {*values} <= {7.0, *range(1, ranks)} if code else values == [7.0]
    assert ("DS648" in codes(texts()[name])) == bool(code)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", PRETRAINED)
def test_saved_models(name: str, ranks: int) -> None:
    """DS648: `save_pretrained` has no whole weight of what is in no inner unit, unless it gets the state."""
    assert seen(name, ranks)[0] == PRETRAINED[name][1]
    assert ("DS648" in codes(texts()[name])) == bool(PRETRAINED[name][1])


@pytest.mark.long
@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", HANGING)
def test_a_rank_that_is_alone_waits(name: str, ranks: int) -> None:
    """DS648: one rank alone does not come to the end of the call, which all ranks together do."""
    text = f"{HEAD}model = FSDP(model, auto_wrap_policy=policy)\n{HANGING[name]}"
    assert "DS648" in codes(text)
    done = run("fsdp_scripts", json.dumps({name: text}), ranks=ranks, timeout=15.0)
    assert not done.is_complete or done.answers[0] == {name: "RuntimeError"}
    together = text.replace("if rank == 0:", "if True:")
    assert "DS648" not in codes(together)
    done = run("fsdp_scripts", json.dumps({name: together}), ranks=ranks)
    assert done.answers == [{name: None}] * ranks, done.errors


@pytest.mark.skipif(TORCH not in tables.load("fsdp")["releases"], reason="another release is installed")
def test_the_store_is_what_is_installed() -> None:
    """Every name of the store is there, with these parameters; and no public name is missing."""
    torch = FsdpNames(Pin("torch", f"=={TORCH}", "here"))
    checked = 0
    for name in tables.load("fsdp")["names"]:
        facts = torch.facts(name)
        home, _, last = name.rpartition(".")
        if facts is None or "._composable" in name or not torch.is_public(home):
            continue
        module = importlib.import_module(home)
        found = getattr(module, last) if hasattr(module, last) else importlib.import_module(name)
        if "members" in facts:
            assert [one for one in facts["members"] if not hasattr(found, one)] == []
        elif "parameters" in facts:
            assert list(inspect.signature(found).parameters)[: len(facts["parameters"])] == facts["parameters"], name
            checked += 1
    assert checked > 50
    for home in ("torch.distributed.fsdp", "torch.distributed.fsdp.wrap"):
        public = [one for one in vars(importlib.import_module(home)) if not one.startswith("_")]
        assert [one for one in public if torch.facts(f"{home}.{one}") is None] == []
