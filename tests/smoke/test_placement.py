"""What only a run on a GPU shows: where offloaded tensors lie."""

from __future__ import annotations

import json

import pytest
from linted import config_of
from shown_engines import observed

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.expectation import Expectation
from ds_lint.smoke.records.job import Engine, Evidence
from ds_lint.smoke.verify.offload import placement
from ds_lint.smoke.verify.shares import sharding
from ds_lint.source import documents

OFFLOAD = {
    "train_batch_size": 2,
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}},
}


def seen(*, mode=CUDA, master=("cpu",), is_pinned=True):
    """A run of one rank, as far as these checks look."""
    engine = Engine(
        stage=2,
        train_batch_size=2,
        micro_batch_size=2,
        accumulation_steps=1,
        clipping=1.0,
        zero_optimizer="DeepSpeedZeroOptimizer",
        communication_dtype="bfloat16",
        offloads_optimizer="cpu",
        offloads_parameters=None,
        is_pinned=is_pinned,
    )
    evidence = Evidence(0, engine=engine, devices={"parameters": ["cuda"], "master weights": list(master)})
    return observed([evidence], mode)


def expected(settings):
    document = documents.from_bytes(json.dumps(settings).encode(), "config.json")
    config = config_of(document, target=Target(), stack="deepspeed", facts=Facts(world_size=1))
    return Expectation(config, settings, {})


@pytest.fixture
def expectation():
    return expected(OFFLOAD)


def told(expectation, runs):
    return [(check.status, check.key, check.message) for check in placement(expectation, runs)]


DEVICE = "zero_optimization.offload_optimizer.device"
PINNED = "zero_optimization.offload_optimizer.pin_memory"


def test_host_memory_that_is_pinned_is_what_was_asked_for(expectation):
    assert told(expectation, seen()) == [
        ("pass", DEVICE, "the master weights of the optimizer are tensors in host memory"),
        ("pass", PINNED, "the host memory of the optimizer is page-locked"),
    ]


def test_tensors_that_stay_on_the_gpu_are_a_failure(expectation):
    assert told(expectation, seen(master=("cuda",), is_pinned=False)) == [
        ("fail", DEVICE, "the master weights of the optimizer are tensors on the GPU"),
        ("warn", PINNED, "none of the host memory of the optimizer is page-locked"),
    ]


@pytest.mark.parametrize(
    ("ratio", "master", "statuses"),
    [
        (0.5, ("cpu", "cuda"), ["pass"]),
        (0.5, ("cuda",), ["fail"]),
        (1.0, ("cpu", "cuda"), ["fail"]),
        (0.0, ("cuda",), []),
    ],
)
def test_a_ratio_keeps_a_part_on_the_gpu(ratio, master, statuses):
    offload = {"device": "cpu", "ratio": ratio}
    asked = expected({"train_batch_size": 2, "zero_optimization": {"stage": 3, "offload_optimizer": offload}})
    assert [status for status, *_ in told(asked, seen(master=master))] == statuses


def test_a_cpu_has_no_other_place(expectation):
    assert told(expectation, seen(mode=CPU)) == []


@pytest.mark.parametrize(("mode", "where"), [(CUDA, "see the run on CPU ranks"), (CPU, "sharding is not checked")])
def test_one_rank_proves_no_sharding(mode, where, expectation):
    (check,) = sharding(expectation, seen(mode=mode))
    assert (check.status, check.message) == ("skip", f"one rank has no other ranks to share with: {where}")
