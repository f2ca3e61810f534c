"""Parameters that stage 3 has gathered beside the persistent ones, while a step runs.

The coordinator of DeepSpeed (deepspeed/runtime/zero/partitioned_param_coordinator.py) fetches the parameters of a
module as it begins, prefetches those that follow, and releases those that are not needed again soon. From the third
step on it follows the trace of the first ones, and so does this module, over the modules that the names of the
parameters tell.
"""

from __future__ import annotations

from collections import deque
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.memory.band import NOTHING, Band
from ds_lint.memory.partition import persistent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.facts.tensors import Tensor
    from ds_lint.memory.setup import TrainingSetup

_DECIDES = (  # of a setup, about what is gathered: the same for all ranks, offloads and micro batches
    *("tensors", "persistence_threshold", "persistence_total", "prefetch_bucket", "max_live_parameters"),
    *("max_reuse_distance", "is_checkpointed", "untrained"),
)
_MOST_KNOWN = 32
_known: dict[tuple[object, ...], Band] = {}  # advice and sweeps ask for the same again and again
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
    key = tuple(getattr(setup, name) for name in _DECIDES)
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = _gathered(setup)
    return _known[key]


def _gathered(setup: TrainingSetup) -> Band:
    sizes = [tensor.size for tensor in setup.tensors]
    is_persistent = persistent(setup)
    gathered = [0 if stays else size for size, stays in zip(sizes, is_persistent, strict=True)]
    alone = modules(setup.tensors)
    together = modules(setup.tensors, are_experts_one=True)
    least = max(sum(gathered[place] for place in module.parameters) for module in alone)
    largest = max(sum(gathered[place] for place in module.parameters) for module in together)
    goes_back = setup.untrained is None  # without autograd, a step ends with the forward pass (``reset_step``)
    likely = max(
        _highest(
            sizes,
            is_persistent,
            list(_trace(together, sizes, setup.tensors, is_checkpointed=is_checkpointed, goes_back=goes_back)),
            setup,
        )
        for is_checkpointed in ([False, True] if setup.is_checkpointed is None else [setup.is_checkpointed])
    )
    more = largest + min(setup.prefetch_bucket, setup.max_live_parameters)
    return Band(least, max(least, likely), max(min(sum(gathered), likely + more), likely))


def modules(tensors: Sequence[Tensor], *, are_experts_one: bool = False) -> list[Module]:
    """The modules of a model in its order.

    ``are_experts_one`` is whether the experts of a layer are gathered together: their weights are one parameter since
    transformers 5, and DeepSpeed's ``set_z3_leaf_modules`` does the same to those that are modules.
    """
    found: list[Module] = []
    layers = _layers(tensors)
    before: tuple[int | None, str] | None = None
    for place, tensor in enumerate(tensors):
        name = tensor.name.rpartition(".")[0]
        if are_experts_one and ".experts." in f"{name}.":
            name = name.partition(".experts")[0] + ".experts"
        key = (layers[place], name)
        if key == before:
            found[-1] = found[-1]._replace(parameters=(*found[-1].parameters, place))
        else:
            found.append(Module((place,), layers[place]))
        before = key
    return found


def _layers(tensors: Sequence[Tensor]) -> list[int | None]:
    """The number of the layer of each parameter, counted over all stacks of the model."""
    found: list[int | None] = []
    count, now, seen = -1, "", set[str]()
    for tensor in tensors:
        words = tensor.name.split(".")
        at = next((place for place, word in enumerate(words) if word.isdigit() or word == "#"), None)
        if at is None:
            found.append(None)
            continue
        stack = ".".join(words[: at + 1])
        if stack != now or (words[at] == "#" and tensor.name in seen and ".experts.#" not in tensor.name):
            count, now, seen = count + 1, stack, set()
        seen.add(tensor.name)
        found.append(count)
    return found


def _trace(
    found: Sequence[Module],
    sizes: Sequence[int],
    tensors: Sequence[Tensor],
    *,
    is_checkpointed: bool,
    goes_back: bool = True,
) -> Iterator[tuple[int, ...]]:
    """The parameters of each module in the order of a step: forward, and backward with layers computed once more."""
    order = list(found)
    if not any(tensor.name.split(".")[0] in _HEADS or "lm_head" in tensor.name for tensor in tensors):
        embedding = next(
            (place for place, tensor in enumerate(tensors) if "emb" in tensor.name or "wte" in tensor.name), 0
        )
        order.append(Module((embedding,), None))  # the head is tied
    for module in order:
        yield module.parameters
    last: int | None = None
    for module in reversed(order if goes_back else []):
        if is_checkpointed and module.layer is not None and module.layer != last:
            for again in order:
                if again.layer == module.layer:
                    yield again.parameters
        last = module.layer
        yield module.parameters


def _highest(
    sizes: Sequence[int], is_persistent: Sequence[bool], trace: Sequence[tuple[int, ...]], setup: TrainingSetup
) -> int:
    """The most elements that are gathered at once if a step runs the modules of this trace."""
    uses: list[deque[int]] = [deque() for _ in sizes]
    for step, parameters in enumerate(trace):
        for place in parameters:
            uses[place].append(step)
    before = [0, *accumulate(sum(sizes[place] for place in parameters) for parameters in trace)]
    queue = deque((place, step) for step, parameters in enumerate(trace) for place in parameters)
    fetched_for = [-1] * len(sizes)
    is_available = list(is_persistent)
    held = most = 0
    for step, parameters in enumerate(trace):
        for place in parameters:
            uses[place].popleft()
            if not is_available[place]:
                is_available[place] = True
                held += sizes[place]
        waiting = {place for place in parameters if fetched_for[place] < step}
        while queue and waiting:
            place, fetched_for_step = queue.popleft()
            fetched_for[place] = fetched_for_step
            waiting.discard(place)
        prefetched = 0
        while queue and prefetched < min(setup.prefetch_bucket, setup.max_live_parameters - held):
            place, needed_at = queue.popleft()
            fetched_for[place] = max(fetched_for[place], needed_at)
            if not is_available[place]:
                is_available[place] = True
                held += sizes[place]
                prefetched += sizes[place]
        most = max(most, held)
        for place in parameters:
            is_near = uses[place] and before[uses[place][0]] - before[step + 1] < setup.max_reuse_distance
            if not is_persistent[place] and is_available[place] and fetched_for[place] <= step + 1 and not is_near:
                is_available[place] = False
                held -= sizes[place]
    return most
