"""Rules about the launch: what the config demands of the number of ranks (DS8xx)."""

from __future__ import annotations

from ds_lint.checks.problem import Problem, rejected
from ds_lint.rule import rule
from ds_lint.switches import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.config import Config


@rule(
    "DS801", "more-tensor-parallel-ranks-than-ranks", severity="error", effects=("rejected",), keys=("tensor_parallel",)
)
def more_tensor_parallel_ranks_than_ranks(config: Config) -> Iterator[Problem]:
    """``autotp_size`` above the world size."""
    member = config.member("tensor_parallel", "autotp_size")
    size = number(member.value.value) if member else None
    if member is None or size is None or config.world_size is None or size <= max(config.world_size, 1):
        return
    yield Problem(
        ("tensor_parallel", "autotp_size"),
        member.value.span,
        f"tensor parallelism over {size:g} ranks needs at least as many, and the run has {config.world_size}: "
        "deepspeed.initialize raises",
        rejected("initialize"),
        help=f"Write a number that divides {config.world_size}, or start more ranks.",
        label=f"more than {config.world_size}",
    )
