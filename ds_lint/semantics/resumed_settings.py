"""What decides of a config whether it loads a checkpoint."""

from __future__ import annotations

from ds_lint.checkpoints.resumed_config import ResumedConfig
from ds_lint.semantics.features import certain_dtype, is_on, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config


def resumed_config(config: Config) -> ResumedConfig:
    """The settings of a config that resumes."""
    return ResumedConfig(
        stage=zero_stage(config),
        dtype=certain_dtype(config),
        loads_universal=is_on(config, "checkpoint", "load_universal"),
        is_elastic=is_on(config, "zero_optimization", "elastic_checkpoint"),
        optimizer=_text(config, "optimizer", "type", lower=True),
        scheduler=_text(config, "scheduler", "type"),
        stack=config.stack,
    )


def _text(config: Config, *path: str, lower: bool = False) -> str | None:
    node = config.node(*path)
    if node is None or node.kind != "string":
        return None
    text = str(node.value)
    return text.lower() if lower else text
