"""The stand-ins for GPUs in the user's own processes: each is there as soon as its library is imported."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_ATTENTION = "attn_implementation {} is the attention of torch, because its kernels need a GPU"
_TF32 = "tf32 changes nothing, because only GPUs have it"
_COMPILE = "torch.compile leaves uncompiled what the compiler of this machine cannot compile"
_FLASH = "flash"  # in the names of the attentions that have kernels of their own


def install(tell: Callable[[str], None]) -> None:
    """Let ranks of the user's command train on CPUs; ``tell`` gets a sentence for each replacement that is used."""
    for name, of_module in (
        ("torch", _of_torch),
        ("transformers.utils.import_utils", _of_questions),
        ("transformers.modeling_utils", _of_models),
    ):
        imports.after(name, functools.partial(of_module, tell))
    imports.after("transformers.training_args", _of_transformers)
    imports.after("accelerate.state", _of_accelerate)
    imports.after("accelerate.utils.dataclasses", _of_plugins)
    imports.after("torch.distributed.fsdp.fully_sharded_data_parallel", functools.partial(_of_fsdp, tell))
    imports.after("deepspeed", _of_deepspeed)
    imports.after("deepspeed.launcher.runner", _of_launcher)


def _of_torch(tell: Callable[[str], None], _torch: ModuleType) -> None:
    from ds_lint.smoke.standins import accelerator, backend, cuda, placement

    placement.install(tell)
    cuda.install(tell)
    accelerator.install(tell)
    backend.install(tell)
    _replace_compiler(tell)


def _replace_compiler(tell: Callable[[str], None]) -> None:
    """Tell of models that are compiled; libraries compile functions of their own."""
    import torch

    @around(torch, "compile")
    def reporting_compile(compiled: Any, model: Any = None, *args: Any, **kwargs: Any) -> Any:
        if isinstance(getattr(model, "__self__", model), torch.nn.Module):  # ``Module.compile`` compiles its method
            tell(_COMPILE)
        return compiled(model, *args, **kwargs)

    imports.after("torch._dynamo.config", lambda config: setattr(config, "suppress_errors", True))


def _of_questions(tell: Callable[[str], None], questions: ModuleType) -> None:
    """What transformers tells others about GPUs: bf16 and tf32 are there, and tf32 is never switched on."""

    def switch(_is_on: bool) -> None:
        tell(_TF32)

    for name in ("is_torch_bf16_gpu_available", "is_torch_tf32_available"):
        if hasattr(questions, name):
            setattr(questions, name, lambda: True)
    if hasattr(questions, "enable_tf32"):
        setattr(questions, "enable_tf32", switch)  # noqa: B010 - of some releases


def _of_models(tell: Callable[[str], None], modeling: ModuleType) -> None:
    name = "_check_and_adjust_attn_implementation"
    if not hasattr(modeling.PreTrainedModel, name):
        return

    @around(modeling.PreTrainedModel, name)
    def checked(check: Any, model: Any, attention: str | None, *args: Any, **kwargs: Any) -> Any:
        if attention is not None and _FLASH in attention and _has_flash(model):
            tell(_ATTENTION.format(attention))
            attention = None  # which of torch's own the model supports
        return check(model, attention, *args, **kwargs)


def _has_flash(model: Any) -> bool:
    """Whether a class has flash attention at all; transformers refuses it for the others."""
    return any(getattr(model, name, False) for name in ("_supports_flash_attn", "_supports_flash_attn_2"))


def _of_deepspeed(_deepspeed: ModuleType) -> None:
    from ds_lint.smoke.standins import device, ops

    device.ask_no_processor()
    ops.install(builds=False)
    device.stand_in_of_deepspeed()


def _of_accelerate(state: ModuleType) -> None:
    from ds_lint.smoke.standins import device

    device.stand_in_of_accelerate(state)


def _of_plugins(dataclasses: ModuleType) -> None:
    from ds_lint.smoke.standins import sharded

    sharded.stand_in_of_plugin(dataclasses)


def _of_fsdp(tell: Callable[[str], None], fsdp: ModuleType) -> None:
    from ds_lint.smoke.standins import sharded

    sharded.install(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    sharded.stand_in_of_fsdp(tell, fsdp)


def _of_transformers(training_args: ModuleType) -> None:
    from ds_lint.smoke.standins import device

    device.stand_in_of_transformers(training_args)


def _of_launcher(runner: Any) -> None:
    """The machine has as many slots as ``--include`` or CUDA_VISIBLE_DEVICES names GPUs of it."""

    @around(runner, "parse_inclusion_exclusion")
    def chosen(choose: Any, resource_pool: Any, inclusion: str, exclusion: str) -> Any:
        host, _, named = inclusion.partition(":")
        slots = [int(slot) for slot in named.split(",") if slot.isdecimal()]
        if host in resource_pool and slots:
            resource_pool = {**resource_pool, host: max(resource_pool[host], max(slots) + 1)}
        return choose(resource_pool, inclusion, exclusion)
