"""What stands for the user's script with Accelerate: the values that fill each ``"auto"`` of the config."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.spelling import AUTO

if TYPE_CHECKING:
    from typing import Any

    from ds_lint.knowledge.records import JsonObject
    from ds_lint.semantics.config import Config

BATCH_SIZE = 2  # of the DataLoader, if the config leaves it to the script
_ADAMW = (1e-3, 0.01)  # learning rate and weight decay
_WARMUP = 2
_PRECISIONS = ("bf16", "fp16")  # the section that is "auto" chooses


class AccelerateScript(NamedTuple):
    """The arguments of the ``Accelerator``, the ``DataLoader``, the optimizer and the scheduler."""

    batch_size: int
    accumulation_steps: int
    mixed_precision: str | None  # None: the script passes none
    rate: float
    weight_decay: float
    warmup_steps: int
    total_steps: int  # of all ranks together, as Accelerate counts them

    @property
    def words(self) -> str:
        """The values as calls, for the report."""
        precision = f", mixed_precision={self.mixed_precision!r}" if self.mixed_precision else ""
        return (
            f"Accelerator(gradient_accumulation_steps={self.accumulation_steps}{precision}), "
            f"DataLoader(batch_size={self.batch_size}), AdamW(lr={self.rate:g}, weight_decay={self.weight_decay:g})"
        )


def script_of(config: Config, batch_size: int, accumulation_steps: int, *, steps: int, ranks: int) -> AccelerateScript:
    """A script that fits a config: its precision is that of the first section with an ``"auto"``."""
    autos = (name for name in _PRECISIONS if _is_auto(config, name, "enabled"))
    rate, weight_decay = _ADAMW
    return AccelerateScript(
        batch_size, accumulation_steps, next(autos, None), rate, weight_decay, _WARMUP, steps * ranks
    )


def _is_auto(config: Config, *path: str) -> bool:
    node = config.written.at(path)
    return node is not None and node.value == AUTO


def fill(config: JsonObject, script: AccelerateScript, ranks: int) -> None:
    """Replace each ``"auto"`` that the script decides, as ``_prepare_deepspeed`` and ``set_mixed_precision`` do.

    Source: ``accelerate/accelerator.py``, ``accelerate/utils/dataclasses.py``. ``DummyScheduler`` counts the steps of
    all ranks.
    """
    steps = config.get("gradient_accumulation_steps", 1)  # DeepSpeedPlugin inserts 1
    steps = script.accumulation_steps if steps == AUTO else steps
    micro = config.get("train_micro_batch_size_per_gpu")
    micro = script.batch_size if micro == AUTO else micro
    values: dict[tuple[str, ...], Any] = {
        ("gradient_accumulation_steps",): steps,
        ("train_micro_batch_size_per_gpu",): micro,
        ("bf16", "enabled"): script.mixed_precision == "bf16",
        ("fp16", "enabled"): script.mixed_precision == "fp16",
        ("optimizer", "params", "lr"): script.rate,
        ("optimizer", "params", "weight_decay"): script.weight_decay,
        ("scheduler", "params", "warmup_min_lr"): 0,
        ("scheduler", "params", "warmup_max_lr"): script.rate,
        ("scheduler", "params", "warmup_num_steps"): script.warmup_steps,
        ("scheduler", "params", "total_num_steps"): math.ceil(script.total_steps / ranks),
    }
    if isinstance(micro, int) and isinstance(steps, int):
        values["train_batch_size",] = micro * steps * ranks
    for (*sections, name), value in values.items():
        section: Any = config
        for one in sections:
            section = section.get(one) if isinstance(section, dict) else None
        if isinstance(section, dict) and section.get(name) == AUTO:
            section[name] = value
