"""What an estimate needs of a config and its facts, in numbers.

Everything in ``ds_lint/footprint`` reads a ``TrainingSetup`` and not the config, so that a change to the config is one
``_replace``: ``advice`` and ``sweep`` compare setups, and ``init --fit`` looks for one.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts import alignment, lora_requests, own_arguments, packed_weights
from ds_lint.facts.lora import ALL_LINEAR
from ds_lint.facts.model import BYTES
from ds_lint.footprint import (
    attention,
    divided,
    doubts,
    handed,
    kernels,
    loading,
    packed,
    parallelism,
    partitioned,
    preference,
    untrained,
)
from ds_lint.footprint.activations import AdaptedLayers
from ds_lint.footprint.divided import ModelPart
from ds_lint.footprint.experts import is_of_experts
from ds_lint.footprint.fsdp import settings as fsdp_settings
from ds_lint.footprint.kernels import Kernels
from ds_lint.footprint.parallelism import Degrees
from ds_lint.footprint.remembered import by_tensors
from ds_lint.frameworks.record import ALL
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.batch import BATCH_SIZES, MICRO, completed
from ds_lint.semantics.features import (
    DTYPE_NAMES,
    adapter_argument,
    is_truthy,
    may_checkpoint_itself,
    recomputation_argument,
)
from ds_lint.semantics.preparation import prepare
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts import Facts
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.fsdp.sharding import FsdpSharding
    from ds_lint.footprint.preference import FurtherModel
    from ds_lint.footprint.untrained import Untrained
    from ds_lint.frameworks.record import PackedWeights
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.semantics.config import Config

_ZERO = "zero_optimization"
_INT8 = 8  # bits
_ENDLESS = 2.0**62  # more than any count is
_CHECKPOINTING = (
    "activation_checkpointing",
    "gradient_checkpointing",
)  # training arguments, of newer releases and older
_DTYPE_OF = {"fp16": "fp16", "bf16": "bf16", "bfloat16": "bf16"}
_ARGUMENTS = {MICRO: "per_device_train_batch_size"}  # where the Trainer has another name for a batch size
_TRAINERS_OWN = "adamw_torch"  # without ``optim``, in every release; newer ones take its fused form where there is one
_GATHERS = ("stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save")
WIDTHS = {"bf16": 2, "fp16": 2, "fp32": 4}  # bytes of an element
_NUMBERS = {  # of ``zero_optimization``, by their names in a setup, which has what counts where a release has none
    "persistence_threshold": "stage3_param_persistence_threshold",
    "persistence_total": "stage3_model_persistence_threshold",
    "reduce_bucket": "reduce_bucket_size",
    "prefetch_bucket": "stage3_prefetch_bucket_size",
    "max_live_parameters": "stage3_max_live_parameters",
    "max_reuse_distance": "stage3_max_reuse_distance",
    "sub_group": "sub_group_size",
    "hpz": "zero_hpz_partition_size",
}
_LENGTHS_OF_TRL = ("max_length", "max_seq_length")  # the newer name and the older one
_PINNED_BY = "DS_PIN_MEMORY_BACKEND"  # deepspeed/utils/pin_memory.py
_SHM_OFF = "NCCL_SHM_DISABLE"
_SWITCHES = {
    "contiguous_gradients": "contiguous_gradients",
    "is_round_robin": "round_robin_gradients",
    "aligns_parameters": "parameter_alignment",
}


class Offload(NamedTuple):
    """Where ``offload_optimizer`` or ``offload_param`` moves states to."""

    device: str  # cpu or nvme
    is_pinned: bool = False
    ratio: float = 1.0  # share of the optimizer that is moved, at stage 3
    buffer_count: int = 0  # through which states go from and to NVMe
    buffer_size: int = 0  # elements of such a buffer of parameters
    kept: int = 0  # elements of a rank's parameters that stay in host memory, of those on NVMe


class TrainingSetup(NamedTuple):
    """A training run in numbers. Sizes of buckets and thresholds are elements."""

    tensors: tuple[Tensor, ...]  # of the rank that holds most of the model, in the order of the model
    ranks: int  # that share what each of them has of the model: the data-parallel ones
    nodes: int
    stage: int
    architecture: JsonObject  # the ``config.json`` of the model
    dtype: str = "bf16"  # of parameters and gradients: bf16, fp16, fp32
    optimizer: str = "adamw"  # its type in lower case, or the Trainer's name of it; "" if the script passes one in
    optimizer_offload: Offload | None = None
    parameter_offload: Offload | None = None
    persistence_threshold: int = 100_000
    persistence_total: int = 2**63 - 1
    reduce_bucket: int = 500_000_000
    prefetch_bucket: int = 50_000_000
    max_live_parameters: int = 1_000_000_000
    max_reuse_distance: int = 1_000_000_000
    sub_group: int = 1_000_000_000
    overlaps_communication: bool = True
    hpz: int = 1  # ranks that share a second partition (ZeRO++)
    mics: int = 0  # ranks that share the states (MiCS); 0 is all
    contiguous_gradients: bool = True
    is_round_robin: bool = False  # round_robin_gradients
    aligns_parameters: bool = False  # parameter_alignment
    decays_apart: bool = False  # the Trainer's optimizer has a group of parameters without weight decay
    optimizer_parameters: JsonObject | None = None
    master_width: int = 4  # bytes of an element of the master weights
    state_width: int = 4  # bytes of an element of Adam's states
    accumulation_width: int | None = None  # bytes of an element in which gradients are added up; None as parameters
    communication_width: int | None = None  # bytes of an element that is reduced; None as parameters
    accumulation_steps: int = 1
    micro_batch: int | None = None
    loads_batches: bool = False  # of that size, with a loader of the script's own
    sequence_length: int | None = None
    is_checkpointed: bool | None = None  # activation (gradient) checkpointing
    attention: str | None = None  # eager, sdpa or flash_attention_2
    adapters: AdaptedLayers | None = None
    part: ModelPart = ModelPart()  # of the model that the tensors are
    sequence_ranks: int = 1  # among which each sequence is divided
    sequences: int = 1  # of a sample, which is a pair where answers are compared
    reference: bool | None = False  # a frozen copy of the model beside it; None if it is not known
    is_stand_in: bool = False  # only the number of parameters is that of the model
    kernels: Kernels = Kernels(None, None)  # that compute the layers and the loss
    is_packed: bool | None = None  # every sequence is as long as the longest
    is_length_known: bool = False  # the longest sequence has the assumed length, and may be no shorter
    computes_own_loss: bool = False  # as trainers that align do, of sequences that may be shorter
    transformers: str | None = None  # the release whose classes compute
    checkpoint_width: int | None = None  # bytes of an element in the files of the model
    weights: PackedWeights | None = None  # how those that are not trained are quantized
    is_reentrant: bool = False  # recomputation, of the older kind
    may_be_quantized: bool = False  # which the script decides in a way that does not show
    loaded_width: Band | None = None  # that a rank takes of host memory for each element as it loads the model
    maps_pickled_files: bool = True  # .bin files are mapped as they are loaded, and not read
    rank_0_reads: bool = True  # at stage 3 with zero.Init, the others take only names and shapes from the files
    shares_memory: bool = True  # NCCL may send through /dev/shm
    pins_natively: bool = False  # DeepSpeed's own page-locked memory, which is not rounded up
    uses_zero_init: bool | None = None  # at stage 3: zero.Init builds the model in partitions
    zero_init_way: str = "deepspeed.zero.Init()"  # what to write in the script so that it does
    gathers_on_save: bool = False
    pins_master_weights: bool = True  # of stages 1 and 2, with page-locked offload
    splits_bf16_without_zero: bool = False  # in some releases
    keeps_16_bit_copy: bool = True  # of the partition in host memory, at stages 1 and 2 with offload
    flattens_on_gpu: bool = True  # if there is room, at stages 1 and 2
    copies_offloaded_share: bool = True  # on the GPU, at stages 1 and 2
    stack: Stack | None = None
    fsdp: FsdpSharding | None = None  # of a run with FSDP, which has no stage
    untrained: Untrained | None = None  # what the run does, if it trains nothing
    evaluation: Untrained | None = None  # beside the training
    rollout: Untrained | None = None  # the generation beside the training
    has_logits: bool = True  # of the whole vocabulary, for each token
    loss: Band | None = None  # bytes of it for each token and entry of the vocabulary; None as in supervised training
    further: tuple[FurtherModel, ...] = ()  # models beside the trained one and its reference

    @property
    @by_tensors
    def parameter_count(self) -> int:
        """The elements of all parameters; of quantized weights as many as they had before."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def width(self) -> int:
        """The bytes of an element of the parameters."""
        return WIDTHS[self.dtype]

    @property
    @by_tensors
    def trained_count(self) -> int:
        """The elements of the parameters that are trained."""
        return sum(tensor.size for tensor in self.tensors if tensor.is_trained)

    @property
    @by_tensors
    def largest(self) -> int:
        """The elements of the largest parameter."""
        return max((tensor.size for tensor in self.tensors), default=0)

    @property
    def is_moved_whole(self) -> bool:
        """Whether ``deepspeed.initialize`` surely moves the whole model to the GPU before stage 3 partitions it."""
        return self.stage == 3 and self.uses_zero_init is False

    @property
    def shards(self) -> int:
        """The ranks that share the states."""
        return min(self.mics, self.ranks) if self.mics and self.stage == 3 else self.ranks

    def sharing(self, tensor: Tensor) -> int:
        """The ranks that each have experts of their own in a parameter; 1 for any other."""
        return self.part.degrees.experts if self.part.degrees.experts > 1 and is_of_experts(tensor) else 1

    def shards_of(self, tensor: Tensor) -> int:
        """The ranks that share the states of a parameter."""
        return max(1, self.shards // self.sharing(tensor))

    @property
    def is_pipeline(self) -> bool:
        """Whether ranks have different layers; DeepSpeed takes stages 0 and 1 then (``PipelineEngine.__init__``)."""
        return self.part.degrees.stages > 1

    @property
    def uses_bf16_optimizer(self) -> bool:
        """Whether BF16_Optimizer splits the master weights (``_do_optimizer_sanity_check`` of the engine)."""
        if self.stage == 0 and self.part.stage is not None:
            return self.dtype == "bf16" and self.accumulation_width in (None, self.width)
        if self.stage == 0:
            return self.dtype == "bf16" and self.splits_bf16_without_zero and self.accumulation_width in (None, 4)
        sums_in_full = self.accumulation_width == WIDTHS["fp32"]
        return self.stage == 1 and self.dtype == "bf16" and sums_in_full and self.optimizer_offload is None

    @property
    def ranks_per_node(self) -> int:
        """The ranks of the node that has most of them."""
        return -(-self.world // self.nodes)

    @property
    def world(self) -> int:
        """All ranks of the run."""
        return self.ranks * self.part.degrees.of_a_copy

    @property
    def loaded_count(self) -> int:
        """The elements that a rank loads: of the whole model, unless it builds the layers of its stage alone."""
        return self.parameter_count if self.part.stages else self.saved_count

    @property
    def saved_count(self) -> int:
        """The elements of the whole model."""
        return self.part.whole or self.parameter_count


def missing(config: Config) -> list[str]:
    """The facts without which there is no estimate, by name."""
    model = config.facts.model
    lacks = [] if model is not None else ["model"]
    lacks += [] if config.world_size else ["world size"]
    is_counted = model is not None and (model.parameter_count is not None or model.quantization is not None)
    if model is not None and (not is_counted or not tensors(config.facts)):
        lacks.append("size of the model")
    if lora_requests.requested(config.facts) is None and (
        _trains_adapters(config) or packed_weights.requested(config.facts) is not None
    ):
        lacks.append("adapters")
    return lacks


def _adapted_layers(config: Config) -> AdaptedLayers | None:
    """The adapters of a run as its activations depend on them; dropout before them is not known."""
    adapters = lora_requests.requested(config.facts)
    if adapters is None:
        return None
    is_everywhere = {None: False, ALL: True, ALL_LINEAR: True}
    targets = adapters.targets
    weights = packed_weights.requested(config.facts)
    if weights is not None and weights.bits == _INT8:  # each layer of 8 bit keeps its input, as one with an adapter
        return AdaptedLayers(adapters.rank, is_everywhere=True)
    return AdaptedLayers(adapters.rank, None if isinstance(targets, tuple) else is_everywhere.get(targets))


def _trains_adapters(config: Config) -> bool:
    """Whether anything tells that adapters are trained, by a recipe, a launch or the training arguments."""
    name, training = adapter_argument(config), config.facts.training
    given = training.others.get(name) if name is not None and training is not None else None
    return name is not None and (given is None or str(given.value).lower() not in ("false", "0", "no"))


def of(config: Config, ranks: int | None = None) -> TrainingSetup | None:
    """The setup of a run with this config; None if a fact is missing or the ZeRO stage is not known.

    ``ranks`` stand for those of the run if they are not known.
    """
    model, ranks = config.facts.model, config.world_size or ranks
    prepared = _PreparedValues(config)
    sharding = fsdp_settings.sharding_of(config)
    stage = prepared.stage() if sharding is None else 0
    if model is None or ranks is None or stage is None:
        return None
    parameters = packed.parameters(tensors(config.facts), config, prepared.dtype())
    weights = packed_weights.requested(config.facts)
    if not parameters:
        return None
    usual = TrainingSetup._field_defaults
    zero: dict[str, Any] = {
        **{name: int(prepared.of_zero(key, otherwise=usual[name])) for name, key in _NUMBERS.items()},
        **{name: bool(prepared.value(_ZERO, key, otherwise=usual[name])) for name, key in _SWITCHES.items()},
    }
    aligned = alignment.of(config.facts)
    work = untrained.of(config)
    degrees, is_open = _degrees(config, sharding, work)
    of_a_rank, data_ranks, part = divided.of_rank(parameters, model.config, degrees, ranks, is_open=is_open)
    sequence_ranks = min(degrees.sequences, data_ranks)
    loaded = handed.micro_batch(config)
    micro_batch, accumulation_steps = prepared.batch(parallelism.ranks_that_count(part.degrees, ranks))
    found = TrainingSetup(
        tensors=of_a_rank,
        ranks=data_ranks,
        nodes=min(config.facts.nodes or 1, ranks),
        part=part,
        stage=stage,
        dtype=prepared.dtype(),
        optimizer=prepared.optimizer(),
        optimizer_offload=prepared.offload("offload_optimizer", stage),
        parameter_offload=prepared.offload("offload_param", stage),
        **zero,
        mics=max(int(prepared.of_zero("mics_shard_size", otherwise=0)), 0),
        overlaps_communication=bool(prepared.value(_ZERO, "overlap_comm", otherwise=stage == 3)),
        decays_apart=config.stack == "trainer" and config.node("optimizer") is None,
        optimizer_parameters=prepared.optimizer_parameters(),
        master_width=prepared.master_width(),
        state_width=prepared.state_width(),
        accumulation_width=prepared.width("data_types", "grad_accum_dtype"),
        communication_width=prepared.width("communication_data_type"),
        accumulation_steps=accumulation_steps,
        micro_batch=config.facts.micro_batch or loaded or micro_batch,
        loads_batches=config.facts.micro_batch is None and loaded is not None,
        sequence_length=_sequence_length(config),
        is_checkpointed=bool(kept)
        if (kept := part.degrees.checkpointed_layers) is not None
        else _is_checkpointed(config),
        attention=attention.of(config),
        adapters=_adapted_layers(config),
        sequence_ranks=sequence_ranks,
        sequences=aligned.samples if aligned is not None else 1,
        reference=aligned.reference if aligned is not None else False,
        is_stand_in=model.is_stand_in,
        kernels=kernels.of(config),
        is_packed=kernels.are_sequences_full(config),
        is_length_known=config.facts.sequence_length is not None or kernels.are_sequences_full(config) is True,
        computes_own_loss=aligned is not None,
        transformers=config.knowledge.target.get("transformers"),
        architecture=model.config,
        checkpoint_width=BYTES.get(model.dtype or ""),
        loaded_width=loading.width(config),
        weights=weights,
        is_reentrant=weights is not None and _is_reentrant(config),
        may_be_quantized=weights is None and doubts.is_quantized(config),
        maps_pickled_files=config.knowledge.stack_does("pickled-checkpoints-are-mapped"),
        rank_0_reads=config.knowledge.stack_does("rank-0-alone-reads-at-stage-3"),
        pins_natively=_variable(config, _PINNED_BY) == "native",
        shares_memory=_variable(config, _SHM_OFF) in ("", "0"),
        uses_zero_init=partitioned.uses_zero_init(config) if weights is None else False,
        zero_init_way=partitioned.way(config),
        gathers_on_save=any(prepared.value(_ZERO, key, otherwise=False) is True for key in _GATHERS),
        pins_master_weights=config.knowledge.does("offloaded-master-weights-are-page-locked"),
        splits_bf16_without_zero=config.knowledge.does("bf16-is-split-without-zero"),
        keeps_16_bit_copy=config.knowledge.does("offload-keeps-a-16-bit-copy"),
        flattens_on_gpu=config.knowledge.does("parameters-are-flattened-on-the-gpu"),
        copies_offloaded_share=config.knowledge.does("offloaded-shares-are-copied-on-the-gpu"),
        stack=config.stack,
        untrained=work,
        evaluation=untrained.beside_training(config) if aligned is None else None,
        rollout=untrained.rollout(config, aligned),
        has_logits=not preference.has_scalar_head(aligned),
        loss=preference.loss(config, aligned),
        further=preference.further(config, aligned),
    )
    return found if sharding is None else _with_fsdp(found, sharding, config)


def _sequence_length(config: Config) -> int | None:
    """The tokens of a sample, by default those at which a trainer of trl cuts it off."""
    given = own_arguments.sequence_length(config.facts)
    if given is not None:
        return given
    defaults = (config.default_of_trl(name) for name in _LENGTHS_OF_TRL)
    return next((found for found in defaults if isinstance(found, int) and found > 0), None)


def _degrees(config: Config, sharding: FsdpSharding | None, work: Untrained | None) -> tuple[Degrees, bool]:
    """The degrees of parallelism that are counted, and whether anything may divide the model in another way.

    FSDP shards what tensor parallelism leaves of the model among the ranks of the other dimension of a mesh. What it
    leaves is not known, so the model counts whole there, and so it does in a run that trains nothing: its passes are
    not those of a training. ``init_inference`` has a size of its own.
    """
    if work is not None and work.is_served:
        return Degrees(), parallelism.uncounted(config) is not None
    found = parallelism.degrees(config)
    is_open = parallelism.uncounted(config) is not None
    if sharding is None and work is None:
        return found, is_open
    if sharding is not None:
        found = found._replace(tensors=max(found.tensors, parallelism.tensors_of_accelerate(config)))
    return found, is_open or found.of_a_copy > 1 or found.experts > 1


def with_model(setup: TrainingSetup, tensors: tuple[Tensor, ...], architecture: JsonObject) -> TrainingSetup:
    """The same run with these parameters, which ranks share as they do those of the setup."""
    tensors, ranks, part = divided.of_rank(
        tensors, architecture, setup.part.degrees, setup.world, is_open=not setup.part.is_sure
    )
    return setup._replace(tensors=tensors, ranks=ranks, part=part, architecture=architecture)


def _with_fsdp(found: TrainingSetup, sharding: FsdpSharding, config: Config) -> TrainingSetup:
    """The same run with FSDP in place of an engine of DeepSpeed: what the optimizer steps on are the parameters."""
    computed = fsdp_settings.precision(config)
    width = WIDTHS["fp32"] if computed.is_mixed and sharding.upcasts else round(sharding.loaded_width.likely)
    return found._replace(
        dtype=computed.dtype,
        optimizer_offload=None,
        parameter_offload=None,
        hpz=1,
        mics=0,
        master_width=width,
        state_width=width,
        is_checkpointed=True if fsdp_settings.is_checkpointed(config) else found.is_checkpointed,
        accumulation_steps=fsdp_settings.accumulation_steps(config),
        fsdp=sharding,
    )


_tensors: list[tuple[object, object, tuple[Tensor, ...]]] = []  # of the last models with their adapters
_MOST_MODELS = 8


def tensors(facts: Facts) -> tuple[Tensor, ...]:
    """The parameters of the model of a run with its adapters: the same object for the same model."""
    adapters = lora_requests.requested(facts)
    for model, wanted, found in _tensors:
        if model is facts.model and wanted == adapters:
            return found
    found = tuple(lora_requests.parameters(facts))
    _tensors.insert(0, (facts.model, adapters, found))
    del _tensors[_MOST_MODELS:]
    return found


def _variable(config: Config, name: str) -> str:
    """A variable of the environment of the launch; empty if it is not set or not known."""
    launch = config.facts.launch
    return (launch.launch.environment.get(name) or "").strip().lower() if launch is not None else ""


def _is_checkpointed(config: Config) -> bool | None:
    """Whether activations are computed again, by the script, a framework, the Trainer or DeepSpeed; None if unknown."""
    if config.facts.activation_checkpointing is not None:
        return config.facts.activation_checkpointing
    if (decided := own_arguments.is_checkpointed(config.facts)) is not None:
        return decided
    training = config.facts.training if config.stack == "trainer" else None
    if training is not None and (found := recomputation_argument(config)) is not None:
        return bool(found[1].value)
    if config.stack == "trainer" and (decided := own_arguments.is_checkpointed_by_default(config.facts)) is not None:
        return decided
    if _checkpoints_itself(config):
        return True
    return None if training is None or any(map(training.may_be_set, _CHECKPOINTING)) else False


def _is_reentrant(config: Config) -> bool:
    """Whether activations are likely computed again by reentrant checkpointing, the older kind."""
    facts = config.facts
    given = config.argument("gradient_checkpointing_kwargs")
    if given is not None and isinstance(given.value, dict):
        return given.value.get("use_reentrant") is True
    framework = facts.recipe.record if facts.recipe is not None else facts.launch.framework if facts.launch else None
    if framework is not None and (framework.is_reentrant or framework.checkpoints_unless):
        return True
    return not config.knowledge.stack_does("gradient-checkpointing-is-not-reentrant")


def _checkpoints_itself(config: Config) -> bool:
    """Whether the config sets up the checkpointing of DeepSpeed, which only a model of the user's own asks for."""
    section, launch = config.section("activation_checkpointing"), config.facts.launch
    if section is None or not may_checkpoint_itself(config):
        return False
    is_own = launch is None or launch.script is None or launch.script.may_run_own_models
    return is_own and any(is_truthy(member.value) for member in section.members)


def is_dtype_assumed(config: Config) -> bool:
    """Whether the setup has 16 bit because nothing tells what the run trains in."""
    if fsdp_settings.sharding_of(config) is not None:
        return fsdp_settings.precision(config).is_assumed
    return _PreparedValues(config).is_dtype_open()


def _may_be_on(value: Any) -> bool:
    return value is UNKNOWN or value == AUTO


class _PreparedValues:
    """The values of a config after its stack has prepared it, with the defaults of the target."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.prepared = prepare(config)

    def value(self, *path: str, otherwise: Any) -> Any:
        """The value at a key path, or DeepSpeed's default; ``otherwise`` where neither is known."""
        found = self.prepared.value(*path)
        if found is None or found is UNKNOWN or found == AUTO:
            known = self.config.knowledge.find(path)
            found = known.facts.get("default") if known is not None else None
        return otherwise if found is None else found

    def number(self, *path: str, otherwise: float) -> float:
        """The number at a key path, or DeepSpeed's default."""
        found = self.value(*path, otherwise=otherwise)
        return found if isinstance(found, (int, float)) and found == found else otherwise  # noqa: PLR0124 - NaN

    def of_zero(self, *key: str, otherwise: float) -> float:
        """A number of ``zero_optimization``; what is above all counts is as good as endless."""
        return max(min(self.number(_ZERO, *key, otherwise=otherwise), _ENDLESS), -_ENDLESS)

    def width(self, *path: str) -> int | None:
        """The bytes of an element of the dtype at a key path; None if the config names none."""
        return WIDTHS.get(DTYPE_NAMES.get(str(self.value(*path, otherwise=None)), ""))

    def stage(self) -> int | None:
        """The ZeRO stage; None if it is not one."""
        if self.prepared.value(_ZERO) is None:
            return 0
        found = self.value(_ZERO, "stage", otherwise=0)
        return int(found) if found in (0, 1, 2, 3) else None

    def dtype(self) -> str:
        """The dtype that the engine casts the model to; of what the run may switch on, 16 bit, which is less."""
        switches = {section: self.prepared.value(section, "enabled") for section in _DTYPE_OF}
        on = [section for section, value in switches.items() if value is True]
        found = on or [section for section, value in switches.items() if _may_be_on(value)]
        return "fp32" if not found else "fp16" if found == ["fp16"] else "bf16"

    def is_dtype_open(self) -> bool:
        """Whether training arguments that are not known decide between 16 bit and fp32."""
        switches = [self.prepared.value(section, "enabled") for section in _DTYPE_OF]
        return True not in switches and any(map(_may_be_on, switches))

    def optimizer(self) -> str:
        """The type of the optimizer in lower case, or the Trainer's name of its own; "" if the script passes one in."""
        if self.config.facts.named_optimizer is not None:
            return self.config.facts.named_optimizer
        named, made = self.value("optimizer", "type", otherwise=""), handed.optimizer(self.config)
        if named and (made is None or self.config.stack != "deepspeed"):  # which alone takes that of the script
            return str(named).lower()
        if made is not None:
            return made
        optim, training = self.config.argument("optim"), self.config.facts.training
        if optim is not None and optim.value is not None:
            return str(optim.value).lower()
        is_left_out = training is not None and not {"optim", "adafactor"} & {*training.given, *training.defaults}
        if own_arguments.default_of_framework(self.config.facts, "optim") is None:
            is_left_out = training is None or not {"optim", "adafactor"} & training.given.keys()
        return _TRAINERS_OWN if self.config.stack == "trainer" and is_left_out else ""

    def offload(self, section: str, stage: int) -> Offload | None:
        """What a section moves where; at stages 1 and 2 the optimizer alone, and ``nvme`` means the CPU."""
        device = self.value(_ZERO, section, "device", otherwise="none")
        if device not in ("cpu", "nvme") or stage == 0 or (stage < 3 and section == "offload_param"):
            return None
        ratio = self.number(_ZERO, section, "ratio", otherwise=1.0)
        return Offload(
            device if stage == 3 else "cpu",
            self.value(_ZERO, section, "pin_memory", otherwise=False) is True,
            ratio if stage == 3 and 0 <= ratio <= 1 else 1.0,
            int(self.of_zero(section, "buffer_count", otherwise=0)) if device == "nvme" else 0,
            int(self.of_zero(section, "buffer_size", otherwise=0)) if device == "nvme" else 0,
            int(self.of_zero(section, "max_in_cpu", otherwise=0)) if device == "nvme" else 0,
        )

    def optimizer_parameters(self) -> JsonObject:
        """The parameters of the optimizer in the config."""
        found = self.prepared.value("optimizer", "params")
        is_another = self.config.facts.named_optimizer is not None
        return found if isinstance(found, dict) and not is_another else {}

    def master_width(self) -> int:
        """The bytes of an element of the weights that the optimizer steps on."""
        keys = ((section, f"{dtype}_master_weights_and_grads") for section, dtype in _DTYPE_OF.items())
        return 2 if any(self.value(*key, otherwise=False) is True for key in keys) else 4

    def state_width(self) -> int:
        """The bytes of an element of the states of DeepSpeed's Adam."""
        keys = ((section, "bf16_optimizer_states") for section in ("bf16", "bfloat16"))
        if any(self.value(*key, otherwise=False) is True for key in keys):
            return 2
        parameters = self.optimizer_parameters()
        follows = parameters.get("torch_adam") is True or parameters.get("fp32_optimizer_states") is False
        return self.master_width() if follows else 4

    def batch(self, ranks: int) -> tuple[int | None, int]:
        """The samples that one rank computes at once, None where nothing tells, and the micro batches of a step."""
        train, micro, steps = (self._batch_size(size) for size in BATCH_SIZES)
        if train is not None or micro is not None:
            _, micro, steps = completed(train, micro, steps, ranks)
        return int(micro) if micro and micro >= 1 else None, int(steps) if steps and steps >= 1 else 1

    def _batch_size(self, name: str) -> float | None:
        """A batch size of the config, or else the training argument that says the same."""
        found = self.value(name, otherwise=None)
        if found is None and (argument := self.config.argument(_ARGUMENTS.get(name, name))) is not None:
            found = argument.value
        return found if isinstance(found, (int, float)) and 0 < found < _ENDLESS else None
