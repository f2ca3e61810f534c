"""The files that the user's script has saved, for a process that loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.smoke.records.comparison import Recomputed
    from ds_lint.smoke.records.job import Exported, UpdateRule


class SavedFiles(NamedTuple):
    """The files of one engine, and what loads them."""

    export: str  # the folder of the saved model
    checkpoint: str
    model_class: str  # with its module
    has_adapters: bool
    adapter_names: dict[str, str]  # of parameters in the file of the adapter
    trained: list[str]  # the names of the parameters that are not frozen
    tied: list[list[str]]  # names of parameters that are one tensor
    samples: str  # the folder with the step that the ranks sampled
    rule: UpdateRule | None  # of the optimizer in the config; None: that of the script
    is_on_gpus: bool  # where the kernels of that optimizer may round otherwise
    clipping: float
    is_sharded: bool  # zero_to_fp32 has partitions to put together
    dtypes: dict[str, str]  # in which each parameter trains: "bfloat16"
    is_compared: bool  # else the weights are too large to load


class Inspected(NamedTuple):
    """What the process found."""

    exported: Exported | None  # None: the weights are too large to load
    recomputed: Recomputed | None  # None: no step was sampled
