"""Which scripts have activations computed again, and what decides about it."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        ("model.gradient_checkpointing_enable()\n", ()),
        ("def main():\n    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={})\n", ()),
        ("model = prepare_model_for_kbit_training(model)\n", ()),
        ("if args.gradient_checkpointing:\n    model.gradient_checkpointing_enable()\n", ("gradient_checkpointing",)),
        ("model = FastLanguageModel.get_peft_model(model, use_gradient_checkpointing='unsloth')\n", ()),
    ],
)
def test_what_switches_it_on(script, flags):
    (found,) = read_training_script(script).calls.recomputations
    assert (found.flags, found.is_open) == (flags, False)


@pytest.mark.parametrize(
    "script",
    [
        "if not args.fast:\n    model.gradient_checkpointing_enable()\n",
        "if args.fast:\n    pass\nelse:\n    model.gradient_checkpointing_enable()\n",
        "for one in models:\n    one.gradient_checkpointing_enable()\n",
        "model.gradient_checkpointing_enable() if fast else None\n",
    ],
)
def test_what_may_switch_it_on(script):
    calls = read_training_script(script).calls.recomputations
    assert all(one.is_open for one in calls)


def test_what_does_not_switch_it_on():
    script = (
        "model.gradient_checkpointing_disable()\nprepare_model_for_kbit_training(m, use_gradient_checkpointing=False)\n"
    )
    assert read_training_script(script).calls.recomputations == ()
