"""What rules say about a config whose script makes an optimizer or a scheduler itself, and where they are silent."""

from __future__ import annotations

import json

import pytest

from ds_lint.facts.launched import LaunchFacts
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.session.material import linted
from ds_lint.source import documents
from ds_lint.source.document import Document

MICRO = {"train_micro_batch_size_per_gpu": 1}
STAGE = [{**MICRO, "zero_optimization": {"stage": stage}} for stage in range(4)]
REFUSED = {**STAGE[2], "optimizer": {"type": "AdamW", "params": {"lr": "x", "nope": 1, "max_grad_norm": 1.0}}}
UNKNOWN = {**STAGE[2], "optimizer": {"type": "Nope"}, "scheduler": {"type": "Nope"}}
OFFLOAD = {**MICRO, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
MADE = "optimizer = torch.optim.AdamW(model.parameters())\n"


def found(config, script):
    launch = launches_in("torchrun --nproc_per_node 2 train.py", "run.sh", lambda _: None).launches[0]
    script = f"import deepspeed, torch, accelerate, transformers\n{script}\n"
    shown = read_training_script(script)
    facts = LaunchFacts(launch, Document("run.sh", "", None, []), shown, Document("train.py", script, None, []))
    document = documents.from_bytes(json.dumps(config).encode(), "ds.json")
    report = linted(Basis(knowledge(Target())), [facts], lambda basis: lint(document, basis))
    return [(one.code, one.severity) for one in report.findings if one.code[2] in "358"]


def initialize(keywords, before=""):
    return (
        f"{before}engine, *_ = deepspeed.initialize(model=model, config='ds.json', {keywords})\nengine.backward(loss)"
    )


@pytest.mark.parametrize(
    ("config", "script", "codes"),
    [
        (REFUSED, initialize("optimizer=torch.optim.AdamW(model.parameters())"), ["DS870"]),
        (REFUSED, initialize("optimizer=optimizer", MADE), ["DS870"]),
        (REFUSED, initialize("optimizer=make(model)"), ["DS870"]),
        (REFUSED, initialize("optimizer=None"), ["DS503", "DS504", "DS506"]),
        (REFUSED, initialize("model_parameters=model.parameters()"), ["DS503", "DS504", "DS506"]),
        (REFUSED, initialize("optimizer=args.optimizer"), []),  # which may be None
        (UNKNOWN, initialize("optimizer=optimizer, lr_scheduler=make(optimizer)", MADE), ["DS870", "DS870"]),
        (UNKNOWN, initialize("optimizer=optimizer", MADE), ["DS502", "DS870"]),
    ],
)
def test_the_optimizer_of_the_script_replaces_that_of_the_config(config, script, codes):
    assert sorted(code for code, _ in found(config, script)) == codes


@pytest.mark.parametrize(
    ("config", "script", "expected"),
    [
        (STAGE[0], initialize(""), []),
        (STAGE[1], initialize(""), [("DS302", "error")]),
        (STAGE[2], initialize("model_parameters=model.parameters()"), [("DS302", "error")]),
        (STAGE[3], initialize(""), [("DS302", "error")]),
        (STAGE[3], initialize("").replace("engine.backward(loss)", "engine.module.eval()"), []),
        (STAGE[2], initialize("optimizer=make()"), []),
        (STAGE[2], initialize("optimizer=args.optimizer"), [("DS302", "info")]),
        (STAGE[2], initialize("**keywords"), [("DS302", "info")]),
        (STAGE[2], initialize("optimizer=torch.optim.SGD(model.parameters())"), [("DS872", "error")]),
        (OFFLOAD, initialize("optimizer=optimizer", MADE), [("DS823", "error")]),
    ],
)
def test_zero_needs_an_optimizer(config, script, expected):
    assert found(config, script) == expected


ACCELERATE = "accelerator = accelerate.Accelerator()\n{}model, optimizer = accelerator.prepare(model, optimizer)"
WITH_BOTH = {**MICRO, "optimizer": {"type": "AdamW"}, "scheduler": {"type": "WarmupLR", "params": {}}}


@pytest.mark.parametrize(
    ("config", "script", "codes"),
    [
        (WITH_BOTH, ACCELERATE.format(MADE), ["DS870"]),
        (WITH_BOTH, ACCELERATE.format("optimizer = accelerate.utils.DummyOptim(model.parameters())\n"), []),
        (MICRO, ACCELERATE.format("optimizer = accelerate.utils.DummyOptim(model.parameters())\n"), ["DS871"]),
        (MICRO, ACCELERATE.format(MADE), []),
        (WITH_BOTH, ACCELERATE.format(f"if x:\n    {MADE}else:\n    optimizer = None\n"), []),
        (WITH_BOTH, f"{MADE}transformers.Trainer(model, optimizers=(optimizer, None)).train()", ["DS870"]),
        (MICRO, f"{MADE}transformers.Trainer(model, optimizers=(optimizer, None)).train()", ["DS870"]),
        (MICRO, "transformers.Trainer(model, optimizers=(None, schedule)).train()", []),
    ],
)
def test_what_accelerate_and_the_trainer_do_with_it(config, script, codes):
    assert [code for code, _ in found(config, script) if code in ("DS870", "DS871")] == codes
