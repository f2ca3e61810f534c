"""What configs leave behind on several ranks: ``imprint.py RANKS FILE [MODEL]``, a JSON list of configs.

``MODEL`` is a small ``llama`` or ``mixtral``; without it, some layers.

For each config a group of ranks is forked, which trains some steps and reads off, without asking DeepSpeed: hashes of
every tensor that a rank holds, the collectives that it called, how much memory it had pinned, and the files that it
wrote. Two configs of which one has a key without effect leave the same.
"""

from __future__ import annotations

import collections
import hashlib
import json
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import deepspeed
import deepspeed.ops
import deepspeed.runtime.zero.muon.muon_optimizer  # compiles for seconds at import
import deepspeed.runtime.zero.stage3
import deepspeed.runtime.zero.stage_1_and_2
import torch
import torch._dynamo
from transformers import AutoConfig, AutoModelForCausalLM

from ds_lint.smoke.standins import ops

Loss = Callable[[Any, int, int], torch.Tensor]  # of an engine, a step and a rank
STEPS, HIDDEN = 2, 64
COLLECTIVES = (
    "all_reduce",
    "reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "reduce_scatter",
    "reduce_scatter_tensor",
    "all_to_all_single",
)
deepspeed.ops.__compatible_ops__ = collections.defaultdict(bool)  # or each rank compiles its shared memory


def watch(called: list[list[Any]], pinned: list[int]) -> None:
    """Note each collective with the dtype, the elements and the ranks of it, and each tensor that is to be pinned."""

    def watched(name: str) -> None:
        function = getattr(torch.distributed, name)

        def call(*arguments: Any, **named: Any) -> Any:
            given = [*arguments, *named.values()]
            tensor = next((one for one in given if isinstance(one, torch.Tensor)), None)
            group = next((one for one in given if isinstance(one, torch.distributed.ProcessGroup)), None)
            if tensor is not None:
                called.append([name, str(tensor.dtype), tensor.numel(), torch.distributed.get_world_size(group)])
            return function(*arguments, **named)

        setattr(torch.distributed, name, call)

    for name in COLLECTIVES:
        watched(name)

    def pin(tensor: torch.Tensor, **_: Any) -> torch.Tensor:
        pinned.append(tensor.numel())
        return tensor

    deepspeed.get_accelerator().pin_memory = pin  # of a CPU: returns what it is given
    torch.Tensor.pin_memory = pin  # type: ignore[method-assign]


def digest(tensor: torch.Tensor) -> str:
    """The dtype, the elements and the bytes of a tensor, in a few letters."""
    data = tensor.detach().contiguous().view(torch.uint8) if tensor.numel() else torch.empty(0, dtype=torch.uint8)
    return f"{tensor.dtype} {tensor.numel()} {hashlib.sha256(data.numpy().tobytes()).hexdigest()[:12]}"


def parts(engine: Any) -> list[torch.Tensor]:
    """What this rank has of the model's parameters: themselves, and the partitions of stage 3, the second one too."""
    found = []
    for parameter in engine.module.parameters():
        places = (parameter, getattr(parameter, "ds_tensor", None), getattr(parameter, "ds_secondary_tensor", None))
        found += [place.data for place in places if isinstance(place, torch.Tensor)]
    return found


def held(engine: Any) -> dict[str, list[str]]:
    """Every tensor of the model and of the optimizer, as it lies in this rank."""
    inner = getattr(engine.optimizer, "optimizer", engine.optimizer)
    tensors = [parameter for group in inner.param_groups for parameter in group["params"]]
    tensors += [value for state in inner.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    return {
        "model": [digest(part) for part in parts(engine)],
        "optimizer": sorted(digest(tensor.data) for tensor in tensors if tensor is not None),
    }


def contents(path: Path) -> list[str]:
    """What a file of a checkpoint holds, without the config that DeepSpeed writes into it."""
    found = []

    def walk(value: Any, place: str) -> None:
        if isinstance(value, torch.Tensor):
            found.append(f"{place} {digest(value)}")
        elif isinstance(value, dict):
            for key, item in value.items():
                if key not in ("ds_config", "ds_version"):
                    walk(item, f"{place}.{key}")
        elif isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                walk(item, f"{place}.{number}")

    walk(torch.load(path, weights_only=False), path.name)
    return sorted(found)


def layers() -> tuple[torch.nn.Module, Loss]:
    def loss_of(engine: Any, step: int, rank: int) -> torch.Tensor:
        data = torch.randn(2, HIDDEN, generator=torch.Generator().manual_seed(100 * step + rank))
        return engine(data.to(next(engine.module.parameters()).dtype)).float().pow(2).mean()

    model = torch.nn.Sequential(
        torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN, bias=False)
    )
    return model, loss_of


def tokens(kind: str, **sizes: int) -> tuple[torch.nn.Module, Loss]:
    """A model of transformers; all ranks get the same tokens, as tensor parallelism demands."""

    def loss_of(engine: Any, step: int, rank: int) -> torch.Tensor:
        given = torch.randint(0, HIDDEN, (2, 8), generator=torch.Generator().manual_seed(step))
        return engine(input_ids=given, labels=given).loss

    width = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = AutoConfig.for_model(kind, vocab_size=HIDDEN, **width, num_key_value_heads=2, **sizes)
    return AutoModelForCausalLM.from_config(config, attn_implementation="eager").float(), loss_of


def train(config: dict[str, Any], rank: int, folder: str) -> dict[str, Any]:
    called: list[list[Any]] = []
    pinned: list[int] = []
    watch(called, pinned)
    torch.manual_seed(0)
    model, loss_of = MODEL()
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    losses: list[float] = []
    between = 0
    for step in range(STEPS * engine.gradient_accumulation_steps()):
        loss = loss_of(engine, step, rank)
        losses.append(loss.item())
        between = sum(part.numel() for part in parts(engine))
        engine.backward(loss)
        engine.step()
    imprint = {
        "losses": losses,
        "between the passes": between,
        "optimizer class": type(engine.optimizer).__name__,
        "called": called[:],
        "pinned": sum(pinned),
        **held(engine),
    }
    engine.save_checkpoint(f"{folder}/checkpoint")
    torch.distributed.barrier()
    written = [path for path in Path(folder).rglob("*") if path.is_file() and path.name.endswith((".pt", ".swp"))]
    imprint["files"] = sorted(str(path.relative_to(folder)) for path in written)
    imprint["saved"] = [line for path in sorted(written) if path.suffix == ".pt" for line in contents(path)]
    return imprint


def one_rank(config: dict[str, Any], rank: int, ranks: int, folder: str) -> None:
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_SIZE=str(ranks))
    os.environ.update(CROSS_RANK="0", CROSS_SIZE="1")
    os.chdir(folder)
    store = torch.distributed.FileStore(f"{folder}/store", ranks)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    try:
        answer = train(config, rank, folder)
    except Exception as error:  # what a library raises is an answer
        answer = {"error": f"{type(error).__name__}: {error}", "where": traceback.format_exc()[-1500:]}
    Path(folder, f"answer-{rank}.json").write_text(json.dumps(answer), encoding="utf-8")
    os._exit(0)


def imprints(config: dict[str, Any], ranks: int) -> list[Any]:
    """What each rank says; None of a rank that died or had to be ended."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        # in its own folder: a path in the config is relative to it
        processes = [context.Process(target=one_rank, args=(config, rank, ranks, folder)) for rank in range(ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(60)
            if process.is_alive():
                process.kill()
                process.join()
        answers = [Path(folder, f"answer-{rank}.json") for rank in range(ranks)]
        return [json.loads(one.read_text(encoding="utf-8")) if one.exists() else None for one in answers]


if __name__ == "__main__":
    ops.install(builds=False)
    torch.set_num_threads(1)  # a forked OpenMP pool hangs
    torch._dynamo.config.disable = True
    deepspeed.get_accelerator().is_fp16_supported = deepspeed.get_accelerator().is_bf16_supported = lambda: True
    models = {
        "llama": partial(tokens, "llama"),
        "mixtral": partial(tokens, "mixtral", num_local_experts=4, num_experts_per_tok=1),
    }
    MODEL = models[sys.argv[3]] if sys.argv[3:] else layers
    if sys.argv[3:]:
        from deepspeed.module_inject.auto_ep_presets import base

        # AutoEP 0.19.8 raises a TypeError at the registry in which transformers 5 records router logits.
        base._install_instance_transformers_output_recorders = lambda *_arguments, **_more: True
    configs = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    found = [imprints(config, int(sys.argv[1])) for config in configs]
    print()
    print(json.dumps(found))
