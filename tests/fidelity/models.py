"""The pydantic models of the installed DeepSpeed, one for each strict section of a config, and their fields."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticUndefined

NAMES = {
    ("zero_optimization",): "deepspeed.runtime.zero.config:DeepSpeedZeroConfig",
    ("fp16",): "deepspeed.runtime.precision_config:DeepSpeedFP16Config",
    ("bf16",): "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    ("hybrid_engine",): "deepspeed.runtime.config:HybridEngineConfig",
    ("tensor_parallel",): "deepspeed.runtime.tensor_parallel.config:TPTrainingConfig",
    ("compile",): "deepspeed.compile.config:CompileConfig",
    ("tensorboard",): "deepspeed.monitor.config:TensorBoardConfig",
    ("wandb",): "deepspeed.monitor.config:WandbConfig",
    ("comet",): "deepspeed.monitor.config:CometConfig",
    ("csv_monitor",): "deepspeed.monitor.config:CSVConfig",
    ("comms_logger",): "deepspeed.comm.config:CommsLoggerConfig",
    ("weight_quantization",): "deepspeed.inference.config:WeightQuantConfig",
    ("timers", "throughput"): "deepspeed.utils.config:DeepSpeedThroughputTimerConfig",
}
BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
NO_DEFAULT = PydanticUndefined


@dataclass(frozen=True)
class Field:
    """A field of a model: its name in Python, the key of the config, its default, its bounds as in JSON Schema."""

    name: str
    key: str
    default: Any
    bounds: dict[str, float]


def _model(name: str) -> Any:
    module, _, member = name.partition(":")
    try:
        return getattr(importlib.import_module(module), member, None)
    except ModuleNotFoundError:
        return None


# Those of the installed release; what has none there is read key by key.
MODELS = {section: model for section, name in NAMES.items() if (model := _model(name))}


def fields(model: Any) -> list[Field]:
    """The fields of a model of pydantic 2, or of pydantic 1, which DeepSpeed used before 0.15."""
    if hasattr(model, "model_fields"):
        return [
            Field(
                name,
                field.alias or name,
                field.default,
                {
                    BOUNDS[kind]: getattr(bound, kind)
                    for bound in field.metadata
                    for kind in BOUNDS
                    if hasattr(bound, kind)
                },
            )
            for name, field in model.model_fields.items()
        ]
    return [
        Field(
            name,
            field.alias,
            NO_DEFAULT if field.required or field.field_info.default_factory else field.default,
            {BOUNDS[kind]: bound for kind in BOUNDS if (bound := getattr(field.field_info, kind)) is not None},
        )
        for name, field in model.__fields__.items()
    ]
