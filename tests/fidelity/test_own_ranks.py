"""The arguments with which scripts start ranks are those of the installed libraries."""

from __future__ import annotations

import inspect

import pytest

from ds_lint.launches.script_ranks import STARTERS

pytest.importorskip("deepspeed")

pytestmark = pytest.mark.fidelity

WHERE = {
    "spawn": "torch.multiprocessing",
    "start_processes": "torch.multiprocessing",
    "LaunchConfig": "torch.distributed.launcher.api",
    "notebook_launcher": "accelerate",
    "debug_launcher": "accelerate",
    "Trainer": "lightning.pytorch",
    "Fabric": "lightning.fabric",
}


@pytest.mark.parametrize("name", WHERE)
def test_the_arguments_that_say_how_many(name):
    starter = STARTERS[name]
    signature = inspect.signature(getattr(pytest.importorskip(WHERE[name]), name))
    given = list(signature.parameters)
    assert starter.per_node in given
    assert not starter.nodes or starter.nodes in given
    assert starter.position is None or given[starter.position] == starter.per_node
    if starter.default is not None:
        assert signature.parameters[starter.per_node].default == starter.default
