"""What the ranks of a node take of its memory with FSDP: as they load the model, between the steps, and as they save.

Sources: ``fsdp2_prepare_model`` and ``fsdp2_load_full_state_dict`` in ``accelerate/utils/fsdp_utils.py``,
``_move_missing_keys_from_meta_to_device`` in ``transformers/modeling_utils.py``, ``init_flat_param_attributes`` in
``torch/distributed/fsdp/_flat_param.py``.
"""

from __future__ import annotations

from ds_lint.footprint import host
from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.fsdp.states import most_stepped, sharded, widths
from ds_lint.footprint.placed import on_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.placed import Placed
    from ds_lint.footprint.setup import TrainingSetup

    Parts = dict[str, Placed]


def loads(setup: TrainingSetup, parts: Parts) -> Band:
    """From the start to the first step.

    Each rank loads the whole model, unless one does it for the node. FSDP 2 makes trained parameters fp32 there, on
    every rank, and a copy of the whole state dict keeps them until all units are sharded (anonymous memory of ranks on
    a CPU: 4.1 to 4.6 bytes an element, with transformers 5.24 and ``cpu_ram_efficient_loading`` or without).
    """
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    sharding, width = setup.fsdp, widths(setup)
    count, trained = setup.parameter_count, setup.trained_count
    read = setup.loaded_width or width.frozen._replace(least=0)  # 0 if the file stays mapped
    loaded = read.times(count)
    if sharding.version == 2 and sharding.is_mixed and sharding.upcasts and width.frozen.least < width.trained.likely:
        kept = width.frozen.times(count - trained).plus(width.trained.times(trained))
        loaded = Band(max(loaded.least, trained * width.trained.least), kept.likely, max(kept.most, loaded.most))
        if width.frozen.most > width.frozen.least:
            loaded = loaded._replace(least=min(loaded.least, width.frozen.least * count))
    ranks = setup.ranks_per_node
    whole = loaded.times(ranks)
    if sharding.loads_once:  # the others make empty tensors, or map the file (transformers 5), but FSDP 2 copies both
        whole = Band(loaded.least, whole.likely if sharding.version == 2 else loaded.likely, whole.most)
    begun = {name: part for name, part in parts.items() if name != "optimizer_states"}
    return host.PROCESS.times(ranks).plus(whole).at_least(on_node(begun, ranks))


def saves(setup: TrainingSetup, parts: Parts) -> Band:
    """What a checkpoint takes on the node of rank 0: gathered weights, then states, or copies of the shards."""
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    width = widths(setup)
    states = parts["optimizer_states"]
    kept = states.gpu.bytes.plus(states.host.bytes)
    if setup.fsdp.saves_whole:
        trained, frozen = setup.trained_count, setup.parameter_count - setup.trained_count
        weights = width.trained.times(trained).plus(width.frozen.times(frozen))
        share = most_stepped(sharded(setup)) or 1
        whole_states = kept.times(max(trained / share, 1))
        return Band(weights.least, max(weights.likely, whole_states.likely), weights.most + whole_states.most)
    weights = parts["parameters"].gpu.bytes
    copies = weights.plus(states.gpu.bytes).times(setup.ranks_per_node)
    return Band(0, copies.likely, 2 * copies.most)


def rounding(setup: TrainingSetup) -> Band:
    """What page-locked shards and gradients take more than they hold: torch takes the next power of two for each."""
    if setup.fsdp is None or not setup.fsdp.offloads:
        return NOTHING
    width = widths(setup)
    more = 0.0
    for one in sharded(setup):
        for elements, each in ((one.share.trained, width.trained), (one.share.frozen, width.frozen)):
            size = round(elements * each.likely)
            copies = 2 if each is width.trained else 1  # the shard, and its gradient
            more += copies * ((1 << max(0, size - 1).bit_length()) - size) if size else 0
    return Band(0, more, more) if more else exactly(0)
