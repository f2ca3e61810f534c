"""What Accelerate does with scripts that prepare optimizers and schedulers: ``prepared_optimizers.py CASES``.

CASES is a JSON list of the text of a script and a config. The answer has the error of each, None if it came to its end.
"""

from __future__ import annotations

import json
import os
import sys

from answering import answer

os.environ.update(ACCELERATE_USE_DEEPSPEED="true", ACCELERATE_TORCH_DEVICE="cpu")
os.environ.update(LOCAL_SIZE="1", LOCAL_WORLD_SIZE="1", CROSS_RANK="0", CROSS_SIZE="1")  # else it looks for one of MPI
import accelerate
import transformers
from accelerate.state import AcceleratorState, GradientState

from ds_lint.smoke.standins import ops

ops.install(builds=False)
SIZES = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 32}


def small(*_: object) -> transformers.LlamaForCausalLM:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, **SIZES))


transformers.AutoModelForCausalLM.from_pretrained = small


def error_of(script: str, config: dict[str, object]) -> str | None:
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()
    plugin = accelerate.DeepSpeedPlugin(hf_ds_config=config)
    names = {"Accelerator": lambda: accelerate.Accelerator(deepspeed_plugin=plugin)}
    try:
        exec(script.replace("from accelerate import Accelerator\n", ""), names)  # noqa: S102 - the text that the rules read
    except Exception as error:  # what a library raises is an answer
        return f"{type(error).__name__}: {error}"
    return None


answer(errors=[error_of(*case) for case in json.loads(sys.argv[1])])
