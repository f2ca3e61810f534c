"""ms-swift: ``swift sft``, ``swift pt`` and ``swift rlhf``, with flags or a recipe."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.frameworks.layout import FieldLayout, FieldRoot, PresetLayout, SourceLayout, SourcePart
from ds_lint.frameworks.record import (
    ALL,
    BITSANDBYTES,
    LIGER,
    NO_WEIGHT,
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

_COMMANDS = ("sft", "pt", "rlhf")
_KINDS = ("tuner_type", "train_type")  # the field that says how to train, in newer and older releases
_METHODS = ("bnb", "eetq", "fp8", "hqq", "quanto")  # with which it quantizes a model that it loads


def _adapter(value: FieldValues) -> str | None:
    return next((name for name in _KINDS if isinstance(value(name), str) and value(name) != "full"), None)


def _aligned(given: GivenFields) -> Aligned | None:
    """Source: ``swift/arguments/rlhf_args.py``."""
    if given.command != "rlhf" and given.value("rlhf_type") is None:
        return None
    name = given.value("rlhf_type") or "dpo"
    if given.value("ref_model") is not None:
        return Aligned(str(name), reference=False, others=("the reference model",))
    field = next((one for one in _KINDS if given.value(one)), _KINDS[0])
    kind = given.value(field)
    is_known = given.is_known(field) and (kind is not None or given.is_complete)
    keeps = kind == "full" and not (name == "grpo" and given.value("beta") in NO_WEIGHT)
    return Aligned(str(name), keeps if is_known else None)


def _packed(value: FieldValues) -> PackedWeights | None:
    """Source: ``QuantizeArguments`` in ``swift/arguments/base_args/quant_args.py``."""
    method, bits = value("quant_method"), str(value("quant_bits"))
    if method != "bnb":
        return PackedWeights(str(method)) if method in _METHODS else None
    if bits != "4":
        return PackedWeights(BITSANDBYTES, 8) if bits == "8" else None
    nested = switched(value("bnb_4bit_use_double_quant"), otherwise=True)
    storage = named(value("bnb_4bit_quant_storage"), otherwise="uint8")
    computed = named(value("bnb_4bit_compute_dtype"), otherwise="")
    return PackedWeights(BITSANDBYTES, 4, nested, storage, computes_in_full=computed == "float32" if computed else None)


_ARGUMENTS = ("arguments/__init__.py", "llm/argument/__init__.py")
_FILES = (
    SourcePart("swift/arguments/**/*.py", since="4.0"),
    SourcePart("swift/llm/argument/**/*.py", before="4.0"),
    SourcePart("swift/trainers/arguments.py"),
)
MS_SWIFT = Framework(
    "ms-swift",
    "ms-swift",
    SourceLayout(
        _FILES,
        (
            SourcePart("TrainArguments", before="4.0"),
            SourcePart("SftArguments", since="4.0"),
            SourcePart("PretrainArguments", since="4.0"),
            SourcePart("RLHFArguments"),
        ),
        _FILES,
        ("self",),
        _FILES,
        loaders=("from_pretrained", "load_args_from_ckpt"),
        unread=("GRPOArgumentsMixin", "RayArguments"),
    ),
    Program({"swift": _COMMANDS}, "torchrun", processes=1),
    model="model",
    keys=frozenset(("quant_bits", "quant_method", "rlhf_type", "split_dataset_ratio", "train_type", "tuner_type")),
    presets=PresetLayout(
        "deepspeed",
        (
            SourcePart("swift/config/zero*.json", since="4.0"),
            SourcePart("swift/llm/ds_config/zero*.json", before="4.0"),
        ),
        mapping="deepspeed_mapping",
        changed="self.deepspeed",
    ),
    otherwise=("deepspeed_autotp_size", "rlhf_type", "sequence_parallel_size", "use_ray", "zero_hpz_partition_size"),
    adapter=_adapter,
    # swift/arguments/tuner_args.py
    adapters=AdapterFields(
        dict.fromkeys(_KINDS, ("lora", None)), "lora_rank", 8, "target_modules", ALL, "modules_to_save"
    ),
    quantized=lambda value: "quant_method" if value("quant_method") in _METHODS else None,
    packed=_packed,
    aligned=_aligned,
    checkpoints_by_default=True,  # swift/trainers/arguments.py
    lengths=("max_length",),
    attentions={"attn_impl": ""},
    kernels={"use_liger_kernel": LIGER},
    packing=("packing",),
    splitting=("deepspeed_autotp_size",),
    sequences=("sequence_parallel_size",),
    takes_recipe_as_flags=True,  # swift/cli/main.py
    keys_once=("3.10.0", "4.1.0"),  # OmegaConf.load, and then yaml.safe_load
    # ``args_class`` of swift/pipelines/train and swift/llm/train
    fields=FieldLayout(
        "swift",
        {
            command: tuple(FieldRoot(part, _ARGUMENTS) for part in parts)
            for command, parts in {
                "sft": (SourcePart("TrainArguments", "3.0", "4.0"), SourcePart("SftArguments", "4.0")),
                "pt": (SourcePart("TrainArguments", "3.0", "4.0"), SourcePart("PretrainArguments", "4.0")),
                "rlhf": (SourcePart("RLHFArguments", "3.0"),),
            }.items()
        },
        foreign=("HfSeq2SeqTrainingArguments", "HfTrainingArguments", "Seq2SeqTrainingArguments"),
        since="3.0",
        readers=("cli/main.py",),
    ),
)
