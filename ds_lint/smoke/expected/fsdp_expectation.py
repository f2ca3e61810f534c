"""What the settings of a launch with FSDP ask for, as they are written, and where in the file each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.record import Record
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.smoke.expected.fsdp_units import BY_LAYER, BY_SIZE
from ds_lint.smoke.records.fsdp import FSDP1, FSDP2
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config

_HYBRID = {"HYBRID_SHARD": "FULL_SHARD", "HYBRID_SHARD_ZERO2": "SHARD_GRAD_OP"}
_NUMBERED = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}
REPLICAS, SHARDS = "parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size"
OTHER_DEGREES = tuple(f"parallelism_config_{degree}_size" for degree in ("tp", "cp", "sp"))


def launch_of(config: Config) -> AccelerateLaunch | None:
    """The launch that a config describes, if it is one with FSDP on GPUs."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    is_fsdp = launch is not None and launch.launcher == "multi_gpu" and bool(launch.value("use_fsdp"))
    return launch if is_fsdp else None


class FsdpExpectation(Record):
    """The settings as words and numbers; ``ranks`` are those of the run, and ``nodes`` None if it is a small one."""

    launch: AccelerateLaunch
    ranks: int
    nodes: int | None = None

    def __post_init__(self) -> None:
        self.plugin = FsdpPlugin(self.launch)
        self.version = FSDP2 if self.plugin.version == 2 else FSDP1

    def key(self, field: str) -> str:
        """The dotted path of a setting, or of the section if it is not written."""
        return dotted(self.plugin.setting(field).path or self.plugin.path)

    def is_on(self, field: str) -> bool:
        """Whether a switch is on."""
        return bool(self.plugin.is_on(field))

    @property
    def strategy(self) -> str:
        """How FSDP 1 shards; the same words for FSDP 2."""
        if self.version == FSDP2:
            return "FULL_SHARD" if flag(self.plugin.text("reshard_after_forward")) else "SHARD_GRAD_OP"
        word = str(self.plugin.text("sharding_strategy")).upper()
        return _NUMBERED[int(word) - 1] if word.isdigit() and 0 < int(word) <= len(_NUMBERED) else word

    @property
    def strategy_key(self) -> str:
        """Where the strategy is written."""
        return self.key("reshard_after_forward" if self.version == FSDP2 else "sharding_strategy")

    @property
    def reshards(self) -> bool:
        """Whether whole parameters are freed between the forward and the backward pass."""
        return _HYBRID.get(self.strategy, self.strategy) == "FULL_SHARD"

    @property
    def shard_ranks(self) -> int:
        """The ranks that divide the parameters among them."""
        if self.version == FSDP2:
            return self.degree(SHARDS) if self.has_degrees else self.ranks
        return 1 if self.strategy == "NO_SHARD" else self.ranks_of_node if self.strategy in _HYBRID else self.ranks

    @property
    def ranks_of_node(self) -> int:
        """The ranks of a node, among which a hybrid strategy of FSDP 1 shards.

        A small run stands for two nodes if it has enough ranks.
        """
        if self.nodes is not None:
            return max(1, self.ranks // self.nodes)
        is_divided = self.strategy in _HYBRID and self.ranks >= 4 and self.ranks % 2 == 0
        return self.ranks // 2 if is_divided else self.ranks

    @property
    def has_degrees(self) -> bool:
        """Whether the file divides the ranks itself, with ``parallelism_config``."""
        return (
            bool(self.launch.value("use_parallelism_config")) or self.launch.section("parallelism_config") is not None
        )

    def degree(self, name: str) -> int:
        """A degree of ``parallelism_config``."""
        value = str(self.launch.value(name))  # accelerate reads words, too
        return max(1, int(value)) if value.isdecimal() else 1

    @property
    def compute_dtype(self) -> str | None:
        """The dtype that parameters have while they are computed with, and gradients while they are reduced."""
        return _DTYPES.get(str(self.launch.value("mixed_precision")).lower())

    @property
    def precision_key(self) -> str:
        """Where the precision is written."""
        setting = self.launch.setting("mixed_precision")
        return dotted(setting.path) if setting.path else dotted(self.plugin.path)

    @property
    def policy(self) -> str:
        """The policy by which modules become units."""
        return str(self.plugin.policy)

    @property
    def layers(self) -> tuple[str, ...]:
        """The classes that are units; none: those that the model names."""
        text = self.plugin.text("transformer_cls_names_to_wrap")
        return tuple(text.split(",")) if isinstance(text, str) else ()

    @property
    def least_elements(self) -> int:
        """Of a unit, if the policy is by size."""
        return int(str(self.plugin.text("min_num_params")))

    @property
    def keeps_original(self) -> bool:
        """Whether the optimizer gets the parameters themselves."""
        return self.version == FSDP2 or self.is_on("use_orig_params")

    @property
    def syncs(self) -> bool:
        """Whether rank 0 sends its weights to the others."""
        if self.version == FSDP2:
            return self.is_on("cpu_ram_efficient_loading")
        return self.is_on("sync_module_states") or self.is_on("cpu_ram_efficient_loading")

    @property
    def state_dict_type(self) -> str:
        """How a checkpoint is saved."""
        return str(self.plugin.state_dict_type)

    @property
    def compiler(self) -> str | None:
        """The compiler of torch that the file asks for; None for none."""
        backend = self.launch.value("dynamo_backend")
        return None if backend is None or str(backend).lower() == "no" else str(backend)

    def arguments(self, layers: tuple[str, ...], least: int) -> tuple[str, ...]:
        """The arguments of ``accelerate launch`` for these ranks on one machine, and units of these layers or sizes."""
        given = ["--num_processes", str(self.ranks), "--num_machines", "1", "--machine_rank", "0"]
        if self.policy == BY_SIZE and least != self.least_elements:
            given += ["--fsdp_min_num_params", str(least)]
        if self.policy == BY_LAYER and layers != self.layers:
            given += ["--fsdp_transformer_layer_cls_to_wrap", ",".join(layers)]
        return (*given, *(["--dynamo_backend", "no"] if self.compiler is not None else []))

    def written(self) -> list[tuple[str, Any]]:
        """The settings in the file: the name as an argument of the launch, and the dotted path."""
        return [(name, dotted(path)) for path, name in self.launch.landed.items()]
