"""How many states ds-lint says an optimizer keeps is what its class makes in a step of a flat tensor."""

from __future__ import annotations

import pytest
from installed import measured_with_the_newest

pytest.importorskip("deepspeed")

import torch
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from transformers import Adafactor
from transformers.training_args import OptimizerNames

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import optimizers
from ds_lint.footprint.setup import Offload, TrainingSetup
from ds_lint.smoke.standins import ops

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

ELEMENTS = 1000
MOVED = Offload("cpu")
SETUP = TrainingSetup((Tensor("weight", ELEMENTS),), 1, 1, 1, {})


@pytest.mark.parametrize(
    ("name", "kind", "given", "offload"),
    [
        ("adam", FusedAdam, {}, None),
        ("adamw", FusedAdam, {}, None),
        ("adamw", DeepSpeedCPUAdam, {}, MOVED),
        ("adamw", torch.optim.AdamW, {"amsgrad": True}, None),
        ("lion", FusedLion, {}, None),
        ("lion", DeepSpeedCPULion, {}, MOVED),
        ("lamb", FusedLamb, {}, None),
        ("adagrad", DeepSpeedCPUAdagrad, {}, MOVED),
        ("adafactor", Adafactor, {}, None),
        ("sgd", torch.optim.SGD, {}, None),
        ("sgd", torch.optim.SGD, {"momentum": 0.9}, None),
        ("rmsprop", torch.optim.RMSprop, {}, None),
        ("rmsprop", torch.optim.RMSprop, {"momentum": 0.9, "centered": True}, None),
        ("adamw_torch", torch.optim.AdamW, {}, None),
        ("adamw_torch_fused", torch.optim.AdamW, {}, None),
        ("adadelta", torch.optim.Adadelta, {}, None),
        ("adamax", torch.optim.Adamax, {}, None),
        ("asgd", torch.optim.ASGD, {}, None),
        ("nadam", torch.optim.NAdam, {}, None),
        ("radam", torch.optim.RAdam, {}, None),
        ("rprop", torch.optim.Rprop, {}, None),
    ],
)
def test_states_of_an_optimizer(name, kind, given, offload):
    ops.install(builds=False)
    weight = torch.nn.Parameter(torch.ones(ELEMENTS))
    optimizer = kind([weight], **given)
    weight.grad = torch.ones(ELEMENTS)
    optimizer.step()
    made = [state for state in optimizer.state[weight].values() if torch.is_tensor(state) and state.dim()]
    setup = SETUP._replace(optimizer=name, optimizer_parameters=given, optimizer_offload=offload)
    states, width = optimizers.kept(setup)
    assert states.is_exact
    assert states.likely * ELEMENTS == sum(state.numel() for state in made)
    assert {width.likely} >= {state.element_size() for state in made}


def test_an_optimizer_that_is_not_known_is_a_band():
    assert not optimizers.kept(SETUP._replace(optimizer="")).states.is_exact


def test_the_trainers_optimizers_are_known():
    """Those that keep less for whole layers are not: GaLore, APOLLO and LOMO do without ZeRO's partitions."""
    unknown = {
        one.value for one in OptimizerNames if optimizers.kept(SETUP._replace(optimizer=one.value)).states.least == 0
    }
    assert {name for name in unknown if not name.startswith(("galore", "apollo", "lomo", "adalomo"))} == {"sgd"}
