"""Rules about saving and resuming (DS7xx)."""

from __future__ import annotations

from ds_lint.checks.problem import RISK, Problem, rejected
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
        yield Problem(
            ("checkpoint", "writer"),
            member.key_span,
            f"at stage {stage} DeepSpeed trips over a checkpoint writer without `data_parallel`: "
            "deepspeed.initialize raises an AttributeError",
            rejected("initialize"),
            help='Add "data_parallel": "REPLICA" to `checkpoint.writer`.',
            label="needs `data_parallel`",
        )


@rule("DS702", "nvme-states-lost-on-resume", severity="warning", effects=("risk",), keys=("zero_optimization",))
def nvme_states_lost_on_resume(config: Config) -> Iterator[Problem]:
    """Optimizer states on NVMe, of which a checkpoint brings back only a part, or none can be saved.

    Source: ``load_checkpoint`` in ``deepspeed/runtime/engine.py`` skips the ZeRO checkpoint with NVMe and copies the
    swapped files; ``MIN_AIO_BYTES`` in ``deepspeed/runtime/swap_tensor/utils.py`` decides what is swapped.
    """
    path = ("zero_optimization", "offload_optimizer", "device")
    member = config.member(*path)
    if member is None or member.value.value != "nvme" or zero_stage(config) != 3:
        return
    if config.knowledge.does("nvme-states-are-loaded-in-part"):
        what = (
            "resuming from a checkpoint restores the optimizer states that lie on NVMe as files, and nothing else of "
            "the optimizer: Adam counts its steps from the start, and weights and moments below 1 MiB are lost"
        )
    elif config.knowledge.does("nvme-states-are-not-saved"):
        what = f"DeepSpeed {config.knowledge.deepspeed} saves no optimizer states from NVMe: saving a checkpoint raises"
    else:
        return
    yield Problem(
        path,
        member.value.span,
        what,
        RISK,
        help='Write "cpu" if host memory is large enough, or do not plan to resume this run.',
        label="not in the checkpoint",
    )
