"""What ``Accelerator`` makes of a precision and a DeepSpeed config. Runs in a process of its own.

Standard input has one JSON object, by number: the precision, and the sections ``fp16`` and ``bf16`` of the config.
Standard output has what becomes of each, as JSON in the last line.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import deepspeed  # noqa: F401 - whose module is changed
from accelerate import Accelerator, DeepSpeedPlugin
from accelerate.state import AcceleratorState, GradientState, PartialState


def outcome(precision: str | None, sections: dict[str, Any]) -> dict[str, Any]:
    """The error, or which formats the config has switched on."""
    for state in (AcceleratorState, PartialState, GradientState):
        state._shared_state.clear()
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}, **sections}
    try:
        accelerator = Accelerator(mixed_precision=precision, deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config))
    except ValueError as error:
        return {"error": str(error)}
    made = accelerator.state.deepspeed_plugin.deepspeed_config
    return {"error": None, **{name: made[name]["enabled"] for name in ("fp16", "bf16")}}


def main() -> None:
    logging.disable()
    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # an op for ranks of one machine
    cases = json.load(sys.stdin)
    print(json.dumps([outcome(precision, sections) for precision, sections in cases]))


if __name__ == "__main__":
    main()
