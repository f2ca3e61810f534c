"""What an older transformers and the plugin make of ``fsdp`` and ``fsdp_config``; its packages are on ``PYTHONPATH``.

Input and output are those of ``fsdp_arguments.py``; the plugin gets variables of the environment.
"""

from __future__ import annotations

import copy
import os
from typing import Any

from accelerate.utils import FullyShardedDataParallelPlugin
from fsdp_arguments import main
from transformers import TrainingArguments


def outcome(arguments: dict[str, Any]) -> tuple[str | None, Any]:
    """What is raised, and the plugin with what the Trainer sets afterwards."""
    before = dict(os.environ)
    try:
        made = TrainingArguments("unused", report_to=[], **copy.deepcopy(arguments))
        if not made.fsdp:
            return None, None
        plugin = FullyShardedDataParallelPlugin()
        for name in ("limit_all_gathers", "activation_checkpointing"):
            setattr(plugin, name, made.fsdp_config.get(name, getattr(plugin, name)))
        return None, {name: str(value) for name, value in vars(plugin).items() if name != "param_init_fn"}
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200], None
    finally:
        os.environ.clear()
        os.environ.update(before)


if __name__ == "__main__":
    main(outcome)
