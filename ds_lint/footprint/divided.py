"""Parallelism divides the model first, and ZeRO what is left: the part of the rank that holds most, and its ranks.

ZeRO divides it among the data-parallel ranks, each of which has the same part. Ranks that share a sequence are
data-parallel ones to ZeRO (``_get_sequence_data_parallel_group`` in ``deepspeed/utils/groups.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint import experts, pipeline, tensor_parallelism
from ds_lint.footprint.parallelism import Degrees

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeAlias

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.pipeline import Stage
    from ds_lint.knowledge.records import JsonObject

    # What ``of_rank`` gives.
    Shares: TypeAlias = tuple[tuple[Tensor, ...], int, "ModelPart"]


class ModelPart(NamedTuple):
    """What a rank has of the model, beside what ZeRO divides.

    Of the ``stages`` of a pipeline, ``stage`` is the one whose ranks likely hold most, once that is estimated, and
    ``more`` the bytes that another one can hold beyond the most of that. ``is_sure`` says that the part is known: if it
    is not, the model counts whole, and a rank holds at least the part that it would have if everything were divided.
    """

    degrees: Degrees = Degrees()
    whole: int = 0  # elements of the whole model; 0 if it is not divided
    stages: tuple[Stage, ...] = ()
    stage: Stage | None = None
    more: float = 0
    is_sure: bool = True
    layer_ranks: int = 1  # among which tensor parallelism divides what the layers compute
    logit_ranks: int = 1  # among which it divides the logits


_MOST_REMEMBERED = 8  # models, each divided in one way
_remembered: list[tuple[tuple[Tensor, ...], JsonObject, tuple[Degrees, int, bool], Shares]] = []


def of_rank(
    parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees, ranks: int, *, is_open: bool
) -> Shares:
    """The parameters of a rank, before a pipeline divides them, the ranks of ZeRO, and what part of the model they are.

    ``ranks`` are all of the run; ``is_open`` says that something may divide the model in a way that is not counted. The
    answer is the same object for the same model, by which answers about setups are remembered.
    """
    way = degrees, ranks, is_open
    for model, config, divided, found in _remembered:
        if model is parameters and config is architecture and divided == way:
            return found
    found = _of_rank(parameters, architecture, degrees, ranks, is_open=is_open)
    _remembered.insert(0, (parameters, architecture, way, found))
    del _remembered[_MOST_REMEMBERED:]
    return found


def _of_rank(
    parameters: tuple[Tensor, ...], architecture: JsonObject, degrees: Degrees, ranks: int, *, is_open: bool
) -> Shares:
    whole = sum(one.elements for one in parameters)
    if degrees.of_a_copy > ranks:  # which does not start
        degrees = degrees._replace(tensors=1, stages=1)
    if degrees.experts > 1:
        shared = experts.of_rank(parameters, architecture, degrees, ranks) if not is_open else None
        is_open = is_open or shared is None
        parameters = parameters if shared is None else shared
        degrees = degrees._replace(experts=1 if shared is None else degrees.experts)
    if degrees.of_a_copy == 1:
        is_divided = is_open or degrees.experts > 1
        return parameters, ranks, ModelPart(degrees, whole if is_divided else 0, is_sure=not is_open)
    data = max(1, ranks // degrees.of_a_copy)
    is_known = not is_open
    layer_ranks = logit_ranks = 1
    if degrees.tensors > 1:
        is_known = is_known and tensor_parallelism.is_known(architecture, degrees, parameters)
        if is_known:
            layer_ranks = degrees.tensors if tensor_parallelism.divides_layers(parameters, architecture, degrees) else 1
            logit_ranks = degrees.tensors if tensor_parallelism.divides_logits(parameters, architecture, degrees) else 1
            parameters = tensor_parallelism.of_rank(parameters, architecture, degrees)
    stages: tuple[Stage, ...] = ()
    if degrees.stages > 1 and is_known:
        stages = tuple(pipeline.stages(parameters, architecture, degrees))
        is_known = bool(stages)
    return parameters, data, ModelPart(degrees, whole, stages, None, 0, is_known, layer_ranks, logit_ranks)
