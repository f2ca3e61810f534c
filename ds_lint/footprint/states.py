"""The model states of one rank: parameters, gradients, master weights, optimizer states and communication buckets.

Counts are those of the engine's own tensors (tests/fidelity/test_memory_states.py), of deepspeed 0.19.8.
"""

from __future__ import annotations

from ds_lint.footprint.buckets import buckets
from ds_lint.footprint.gradients import gradients
from ds_lint.footprint.optimizers import master_weights, optimizer_states
from ds_lint.footprint.parameters import parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.placed import Placed
    from ds_lint.footprint.setup import TrainingSetup

KINDS = ("parameters", "gradients", "master_weights", "optimizer_states", "buckets")


def of(setup: TrainingSetup) -> dict[str, Placed]:
    """What each kind of model state takes on one rank at the boundary of a step, of the rank that holds most."""
    return {
        "parameters": parameters(setup),
        "gradients": gradients(setup),
        "master_weights": master_weights(setup),
        "optimizer_states": optimizer_states(setup),
        "buckets": buckets(setup),
    }
