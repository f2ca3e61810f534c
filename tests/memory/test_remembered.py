"""What is remembered of a setup is what another one takes: of each field, whatever was asked before."""

from __future__ import annotations

import random

import pytest

from ds_lint.facts.parameter_count import stand_in
from ds_lint.facts.tensors import Tensor, of
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import Offload, TrainingSetup
from ds_lint.footprint.sweep import CPU, OPTIMIZER_ON_NVME, PARAMETERS_ON_NVME

MODEL = stand_in(10**9)
TENSORS = tuple(of(MODEL))
VALUES = {
    "ranks": (1, 2, 8, 24),
    "nodes": (1,),
    "stage": (0, 1, 2, 3),
    "dtype": ("bf16", "fp16", "fp32"),
    "optimizer": ("adamw", "adamw_torch", "adamw_bnb_8bit", "muon", "adagrad", "sgd", ""),
    "optimizer_offload": (None, CPU, Offload("cpu", ratio=0.5), OPTIMIZER_ON_NVME),
    "parameter_offload": (None, CPU, PARAMETERS_ON_NVME),
    "persistence_threshold": (0, 10**5, 10**8),
    "persistence_total": (10**6, 2**63 - 1),
    "reduce_bucket": (10**6, 5 * 10**8),
    "prefetch_bucket": (0, 5 * 10**7),
    "max_live_parameters": (10**7, 10**9),
    "max_reuse_distance": (0, 10**9),
    "sub_group": (10**7, 10**9),
    "overlaps_communication": (False, True),
    "hpz": (1, 2),
    "mics": (0, 2),
    "contiguous_gradients": (False, True),
    "is_round_robin": (False, True),
    "aligns_parameters": (False, True),
    "decays_apart": (False, True),
    "optimizer_parameters": (None, {"momentum": 0.9}, {"amsgrad": True}),
    "master_width": (2, 4),
    "state_width": (2, 4),
    "accumulation_width": (None, 4),
    "communication_width": (None, 4),
    "accumulation_steps": (1, 4),
    "micro_batch": (None, 1, 4),
    "sequence_length": (None, 512, 4096),
    "is_checkpointed": (None, False, True),
    "attention": (None, "eager", "sdpa"),
    "sequences": (1, 2),
    "reference": (False, None, True),
    "uses_zero_init": (None, False, True),
    "gathers_on_save": (False, True),
    "pins_master_weights": (False, True),
    "splits_bf16_without_zero": (False, True),
    "keeps_16_bit_copy": (False, True),
    "flattens_on_gpu": (False, True),
}


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_does_not_depend_on_what_was_asked_before(seed):
    chosen = random.Random(seed)
    setup = TrainingSetup(TENSORS, ranks=8, nodes=1, stage=2, architecture=MODEL.config)
    for _ in range(100):
        name = chosen.choice(list(VALUES))
        setup = setup._replace(**{name: chosen.choice(VALUES[name])})
        known = estimate(setup)
        fresh = estimate(setup._replace(tensors=tuple(map(Tensor._make, TENSORS))))  # of which nothing is remembered
        assert (known.parts, known.peaks) == (fresh.parts, fresh.peaks), setup[2:]
