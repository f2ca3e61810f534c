"""TRL: ``trl sft``, which starts ``accelerate launch``, and the scripts that make its trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.frameworks.layout import PresetLayout, SourceLayout, SourcePart
from ds_lint.frameworks.record import (
    BITSANDBYTES,
    LIGER,
    NO_WEIGHT,
    OFF,
    TRUE,
    AdapterFields,
    Aligned,
    Framework,
    PackedWeights,
    Program,
    named,
    switched,
)

if TYPE_CHECKING:
    from ds_lint.frameworks.record import FieldValues, GivenFields

_COMMANDS = ("sft", "dpo", "grpo", "kto", "orpo", "cpo", "reward", "rloo", "ppo", "distillation")
_REWARDS = ("reward models",)


class AlignmentMethod(NamedTuple):
    """A way to learn from preferences or rewards, with the class of trl that does.

    ``weight`` is the default of the weight of the reference model, of which 0 spares it.
    """

    trainer: str = ""
    samples: int = 1  # sequences of which each sample of a batch consists
    has_reference: bool = False
    weight: float | None = None
    others: tuple[str, ...] = ()  # models that are not of the trained one's size, or that may be none
    generates: bool = False


# The trainers of trl 0.24 and 1.16 (``create_reference_model``, ``prepare_deepspeed``, the collators).
METHODS = {
    "bco": AlignmentMethod("BCOTrainer", has_reference=True),
    "cpo": AlignmentMethod("CPOTrainer", 2),
    "dpo": AlignmentMethod("DPOTrainer", 2, has_reference=True),
    "gkd": AlignmentMethod("GKDTrainer", others=("the teacher model",), generates=True),
    "grpo": AlignmentMethod("GRPOTrainer", has_reference=True, weight=0.0, others=_REWARDS, generates=True),
    "ipo": AlignmentMethod(samples=2, has_reference=True),
    "kto": AlignmentMethod("KTOTrainer", has_reference=True),
    "nash_md": AlignmentMethod("NashMDTrainer", has_reference=True, others=_REWARDS, generates=True),
    "online_dpo": AlignmentMethod("OnlineDPOTrainer", 2, has_reference=True, others=_REWARDS, generates=True),
    "orpo": AlignmentMethod("ORPOTrainer", 2),
    "ppo": AlignmentMethod(
        "PPOTrainer",
        has_reference=True,
        others=("the value model, which is trained too", "the reward model"),
        generates=True,
    ),
    "reward": AlignmentMethod("RewardTrainer", 2),
    "rloo": AlignmentMethod("RLOOTrainer", has_reference=True, weight=0.05, others=_REWARDS, generates=True),
    "rm": AlignmentMethod(samples=2),
    "simpo": AlignmentMethod(samples=2),
    "xpo": AlignmentMethod("XPOTrainer", has_reference=True, others=_REWARDS, generates=True),
}
ALIGNING_TRAINERS = {method.trainer: name for name, method in METHODS.items() if method.trainer}

# The oldest and the newest release in which a trainer runs a 4-bit model with an adapter of its own in torch.autocast:
# ``compute_loss`` asks for ``_peft_has_been_casted_to_bf16``. Read in trl 0.9.6 to 0.29.0; older ones were not.
AUTOCASTS = {
    "BCOTrainer": ("0.10.1", "0.24.0"),
    "CPOTrainer": ("0.9.6", "0.25.1"),
    "DPOTrainer": ("0.9.6", "0.28.0"),
    "KTOTrainer": ("0.9.6", "0.25.1"),
    "ORPOTrainer": ("0.9.6", "0.25.1"),
}


def keeps_reference(method: str, given: GivenFields) -> bool | None:
    """Whether a trainer of trl keeps a reference model, by its arguments; None if that is not known."""
    if any(given.value(one) in TRUE for one in ("use_peft", "use_lora", "precompute_ref_log_probs")):
        return False
    weight = given.value("beta")
    default = METHODS[method].weight if method in METHODS else None
    if weight in NO_WEIGHT or (weight is None and default == 0):
        # Older releases of trl have 0.04 for GRPO.
        return False if weight in NO_WEIGHT and default is not None else None
    return True if given.is_complete and given.value("use_peft") in OFF else None


def adapter(value: FieldValues) -> str | None:
    """The field with which TRL, and scripts like its own, train an adapter."""
    return next((name for name in ("use_peft", "use_lora") if value(name) is True), None)


def _quantized(value: FieldValues) -> str | None:
    """Source: ``get_quantization_config`` in ``trl/trainer/utils.py``."""
    return next((name for name in ("load_in_4bit", "load_in_8bit") if value(name) in TRUE), None)


def _packed(value: FieldValues) -> PackedWeights | None:
    """Sources: ``get_quantization_config``, and ``ModelConfig`` in ``trl/trainer/model_config.py``."""
    name = _quantized(value)
    if name == "load_in_4bit":
        nested, storage = value("use_bnb_nested_quant"), value("bnb_4bit_quant_storage")
        return PackedWeights(
            BITSANDBYTES,
            4,
            switched(nested, otherwise=False),
            named(storage, otherwise="uint8"),
            computes_in_full=False,
        )
    return PackedWeights(BITSANDBYTES, 8) if name is not None else None


TRL = Framework(
    "TRL",
    "trl",
    SourceLayout(
        (SourcePart("trl/trainer/*_config.py"), SourcePart("trl/scripts/utils.py", since="0.16")),
        (SourcePart(r"(?!DDPO|AlignProp)\w*Config"), SourcePart(r"\w*ScriptArguments", since="0.16")),
        unread=("OnPolicyConfig", "_KTOConfig"),
        has_several_configs=True,
    ),
    Program({"trl": _COMMANDS}, "accelerate"),
    model="model_name_or_path",
    # ``resolve_accelerate_config_argument`` in trl/cli/accelerate_config.py; older releases have it in trl/cli.py
    presets=PresetLayout("accelerate", (SourcePart("trl/accelerate_configs/*.yaml", since="0.18"),)),
    adapter=adapter,
    # trl/trainer/model_config.py
    adapters=AdapterFields(
        {"use_peft": (True, "True", "true")}, "lora_r", 16, "lora_target_modules", None, "lora_modules_to_save",
        word_for_all="all-linear",
    ),
    quantized=_quantized,
    packed=_packed,
    aligned=lambda given: Aligned(given.command, keeps_reference(given.command, given)),
    checkpoints_by_default=True,  # trl/trainer/base_config.py, whose classes differ in this from TrainingArguments
    sets_leaf_modules=False,
    lengths=("max_seq_length", "max_length"),
    attentions={"attn_implementation": ""},
    fusing=("activation_offloading",),
    kernels={"use_liger": LIGER, "use_liger_kernel": LIGER},
    packing=("packing",),
)  # fmt: skip
