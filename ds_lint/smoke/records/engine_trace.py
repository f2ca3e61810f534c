"""What one engine of the user's script did on one rank; it travels to the driver in a file."""

from __future__ import annotations

import os
import pickle
import struct
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.smoke.records.fsdp_trace import FsdpTrace
    from ds_lint.smoke.records.job import Evidence, TrainedParameter

_SEQUENCE = "sequence_parallel_size"  # the key of a config
_SUFFIX = ".engine"
INFERENCE = "deepspeed.init_inference"
PASSES = "=QQ"  # forward passes that have begun and ended, in a file
# Why learning rates are those of the script.
SETS_RATES = "the script sets the learning rates itself"
GOES_ON = "the script goes on from a checkpoint of its own"


class Loaded(NamedTuple):
    """Where the script has a parameter from."""

    source: str  # in words: "from_pretrained('model')"
    folder: str = ""  # with the files; empty if they are elsewhere
    model_class: str = ""  # that has loaded them
    name: str = ""  # of the parameter in that model
    dtype: str = ""  # of it there
    is_missing: bool = False  # what is loaded into its model has nothing for it
    digests: list[str] | None = None  # of a dict of tensors, in each dtype; empty of too many


class Evaluated(Record):
    """What one rank shows of an engine that makes no step."""

    kind: str = "deepspeed.initialize"  # the function that has made the engine
    begun: int = 0  # forward passes of the model
    ended: int = 0
    given: dict[str, str] = field(factory=dict)  # digests of the parameters before DeepSpeed gets them, if it is known
    loaded: dict[str, Loaded] = field(factory=dict)  # the source of each parameter, before the first pass
    shape: dict[str, int] = field(factory=dict)  # elements of each parameter on this rank
    dtypes: list[str] = field(factory=list)  # of the parameters
    dtype: str = ""  # that ``init_inference`` is asked for
    tensor_parallel: int = 1  # ranks that it divides tensors among
    was_peft: bool = False


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
    divided_again: list[int] = field(factory=list)  # for each micro step, how often its loss is divided beyond once
    in_evaluation: list[int] = field(factory=list)  # steps, from 1, whose forward passes are in evaluation mode
    idle: list[str] = field(factory=list)  # what does nothing in that mode
    is_coverage_known: bool = False  # which parameters get gradients up to the checkpoint
    without_gradient: list[str] = field(factory=list)  # parameters of the optimizer that get none
    frozen_later: list[str] = field(factory=list)  # those of them that the script has frozen
    cut_off: list[str] = field(factory=list)  # and those that compute where gradients are off
    changed_anyway: list[str] = field(factory=list)  # and those that the steps change
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
    evaluated: Evaluated | None = None  # until it is trained
    no_room: str | None = None  # why nothing at all was saved
    measured: Measured = field(factory=Measured)
    fsdp: FsdpTrace | None = None  # of a model that FSDP of torch shards, and no engine of DeepSpeed

    @property
    def is_inference(self) -> bool:
        """Whether ``deepspeed.init_inference`` has made it, which reads another config."""
        return self.evaluated is not None and self.evaluated.kind == INFERENCE

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
    not_loaded: str = ""  # what raises as ds-lint itself loads the checkpoint, by a library that the script may not use
    unrecorded: str = ""  # what could not be recorded, so that the steps are not the same


def write(trace: EngineTrace, folder: str) -> None:
    """Write the trace of an engine; a reader never sees half of it."""
    path = os.path.join(folder, f"{trace.evidence.rank}-{trace.number}{_SUFFIX}")
    with open(f"{path}.new", "wb") as file:
        pickle.dump(trace, file)
    os.replace(f"{path}.new", path)


def path_of_passes(folder: str, rank: int, number: int) -> str:
    """The file in which a rank counts the forward passes of an engine."""
    return os.path.join(folder, f"{rank}-{number}.passes")


def _passes(path: str) -> tuple[int, int]:
    """The forward passes that have begun and ended."""
    if not os.path.exists(path):
        return 0, 0
    with open(path, "rb") as file:
        content = file.read()
    begun, ended = struct.unpack(PASSES, content) if content else (0, 0)
    return begun, ended


def read_all(folder: str) -> dict[int, list[EngineTrace]]:
    """The engines of a start by their number, each with its ranks in order."""
    found: dict[int, list[EngineTrace]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.endswith(_SUFFIX):
            with open(os.path.join(folder, name), "rb") as file:
                one: EngineTrace = pickle.load(file)  # noqa: S301 - our own probe has written it
            if one.evaluated is not None:
                one.evaluated.begun, one.evaluated.ended = _passes(
                    path_of_passes(folder, one.evidence.rank, one.number)
                )
            found.setdefault(one.number, []).append(one)
    for ranks in found.values():
        ranks.sort(key=lambda one: one.evidence.rank)
    return dict(sorted(found.items()))
