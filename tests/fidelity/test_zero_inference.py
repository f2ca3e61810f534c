"""What an engine of stage 3 without an optimizer holds and gathers while it generates, on two ranks."""

from __future__ import annotations

import json

import pytest
from ranks import run
from test_live_parameters import BUCKETS, CLASSES, GPT2, LLAMA, jobs, setup_of

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint.inference import without_training
from ds_lint.footprint.live import live_parameters
from ds_lint.footprint.parameters import parameters
from ds_lint.footprint.untrained import Untrained

pytestmark = [pytest.mark.fidelity, pytest.mark.long]


@pytest.mark.parametrize("model", [LLAMA, GPT2], ids=lambda model: model["model_type"])
def test_what_generation_holds(model):
    wanted = [job | {"generates": True} for job in jobs(model) if not job["is_checkpointed"]]
    for job in wanted:
        del job["config"]["optimizer"]
    assert len(wanted) == len(BUCKETS)
    assert model["model_type"] in CLASSES
    found = run("live_parameters", json.dumps(wanted), timeout=400)
    assert found.is_complete, found.errors
    for job, engine in zip(wanted, found.answers[0]["live"], strict=True):
        assert engine["optimizer"] == "DeepSpeedZeRoOffload"
        zero = job["config"]["zero_optimization"]
        served = setup_of(tuple(Tensor(*one) for one in engine["tensors"]), model, zero)
        setup = without_training(served._replace(untrained=Untrained("generation", 1, 8, 3)))
        band = live_parameters(setup)
        print(model["model_type"], zero, engine["most"], band, engine["held"], parameters(setup).gpu.elements)
        assert band.least <= engine["most"] <= band.most
        assert parameters(setup).gpu.elements.likely == engine["held"]
