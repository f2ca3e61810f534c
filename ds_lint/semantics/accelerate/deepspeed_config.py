"""The DeepSpeed config that ``DeepSpeedPlugin`` makes of its fields, and the fields that a YAML gives it.

Source: ``DeepSpeedPlugin.__post_init__`` and ``set_mixed_precision`` in ``accelerate/utils/dataclasses.py``. What a
YAML says arrives there as the text of an environment variable.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import is_digits
from ds_lint.semantics.made_config import MadeConfig, SourceSetting
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import Node, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.source.tree import KeyPath

PRECISION = "mixed_precision"
DEVICES = ("offload_optimizer_device", "offload_param_device")


def config_file(launch: AccelerateLaunch) -> SourceSetting | None:
    """The file that the settings name as the DeepSpeed config; None if there is none, and the plugin makes one."""
    setting = launch.setting("deepspeed_config_file")
    return None if setting.value is None or str(setting.value) == "none" else setting


# The settings behind the keys of the config, whether they are written or not.
SETTINGS = {
    ("gradient_accumulation_steps",): "gradient_accumulation_steps",
    ("gradient_clipping",): "gradient_clipping",
    ("zero_optimization", "stage"): "zero_stage",
    ("zero_optimization", "offload_optimizer", "device"): "offload_optimizer_device",
    ("zero_optimization", "offload_param", "device"): "offload_param_device",
    ("zero_optimization", "stage3_gather_16bit_weights_on_model_save"): "zero3_save_16bit_model",
}


def setting_of(path: KeyPath | None) -> str | None:
    """The setting of the plugin for a key of the config; None if there is none."""
    if path is not None and path[0] in ("fp16", "bf16"):
        return PRECISION
    return SETTINGS.get(path) if path is not None else None


def made_by_launch(launch: AccelerateLaunch) -> MadeConfig:
    """The config that the plugin makes of the settings in a YAML. A value that it refuses is a placeholder."""
    section = launch.root.member("deepspeed_config")
    stated = section or launch.root.member("distributed_type")
    around = ("deepspeed_config",) if section is not None else ("distributed_type",)
    if launch.is_command:
        around = ("use_deepspeed",)
        stated = next((one for one in launch.flags if one.key == around[0]), stated)
    made = MadeConfig(around, stated.key_span if stated is not None else launch.root.span)
    fill(made, _fields(launch))
    add_precision(made, launch.setting(PRECISION))
    return made


def fill(made: MadeConfig, fields: dict[str, SourceSetting]) -> None:
    """Write the config of these fields of the plugin, each with the value that it has after ``__post_init__``."""
    made.add(("train_batch_size",), AUTO)
    made.add(("train_micro_batch_size_per_gpu",), AUTO)
    _add(made, ("gradient_accumulation_steps",), fields["gradient_accumulation_steps"])
    _add(made, ("zero_optimization", "stage"), fields["zero_stage"])
    for name in DEVICES:
        device, nvme = fields[name], fields.get(name.replace("_device", "_nvme_path"))
        path = ("zero_optimization", name.removesuffix("_device"))
        _add(made, (*path, "device"), device)
        if nvme is not None:
            is_used = device.value == "nvme"
            value = nvme.value if is_used else UNKNOWN if device.value is UNKNOWN else None
            made.add((*path, "nvme_path"), value, nvme if is_used and nvme.member is not None else device)
    gathers = ("zero_optimization", "stage3_gather_16bit_weights_on_model_save")
    _add(made, gathers, fields["zero3_save_16bit_model"])
    clipping = fields["gradient_clipping"]
    if plain(clipping.value) if isinstance(clipping.value, Node) else clipping.value:
        _add(made, ("gradient_clipping",), clipping)


def add_precision(made: MadeConfig, precision: SourceSetting) -> None:
    """Write what ``set_mixed_precision`` adds."""
    word = precision.value.lower() if isinstance(precision.value, str) else UNKNOWN
    if word not in ("no", "fp16", "bf16", "fp8"):
        word = UNKNOWN
    made.add(("fp16", "enabled"), word if word is UNKNOWN else word == "fp16", precision)
    if word == "fp16":
        made.add(("fp16", "auto_cast"), True, precision)
    made.add(("bf16", "enabled"), word if word is UNKNOWN else word in ("bf16", "fp8"), precision)


def replace_precision(made: MadeConfig, word: Any) -> None:
    """Write what ``set_mixed_precision`` adds for a precision of the training arguments, which override the YAML."""
    made.remove("fp16")
    made.remove("bf16")
    add_precision(made, SourceSetting(word))


def _add(made: MadeConfig, path: KeyPath, field: SourceSetting) -> None:
    made.add(path, field.value, field)


def _fields(launch: AccelerateLaunch) -> dict[str, SourceSetting]:
    """The fields of a plugin that gets the settings of a YAML as variables of the environment."""
    fields = {name: launch.setting(name) for name in SETTINGS.values()}
    values = {name: field.value for name, field in fields.items()}
    steps, unset = values["gradient_accumulation_steps"], launch.otherwise("gradient_accumulation_steps")
    values["gradient_accumulation_steps"] = unset if steps is None else _steps(steps)
    values["zero_stage"] = _stage(values["zero_stage"])
    for name in DEVICES:
        device = values[name]
        values[name] = UNKNOWN if device is UNKNOWN or device is False else _device(device)
    gathers = values["zero3_save_16bit_model"]
    values["zero3_save_16bit_model"] = UNKNOWN if gathers is UNKNOWN else str(gathers).lower() == "true"
    values["gradient_clipping"] = _norm(values["gradient_clipping"], launch.otherwise("gradient_clipping"))
    found = {name: SourceSetting(value, fields[name].path, fields[name].member) for name, value in values.items()}
    paths = [name.replace("_device", "_nvme_path") for name in DEVICES]
    return found | {
        name: launch.exported.get(name, SourceSetting("none")) for name in paths if launch.has_plugin_field(name)
    }


def field_of_text(name: str, text: str) -> Any:
    """What the plugin makes of the text of a variable for one of its fields; UNKNOWN if it raises."""
    if name == "gradient_accumulation_steps":
        return int(text) if is_digits(text) else text
    if name == "zero_stage":
        return _stage(text)
    if name == "gradient_clipping":
        return _norm(text, AUTO)
    return text.lower() == "true" if name == "zero3_save_16bit_model" else text


def _steps(value: Any) -> Any:
    text = str(value)
    return int(text) if is_digits(text) else UNKNOWN


def _stage(value: Any) -> Any:
    if value is None:
        return 2
    try:
        return int(str(value)) if value is not UNKNOWN else UNKNOWN
    except ValueError:
        return UNKNOWN


def _device(value: Any) -> str:
    return "none" if value is None else str(value).lower()


def _norm(value: Any, unset: Any) -> Any:
    """The norm to clip at; None for "none", the word of older releases for a setting that is not given."""
    if value is None or str(value).lower() == unset:
        return AUTO if unset == AUTO else None
    try:
        return float(str(value).lower()) if value is not UNKNOWN else UNKNOWN
    except ValueError:
        return UNKNOWN
