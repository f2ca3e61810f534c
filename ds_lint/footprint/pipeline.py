"""The stages of a pipeline: how ``PipelineModule`` cuts the layers, and the stage whose ranks hold most.

Sources: ``_partition_layers`` in ``deepspeed/runtime/pipe/module.py``, ``partition_balanced`` in
``deepspeed/runtime/utils.py``, ``TrainSchedule`` in ``deepspeed/runtime/pipe/schedule.py``. The layers of a pipeline
are taken to be what scripts make of a language model: what comes before the layers, each layer, a norm and the head. A
weight that the embedding and the head share is on the first stage and on the last one (``TiedLayerSpec``).
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.parallelism import Degrees
    from ds_lint.knowledge.records import JsonObject

_STACK = re.compile(r"^(.*?)\.(#|\d+)\.")
_EMBEDS = re.compile(r"(wte|embed_tokens|embed_in|word_embeddings|shared)\.weight$")
_HEAD = re.compile(r"(lm_head|embed_out|cls|score)\b")
_ENDLESS = float("inf")


class Stage(NamedTuple):
    """A stage of a pipeline. ``layers`` counts those of the stack, of ``of`` in all."""

    tensors: tuple[Tensor, ...]
    number: int
    stages: int
    layers: int
    of: int

    def __hash__(self) -> int:
        """Without the parameters, of which there are thousands, and which setups are compared by often."""
        return hash((self.number, self.stages, self.layers, self.of, len(self.tensors)))

    @property
    def is_last(self) -> bool:
        """Whether the stage computes the loss."""
        return self.number == self.stages - 1

    def in_flight(self, micro_batches: int) -> int:
        """The micro batches whose activations are held at once (``TrainSchedule.num_pipe_buffers``)."""
        return max(1, min(self.stages - self.number, micro_batches))


class _Item(NamedTuple):
    """One layer of the pipeline."""

    tensors: tuple[Tensor, ...]
    is_of_stack: bool


def stages(parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees) -> list[Stage]:
    """The stages of the pipeline; none if there are more than layers, or if nothing tells layers apart."""
    is_tied = _is_tied(parameters, architecture)
    items = _items(parameters, is_tied=is_tied)
    stack = sum(item.is_of_stack for item in items)
    if stack < 2 or degrees.stages > len(items):
        return []
    borders = _borders(items, degrees)
    found = []
    for number, (start, end) in enumerate(itertools.pairwise(borders)):
        of_stage = items[start:end]
        tensors = tuple(tensor for item in of_stage for tensor in item.tensors)
        if is_tied and end == len(items) and start < end:  # ``tied_modules`` is the first module of all
            tensors = (*items[-1].tensors, *tensors[: -len(items[-1].tensors)])
        found.append(Stage(tensors, number, degrees.stages, sum(item.is_of_stack for item in of_stage), stack))
    return found


def _is_tied(parameters: tuple[Tensor, ...], architecture: JsonObject) -> bool:
    """Whether the head has no weight of its own."""
    return architecture.get("tie_word_embeddings") is not False and not any(
        _HEAD.search(one.name) for one in parameters
    )


def _items(parameters: Iterable[Tensor], *, is_tied: bool) -> list[_Item]:
    """The layers of the pipeline, in their order."""
    before: list[Tensor] = []
    layers: list[list[Tensor]] = []
    after: list[Tensor] = []
    seen: set[str] = set()
    number = None
    for one in parameters:
        match = _STACK.match(one.name)
        if match is None:
            (after if layers and not _EMBEDS.search(one.name) else before).append(one)
            continue
        is_next = one.name in seen and one.name.count("#") == 1 if match[2] == "#" else match[2] != number
        if not layers or is_next:
            layers.append([])
            seen = set()
        number = match[2]
        seen.add(one.name)
        layers[-1].append(one)
    words = [one for one in before if _EMBEDS.search(one.name)]
    head = words[:1] if is_tied else [one for one in after if _HEAD.search(one.name)]
    norms = [one for one in after if one not in head]
    found = [_Item(tuple(before), is_of_stack=False), *(_Item(tuple(layer), is_of_stack=True) for layer in layers)]
    return [*found, *(_Item(tuple(one), is_of_stack=False) for one in (norms, head) if one)]


def _borders(items: list[_Item], degrees: Degrees) -> list[int]:
    """Where each stage begins, and the end (``PipelineModule._partition_layers``)."""
    if degrees.method == "uniform":
        return _uniform(len(items), degrees.stages)
    if degrees.method.startswith("type:"):
        return _balanced(tuple(int(item.is_of_stack) for item in items), degrees.stages)
    return _balanced(
        tuple(sum(tensor.size for tensor in item.tensors if tensor.is_trained) for item in items), degrees.stages
    )


def _uniform(count: int, parts: int) -> list[int]:
    if count <= parts:
        return [min(part, count) for part in range(parts + 1)]
    size, left = divmod(count, parts)
    return [part * size + min(part, left) for part in range(parts + 1)]


@lru_cache(maxsize=8)
def _balanced(weights: tuple[int, ...], parts: int) -> list[int]:
    """``partition_balanced`` of DeepSpeed: the largest and the smallest part differ as little as its program finds."""
    count = len(weights)
    if count <= parts:
        return _uniform(count, parts)
    before = [0]
    for weight in weights:
        before.append(before[-1] + weight)
    # By the number of parts: for each number of items, the cost, the largest, the smallest part and the last cut.
    last: list[tuple[float, float, float]] = [(0, 0, _ENDLESS)] + [(_ENDLESS,) * 3] * count
    cuts: list[list[int]] = []
    for part in range(1, parts + 1):
        found: list[tuple[float, float, float]] = [(_ENDLESS,) * 3] * (count + 1)
        places = [0] * (count + 1)
        for items in range(part, count + 1):
            best = found[items]
            for cut in range(part - 1, items):
                _, largest, smallest = last[cut]
                size = before[items] - before[cut]
                largest, smallest = max(largest, size), min(smallest, size)
                if largest - smallest <= best[0]:
                    best = largest - smallest, largest, smallest
                    places[items] = cut
            found[items] = best
        cuts.append(places)
        last = found
    borders = [count]
    for places in reversed(cuts):
        borders.append(places[borders[-1]])
    return borders[::-1]
