"""The part of the model that ds-lint says a rank holds is that of the real engine where ranks share a copy of it.

Parameters, gradients, master weights and states are counted by their storages (programs/held.py), to the element.
"""

from __future__ import annotations

import pytest
from installed import measured_with_the_newest

pytest.importorskip("deepspeed")

from holdings import Case, differences, measure, setup_of_model

from ds_lint.memory import partition

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]


def case(model: str, stage: int, ranks: int, degree: int, **more) -> Case:
    config = {"tensor_parallel": {"autotp_size": degree}}
    return Case(model, stage, ranks, config=config, zero_init=False, **more)


TENSORS = [case("llama", 1, 8, 2), case("qwen2", 2, 6, 3)]
MORE = [
    *(case("llama", stage, 12, degree) for stage in (0, 2, 3) for degree in (2, 4)),
    case("llama", 2, 8, 2, zero={"offload_optimizer": {"device": "cpu"}}, accumulation_steps=2),
    case("gemma", 1, 8, 2),
    case("opt", 1, 6, 3),
    case("phi", 2, 8, 4),
    case("gpt_neox", 1, 4, 2),
    case("stablelm", 3, 8, 2),
    case("qwen2", 2, 8, 2, dtype="fp32"),
    case("qwen3", 2, 1024, 8),
]


@pytest.mark.parametrize("one", [*TENSORS, *(pytest.param(one, marks=pytest.mark.long) for one in MORE)], ids=repr)
def test_tensor_parallelism_divides_the_model_and_zero_what_is_left(one):
    setup = setup_of_model(one)
    # Ranks that share a copy follow each other, the one with the largest part first.
    held = measure(one._replace(rank=partition.holds_most(setup) * setup.part.degrees.tensors))
    assert [tensor.shape for tensor in setup.tensors] == [tensor.shape for tensor in held.tensors]
    assert setup.ranks * setup.part.degrees.tensors == one.ranks
    assert differences(one, held, setup) == []
