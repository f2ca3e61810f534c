"""What an estimate makes of what is not known for certain."""

from __future__ import annotations

from linted import config_of_dict

from ds_lint.facts import Facts
from ds_lint.facts.parameter_count import stand_in
from ds_lint.facts.training import arguments_of
from ds_lint.memory import setup
from ds_lint.memory.estimate import estimate

ZERO_3 = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, "train_micro_batch_size_per_gpu": 1}


def parts(*, arguments: str | None = None, **changes):
    facts = Facts(world_size=8, nodes=1)
    facts.model = stand_in(7_000_000_000)
    facts.sequence_length = 2048
    facts.training = arguments_of(arguments) if arguments is not None else None
    found = setup.of(config_of_dict(ZERO_3, stack="trainer" if arguments else "deepspeed", facts=facts))
    return estimate(found._replace(**changes)).rank


def test_another_architecture_of_the_same_size_may_hold_half_or_twice_as_much():
    known, unknown = parts(is_stand_in=False)["live"].bytes, parts()["live"].bytes
    assert (unknown.least, unknown.likely, unknown.most) == (known.least / 2, known.likely, known.most * 2)


def test_activations_are_certain_only_with_the_kernels_of_the_class():
    assert parts(arguments="--bf16")["activations"].bytes.least > 0
    assert parts(arguments="--bf16 --use_liger_kernel")["activations"].bytes.least == 0
    assert parts(arguments="--bf16 --torch_compile")["activations"].bytes.least == 0
    assert parts(arguments="--bf16 --enable_liger_kernel True")["activations"].bytes.least == 0
    assert parts()["activations"].bytes.least == 0  # a script computes as it likes
