"""axolotl: ``axolotl train recipe.yaml``, which starts ``accelerate launch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.frameworks.layout import FieldLayout, FieldRoot, PresetLayout, SourceLayout, SourcePart
from ds_lint.frameworks.record import (
    BITSANDBYTES,
    CUT_LOSS,
    LIGER_LOSS,
    LIGER_MLP,
    LIGER_NORMS,
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

_OWN_PLUGINS = "axolotl.integrations."  # none of which sets an argument of the Trainer
_QUANTIZED = {"qlora": "load_in_4bit", "lora": "load_in_8bit"}  # by the adapter, the field that loads the model so


def _has_foreign_plugins(value: FieldValues) -> bool:
    plugins = value("plugins")
    plugins = plugins if isinstance(plugins, list) else [plugins] if plugins else []
    return not all(str(one).startswith(_OWN_PLUGINS) for one in plugins)


def _adapter(value: FieldValues) -> str | None:
    return "adapter" if isinstance(value("adapter"), str) else None


def _quantized(value: FieldValues) -> str | None:
    return _QUANTIZED.get(value("adapter")) if _adapter(value) is not None else None


def _packed(value: FieldValues) -> PackedWeights | None:
    """Source: ``_set_quantization_config`` in ``axolotl/loaders/model.py``."""
    name = _quantized(value)
    if name is None or value(name) not in TRUE:
        return None
    experts = value("quantize_moe_experts") in TRUE
    if name == "load_in_8bit":
        return PackedWeights(BITSANDBYTES, 8, packs_experts=experts)
    given = value("bnb_config_kwargs")
    given = given if isinstance(given, dict) else {}
    nested = switched(given.get("bnb_4bit_use_double_quant"), otherwise=True)
    storage = named(given.get("bnb_4bit_quant_storage"), otherwise="bfloat16")
    return PackedWeights(BITSANDBYTES, 4, nested, storage, computes_in_full=False, packs_experts=experts)


def _aligned(given: GivenFields) -> Aligned | None:
    """Source: ``setup_reference_model`` in ``axolotl/train.py``."""
    name = given.value("rl")
    if name is None and given.value("reward_model") in TRUE:
        name = "reward"
    keeps: bool | None = given.value("adapter") is None or given.value("rl_adapter_ref_model") in TRUE
    if name in ("grpo", "gdpo"):
        keeps = None if keeps else False  # its weight is in a section of its own
    return Aligned("grpo" if name == "gdpo" else str(name), keeps)


AXOLOTL = Framework(
    "axolotl",
    "axolotl",
    SourceLayout(
        (SourcePart("**/axolotl/utils/schemas/*.py"),),
        (SourcePart("AxolotlInputConfig"),),
        (
            SourcePart("**/axolotl/core/trainer_builder.py", before="0.10"),
            SourcePart("**/axolotl/core/builders/base.py", since="0.10"),
            SourcePart("**/axolotl/core/builders/causal.py", since="0.10"),
        ),
        ("training_args_kwargs", "training_arguments_kwargs"),
        (
            SourcePart("**/axolotl/utils/schemas/config.py"),
            SourcePart("**/axolotl/utils/schemas/validation.py", since="0.11"),
        ),
    ),
    Program({"axolotl": ("train",)}, "accelerate", {"axolotl.cli.train": ()}, launcher_flag="launcher"),
    model="base_model",
    keys=frozenset(
        ("adapter", "lora_target_linear", "micro_batch_size", "sample_packing", "sequence_len", "val_set_size")
    ),
    recipe_flag=None,
    sweeps="sweep",
    renames=True,
    # where ``axolotl fetch deepspeed_configs`` puts them, too
    presets=PresetLayout("deepspeed", (SourcePart("deepspeed_configs/*.json"),), in_repository=True),
    otherwise=(
        *("context_parallel_size", "deepcompile", "fp8", "process_reward_model", "reward_model", "rl"),
        *("sequence_parallel_degree", "tensor_parallel_size", "trainer_cls", "use_ray"),
    ),
    trains_otherwise=_has_foreign_plugins,
    adapter=_adapter,
    # src/axolotl/utils/schemas/peft.py
    adapters=AdapterFields(
        {"adapter": ("lora", "qlora")}, "lora_r", None, "lora_target_modules", None, "lora_modules_to_save",
        needs_targets=True, all_linear="lora_target_linear",
    ),
    quantized=_quantized,
    packed=_packed,
    aligned=_aligned,
    is_reentrant=True,  # ``normalize_config`` in axolotl/utils/config/__init__.py sets ``use_reentrant``
    lengths=("sequence_len",),
    attentions={"flash_attention": "flash_attention_2", "sdp_attention": "sdpa", "eager_attention": "eager"},
    fusing=(
        *("activation_offloading", "layer_offloading", "lora_mlp_kernel", "lora_o_kernel", "lora_qkv_kernel"),
        *("tiled_mlp", "unsloth_cross_entropy_loss", "unsloth_lora_mlp", "unsloth_lora_o", "unsloth_lora_qkv"),
    ),
    # axolotl/integrations/liger and axolotl/integrations/cut_cross_entropy
    kernels={
        "liger_rms_norm": LIGER_NORMS,
        "liger_glu_activation": LIGER_MLP,
        "liger_fused_linear_cross_entropy": LIGER_LOSS,
        "cut_cross_entropy": CUT_LOSS,
    },
    packing=("sample_packing", "pad_to_sequence_len"),
    splitting=("context_parallel_size", "tensor_parallel_size"),
    sequences=("sequence_parallel_degree",),
    ignores_unknown=True,  # pydantic's default for unknown fields
    fields=FieldLayout(
        "axolotl",
        {
            "train": (
                FieldRoot(
                    SourcePart("AxolotlInputConfig"),
                    ("utils/schemas/config.py", "utils/config/models/input/v0_4_1/__init__.py"),
                ),
            )
        },
        foreign=("BaseModel",),
        is_pydantic=True,
        since="0.5.1",
        readers=("cli/config.py", "integrations/*/args.py", "utils/config/models/**/*.py", "utils/schemas/*.py"),
    ),
)  # fmt: skip
