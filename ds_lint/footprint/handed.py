"""What a script hands to what builds the engine: the optimizer that it makes, and the loader of its training data."""

from __future__ import annotations

from ds_lint.semantics.constructors import script_optimizers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config

# What classes keep, by the name of the Trainer or of DeepSpeed for the same (``ds_lint/footprint/optimizers.py``).
NAMES = {
    **{("torch", name): "adamw_torch" for name in ("Adam", "AdamW")},
    **{("torch", name): name.lower() for name in ("Adadelta", "Adamax", "NAdam", "RAdam", "RMSprop", "SGD")},
    ("transformers", "AdamW"): "adamw_hf",
    ("transformers", "Adafactor"): "adafactor",
    ("apex", "FusedAdam"): "adamw_apex_fused",
    **{("deepspeed", name): "adam" for name in ("DeepSpeedCPUAdam", "FusedAdam")},
    **{("deepspeed", name): "lion" for name in ("DeepSpeedCPULion", "FusedLion")},
    ("deepspeed", "FusedLamb"): "lamb",
    **{("bitsandbytes", name): "adamw_bnb_8bit" for name in ("Adam8bit", "AdamW8bit")},
    **{("bitsandbytes", name): "paged_adamw_8bit" for name in ("PagedAdam8bit", "PagedAdamW8bit")},
    **{("bitsandbytes", name): "paged_adamw_32bit" for name in ("PagedAdam32bit", "PagedAdamW32bit")},
    ("bitsandbytes", "Lion8bit"): "lion_8bit",
    ("bitsandbytes", "PagedLion8bit"): "paged_lion_8bit",
    ("lion_pytorch", "Lion"): "lion_32bit",
}
# Arguments of these that change how many states there are, and those that do not show.
_MORE = frozenset(("amsgrad", "beta1", "centered", "momentum", "*", "**"))


def optimizer(config: Config) -> str | None:
    """The optimizer that the script makes; "" if it is not known which, None if it makes none."""
    handed = script_optimizers(config)
    if handed is None or handed.has_optimizer is False:
        return None
    made = handed.optimizer
    if made is None or made.is_placeholder:
        return "" if made is None else None
    name = NAMES.get((made.name.partition(".")[0], made.class_name))
    return name if name is not None and _MORE.isdisjoint(made.given) else ""


def micro_batch(config: Config) -> int | None:
    """The size of the batches that a script loads itself; None if it leaves that to the config, or it is not known.

    Accelerate takes the loader as it is, and gives each rank batches of that size (``prepare_data_loader`` in
    ``accelerate/data_loader.py``).
    """
    launch = config.facts.launch
    if config.stack != "accelerate" or launch is None or launch.script is None:
        return None
    sizes = {call.batch_size for call in launch.script.calls.prepared} - {None}
    if len(sizes) != 1:
        return None
    from ds_lint.facts.script_values import script_value  # few configs have a script

    found = script_value(sizes.pop() or "", launch.launch, launch.script)
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None
