"""A rule about ZeRO settings that only another stage uses; off by default (DS3xx)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import NO_EFFECT, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import is_on, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Member

ZERO = "zero_optimization"
# What _configure_zero_optimizer in deepspeed/runtime/engine.py hands to stage 3 alone, without the prefix that most
# of the names may have. Gathering weights for saving is left out: below stage 3 they are whole anyway.
_STAGE_3 = (
    "sub_group_size",
    "prefetch_bucket_size",
    "param_persistence_threshold",
    "model_persistence_threshold",
    "max_live_parameters",
    "max_reuse_distance",
    "module_granularity_threshold",
    "use_all_reduce_for_fetch_params",
    "allgather_sequential",
)


@rule("DS340", "key-of-another-stage", severity="info", effects=("no-effect",), keys=(ZERO,), default=False)
def key_of_another_stage(config: Config) -> Iterator[Problem]:
    """Stage 3 settings at a lower stage, and ``round_robin_gradients`` at a stage other than 1 and 2."""
    section = config.section(ZERO)
    stage = zero_stage(config)
    if section is None or stage is None:
        return
    members = [member for member in section.members if _is_of_another_stage(config, member, stage)]
    if not members:
        return
    first, *others = members
    yield Problem(
        (ZERO, first.key),
        first.key_span,
        f"ZeRO stage {stage} ignores `{'`, `'.join(member.key for member in members)}`: "
        f"only {'stages 1 and 2 use' if stage == 3 else 'another stage uses'} {'it' if not others else 'them'}",
        NO_EFFECT,
        help="Delete it, or keep it if you plan to change the stage.",
        label="not used at this stage",
        related=[Related(other.key_span, "not used either") for other in others],
    )


def _is_of_another_stage(config: Config, member: Member, stage: int) -> bool:
    if config.member(ZERO, member.key) is not member:
        return False
    if member.key == "round_robin_gradients":
        return stage in (0, 3) and is_on(config, ZERO, member.key)
    return stage < 3 and member.key.removeprefix("stage3_") in _STAGE_3
