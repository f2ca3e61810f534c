"""Dtypes: what `--tf32` changes, what autocast around an engine does, and what becomes of adapters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tools.gpu.claimed import kernels, models, training

if TYPE_CHECKING:
    from tools.gpu.setting import Result

_SIZE = 1024  # of a matrix whose product is large enough for tensor cores


def tf32(device: str, config: Result) -> Result:
    """How exact a product of two matrices in fp32 is, before and after ``--tf32 true`` is parsed."""
    from transformers import TrainingArguments

    before = {"error": _error(device), "set": _set()}
    of_cpu = {"use_cpu": True} if device == "cpu" else {"tf32": True}
    TrainingArguments(output_dir="out", report_to=[], deepspeed=config, **of_cpu)
    after = {"error": _error(device), "set": _set()}
    return {"before": before, "after": after}


def _error(device: str) -> float:
    """The error of a product relative to its length, against the same in fp64."""
    generator = torch.Generator().manual_seed(1)
    left, right = (torch.randn(_SIZE, _SIZE, generator=generator).to(device) for _ in range(2))
    exact = left.double() @ right.double()
    return float((left @ right - exact).norm() / exact.norm())


def _set() -> Result:
    """What torch says of its own settings; the error of a product is what counts."""
    names = {"all": torch.backends, "matmul": torch.backends.cuda.matmul, "cudnn": torch.backends.cudnn}
    return {name: getattr(where, "fp32_precision", None) for name, where in names.items()}


def autocast_around(device: str, config: Result) -> Result:
    """The dtypes in which layers compute inside ``torch.autocast``: alone, and in an engine."""
    kernels.provide(device)
    task = models.make("layers", device)
    task.model.to(device)
    found: Result = {}
    with torch.autocast(device, dtype=torch.bfloat16), training.dtypes_of_layers(task.model) as computed:
        task.loss(task.model)
    found["alone"] = sorted(computed)
    engine = training.initialized(task.model, config)
    with torch.autocast(device, dtype=torch.bfloat16), training.dtypes_of_layers(task.model) as computed:
        task.loss(engine)
    found["in the engine"] = sorted(computed)
    return found


def adapters(device: str, config: Result) -> Result:
    """The dtypes of adapters of a model in fp16: as peft creates them, and after a step with DeepSpeed.

    At stage 3 the model is made in parts, as ``from_pretrained`` makes it there.
    """
    import deepspeed
    from peft import LoraConfig, get_peft_model

    kernels.provide(device)
    torch.manual_seed(1)
    if config["zero_optimization"]["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=config):
            made = models.llama()
    else:
        made = models.llama().half()
    model = get_peft_model(made, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    created = training.described(_trained(model))
    ids = torch.randint(0, 128, (1, 16), device=device)
    run = training.watched(device, models.Task(model, {"input_ids": ids, "labels": ids}), config, steps=2)
    return {"created": created, "trained": training.described(_trained(model)), **run}


def _trained(model: Any) -> list[Any]:
    return [training.partition_of(parameter) for parameter in model.parameters() if parameter.requires_grad]
