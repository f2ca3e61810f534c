"""Which values are DeepSpeed configs, and which files are recipes that name one: by their keys, not by a name."""

from __future__ import annotations

from ds_lint.source.languages import IN_YAML

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node

# Every config, and every call that makes one, has one of these words in some spelling; no other file is even parsed.
_MARKS = (
    b"train_micro_batch", b"train_batch_size", b"wall_clock_breakdown", b"steps_per_print", b"gradient_clipping",
    b"zero_allow_untested", b"zero_force_ds", b"activation_checkpointing", b"offload_optimizer", b"offload_param",
    b"loss_scale_window", b"compute_environment", b"distributed_type", b"DeepSpeedPlugin", b"DeepSpeedStrategy",
    b"fsdp=", b"fsdp_config",
    b"FullyShardedDataParallel", b"fully_shard",
)  # fmt: skip
_SPELLED = rb"zero.?optimi[sz]|strategy\W{1,6}deepspeed|deepspeed_stage_\d"
_MARK = rb"|".join((_SPELLED, *_MARKS))

NAMES_CONFIG = "deepspeed"  # the key with which a recipe names a config, or holds it
_NAMES_CONFIG = rb"""(?m)^deepspeed[ \t]*:|["']deepspeed["'][ \t\r\n]*:"""
LONGEST_RECIPE = 200_000  # characters; recipes are short, and PyYAML needs seconds for a megabyte

_ZERO = r"(?i)zero.?optimi[sz]"  # also where it is misspelled

# Top-level keys that are DeepSpeed's alone, each with the kinds of value that it has in a config.
_OWN = {
    "zero_optimization": ("object", "boolean"),
    "train_micro_batch_size_per_gpu": ("integer", "float", "string", "template"),
    "zero_allow_untested_optimizer": ("boolean", "string"),
    "zero_force_ds_cpu_optimizer": ("boolean", "string"),
    "wall_clock_breakdown": ("boolean", "string"),
    "flops_profiler": ("object",),
    "comms_logger": ("object",),
    "aio": ("object",),
}
# Top-level keys that other tools have too, with the values that they have here.
_SHARED = {
    "train_batch_size": ("integer", "float", "string", "template"),
    "gradient_accumulation_steps": ("integer", "float", "string", "template"),
    "gradient_clipping": ("integer", "float", "string", "template"),
    "steps_per_print": ("integer", "float", "string", "template"),
    "fp16": ("object",),
    "bf16": ("object",),
    "optimizer": ("object",),
    "scheduler": ("object",),
    "activation_checkpointing": ("object",),
    "tensorboard": ("object",),
    "zero-optimization": ("object",),
}
# Those of them that any training script may keep among its own settings.
_ANYBODYS = ("train_batch_size", "gradient_accumulation_steps", "gradient_clipping")


# Keys by which the YAML of ``accelerate launch --config_file`` is known, and others that it often has.
_ACCELERATES = ("compute_environment", "distributed_type")
_OF_YAML = tuple(name.encode() for name in _ACCELERATES)
_BESIDE = frozenset((
    "debug", "deepspeed_config", "downcast_bf16", "dynamo_backend", "dynamo_config", "ec2_instance_type",
    "enable_cpu_affinity", "fp16", "fp8_config", "fsdp_config", "gpu_ids", "iam_role_name", "ipex_config",
    "machine_rank", "main_process_ip", "main_process_port", "main_training_function", "megatron_lm_config",
    "mixed_precision", "mpirun_config", "num_machines", "num_processes", "parallelism_config", "profile",
    "rdzv_backend", "region", "same_network", "tpu_env", "tpu_use_cluster", "tpu_use_sudo", "use_cpu",
))  # fmt: skip


def may_be_accelerates(text: str) -> bool:
    """Whether it is worth parsing a YAML to find out if it is one for ``accelerate launch``: those are short."""
    return len(text) < IN_YAML and any(name in text for name in _ACCELERATES)


def accelerates_keys(root: Node | None) -> list[str]:
    """The keys by which a YAML is known to be one for ``accelerate launch --config_file``; none if it is not."""
    if root is None or root.kind != "object":
        return []
    telling = [name for name in _ACCELERATES if (node := root.get(name)) is not None and node.kind not in _CONTAINERS]
    found = telling + [member.key for member in root.members if member.key in _BESIDE]
    return found if telling and len(found) >= 2 and 2 * len(found) >= len(root.members) else []


_CONTAINERS = ("object", "array")


def may_be_recipe(data: bytes) -> bool:
    """Whether it is worth parsing a YAML or JSON to find out if it is a recipe."""
    if len(data) >= LONGEST_RECIPE or NAMES_CONFIG.encode() not in data:
        return False
    import re

    return re.search(_NAMES_CONFIG, data) is not None


def may_be_inline(text: str) -> bool:
    """Whether it is worth parsing a YAML or TOML to find out if a mapping in it is a config, or makes one."""
    return len(text) < LONGEST_RECIPE and _has_mark(text.encode(errors="replace"))


def recipe_keys(root: Node | None) -> tuple[str, list[str]]:
    """The framework that a recipe with a config is for and the keys that tell; no keys for anything else."""
    node = root.get(NAMES_CONFIG) if root is not None and root.kind == "object" else None
    if node is None or not (node.kind == "object" or (node.kind == "string" and node.value)):
        return "", []
    framework, keys = framework_keys(root)
    return (framework, [NAMES_CONFIG, *keys]) if framework else ("", [])


def framework_keys(root: Node | None) -> tuple[str, list[str]]:
    """The framework that a recipe is for, whether it names a config or not, and the keys that tell; else nothing."""
    from ds_lint.frameworks import recognized  # few files are recipes

    return recognized([member.key for member in root.members] if root is not None and root.kind == "object" else [])


def held(document: Document) -> Node | None:
    """The config that a recipe holds; None if it names a file."""
    node = document.root.get(NAMES_CONFIG) if document.root is not None else None
    return node if node is not None and node.kind == "object" else None


def as_recipe(document: Document) -> bool:
    """Whether a document is a recipe; it is marked as one, whose config is a dict."""
    if document.issues or not recipe_keys(document.root)[1]:
        return False
    document.kind = "recipe"
    document.is_dict = True
    return True


def looks_like_accelerates(text: str) -> bool:
    """The same of a YAML that cannot be read."""
    import re

    keys = set(re.findall(r"^(\w+)[ \t]*:", text, re.MULTILINE))
    return not keys.isdisjoint(_ACCELERATES) and len(keys & {*_ACCELERATES, *_BESIDE}) * 2 >= max(len(keys), 4)


def looks_like_python(text: str) -> bool:
    """Whether a module that cannot be read has a key of a config, or a call that makes one."""
    import re

    keys = set(re.findall(r"['\"](\w+)['\"]\]?\s*[:=]", text)) | set(re.findall(r"\b(\w+)\s*=\s*(?:dict\(|\{)", text))
    return not keys.isdisjoint(_OWN) or re.search(r"\bDeepSpeed(?:Plugin|Strategy)\(", text) is not None


def may_be_config(data: bytes) -> bool:
    """Whether it is worth parsing this file to find out."""
    return _has_mark(data) or b"\x00" in data[:4]


def _has_mark(data: bytes) -> bool:
    if any(mark in data for mark in _MARKS) or b"zero_optimiz" in data:
        return True
    is_spelled = b"optimi" in data and b"zero" in data
    if not (is_spelled or b"deepspeed_stage_" in data or (b"strategy" in data and b"deepspeed" in data)):
        return False  # most files, and importing re would take a hook longer than its file
    import re

    return re.search(_SPELLED, data) is not None


def may_be_in_python(data: bytes) -> bool:
    """The same of a module, which takes longer to read; ``per_device_train_batch_size`` says nothing there."""
    if not _has_mark(data):
        return False
    import re

    marks = re.finditer(_MARK, data)
    return any(match[0] not in _OF_YAML and data[match.start() - 1 : match.start()] != b"_" for match in marks)


def is_config(document: Document) -> bool:
    """Whether a document holds a DeepSpeed config."""
    return bool(telling_keys(document.root))


def telling_keys(root: Node | None) -> list[str]:
    """The keys by which a value is known to be a DeepSpeed config; none if it does not look like one."""
    if root is None or root.kind != "object" or _is_of_a_framework(root):
        return []
    kinds = _OWN["zero_optimization"]
    if zero := [member.key for member in root.members if is_zero(member.key) and member.value.kind in kinds]:
        return zero
    if own := _keys_of(root, _OWN):
        return own
    shared = _keys_of(root, _SHARED)  # two make a config if they are most of it, and not just anybody's
    is_most = len(shared) >= 2 and 2 * len(shared) >= len(root.members)
    return shared if is_most and not all(key in _ANYBODYS for key in shared) else []


def may_tell(keys: set[str]) -> bool:
    """Whether some of these keys may make a config of a value."""
    return bool(keys & _OWN.keys()) or len(keys & _SHARED.keys()) > 1 or any(map(is_zero, keys))


def known_keys(root: Node) -> list[str]:
    """The keys of a mapping that a config has, with a kind of value that they have there."""
    return [*_keys_of(root, _OWN), *_keys_of(root, _SHARED)]


def is_zero(key: str) -> bool:
    """Whether a key is that of the settings of ZeRO, in some spelling."""
    lowered = key.lower()
    if key == "zero_optimization" or (key.isascii() and not ("zero" in lowered and "optimi" in lowered)):
        return key == "zero_optimization"
    import re

    return re.search(_ZERO, key) is not None


def _is_of_a_framework(root: Node) -> bool:
    """Whether these are the arguments of a framework that passes on what DeepSpeed knows, as GPT-NeoX does."""
    return len(root.members) >= _MANY and _is_hardly_known(root)


_MANY = 30  # half as many again as the longest of a thousand configs; the arguments of GPT-NeoX are 42 at least


def is_something_else(document: Document) -> bool:
    """Whether a document hardly has a key of a DeepSpeed config, such as the config of a model."""
    root = document.root
    if root is None or root.kind != "object" or not root.members or is_config(document):
        return False
    return _is_hardly_known(root)


def may_be_named(document: Document) -> bool:
    """Whether a JSON file that an argument of a launch names may be its config, and not data or a list."""
    root = document.root
    return root is not None and root.kind == "object" and not is_something_else(document)


def is_mostly_config(root: Node) -> bool:
    """Whether most keys of a text are DeepSpeed's, and have its values: other tools have some of them, too."""
    known = known_keys(root)
    return root.kind == "object" and bool(known) and 2 * len(known) >= len(root.members)


def _is_hardly_known(root: Node) -> bool:
    known = [member for member in root.members if member.key in _OWN or member.key in _SHARED]
    return 4 * len(known) < len(root.members)


def _keys_of(root: Node, keys: dict[str, tuple[str, ...]]) -> list[str]:
    return [member.key for member in root.members if member.value.kind in keys.get(member.key, ())]
