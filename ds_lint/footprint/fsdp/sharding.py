"""How FSDP shards a run, in the terms of both versions, as an estimate needs it."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.band import Band

LAYERS, SIZE, ALONE = "TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"


class FsdpSharding(NamedTuple):
    """What the settings of FSDP decide; ``loaded_width`` are the bytes of an element as the model is loaded."""

    version: int
    loaded_width: Band
    shards: int | None = None  # ranks that divide each unit; None: all
    by_node: bool = False  # the ranks of a node divide a unit (the hybrid strategies of FSDP 1)
    reshards: bool = True  # whole parameters are freed between the forward and the backward pass
    policy: str = LAYERS  # by which modules become units
    layer_classes: tuple[str, ...] = ()  # that are units; none: those that the model names
    least: int = 0  # elements of a unit, if the policy is by size
    keeps_original: bool = True  # the optimizer gets the parameters, and not the flat ones (``use_orig_params``)
    offloads: bool = False  # shards, gradients and states lie on the host
    loads_once: bool = False  # only the first rank of a node reads the weights (``cpu_ram_efficient_loading``)
    is_mixed: bool = True  # parameters are cast to 16 bit for each pass
    upcasts: bool = True  # trained parameters are kept in fp32 then
    prefetches: bool = False  # FSDP 1 gathers the next unit of the backward pass early (``backward_prefetch``)
    prefetches_forward: bool = False
    adapters_alone: bool = False  # each adapter is a unit, as the Trainer arranges with peft
    saves_whole: bool = False  # rank 0 gathers the weights for a checkpoint (FULL_STATE_DICT)
    offloads_checkpoints: bool = False  # inputs of checkpointed layers go to the host
    syncs_each_batch: bool = False  # gradients are sharded after each micro batch, not at the last one only
    strategy: str = "FULL_SHARD"  # in words

    def ranks(self, ranks: int, on_node: int) -> int:
        """The ranks that divide each unit, of so many in all and on a node."""
        if self.by_node:
            return min(ranks, on_node)
        return ranks if self.shards is None else max(1, min(self.shards, ranks))
