"""What the real engine of one rank of many holds: ``held.py JOB``, a job as JSON (``tests/fidelity/holdings.py``).

The other ranks are torch's fake group, so no number is right, but every tensor has the size that it has in a real run. A
tensor counts by the storage behind it, each storage once and whole, so the arithmetic of ds-lint has no part in it. What
no role claims is found by the garbage collector and counts as ``other``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

JOB = json.loads(sys.argv[1])
os.environ.update(RANK=str(JOB["rank"]), WORLD_SIZE=str(JOB["ranks"]), LOCAL_RANK="0")

import deepspeed  # noqa: E402 - the accelerator reads the environment
import torch  # noqa: E402
import transformers  # noqa: E402
from answering import answer  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from ds_lint.smoke.standins import ops  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
MASTERS = ("fp32_partitioned_groups_flat", "single_partition_of_fp32_groups", "fp32_groups_flat", "fp32_groups")
GRADIENTS = ("averaged_gradients", "all_grad_tensors", "grad_partitions_flat_buffer", "accumulated_grads_in_cpu")


def main() -> None:
    """Make the engine, train, and answer what was held at each moment."""
    torch.set_num_threads(1)
    ops.install(builds=False)
    _be_one_of_many()
    engine = _engine(_model())
    moments = {"initialized": _holding(engine)}
    for step in range(JOB["steps"]):
        for micro in range(engine.gradient_accumulation_steps()):
            if micro:
                moments["window"] = _holding(engine)
                engine.step()
            engine.backward(engine(**_batch(engine.module)).loss)
        if step == JOB["steps"] - 1:
            moments["boundary"] = _holding(engine)
        engine.step()
        moments["stepped"] = _holding(engine)
    answer(
        tensors=[[name, getattr(p, "ds_numel", p.numel()), p.requires_grad] for name, p in _parameters(engine.module)],
        moments=moments,
    )


def _be_one_of_many() -> None:
    """Join a group whose other ranks do not exist; what they would send stays as it is."""
    accelerator = deepspeed.get_accelerator()
    accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
    accelerator.supported_dtypes = lambda: list(DTYPES.values())
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=JOB["rank"], world_size=JOB["ranks"])
    deepspeed.init_distributed(verbose=False)
    gather = torch.distributed.all_gather_into_tensor

    def unset(output: Any, given: Any, group: Any = None, async_op: bool = False) -> Any:
        return gather(output, given, group=group, async_op=True) if async_op else None

    torch.distributed.all_gather_into_tensor = unset


def _model() -> Any:
    """The model, within ``zero.Init`` at stage 3."""
    config = getattr(transformers, JOB["model"]["config"])(**JOB["model"]["values"])
    make = getattr(transformers, JOB["model"]["class"])
    torch.set_default_dtype(DTYPES[JOB["dtype"]])
    if JOB["config"]["zero_optimization"]["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=JOB["config"]):
            model = make(config)
    else:
        model = make(config)
    torch.set_default_dtype(torch.float32)
    if JOB["lora"]:
        import peft

        model = peft.get_peft_model(model, peft.LoraConfig(**JOB["lora"]), autocast_adapter_dtype=False)
    return model


def _engine(model: Any) -> Any:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return deepspeed.initialize(model=model, model_parameters=trained, config=JOB["config"])[0]


def _batch(model: Any) -> dict[str, Any]:
    words = torch.ones(1, 8, dtype=torch.long)
    batch: dict[str, Any] = {"input_ids": words, "labels": words}
    return batch | {name: torch.zeros(shape) for name, shape in JOB["model"].get("inputs", {}).items()}


# ---------------------------------------------------------------------------------------------------------- counting


def _holding(engine: Any) -> dict[str, dict[str, int]]:
    """Elements by role and dtype; a storage with several roles counts for the first."""
    optimizer, parameters = engine.optimizer, [parameter for _, parameter in _parameters(engine.module)]
    masters = list(_tensors(getattr(optimizer, name, None) for name in MASTERS))
    inner = {id(one): one for one in (getattr(optimizer, "optimizer", optimizer), engine.basic_optimizer)}.values()
    swap = getattr(optimizer, "optimizer_swapper", None)
    roles: dict[str, Iterable[Any]] = {
        "parameters": [getattr(parameter, "ds_tensor", parameter.data) for parameter in parameters],
        "persistent": [parameter.data for parameter in parameters],
        "secondary": [getattr(parameter, "ds_secondary_tensor", None) for parameter in parameters],
        "swap_buffers": vars(swap) if swap else (),
        "master_weights": masters,
        "optimizer_states": [state for one in inner for state in one.state.values()],
        "gradients": [
            [getattr(optimizer, name, None) for name in GRADIENTS],
            [(parameter.grad, getattr(parameter, "grad_accum", None)) for parameter in parameters],
            [master.grad for master in masters],
        ],
        "buckets": [bucket.buffer for bucket in getattr(optimizer, "ipg_buckets", {}).values()],
        "buffers": engine.module.buffers(),
    }
    gc.collect()
    everything = {"other": [one for one in gc.get_objects() if isinstance(one, torch.Tensor)]}
    seen: set[int] = set()
    return {role: _count(tensors, seen) for role, tensors in (roles | everything).items()}


def _count(tensors: Iterable[Any], seen: set[int]) -> dict[str, int]:
    """Elements of storages that have not been seen, by dtype; scalars such as the number of a step do not count."""
    found: Counter[str] = Counter()
    for tensor in _tensors(tensors):
        storage = tensor.untyped_storage()
        if tensor.dim() == 0 or tensor.is_meta or storage.nbytes() == 0 or storage.data_ptr() in seen:
            continue
        seen.add(storage.data_ptr())
        found[str(tensor.dtype).removeprefix("torch.")] += storage.nbytes() // tensor.element_size()
    return dict(found)


def _tensors(values: Any) -> Iterator[Any]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, Iterable) and not isinstance(values, str):
        for value in values:
            yield from _tensors(value)


def _parameters(model: Any) -> list[tuple[str, Any]]:
    return list(model.named_parameters())


main()
