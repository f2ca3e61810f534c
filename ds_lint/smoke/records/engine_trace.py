"""What one engine of the user's script did on one rank; it travels to the driver in a file."""

from __future__ import annotations

import os
import pickle
from typing import TYPE_CHECKING, Any

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.smoke.records.job import Evidence, TrainedParameter

_SEQUENCE = "sequence_parallel_size"  # the key of a config
_SUFFIX = ".engine"


class Moment(Record):
    """One phase of one optimizer step; bytes are the most at any time in it."""

    phase: str
    step: int  # from 1, the one that is being made
    seconds: float = 0.0
    gpu_bytes: int | None = None  # that tensors take
    gpu_reserved: int | None = None  # and those that torch holds for more of them
    host_bytes: int = 0  # of memory that the process takes


class Length(Record):
    """How long the whole training is, and what it keeps; None for what is not known."""

    steps: int | None = None
    steps_of_epoch: int | None = None
    saves: str = "no"  # "steps" or "epoch": when checkpoints are written
    save_steps: float = 0
    kept_checkpoints: int | None = None  # None: all of them


class Communicated(Record):
    """The collectives of one step on one rank."""

    step: int  # from 1
    whole: float  # seconds in which at least one of them is on its way
    seconds: dict[str, float]  # by kind: "all_reduce"; those that overlap count each


class Measured(Record):
    """The time and the memory of one engine on one rank."""

    moments: list[Moment] = field(factory=list)
    is_host_sampled: bool = False  # the kernel does not reset its peaks: host memory is that between phases
    tokens: list[int] = field(factory=list)  # of each step, with padding
    nvme_bytes: int = 0
    communicated: Communicated | None = None  # only if a profile is requested
    length: Length | None = None

    def moment(self, phase: str, step: int) -> Moment:
        """That of a phase, which may come several times in a step."""
        found = next((one for one in reversed(self.moments) if (one.phase, one.step) == (phase, step)), None)
        if found is None:
            self.moments.append(found := Moment(phase, step))
        return found


class EngineTrace(Record):
    """An engine on one rank, in one start of the command."""

    number: int  # in the order in which the script makes them, from 1
    evidence: Evidence
    stack: Stack
    world_size: int
    data_parallel: int  # ranks with samples of their own
    multiplied_by: int  # ranks that DeepSpeed counts in the batch sizes; with tensor parallelism they may be more
    mode: str
    model_class: str  # "transformers.models.llama.modeling_llama.LlamaForCausalLM"
    config: JsonObject | None = None  # as DeepSpeed gets it
    config_path: str | None = None  # the file that DeepSpeed itself reads
    arguments: dict[str, Any] = field(factory=dict)  # TrainingArguments that differ from their defaults
    optimizer: str = ""  # the class that makes the steps
    scheduler: str = ""  # the class that sets its learning rates
    is_refused: bool = False  # DeepSpeed raises instead of making it
    is_trained: bool = False  # it has made a step
    is_pipeline: bool = False
    sequence_parallel: int = 1  # ranks that share the sequences of a batch
    batches: list[list[str]] = field(factory=list)  # digests of the inputs of each micro step, by step
    rows: list[int] = field(factory=list)  # of the first tensor of each forward pass up to the first step
    micro_steps: list[int] = field(factory=list)  # backward passes of each step
    lacks_backward: bool = False  # before the first step, none came to DeepSpeed
    changes_gradients: bool = False  # the script does so itself, between backward pass and step
    last_micro_steps: list[int] = field(factory=list)  # those of them that DeepSpeed takes for the last one
    replayed: Replayed | None = None
    parts: list[TrainedParameter] = field(factory=list)  # what this rank has of each parameter
    has_adapters: bool = False
    has_checkpoint: bool = False
    versions: dict[str, str] = field(factory=dict)  # of the libraries that are imported
    adapter_names: dict[str, str] | None = field(factory=dict)  # as in ``lora.names_in_file``
    saves_itself: bool = False  # the script has a Trainer that saves a model in its own way
    not_saved: str | None = None  # why no model was saved
    own_rates: str | None = None  # why the learning rates are those of the script and not of the config
    no_room: str | None = None  # why nothing at all was saved
    measured: Measured = field(factory=Measured)

    @property
    def counted_ranks(self) -> int:
        """Those that the batch sizes count, before a size in the config divides them (``data_parallel_size``)."""
        return self.world_size if _SEQUENCE in (self.config or {}) else self.multiplied_by


class Replayed(Record):
    """The steps after the checkpoint, as they were made first and as the second start repeats them."""

    restored: dict[str, str] = field(factory=dict)  # of each tensor of the rank at the checkpoint
    outputs: list[str] = field(factory=list)  # of each forward pass
    norms: list[list[float]] = field(factory=list)  # of each tensor that a forward pass returns
    losses: list[float] = field(factory=list)
    rates: list[list[float]] = field(factory=list)
    passes: list[int] = field(factory=list)  # forward passes up to each step
    settings: list[dict[str, str]] = field(factory=list)  # of the model, before each step
    last: dict[str, str] = field(factory=dict)  # of each tensor of the rank after the last step
    has_own_loss: bool = False  # the script computes the loss outside the model
    has_other_shapes: bool = False  # the script itself has inputs of other shapes than the repeated ones
    unrecorded: str = ""  # what could not be recorded, so that the steps are not the same


def write(trace: EngineTrace, folder: str) -> None:
    """Write the trace of an engine; a reader never sees half of it."""
    path = os.path.join(folder, f"{trace.evidence.rank}-{trace.number}{_SUFFIX}")
    with open(f"{path}.new", "wb") as file:
        pickle.dump(trace, file)
    os.replace(f"{path}.new", path)


def read_all(folder: str) -> dict[int, list[EngineTrace]]:
    """The engines of a start by their number, each with its ranks in order."""
    found: dict[int, list[EngineTrace]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(_SUFFIX):
            with open(os.path.join(folder, name), "rb") as file:
                one: EngineTrace = pickle.load(file)  # noqa: S301 - our own probe has written it
            found.setdefault(one.number, []).append(one)
    for ranks in found.values():
        ranks.sort(key=lambda one: one.evidence.rank)
    return dict(sorted(found.items()))
