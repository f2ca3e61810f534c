"""The config as DeepSpeed gets it from the stack: filled, matched, completed and overwritten, in the stack's own order.

On the Trainer's stack that is TrainingArguments (``trainer_config_process``), DeepSpeedPlugin, ``set_mixed_precision``,
``trainer_config_finalize`` at the beginning of the training, and ``Accelerator._prepare_deepspeed``. What each does in
which release is in ``schemas/transformers.json`` and ``schemas/accelerate.json``; what follows from something
unknown is unknown.
"""

from __future__ import annotations

from ds_lint.semantics.config import once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import PreparedConfig


@once
def prepare(config: Config) -> PreparedConfig:
    """What the stack that loads the config makes of it; with DeepSpeed, or an unknown stack, it stays."""
    from ds_lint.semantics import arguments
    from ds_lint.semantics.preparation.prepared_config import StackRefusal
    from ds_lint.semantics.preparation.stages import Stages

    stages = Stages(config)
    if config.stack == "trainer":
        refused = arguments.refusals(config)
        stages.prepared.refusals += [StackRefusal(message, "transformers", "creation") for _, message in refused]
        stages.run("transformers", "arguments")
    if stages.is_prepared_by_accelerate:
        stages.run("accelerate", "plugin")
        stages.run("accelerate", "precision")
        if config.stack == "trainer" and stages.are_matched_again:
            stages.prepared.mismatches.clear()
            stages.run("transformers", "arguments", is_again=True)
    if config.stack == "trainer":
        stages.run("transformers", "training")
    if stages.is_prepared_by_accelerate:
        stages.run("accelerate", "prepare")
        stages.look_for_autos()
    return stages.prepared
