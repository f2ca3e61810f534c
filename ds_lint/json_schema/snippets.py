"""What an editor offers to write: the usual sections, complete.

Every snippet is a config, or a part of one, in which ds-lint finds nothing; the tests see to that.
"""

from __future__ import annotations

from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ds_lint.json_schema.target import SchemaTarget
    from ds_lint.knowledge.keys import Key


class Snippet(Record):
    """A body under a label; the key path is where it belongs."""

    path: str
    label: str
    description: str
    body: Mapping[str, object]


_CPU = {"device": "cpu", "pin_memory": True}
_NVME = {"device": "nvme", "nvme_path": "/local_nvme", "pin_memory": True}
_ZERO_2 = {"stage": 2, "overlap_comm": True, "contiguous_gradients": True}
_ZERO_3 = {
    "stage": 3,
    "overlap_comm": True,
    "contiguous_gradients": True,
    "stage3_gather_16bit_weights_on_model_save": True,
}
_FILLED_BATCH = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
}

_ALL = (
    Snippet("zero_optimization", "ZeRO-2", "Optimizer states and gradients partitioned", _ZERO_2),
    Snippet("zero_optimization", "ZeRO-3", "Parameters partitioned too; saves whole 16-bit weights", _ZERO_3),
    Snippet(
        "zero_optimization",
        "ZeRO-2 with offload",
        "The optimizer runs in CPU memory",
        {**_ZERO_2, "offload_optimizer": _CPU},
    ),
    Snippet(
        "zero_optimization",
        "ZeRO-3 with offload",
        "Optimizer and parameters in CPU memory",
        {**_ZERO_3, "offload_optimizer": _CPU, "offload_param": _CPU},
    ),
    Snippet("zero_optimization.offload_optimizer", "CPU", "Optimizer states in CPU memory", _CPU),
    Snippet("zero_optimization.offload_optimizer", "NVMe", "Optimizer states on NVMe; needs stage 3", _NVME),
    Snippet("zero_optimization.offload_param", "CPU", "Parameters in CPU memory; needs stage 3", _CPU),
    Snippet("zero_optimization.offload_param", "NVMe", "Parameters on NVMe; needs stage 3", _NVME),
    Snippet("bf16", "bf16", "Train in bfloat16", {"enabled": True}),
    Snippet("bf16", "bf16 from the Trainer", "Filled from --bf16", {"enabled": "auto"}),
    Snippet(
        "fp16",
        "fp16",
        "Train in float16 with a dynamic loss scale",
        {"enabled": True, "loss_scale": 0, "initial_scale_power": 16, "loss_scale_window": 1000, "min_loss_scale": 1},
    ),
    Snippet("fp16", "fp16 from the Trainer", "Filled from --fp16", {"enabled": "auto"}),
    Snippet(
        "optimizer",
        "AdamW",
        "AdamW with common parameters",
        {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.9, 0.999], "eps": 1e-8, "weight_decay": 0.01}},
    ),
    Snippet(
        "optimizer",
        "AdamW from the Trainer",
        "Filled from TrainingArguments",
        {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    ),
    Snippet(
        "scheduler",
        "WarmupDecayLR",
        "Up to the learning rate, then down to 0",
        {
            "type": "WarmupDecayLR",
            "params": {"warmup_min_lr": 0, "warmup_max_lr": 3e-5, "warmup_num_steps": 500, "total_num_steps": 20000},
        },
    ),
    Snippet(
        "scheduler",
        "WarmupDecayLR from the Trainer",
        "Filled from TrainingArguments",
        {
            "type": "WarmupDecayLR",
            "params": {
                "warmup_min_lr": "auto",
                "warmup_max_lr": "auto",
                "warmup_num_steps": "auto",
                "total_num_steps": "auto",
            },
        },
    ),
)
SNIPPETS = {
    path: tuple(snippet for snippet in _ALL if snippet.path == path) for path in {snippet.path for snippet in _ALL}
}
WHOLE_CONFIGS = (
    Snippet(
        "",
        "ZeRO-2 for the Trainer",
        "A complete config that the Hugging Face Trainer fills",
        {**_FILLED_BATCH, "zero_optimization": _ZERO_2},
    ),
    Snippet(
        "",
        "ZeRO-3 for the Trainer",
        "A complete config that the Hugging Face Trainer fills",
        {**_FILLED_BATCH, "zero_optimization": _ZERO_3},
    ),
)


def known_snippets(snippets: Iterable[Snippet], target: SchemaTarget) -> list[dict[str, object]]:
    """The snippets whose every key the target knows."""
    return [
        {"label": snippet.label, "description": snippet.description, "body": snippet.body}
        for snippet in snippets
        if all(_is_known(path, target) for path in _paths(snippet))
    ]


def _is_known(path: tuple[str, ...], target: SchemaTarget) -> bool:
    key: Key | None = target.knowledge.find(path)
    return key is not None and "removed" not in key.facts


def _paths(snippet: Snippet) -> Iterator[tuple[str, ...]]:
    """Every key of the body but the parameters of constructors, which never changed for these."""
    start = tuple(snippet.path.split(".")) if snippet.path else ()
    pending: list[tuple[tuple[str, ...], Mapping[str, object]]] = [(start, snippet.body)]
    while pending:
        path, body = pending.pop()
        for name, value in body.items():
            yield (*path, name)
            if isinstance(value, dict) and name != "params":
                pending.append(((*path, name), value))
