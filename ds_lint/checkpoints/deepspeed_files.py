"""The names of the files that DeepSpeed writes below a tag, and the ranks in them (``deepspeed/runtime/engine.py``)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_MODEL = re.compile(r"(?:zero_pp_rank_(\d{1,6})_)?mp_rank_(\d{1,6})_model_states\.pt")
_OPTIMIZER = re.compile(r"(bf16_)?zero_pp_rank_(\d{1,6})_mp_rank_(\d{1,6})_?optim_states\.pt")
_EXPERT = re.compile(r"layer_(\d{1,6})_expert_(\d{1,6})_mp_rank_(\d{1,6})_model_states\.pt")
_EXPERT_OPTIMIZER = re.compile(r"expp_rank_(\d{1,6})_mp_rank_(\d{1,6})_optim_states\.pt")
_LAYER = re.compile(r"layer_(\d{1,6})(?:-model_(\d{1,6}))?-model_states\.pt")


class EngineFiles(NamedTuple):
    """The files below a tag, by the ranks in their names: the data rank, then the model rank."""

    models: dict[tuple[int | None, int], str]  # the data rank is None where one file serves all of them
    optimizers: dict[tuple[str, int, int], str]  # first "bf16_" or nothing
    experts: dict[tuple[int, int, int], str]  # layer, expert, model rank
    expert_optimizers: dict[tuple[int, int], str]
    layers: dict[tuple[int, int], str]  # layer of a pipeline, model rank

    @property
    def is_empty(self) -> bool:
        """Whether no name is one of DeepSpeed's."""
        return not (self.models or self.optimizers or self.experts or self.layers)


def engine_files(names: Iterable[str]) -> EngineFiles:
    """Sort the names in a folder."""
    found = EngineFiles({}, {}, {}, {}, {})
    for name in names:
        if match := _MODEL.fullmatch(name):
            found.models[None if match[1] is None else int(match[1]), int(match[2])] = name
        elif match := _OPTIMIZER.fullmatch(name):
            found.optimizers[match[1] or "", int(match[2]), int(match[3])] = name
        elif match := _EXPERT.fullmatch(name):
            found.experts[int(match[1]), int(match[2]), int(match[3])] = name
        elif match := _EXPERT_OPTIMIZER.fullmatch(name):
            found.expert_optimizers[int(match[1]), int(match[2])] = name
        elif match := _LAYER.fullmatch(name):
            found.layers[int(match[1]), int(match[2] or 0)] = name
    return found


def model_name(data_rank: int | None, model_rank: int) -> str:
    """The name of a file with weights, or at stage 3 with what goes with them."""
    data = "" if data_rank is None else f"zero_pp_rank_{data_rank}_"
    return f"{data}mp_rank_{model_rank:02d}_model_states.pt"


def optimizer_name(prefix: str, data_rank: int, model_rank: int) -> str:
    """The name of a file with the optimizer's partition of a rank."""
    return f"{prefix}zero_pp_rank_{data_rank}_mp_rank_{model_rank:02d}_optim_states.pt"
