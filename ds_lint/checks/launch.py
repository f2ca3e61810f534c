"""Rules about the launch: what the config demands of the number of ranks (DS8xx)."""

from __future__ import annotations

from ds_lint.checks.problem import Problem, rejected
from ds_lint.finding import Related
from ds_lint.rule import rule
from ds_lint.switches import number, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.config import Config

TENSOR_PARALLEL = ("tensor_parallel", "autotp_size")


@rule(
    "DS801", "more-tensor-parallel-ranks-than-ranks", severity="error", effects=("rejected",), keys=("tensor_parallel",)
)
def more_tensor_parallel_ranks_than_ranks(config: Config) -> Iterator[Problem]:
    """``autotp_size`` above the world size, or no divisor of it."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    ranks = config.world_size
    if member is None or size is None or ranks is None or size <= 1:
        return
    if size > ranks:
        wrong, label = (
            f"needs at least as many, and the run has {ranks}: deepspeed.initialize raises",
            f"more than {ranks}",
        )
    elif ranks % size:
        wrong = f"leaves {ranks % size:g} of the {ranks} ranks of the run over: deepspeed.initialize raises there"
        label = f"does not divide {ranks}"
    else:
        return
    yield Problem(
        TENSOR_PARALLEL,
        member.value.span,
        f"tensor parallelism over {size:g} ranks {wrong}",
        rejected("initialize"),
        help=f"Write a number that divides {ranks}, or start more ranks.",
        label=label,
    )


@rule("DS802", "tensor-parallel-at-stage-3", severity="error", effects=("rejected",), keys=("tensor_parallel",))
def tensor_parallel_at_stage_3(config: Config) -> Iterator[Problem]:
    """AutoTP with partitioned parameters, which DeepSpeed refused for a while."""
    member = config.member(*TENSOR_PARALLEL)
    size = number(member.value.value) if member else None
    if member is None or size is None or size <= 1 or zero_stage(config) != 3:
        return
    if config.knowledge.does("tensor-parallel-refuses-stage-3"):
        stage = config.member("zero_optimization", "stage")
        yield Problem(
            TENSOR_PARALLEL,
            member.value.span,
            f"DeepSpeed {config.knowledge.deepspeed} does not combine AutoTP with ZeRO stage 3: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Set `stage` to 2, set `autotp_size` to 0, or upgrade to "
            f"DeepSpeed {config.knowledge.ended('tensor-parallel-refuses-stage-3')}.",
            label="not with stage 3",
            related=[Related(stage.value.span, "stage 3")] if stage else [],
        )
