"""One rank of a simulated world with FSDP: the user's own model, sharded for that many ranks by the real libraries.

Accelerate prepares the model, in its full size, on a device without memory, so the shards have shapes and no contents.
Nothing is trained; the optimizer makes one step without contents, after which its states are there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from accelerate import Accelerator

from ds_lint.smoke.observe import fsdp_optimizer, fsdp_shards
from ds_lint.smoke.rank import environment, fsdp_launch, training_model
from ds_lint.smoke.rank.fsdp_run import optimizer_of, parameters_of
from ds_lint.smoke.records.fsdp import FSDP1, FsdpEvidence
from ds_lint.smoke.standins import sharded

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.records.job import Evidence, Job


def simulate(job: Job, rank: int, evidence: Evidence, enter: Callable[[str], None]) -> None:
    """Let accelerate shard the model for this rank, and observe what the rank keeps."""
    assert job.fsdp is not None  # noqa: S101 - of a job with FSDP
    enter("meet")
    environment.set_up(job, rank)
    enter("load")
    fsdp_launch.set_up(job)
    fsdp_launch.stand_in(job)
    enter("initialize")
    accelerator = Accelerator()
    enter("model")
    if job.model is None:
        recipe = training_model.recipe_of(job)
        model, evidence.model = training_model.build(recipe), recipe.words
    else:
        model, evidence.model = training_model.full_size(job.model)
        _send_nothing(accelerator.state.fsdp_plugin)
        sharded.stand_in_of_no_memory()
    evidence.parameters = parameters_of(model)
    enter("initialize")
    if job.fsdp.version == FSDP1:  # the optimizer gets the flat parameters
        model = accelerator.prepare(model)
        optimizer = optimizer_of(model, job.fsdp)
    else:
        model, prepared = accelerator.prepare(model, optimizer_of(model, job.fsdp))
        # Accelerate finds the shards of an optimizer by addresses, and what has no memory has none.
        optimizer = prepared.optimizer if job.model is None else optimizer_of(model, job.fsdp)
    _make_states(optimizer)
    enter("measure")
    evidence.fsdp = FsdpEvidence(
        holding=fsdp_shards.holding(model),
        states={name: kind.held for name, kind in fsdp_optimizer.states(optimizer).items()},
    )


def _send_nothing(plugin: Any) -> None:
    """Weights without contents cannot be sent to other ranks; which part of them a rank keeps does not depend on it."""
    plugin.cpu_ram_efficient_loading = plugin.sync_module_states = False
    plugin.param_init_fn = _without_contents


def _without_contents(module: torch.nn.Module) -> torch.nn.Module:
    return module.to_empty(device=torch.device("meta"), recurse=False)


def _make_states(optimizer: Any) -> None:
    """Let the optimizer make its states, as it does in its first step."""
    for group in optimizer.param_groups:
        for one in group["params"]:
            one.grad = torch.zeros_like(one)
    optimizer.step()
