"""The optimizer and the batch size of a run whose script makes them itself and hands them to Accelerate."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script
from linted import config_of_dict

from ds_lint.facts.parameter_count import stand_in
from ds_lint.footprint import changes, handed, setup

SCRIPT = """\
import argparse
import bitsandbytes as bnb
import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=8)
args = parser.parse_args()
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("gpt2")
loader = DataLoader(rows(), batch_size=args.batch_size)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for batch in loader:
    accelerator.backward(model(**batch).loss)
    optimizer.step()
"""
MADE = "loader = DataLoader(rows(), batch_size=args.batch_size)"
ZERO = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": "auto"}


def config_of(text=SCRIPT, flags="", stack="accelerate", content=ZERO):
    facts = facts_of_script(text, flags, by="accelerate launch --num_processes 8")
    facts.model = stand_in(1_000_000_000)
    return config_of_dict(content, stack=stack, facts=facts)


@pytest.mark.parametrize(
    ("made", "flags", "size"),
    [
        (MADE, "", 8),
        (MADE, "--batch_size 2", 2),
        (MADE, "--batch_size $SIZE", None),
        ("loader = DataLoader(rows(), 4)", "", 4),
        ("loader = DataLoader(rows())", "", 1),
        ("loader = DataLoader(rows(), batch_sampler=sampler())", "", None),
        ("loader = DataLoader(rows(), **options())", "", None),
        ("loader = loader_of(rows())", "", None),
        (f"{MADE}\nloader = DataLoader(rows(), batch_size=1) if quick() else loader", "", None),
    ],
)
def test_a_rank_gets_the_batches_of_the_loader(made, flags, size):
    assert handed.micro_batch(config_of(SCRIPT.replace(MADE, made), flags)) == size


def test_a_loader_for_evaluation_does_not_count():
    both = SCRIPT.replace(MADE, f"{MADE}\neval_loader = DataLoader(held_out(), batch_size=64)")
    both = both.replace("loader = accelerator.prepare(model, optimizer, loader)", "loader, eval_loader = PREPARED")
    both = both.replace("PREPARED", "accelerator.prepare(model, optimizer, loader, eval_loader)")
    assert handed.micro_batch(config_of(both)) == 8
    assert handed.micro_batch(config_of(both.replace("eval_loader", "other_loader"))) is None


def test_a_batch_that_is_split_among_the_ranks_is_not_that_of_one():
    assert handed.micro_batch(config_of(SCRIPT.replace("Accelerator()", "Accelerator(split_batches=True)"))) is None


def test_deepspeed_alone_goes_by_the_config():
    assert handed.micro_batch(config_of(stack="deepspeed")) is None


@pytest.mark.parametrize(
    ("made", "name"),
    [
        ("torch.optim.AdamW(model.parameters(), lr=1e-5)", "adamw_torch"),
        ("torch.optim.AdamW(model.parameters(), lr=1e-5, amsgrad=True)", ""),
        ("torch.optim.AdamW(model.parameters(), **options())", ""),
        ("torch.optim.SGD(model.parameters(), 1e-2)", "sgd"),
        ("torch.optim.SGD(model.parameters(), 1e-2, 0.9)", ""),
        ("bnb.optim.AdamW8bit(model.parameters(), lr=1e-5)", "adamw_bnb_8bit"),
        ("build_optimizer(model)", ""),
    ],
)
def test_the_optimizer_is_that_of_the_script(made, name):
    text = SCRIPT.replace("torch.optim.AdamW(model.parameters(), lr=1e-5)", made)
    assert setup.of(config_of(text)).optimizer == name


def test_a_placeholder_stands_for_the_optimizer_of_the_config():
    text = SCRIPT.replace("import Accelerator", "import Accelerator\nfrom accelerate.utils import DummyOptim")
    text = text.replace("torch.optim.AdamW(model.parameters(), lr=1e-5)", "DummyOptim(model.parameters())")
    assert setup.of(config_of(text, content={**ZERO, "optimizer": {"type": "Lion"}})).optimizer == "lion"


def test_advice_is_written_where_the_batches_are_made():
    found = setup.of(config_of())
    first = next(changes.smaller_micro_batch(found))
    assert (found.micro_batch, first.setup.micro_batch) == (8, 4)
    assert [(one.place, one.key) for one in first.writes] == [
        ("script", "DataLoader(..., batch_size=4)"),
        ("config", "gradient_accumulation_steps"),
    ]
