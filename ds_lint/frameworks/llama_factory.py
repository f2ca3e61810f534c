"""LLaMA-Factory: ``llamafactory-cli train recipe.yaml``, or ``src/train.py`` with flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.frameworks.layout import FieldLayout, FieldRoot, PresetLayout, SourceLayout, SourcePart
from ds_lint.frameworks.record import (
    ALL,
    BITSANDBYTES,
    LIGER,
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

_PARSED = {
    "ModelArguments": "0", "DataArguments": "0", "FinetuningArguments": "0", "GeneratingArguments": "0",
    "TrainingArguments": "0.9.2",
}  # fmt: skip
_BITS = ("2", "3", "4", "5", "6", "8")  # that it quantizes to


def _aligned(given: GivenFields) -> Aligned | None:
    """Source: ``create_ref_model`` in ``llamafactory/train/trainer_utils.py``."""
    stage, loss, kind = given.value("stage"), given.value("pref_loss"), given.value("finetuning_type")
    if not isinstance(stage, str) or stage in ("pt", "sft"):
        return None
    if stage == "dpo" and loss in ("orpo", "simpo"):
        return Aligned(str(loss), reference=False)
    if given.value("ref_model") is not None:
        return Aligned(stage, reference=False, others=("the reference model",))
    is_known = given.is_known("finetuning_type") and (kind is not None or given.is_complete)
    return Aligned(stage, reference=kind not in (None, "lora") if is_known else None)


def _packed(value: FieldValues) -> PackedWeights | None:
    """Sources: ``configure_quantization`` in ``llamafactory/model/model_utils/quantization.py``, ``model_args.py``."""
    bits, method = str(value("quantization_bit")), named(value("quantization_method"), otherwise="bnb")
    if bits not in _BITS:
        return None
    if method not in ("bnb", "bitsandbytes"):
        return PackedWeights(method or "a method that is not known")
    if bits != "4":
        return PackedWeights(BITSANDBYTES, 8) if bits == "8" else None
    nested = switched(value("double_quantization"), otherwise=True)
    return PackedWeights(BITSANDBYTES, 4, nested, storage="", computes_in_full=False)  # the run's dtype, for both


LLAMA_FACTORY = Framework(
    "LLaMA-Factory",
    "llamafactory",
    SourceLayout(
        (SourcePart("llamafactory/hparams/*_args.py"),),
        (
            *map(SourcePart, ("ModelArguments", "DataArguments", "FinetuningArguments", "GeneratingArguments")),
            SourcePart("TrainingArguments", since="0.9.2"),
        ),
        (SourcePart("llamafactory/hparams/parser.py"), SourcePart("llamafactory/train/trainer_utils.py")),
        ("training_args",),
        (SourcePart("llamafactory/hparams/parser.py"), SourcePart("llamafactory/hparams/*_args.py")),
        readers=("Trainer.get_optimizer_cls_and_kwargs", "model_args.apply_kt_config"),
    ),
    Program({"llamafactory-cli": ("train",), "lmf": ("train",)}, "torchrun", {"llamafactory.cli": ("train",)}),
    model="model_name_or_path",
    keys=frozenset(("cutoff_len", "finetuning_type", "neat_packing", "plot_loss", "quantization_bit", "template")),
    flag="finetuning_type",
    recipe_flag=None,
    presets=PresetLayout("deepspeed", (SourcePart("examples/deepspeed/*.json"),), in_repository=True),
    otherwise=("fp8", "use_kt", "use_mca"),
    trains_otherwise=lambda value: bool(value("stage") == "ppo"),  # with a trainer of its own
    trains_all=("finetuning_type", "full"),
    adapter=lambda value: "finetuning_type" if value("finetuning_type") in ("lora", "oft") else None,
    # src/llamafactory/hparams/finetuning_args.py
    adapters=AdapterFields(
        {"finetuning_type": ("lora", None)}, "lora_rank", 8, "lora_target", ALL, "additional_target"
    ),
    quantized=lambda value: "quantization_bit" if str(value("quantization_bit")) in _BITS else None,
    packed=_packed,
    aligned=_aligned,
    checkpoints_unless="disable_gradient_checkpointing",  # ``prepare_model_for_training`` in checkpointing.py
    lengths=("cutoff_len",),
    attentions={"flash_attn": ""},
    fusing=("use_unsloth", "use_unsloth_gc"),
    kernels={"enable_liger_kernel": LIGER},  # ``apply_liger_kernel`` in llamafactory/model/model_utils/liger_kernel.py
    packing=("packing", "neat_packing"),
    packed_by=("stage", "pt"),  # ``get_train_args`` in llamafactory/hparams/parser.py
    # ``read_args`` in src/llamafactory/hparams/parser.py: OmegaConf.from_cli, and OmegaConf.load for yaml.safe_load
    pairs_since="0.9.3",
    keys_once=("0.9.4", ""),
    converts_nothing=True,  # ``HfArgumentParser.parse_dict``
    # _TRAIN_ARGS of src/llamafactory/hparams/parser.py
    fields=FieldLayout(
        "llamafactory",
        {"train": tuple(FieldRoot(SourcePart(one, since), ("hparams/parser.py",)) for one, since in _PARSED.items())},
        foreign=("Seq2SeqTrainingArguments", "BaseTrainingArguments"),
        own="hparams",
        older=("llmtuner",),
    ),
)
