"""What a config switches on, as DeepSpeed sees it after its coercions."""

from __future__ import annotations

from ds_lint.knowledge.coercion import refusal
from ds_lint.semantics.config import once
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Node, Scalar

OLD_OFFLOAD = ("zero_optimization", "cpu_offload")
DTYPE_NAMES = {  # the spellings of DtypeEnum in deepspeed/runtime/config.py
    **dict.fromkeys(("fp16", "float16", "half", "torch.float16"), "fp16"),
    **dict.fromkeys(("fp32", "float32", "float", "torch.float32"), "fp32"),
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("int8", "torch.int8"), "int8"),
}
_ON_TEXTS = ("1", "on", "t", "true", "y", "yes")


def is_on(config: Config, *path: str) -> bool:
    """Whether a boolean field is known to be on; in a strict section pydantic takes 1, "yes" and "true" for true."""
    node = config.node(*path)
    if node is None or node.kind == "template":
        return False
    section = config.knowledge.find(path[:-1])
    if section is None or not section.strict:
        return is_truthy(node) and (node.value != AUTO or config.stack == "deepspeed")
    return pydantic_reads_true(node)


def is_known_off(config: Config, *path: str) -> bool:
    """Whether a boolean field is there, and known not to be on."""
    node = config.node(*path)
    return node is not None and node.kind != "template" and not is_on(config, *path)


def pydantic_reads_true(node: Node) -> bool:
    """Whether pydantic takes this value for true: 1, "yes" and "true" are."""
    if node.kind == "string":
        return str(node.value).lower() in _ON_TEXTS
    return node.kind in ("boolean", "integer", "float") and node.value == 1


def is_truthy(node: Node | None) -> bool:
    """Whether Python takes this value for true, as code does that asks ``if value:``."""
    return node is not None and bool(node.value or node.members or node.items)


@once
def zero_stage(config: Config) -> int | None:
    """The ZeRO stage that DeepSpeed itself would run, or None where it is not known ("auto", a template, refused)."""
    section = config.node("zero_optimization")
    if section is None:
        return 0
    if section.kind == "boolean":
        return 1 if section.value else 0  # read_zero_config_deprecated in deepspeed/runtime/zero/config.py
    stage = section.get("stage")
    if stage is None:
        return 0
    if stage.value == "auto":
        return 0 if config.stack == "deepspeed" else None
    known = config.knowledge.find(("zero_optimization", "stage"))
    if known is None or stage.kind == "template" or refusal(known.facts, True, stage, stage.kind, stage.value):
        return None
    return int(float(str(int(stage.value) if stage.kind == "boolean" else stage.value)))  # type: ignore[arg-type]


def tensor_parallel_size(config: Config) -> float:
    """The ranks that share a tensor under AutoTP, which is off at 0 and 1."""
    node = config.node("tensor_parallel", "autotp_size")
    return (number(node.value) if node is not None else 0) or 0


def is_old_offload_unseen(config: Config) -> bool:
    """Whether ``cpu_offload`` is on, without an optimizer in the config, and Accelerate does not see the offload."""
    if "deepspeed" in config.stacks or not is_on(config, *OLD_OFFLOAD):
        return False
    if config.node("optimizer") is not None or config.node("zero_optimization", "offload_optimizer") is not None:
        return False
    force = config.node("zero_force_ds_cpu_optimizer")
    is_forced = config.knowledge.find(("zero_force_ds_cpu_optimizer",)) is not None and (force is None or force.value)
    return bool(is_forced) and zero_stage(config) in (1, 2, 3)


def is_looked_at(config: Config, section: str) -> bool:
    """Whether DeepSpeed looks into a 16-bit section: up to 0.17.0, while it was open, only where it was switched on."""
    known = config.knowledge.find((section,))
    return (known is not None and known.strict) or is_on(config, section, "enabled")


@once
def model_dtype(config: Config) -> str:
    """The dtype that DeepSpeed casts the model to: fp16, bf16 or fp32."""
    if is_on(config, "fp16", "enabled"):
        return "fp16"
    return "bf16" if is_on(config, bf16_section(config), "enabled") else "fp32"


def named_accumulation_dtype(config: Config) -> str | None:
    """The dtype that ``data_types`` names for adding gradients up, or None."""
    node = config.node("data_types", "grad_accum_dtype")
    return DTYPE_NAMES.get(str(node.value)) if node is not None and node.kind == "string" else None


def certain_dtype(config: Config) -> str | None:
    """The dtype of the model where the config alone decides it: the Trainer and Accelerate may switch 16 bit on."""
    dtype = model_dtype(config)
    switches = (config.node(section, "enabled") for section in ("fp16", bf16_section(config)))
    if any(switch is not None and switch.kind == "template" for switch in switches):
        return None
    return dtype if dtype != "fp32" or config.stack == "deepspeed" else None


def bf16_section(config: Config) -> str:
    """The name under which bf16 is configured: the old name counts only where there is no new one."""
    new = config.node("bf16")
    return "bf16" if (new is not None and new.kind != "null") or adds_bf16(config) else "bfloat16"


def adds_bf16(config: Config) -> bool:
    """Whether every stack that may load the config adds a ``bf16`` that it lacks, switched on or off.

    Source: ``set_mixed_precision`` in ``accelerate/utils/dataclasses.py``, which the Trainer runs too.
    """
    if "deepspeed" in config.stacks or config.node("bf16") is not None:
        return False
    added = config.knowledge.table("accelerate", "inserts").get("bf16")
    return added is not None and any("only_if" not in source for source in added["sources"])


def number(value: Scalar) -> float | None:
    """The number that a value is to Python, or None; an integer that no float can hold is infinite."""
    if not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def number_of(node: Node) -> float | None:
    """The number that pydantic makes of a value, also of one in quotes, or None."""
    if node.kind == "string":
        try:
            return float(str(node.value))
        except ValueError:
            return None
    return number(node.value)


def set_argument(config: Config, name: str) -> Argument | None:
    """A training argument that is true, or set to something, where the Trainer may load the config."""
    argument = config.argument(name)
    return argument if argument is not None and argument.value and "trainer" in config.stacks else None


def recomputation_argument(config: Config, suffix: str = "") -> tuple[str, Argument] | None:
    """The training argument about recomputing activations and its name; the older name counts if the newer is unset.

    Source: ``__post_init__`` in ``transformers/training_args.py``.
    """
    for name in (f"activation_checkpointing{suffix}", f"gradient_checkpointing{suffix}"):
        argument = config.argument(name) if "trainer" in config.stacks else None
        if argument is not None and argument.value is not None:
            return name, argument
    return None


def may_checkpoint_itself(config: Config) -> bool:
    """Whether the model may call ``deepspeed.checkpointing``; those of transformers, under the Trainer, do not."""
    model, launch = config.facts.model, config.facts.launch
    if config.stack != "trainer":
        return True
    if model is not None:
        return model.at("auto_map") is not None
    return launch is None or launch.script is None or launch.script.may_run_own_models


def adapter_argument(config: Config) -> str | None:
    """What tells of adapters: an argument of the script's own such as ``use_peft``, or ``--smoke-lora``; or None."""
    if config.facts.adapters is not None:
        return config.facts.adapters
    others = config.facts.training.others if config.facts.training else ()
    return next((name for name in others if "lora" in name or "peft" in name), None)
