"""Training frameworks with recipes: one record for each, which everything else about it follows from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.frameworks import trl
from ds_lint.frameworks.axolotl import AXOLOTL
from ds_lint.frameworks.llama_factory import LLAMA_FACTORY
from ds_lint.frameworks.ms_swift import MS_SWIFT
from ds_lint.frameworks.record import Framework

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FRAMEWORKS = {one.name: one for one in (LLAMA_FACTORY, AXOLOTL, MS_SWIFT, trl.TRL)}
# A script of the user's own: its fields are TrainingArguments, and others of which nothing is known.
SCRIPT = Framework("HfArgumentParser", adapter=trl.adapter, sets_leaf_modules=False)
# Names that TrainingArguments coined, and how many of them a recipe for such a script has.
TRAINERS = frozenset((
    "eval_strategy", "evaluation_strategy", "gradient_checkpointing", "logging_steps", "logging_strategy",
    "lr_scheduler_type", "num_train_epochs", "overwrite_output_dir", "per_device_eval_batch_size",
    "per_device_train_batch_size", "push_to_hub", "report_to", "save_steps", "save_strategy", "save_total_limit",
    "warmup_ratio",
))  # fmt: skip
_FEWEST = 3


def by_flag(flags: Iterable[str]) -> Framework | None:
    """The framework that a flag tells, of a script which cannot be read."""
    given = {*flags}
    return next((one for one in FRAMEWORKS.values() if one.flag in given), None)


def recognized(keys: Sequence[str]) -> tuple[str, list[str]]:
    """The framework that a mapping with these keys is a recipe for, by name, and the keys that tell; else nothing."""
    for framework in FRAMEWORKS.values():
        found = [key for key in keys if key in framework.keys]
        if framework.model in keys and found:
            return framework.name, [framework.model, *found]
    found = [key for key in keys if key in TRAINERS]
    return (SCRIPT.name, found) if len(found) >= _FEWEST else ("", [])
