"""A training script of a rule page on this rank: ``page_script.py FOLDER STACK``, with train.py and config.json in it.

``model`` beside them is a small Llama. Told are the elements of the tensors in what the script saved, by name, and of
the parameters of the models that ``from_pretrained`` returned or ``deepspeed.initialize`` got from the script; and
the variables of the script that are numbers.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import deepspeed
import torch
import torch.distributed
import transformers
from answering import answer
from safetensors.torch import load_file

from ds_lint.smoke.standins import ops

ops.install(builds=False)  # a rank that is ended while it compiles leaves a lock, and every later build waits
folder, stack = sys.argv[1:]
os.chdir(folder)
if stack == "accelerate":
    os.environ.update(ACCELERATE_USE_DEEPSPEED="true", ACCELERATE_DEEPSPEED_CONFIG_FILE="config.json")
    from accelerate import PartialState

    state = PartialState()  # without GPUs, it takes every rank for the only one
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    state.process_index, state.local_process_index, state.num_processes = rank, rank, ranks
loaded: list[dict[str, int]] = []
initialize = deepspeed.initialize
load = transformers.PreTrainedModel.from_pretrained.__func__


def count(model: torch.nn.Module) -> None:
    loaded.append({name: parameter.numel() for name, parameter in model.named_parameters()})


def loading(kind: type, *arguments: object, **keywords: object) -> transformers.PreTrainedModel:
    """``from_pretrained``, of which the elements are counted."""
    model = load(kind, *arguments, **keywords)
    count(model)
    return model


def initializing(*arguments: object, **keywords: object) -> tuple[object, ...]:
    """``deepspeed.initialize`` with a model whose elements are counted."""
    count(keywords["model"])
    return initialize(*arguments, **keywords)


if stack == "deepspeed":
    deepspeed.initialize = initializing
else:
    transformers.PreTrainedModel.from_pretrained = classmethod(loading)
names = runpy.run_path("train.py")  # kept, as the variables of a script live as long as it runs
torch.distributed.barrier()
found = [*Path("out").glob("*.safetensors")]
answer(
    saved={name: tensor.numel() for path in found for name, tensor in load_file(path).items()},
    loaded=loaded,
    numbers={name: value for name, value in names.items() if type(value) is int},
)
