"""States that other releases hold than the newest, against what tests/fidelity/programs/held.py measured with them.

The model is the small Llama of tests/fidelity/holdings.py.
"""

from __future__ import annotations

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import states
from ds_lint.footprint.placed import Placed, amount
from ds_lint.footprint.setup import TrainingSetup

EMBEDDING, NORM = 97 * 40, 40
LAYER = [40 * 40, 20 * 40, 20 * 40, 40 * 40, *[40 * 70] * 3, NORM, NORM]
TENSORS = tuple(Tensor(f"layer.{place}", size) for place, size in enumerate([EMBEDDING, *LAYER * 2, NORM, EMBEDDING]))
TRAINED = 34_360


def test_bf16_without_zero_is_split():
    """DeepSpeed 0.17.0, three ranks, no ZeRO: 34,362 parameters are what is divided by two for each rank."""
    held = states.of(TrainingSetup(TENSORS, 3, 1, 0, {}, splits_bf16_without_zero=True))
    assert held["parameters"].gpu == amount(34_362, 2)
    assert held["master_weights"].gpu == amount(11_454, 4)
    assert held["optimizer_states"].gpu == amount(22_908, 4)
    assert held["gradients"].gpu == amount(TRAINED, 2).plus(amount(34_362, 4))


def test_mics_shares_the_states_among_few():
    """DeepSpeed 0.18.9, eight ranks, of which two share the states; every parameter is persistent."""
    held = states.of(TrainingSetup(TENSORS, 8, 1, 3, {}, mics=2, reduce_bucket=1000))
    assert held == {
        "parameters": Placed(gpu=amount(17_180, 2).plus(amount(TRAINED, 2))),
        "gradients": Placed(gpu=amount(17_180, 2)),
        "master_weights": Placed(gpu=amount(17_180, 4)),
        "optimizer_states": Placed(gpu=amount(34_360, 4)),
        "buckets": Placed(gpu=amount(1000, 2)),
    }
