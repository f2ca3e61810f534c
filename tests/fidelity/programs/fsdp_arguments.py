"""What TrainingArguments and Accelerate's plugin make of ``fsdp`` and ``fsdp_config``, with GPUs that are pretended.

Standard input is a JSON array of training arguments; standard output is one JSON object a line: what is raised, and the
keys of ``fsdp_config`` without whose values the plugin is the same, whatever value they have.
"""

from __future__ import annotations

import copy
import json
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils import dataclasses as plugins
from transformers import TrainingArguments

Outcome = Callable[[dict[str, Any]], tuple[str | None, Any]]
FLAGS = [True, False]
OTHER_VALUES: dict[str, list[Any]] = {
    "version": [1, 2],
    "cpu_offload": FLAGS,
    "auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"],
    "min_num_params": [10, 20],
    "transformer_layer_cls_to_wrap": [["A"], ["B"]],
    "state_dict_type": ["FULL_STATE_DICT", "SHARDED_STATE_DICT"],
    "reshard_after_forward": [*FLAGS, "full_shard", "shard_grad_op"],
    "backward_prefetch": ["backward_pre", "backward_post"],
}


def outcome(arguments: dict[str, Any]) -> tuple[str | None, Any]:
    """What is raised, and the plugin."""
    try:
        made = TrainingArguments("unused", report_to=[], **copy.deepcopy(arguments)).fsdp_plugin_args
        if made is not None:
            plugin = vars(FullyShardedDataParallelPlugin(**made))
            return None, {name: str(value) for name, value in plugin.items() if name != "param_init_fn"}
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200], None
    return None, None


def unread(arguments: dict[str, Any], outcome: Outcome) -> list[str]:
    found = []
    values = arguments.get("fsdp_config") or {}
    for name in values:
        others = OTHER_VALUES.get(name.removeprefix("fsdp_"), FLAGS)
        outcomes = [outcome({**arguments, "fsdp_config": {**values, name: value}}) for value in [values[name], *others]]
        if all(one == outcomes[0] for one in outcomes):
            found.append(name)
    return found


def main(outcome: Outcome) -> None:
    logging.disable()
    warnings.simplefilter("ignore")
    plugins.is_cuda_available = lambda *_, **__: True
    torch.cuda.current_device = lambda: "cpu"
    for arguments in json.load(sys.stdin):
        error, _ = outcome(arguments)
        answer = {"error": error, "unread": [] if error else unread(arguments, outcome)}
        sys.__stdout__.write("\0" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(outcome)
