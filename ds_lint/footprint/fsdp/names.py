"""What the settings of FSDP are called where a run has them: in a YAML, on a command line, or in training arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.semantics.fsdp_arguments import fsdp_arguments

if TYPE_CHECKING:
    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.changes import Write
    from ds_lint.semantics.config import Config

_OF_TRAINER = {  # among the training arguments; those of other names there
    "fsdp_offload_params": "cpu_offload",
    "fsdp_sharding_strategy": "reshard_after_forward",
}


def as_written(advice: Advice, config: Config) -> Advice:
    """Advice about settings, by the names that they have in the run of a config."""
    arguments = fsdp_arguments(config)
    is_of_trainer = arguments is not None and arguments.is_on
    is_command = not is_of_trainer and config.accelerate is not None and config.accelerate.is_command

    def named(write: Write) -> Write:
        if write.place != "config":
            return write
        if is_of_trainer:
            name = _OF_TRAINER.get(write.key, write.key.removeprefix("fsdp_"))
            return write._replace(key=f"fsdp_config.{name}")
        if is_command:
            value = str(write.value).lower() if isinstance(write.value, bool) else write.value
            return write._replace(place="arguments", value=value)
        return write._replace(key=f"fsdp_config.{write.key}")

    changes = (change._replace(writes=tuple(map(named, change.writes))) for change in advice.changes)
    return advice._replace(changes=tuple(changes))
