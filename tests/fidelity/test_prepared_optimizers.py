"""Every combination of an optimizer and a scheduler, of the script and of the config, that Accelerate may prepare."""

from __future__ import annotations

import itertools
import json
from functools import cache

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("accelerate")

from installed import measured_with_the_newest
from ranks import run

from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.session.material import linted
from ds_lint.source import documents
from ds_lint.source.document import Document

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

OPTIMIZERS = {
    "none": "",
    "torch": "optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)\n",
    "dummy": "optimizer = DummyOptim(model.parameters(), lr=3e-4)\n",
}
SCHEDULERS = {
    "none": "",
    "torch": "scheduler = torch.optim.lr_scheduler.StepLR({}, 2)\n",
    "transformers": "scheduler = get_linear_schedule_with_warmup({}, 2, 10)\n",
    "dummy": "scheduler = DummyScheduler({}, warmup_num_steps=2)\n",
    "callable": "scheduler = DummyScheduler({}, lr_scheduler_callable=lambda made: StepLR(made, 2))\n",
}
SCRIPT = """\
import torch
from accelerate import Accelerator
from accelerate.utils import DummyOptim, DummyScheduler
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, get_linear_schedule_with_warmup

accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("model")
loader = DataLoader([torch.tensor([1, 2, 3])] * 2, batch_size=1)
{making}{names} = accelerator.prepare({names})
for words in loader:
    accelerator.backward(model(input_ids=words, labels=words).loss)
{steps}"""
CASES = list(itertools.product(OPTIMIZERS, SCHEDULERS, (False, True), (False, True)))
RAISING = ("DS302", "DS870", "DS871")


def script(optimizer: str, scheduler: str) -> str:
    of = "optimizer" if optimizer != "none" else "torch.optim.AdamW(model.parameters(), lr=1e-3)"
    names = ["model", *["optimizer"] * (optimizer != "none"), *["scheduler"] * (scheduler != "none"), "loader"]
    steps = "".join(f"    {name}.step()\n" for name in names[1:-1])
    making = OPTIMIZERS[optimizer] + SCHEDULERS[scheduler].format(of)
    return SCRIPT.format(making=making, names=", ".join(names), steps=steps)


def config(*, optimizer: bool, scheduler: bool) -> dict[str, object]:
    made: dict[str, object] = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    if optimizer:
        made["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}
    if scheduler:
        made["scheduler"] = {"type": "WarmupLR", "params": {"warmup_num_steps": 3}}
    return made


@cache
def errors() -> dict[tuple[str, str, bool, bool], str | None]:
    given = [
        (script(optimizer, scheduler), config(optimizer=has_optimizer, scheduler=has_scheduler))
        for optimizer, scheduler, has_optimizer, has_scheduler in CASES
    ]
    done = run("prepared_optimizers", json.dumps(given), ranks=1)
    assert done.answers[0] is not None, "\n".join(done.errors)
    return dict(zip(CASES, done.answers[0]["errors"], strict=True))


def found(text: str, values: dict[str, object]) -> list[str]:
    launch = launches_in("torchrun --nproc_per_node 2 train.py", "run.sh", lambda _: None).launches[0]
    shown = read_training_script(text)
    assert shown is not None
    facts = LaunchFacts(launch, Document("run.sh", "", None, []), shown, Document("train.py", text, None, []))
    document = documents.from_bytes(json.dumps(values).encode(), "config.json")
    report = linted(Basis(knowledge(Target())), [facts], lambda basis: lint(document, basis))
    return [one.code for one in report.findings if one.code in RAISING and one.severity == "error"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)))
def test_a_combination_raises_where_a_finding_says(case: tuple[str, str, bool, bool]) -> None:
    optimizer, scheduler, has_optimizer, has_scheduler = case
    error = errors()[case]
    codes = found(script(optimizer, scheduler), config(optimizer=has_optimizer, scheduler=has_scheduler))
    assert bool(codes) == (error is not None), f"{codes}, {error}"
