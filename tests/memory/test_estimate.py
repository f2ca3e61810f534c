"""What an estimate makes of what is not known for certain."""

from __future__ import annotations

from linted import config_of_dict

from ds_lint.facts import Facts
from ds_lint.facts.parameter_count import stand_in
from ds_lint.facts.training import arguments_of
from ds_lint.footprint import setup
from ds_lint.footprint.estimate import estimate

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


def activations(arguments: str | None = None, **changes):
    return parts(arguments=arguments, is_stand_in=False, is_checkpointed=True, **changes)["activations"].bytes


def test_kernels_of_liger_have_figures_of_their_own():
    plain, liger = (activations(f"--bf16{more}") for more in ("", " --use_liger_kernel"))
    assert liger.most < plain.least
    assert activations("--bf16 --enable_liger_kernel True") == liger


def test_a_bare_config_is_taken_to_use_the_kernels_of_transformers():
    plain, liger, bare = activations("--bf16"), activations("--bf16 --use_liger_kernel"), activations()
    assert bare == plain
    assert bare.least > liger.least > 0


def test_what_is_compiled_may_keep_nothing():
    assert activations("--bf16 --torch_compile").least == 0
    assert activations("--bf16 --use_unsloth_gc True").least == 0


def test_a_longest_sequence_that_may_not_occur_leaves_the_least_open():
    known = activations("--bf16")
    open_ = activations("--bf16", is_length_known=False)
    assert open_.least < known.least / 50
    assert (open_.likely, open_.most) == (known.likely, known.most)
