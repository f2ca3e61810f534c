"""What a run takes for sure, although not everything is known of it: rules claim no more.

Of ranks that are not known there are as many as need the least memory. Parameters that may be frozen are frozen: a run
may train adapters, and only a script that loads its model itself, and in which nothing freezes any, shows that it does
not. What splits the model in other ways than ZeRO, and what is quantized, is not counted at all.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.memory import setup
from ds_lint.memory.estimate import estimate
from ds_lint.semantics.config import once
from ds_lint.semantics.features import adapter_argument, is_on, tensor_parallel_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.estimate import Estimate
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.semantics.config import Config

_COUNTLESS = 2**40  # ranks, of which each holds nothing of what is partitioned
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


class Needs(NamedTuple):
    """What a run takes if all is trained, and what it takes whatever is frozen; the same if nothing can be."""

    trained: Estimate
    surely: Estimate

    @property
    def trains_all(self) -> bool:
        """Whether the run surely trains what is counted as trained."""
        return self.surely is self.trained


@once
def of_gpu(config: Config) -> Needs | None:
    """What a run takes on each GPU; of ranks that are not known, what each of them holds however many there are."""
    return _needs(config, setup.of(config, ranks=_COUNTLESS))


@once
def of_host(config: Config) -> Needs | None:
    """What a run takes in the host memory of each node; None if it is not known how many nodes there are."""
    nodes = 1 if config.world_size == 1 else config.facts.nodes
    found = setup.of(config, ranks=nodes) if nodes else None
    return _needs(config, found._replace(nodes=nodes)) if found is not None and nodes else None


def of_gpu_without_offload(config: Config) -> Estimate | None:
    """What a run takes on each GPU if nothing is offloaded; None if the most is not known, or nothing is offloaded."""
    found = setup.of(config)
    if found is None or (found.optimizer_offload is None and found.parameter_offload is None):
        return None
    if is_quantized(config) or _is_split_otherwise(config) or not found.optimizer or setup.is_dtype_assumed(config):
        return None
    needed = estimate(found._replace(optimizer_offload=None, parameter_offload=None))
    return needed if "activations" in needed.parts else None


def _needs(config: Config, found: TrainingSetup | None) -> Needs | None:
    if found is None or is_quantized(config) or _is_split_otherwise(config):
        return None
    if adapter_argument(config) is not None and all(tensor.is_trained for tensor in found.tensors):
        found = _frozen(found)
    trained = estimate(found)
    return Needs(trained, trained if _surely_trains_all(config) else estimate(_frozen(found)))


def _frozen(found: TrainingSetup) -> TrainingSetup:
    return found._replace(tensors=tuple(tensor._replace(is_trained=False) for tensor in found.tensors))


def is_quantized(config: Config) -> bool:
    """Whether anything shows that the weights are quantized, or may be."""
    facts = config.facts
    is_by_recipe = facts.recipe is not None and facts.recipe.quantization is not None
    is_by_model = facts.model is not None and facts.model.quantization is not None
    return is_by_model or is_by_recipe or _is_in_script(config, _QUANTIZES) or _is_in_arguments(config, _QUANTIZES)


def _is_split_otherwise(config: Config) -> bool:
    """Whether something else than ZeRO makes a rank's part of the model or its states smaller."""
    return (
        any(is_on(config, *path) for path in _SMALLER_STATES)
        or config.value("optimizer", "params", "fp32_optimizer_states") is False
        or config.section("zero_optimization", "zenflow") is not None
        or is_on(config, "expert_parallel", "enabled")
        or tensor_parallel_size(config) > 1
        or _is_in_script(config, _SPLITS)
        or _is_in_arguments(config, _SPLITS)
    )


def _surely_trains_all(config: Config) -> bool:
    """Whether nothing that is not known may freeze a part of the model."""
    facts = config.facts
    if adapter_argument(config) is not None:
        return False
    if facts.recipe is not None:
        return facts.recipe.value("finetuning_type") == "full"  # of LLaMA-Factory
    script = facts.launch.script if facts.launch is not None else None
    if script is None or not script.calls.loads:
        return False
    return not _is_in_script(config, _FREEZES) and not _is_in_arguments(config, _FREEZES)


def _is_in_script(config: Config, words: re.Pattern[str]) -> bool:
    document = config.facts.launch.script_document if config.facts.launch is not None else None
    return document is not None and words.search(document.text) is not None


def _is_in_arguments(config: Config, words: re.Pattern[str]) -> bool:
    launch = config.facts.launch
    return launch is not None and any(words.search(name) for name in launch.launch.arguments)
