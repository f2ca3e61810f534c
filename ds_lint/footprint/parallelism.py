"""The degrees of parallelism beside ZeRO's: among how many ranks tensors, layers, experts and sequences are divided.

Sources: ``deepspeed/runtime/config.py`` and ``tensor_parallel/config.py`` beside it, ``PipelineModule`` in
``deepspeed/runtime/pipe/module.py``, ``module_inject/auto_ep_config.py``, ``parallelism_config.py`` of accelerate, the
options of Megatron-DeepSpeed, and the fields of training frameworks.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ds_lint.frameworks import FRAMEWORKS
from ds_lint.semantics.features import is_on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.semantics.config import Config

AUTOTP, MEGATRON = "AutoTP", "Megatron"
_TENSORS = {  # arguments that divide tensors, by what does it
    AUTOTP: ("deepspeed_autotp_size", "tensor_parallel_size"),  # ms-swift and axolotl write them into the config
    MEGATRON: ("tensor_model_parallel_size", "model_parallel_size"),
}
_STAGES = ("pipeline_model_parallel_size",)
_OF_PIPELINES = "pipeline_parallel_size"
_OF_ACCELERATE = "parallelism_config_tp_size"
_OTHERS = (_OF_ACCELERATE, _OF_PIPELINES)  # of which nothing says what they divide
_SEQUENCES = (
    *(name for one in FRAMEWORKS.values() for name in one.sequences),
    *("context_parallel_size", "ulysses_degree", "ds_sequence_parallel_size", "parallelism_config_sp_size"),
    "parallelism_config_cp_size",
)
# What makes a script divide its sequences: adapters of data loaders and attention, of DeepSpeed and accelerate.
_DIVIDES_SEQUENCES = re.compile(r"\b(UlyssesSPDataLoaderAdapter|UlyssesSPAttentionHF|DistributedAttention)\b")
_DIVIDED_BY_FRAMEWORKS = tuple(
    name for name in _SEQUENCES if name not in ("ulysses_degree", "ds_sequence_parallel_size")
)
_PIPELINE = re.compile(r"\bPipelineModule\s*\(")
_STAGES_IN_SCRIPT = re.compile(r"\bnum_(?:stages|pp)\s*=\s*([\w.]+)")
_TENSORS_IN_SCRIPT = re.compile(r"\bnum_mp\s*=\s*([\w.]+)")
_METHOD = re.compile(r"\bpartition_method\s*=\s*['\"]([^'\"]+)['\"]")
_INTERVAL = re.compile(r"\bactivation_checkpoint_interval\s*=\s*([\w.]+)")
_UNKNOWN_IN_SCRIPT = re.compile(r"\b(ParallelismConfig)\b|\b(mpu)\s*=\s*(?!None\b)\w")
_EXPERTS_IN_SCRIPT = re.compile(r"\bdeepspeed\.moe\b")
_SHARES_EXPERTS = re.compile(r"\bep_size\s*=\s*(?!1\b)\w")
_PRESETS = ("llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3")  # ``AutoTPPresets.get_preset``
_TILES = re.compile(r"TiledMLP|TiledFusedLogitsLoss|sequence_tiled_compute|tiled_mlp|tiled_logits", re.IGNORECASE)
_OPTIONS = re.compile(r"['\"]--?([\w-]+)['\"]")
_DEFAULT = re.compile(r"\bdefault\s*=\s*(\d+)")
_MOST = 10**9


class Degrees(NamedTuple):
    """Among how many ranks what is divided; 1 is not at all."""

    tensors: int = 1
    stages: int = 1  # of a pipeline
    sequences: int = 1
    experts: int = 1
    divides_tensors: str = AUTOTP  # what does: AutoTP or Megatron
    partition: str | None = None  # a preset of AutoTP, or "" of a config of its own, which decide over the usual plan
    method: str = "parameters"  # by which a pipeline is cut (``partition_method``)
    checkpointed_layers: int | None = None  # of a pipeline that are computed again together; 0 is none
    surely_divides_sequences: bool = False

    @property
    def of_a_copy(self) -> int:
        """The ranks that hold one copy of the model."""
        return self.tensors * self.stages


def degrees(config: Config) -> Degrees:
    """The degrees of a run."""
    named = [(_count(config.value("tensor_parallel", "autotp_size")), AUTOTP)]
    named += [(size, way) for way, names in _TENSORS.items() for size in _sizes(config, names)]
    script = _script(config)
    named += [(size, MEGATRON) for size in _in_script(config, script, _TENSORS_IN_SCRIPT)]
    tensors, way = max(named)
    method, interval = _METHOD.search(script), next(iter(_in_script(config, script, _INTERVAL)), None)
    return Degrees(
        tensors=max(1, tensors),
        stages=_stages(config, script),
        sequences=max(1, _count(config.value("sequence_parallel_size")), *_sizes(config, _SEQUENCES)),
        experts=_experts(config),
        divides_tensors=way if tensors > 1 else AUTOTP,
        partition=_partition(config),
        method=method[1].lower() if method is not None else "parameters",
        checkpointed_layers=_count(config.value("pipeline", "activation_checkpoint_interval")) or interval,
        surely_divides_sequences=_DIVIDES_SEQUENCES.search(script) is not None
        or any(_sizes(config, _DIVIDED_BY_FRAMEWORKS)),
    )


def uncounted(config: Config) -> str | None:
    """What may divide the model among ranks in a way that is not counted, in words; None if nothing is known to."""
    node = config.node("tensor_parallel", "autotp_size")
    if node is not None and node.kind == "template":
        return "what `tensor_parallel.autotp_size` splits among ranks"
    script = _script(config)
    for name in _OTHERS:
        if name == _OF_PIPELINES and _PIPELINE.search(script) is not None:  # which says what it makes of it
            continue
        if (size := max(_sizes(config, (name,)), default=0)) > 1:
            return f"what `{name}` {size} splits among ranks"
    if (
        _PIPELINE.search(script) is not None
        and _stages(config, script) == 1
        and not _in_script(config, script, _STAGES_IN_SCRIPT)
    ):
        return f"what `PipelineModule` in {_path(config)} splits among ranks"
    if _EXPERTS_IN_SCRIPT.search(script) is not None and _SHARES_EXPERTS.search(script) is not None:
        return f"what `MoE` in {_path(config)} splits among ranks"
    if any(_sizes(config, (*_TENSORS[MEGATRON], *_STAGES))):  # of Megatron the options say it all
        return None
    found = _UNKNOWN_IN_SCRIPT.search(script)
    if found is not None and found[2] and _DIVIDES_SEQUENCES.search(script) is not None:
        return None  # the groups of Ulysses, which divide nothing else
    if found is None or (found[1] and any(_sizes(config, _SEQUENCES))):
        return None
    return f"what `{found[1] or found[2]}` in {_path(config)} may split among ranks"


def tensors_of_accelerate(config: Config) -> int:
    """The ranks among which Accelerate divides tensors, beside FSDP alone; of which nothing says what they hold."""
    return max((1, *_sizes(config, (_OF_ACCELERATE,))))


def _partition(config: Config) -> str | None:
    """What decides which parameters AutoTP divides (``get_partition_config_object``), if it is in the config."""
    if config.section("tensor_parallel", "partition_config") is not None:
        return ""
    preset = config.value("tensor_parallel", "preset_model")
    return preset.lower() if isinstance(preset, str) and preset.lower() in _PRESETS else None


def computes_in_tiles(config: Config) -> bool:
    """Whether anything shows that the layers or the loss are computed in tiles of the sequence (``ulysses_sp.py``)."""
    recipe = config.facts.recipe
    return _TILES.search(_script(config)) is not None or (recipe is not None and bool(recipe.value("tiled_mlp")))


def _stages(config: Config, script: str) -> int:
    """The stages of the pipeline. DeepSpeed reads ``pipeline.stages`` nowhere, so a script has to."""
    of_megatron = max(_sizes(config, _STAGES), default=0)
    if of_megatron:
        return of_megatron
    written = _count(config.value("pipeline", "stages"))
    if not script:
        return max(1, written if "deepspeed" in config.stacks else 0)
    if _PIPELINE.search(script) is None:
        return 1
    return max(1, *(_in_script(config, script, _STAGES_IN_SCRIPT) or [written]))


def _experts(config: Config) -> int:
    """The ranks that share the experts of a layer (AutoEP)."""
    if not is_on(config, "expert_parallel", "enabled"):
        return 1
    return max(1, _count(config.value("expert_parallel", "autoep_size")))


def _script(config: Config) -> str:
    launch = config.facts.launch
    document = launch.script_document if launch is not None else None
    return document.content if document is not None else ""


def _path(config: Config) -> str:
    launch = config.facts.launch
    document = launch.script_document if launch is not None else None
    return os.path.normpath(document.path) if document is not None else ""


def _in_script(config: Config, script: str, keyword: re.Pattern[str]) -> list[int]:
    """The numbers of a keyword argument in a script: written there, or an option of the launch, or its default."""
    found = []
    for match in keyword.finditer(script):
        written = match[1]
        if written.isdecimal():
            found.append(_count(written))
            continue
        found += _of_option(config, script, written.rpartition(".")[2])
    return [size for size in found if size]


def _of_option(config: Config, script: str, name: str) -> list[int]:
    """The number of an option of the script by its long name: of the launch, under any of its names, or its default."""
    long = re.escape(name).replace("_", "[-_]")
    option = re.search(rf"add_argument\(([^)]*['\"]--{long}['\"][^)]*)", script)
    names = [word.replace("-", "_") for word in _OPTIONS.findall(option[1])] if option is not None else []
    if given := _sizes(config, (name, *names)):
        return given
    launch = config.facts.launch
    default = _DEFAULT.search(option[1]) if option is not None else None
    is_given = launch is None or launch.is_open or any(f"-{one}" in launch.launch.flags for one in names)
    return [_count(default[1])] if default is not None and not is_given else []


def _sizes(config: Config, names: Iterable[str]) -> list[int]:
    """The numbers of ranks under these names, in a recipe, the flags of the launch and Accelerate's YAML."""
    return [size for name in names for value in _arguments(config, name) if (size := _count(value))]


def _arguments(config: Config, name: str) -> Iterator[object]:
    facts = config.facts
    if facts.recipe is not None:
        yield facts.recipe.value(name)
    if facts.launch is not None:
        yield facts.launch.launch.arguments.get(name)
    if config.accelerate is not None and config.accelerate.launch is not None:
        yield config.accelerate.launch.value(name)


def _count(value: object) -> int:
    """A number of ranks; 0 for what is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < len(str(_MOST)):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < _MOST else 0


def ranks_that_count(degrees: Degrees, ranks: int) -> int:
    """The ranks by which DeepSpeed multiplies the micro batch (``DeepSpeedConfig.__init__``).

    Those that AutoTP divides tensors among count, too: their groups are made after the batch sizes were settled.
    """
    sharing = degrees.stages * degrees.sequences * (degrees.tensors if degrees.divides_tensors == MEGATRON else 1)
    return max(1, ranks // sharing)
