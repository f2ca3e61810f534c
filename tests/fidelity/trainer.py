"""What the Trainer and Accelerate make of a config before DeepSpeed sees it: their own code, without a process group.

TrainingArguments, DeepSpeedPlugin and ``Accelerator._prepare_deepspeed`` call these functions in this order.
"""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

from accelerate.utils import DeepSpeedPlugin
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

HIDDEN_SIZE = 64
ARGUMENTS = {
    "world_size": 1,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 1,
    "max_grad_norm": 1.0,
    "learning_rate": 5e-5,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
    "fp16": False,
    "fp16_full_eval": False,
    "bf16": False,
    "bf16_full_eval": False,
    "save_on_each_node": False,
    "parallelism_config": None,
}


def prepare(config: dict[str, Any] | str) -> dict[str, Any]:
    """The config as deepspeed.initialize gets it from a default Trainer; raises what the Trainer raises."""
    arguments = SimpleNamespace(**ARGUMENTS, get_warmup_steps=lambda _steps: 0)
    config = copy.deepcopy(config)
    trainer = HfTrainerDeepSpeedConfig(config)
    trainer.trainer_config_process(arguments)
    plugin = DeepSpeedPlugin(hf_ds_config=trainer)
    plugin.set_mixed_precision("no")
    model = SimpleNamespace(config=SimpleNamespace(hidden_size=HIDDEN_SIZE))
    trainer.trainer_config_finalize(arguments, model, num_training_steps=100)
    plugin.hf_ds_config = trainer
    plugin.deepspeed_config = trainer.config
    if "optimizer" not in trainer.config:
        trainer.config["zero_allow_untested_optimizer"] = True  # the Trainer's own optimizer is torch's
    plugin.deepspeed_config["steps_per_print"] = float("inf")
    plugin.deepspeed_config_process(
        must_match=False,
        **{
            "gradient_clipping": 1.0,
            "zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
            "train_micro_batch_size_per_gpu": 1,
            "train_batch_size": 1,
            "zero_optimization.reduce_bucket_size": HIDDEN_SIZE**2,
            "zero_optimization.stage3_prefetch_bucket_size": int(0.9 * HIDDEN_SIZE**2),
            "zero_optimization.stage3_param_persistence_threshold": 10 * HIDDEN_SIZE,
        },
    )
    return plugin.deepspeed_config
