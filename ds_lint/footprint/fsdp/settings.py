"""The settings of FSDP as an estimate needs them: those of a launch with Accelerate, or the training arguments.

Sources: ``FullyShardedDataParallelPlugin`` in ``accelerate/utils/dataclasses.py``, ``_process_fsdp_args`` in
``transformers/training_args.py``.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts import lora_requests
from ds_lint.facts.model import BYTES
from ds_lint.footprint import loading
from ds_lint.footprint.band import Band, exactly
from ds_lint.footprint.fsdp.sharding import LAYERS, SIZE, FsdpSharding
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.semantics.fsdp_arguments import fsdp_arguments
from ds_lint.semantics.fsdp_layers import layers_of
from ds_lint.semantics.fsdp_setup import fsdp_setup
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, TypeAlias

    from ds_lint.semantics.config import Config
    from ds_lint.semantics.fsdp_places import AnyArguments

    # The value of a field of the plugin; None for what it takes without.
    FieldText: TypeAlias = Callable[[str], Any]

# In the order of torch's ShardingStrategy, whose numbers a setting may have, from 1.
_STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
_SHARD_DEGREE, _REPLICATED = "parallelism_config_dp_shard_size", "parallelism_config_dp_replicate_size"
_OF_TRAINER = {  # the plugin's fields that have other names among the training arguments
    "fsdp_version": "version",
    "sharding_strategy": "reshard_after_forward",
    "transformer_cls_names_to_wrap": "transformer_layer_cls_to_wrap",
}
_TRAINERS = {  # what the Trainer takes without a key
    "auto_wrap_policy": LAYERS,
    "use_orig_params": "true",
    "sync_module_states": "true",
    "state_dict_type": "FULL_STATE_DICT",
    "backward_prefetch": "NO_PREFETCH",
}
_WIDE, _NARROW = 4, 2  # bytes


class FsdpPrecision(NamedTuple):
    """In which dtype a run computes; ``is_mixed`` is whether it keeps another one beside it."""

    dtype: str
    is_mixed: bool
    is_assumed: bool = False


def sharding_of(config: Config) -> FsdpSharding | None:
    """How FSDP shards the run of a config; None without FSDP, or if its settings are not known."""
    known = fsdp_setup(config)
    if known is None or known.version not in (1, 2):
        return None
    text, version = _fields(config), known.version
    arguments = fsdp_arguments(config)
    strategy = _strategy(text, arguments, version)
    mixed = precision(config)
    policy = str(text("auto_wrap_policy")).upper()
    names = text("transformer_cls_names_to_wrap")
    names = names.split(",") if isinstance(names, str) else names if isinstance(names, list) else []
    is_known = strategy in _STRATEGIES
    upcasts = "fsdp-upcasts" if version == 1 else "fsdp-2-upcasts"
    return FsdpSharding(
        version=version,
        loaded_width=_loaded_width(config),
        shards=1 if strategy == "NO_SHARD" else _degree(config) if version == 2 else None,
        by_node=strategy.startswith("HYBRID"),
        reshards=strategy in ("FULL_SHARD", "HYBRID_SHARD") or not is_known,
        policy=policy,
        layer_classes=tuple(str(name).strip() for name in names),
        least=count(str(text("min_num_params"))) or 0 if policy == SIZE else 0,
        keeps_original=version == 2 or bool(flag(text("use_orig_params"))),
        offloads=bool(flag(text("cpu_offload"))),
        loads_once=bool(flag(text("cpu_ram_efficient_loading"))),
        is_mixed=mixed.is_mixed,
        upcasts=config.knowledge.stack_does(upcasts),
        prefetches=version == 1 and _is_given(text("backward_prefetch")),
        prefetches_forward=version == 1 and bool(flag(text("forward_prefetch"))),
        adapters_alone=config.stack == "trainer" and lora_requests.requested(config.facts) is not None,
        saves_whole=str(text("state_dict_type")).upper() in ("FULL_STATE_DICT", "1"),
        offloads_checkpoints=bool(flag(text("activation_checkpointing_offload"))),
        strategy=strategy,
    )


def left_out(config: Config) -> Iterator[str]:
    """What of the settings is not counted, in words."""
    text = _fields(config)
    if (ignored := text("ignored_modules")) is not None and ignored is not UNKNOWN:
        yield f"the modules that `fsdp_ignored_modules` leaves whole on each rank ({ignored})"
    sharding, model = sharding_of(config), config.facts.model
    if sharding is None or model is None or sharding.policy != LAYERS:
        return
    known = layers_of(str(model.config.get("model_type")))
    parts = [name for name in sharding.layer_classes if known and not _is_layer(name)]
    if parts and not any(map(_is_layer, sharding.layer_classes)):
        yield f"units of {' and '.join(parts)}, which are a part of a layer (units of whole layers are counted)"


def _is_layer(name: str) -> bool:
    return name.endswith(("Layer", "Block")) and "Moe" not in name.removesuffix("DecoderLayer")


def is_checkpointed(config: Config) -> bool:
    """Whether FSDP itself checkpoints the activations of its units."""
    return bool(flag(_fields(config)("activation_checkpointing")))


def accumulation_steps(config: Config) -> int:
    """The micro batches of a step, by the training arguments or the script's ``Accelerator``; 1 if nothing tells."""
    launch = config.facts.launch
    loop = launch.script.calls.loop if launch is not None and launch.script is not None else None
    value: Any = None
    if config.stack == "trainer":
        argument = config.argument("gradient_accumulation_steps")
        value = argument.value if argument is not None else None
    elif launch is not None and loop is not None and loop.accumulation is not None:
        from ds_lint.facts.script_values import script_value  # few configs have a script

        value = script_value(loop.accumulation.expression, launch.launch, launch.script)
    return value if isinstance(value, int) and value > 0 else 1


def precision(config: Config) -> FsdpPrecision:
    """In which dtype a run with FSDP computes; without mixed precision in that in which the model is loaded."""
    word = _precision_word(config)
    if word in ("bf16", "fp16"):
        return FsdpPrecision(word, is_mixed=True)
    if word == "fp8":
        return FsdpPrecision("bf16", is_mixed=True)
    if word is None or word is UNKNOWN:
        return FsdpPrecision("bf16", is_mixed=True, is_assumed=True)
    likely = _loaded_width(config).likely
    return FsdpPrecision("fp32" if likely == _WIDE else "bf16", is_mixed=False)


def _precision_word(config: Config) -> Any:
    """The word for ``mixed_precision`` that counts: of the Trainer its own arguments, then that of the launch."""
    for name in ("fp16", "bf16") if config.stack == "trainer" else ():
        argument = config.argument(name)
        if argument is not None and argument.value is True:
            return name
    facts = config.facts
    if facts.launch is not None and config.stack != "trainer":
        from ds_lint.facts.accelerator_precision import script_precision  # few configs have a launch

        own = script_precision(facts.launch)
        if own is not None:
            return own.word
    launch = config.accelerate.launch if config.accelerate is not None else None
    setting = launch.setting("mixed_precision") if launch is not None else None
    if setting is not None and setting.member is not None:
        return setting.value.lower() if isinstance(setting.value, str) else "no" if not setting.value else UNKNOWN
    training = facts.training if config.stack == "trainer" else None
    return "no" if training is not None and not any(map(training.may_be_set, ("bf16", "fp16"))) else None


def _loaded_width(config: Config) -> Band:
    """The bytes of an element of the parameters as the script loads them."""
    known = loading.dtype(config)
    if known is not None:
        return exactly(BYTES[known])
    model = config.facts.model
    in_file = BYTES.get((model.dtype if model is not None else None) or "float32", _WIDE)
    likely = _WIDE if config.knowledge.stack_does("models-are-loaded-in-fp32-unasked") else in_file
    return Band(min(_NARROW, likely), likely, _WIDE)


def _fields(config: Config) -> FieldText:
    """What gives the value of a field."""
    arguments = fsdp_arguments(config)
    if arguments is not None and arguments.is_on:
        return lambda field: _of_trainer(arguments, field)
    launch = config.accelerate.launch if config.accelerate is not None else None
    return FsdpPlugin(launch).text if launch is not None else lambda _: None


def _of_trainer(arguments: AnyArguments, field: str) -> Any:
    """A field as the training arguments set it."""
    if field == "auto_wrap_policy":
        return arguments.policy or "NO_WRAP"
    if field == "cpu_offload" and "offload" in _words(arguments):
        return "true"
    return arguments.values.get(_OF_TRAINER.get(field, field), _TRAINERS.get(field))


def _words(arguments: AnyArguments) -> list[str]:
    """The words of ``fsdp``, which older releases need and newer ones take."""
    value = arguments.argument.value
    return value.split() if isinstance(value, str) else [str(one) for one in value] if isinstance(value, list) else []


def _strategy(text: FieldText, arguments: AnyArguments | None, version: int) -> str:
    """The sharding strategy in the words of FSDP 1."""
    if arguments is not None and arguments.is_on:
        words = [word.upper() for word in _words(arguments) if word.upper() in _STRATEGIES]
        given = arguments.values.get("reshard_after_forward")
        if given is None and words:
            return words[-1]
        value: Any = given if given is not None else True if version == 2 else "FULL_SHARD"
    else:
        value = text("reshard_after_forward" if version == 2 else "sharding_strategy")
    if version == 2:
        return "SHARD_GRAD_OP" if flag(value) is False else "FULL_SHARD"
    word = str(value).upper()
    number = count(word)
    return _STRATEGIES[number - 1] if number is not None and 0 < number <= len(_STRATEGIES) else word


def _degree(config: Config) -> int | None:
    """The ranks that share one copy of the model with FSDP 2; None for all of them."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or not launch.value("use_parallelism_config"):
        return None
    size, copies = (count(str(launch.value(name))) for name in (_SHARD_DEGREE, _REPLICATED))
    return size if size is not None and size > 1 and (copies or 1) >= 1 else None


def _is_given(word: Any) -> bool:
    return word is not None and word is not UNKNOWN and str(word).upper() not in ("NO_PREFETCH", "NONE", "")
