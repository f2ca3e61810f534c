"""A config for DeepSpeed from a few words: who loads it, the ZeRO stage, what is offloaded, the precision.

What is written differs from the default of the newest release, or from that of releases that are still in use; what
the guides write besides (``contiguous_gradients``, ``sub_group_size``, the loss scale of fp16) changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.records import JsonObject as Section

STAGES = (0, 1, 2, 3)
OFFLOADS = ("none", "cpu", "nvme")
PRECISIONS = ("bf16", "fp16", "fp32")
NVME_PATH = "/local_nvme"  # what the guides of Transformers call it

CLIPPING = 1.0  # the Trainer's max_grad_norm; DeepSpeed's own default was 0, no clipping, before 0.19.3
LEARNING_RATE = 5e-5  # the Trainer's; DeepSpeed's own 1e-3 is far too high to fine-tune with
BUCKET = 200_000_000  # ds_config_zero2.json of Transformers: beside overlap_comm, 5e8 would take 9 GB of a GPU


class Purpose(NamedTuple):
    """What a config is to do.

    ``hidden_size`` is given if only the file can set the sizes of the buckets of stage 3.
    ``leaf_modules`` are classes that stage 3 gathers as a whole. ``keeps_parameters`` leaves the parameters of stage 3
    on the GPU if the optimizer is offloaded. ``micro_batch`` is written if only the file can set it.
    """

    stack: Stack = "trainer"
    stage: int = 2
    offload: str = "none"
    precision: str = "bf16"
    nvme_path: str = NVME_PATH
    hidden_size: int | None = None
    leaf_modules: tuple[str, ...] = ()
    keeps_parameters: bool = False
    micro_batch: int = 1


def refusal(purpose: Purpose) -> str | None:
    """Why a purpose has no config, and what to choose instead; None where it can."""
    if purpose.offload == "nvme" and purpose.stage != 3:
        return (
            f"--offload nvme needs --stage 3: at stage {purpose.stage} DeepSpeed never writes to the drive; "
            "choose --stage 3, or --stage 2 --offload cpu"
        )
    if purpose.offload == "cpu" and purpose.stage == 0:
        return "--offload cpu needs --stage 1, 2 or 3: at stage 0 DeepSpeed offloads nothing; choose --stage 2"
    if purpose.precision == "fp16" and purpose.stage == 0:
        return (
            "--precision fp16 needs --stage 1, 2 or 3: at stage 0 DeepSpeed since 0.18.3 divides gradients by a loss "
            "scale that it never multiplied by (DS411); choose --stage 1, or --precision bf16"
        )
    return None


def config(purpose: Purpose) -> Section:
    """The config for a purpose, its keys in the order of Transformers' guides."""
    return {
        **_precision(purpose),
        **_optimizer(purpose),
        "zero_optimization": _zero(purpose),
        **_drive(purpose),
        **_batch(purpose),
        "gradient_clipping": "auto" if purpose.stack == "trainer" else CLIPPING,
    }


def launch_file(config_file: str, purpose: Purpose, gpus: int | None) -> Section:
    """What ``accelerate launch --config_file`` reads; beside a config it must not repeat what the config says."""
    plugin: Section = {"deepspeed_config_file": config_file}
    if purpose.stage == 3:
        plugin["zero3_init_flag"] = True  # so that from_pretrained loads the model in shards
    launch: Section = {"distributed_type": "DEEPSPEED", "deepspeed_config": plugin}
    if gpus is not None:
        launch["num_processes"] = gpus
    return launch


def _precision(purpose: Purpose) -> Section:
    if purpose.precision == "fp32":
        return {}  # off is the default of both, whatever older guides say of fp16
    return {purpose.precision: {"enabled": "auto" if purpose.stack == "trainer" else True}}


def _optimizer(purpose: Purpose) -> Section:
    """AdamW where DeepSpeed makes the optimizer; an optimizer of the script is kept, and moved by Accelerate."""
    if purpose.stack != "deepspeed":
        return {}
    return {"optimizer": {"type": "AdamW", "params": {"lr": LEARNING_RATE}}}


def _zero(purpose: Purpose) -> Section:
    return {"stage": purpose.stage, **_offload(purpose), **_communication(purpose), **_stage_3(purpose)}


def _offload(purpose: Purpose) -> Section:
    """At stage 3 the parameters go with the optimizer, as in the guides' files, unless they are kept."""
    if purpose.offload == "none":
        return {}
    place: Section = {"device": purpose.offload}
    if purpose.offload == "nvme":
        place["nvme_path"] = purpose.nvme_path
    place["pin_memory"] = True  # the default since 0.19.5 only
    moves_parameters = purpose.stage == 3 and not purpose.keeps_parameters
    return {name: dict(place) for name in ("offload_optimizer", "offload_param")[: 2 if moves_parameters else 1]}


def _communication(purpose: Purpose) -> Section:
    """Stage 3 overlaps by itself; at stage 1 the guides leave everything as it is.

    They recommend ``round_robin_gradients`` with offloading, which speeds up a copy; what reads weights by their
    parameters, and universal checkpoints, then go wrong: DS710.
    """
    if purpose.stage != 2:
        return {}
    return {"allgather_bucket_size": BUCKET, "overlap_comm": True, "reduce_bucket_size": BUCKET}


def _stage_3(purpose: Purpose) -> Section:
    if purpose.stage != 3:
        return {}
    leaf_module: Section = {"leaf_module": {"classes": list(purpose.leaf_modules)}} if purpose.leaf_modules else {}
    return {**_buckets(purpose), "stage3_gather_16bit_weights_on_model_save": True, **leaf_module}


def _buckets(purpose: Purpose) -> Section:
    """Sizes that suit the hidden size; ``"auto"`` where the stack works them out from the model."""
    names = ("reduce_bucket_size", "stage3_prefetch_bucket_size", "stage3_param_persistence_threshold")
    if purpose.hidden_size is not None:
        square = purpose.hidden_size**2
        return dict(zip(names, (square, int(0.9 * square), 10 * purpose.hidden_size), strict=True))
    return {} if purpose.stack == "deepspeed" else dict.fromkeys(names, "auto")


def _drive(purpose: Purpose) -> Section:
    """What the guides start from; ``ds_nvme_tune`` finds what suits a drive."""
    return {"aio": {"block_size": 262144, "queue_depth": 32}} if purpose.offload == "nvme" else {}


def _batch(purpose: Purpose) -> Section:
    """DeepSpeed works ``train_batch_size`` out from these and the number of ranks."""
    if purpose.stack == "deepspeed":
        return {"train_micro_batch_size_per_gpu": purpose.micro_batch}
    return {"gradient_accumulation_steps": "auto", "train_micro_batch_size_per_gpu": "auto"}
