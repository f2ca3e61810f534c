"""What the real engine of one rank of many holds: ``held.py JOB``, a job as JSON (``tests/fidelity/holdings.py``).

The other ranks are torch's fake group, so no number is right, but every tensor has the size that it has in a real run.
A tensor counts by the storage behind it, each storage once and whole, so the arithmetic of ds-lint has no part in it.
What no role claims is found by the garbage collector and counts as ``other``.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
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
MASTERS = (
    "fp32_partitioned_groups_flat",  # stage 3
    "single_partition_of_fp32_groups",  # stages 1 and 2
    "fp32_groups_flat_partition",  # BF16_Optimizer
    "fp32_groups_flat",  # FP16_Optimizer
    "fp32_groups",  # FP16_UnfusedOptimizer
)
GRADIENTS = (
    "grad_partitions_flat_buffer",  # stage 3
    "averaged_gradients",
    "all_grad_tensors",
    "grads_in_partition",
    "accumulated_grads_in_cpu",
    "fp32_groups_gradients_flat",
)


def main() -> None:
    """Make the engine, train, and answer what was held in the backward passes and at the boundary of the last step."""
    torch.set_num_threads(1)
    torch._dynamo.config.disable = True
    ops.install(builds=False)
    reduced = _be_one_of_many()
    if "expert_parallel" in JOB["config"]:
        # AutoEP 0.19.8 raises at the registry in which transformers 5 records router logits; it is not needed here.
        from deepspeed.module_inject.auto_ep_presets import base

        base._install_instance_transformers_output_recorders = lambda *_arguments, **_more: True
    engine = _engine(_model())
    engine.train()  # a quantized model comes ready to infer, for which a CPU packs its weights again
    if getattr(engine, "first_dataloader_check", None) is not None:
        engine.first_dataloader_check.remove()  # compares batches with ranks that are not there
    tensors = [
        [name, getattr(p, "ds_numel", p.numel()), p.requires_grad, list(getattr(p, "ds_shape", p.shape))]
        for name, p in _parameters(engine.module)
    ]
    backward = _Backward(engine)
    for _ in range(JOB["steps"]):
        for micro in range(engine.gradient_accumulation_steps()):
            if micro:
                engine.step()  # only counts until all micro batches were there
            engine.backward(engine(**_batch()).loss)
        boundary = _holding(engine)
        engine.step()
    answer(tensors=tensors, moments={"boundary": boundary, "backward": backward.most}, reduced=max(reduced))


class _Backward:
    """What is held in the backward passes, after each gradient: by role, the most."""

    def __init__(self, engine: Any) -> None:
        self.most: dict[str, dict[str, int]] = {}
        self.engine = engine
        for _, parameter in _parameters(engine.module):
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(self._look)

    def _look(self, _parameter: Any) -> None:
        for role, found in _by_role(self.engine, set()).items():
            if sum(found.values()) >= sum(self.most.get(role, {}).values()):
                self.most[role] = found


def _be_one_of_many() -> list[int]:
    """Join a group whose other ranks do not exist; the elements of each tensor that is then reduced."""
    accelerator = deepspeed.get_accelerator()
    accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
    accelerator.supported_dtypes = lambda: list(DTYPES.values())
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=JOB["rank"], world_size=JOB["ranks"])
    reduced = [0]
    reduce = torch.distributed.all_reduce

    def noted(tensor: Any, *arguments: Any, **named: Any) -> Any:
        reduced.append(tensor.numel())
        return reduce(tensor, *arguments, **named)

    def zeros(output: Any, *_: Any, **__: Any) -> None:
        output.zero_()  # what is not set may be no number, and then no step is made

    torch.distributed.all_reduce = noted
    torch.distributed.reduce_scatter_tensor = zeros
    deepspeed.init_distributed(verbose=False)
    return reduced


def _model() -> Any:
    """The model, within ``zero.Init`` if the job asks for it."""
    config = getattr(transformers, JOB["model"]["config"])(**JOB["model"]["values"])
    config._experts_implementation = "eager"  # kernels of grouped matrices want sizes that divide
    make = getattr(transformers, JOB["model"]["class"])
    torch.set_default_dtype(DTYPES[JOB["dtype"]])
    if JOB["quantization"]:
        model = _quantized(make, config)
    elif JOB["zero_init"]:
        with deepspeed.zero.Init(config_dict_or_path=JOB["config"]):
            model = make(config)
    else:
        model = make(config)
    torch.set_default_dtype(torch.float32)
    for name, parameter in _parameters(model):
        is_frozen = JOB["quantization"] or (JOB["frozen"] and JOB["frozen"] in name)
        parameter.requires_grad_(not is_frozen)
    if JOB["lora"]:
        import peft

        if JOB["quantization"] and JOB["prepares"]:
            model = peft.prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
        model = peft.get_peft_model(model, peft.LoraConfig(**JOB["lora"]), autocast_adapter_dtype=False)
    return model


def _quantized(make: Any, config: Any) -> Any:
    """The model as a script loads it with a ``BitsAndBytesConfig``, after transformers was told of the config."""
    from safetensors.torch import save_model
    from transformers.integrations import HfDeepSpeedConfig

    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        save_model(make(config), f"{folder}/model.safetensors", {"format": "pt"})  # as ``save_pretrained`` of rank 0
        torch.set_default_dtype(torch.float32)  # of the scales
        told = HfDeepSpeedConfig(JOB["config"])
        quantization = transformers.BitsAndBytesConfig(**JOB["quantization"])
        model = make.from_pretrained(
            folder,
            quantization_config=quantization,
            dtype=DTYPES[JOB["dtype"]],
            experts_implementation="eager",
        )
        del told
    return model


def _engine(model: Any) -> Any:
    """The engine; with ``by_trainer`` of the Trainer's own optimizer and its groups."""
    trained = {name: parameter for name, parameter in _parameters(model) if parameter.requires_grad}
    if not JOB["by_trainer"]:
        return deepspeed.initialize(model=model, model_parameters=list(trained.values()), config=JOB["config"])[0]
    decayed = set(transformers.Trainer.get_decay_parameter_names(None, model))
    groups = [
        {"params": [parameter for name, parameter in trained.items() if (name in decayed) == which]}
        for which in (True, False)
    ]
    return deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(groups), config=JOB["config"])[0]


def _batch() -> dict[str, Any]:
    """A few words; of a model of images, one image before them."""
    image = JOB["model"].get("image")
    words = [image["token"]] * image["tokens"] if image else []
    ids = torch.tensor([[*words, 1, 2, 3, 4]])
    batch = {"input_ids": ids, "labels": ids}
    if image:
        batch["pixel_values"] = torch.zeros(image["shape"], dtype=DTYPES[JOB["dtype"]])
        batch["token_type_ids"] = torch.zeros_like(ids)
    return batch


# ---------------------------------------------------------------------------------------------------------- counting


def _holding(engine: Any) -> dict[str, dict[str, int]]:
    """Elements by role and dtype, and those of all tensors that have no role."""
    seen: set[int] = set()
    found = _by_role(engine, seen)
    gc.collect()
    tensors = [one for one in gc.get_objects() if isinstance(one, torch.Tensor)]
    return found | {"other": _count([one for one in tensors if one.numel() > 1], seen)}  # one of 1 is a flag


def _by_role(engine: Any, seen: set[int]) -> dict[str, dict[str, int]]:
    """Elements by role and dtype; a storage with several roles counts for the first."""
    optimizer, parameters = engine.optimizer, [parameter for _, parameter in _parameters(engine.module)]
    masters = list(_tensors(getattr(optimizer, name, None) for name in MASTERS))
    inner = {id(one): one for one in (getattr(optimizer, "optimizer", optimizer), engine.basic_optimizer)}.values()
    roles: dict[str, Iterable[Any]] = {
        "parameters": [getattr(parameter, "ds_tensor", parameter.data) for parameter in parameters],
        "persistent": [parameter.data for parameter in parameters],
        "quantization": [_beside(module) for module in engine.module.modules()],
        "secondary": [getattr(parameter, "ds_secondary_tensor", None) for parameter in parameters],
        "master_weights": masters,
        "optimizer_states": [state for one in inner for state in one.state.values()],
        "buckets": [bucket.buffer for bucket in getattr(optimizer, "ipg_buckets", {}).values()],
        "gradients": [
            [getattr(optimizer, name, None) for name in GRADIENTS],
            [(parameter.grad, getattr(parameter, "grad_accum", None)) for parameter in parameters],
            [master.grad for master in masters],
        ],
        "buffers": engine.module.buffers(),
    }
    return {role: _count(tensors, seen) for role, tensors in roles.items()}


def _beside(module: Any) -> list[Any]:
    """What bitsandbytes keeps of a layer beside its weight: scales, tables, and the weight of 8 bit once more."""
    weight, kept = getattr(module, "weight", None), getattr(module, "state", None)
    state = getattr(weight, "quant_state", None)
    states = [state, getattr(state, "state2", None)] if state is not None else []
    found = [[one.absmax, one.code] for one in states if one is not None]
    return [*found, *(getattr(one, name, None) for one in (weight, kept) for name in ("CB", "SCB"))]


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
