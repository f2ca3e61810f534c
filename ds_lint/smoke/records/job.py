"""The job of a rank and its evidence; both travel between processes, so they are plain records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.diagnostics.verdict import CPU, Held, Step
from ds_lint.record import Record, field
from ds_lint.smoke.records.small_model import TINY, Sizes

if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.smoke.records.fsdp import FsdpEvidence, FsdpJob, FsdpSaved

    TrainingFields = dict[str, Any]  # fields of TrainingArguments, each of its own type
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.smoke.records.accelerate_script import AccelerateScript
    from ds_lint.smoke.records.rendezvous import Rendezvous

ADAMW, CPU_ADAM = "torch.optim.AdamW", "DeepSpeedCPUAdam"  # what stands for the optimizer of a script
RATE = 1e-3  # with which it learns
TRAIN, RESUME, EXPORT, GENERATE = "train", "resume", "export", "generate"  # the parts of a run
RECORDINGS = "recordings"  # the folder with what a reference run repeats
REFERENCE = "reference"  # the same steps again, in one process of plain torch
SHARED = (TRAIN, RESUME, GENERATE)  # the parts that take all ranks
WORLD = "world"  # and the one beside them: an engine of the user's real number of ranks
GENERATING, GENERATED = "generate", "generated"  # the phases in which a rank generates, and waits for the others
SCALING = "scale the loss"  # the phase in which ds-lint makes overflows
SWAPPABLE = 2**20  # bytes from which a tensor goes to NVMe: deepspeed/runtime/swap_tensor/utils.py
FP32 = 4  # bytes of an element
FAKE_GROUP = "torch.testing._internal.distributed.fake_pg"  # private: a release of torch may not have it


class Removed:
    """Marks a removed key in an edit."""


class ConfigEdit(NamedTuple):
    """A change of the config before the library gets it: a value at a key path, or a removed key."""

    path: tuple[str, ...]
    value: Any


FUSED = "Fused"  # how optimizers are named whose kernels take ``--use_fast_math`` (op_builder/fused_adam.py)


class UpdateRule(NamedTuple):
    """The arithmetic of an optimizer, as documented, with the hyperparameters that a config asks for."""

    name: str  # as the config writes it
    kind: str  # "adam", "lion", "adagrad" or "sgd"
    decay: float = 0.0
    betas: tuple[float, float] = (0.0, 0.0)
    epsilon: float = 0.0
    momentum: float = 0.0
    dampening: float = 0.0
    is_nesterov: bool = False
    is_decoupled: bool = False  # the weight decay, from the gradient
    corrects_bias: bool = True
    is_fast: bool = False  # computed by a kernel that is compiled with ``--use_fast_math``


class ReferencePlan(NamedTuple):
    """What a reference run needs to know of the config: nothing of it comes from the engine that it checks."""

    rule: UpdateRule | None  # None: the fp32 weights of a step are taken for right
    clipping: float  # the norm to which gradients are clipped; 0 for none
    unit_roundoff: float  # of the coarsest dtype that gradients are added up in
    smallest: float  # number above zero of that dtype
    dtype: str = "float32"  # of the weights that the ranks compute with
    micro_batch: int = 0  # samples of a micro step; 0: unknown
    windows: int = 1  # micro steps of a step
    buffer_dtype: str | None = None  # to which the engine casts floating buffers; None: they stay as they are built
    keeps_fp32: tuple[str, ...] | None = None  # patterns of buffers in fp32; empty: those of the model; None: no rule
    is_partitioned: bool = False  # by ``zero.Init``, while transformers builds the model
    decays_some: bool = False  # the Trainer's own optimizer, whose weight decay is not for all parameters
    updates_all: bool = True  # in memory: neither a second optimizer nor NVMe has a part of the weights
    uncompared: str | None = None  # what of the config gives the optimizer other gradients than those of the model
    repeats_buffers: bool = True  # to the last bit: they are computed on a CPU
    repeats_passes: bool = True  # bit for bit: the run does the operations of plain torch in the same order
    rounds_factors: bool = False  # matrices in fp32 are multiplied in TF32
    replaces_linear: bool = False  # ZeRO-3 multiplies the matrices of linear layers in an order of its own
    may_start_with_zeros: bool = False  # a first step with zero gradients, before those of the run
    rate: float = 0.0  # of that step, before a scheduler sets another one


class Job(Record):
    """One part of a run, the same for each of its ranks; ``folder`` is where all of it may write."""

    text: str  # the config as it is written
    stack: Stack
    folder: str
    is_dict: bool = False  # the stack gets a dict, and reads no text
    model: JsonObject | None = None  # the user's config.json; None: a tiny Llama
    sizes: Sizes = TINY
    has_adapters: bool = False  # of LoRA: they are trained, and the model itself is frozen
    has_other_weights: bool = False  # before a checkpoint is loaded, so that it has to bring back the frozen ones
    world_size: int = 2
    mode: str = CPU
    part: str = TRAIN
    edits: list[ConfigEdit] = field(factory=list)
    training: TrainingFields = field(factory=dict)
    steps: int = 3  # optimizer steps up to the checkpoint
    steps_after: int = 2  # and after it, which a resumed run repeats
    builds_ops: bool = False
    optimizer: str | None = None  # one of the script's optimizers below, where the config has none
    script: AccelerateScript | None = None  # of the accelerate stack
    seconds: float = 300.0  # after which the ranks are ended
    stage: int = 0  # of ZeRO, as the engine of the small model had it
    dtype: str = "float32"  # of its weights
    accumulates_apart: bool = False  # its gradients, in another dtype
    ranks_of_node: int | None = None  # None: all of them are on one
    shared_gpu: str | None = None  # what carries the collectives of ranks that share one GPU: "gloo" or "nccl"
    gpus: tuple[str, ...] = ()  # as CUDA_VISIBLE_DEVICES names them; empty: those that a launcher has chosen
    memory: int | None = None  # bytes that a rank may take for the user's own model; None: for a small one alone
    makes_states: bool = False  # of the optimizer, though no step is made
    plan: ReferencePlan | None = None  # of a reference run
    overflows: list[bool] = field(factory=list)  # of the steps after those of the training, in which ds-lint makes them
    decays_apart: bool = False  # the Trainer's optimizer has a group of parameters without weight decay
    seat: Rendezvous | None = None  # of the one rank that is made here, where a launcher started all of them
    fsdp: FsdpJob | None = None  # None: DeepSpeed trains


def keeps_frozen(stack: Stack | None, *, has_adapters: bool) -> bool:
    """Whether the checkpoint has the frozen weights: the Trainer leaves out those of a model with adapters.

    Source: ``_save_optimizer_and_scheduler`` in transformers/trainer.py.
    """
    return not (has_adapters and stack == "trainer")


class Raised(Record):
    """An exception of a library: its class and text, the phase, and the innermost place within a library.

    ``cause`` is set if the machine or another rank is the cause, see ``ds_lint.smoke.records.cause``.
    """

    kind: str
    text: str
    phase: str
    where: str = ""
    cause: str | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" if self.text else self.kind


class TrainedParameter(Record):
    """A parameter of the model before DeepSpeed changed it; ``group`` is its parameter group in the optimizer."""

    name: str
    elements: int
    group: int = 0
    is_trainable: bool = True
    expert_ranks: int = 0  # of an expert of deepspeed.moe: the ranks that divide the experts of its layer
    decay: float | None = None  # the weight decay that the script gives its group, if it gives one


class FullSize(Record):
    """The user's own model in an engine of the real number of ranks, if the share of a rank fits into memory."""

    parameters: list[TrainedParameter]
    needed_bytes: int
    is_built: bool


class Engine(Record):
    """The settings of the engine on one rank, and the tensors that it holds."""

    stage: int
    train_batch_size: int
    micro_batch_size: int
    accumulation_steps: int
    clipping: float
    zero_optimizer: str  # the class
    communication_dtype: str
    offloads_optimizer: str | None  # "cpu", "nvme", or None: the masters and states stay with the parameters
    offloads_parameters: str | None
    is_pinned: bool | None


class UnknownStorage(Record):
    """A live storage that belongs to nothing known; ``holder`` is the attribute or closure that keeps it alive."""

    bytes: int
    dtype: str
    shape: list[int]
    holder: str | None


class Evidence(Record):
    """The evidence of one rank, up to the point where it stopped."""

    rank: int
    phase: str = "start"
    raised: Raised | None = None
    model: str = ""  # in words
    parameters: list[TrainedParameter] = field(factory=list)
    engine: Engine | None = None
    steps: list[Step] = field(factory=list)
    samples: list[list[int]] = field(factory=list)  # of each forward pass, by step
    scalings: list[tuple[float, float]] = field(factory=list)  # of each loss: by what it was, and should be
    copies: list[str] = field(factory=list)  # parameters that every rank of a script has whole
    stale: list[str] = field(factory=list)  # of a script: live weights that are not the fp32 ones, rounded
    changed_in_evaluation: list[str] = field(factory=list)  # weights and states of an engine of a script
    scales: list[float] = field(factory=list)  # of the loss, after each step in which ds-lint makes the overflows
    stopped: str | None = None  # what these steps raise
    made_anyway: list[int] = field(factory=list)  # those that are made though a gradient overflows, or skipped without
    divisions: list[float] = field(factory=list)  # without a loss scale: that factor times the micro steps
    # Of the gradients that the optimizer was given, by step that was made: the rank's share of the squared norm.
    squared_norms: list[float] = field(factory=list)
    held: dict[str, Held] = field(factory=dict)  # after the steps
    held_in_window: Held | None = None  # gradients before the last micro step of an accumulation window
    unknown_in_window: Held | None = None  # storages that belong to nothing known, between two micro steps
    storages_in_window: list[UnknownStorage] = field(factory=list)  # the largest of them
    persistent_elements: int = 0
    frozen: list[str] = field(factory=list)  # parameters that are not trained, as far as they are in memory
    moved: list[str] = field(factory=list)  # those of them that the steps have changed
    moved_in_step: list[str] = field(factory=list)  # and those that the first call of ``engine.step`` has
    tied: list[list[str]] = field(factory=list)  # names of parameters that are one, before DeepSpeed
    tied_after: list[list[str]] = field(factory=list)  # and at the checkpoint
    secondary_elements: int = 0  # of the secondary partitions of hpZ, after a backward pass
    saved_buffers: list[str] = field(factory=list)  # that belong to the saved model, before DeepSpeed changed it
    model_buffers: int = 0  # elements of the model's own buffers, before DeepSpeed changed it
    storages: dict[str, Held] = field(factory=dict)  # every live storage after the steps, by what it belongs to
    unknown_storages: list[UnknownStorage] = field(factory=list)  # the largest of those that belong to nothing known
    dtypes: dict[str, list[str]] = field(factory=dict)  # by kind of thing held
    devices: dict[str, list[str]] = field(factory=dict)
    layers: list[str] | None = None  # that ran in the first forward pass
    recomputed: dict[str, str] = field(factory=dict)  # of them, those that ran again in backward; by whom
    swapped_bytes: int = 0
    fingerprint: dict[str, str] = field(factory=dict)  # of every tensor that the rank holds, at the checkpoint
    live: dict[str, str] = field(factory=dict)  # of the whole weights at the checkpoint, rank 0
    trained: dict[str, str] = field(factory=dict)  # of those that the checkpoint has to bring back, rank 0
    uncompared: str | None = None  # why there are no digests of the whole weights
    unread: list[str] = field(factory=list)  # dotted key paths that nothing read
    stand_ins: list[str] = field(factory=list)  # ops that were not compiled
    save_refusal: str | None = None  # what Accelerate raises if the weights are collected
    exported: Exported | None = None
    can_generate: bool = False  # the model
    generated: Generated | None = None
    real_shapes: list[int] | None = None  # elements of the parameters of the user's own model
    full_size: FullSize | None = None  # None: no model is given, or a small one is requested
    lacks_fake_group: bool = False  # this torch cannot pretend that other ranks are there
    peak_bytes: int = 0
    seconds: dict[str, float] = field(factory=dict)  # by phase
    reference: Reference | None = None
    fsdp: FsdpEvidence | None = None  # None: DeepSpeed trains
    fsdp_saved: FsdpSaved | None = None  # the same, of the part that reads the files


class Generated(Record):
    """The tokens that a rank generated with the weights of ZeRO-3, and those of the whole model."""

    tokens: list[int] | None = None
    expected: list[int] | None = None
    unable: str | None = None  # why the whole model cannot generate


class Exported(Record):
    """What a new process found in the saved files; fingerprints by name of the tensor."""

    files: list[str] = field(factory=list)
    stored: dict[str, str] = field(factory=dict)  # the tensors of the weights files
    tied: list[list[str]] = field(factory=list)  # names of parameters that are one in the loaded model
    loaded: dict[str, str] | None = None  # None: from_pretrained raised
    load_error: str | None = None
    empty: list[str] = field(factory=list)  # tensors of the weights file without elements
    missing: list[str] = field(factory=list)  # weights that from_pretrained made up
    recovered: dict[str, list[str]] | None = None  # by zero_to_fp32: as they are, and rounded to 16 bits
    recovery_error: str | None = None


class Deviation(Record):
    """Where a run differs most from its reference, in the first step in which it does."""

    step: int  # from 1
    elements: int  # that differ
    parameter: str
    expected: float  # of one element of it
    observed: float
    tolerance: float
    ratio: float | None = None  # by which all of them are larger, if it is one number
    words: str = ""  # what explains it
    is_event: bool = False  # the words say what happens in the step, and no element is compared


class Reference(Record):
    """What the reference run found; None for each thing that is as it should be."""

    steps: int = 0  # that were compared
    made: int = 0  # of them, those that were not skipped
    largest: dict[str, float] = field(factory=dict)  # difference as a share of its tolerance, by check
    samples: str | None = None  # what is wrong with the samples, in words
    unseen: str | None = None  # what of the config stops the comparison of gradients
    begin: str | None = None  # what is wrong before the first step, in words
    starts_with_zeros: bool = False  # a step with zero gradients came before the first
    averaging: Deviation | None = None
    update: Deviation | None = None
    weights: Deviation | None = None
