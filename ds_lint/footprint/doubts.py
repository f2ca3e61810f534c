"""What may make a run smaller than its model: quantized weights, frozen parameters, and other splits than ZeRO's."""

from __future__ import annotations

import re

from ds_lint.footprint import parallelism
from ds_lint.semantics.evaluation import evaluated_alone
from ds_lint.semantics.features import adapter_argument, is_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config

_FREEZES = re.compile(r"lora|peft|adapter|freez|frozen|requires_grad|prompt_tuning", re.IGNORECASE)
_SPLITS = re.compile(
    r"(?:tensor|pipeline|model)_(?:model_)?parallel|(?<![a-z])[tp]p_(?:size|degree)|pipelinemodule|megatron",
    re.IGNORECASE,
)
_QUANTIZES = re.compile(r"load_in_[48]bit|BitsAndBytesConfig|quantization_(?:bit|config)|QuantizationConfig")
_SMALLER_STATES = (
    ("fp16", "fp16_master_weights_and_grads"),
    ("bf16", "bf16_master_weights_and_grads"),
    ("bf16", "bf16_optimizer_states"),
)


def is_quantized(config: Config) -> bool:
    """Whether anything shows that the weights are quantized, or may be."""
    facts = config.facts
    if facts.packed is not None:
        return bool(facts.packed.method)
    is_by_recipe = facts.recipe is not None and facts.recipe.quantization is not None
    is_by_model = facts.model is not None and facts.model.quantization is not None
    return is_by_model or is_by_recipe or _is_in_script(config, _QUANTIZES) or _is_in_arguments(config, _QUANTIZES)


def is_split_otherwise(config: Config) -> bool:
    """Whether something else than ZeRO makes a rank's part of the model or its states smaller."""
    degrees = parallelism.degrees(config)
    return (
        any(is_on(config, *path) for path in _SMALLER_STATES)
        or config.value("optimizer", "params", "fp32_optimizer_states") is False
        or config.section("zero_optimization", "zenflow") is not None
        or parallelism.uncounted(config) is not None
        or degrees.stages > 1
        or degrees.experts > 1
        or _is_in_script(config, _SPLITS)
        or _is_in_arguments(config, _SPLITS)
    )


def not_training(config: Config) -> str | None:
    """What shows that the run does not train, in words; None if it may."""
    launch = config.facts.launch
    call = launch.script.calls.inference if launch is not None and launch.script is not None else None
    if launch is not None and call is not None:
        return f"`{call.function}`, {launch.at(call.place)}, runs the model in a script that does not train it"
    alone = evaluated_alone(config)
    if alone is not None and alone.argument:
        return f"the training arguments have `{alone.argument}` without `do_train`: the run evaluates the model"
    if launch is not None and alone is not None and alone.call is not None:
        return (
            f"`{alone.call.function}`, {launch.at(alone.call.place)}, evaluates the model in a script without training"
        )
    return None


def surely_trains_all(config: Config) -> bool:
    """Whether nothing that is not known may freeze a part of the model."""
    facts = config.facts
    if adapter_argument(config) is not None:
        return False
    if facts.recipe is not None:
        return facts.recipe.trains_all
    script = facts.launch.script if facts.launch is not None else None
    if script is None or not script.calls.loads:
        return False
    return not _is_in_script(config, _FREEZES) and not _is_in_arguments(config, _FREEZES)


def _is_in_script(config: Config, words: re.Pattern[str]) -> bool:
    document = config.facts.launch.script_document if config.facts.launch is not None else None
    return document is not None and words.search(document.content) is not None


def _is_in_arguments(config: Config, words: re.Pattern[str]) -> bool:
    launch = config.facts.launch
    return launch is not None and any(words.search(name) for name in launch.launch.arguments)
