"""Parameters that stage 3 has gathered beside the persistent ones, while a step runs.

The coordinator of DeepSpeed (deepspeed/runtime/zero/partitioned_param_coordinator.py) fetches the parameters of a
module as it begins, prefetches those that follow, and releases those that are not needed again soon. From the third
step on it follows the trace of the first ones, and so does this module, over the modules that the names of the
parameters tell.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.memory.band import NOTHING, Band
from ds_lint.memory.partition import persistent
from ds_lint.memory.remembered import by_tensors, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.facts.tensors import Tensor
    from ds_lint.memory.setup import TrainingSetup

_APART = (  # what is gathered is the same for all ranks, offloads and micro batches
    *("ranks", "nodes", "micro_batch", "sequence_length", "attention", "optimizer", "optimizer_offload"),
    *("parameter_offload", "accumulation_steps", "overlaps_communication", "reduce_bucket", "uses_zero_init"),
)
_HEADS = ("lm_head", "embed_out", "output_layer", "cls", "classifier", "score")


class Module(NamedTuple):
    """Parameters that are fetched at once, by their places in the order of the model.

    ``layer`` counts the layers of the model, None for what is in no layer.
    """

    parameters: tuple[int, ...]
    layer: int | None


def live_parameters(setup: TrainingSetup) -> Band:
    """Elements of the parameters that are gathered at once, the persistent ones left out; nothing below stage 3.

    At the least, the largest module is whole. What is held beside it depends on the order in which the modules run,
    of which the names tell the most.
    """
    if setup.stage < 3 or not setup.tensors:
        return NOTHING
    return _gathered(setup)


@remembered(*_APART)
def _gathered(setup: TrainingSetup) -> Band:
    sizes = [tensor.size for tensor in setup.tensors]
    gathered = [0 if stays else size for size, stays in zip(sizes, persistent(setup), strict=True)]
    alone, together = _modules(setup)
    least = max(sum(map(gathered.__getitem__, module.parameters)) for module in alone)
    largest = max(sum(map(gathered.__getitem__, module.parameters)) for module in together)
    ways = [False, True] if setup.is_checkpointed is None else [setup.is_checkpointed]
    likely = max(_in_a_step(setup._replace(is_checkpointed=is_checkpointed)) for is_checkpointed in ways)
    more = largest + min(setup.prefetch_bucket, setup.max_live_parameters)
    return Band(least, max(least, likely), max(min(sum(gathered), likely + more), likely))


@remembered(*_APART)
def _in_a_step(setup: TrainingSetup) -> int:
    """The most elements that are gathered at once in a step of which it is known whether it is checkpointed."""
    sizes = [tensor.size for tensor in setup.tensors]
    trace = list(_trace(_modules(setup)[1], setup.tensors, is_checkpointed=setup.is_checkpointed is True))
    return _highest(sizes, persistent(setup), trace, setup)


@by_tensors
def _modules(setup: TrainingSetup) -> tuple[list[Module], list[Module]]:
    """The modules with experts one by one, and with those of a layer together."""
    alone = modules(setup.tensors)
    has_experts = any(".experts." in tensor.name for tensor in setup.tensors)
    return alone, modules(setup.tensors, are_experts_one=True) if has_experts else alone


def modules(tensors: Sequence[Tensor], *, are_experts_one: bool = False) -> list[Module]:
    """The modules of a model in its order.

    ``are_experts_one`` is whether the experts of a layer are gathered together: their weights are one parameter since
    transformers 5, and DeepSpeed's ``set_z3_leaf_modules`` does the same to those that are modules.
    """
    found: list[tuple[list[int], int | None]] = []
    layers = _layers(tensors)
    before: tuple[int | None, str] | None = None
    for place, tensor in enumerate(tensors):
        name = tensor.name.rpartition(".")[0]
        if are_experts_one and ".experts." in f"{name}.":
            name = name.partition(".experts")[0] + ".experts"
        key = (layers[place], name)
        if key == before:
            found[-1][0].append(place)
        else:
            found.append(([place], layers[place]))
        before = key
    return [Module(tuple(parameters), layer) for parameters, layer in found]


def _layers(tensors: Sequence[Tensor]) -> list[int | None]:
    """The number of the layer of each parameter, counted over all stacks of the model."""
    found: list[int | None] = []
    count, now, seen = -1, "", set[str]()
    for tensor in tensors:
        words = tensor.name.split(".")
        at = next((place for place, word in enumerate(words) if word == "#" or word.isdigit()), None)
        if at is None:
            found.append(None)
            continue
        stack = ".".join(words[: at + 1])
        if stack != now or (words[at] == "#" and tensor.name in seen and ".experts.#" not in tensor.name):
            count, now, seen = count + 1, stack, set()
        seen.add(tensor.name)
        found.append(count)
    return found


def _trace(found: Sequence[Module], tensors: Sequence[Tensor], *, is_checkpointed: bool) -> Iterator[tuple[int, ...]]:
    """The parameters of each module in the order of a step: forward, and backward with layers computed once more."""
    order = list(found)
    if not any(tensor.name.split(".")[0] in _HEADS or "lm_head" in tensor.name for tensor in tensors):
        embedding = next(
            (place for place, tensor in enumerate(tensors) if "emb" in tensor.name or "wte" in tensor.name), 0
        )
        order.append(Module((embedding,), None))  # the head is tied
    of_layers: dict[int | None, list[tuple[int, ...]]] = {}
    for module in order:
        of_layers.setdefault(module.layer, []).append(module.parameters)
        yield module.parameters
    last: int | None = None
    for module in reversed(order):
        if is_checkpointed and module.layer is not None and module.layer != last:
            yield from of_layers[module.layer]
        last = module.layer
        yield module.parameters


def _highest(
    sizes: Sequence[int], is_persistent: Sequence[bool], trace: Sequence[tuple[int, ...]], setup: TrainingSetup
) -> int:
    """The most elements that are gathered at once if a step runs the modules of this trace."""
    queue = [(place, step) for step, parameters in enumerate(trace) for place in parameters]
    next_use = _next_uses(queue)
    before = [0, *accumulate(sum(map(sizes.__getitem__, parameters)) for parameters in trace)]
    fetched_for = [-1] * len(sizes)
    is_available = list(is_persistent)
    bucket, most_live, reused_within = setup.prefetch_bucket, setup.max_live_parameters, setup.max_reuse_distance
    held = most = at = used = 0  # ``at`` is where the queue has come to, ``used`` the use of a parameter
    last = len(queue)
    for step, parameters in enumerate(trace):
        waiting = None
        for place in parameters:
            if not is_available[place]:
                is_available[place] = True
                held += sizes[place]
            if fetched_for[place] < step:
                waiting = {place} if waiting is None else waiting | {place}
        while waiting and at < last:
            place, fetched_for_step = queue[at]
            at += 1
            fetched_for[place] = fetched_for_step
            waiting.discard(place)
        prefetched = 0
        while at < last and prefetched < bucket and prefetched < most_live - held:
            place, needed_at = queue[at]
            at += 1
            fetched_for[place] = max(fetched_for[place], needed_at)
            if not is_available[place]:
                is_available[place] = True
                held += sizes[place]
                prefetched += sizes[place]
        most = max(most, held)
        done = before[step + 1]
        for place in parameters:
            following = next_use[used]
            used += 1
            if is_persistent[place] or not is_available[place] or fetched_for[place] > step + 1:
                continue
            if following is None or before[following] - done >= reused_within:
                is_available[place] = False
                held -= sizes[place]
    return most


def _next_uses(queue: Sequence[tuple[int, int]]) -> list[int | None]:
    """The step in which the parameter of each use is used again, if it is."""
    found: list[int | None] = []
    later: dict[int, int] = {}
    for place, step in reversed(queue):
        found.append(later.get(place))
        later[place] = step
    found.reverse()
    return found
