"""Rules about saving and resuming (DS7xx)."""

from __future__ import annotations

from ds_lint.checks.problem import Problem, rejected
from ds_lint.rule import rule
from ds_lint.switches import zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.config import Config


@rule("DS701", "checkpoint-writer-without-data-parallel", severity="error", effects=("rejected",), keys=("checkpoint",))
def checkpoint_writer_without_data_parallel(config: Config) -> Iterator[Problem]:
    """A checkpoint writer without ``data_parallel``, on which DeepSpeed trips below stage 3.

    Source: ``_get_data_parallel_config`` in ``deepspeed/runtime/model_checkpointing/data_parallel_writer_factory.py``
    asks ``UniversalParallelInfo`` for a ``dp_rank`` that it does not have.
    """
    member = config.member("checkpoint", "writer")
    stage = zero_stage(config)
    if member is None or member.value.kind != "object" or stage is None or stage == 3:
        return
    choice = member.value.get("data_parallel")
    if choice is None or choice.kind == "null":
        from ds_lint import edits

        yield Problem(
            ("checkpoint", "writer"),
            member.key_span,
            f"at stage {stage} DeepSpeed trips over a checkpoint writer without `data_parallel`: "
            "deepspeed.initialize raises an AttributeError",
            rejected("initialize"),
            help='Add "data_parallel": "REPLICA" to `checkpoint.writer`.',
            label="needs `data_parallel`",
            fix=edits.written(config, ("checkpoint", "writer", "data_parallel"), "REPLICA", "unsafe"),
        )
