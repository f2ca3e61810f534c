"""Which files are recipes of a training framework that name a DeepSpeed config: told by their keys."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node

NAMES_CONFIG = "deepspeed"  # the key that names the config, or holds it
_KEY = re.compile(rb"""^deepspeed[ \t]*:|["']deepspeed["'][ \t\r\n]*:""", re.MULTILINE)
LONGEST = 200_000  # characters; recipes are short, and PyYAML needs seconds for a megabyte

# Keys that only the recipes of one framework have, beside one that all of them have.
_OF_FRAMEWORKS = {
    "LLaMA-Factory": (
        "model_name_or_path",
        frozenset(("cutoff_len", "finetuning_type", "neat_packing", "plot_loss", "quantization_bit", "template")),
    ),
    "axolotl": (
        "base_model",
        frozenset(
            ("adapter", "lora_target_linear", "micro_batch_size", "sample_packing", "sequence_len", "val_set_size")
        ),
    ),
    "ms-swift": (
        "model",
        frozenset(("quant_bits", "quant_method", "rlhf_type", "split_dataset_ratio", "train_type", "tuner_type")),
    ),
}
SCRIPT = "HfArgumentParser"  # of a script whose fields are TrainingArguments and others
# Names that TrainingArguments coined.
_TRAINERS = frozenset((
    "eval_strategy", "evaluation_strategy", "gradient_checkpointing", "logging_steps", "logging_strategy",
    "lr_scheduler_type", "num_train_epochs", "overwrite_output_dir", "per_device_eval_batch_size",
    "per_device_train_batch_size", "push_to_hub", "report_to", "save_steps", "save_strategy", "save_total_limit",
    "warmup_ratio",
))  # fmt: skip
_FEWEST = 3  # of these names


def may_be_recipe(data: bytes) -> bool:
    """Whether it is worth parsing a YAML or JSON to find out if it is a recipe."""
    return len(data) < LONGEST and _KEY.search(data) is not None


def telling_keys(root: Node | None) -> tuple[str, list[str]]:
    """The framework that a recipe is for and the keys that tell; no keys for anything else."""
    node = root.get(NAMES_CONFIG) if root is not None and root.kind == "object" else None
    if node is None or not (node.kind == "object" or (node.kind == "string" and node.value)):
        return "", []
    framework, keys = _told_by(root)
    return (framework, [NAMES_CONFIG, *keys]) if framework else ("", [])


def framework_of(root: Node | None) -> str:
    """The framework that a recipe is for, whether it names a config or not; empty for anything else."""
    return _told_by(root)[0]


def _told_by(root: Node | None) -> tuple[str, list[str]]:
    """The framework, and the keys that tell it."""
    keys = [member.key for member in root.members] if root is not None and root.kind == "object" else []
    for framework, (common, own) in _OF_FRAMEWORKS.items():
        found = [key for key in keys if key in own]
        if common in keys and found:
            return framework, [common, *found]
    found = [key for key in keys if key in _TRAINERS]
    return (SCRIPT, found) if len(found) >= _FEWEST else ("", [])


def held(document: Document) -> Node | None:
    """The config that a recipe holds; None if it names a file."""
    node = document.root.get(NAMES_CONFIG) if document.root is not None else None
    return node if node is not None and node.kind == "object" else None


def as_recipe(document: Document) -> bool:
    """Whether a document is a recipe; it is marked as one, whose config is a dict."""
    if document.issues or not telling_keys(document.root)[1]:
        return False
    document.kind = "recipe"
    document.is_dict = True
    return True
