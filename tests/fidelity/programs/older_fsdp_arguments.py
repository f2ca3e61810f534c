"""What an older transformers and the plugin make of ``fsdp`` and ``fsdp_config``; its packages are on ``PYTHONPATH``.

Input and output are those of ``fsdp_arguments.py``; the plugin gets variables of the environment.
"""

from __future__ import annotations

import copy
import json
import logging
import os
import sys
import warnings
from typing import Any

import torch
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils import dataclasses as plugins
from fsdp_arguments import FLAGS, OTHER_VALUES
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


def unread(arguments: dict[str, Any]) -> list[str]:
    found, values = [], arguments["fsdp_config"]
    for name in values:
        others = [values[name], *OTHER_VALUES.get(name.removeprefix("fsdp_"), FLAGS)]
        outcomes = [outcome({**arguments, "fsdp_config": {**values, name: value}}) for value in others]
        if all(one == outcomes[0] for one in outcomes):
            found.append(name)
    return found


def main() -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    plugins.is_cuda_available = lambda *_, **__: True
    torch.cuda.current_device = lambda: "cpu"
    for arguments in json.load(sys.stdin):
        error, _ = outcome(arguments)
        sys.__stdout__.write("\0" + json.dumps({"error": error, "unread": [] if error else unread(arguments)}) + "\n")


if __name__ == "__main__":
    main()
