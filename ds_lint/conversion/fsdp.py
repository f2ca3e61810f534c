"""The setup of a YAML with FSDP, and the YAML of a setup.

Sources: ``FullyShardedDataParallelPlugin`` in ``accelerate/utils/dataclasses.py``, which gets every setting as the text
of an environment variable, and ``commands/config/cluster.py``, which writes such files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.conversion.setup import PRECISIONS, NotConvertibleError, Setup
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.source.counts import count
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from typing import Any

    from ds_lint.conversion.setup import Precision, Sharding
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch

# In the order of torch's ShardingStrategy, whose numbers a YAML may have, from 1.
STRATEGIES = ("FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "HYBRID_SHARD_ZERO2")
_STATE_DICTS = ("FULL_STATE_DICT", "LOCAL_STATE_DICT", "SHARDED_STATE_DICT")  # of StateDictType
_SHARDINGS: dict[str, Sharding] = {
    "FULL_SHARD": "parameters",
    "SHARD_GRAD_OP": "gradients",
    "NO_SHARD": "nothing",
    "HYBRID_SHARD": "parameters",
    "HYBRID_SHARD_ZERO2": "gradients",
}
REPLICATES, SHARDS = "parallelism_config_dp_replicate_size", "parallelism_config_dp_shard_size"


class FsdpTarget(NamedTuple):
    """What a YAML is written for: the version of FSDP, the release of Accelerate, and the ranks, if they are known."""

    version: int
    knowledge: Knowledge
    ranks: int | None = None

    @property
    def release(self) -> str:
        """The release of Accelerate."""
        return self.knowledge.target["accelerate"]

    def reads(self, name: str) -> bool:
        """Whether the launch has a setting."""
        return name in self.knowledge.table("accelerate", "launch_arguments")

    @property
    def has_groups(self) -> bool:
        """Whether FSDP 2 has a setting for how many ranks share one copy of the model."""
        return self.reads(REPLICATES)

    @property
    def upcasts(self) -> bool:
        """Whether trainable parameters become fp32 under ``mixed_precision``, whatever dtype the model is loaded in."""
        return self.knowledge.stack_does("fsdp-upcasts" if self.version == 1 else "fsdp-2-upcasts")


def newest_version(knowledge: Knowledge) -> int:
    """The newest version of FSDP that the release of Accelerate has, which is also what `accelerate config` writes."""
    return 2 if "fsdp_version" in knowledge.table("accelerate", "launch_arguments") else 1


def target_of(knowledge: Knowledge, version: int | None, ranks: int | None) -> FsdpTarget:
    """The target for a version of FSDP; raises NotConvertibleError if the release does not have it."""
    newest, release = newest_version(knowledge), knowledge.target["accelerate"]
    target = FsdpTarget(version or newest, knowledge, ranks)
    if target.version > newest:
        raise NotConvertibleError(f"accelerate {release} has no FSDP 2, which came with 1.6.0; use --fsdp-version 1")
    if not target.reads("fsdp_sharding_strategy"):
        raise NotConvertibleError(f"accelerate {release} has no sharding strategy in its YAML, which came with 0.12.0")
    return target


# ------------------------------------------------------------------------------------------------- to a YAML


def strategy(setup: Setup) -> str:
    """The sharding strategy of FSDP 1 for a setup."""
    if setup.group is not None:
        return "HYBRID_SHARD"
    return {"parameters": "FULL_SHARD", "gradients": "SHARD_GRAD_OP", "nothing": "NO_SHARD"}[setup.sharding]


def is_without_fsdp(setup: Setup, target: FsdpTarget) -> bool:
    """Whether only plain data parallelism does what the config requests: FSDP 2 always shards."""
    return setup.sharding == "nothing" and target.version == 2


def groups(setup: Setup, target: FsdpTarget) -> tuple[int, int] | None:
    """How often FSDP 2 replicates, and over how many ranks it shards; None if it shards over all of them."""
    if setup.group is None or target.version == 1 or not target.has_groups or target.ranks is None:
        return None
    copies, left = divmod(target.ranks, setup.group)
    return (copies, setup.group) if not left and copies > 1 else None


def launch_file_of(setup: Setup, kept: dict[str, object], target: FsdpTarget) -> dict[str, object]:
    """The YAML of a setup; ``kept`` are the keys of another YAML that hold for every way to train."""
    content: dict[str, object] = {
        "compute_environment": kept.get("compute_environment", "LOCAL_MACHINE"),
        "distributed_type": "MULTI_GPU" if is_without_fsdp(setup, target) else "FSDP",
    }
    if setup.precision is not None:
        content["mixed_precision"] = setup.precision
    if target.ranks is not None:
        content["num_processes"] = target.ranks
    content |= {name: value for name, value in kept.items() if name not in content}
    if not is_without_fsdp(setup, target):
        content["fsdp_config"] = {name: value for name, value in _settings(setup, target).items() if target.reads(name)}
        if (shape := groups(setup, target)) is not None:
            content["parallelism_config"] = dict(zip((REPLICATES, SHARDS), shape, strict=True))
    return content


def _settings(setup: Setup, target: FsdpTarget) -> dict[str, object]:
    """What FSDP reads; a release leaves out what it does not know."""
    wrapping: dict[str, object] = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
    saving: dict[str, object] = {
        "fsdp_offload_params": setup.offloads,
        "fsdp_state_dict_type": "FULL_STATE_DICT" if setup.saves_whole else "SHARDED_STATE_DICT",
    }
    if target.version == 2:
        return {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": setup.sharding == "parameters",
            **wrapping,
            **saving,
            # Without it, FSDP 2 does not copy the weights of rank 0 to the others.
            "fsdp_cpu_ram_efficient_loading": setup.loads_once or setup.sharding != "parameters",
        }
    name = strategy(setup)
    prefetch = "BACKWARD_PRE" if setup.prefetches else "NO_PREFETCH"
    takes_words = target.knowledge.table("accelerate", "launch_arguments")["fsdp_sharding_strategy"]["type"] == "str"
    old = {} if target.reads("fsdp_backward_prefetch") else {"fsdp_backward_prefetch_policy": prefetch}
    return {
        "fsdp_version": 1,
        "fsdp_sharding_strategy": name if takes_words else STRATEGIES.index(name) + 1,
        **wrapping,
        **saving,
        "fsdp_backward_prefetch": prefetch,
        **old,
        "fsdp_use_orig_params": True,
        "fsdp_cpu_ram_efficient_loading": setup.loads_once,
        "fsdp_sync_module_states": True,
    }


# ------------------------------------------------------------------------------------------------- from a YAML


def setup_of(launch: AccelerateLaunch, path: str, ranks_of_machine: int | None) -> Setup:
    """The setup of a YAML; raises NotConvertibleError if a setting has no value that is known before the run."""
    if not launch.value("use_fsdp"):
        return Setup("nothing", precision=_precision(launch, path))
    reading = _Reading(launch, path)
    sharding, group = reading.sharding(ranks_of_machine)
    state_dict = reading.word("fsdp_state_dict_type", _STATE_DICTS) or (
        "FULL_STATE_DICT" if version_of(launch) == 1 else "SHARDED_STATE_DICT"
    )
    return Setup(
        sharding,
        group,
        offloads=reading.flag("fsdp_offload_params"),
        saves_whole=sharding != "parameters" or state_dict == "FULL_STATE_DICT",
        loads_once=sharding == "parameters" and reading.flag("fsdp_cpu_ram_efficient_loading"),
        prefetches=sharding != "parameters" or not reading.forbids_prefetch(),
        precision=_precision(launch, path),
    )


def version_of(launch: AccelerateLaunch) -> int:
    """The version of FSDP that a YAML asks for."""
    return 2 if str(launch.value("fsdp_version")) == "2" else 1


def has_groups(launch: AccelerateLaunch) -> bool:
    """Whether a YAML shards over a part of the ranks only."""
    if version_of(launch) == 2:
        return _size(launch, REPLICATES) > 1
    return str(launch.value("fsdp_sharding_strategy")).upper() in ("HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "4", "5")


class _Reading:
    """The settings of FSDP as its plugin reads them."""

    def __init__(self, launch: AccelerateLaunch, path: str) -> None:
        self._launch = launch
        self._path = path

    def sharding(self, ranks_of_machine: int | None) -> tuple[Sharding, int | None]:
        """What is sharded, and over how many ranks; None for all, or if their number is not known."""
        if version_of(self._launch) == 2:
            shards: Sharding = "parameters" if self.flag("fsdp_reshard_after_forward") else "gradients"
            size = _size(self._launch, SHARDS) if has_groups(self._launch) else 0
            return shards, size if size > 1 else None
        name = self.word("fsdp_sharding_strategy", STRATEGIES) or "FULL_SHARD"
        return _SHARDINGS[name], ranks_of_machine if name.startswith("HYBRID") else None

    def flag(self, name: str) -> bool:
        """A setting that is on or off."""
        value = self._launch.value(name)
        read = flag(value) if value is not UNKNOWN else None
        if read is None and value is not None:
            self._refuse(name)
        return bool(read)

    def word(self, name: str, words: tuple[str, ...]) -> str | None:
        """A setting that is one of these words, or its number from 1."""
        value = self._launch.value(name)
        if value is None:
            return None
        text = str(value).upper()
        if (number := count(text)) and number <= len(words):
            return words[number - 1]
        if text not in words:
            self._refuse(name)
        return text

    def forbids_prefetch(self) -> bool:
        """Whether the backward pass does not prefetch, which is a setting of FSDP 1 only."""
        value = self._launch.value("fsdp_backward_prefetch") or self._launch.value("fsdp_backward_prefetch_policy")
        return version_of(self._launch) == 1 and str(value).upper() == "NO_PREFETCH"

    def _refuse(self, name: str) -> None:
        setting = self._launch.setting(name)
        key = dotted(setting.path) if setting.path is not None else name
        raise NotConvertibleError(f"{self._path}: `{key}` has no value that FSDP reads; run ds-lint check to see why")


def _size(launch: AccelerateLaunch, name: str) -> int:
    value = launch.value(name)
    return value if isinstance(value, int) else 0


def _precision(launch: AccelerateLaunch, path: str) -> Precision | None:
    setting = launch.setting("mixed_precision")
    if setting.member is None:
        return None
    word: Any = setting.value
    for one in PRECISIONS:
        if isinstance(word, str) and word.lower() == one:
            return one
    raise NotConvertibleError(f"{path}: `mixed_precision` has no value that Accelerate reads")
