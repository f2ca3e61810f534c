"""LoRA adapters on the linear layers of a model, which peft creates, saves and loads; all other weights are frozen."""

from __future__ import annotations

from typing import Any

_LAYERS = "all-linear"  # of any architecture, except its output layer


def attached(model: Any, rank: int, task: str | None) -> Any:
    """The model with adapters of this rank, as ``get_peft_model`` makes it."""
    import peft

    return peft.get_peft_model(model, peft.LoraConfig(r=rank, lora_alpha=rank, target_modules=_LAYERS, task_type=task))


def loaded(model: Any, folder: str) -> Any:
    """The model with the adapters that a folder holds."""
    import peft

    return peft.PeftModel.from_pretrained(model, folder)


def name_in_file(name: str) -> str:
    """The name of a parameter in ``adapter_model.safetensors``, which leaves out the name of the adapter."""
    return name.replace(".default.", ".")


def names_in_file(model: Any) -> dict[str, str] | None:
    """By parameter, its name in the file of the active adapter, as peft itself chooses it.

    None if the file holds what a prompt encoder returns, and not its parameters.
    """
    import peft

    adapter = getattr(model, "active_adapter", None)
    if not isinstance(adapter, str):
        adapter = next(iter(model.peft_config))
    if getattr(model.peft_config[adapter], "is_prompt_learning", False):
        return None
    marked = {name: name for name in model.state_dict()}
    found = peft.get_peft_model_state_dict(model, state_dict=marked, adapter_name=adapter, save_embedding_layers=False)
    return {name: in_file for in_file, name in found.items() if isinstance(name, str)}


def is_adapter(name: str) -> bool:
    """Whether a parameter belongs to an adapter."""
    return ".lora_" in name
