"""Parameters that stage 3 has gathered beside the persistent ones, while a step runs.

The coordinator of DeepSpeed (deepspeed/runtime/zero/partitioned_param_coordinator.py) fetches the parameters of a
module as it begins, prefetches those that follow, and releases those that are not needed again soon. From the third
step on it follows the trace of the first ones, and so does this module, over the modules that the names of the
parameters tell.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.footprint.band import NOTHING, Band
from ds_lint.footprint.partition import persistent
from ds_lint.footprint.quantized import width
from ds_lint.footprint.remembered import by_tensors, remembered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.setup import TrainingSetup

_APART = (  # what is gathered is the same for all ranks, offloads and micro batches
    *("ranks", "nodes", "micro_batch", "sequence_length", "attention", "optimizer", "optimizer_offload"),
    *("parameter_offload", "accumulation_steps", "overlaps_communication", "reduce_bucket", "uses_zero_init"),
)
# How far an engine may be from the trace: of 80 set-ups, none gathered less, and more only by a module whose parameters
# another one reads too, or by 2% (``tests/fidelity/test_live_parameters.py``).
_FOLLOWED = 0.9
_HEADS = ("lm_head", "embed_out", "output_layer", "cls", "classifier", "score")


class Module(NamedTuple):
    """Parameters that are fetched at once, by their places in the order of the model.

    ``layer`` counts the layers of the model, None for what is in no layer.
    """

    parameters: tuple[int, ...]
    layer: int | None


class _Gathered(NamedTuple):
    """What a step gathers at once: by its trace, of the largest module alone and with its experts, and at the most."""

    in_a_step: int
    alone: int
    together: int
    whole: int


def live_parameters(setup: TrainingSetup) -> Band:
    """Elements of the parameters that are gathered at once, the persistent ones left out; nothing below stage 3.

    What is held beside the largest module depends on the order in which the modules run, of which the names tell the
    most. One rank gathers nothing: a parameter on the GPU is its own partition
    (``_no_gather_coalesced`` in deepspeed/runtime/zero/partition_parameters.py).
    """
    return _band(setup, _elements(setup)) if _gathers(setup) else NOTHING


def live_bytes(setup: TrainingSetup) -> Band:
    """The bytes of the same: quantized weights are gathered as they are packed."""
    if setup.weights is None:
        return live_parameters(setup).times(setup.width)
    return _band(setup, _bytes(setup)) if _gathers(setup) else NOTHING


def _gathers(setup: TrainingSetup) -> bool:
    return setup.stage == 3 and bool(setup.tensors) and (setup.shards > 1 or setup.parameter_offload is not None)


def _band(setup: TrainingSetup, found: _Gathered) -> Band:
    """What is gathered; of one rank, which copies what is offloaded, the trace says less."""
    likely = max(found.alone, found.in_a_step)
    least = max(found.alone, _FOLLOWED * found.in_a_step) if setup.shards > 1 else found.alone
    return Band(least, likely, max(min(found.whole, (2 - _FOLLOWED) * found.in_a_step + found.together), likely))


@remembered(*_APART)
def _elements(setup: TrainingSetup) -> _Gathered:
    return _gathered(setup, (1,) * len(setup.tensors))


@remembered(*_APART)
def _bytes(setup: TrainingSetup) -> _Gathered:
    if setup.weights is None:
        return _Gathered(*(count * setup.width for count in _elements(setup)))
    return _gathered(setup, tuple(width(setup, tensor) for tensor in setup.tensors))


def _gathered(setup: TrainingSetup, widths: tuple[int, ...]) -> _Gathered:
    """What is gathered of parameters whose elements count so much each."""
    sizes = [tensor.size for tensor in setup.tensors]
    is_persistent = persistent(setup)
    gathered = [0 if stays else size * width for size, width, stays in zip(sizes, widths, is_persistent, strict=True)]
    alone, together = _modules(setup)
    ways = [False, True] if setup.is_checkpointed is None else [setup.is_checkpointed]
    goes_back = setup.untrained is None  # without autograd, a step ends with the forward pass (``reset_step``)
    traces = [list(_trace(together, setup.tensors, is_checkpointed=check, goes_back=goes_back)) for check in ways]
    return _Gathered(
        max(_highest(sizes, widths, is_persistent, trace, setup) for trace in traces),
        max(sum(map(gathered.__getitem__, module.parameters)) for module in alone),
        max(sum(map(gathered.__getitem__, module.parameters)) for module in together),
        sum(gathered),
    )


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
    numbers = layers(tensors)
    before: tuple[int | None, str] | None = None
    for place, tensor in enumerate(tensors):
        name = tensor.name.rpartition(".")[0]
        if are_experts_one and ".experts." in f"{name}.":
            name = name.partition(".experts")[0] + ".experts"
        key = (numbers[place], name)
        if key == before:
            found[-1][0].append(place)
        else:
            found.append(([place], numbers[place]))
        before = key
    return [Module(tuple(parameters), layer) for parameters, layer in found]


def layers(tensors: Sequence[Tensor]) -> list[int | None]:
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


def _trace(
    found: Sequence[Module], tensors: Sequence[Tensor], *, is_checkpointed: bool, goes_back: bool = True
) -> Iterator[tuple[int, ...]]:
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
    for module in reversed(order if goes_back else []):
        if is_checkpointed and module.layer is not None and module.layer != last:
            yield from of_layers[module.layer]
        last = module.layer
        yield module.parameters


def _highest(
    sizes: Sequence[int],
    widths: Sequence[int],
    is_persistent: Sequence[bool],
    trace: Sequence[tuple[int, ...]],
    setup: TrainingSetup,
) -> int:
    """The most that is gathered at once if a step runs the modules of this trace, each element with its width."""
    queue = [(place, step) for step, parameters in enumerate(trace) for place in parameters]
    next_use = _next_uses(queue)
    before = [0, *accumulate(sum(map(sizes.__getitem__, parameters)) for parameters in trace)]
    fetched_for = [-1] * len(sizes)
    is_available = list(is_persistent)
    bucket, most_live, reused_within = setup.prefetch_bucket, setup.max_live_parameters, setup.max_reuse_distance
    held = weight = most = at = used = 0  # ``at`` is where the queue has come to, ``used`` the use of a parameter
    last = len(queue)
    for step, parameters in enumerate(trace):
        waiting = None
        for place in parameters:
            if not is_available[place]:
                is_available[place] = True
                held += sizes[place]
                weight += sizes[place] * widths[place]
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
                weight += sizes[place] * widths[place]
                prefetched += sizes[place]
        most = max(most, weight)
        done = before[step + 1]
        for place in parameters:
            following = next_use[used]
            used += 1
            if is_persistent[place] or not is_available[place] or fetched_for[place] > step + 1:
                continue
            if following is None or before[following] - done >= reused_within:
                is_available[place] = False
                held -= sizes[place]
                weight -= sizes[place] * widths[place]
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
