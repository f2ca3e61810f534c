"""What one model that a script shards with FSDP of torch did on one rank; a part of its ``EngineTrace``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ds_lint.diagnostics.verdict import WITHOUT_CONFIG
from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import RunStack
    from ds_lint.diagnostics.verdict import Held
    from ds_lint.smoke.records.fsdp import FsdpHolding

TORCH: Final = WITHOUT_CONFIG  # the stack of a script that wraps its model itself

BY_TORCH: Final = "torch.distributed.checkpoint"  # what saves and loads where no framework does


class WrapCall(Record):
    """A call that makes a unit: ``fully_shard``, or ``FullyShardedDataParallel`` for one module.

    The arguments are noted before FSDP sees them; dtypes are names such as ``bfloat16``, None where none is asked for.
    """

    version: str  # FSDP1 or FSDP2
    name: str = ""  # of the module in the model, "" for the model itself
    shard_ranks: int = 1  # that divide the parameters among them
    compute: str | None = None
    reduce: str | None = None
    buffers: str | None = None
    offloads: bool = False
    policy: str = ""  # of FSDP 1: how it is asked to wrap modules inside
    line: int = 0  # of the script


class SeenClip(Record):
    """A call that clips gradients by their norm, between the backward pass and the step."""

    most: float
    norm: float  # that it returns
    kind: float = 2.0  # of norm


class FsdpTrace(Record):
    """One model on one rank."""

    version: str
    stack: RunStack  # TORCH, "accelerate" or "trainer"
    script: str = ""  # the file that wraps the model, or else the main script
    line: int = 0  # of the call that wraps the whole of it, or the first part
    calls: list[WrapCall] = field(factory=list)
    shapes: dict[str, tuple[int, ...]] = field(factory=dict)  # of the parameters before, as far as they were seen
    holding: FsdpHolding | None = None  # between steps, at the checkpoint
    gradients: int | None = None  # elements with which the optimizer steps
    states: dict[str, int] = field(factory=dict)  # elements by name
    held: dict[str, Held] = field(factory=dict)
    optimizers: list[str] = field(factory=list)  # classes, of those that step on a part of the model
    makes_states: bool = True  # ... for each element that is trained: no 8-bit states, no factors
    foreign: int = 0  # elements that the optimizer updates and that are not of the model
    unheld: list[str] = field(factory=list)  # parameters that are trained, and that no optimizer of the steps has
    changed: bool | None = None  # whether the steps have changed a weight of this rank
    unsharded: int = 0  # elements of units that stay gathered between steps
    keeps_gathered: bool = False  # because the script asks for that
    compute_dtypes: list[str] = field(factory=list)  # of the weights that linear layers compute with
    reduced_dtypes: list[str] = field(factory=list)  # in which gradients travel
    buffer_dtypes: list[str] = field(factory=list)  # of floating-point buffers in a forward pass
    autocasts: bool = False  # a forward pass runs within torch.autocast
    checkpointed: list[str] = field(factory=list)  # modules that are set up to recompute their activations
    ran: list[str] = field(factory=list)  # of them, those that run in the forward pass
    recomputed: list[str] = field(factory=list)  # and again in the backward pass
    layers: list[str] = field(factory=list)  # that run in the forward pass
    layers_again: list[str] = field(factory=list)  # and in the backward pass
    recomputation: str = ""  # the setting that asks for it; empty if only modules do
    keeps_gradients: bool = False  # a step begins with those of the step before
    divisors: list[float] = field(factory=list)  # that the script sets for gradients
    hooks: str = ""  # what of the script changes gradients on their way: a hook of the communication
    clips: list[SeenClip] = field(factory=list)  # of the sampled step
    is_by_columns: bool = False  # some parameters are sharded along another dimension than the first
    shards_left_out: str = ""  # why the shards were not written
    state_dict_type: str = ""  # of the plugin of Accelerate
    wrapped: dict[str, list[float]] = field(factory=dict)  # samples of the weights as this rank wraps them
    begun: dict[str, list[float]] = field(factory=dict)  # and as it computes with them first
    checkpoint_by: str = ""  # what saves and loads
    not_checkpointed: str | None = None  # what it raises
    export_by: str = ""  # what collects the model, or saves it
