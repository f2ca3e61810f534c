"""The changes with which a run takes less, each with what to write and with its price.

They are in the order of the guides, from what costs the least to what costs the most. Each change is one ``_replace``
of the setup, so that what it brings is the estimate of another setup.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.partitioned import INIT_FLAG
from ds_lint.footprint.sweep import CPU, OPTIMIZER_ON_NVME, PARAMETERS_ON_NVME, at_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Literal, TypeAlias

    from ds_lint.footprint.setup import Offload, TrainingSetup

    Place: TypeAlias = Literal["config", "arguments", "launch", "script", "data"]
    # What a change costs: time of a step, precision of the update, other files, another result, more machines.
    Kind: TypeAlias = Literal["speed", "precision", "saving", "result", "hardware"]
    # The changes that a step can make of a setup, from the mildest to the farthest.
    Step: TypeAlias = Callable[[TrainingSetup], Iterator["SetupChange"]]

_ZERO = "zero_optimization"
_USUAL_ON_NODE = 8  # GPUs
_CHECKPOINTS = "model.gradient_checkpointing_enable()"
_DOUBLINGS = 2  # of ranks that are within reach of who has a node or more of them
_MOST_RANKS = 4096
_NVME_PATH = "/local_nvme"  # what the guides of Transformers call it
_SMALL_BUCKET = 50_000_000  # elements: 100 MB in 16 bit, as what stage 3 prefetches by default
_LEAST_LENGTH, _SHORTEST = 512, 4  # tokens, and the part of the length below which a run is another one
_ADAPTED = "model = get_peft_model(model, LoraConfig(r=16))"
_GATHERS = "stage3_gather_16bit_weights_on_model_save"


class Write(NamedTuple):
    """A key to write, with its value: in the config, the training arguments, the launch, a call, or for the data."""

    place: Place
    key: str
    value: object


class Price(NamedTuple):
    """What a change costs, in words."""

    kind: Kind
    words: str


class SetupChange(NamedTuple):
    """A change of a setup, in words and as what to write; ``carried`` are fields that neither config nor facts show."""

    words: str
    setup: TrainingSetup
    writes: tuple[Write, ...]
    price: tuple[Price, ...] = ()
    carried: tuple[str, ...] = ()


def without_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    """What is not offloaded takes no host memory."""
    if setup.parameter_offload is not None:
        yield SetupChange(
            "no parameter offload",
            setup._replace(parameter_offload=None),
            (Write("config", f"{_ZERO}.offload_param.device", "none"),),
        )
    if setup.optimizer_offload is not None:
        writes = [Write("config", f"{_ZERO}.offload_optimizer.device", "none")]
        if setup.parameter_offload is not None:
            writes.append(Write("config", f"{_ZERO}.offload_param.device", "none"))
        yield SetupChange("no offload", setup._replace(optimizer_offload=None, parameter_offload=None), tuple(writes))


def sharded_loading(setup: TrainingSetup) -> Iterator[SetupChange]:
    """No rank has the whole model at the start, neither in host memory nor on the GPU."""
    if setup.stage == 3 and not setup.uses_zero_init and setup.weights is None:
        is_flag = setup.zero_init_way == INIT_FLAG
        where = Write("launch", INIT_FLAG, True) if is_flag else Write("script", setup.zero_init_way, None)
        made = setup._replace(uses_zero_init=True)
        yield SetupChange("model built in shards", made, (where,), carried=("uses_zero_init",))


def fused_attention(setup: TrainingSetup) -> Iterator[SetupChange]:
    """No score is kept for each pair of tokens; the kernels of torch do without a package and run on every GPU."""
    if setup.attention in (None, "eager") and setup.sequence_length is not None:
        where = Write("script", 'attn_implementation="sdpa" in from_pretrained', None)
        yield SetupChange("fused attention", setup._replace(attention="sdpa"), (where,), carried=("attention",))


def checkpointing(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Activations are computed again in backward instead of being kept."""
    if setup.is_checkpointed:
        return
    is_argument = setup.stack == "trainer"
    call = "PipelineModule(..., activation_checkpoint_interval=1)" if setup.is_pipeline else _CHECKPOINTS
    where = Write("arguments", "gradient_checkpointing", True) if is_argument else Write("script", call, None)
    yield SetupChange(
        "activation checkpointing",
        setup._replace(is_checkpointed=True),
        (where,),
        (Price("speed", "the forward pass is computed again, about a third more time"),),
        () if is_argument else ("is_checkpointed",),
    )


def smaller_buckets(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Gradients are reduced in smaller pieces, through smaller buffers."""
    if setup.stage and setup.reduce_bucket > _SMALL_BUCKET:
        yield SetupChange(
            "smaller buckets",
            setup._replace(reduce_bucket=_SMALL_BUCKET),
            (Write("config", f"{_ZERO}.reduce_bucket_size", _SMALL_BUCKET),),
            (Price("speed", "gradients are reduced in more and smaller messages"),),
        )


def smaller_micro_batch(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Half, a quarter and so on, with more accumulation steps, so that the batch size stays."""
    if setup.micro_batch is None:
        return
    size = setup.micro_batch // 2
    on_trainer = setup.stack == "trainer"
    while size >= 1:
        steps = setup.accumulation_steps * -(-setup.micro_batch // size)
        place: Place = "arguments" if on_trainer else "config"
        name = "per_device_train_batch_size" if on_trainer else "train_micro_batch_size_per_gpu"
        smaller = Write(place, name, size)
        if setup.loads_batches:
            smaller = Write("script", f"DataLoader(..., batch_size={size})", None)
        yield SetupChange(
            f"micro batch {size} instead of {setup.micro_batch}",
            setup._replace(micro_batch=size, accumulation_steps=steps),
            (smaller, Write(place, "gradient_accumulation_steps", steps)),
            (Price("speed", f"{steps} smaller micro batches in a step instead of {setup.accumulation_steps}"),),
            ("micro_batch",) if setup.loads_batches else (),
        )
        size //= 2


def stage_2(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Gradients and optimizer states are sharded, with as much communication as without ZeRO."""
    if setup.stage < 2 and not setup.is_pipeline:
        words = "gradients are reduced after each micro batch, not once in a step"
        price = (Price("speed", words),) if setup.accumulation_steps > 1 else ()
        yield _stage(setup, 2, price)


def stage_3(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Parameters are sharded too, and gathered where they are needed."""
    if setup.stage == 3 or setup.is_pipeline:
        return
    price = [Price("speed", "parameters are gathered in each pass, half as much communication again")]
    if not setup.gathers_on_save:
        price.append(Price("saving", f"whole weights are saved only with {_GATHERS}"))
    yield _stage(setup, 3, tuple(price))


def _stage(setup: TrainingSetup, stage: int, price: tuple[Price, ...]) -> SetupChange:
    write = Write("config", f"{_ZERO}.stage", stage)
    return SetupChange(f"ZeRO stage {stage}", at_stage(setup, stage), (write,), price)


def eight_bit_optimizer(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Adam's states in 8 bit, where the Trainer makes the optimizer and it is on the GPU."""
    if not setup.decays_apart or setup.optimizer_offload is not None:
        return
    if setup.optimizer not in ("", "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused"):
        return
    yield SetupChange(
        "8-bit optimizer",
        setup._replace(optimizer="adamw_bnb_8bit"),
        (Write("arguments", "optim", "adamw_bnb_8bit"),),
        (Price("precision", "states are rounded to 8 bits, with a scale for each 256; needs bitsandbytes"),),
    )


def optimizer_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Optimizer states and master weights go to host memory."""
    if setup.stage > 0 and setup.optimizer_offload is None:
        yield SetupChange(
            "optimizer offload to the CPU",
            setup._replace(optimizer_offload=CPU),
            (Write("config", f"{_ZERO}.offload_optimizer.device", "cpu"),),
            (Price("speed", "the CPU makes the step, and gradients and weights cross PCIe in each"),),
        )


def parameter_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Parameters go to host memory."""
    if setup.stage == 3 and setup.parameter_offload is None:
        yield SetupChange(
            "parameter offload to the CPU",
            setup._replace(parameter_offload=CPU),
            (Write("config", f"{_ZERO}.offload_param.device", "cpu"),),
            (Price("speed", "parameters cross PCIe in each pass"),),
        )


def low_precision_states(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Master weights and gradients in bf16, which DeepSpeed has for an Adam on the CPU (DS308)."""
    on_cpu = setup.optimizer_offload is not None and setup.optimizer_offload.device == "cpu"
    if setup.dtype == "bf16" and on_cpu and setup.optimizer in ("adam", "adamw") and setup.master_width > setup.width:
        yield SetupChange(
            "16-bit master weights",
            setup._replace(master_width=setup.width),
            (Write("config", "bf16.bf16_master_weights_and_grads", True),),
            (Price("precision", "weights are updated in bf16, which loses small updates"),),
        )


def nvme(setup: TrainingSetup) -> Iterator[SetupChange]:
    """The optimizer, then the parameters too: they are read more often."""
    if setup.stage < 3:
        return
    price = (
        Price("speed", "states are read from the drive and written to it in each step"),
        Price("saving", "a checkpoint lacks some of what is on NVMe (DS702)"),
    )
    if not _is_on_nvme(setup.optimizer_offload):
        setup = setup._replace(optimizer_offload=OPTIMIZER_ON_NVME)
        yield SetupChange("optimizer offload to NVMe", setup, _to_nvme("offload_optimizer"), price)
        both = _to_nvme("offload_optimizer") + _to_nvme("offload_param")
    else:
        both = _to_nvme("offload_param")
    if not _is_on_nvme(setup.parameter_offload):
        words = "optimizer and parameter offload to NVMe" if len(both) > 2 else "parameter offload to NVMe"
        yield SetupChange(words, setup._replace(parameter_offload=PARAMETERS_ON_NVME), both, price)


def _to_nvme(section: str) -> tuple[Write, ...]:
    return (
        Write("config", f"{_ZERO}.{section}.device", "nvme"),
        Write("config", f"{_ZERO}.{section}.nvme_path", _NVME_PATH),
    )


def _is_on_nvme(offload: Offload | None) -> bool:
    return offload is not None and offload.device == "nvme"


def shorter_sequences(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Half the length, and a quarter."""
    length = setup.sequence_length
    if length is None:
        return
    shorter = length // 2
    while shorter >= max(_LEAST_LENGTH, length // _SHORTEST):
        yield SetupChange(
            f"sequences of {shorter} tokens instead of {length}",
            setup._replace(sequence_length=shorter),
            (Write("data", "sequence_length", shorter),),
            (Price("result", "longer samples are cut or split, so the model does not learn from their whole length"),),
            ("sequence_length",),
        )
        shorter //= 2


def more_ranks(setup: TrainingSetup) -> Iterator[SetupChange]:
    """As many as a node has where there is one, else twice and four times as many."""
    most = _USUAL_ON_NODE if setup.world == 1 else setup.world << _DOUBLINGS
    return doubled(setup, most)


def any_ranks(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Twice as many ranks, four times as many and so on, however many."""
    return doubled(setup, _MOST_RANKS)


def doubled(setup: TrainingSetup, most: int) -> Iterator[SetupChange]:
    """Twice as many ranks and so on, up to ``most``: eight on a node, or as many as there are now."""
    ranks, on_node = setup.world * 2, max(setup.ranks_per_node, _USUAL_ON_NODE)
    while ranks <= most:
        nodes = max(setup.nodes, -(-ranks // on_node))
        on_nodes = f" on {nodes} nodes" if nodes > 1 else ""
        writes = [Write("launch", "world_size", ranks)]
        if nodes != setup.nodes:
            writes.append(Write("launch", "nodes", nodes))
        yield SetupChange(
            f"{ranks} ranks{on_nodes} instead of {setup.world}",
            setup._replace(ranks=ranks // setup.part.degrees.of_a_copy, nodes=nodes),
            tuple(writes),
            (
                Price("hardware", "1 more GPU" if ranks == setup.world + 1 else f"{ranks - setup.world} more GPUs"),
                Price("result", "the batch grows with the ranks unless accumulation steps become fewer"),
            ),
        )
        ranks *= 2


def adapters(adapted: TrainingSetup | None) -> Step:
    """The step that trains adapters on a frozen model; ``adapted`` is the setup with them, None if there is none."""

    def step(setup: TrainingSetup) -> Iterator[SetupChange]:
        if adapted is not None and setup.adapters is None and setup.trained_count == setup.parameter_count:
            yield SetupChange(
                "LoRA adapters",
                setup._replace(tensors=adapted.tensors, part=adapted.part, adapters=adapted.adapters),
                (Write("script", _ADAPTED, None),),
                (
                    Price("result", "only adapters are trained, the model is frozen"),
                    Price("saving", "adapters are saved, which are loaded with the model or merged into it"),
                ),
                ("tensors", "part", "adapters"),
            )

    return step
