"""The host memory in which the ranks of a node load the whole model, each for itself, before DeepSpeed sees it.

Measured with transformers 4.36 to 5.23 on a safetensors file, by ``tests/fidelity/test_loading.py``: a rank holds every
parameter in the dtype that it loads. If that is the dtype of the file, the tensors of newer releases are those of the
mapped file, which the system can drop.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts.model import BYTES
from ds_lint.footprint.band import Band, exactly
from ds_lint.footprint.doubts import is_quantized
from ds_lint.footprint.partitioned import uses_zero_init
from ds_lint.footprint.placed import FULL
from ds_lint.semantics.features import zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.launches.model_loading import ModelLoad
    from ds_lint.semantics.config import Config


class LoadedModel(NamedTuple):
    """What the ranks of a node hold after they loaded a model. ``dtype`` is torch's name."""

    load: ModelLoad
    dtype: str
    rank_bytes: float
    ranks: int  # of one node

    @property
    def node_bytes(self) -> float:
        """The bytes of all ranks of a node."""
        return self.rank_bytes * self.ranks


def on_each_rank(config: Config) -> LoadedModel | None:
    """What each rank holds of the whole model; None if it holds nothing, or if it is not known."""
    facts, load = config.facts, _load(config)
    ranks = 1 if config.world_size == 1 else facts.ranks_per_node
    if load is None or facts.model is None or not facts.model.parameter_count or ranks is None:
        return None
    dtype = _dtype(load, config)
    if dtype is None or not _loads_whole(load, config) or _is_mapped(load, dtype, config):
        return None
    return LoadedModel(load, dtype, facts.model.parameter_count * BYTES[dtype], ranks)


def width(config: Config) -> Band | None:
    """The bytes of each element that a rank takes to load the model; None if nothing tells.

    A script that is not known is taken to load it as releases do unasked: of those that take the dtype of the file,
    the likely figure is that of a mapped file.
    """
    load = _load(config)
    dtype = _dtype(load, config) if load is not None else None
    if load is None or dtype is None:
        return Band(0, 0, FULL) if load is None and _is_mapped_unasked(config) else None
    found = BYTES[dtype]
    return Band(0, 0, found) if _is_mapped(load, dtype, config) else exactly(found)


def dtype(config: Config) -> str | None:
    """The dtype in which the script loads the model, by torch's name; None if that does not show."""
    load = _load(config)
    return _dtype(load, config) if load is not None else None


def _load(config: Config) -> ModelLoad | None:
    """The call by which the script loads the model into host memory; None if there is not one alone."""
    launch = config.facts.launch
    loads = launch.script.calls.loads if launch is not None and launch.script is not None else ()
    if len(loads) != 1 or loads[0].device_map is not None or is_quantized(config):
        return None
    return loads[0]


def _is_mapped_unasked(config: Config) -> bool:
    does = config.knowledge.stack_does
    return does("checkpoints-of-the-same-dtype-stay-mapped") and not does("models-are-loaded-in-fp32-unasked")


def _loads_whole(load: ModelLoad, config: Config) -> bool:
    """Whether transformers does not partition the model while it loads it, which it does at stage 3."""
    stage = zero_stage(config)
    if stage is None or config.facts.launch is None:
        return False
    return stage < 3 or uses_zero_init(config) is False or load.setup_after is not None


def _dtype(load: ModelLoad, config: Config) -> str | None:
    """The dtype of the loaded parameters; None if it is not known."""
    dtype = load.dtype
    if dtype == "":
        dtype = "float32" if config.knowledge.stack_does("models-are-loaded-in-fp32-unasked") else "auto"
    if dtype == "auto":
        dtype = config.facts.model.dtype if config.facts.model is not None else None
    return dtype if dtype in BYTES else None


def _is_mapped(load: ModelLoad, dtype: str, config: Config) -> bool:
    """Whether the parameters may be those of the mapped file."""
    if load.low_memory is None and not config.knowledge.stack_does("checkpoints-of-the-same-dtype-stay-mapped"):
        return False
    return config.facts.model is None or config.facts.model.dtype in (None, dtype)
