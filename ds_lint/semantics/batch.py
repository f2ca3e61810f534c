"""The batch sizes: how DeepSpeed completes them, and by how many ranks it multiplies (deepspeed/runtime/config.py)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.semantics.config import Config

TRAIN, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
BATCH_SIZES = (TRAIN, MICRO, STEPS)
SEQUENCE, DATA = "sequence_parallel_size", "data_parallel_size"


def completed(train: Any, micro: Any, steps: Any, world: float) -> tuple[Any, Any, Any]:
    """The three batch sizes as DeepSpeed works them out of at least one of the first two; whatever Python raises.

    Source: ``_set_batch_related_parameters``. Python's own operators decide what is a number (``true`` and ``1.5``
    are), so they decide here too. A text is none, although Python multiplies it: DeepSpeed makes one of gigabytes of
    ``"8"`` and a large micro batch size, and ``_batch_assertion``, which compares it with 0, raises TypeError.
    """
    for size in (train, micro, steps):
        if size is not None and not isinstance(size, (int, float)):
            raise TypeError
    if train is not None and micro is not None and steps is not None:
        return train, micro, steps
    if train is not None and micro is not None:
        return train, micro, train // micro // world
    if train is not None and steps is not None:
        return train, train // world // steps, steps
    if micro is not None and steps is not None:
        return micro * steps * world, micro, steps
    if train is not None:
        return train, train // world, 1
    return micro * world, micro, 1


def multiplies_up(train: Any, micro: Any, steps: Any, world: float) -> bool:
    """Whether DeepSpeed takes three batch sizes, as ``_batch_assertion`` has it."""
    return bool(train > 0 and micro > 0 and steps > 0 and train == micro * steps * world)


def data_parallel_size(config: Config, ranks: float, *, from_file: bool) -> float:
    """What DeepSpeed multiplies by on so many ranks; ``from_file`` where it gets the path of the config and no dict.

    Ranks that share a tensor count too (``tensor_parallel.autotp_size``), although they train on the same samples:
    their groups are made after the batch sizes were settled.
    """
    sharing = sequence_parallel_ranks(config, from_file=from_file)
    return ranks / sharing if sharing else ranks


def sequence_parallel_ranks(config: Config, *, from_file: bool) -> float | None:
    """The ranks that share a sequence and count as one; None where each rank counts.

    Sources: ``deepspeed.initialize``, which makes a mesh of ranks where both sizes are set, and
    ``DeepSpeedConfig.__init__``, which divides by the first size alone. At first both looked into a dict only.
    """
    size = config.value(SEQUENCE)
    if not isinstance(size, (int, float)) or not size:
        return None
    if from_file and not config.knowledge.does("mesh-is-read-from-files"):
        return None
    is_mesh = config.node(DATA) is not None and config.knowledge.find((DATA,)) is not None
    return size if is_mesh or config.knowledge.does("sequence-parallel-divides-the-world-size") else None
