"""``generate`` of the model after a step under ZeRO-3, on ranks that stop at different lengths.

ZeRO-3 gathers each weight from all ranks, so a rank that has stopped must go on with the others (``synced_gpus`` in
transformers/generation/utils.py), or they wait for it without end.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import whole_weights
from ds_lint.smoke.rank import data, training_model
from ds_lint.smoke.records.job import GENERATED, GENERATING, Generated, Job

if TYPE_CHECKING:
    from ds_lint.smoke.observe.observation import Watch

_PROMPT = 4  # tokens
_FEWEST, _LENGTHS = 2, 3  # new tokens of rank 0; the next ranks generate more, and then as few again
_TICK = 0.01  # seconds


def observe(job: Job, engine: Any, rank: int, watch: Watch) -> None:
    """The tokens of this rank, and those of the same weights in one piece."""
    recipe = training_model.recipe_of(job)
    prompt = data.batch(recipe, 1, 0, rank)["input_ids"][:, :_PROMPT].to(engine.device)
    request = {
        "inputs": prompt,
        "attention_mask": torch.ones_like(prompt),
        "max_new_tokens": _FEWEST + rank % _LENGTHS * 2,
        "do_sample": False,
        "num_beams": 1,
    }
    watch.enter("collect the weights")
    weights = whole_weights.live(engine)
    generated = watch.evidence.generated = Generated()
    watch.enter("generate without ZeRO")
    try:
        generated.expected = _tokens(_whole(recipe, engine, weights), request, synced_gpus=False)
    except Exception as error:  # noqa: BLE001 - a model that cannot generate, whatever the config is
        generated.unable = f"{type(error).__name__}: {error}"
    if not _all_have(generated.expected is not None, engine.device):
        generated.unable = generated.unable or "another rank cannot generate"
        return
    watch.enter(GENERATING)
    # The Trainer and Accelerate tell transformers of ZeRO-3; a script without them has to ask for it.
    synced = {"synced_gpus": True} if job.stack == "deepspeed" else {}
    generated.tokens = _tokens(engine.module, request, **synced)
    watch.enter(GENERATED)
    _await_others(job, rank)


def _tokens(model: Any, request: dict[str, Any], **more: Any) -> list[int]:
    model.eval()
    with torch.no_grad():
        found: list[int] = model.generate(**request, **more)[0].tolist()
    return found


def _whole(recipe: training_model.Recipe, engine: Any, weights: dict[str, torch.Tensor]) -> Any:
    """The model of the engine with whole weights, and with its buffers, which DeepSpeed may have cast."""
    model = training_model.build_whole(recipe).to(engine.device)
    buffers = dict(engine.module.named_buffers())
    for name, parameter in model.named_parameters():
        parameter.data = weights[name]
    for name, buffer in model.named_buffers():
        buffer.data = buffers[name].clone()
    return model


def _all_have(it: bool, device: Any) -> bool:
    """Whether something is true on every rank."""
    answer = torch.tensor(int(it), device=device)
    torch.distributed.all_reduce(answer, op=torch.distributed.ReduceOp.MIN)
    return bool(answer)


def _await_others(job: Job, rank: int) -> None:
    """Wait at a file for each rank: one that ended would break the connections of ranks that hang."""
    paths = [os.path.join(job.folder, f"generated-{number}") for number in range(job.world_size)]
    with open(paths[rank], "wb"):
        pass
    while not all(map(os.path.exists, paths)):
        time.sleep(_TICK)
