"""The secondary partitions of ZeRO++ (hpZ): a copy of the weights that the ranks of a group share.

DeepSpeed creates them in the forward pass and drops them after the step, so they are counted after a backward pass.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested
from ds_lint.smoke.verify.check import ObservedRun, checked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.records.job import TrainedParameter

_SIZE = "zero_hpz_partition_size"


def secondary_partitions(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The elements of the secondary partition on each rank."""
    ranks_of_group = int(expectation.number(ZERO, _SIZE) or 1)
    if ranks_of_group == 1 or run.engine.stage != 3 or run.world_size == 1:
        return
    share = secondary_share(run.train[0].parameters, run.world_size, ranks_of_group)
    observed = [one.secondary_elements for one in run.train]
    yield checked(
        "parameters",
        Requested([share] * run.world_size, expectation.key(ZERO, _SIZE)),
        observed,
        all(elements == share for elements in observed),
        unit="elements",
        kept=f"after a backward pass each rank holds {share:,} elements of the secondary partitions, "
        f"1/{ranks_of_group} of the model",
        broken=f"a rank holds {min(observed, key=lambda one: one == share):,} elements of secondary partitions, but "
        f"its share in a group of {ranks_of_group} ranks is {share:,}",
        adapted=f"{ZERO}.{_SIZE}" in run.adapted,
    )


def secondary_share(parameters: list[TrainedParameter], ranks: int, ranks_of_group: int) -> int:
    """Elements of a rank's secondary partition: each parameter is padded to all ranks, and then split in the group.

    Source: ``_partition_param_sec`` in deepspeed/runtime/zero/partition_parameters.py.
    """
    return sum(math.ceil(one.elements / ranks) * ranks // ranks_of_group for one in parameters)
