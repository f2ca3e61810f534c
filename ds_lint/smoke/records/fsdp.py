"""What one rank holds of a model that FSDP shards, as plain records that travel between processes."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.diagnostics.verdict import Held
from ds_lint.record import Record, field

FSDP1, FSDP2 = "fsdp1", "fsdp2"  # FullyShardedDataParallel, and fully_shard
WRAPPERS = ("_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod")  # in names of modules and parameters


class ParameterShard(NamedTuple):
    """The part of one parameter that is on this rank: a run of its elements, row by row."""

    name: str  # as in the model without wrappers
    shape: tuple[int, ...]  # of the whole parameter
    start: int  # element of the whole parameter with which the part begins
    elements: int  # of the part; 0 if the rank has none
    dtype: str
    device: str
    is_trained: bool = True


class FsdpUnit(NamedTuple):
    """Parameters that are gathered and freed together: the flat parameter of FSDP 1, a parameter group of FSDP 2."""

    modules: tuple[str, ...]  # "" is the model itself
    ranks: int  # that divide the parameters among them
    place: int  # of this rank among those
    copies: int  # groups of ranks that hold the same; 1 unless the strategy is hybrid
    stored: int  # elements of the tensors that keep the shards, with what pads them
    shards: tuple[ParameterShard, ...]
    compute_dtype: str | None  # None: that of the parameters
    reduce_dtype: str | None  # None: that of the gradients
    keeps_original: bool = True  # the optimizer gets the parameters, and not the flat one
    reshards: bool | None = None  # after the forward pass; None if that is not known
    offloads: bool = False  # the shards are on the CPU between the steps

    @property
    def elements(self) -> int:
        """The elements of parameters on this rank, without what pads them."""
        return sum(one.elements for one in self.shards)


class FsdpHolding(NamedTuple):
    """A model on one rank."""

    version: str  # FSDP1 or FSDP2
    units: tuple[FsdpUnit, ...]
    outside: tuple[ParameterShard, ...]  # parameters that no unit has: whole on each rank
    buffers: tuple[tuple[str, str], ...]  # name and dtype of each

    @property
    def shards(self) -> list[ParameterShard]:
        """The parts of all parameters of units."""
        return [shard for unit in self.units for shard in unit.shards]

    @property
    def stored(self) -> int:
        """Elements of the tensors that keep parameters."""
        return sum(unit.stored for unit in self.units) + sum(one.elements for one in self.outside)


class ShardPiece(NamedTuple):
    """The part of a parameter on a rank; all in elements."""

    begin: int  # in the tensor that the rank keeps: the flat one of FSDP 1, that of the parameter for FSDP 2
    start: int  # in the whole parameter
    elements: int


class UnitShare(NamedTuple):
    """What a rank keeps of a unit."""

    stored: int  # elements, with what pads them
    pieces: list[ShardPiece]  # of each parameter, in their order

    @property
    def elements(self) -> int:
        """The elements of parameters."""
        return sum(one.elements for one in self.pieces)


def plain_name(name: str) -> str:
    """The name of a module or parameter as in the model without wrappers."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


class FsdpJob(Record):
    """What the parts of a run with FSDP need, beside the text: what the settings ask for, as they are written."""

    version: str
    launch: tuple[str, ...] = ()  # arguments of ``accelerate launch`` that the run adds to those of the file
    compute_dtype: str | None = None  # None: that of the model, which is float32
    casts_buffers: bool = False
    autocasts: bool = False
    keeps_original: bool = True
    shard_ranks: int = 2
    ranks_of_node: int = 2  # as the hybrid strategies of FSDP 1 are to see them
    batch_size: int = 2  # samples of a micro step
    accumulation_steps: int = 2
    rate: float = 1e-3
    weight_decay: float = 0.01
    clipping: float = 0.1  # far below the norms of the small model, so that every step clips on any number of ranks
    syncs: bool = False  # rank 0 sends its weights to the others, which begin with other ones
    policy: str = ""  # as the file writes it; "" for none
    layers: tuple[str, ...] = ()  # classes of the policy by layer
    least_elements: int = 0  # of the policy by size


class FsdpEvidence(Record):
    """The evidence of one rank about what FSDP made of its model."""

    holding: FsdpHolding | None = None  # after the steps before the checkpoint
    gradients: Held = Held(0, 0)
    states: dict[str, Held] = field(factory=dict)
    foreign: int = 0  # elements that the optimizer updates and the model does not have
    wanted: list[str] = field(factory=list)  # modules that the policy makes units, of the model as it is built
    whole_after_forward: list[str] = field(factory=list)  # parameters that are whole after the first forward pass
    computed: list[str] = field(factory=list)  # dtypes of the weights in the forward pass
    reduced: list[str] = field(factory=list)  # dtypes that gradients are reduced in
    arguments: list[str] = field(factory=list)  # of the launch, that accelerate has read
    variables: list[str] = field(factory=list)  # and those of the environment


class FsdpSaved(Record):
    """What a new process found in the checkpoint, beside the weights that it has to hold; digests by name."""

    trained: dict[str, str] = field(factory=dict)  # assembled from the shards of all ranks
    incomplete: list[str] = field(factory=list)  # parameters of which not all elements are on some rank
    files: list[str] = field(factory=list)  # of the checkpoint
    kept: dict[str, str] | None = None  # in the checkpoint; None: it cannot be read
    error: str | None = None  # of reading it
