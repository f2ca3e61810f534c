"""What rules say about a config and the loop in which a script calls the engine, and where they are silent."""

from __future__ import annotations

import json

import pytest
from newest import NEWEST

from ds_lint import checks
from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.session.material import linted
from ds_lint.source import documents
from ds_lint.source.document import Document

CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
OF_ONE = {**CONFIG, "gradient_accumulation_steps": 1}
OF_FOUR = {**CONFIG, "gradient_accumulation_steps": 4}
AUTO = {**CONFIG, "gradient_accumulation_steps": "auto"}
ACCELERATED = """\
import torch
from accelerate import Accelerator
{before}accelerator = Accelerator({keywords})
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, batch in enumerate(loader):
{loop}"""
ENGINE = """\
import deepspeed
import torch
engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config="ds.json")
for step, batch in enumerate(loader):
{loop}"""
PLAIN = ["loss = model(batch)", "accelerator.backward(loss)", "optimizer.step()", "optimizer.zero_grad()"]
ACCUMULATE = ["with accelerator.accumulate(model):", *(f"    {line}" for line in PLAIN)]
OPTIONS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
parser.add_argument("--max_grad_norm", type=float, default=1.0)
args = parser.parse_args()
"""
OF_ARGS = "gradient_accumulation_steps=args.gradient_accumulation_steps"


def accelerated(lines, keywords="", before=""):
    return ACCELERATED.format(before=before, keywords=keywords, loop="".join(f"    {line}\n" for line in lines))


def of_engine(lines):
    return ENGINE.format(loop="".join(f"    {line}\n" for line in lines))


def found(script, config, *, flags="", codes=(), **releases):
    """The codes of rules about loops, each with the code of the script that it points at."""
    launch = launches_in(f"torchrun --nproc_per_node 2 train.py {flags}", "run.sh", lambda _: None).launches[0]
    shown = read_training_script(script)
    assert shown is not None
    facts = LaunchFacts(launch, Document("run.sh", "", None, []), shown, Document("train.py", script, None, []))
    document = documents.from_bytes(json.dumps(config).encode(), "ds.json")
    report = linted(Basis(knowledge(Target(**releases))), [facts], lambda basis: lint(document, basis))
    return [
        (one.code, script[one.related[0].span.start : one.related[0].span.end])
        for one in report.findings
        if one.code in (codes or OF_LOOPS)
    ]


assert "training_loops" in set(checks.every_family())
OF_LOOPS = {rule.code for rule in every_rule() if rule.family == "training_loops"}


# ------------------------------------------------------------------------------------------- steps of Accelerate


@pytest.mark.parametrize(
    ("keywords", "flags", "config", "is_found"),
    [
        ("gradient_accumulation_steps=4", "", OF_ONE, True),
        ("gradient_accumulation_steps=4", "", CONFIG, True),  # to which Accelerate adds 1
        ("gradient_accumulation_steps=4", "", OF_FOUR, False),
        ("gradient_accumulation_steps=4", "", AUTO, False),
        ("gradient_accumulation_steps=1", "", OF_FOUR, False),  # the default, over which the config is meant to win
        ("", "", OF_FOUR, False),
        ("**kwargs", "", OF_ONE, False),
        ("gradient_accumulation_steps=4, deepspeed_plugin=plugin", "", OF_ONE, False),
        ("gradient_accumulation_plugin=GradientAccumulationPlugin(num_steps=2)", "", OF_FOUR, True),
        (OF_ARGS, "--gradient_accumulation_steps 8", OF_ONE, True),
        (OF_ARGS, "--gradient_accumulation_steps=8", OF_ONE, True),
        (OF_ARGS, "--gradient_accumulation_steps 1", OF_ONE, False),
        (OF_ARGS, "", OF_FOUR, False),
        ("gradient_accumulation_steps=count(loader)", "", OF_ONE, False),
    ],
)
def test_the_steps_of_the_config_win(keywords, flags, config, is_found):
    script = accelerated(ACCUMULATE, keywords, OPTIONS)
    assert [code for code, _ in found(script, config, flags=flags)] == ["DS860"] * is_found


def test_older_releases_take_the_steps_of_the_script():
    script = accelerated(ACCUMULATE, "gradient_accumulation_steps=4")
    assert [code for code, _ in found(script, OF_ONE, accelerate="0.23.0", deepspeed="0.15.4")] == ["DS860"]
    assert found(script, OF_ONE, accelerate="0.22.0", deepspeed="0.15.4") == []


@pytest.mark.parametrize(
    "change",
    [
        'accelerator.state.deepspeed_plugin.deepspeed_config["gradient_accumulation_steps"] = 4\n',
        'plugin.deepspeed_config.update({"gradient_accumulation_steps": 4})\n',
        "accelerator.gradient_accumulation_steps = 4\n",
    ],
)
def test_a_script_may_change_the_config(change):
    script = accelerated(ACCUMULATE, "gradient_accumulation_steps=4").replace("model, opt", f"{change}model, opt", 1)
    assert found(script, OF_ONE) == []


# ------------------------------------------------------------------------------------------------------- updates


@pytest.mark.parametrize(
    ("lines", "config", "place"),
    [
        (PLAIN, OF_FOUR, "accelerator.backward"),
        (PLAIN, OF_ONE, None),
        (ACCUMULATE, OF_FOUR, None),
        (["with torch.enable_grad():", *ACCUMULATE[1:]], OF_FOUR, "accelerator.backward"),
        (["with steps(accelerator):", *ACCUMULATE[1:]], OF_FOUR, None),
        (["with accelerator.autocast():", *ACCUMULATE[1:]], OF_FOUR, "accelerator.backward"),
        ([*PLAIN[:2], "if step % 4 == 0:", "    optimizer.step()"], OF_ONE, "optimizer.step"),
        ([*PLAIN[:2], "if (step + 1) % 4 == 0 or step == last:", "    optimizer.step()"], OF_ONE, "optimizer.step"),
        ([*PLAIN[:2], "if step % 1 == 0:", "    optimizer.step()"], OF_ONE, None),
        ([*PLAIN[:2], "if step % count == 0:", "    optimizer.step()"], OF_ONE, None),
        ([*PLAIN[:2], "if step % 4 == 0:", "    scheduler.step()"], OF_ONE, None),
        (["if step % 4 == 0:", *(f"    {line}" for line in PLAIN)], OF_ONE, None),
        (["with accelerator.no_sync(model):", *ACCUMULATE[1:]], OF_FOUR, None),
    ],
)
def test_what_accelerate_does_at_each_batch(lines, config, place):
    assert found(accelerated(lines), config) == ([("DS861", place)] if place else [])


def test_the_engine_counts_for_older_releases_of_accelerate():
    assert found(accelerated(PLAIN), OF_FOUR, accelerate="1.7.0") == []
    assert [code for code, _ in found(accelerated(PLAIN), OF_FOUR, accelerate="1.8.0")] == ["DS861"]
    rare = accelerated([*PLAIN[:2], "if step % 4 == 0:", "    optimizer.step()"])
    assert [code for code, _ in found(rare, OF_ONE, accelerate="1.7.0")] == ["DS861"]


OF_ENGINE = ["loss = engine(batch)", "engine.backward(loss)"]


@pytest.mark.parametrize(
    ("test", "config", "is_found"),
    [
        ("(step + 1) % 4 == 0", OF_FOUR, True),
        ("(step + 1) % 4 == 0", OF_ONE, True),
        ("(step + 1) % 4 == 0", {**OF_ONE, "zero_optimization": {"stage": 3}}, False),  # adds them up
        ("(step + 1) % 4 == 0", {**OF_FOUR, "zero_optimization": {"stage": 3}}, True),
        ("(step + 1) % engine.gradient_accumulation_steps() == 0", OF_FOUR, True),
        ("(step + 1) % engine.gradient_accumulation_steps() == 0", OF_ONE, False),
        ("engine.is_gradient_accumulation_boundary()", OF_FOUR, True),
        ("engine.is_gradient_accumulation_boundary()", OF_ONE, False),
        ("(step + 1) % accumulation == 0", OF_FOUR, False),
        ("loss.isfinite()", OF_FOUR, False),
    ],
)
def test_steps_that_the_engine_is_not_called_for(test, config, is_found):
    script = of_engine([*OF_ENGINE, f"if {test}:", "    engine.step()"])
    assert found(script, config) == ([("DS861", "engine.step")] if is_found else [])


def test_the_engine_may_be_set_by_hand():
    script = of_engine([
        "engine.set_gradient_accumulation_boundary((step + 1) % 4 == 0)", *OF_ENGINE, "if (step + 1) % 4 == 0:",
        "    engine.step()",
    ])  # fmt: skip
    assert found(script, OF_FOUR) == []


def test_older_releases_add_gradients_up():
    script = of_engine([*OF_ENGINE, "if (step + 1) % 4 == 0:", "    engine.step()"])
    assert found(script, OF_ONE, deepspeed="0.17.5") == []


# -------------------------------------------------------------------------------------------------------- the loss


@pytest.mark.parametrize(
    ("lines", "is_found"),
    [
        (["loss = engine(batch) / accumulation", "engine.backward(loss)"], True),
        (["loss = engine(batch)", "loss = loss / accumulation", "engine.backward(loss)"], True),
        (["loss = engine(batch)", "loss /= accumulation", "engine.backward(loss)"], True),
        (["loss = 2 * x + y", "loss = loss / accumulation", "engine.backward(loss)"], True),
        (["loss = engine(batch)", "engine.backward(loss / engine.gradient_accumulation_steps())"], True),
        (["loss = engine(batch)", "if accumulation > 1:", "    loss /= accumulation", "engine.backward(loss)"], True),
        (["loss = engine(batch)", "if other:", "    loss /= accumulation", "engine.backward(loss)"], False),
        (["if other:", "    loss = engine(batch) / accumulation", "    engine.backward(loss)"], True),
        (["loss = engine(batch)", "engine.backward(loss / 2)"], False),
        (["loss = engine(batch)", "engine.backward(loss / len(batch))"], False),
        (["loss = engine(batch)", "engine.backward(loss / accumulation, scale_wrt_gas=False)"], False),
        (["loss = engine(batch)", "engine.backward(loss)", "loss = loss / accumulation"], False),
        (["loss = engine(batch)", "engine.backward(loss)"], False),
    ],
)
def test_a_loss_that_is_divided_twice(lines, is_found):
    script = "accumulation = 4\n" + of_engine([*lines, "engine.step()"])
    assert [code for code, _ in found(script, OF_FOUR)] == ["DS862"] * is_found
    assert found(script, OF_ONE) == []


# ---------------------------------------------------------------------------------------------------------- clips


@pytest.mark.parametrize(
    ("limit", "clipping", "flags", "is_found"),
    [
        ("0.5", 1.0, "", True),
        ("0.5", "auto", "", True),  # which becomes 1.0
        ("1.0", "auto", "", False),
        ("1.0", 0.0, "", True),
        ("0.5", 0.5, "", False),
        ("args.max_grad_norm", 1.0, "--max_grad_norm 0.3", True),
        ("args.max_grad_norm", 1.0, "", False),
        ("limit(step)", 1.0, "", False),
    ],
)
def test_accelerate_leaves_clipping_to_the_config(limit, clipping, flags, is_found):
    lines = [*PLAIN[:2], f"accelerator.clip_grad_norm_(model.parameters(), {limit})", *PLAIN[2:]]
    config = {**OF_ONE, "gradient_clipping": clipping}
    given = found(accelerated(lines, before=OPTIONS), config, flags=flags)
    assert given == [("DS873", "accelerator.clip_grad_norm_")] * is_found


def test_accelerate_does_not_clip_by_value():
    lines = [*PLAIN[:2], "accelerator.clip_grad_value_(model.parameters(), 1.0)", *PLAIN[2:]]
    config = {**OF_ONE, "gradient_clipping": 1.0}
    assert found(accelerated(lines), config) == [("DS873", "accelerator.clip_grad_value_")]


def test_the_accelerator_may_have_another_name():
    script = accelerated(ACCUMULATE, "gradient_accumulation_steps=4").replace("accelerator", "fabric")
    assert [code for code, _ in found(script, OF_ONE)] == ["DS860"]
    plain = accelerated(PLAIN).replace("accelerator", "fabric")
    assert found(plain, OF_FOUR) == [("DS861", "fabric.backward")]


def test_a_clip_that_does_not_run_is_no_clip():
    clip = "accelerator.clip_grad_norm_(model.parameters(), args.max_grad_norm)"
    script = accelerated([*PLAIN[:2], "if args.max_grad_norm < 0.5:", f"    {clip}"], before=OPTIONS)
    config = {**OF_ONE, "gradient_clipping": 2.0}
    assert found(script, config) == []
    assert found(script, config, flags="--max_grad_norm -1") == []
    assert [code for code, _ in found(script, config, flags="--max_grad_norm 0.1")] == ["DS873"]


@pytest.mark.parametrize("release", ["0.16.9", NEWEST["deepspeed"]])
def test_a_config_without_clipping_has_the_default_of_deepspeed(release):
    lines = [*PLAIN[:2], "accelerator.clip_grad_norm_(model.parameters(), 1.0)", *PLAIN[2:]]
    is_found = release == "0.16.9"
    assert bool(found(accelerated(lines), OF_ONE, deepspeed=release)) == is_found


@pytest.mark.parametrize(
    ("stage", "parameters", "is_found"),
    [
        (2, "engine.parameters()", True),
        (1, "engine.module.parameters()", True),
        (3, "model.parameters()", True),
        (0, "engine.parameters()", False),
        (2, "discriminator.parameters()", False),
    ],
)
def test_torch_finds_no_gradients_to_clip(stage, parameters, is_found):
    lines = [*OF_ENGINE, f"torch.nn.utils.clip_grad_norm_({parameters}, 0.5)", "engine.step()"]
    config = {**OF_ONE, "gradient_clipping": 1.0, "zero_optimization": {"stage": stage}}
    assert [code for code, _ in found(of_engine(lines), config)] == ["DS873"] * is_found


# ------------------------------------------------------------------------------------------------------- backward


def test_backward_of_torch_never_lets_accelerate_step():
    lines = ["loss = model(batch)", "loss.backward()", *PLAIN[2:]]
    assert found(accelerated(lines), OF_ONE) == [("DS874", "loss.backward")]
    assert found(accelerated([*lines, "accelerator.backward(other)"]), OF_ONE) == []
    assert found(accelerated(["loss = other(batch)", *lines[1:]]), OF_ONE) == []
    handed = accelerated([*lines, "ours.finish(accelerator)"]).replace("import torch\n", "import torch\nimport ours\n")
    assert found(handed, OF_ONE) == []


def test_backward_of_torch_needs_zero():
    script = of_engine(["loss = engine(batch)", "loss.backward()", "engine.step()"])
    at_0 = {**OF_ONE, "zero_optimization": {"stage": 0}}
    assert found(script, at_0) == [("DS874", "loss.backward")]
    assert found(script, OF_ONE) == []
    assert found(script, at_0, deepspeed="0.18.2") == []


# ------------------------------------------------------------------------------------------------------- prepared

MODELS = """\
import torch
from accelerate import Accelerator
from diffusers import UNet2DConditionModel
from torch.utils.data import DataLoader
from transformers import CLIPTextModel, CLIPTokenizer
accelerator = Accelerator()
class Head(torch.nn.Module):
    pass
unet = UNet2DConditionModel.from_pretrained("m")
text = CLIPTextModel.from_pretrained("t")
tokenizer = CLIPTokenizer.from_pretrained("t")
head = Head()
loader = DataLoader(data, batch_size=4)
optimizer = torch.optim.AdamW(unet.parameters())
"""


@pytest.mark.parametrize(
    ("prepares", "is_found"),
    [
        ("unet, text, optimizer = accelerator.prepare(unet, text, optimizer)", True),
        ("unet, head = accelerator.prepare(unet, head)", True),
        ("unet, tokenizer, optimizer = accelerator.prepare(unet, tokenizer, optimizer)", False),
        ("unet, optimizer = accelerator.prepare(unet, optimizer)\nhead = accelerator.prepare(head, other)", False),
        ("if both:\n    unet, text, optimizer = accelerator.prepare(unet, text, optimizer)", False),
        ("unet, other = accelerator.prepare(unet, other)", False),
    ],
)
def test_accelerate_makes_one_engine(prepares, is_found):
    assert [code for code, _ in found(f"{MODELS}{prepares}\n", OF_ONE)] == ["DS875"] * is_found


@pytest.mark.parametrize(
    ("prepares", "is_found"),
    [
        ("unet = accelerator.prepare(unet)\noptimizer = accelerator.prepare(optimizer)", True),
        ("unet, loader = accelerator.prepare(unet, loader)", True),
        ("unet, optimizer = accelerator.prepare(unet, optimizer)\nloader = accelerator.prepare(loader)", False),
        ("unet, other = accelerator.prepare(unet, other)", False),
        ("if alone:\n    unet = accelerator.prepare(unet)", False),
        ("accelerator.state.select_deepspeed_plugin('b')\nunet = accelerator.prepare(unet)", False),
        ("unet = load()\nunet = accelerator.prepare(unet)", False),
    ],
)
def test_a_model_is_prepared_with_its_optimizer(prepares, is_found):
    def codes(config):
        return [code for code, _ in found(f"{MODELS}{prepares}\n", config, codes=("DS302",))]

    assert codes(OF_ONE) == ["DS302"] * is_found
    assert codes({**OF_ONE, "optimizer": {"type": "AdamW"}}) == []
    assert codes({**OF_ONE, "zero_optimization": {"stage": 3}}) == []


SIZED = """\
sampler = torch.utils.data.BatchSampler(order, 4, True)
sampled = DataLoader(data, batch_sampler=sampler)
"""


@pytest.mark.parametrize(
    ("prepares", "is_found"),
    [
        ("unet, optimizer = accelerator.prepare(unet, optimizer)", True),
        ("loader = accelerator.prepare(loader)\nunet, optimizer = accelerator.prepare(unet, optimizer)", True),
        ("optimizer = accelerator.prepare(optimizer)", True),
        ("unet, lr_scheduler = accelerator.prepare(unet, lr_scheduler)", True),
        ("unet, sampled = accelerator.prepare(unet, sampled)", True),
        ("unet, optimizer, loader = accelerator.prepare(unet, optimizer, loader)", False),
        ("unet, other = accelerator.prepare(unet, other)", False),
        ("unet, loader = accelerator.prepare(unet, loader)\noptimizer = accelerator.prepare(optimizer)", False),
        ("if sharded:\n    unet = accelerator.prepare(unet)", False),
        (
            "c = plugin.deepspeed_config\nc['train_micro_batch_size_per_gpu'] = 4\nunet = accelerator.prepare(unet)",
            False,
        ),
    ],
)
def test_accelerate_takes_the_micro_batch_size_from_a_loader(prepares, is_found):
    def codes(config, **releases):
        return [code for code, _ in found(f"{MODELS}{SIZED}{prepares}\n", config, codes=("DS511",), **releases)]

    auto = {**OF_ONE, "train_micro_batch_size_per_gpu": "auto"}
    assert codes(auto) == codes(auto, accelerate="0.26.0") == ["DS511"] * is_found
    assert codes(OF_ONE) == []


# --------------------------------------------------------------------------------------------------------- no_sync


@pytest.mark.parametrize(
    ("accelerate", "deepspeed", "stage", "is_found"),
    [
        ("1.7.0", "0.16.0", 2, True),
        ("1.7.0", "0.16.0", 0, True),  # where the engine steps inside of it
        ("1.8.1", "0.16.0", 2, True),
        ("1.8.1", "0.16.0", 1, False),
        ("1.9.0", "0.16.0", 2, False),
        ("1.7.0", "0.15.4", 2, False),  # has none
    ],
)
def test_accumulate_enters_no_sync_of_the_engine(accelerate, deepspeed, stage, is_found):
    script = accelerated(ACCUMULATE, "gradient_accumulation_steps=4")
    config = {**OF_FOUR, "zero_optimization": {"stage": stage}}
    releases = {"accelerate": accelerate, "deepspeed": deepspeed}
    assert found(script, config, **releases) == [("DS861", "accelerator.accumulate")] * is_found
    assert found(accelerated(ACCUMULATE, "gradient_accumulation_steps=1"), OF_ONE, **releases) == []


def test_the_engine_refuses_no_sync():
    lines = ["with engine.no_sync():", *(f"    {line}" for line in OF_ENGINE), "engine.step()"]
    assert found(of_engine(lines), OF_FOUR) == [("DS861", "engine.no_sync")]
    assert found(of_engine(lines), {**OF_FOUR, "zero_optimization": {"stage": 1}}) == []
