"""The namespace that ``accelerate launch`` makes of a YAML, with the place of each value.

Sources: ``_validate_launch_command`` in ``accelerate/commands/launch.py`` and ``commands/config/config_args.py``. Keys
of the top level are copied into the namespace if the parser leaves None there, keys of a section whatever is there.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.flags import value_of_flag
from ds_lint.semantics.made_config import SourceSetting
from ds_lint.source.tree import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts, StackTable
    from ds_lint.source.tree import KeyPath, Member, Node

DEEPSPEED, FSDP, MEGATRON = "DEEPSPEED", "FSDP", "MEGATRON_LM"
TPU = ("XLA", "TPU")
_TYPES = {"use_deepspeed": DEEPSPEED, "use_fsdp": FSDP, "use_megatron_lm": MEGATRON, "multi_gpu": "MULTI_GPU"}
# Of the sections, in the order in which they are copied; a name without the prefix gets it.
SECTIONS = {
    "fp8_config": "fp8",
    "deepspeed_config": "",
    "fsdp_config": "fsdp",
    "parallelism_config": "",
    "megatron_lm_config": "",
    "mpirun_config": "",
    "dynamo_config": "dynamo_",
    "tp_config": "",
    "ipex_config": "",
}
_JOINED = {"fp8": "fp8_", "fsdp": "fsdp_", "dynamo_": "dynamo_"}
# What ``prepare_extend_env_parallelism_config`` (``accelerate/utils/launch.py``) passes on where a degree is above 1.
_OF_DEGREES = {
    "parallelism_config_cp_size": ("parallelism_config_cp_comm_strategy",),
    "parallelism_config_sp_size": (
        "parallelism_config_sp_attn_implementation",
        "parallelism_config_sp_seq_length",
        "parallelism_config_sp_seq_length_is_variable",
    ),
}
# Flags that say of which type the run is.
FLAGS_OF_TYPE = ("multi_gpu", "tpu", "tpu_use_cluster", "use_deepspeed", "use_fsdp", "use_megatron_lm")
_HANDLED_APART = ("compute_environment", "mixed_precision", "distributed_type")
# What the launchers hand over to torchrun; ``torch/distributed/run.py`` has the parser.
TORCHRUN = (
    "event_log_handler", "local_addr", "local_ranks_filter", "log_dir", "log_line_prefix_template", "logs_specs",
    "master_addr", "master_port", "max_restarts", "module", "monitor_interval", "nnodes", "no_python", "node_rank",
    "nproc_per_node", "numa_binding", "rdzv_backend", "rdzv_conf", "rdzv_endpoint", "rdzv_id", "redirects", "role",
    "run_path", "standalone", "start_method", "tee", "duplicate_stdout_filters", "duplicate_stderr_filters",
    "signals_to_handle", "virtual_local_rank", "shutdown_timeout",
)  # fmt: skip


class AccelerateLaunch:
    """A YAML as one release of accelerate reads it.

    ``settings`` is the namespace of the parser once the file is copied into it. ``landed`` has, by the path of a key,
    the name under which its value is in the namespace; a key that is not there is lost. ``arguments`` has the defaults
    of the parser. ``has_own_plugin`` says that the training arguments, and not the file, decide how FSDP is set up.
    ``flags`` has the members of the flags of the command, which come first; ``is_command`` says that there is no file.
    ``overruled`` has the keys of the file for which a flag counts, with its name, and ``outweighed`` those for which a
    flag does not, in older releases. ``variables`` has the variable of each setting, if the flags are none but
    variables, and ``exported`` what only variables set. ``replaced`` has the settings for which the script's own
    plugin has others.
    """

    __slots__ = (
        "_given", "_knowledge", "arguments", "exported", "flags", "has_own_plugin", "is_command", "is_sagemaker",
        "keys", "landed", "outweighed", "overruled", "replaced", "root", "settings", "variables",
    )  # fmt: skip

    def __init__(
        self,
        root: Node,
        knowledge: Knowledge,
        flags: Sequence[Member] = (),
        *,
        is_command: bool = False,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.flags = flags
        self.is_command = is_command
        self.variables = variables or {}
        self._knowledge = knowledge
        self.has_own_plugin = False
        # What the command line sets, which no section replaces; it names the file and the script.
        self._given = {"config_file", "training_script"} if self.does("flags-outweigh-sections") else set[str]()
        environment = root.get("compute_environment")  # whatever is not the word for the local machine is SageMaker's
        self.is_sagemaker = environment is not None and value_of(environment) not in ("LOCAL_MACHINE", UNKNOWN)
        self.keys: dict[str, StackFacts] = knowledge.table("accelerate", "sagemaker" if self.is_sagemaker else "yaml")
        flag_facts = knowledge.table("accelerate", "launch_arguments")
        self.arguments = {name: facts.get("default") for name, facts in flag_facts.items()}
        self.settings = {name: SourceSetting(default) for name, default in self.arguments.items()}
        self.landed: dict[KeyPath, str] = {}
        self.overruled: dict[KeyPath, str] = {}
        self.outweighed: dict[KeyPath, str] = {}
        self.replaced: dict[str, SourceSetting] = {}
        self.exported: dict[str, SourceSetting] = {}
        for member in flags:
            name = member.key
            if name in flag_facts:
                text = None if member.value.kind == "template" else str(member.value.value)
                value = value_of_flag(text, flag_facts[name])
                if self.variables:
                    value = UNKNOWN if text is None else text or True
                self.settings[name] = SourceSetting(value, (name,), member) if is_command else SourceSetting(value)
                if is_command:
                    self.landed[(name,)] = name
                if self.variables:
                    self.exported[name] = self.settings[name]
                if self.does("flags-outweigh-sections"):
                    self._given.add(name)
        if is_command:
            self._complete()
        elif not self.is_sagemaker:
            self._choose_launcher()
            self._copy()

    @property
    def release(self) -> str:
        """The release of accelerate."""
        return self._knowledge.target["accelerate"]

    @property
    def distributed_type(self) -> Any:
        """What a flag or ``distributed_type`` says."""
        for member in self.flags:
            if member.key in _TYPES:
                return _TYPES[member.key]
        node = self.root.get("distributed_type")
        return value_of(node) if node is not None else None

    @property
    def launcher(self) -> str:
        """Which launcher starts the ranks, by its name in ``accelerate/commands/launch.py``."""
        if self.is_sagemaker:
            return "sagemaker"
        is_on = {name: bool(self.value(name)) for name in ("use_deepspeed", "use_fsdp", "use_megatron_lm", "multi_gpu")}
        if not self.value("cpu"):
            if is_on["use_deepspeed"]:
                return "deepspeed"
            if any(is_on.values()):
                return "multi_gpu"
            if self.value("tpu"):
                return "tpu_pod" if self.value("tpu_use_cluster") else "tpu"
        return "simple"

    def does(self, behaviour: str) -> bool:
        """Whether the release does something that no extracted fact says; see ``schemas/trainer_overlay.json``."""
        return self._knowledge.stack_does(behaviour)

    def otherwise(self, field: str) -> Any:
        """What the plugin takes for a setting that is not given."""
        return self._knowledge.table("accelerate", "plugin").get(field, {}).get("otherwise")

    def has_plugin_field(self, field: str) -> bool:
        """Whether the plugin of the release has a field."""
        return field in self._knowledge.table("accelerate", "plugin")

    @property
    def is_followed(self) -> bool:
        """Whether it is known what the release does with the values: older ones keep them in other ways."""
        return self.does("launch-checks-the-file")

    def table(self, name: StackTable) -> dict[str, StackFacts]:
        """What is known of the release, of one kind."""
        return self._knowledge.table("accelerate", name)

    def words(self, name: str) -> list[str]:
        """The words that an enumeration of accelerate takes; none where the release has no such enumeration."""
        return self._knowledge.table("accelerate", "words").get(name, {}).get("choices", [])

    def shown(self, name: str) -> str:
        """A setting as the command has it: a flag, or a variable."""
        return self.variables.get(name, f"--{name}")

    def replace(self, name: str, value: Any) -> None:
        """Let a keyword of the script's own plugin count instead of a setting."""
        self.replaced[name] = self.setting(name)
        self.settings[name] = SourceSetting(value)

    def value(self, name: str) -> Any:
        """A value of the namespace; None where it has no such name."""
        setting = self.settings.get(name)
        return setting.value if setting is not None else None

    def setting(self, name: str) -> SourceSetting:
        """A value of the namespace and its place."""
        return self.settings.get(name) or SourceSetting(None)

    def section(self, name: str) -> Node | None:
        """A section of the file that is a mapping."""
        node = self.root.get(name)
        return node if node is not None and node.kind == "object" else None

    def members(self) -> Iterator[tuple[KeyPath, Member]]:
        """The keys that count: those of the top level, and those of the sections; of duplicates, the last."""
        if self.is_command:
            yield from (((member.key,), member) for member in self.flags)
        for name, member in last_members(self.root):
            yield (name,), member
            if name in SECTIONS and member.value.kind == "object":
                for below, inner in last_members(member.value):
                    yield (name, below), inner

    def reads(self, name: str) -> bool:
        """Whether the launcher that starts the ranks, or what every launch does first, takes a name."""
        if (name.startswith("fsdp") and not self.value("use_fsdp")) or (
            name.startswith("megatron_lm") and not self.value("use_megatron_lm")
        ):
            return False
        degree = next((degree for degree, names in _OF_DEGREES.items() if name in names), None)
        if degree is not None and not self._splits(degree):
            return False
        launchers = self._knowledge.table("accelerate", "launchers")
        for launcher in ("every", self.launcher):
            reads = launchers.get(launcher, {}).get("reads", [])
            if any(name == one or (one.endswith("*") and name.startswith(one[:-1])) for one in reads):
                return True
        return name in TORCHRUN and self.launcher in ("deepspeed", "multi_gpu")

    def _splits(self, degree: str) -> bool:
        """Whether a degree of parallelism is above 1, which it may be where it is not known."""
        size = self.value(degree)
        return size is UNKNOWN or (isinstance(size, (int, float)) and size > 1)

    def is_read(self, path: KeyPath) -> bool:
        """Whether anything reads a key of the file."""
        if len(path) == 1 and self._is_read_from_file(path[0]):
            return True
        if self.keys.get(path[0], {}).get("converted"):
            return self.root.member("mixed_precision") is None if path[0] == "fp16" else self.reads("dynamo_backend")
        if path in self.landed or path in self.overruled:
            return self.reads(self.landed[path] if path in self.landed else self.overruled[path])
        return any(self.reads(name) for below, name in self.landed.items() if below[: len(path)] == path)

    def _is_read_from_file(self, name: str) -> bool:
        """Whether a key of the top level is read from the file itself, and that matters to the launcher."""
        if self.is_sagemaker:
            return True
        if name not in self._knowledge.table("accelerate", "launchers").get("every", {}).get("keys", ()):
            return False
        if name == "deepspeed_config":
            return self.launcher == "deepspeed"
        if name == "parallelism_config":
            return self.reads("use_parallelism_config")
        if name == "num_machines":
            return False  # copied, too
        if name == "mixed_precision":
            return len(self.setting(name).path or ()) < 2  # one of a section comes first
        return name != "tpu_use_cluster" or self.launcher.startswith("tpu")

    def _complete(self) -> None:
        """What a launch without a file has for what is not given; the GPUs of the machine are counted there."""
        for name, value in {"num_processes": UNKNOWN, "num_machines": 1, "mixed_precision": "no"}.items():
            if self.value(name) is None:
                self.settings[name] = SourceSetting(value)

    def _choose_launcher(self) -> None:
        """What the type of the run switches on, and what is looked up before anything is copied."""
        if any(self.value(name) for name in FLAGS_OF_TYPE):  # a flag does, and the file is not asked
            self._choose_gpus()
            return
        kind = self.distributed_type
        is_multiple = isinstance(kind, str) and kind.startswith("MULTI_") and kind != "MULTI_CPU"
        parallelism = self.root.get("parallelism_config")
        is_parallel = parallelism is not None and parallelism.kind != "null" and plain(parallelism) != {}
        for name, value in {
            "use_deepspeed": kind == DEEPSPEED,
            "multi_gpu": is_multiple,
            "tpu": kind in TPU,
            "use_fsdp": kind == FSDP,
            "use_megatron_lm": kind == MEGATRON,
            "use_parallelism_config": is_parallel,
        }.items():
            self._set(name, value, ("distributed_type",))
        if kind in TPU:
            self._set("tpu_use_cluster", value_of(self.root.get("tpu_use_cluster")), ("tpu_use_cluster",))
        self._choose_gpus()

    def _choose_gpus(self) -> None:
        if self.value("gpu_ids") is not None:
            return
        gpu_ids = self.root.get("gpu_ids")
        if gpu_ids is not None and gpu_ids.kind != "null":
            self._set("gpu_ids", value_of(gpu_ids), ("gpu_ids",))
        else:
            self.settings["gpu_ids"] = SourceSetting("all")

    def _set(self, name: str, value: Any, path: KeyPath) -> None:
        self.settings[name] = SourceSetting(value, path, self.root.member(path[-1]))

    def _copy(self) -> None:
        """The keys of the top level, then those of the sections, then the precision."""
        defaults = {name: facts["default"] for name, facts in self.keys.items() if "default" in facts}
        defaults |= {"use_cpu": False, "debug": False}
        if self.distributed_type == "NO" and "num_processes" in defaults:
            defaults["num_processes"] = 1
        for name, facts in self.keys.items():
            member = self.root.member(name)
            is_section = name in SECTIONS and (member is None or member.value.kind == "null")
            is_section = is_section or (member is not None and member.value.kind == "object")
            if member is not None and self._flag(name) is not None:
                self.overruled[(name,)] = name
            if is_section or name in _HANDLED_APART or "converted" in facts or self.value(name) is not None:
                continue
            if member is not None:
                self.settings[name] = SourceSetting(value_of(member.value), (name,), member)
                self.landed[(name,)] = name
            elif name in defaults:
                self.settings[name] = SourceSetting(defaults[name])
        if (gpu_ids := self.root.member("gpu_ids")) is not None and gpu_ids.value.kind != "null":
            self.landed[("gpu_ids",)] = "gpu_ids"
        self._copy_sections()
        self._choose_precision()

    def _copy_sections(self) -> None:
        old = self.root.member("dynamo_backend") if self.keys.get("dynamo_backend", {}).get("converted") else None
        if old is not None and old.value.value != "NO":
            self.settings["dynamo_backend"] = SourceSetting(value_of(old.value), ("dynamo_backend",), old)
        for name, prefix in SECTIONS.items():
            section = self.section(name)
            if section is None or name not in self.keys or (old is not None and name == "dynamo_config"):
                continue  # the key of old takes the place of the section
            for key, member in last_members(section):
                gets_prefix = not key.startswith(prefix) and (
                    name != "dynamo_config" or self.does("dynamo-keys-get-a-prefix")
                )
                landed = _JOINED[prefix] + key if gets_prefix else key
                if self._flag(landed) is not None:
                    (self.overruled if landed in self._given else self.outweighed)[name, key] = landed
                if landed in self._given:
                    continue
                self.settings[landed] = SourceSetting(value_of(member.value), (name, key), member)
                self.landed[(name, key)] = landed

    def _flag(self, name: str) -> Member | None:
        return next((one for one in self.flags if one.key == name), None)

    def _choose_precision(self) -> None:
        """A precision of a section counts first, then the one of the top level; null is none."""
        if self.value("mixed_precision"):
            return
        member, old = self.root.member("mixed_precision"), self.root.member("fp16")
        if member is not None and member.value.kind != "null":
            value = value_of(member.value)
            value = "no" if value is False and self.does("bare-no-is-a-precision") else value
            self.settings["mixed_precision"] = SourceSetting(value, ("mixed_precision",), member)
        elif member is None and old is not None and old.value.value:
            self.settings["mixed_precision"] = SourceSetting("fp16", ("fp16",), old)
        else:
            self.settings["mixed_precision"] = SourceSetting("no")


def prefix_of(section: str) -> str:
    """What the names of a section begin with once they are in the namespace."""
    return _JOINED.get(SECTIONS[section], "")


def last_members(node: Node) -> Iterator[tuple[str, Member]]:
    """The members of an object; of duplicates, the last."""
    for member in node.members:
        if node.member(member.key) is member:
            yield member.key, member


def value_of(node: Node | None) -> Any:
    """The value of a node; UNKNOWN for a placeholder that something else fills in before accelerate reads the file."""
    if node is None:
        return None
    if isinstance(node.value, str) and any(mark in node.value for mark in ("${", "{{", "{%", "<%")):
        return UNKNOWN
    return plain(node)
