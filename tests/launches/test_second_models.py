"""The models of a script that stage 3 partitions, and that it runs without an engine."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script

HEAD = """
import torch
from accelerate import Accelerator
from transformers import AutoModel, AutoModelForCausalLM, CLIPTextModel, Trainer, TrainingArguments
"""
LOOP = """
accelerator = Accelerator()
model = AutoModelForCausalLM.from_pretrained("a")
teacher = AutoModelForCausalLM.from_pretrained("b")
model, loader = accelerator.prepare(model, loader)
"""
SUBCLASS = """
args = TrainingArguments("out", deepspeed="ds.json")
class DistillingTrainer(Trainer):
    def compute_loss(self, model, inputs):
        return self.teacher(**inputs).loss

teacher = AutoModelForCausalLM.from_pretrained("b")
trainer = DistillingTrainer(OTHERmodel=AutoModelForCausalLM.from_pretrained("a"), args=args)
trainer.teacher = teacher
"""


def runs(script):
    read = read_training_script(HEAD + script)
    return [(one.run, one.is_certain) for one in read.calls.second_models]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"{LOOP}for batch in loader:\n    teacher(**batch)", ("teacher", True)),
        (f"{LOOP}teacher.eval()\nteacher.to(accelerator.device)\nteacher.generate(words)", ("teacher.generate", True)),
        (f"{LOOP}if step % 10 == 0:\n    teacher(**batch)", ("teacher", False)),
        (f"{LOOP}frozen = teacher\nwith torch.no_grad():\n    frozen(**batch)", ("frozen", True)),
        (
            f"{LOOP}def score(scorer, *, batch):\n    return scorer(**batch)\n\nscore(teacher, batch=batch)",
            ("scorer", True),
        ),
        (LOOP.replace('"b")', '"b").eval().requires_grad_(False)') + "teacher(**batch)", ("teacher", True)),
        (
            SUBCLASS.replace("OTHER", ""),
            ("self.teacher", True),
        ),
    ],
)
def test_a_model_that_no_engine_gathers(script, expected):
    assert runs(script) == [expected]


@pytest.mark.parametrize(
    "script",
    [
        LOOP,
        f"{LOOP}model(**batch)",
        f"{LOOP}teacher = accelerator.prepare(teacher)\nteacher(**batch)",
        f"{LOOP}other = accelerator.prepare_model(teacher)\nother(**batch)",
        f"{LOOP}import deepspeed\nengine, *_ = deepspeed.initialize(model=teacher, config=c)\nteacher(**batch)",
        f"{LOOP}from mine import wrap\nwrap(teacher)\nteacher(**batch)",
        f"{LOOP}for one in [model, teacher]:\n    one(**batch)",
        f"{LOOP}import deepspeed\nwith deepspeed.zero.GatheredParameters(teacher.parameters()):\n    teacher(**batch)",
        LOOP.replace("teacher =", "with disabled():\n    teacher =") + "teacher(**batch)",
        LOOP.replace('AutoModelForCausalLM.from_pretrained("b")', "Teacher.from_pretrained('b')") + "teacher(**batch)",
        'teacher = AutoModelForCausalLM.from_pretrained("b")\n'
        + LOOP.replace('teacher = AutoModelForCausalLM.from_pretrained("b")\n', "")
        + "teacher(**batch)",
        SUBCLASS.replace("OTHER", "teacher=teacher, "),
        SUBCLASS.replace("OTHER", "") + "deepspeed.initialize(model=trainer.teacher)",
    ],
)
def test_other_models(script):
    assert runs(script) == []
