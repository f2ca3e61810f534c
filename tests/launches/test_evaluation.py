"""Scripts with a Trainer that train, only evaluate, or train if they are told to."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script

TRAINER = """\
from transformers import Trainer, TrainingArguments
trainer = Trainer(model=model, args=args, eval_dataset=data)
"""
FLAGS = """\
if args.do_train:
    trainer.train()
"""
MAIN = """\
def main():
    if args.do_train:
        trainer.train()
    trainer.evaluate()
if __name__ == "__main__":
    main()
"""


def evaluations(script):
    return read_training_script(script).calls.evaluations


@pytest.mark.parametrize(
    ("script", "trains", "calls"),
    [
        ("trainer.evaluate()\n", False, [("evaluate", "")]),
        ("print(trainer.predict(data))\n", False, [("predict", "")]),
        (f"{FLAGS}if args.do_eval:\n    trainer.evaluate()\n", None, [("evaluate", "do_eval")]),
        (f"{FLAGS}else:\n    trainer.evaluate()\n", None, [("evaluate", "")]),
        (f"{FLAGS}if not args.do_train and args.do_predict:\n    trainer.predict()\n", None, [("predict", "do_predict")]),
        (MAIN, None, [("evaluate", "")]),
        ("if args.wanted:\n    trainer.evaluate()\n", False, []),
        ("trainer.train()\ntrainer.evaluate()\n", True, [("evaluate", "")]),
        ("if args.do_train or resume:\n    trainer.train()\ntrainer.evaluate()\n", True, [("evaluate", "")]),
        ("from loops import go\ngo(trainer)\ntrainer.evaluate()\n", True, [("evaluate", "")]),
        ("from ours import finetune\nfinetune(model)\ntrainer.evaluate()\n", True, [("evaluate", "")]),
        ("def evaluate_all():\n    trainer.evaluate()\n", False, []),
    ],
)  # fmt: skip
def test_what_runs_without_training(script, trains, calls):
    found = evaluations(TRAINER + script)
    assert found.trains is trains
    assert [(call.method, call.flag) for call in found.calls] == calls


def test_a_script_without_a_trainer_says_nothing():
    assert evaluations("model.eval()\nevaluator.evaluate(model)\n") is None
