"""The setup of a DeepSpeed config, and the config of a setup."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.conversion.setup import PRECISIONS, NotConvertibleError, Setup
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.features import DTYPE_NAMES, certain_dtype, is_on, zero_stage
from ds_lint.source.spelling import AUTO

if TYPE_CHECKING:
    from ds_lint.conversion.setup import Precision, Sharding
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"
STAGES: dict[Sharding, int] = {"parameters": 3, "gradients": 2, "nothing": 0}
_SHARDINGS: dict[int, Sharding] = {3: "parameters", 2: "gradients", 1: "gradients", 0: "nothing"}
OFFLOADS = {"offload_optimizer": "cpu_offload", "offload_param": "cpu_offload_param"}  # with the keys of old releases
_GATHERS = ("stage3_gather_16bit_weights_on_model_save", "stage3_gather_fp16_weights_on_model_save")
_GROUPS = ("mics_shard_size", "zero_hpz_partition_size")


def setup_of(config: Config, launch: AccelerateLaunch | None = None) -> Setup:
    """The setup of a config, which a launch may name or make; raises NotConvertibleError if its stage is not known."""
    stage = zero_stage(config)
    if stage not in _SHARDINGS:
        key = written_key(config, ZERO, "stage")
        raise NotConvertibleError(f"{config.document.path}: `{key}` is not a stage that is known before the run")
    return Setup(
        sharding=_SHARDINGS[stage],
        group=_group(config) if stage == 3 else None,
        offloads=stage == 3 and all(device(config, name) != "none" for name in OFFLOADS),
        saves_whole=stage < 3 or any(is_on(config, ZERO, name) for name in _GATHERS),
        loads_once=stage == 3 and _loads_once(launch),
        prefetches=stage < 3 or config.value(ZERO, "stage3_prefetch_bucket_size") != 0,
        precision=_precision(config) or _precision_of_launch(launch),
    )


def config_of(setup: Setup) -> dict[str, object]:
    """The config that sets ZeRO up in the same way; the script or the Trainer fills in what is "auto"."""
    zero: dict[str, object] = {"stage": STAGES[setup.sharding]}
    if setup.offloads:
        names = OFFLOADS if setup.sharding == "parameters" else ("offload_optimizer",)
        zero |= {name: {"device": "cpu", "pin_memory": True} for name in names if setup.sharding != "nothing"}
    if setup.group is not None and setup.sharding == "parameters":
        zero["zero_hpz_partition_size"] = setup.group
    if setup.sharding == "parameters":
        zero["stage3_gather_16bit_weights_on_model_save"] = setup.saves_whole
        if not setup.prefetches:
            zero["stage3_prefetch_bucket_size"] = 0
    return {
        **_precision_sections(setup.precision),
        "zero_optimization": zero,
        "gradient_accumulation_steps": AUTO,
        "gradient_clipping": AUTO,
        "train_micro_batch_size_per_gpu": AUTO,
    }


def device(config: Config, name: str) -> str:
    """Where something is offloaded to: none, cpu or nvme."""
    if config.section(ZERO, name) is None:
        return "cpu" if is_on(config, ZERO, OFFLOADS[name]) else "none"
    value = config.value(ZERO, name, "device")
    return value.lower() if isinstance(value, str) else "none"


def offload_key(config: Config, name: str) -> tuple[str, ...]:
    """The key that offloads something."""
    return (ZERO, name, "device") if config.section(ZERO, name) is not None else (ZERO, OFFLOADS[name])


def written_key(config: Config, *path: str) -> str:
    """The key of the file for a key of the config, which a plugin may have made of the file."""
    found = config.accelerate.key(path) if config.accelerate is not None else path
    return ".".join(found or path)


def group_key(config: Config) -> str | None:
    """The key that sets how many ranks share one copy of the model."""
    return next((name for name in _GROUPS if _number(config, name) > 1), None)


def _group(config: Config) -> int | None:
    key = group_key(config)
    return _number(config, key) if key is not None else None


def _number(config: Config, name: str) -> int:
    value = config.value(ZERO, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _loads_once(launch: AccelerateLaunch | None) -> bool:
    """Whether transformers loads the model in shards, as it does at stage 3 if no YAML says otherwise."""
    value = launch.value("zero3_init_flag") if launch is not None else None
    return value is None or flag(value) is True


def _precision(config: Config) -> Precision | None:
    if is_on(config, "torch_autocast", "enabled"):
        named = DTYPE_NAMES.get(str(config.value("torch_autocast", "dtype")))
        return "fp16" if named == "fp16" else "bf16"
    known = certain_dtype(config)
    if known in ("bf16", "fp16"):
        return known  # type: ignore[return-value]
    is_off = all(config.value(name, "enabled") is False for name in ("bf16", "fp16"))
    return "no" if known == "fp32" or is_off else None


def _precision_of_launch(launch: AccelerateLaunch | None) -> Precision | None:
    """The precision that a YAML names; Accelerate fills it in where the config leaves it open."""
    word = launch.value("mixed_precision") if launch is not None and launch.setting("mixed_precision").member else None
    return next((one for one in PRECISIONS if isinstance(word, str) and word.lower() == one), None)


def _precision_sections(precision: Precision | None) -> dict[str, object]:
    if precision is None:
        return {name: {"enabled": AUTO} for name in ("bf16", "fp16")}
    if precision == "no":
        return {name: {"enabled": False} for name in ("bf16", "fp16")}
    return {"fp16" if precision == "fp16" else "bf16": {"enabled": True}}
