"""What a run changes to fit this machine and a small model; every change is reported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.verdict import CPU, FAKE, Adaptation
from ds_lint.facts.argument_values import fields
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record, field
from ds_lint.semantics.batch import BATCH_SIZES, MICRO, STEPS, TRAIN, data_parallel_size
from ds_lint.semantics.features import is_on, number_of, zero_stage
from ds_lint.semantics.preparation import prepare
from ds_lint.smoke.expected.expectation import ASSUMED, ZERO, fitting, with_meant_names
from ds_lint.smoke.records.accelerate_script import BATCH_SIZE, script_of
from ds_lint.smoke.records.job import FP32, SWAPPABLE, ConfigEdit, Removed
from ds_lint.source.counts import count
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import dotted, plain

if TYPE_CHECKING:
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.accelerate_script import AccelerateScript
    from ds_lint.smoke.records.job import TrainingFields
    from ds_lint.smoke.records.small_model import Sizes

MOST_SAMPLES = 8  # of a micro batch: more samples show nothing more
MOST_MICRO_STEPS = 2  # of an accumulation window, for the same reason
_MONITORS = ("tensorboard", "wandb", "comet", "csv_monitor")
_GROUPS = ("zero_hpz_partition_size", "mics_shard_size")  # ranks among which something is shared

# Training arguments that reach outside the run, or need what this machine may not have.
_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "push_to_hub": (False, "the run sends nothing"),
    "report_to": ("none", "the run sends nothing"),
    "resume_from_checkpoint": (None, "the run resumes from its own checkpoint"),
    "load_best_model_at_end": (False, "the run evaluates nothing"),
    "save_strategy": ("no", "the run saves once, for its checks"),
    "eval_strategy": ("no", "the run evaluates nothing"),
    "evaluation_strategy": ("no", "the run evaluates nothing"),
    "do_eval": (False, "the run evaluates nothing"),
    "dataloader_num_workers": (0, "the run generates its data"),
    "dataloader_prefetch_factor": (None, "the run generates its data"),
    "dataloader_persistent_workers": (False, "the run generates its data"),
    "group_by_length": (False, "the run generates its data"),
    "train_sampling_strategy": ("random", "the run generates its data"),
    "torch_compile": (False, "the run starts no compiler"),
    "tf32": (None, "the run uses no GPU"),
    "use_cpu": (False, "with this argument, Accelerate starts no DeepSpeed ranks"),
    "no_cuda": (False, "with this argument, Accelerate starts no DeepSpeed ranks"),
    "hub_model_id": (None, "the run sends nothing"),
    "hub_token": (None, "the run sends nothing"),
    "local_rank": (-1, "the run starts its own ranks"),
}
# Micro batch and accumulation steps among the training arguments, and their defaults.
_TRAINERS_BATCH = (("per_device_train_batch_size", 8), ("gradient_accumulation_steps", 1))
_KEPT = ("max_live_parameters", "max_reuse_distance")  # also with the prefix stage3_
_UNREPORTED = frozenset({"output_dir", "logging_dir", "deepspeed", "overwrite_output_dir", "run_name"})


class Changes(Record):
    """The changes of one run: edits of the config, fields of TrainingArguments, and their reasons."""

    edits: list[ConfigEdit] = field(factory=list)
    training: TrainingFields = field(factory=dict)
    adaptations: list[Adaptation] = field(factory=list)
    script: AccelerateScript | None = None

    def set(self, config: Config, path: tuple[str, ...], value: Any, why: str) -> None:
        """Set a key path of the config to a value, unless it has that value already."""
        node = config.written.at(path)
        before = plain(node) if node is not None else None
        if node is not None and before == value and type(before) is type(value):
            return
        self.edits.append(ConfigEdit(path, value))
        self.adaptations.append(Adaptation(dotted(path), before, None if value is Removed else value, why))

    @property
    def adapted(self) -> frozenset[str]:
        """The dotted key paths that the run changes."""
        return frozenset(one.key for one in self.adaptations if one.key)


def adapt(config: Config, folder: str, *, ranks: int, mode: str, steps: int, is_real_world: bool = False) -> Changes:
    """The changes for a run of this many ranks in a folder; a real world keeps the batch sizes that fit it."""
    changes = Changes()
    if config.stack == "trainer":
        if config.facts.training is None or config.facts.training.origin == ASSUMED:
            why = "--trainer-args does not set them"
            changes.adaptations.append(Adaptation(None, "training arguments", "values that match the config", why))
        _arguments(config, changes, steps, mode)
    is_small = mode != FAKE and not (is_real_world and fits(config, ranks))
    if mode != FAKE:
        if is_small:
            _batch(config, changes, ranks, f"the run has {ranks} rank{'s' * (ranks != 1)}")
        _small_model(config, changes)
        _loss_scale(config, changes, steps)
        _groups(config, changes, ranks)
        _sub_groups(config, changes)
    if config.stack == "accelerate":
        _script(config, changes, steps, ranks, is_small=is_small)
    _paths(config, changes, folder)
    if is_on(config, "checkpoint", "load_universal"):
        why = "the run resumes from its own checkpoint, which is not converted"
        changes.set(config, ("checkpoint", "load_universal"), False, why)
    if mode == CPU and is_on(config, "fp16", "enabled"):
        changes.adaptations.append(Adaptation("fp16.enabled", True, True, "the CPU computes in fp16, which is slow"))
    return changes


def _loss_scale(config: Config, changes: Changes, steps: int) -> None:
    """A window after which the loss scale rises that ends with the steps of the run, so that it is seen to rise."""
    path = ("fp16", "loss_scale_window")
    prepared, written = prepare(config), config.written.at(path)
    if config.written.at(path[:1]) is None or prepared.value("fp16", "enabled") is not True:
        return
    window = number_of(written) if written is not None else None
    if not prepared.value("fp16", "loss_scale") and (written is None or (window is not None and window > steps)):
        changes.set(config, path, steps, f"the run has {steps} steps, after which the loss scale is to rise")


def of_adapters(sizes: Sizes) -> Adaptation:
    """What stands for a model with LoRA adapters."""
    after = f"frozen, with LoRA adapters of rank {sizes.adapter_rank} on its linear layers"
    return Adaptation(None, "the model", after, "--smoke-lora asks for it, and the rank of yours is unknown")


def _arguments(config: Config, changes: Changes, steps: int, mode: str) -> None:
    """The given training arguments, except those that reach outside the run."""
    known = fields(config.knowledge)
    training = config.facts.training
    given = training.given if training is not None else {}
    for name in given:
        # This release rejects a name that it does not know, and the run has to show that.
        found = config.argument(name) if name in known else given[name]
        if found is None or found.value is UNKNOWN or name in _UNREPORTED:
            continue
        changes.training[name] = found.value
    for name, (value, why) in _ARGUMENTS.items():
        if name not in known or (name == "tf32" and mode != CPU):
            continue
        before = changes.training.get(name)
        if name in changes.training and before != value:
            changes.adaptations.append(Adaptation(f"--{name}", before, value, why))
        if name in changes.training or name in ("report_to", "save_strategy", "disable_tqdm"):
            changes.training[name] = value
    changes.training["disable_tqdm"] = True
    changes.training["dataloader_pin_memory"] = False
    if not (changes.training.get("max_steps") or 0) > 0:
        epochs = changes.training.pop("num_train_epochs", None)
        written = config.written.at(("scheduler", "params", "total_num_steps"))
        total = number_of(written) if written is not None else None
        changes.training["max_steps"] = steps = int(total) if total else steps
        if epochs is not None:
            why = f"the run trains with max_steps {steps:,}"
            changes.adaptations.append(Adaptation("--num_train_epochs", epochs, None, why))
    _number(changes, "warmup_steps")


def _number(changes: Changes, name: str) -> None:
    """Convert a number that is given as text."""
    value = changes.training.get(name)
    if isinstance(value, str) and (number := count(value)) is not None:
        changes.training[name] = number


# -------------------------------------------------------------------------------------------------------- batch sizes


def _batch(config: Config, changes: Changes, ranks: int, why: str) -> None:
    """Small batch sizes that fit this many ranks and keep an accumulation window."""
    if is_on(config, "elasticity", "enabled"):
        changes.set(config, ("elasticity",), Removed, f"elasticity chooses batch sizes for a cluster, but {why}")
    written = _written(config)
    train, micro, steps = (_given(config, written[name]) for name in BATCH_SIZES)
    if config.stack == "trainer":
        _trainers_batch(config, changes, ranks, why)
        return
    if config.stack == "accelerate" and _are_left_to_script(config):
        _scripts_batch(config, changes, ranks, why)
        return
    nodes = (config.written.get(name) for name in written.values())
    if any(node is not None and node.kind != "null" and not (number_of(node) or 0) > 0 for node in nodes):
        return  # for example an "auto" that no library fills in; the run shows the result
    real = config.world_size
    fits = fitting(config, train, micro, steps, real) if real else None
    if fits is None and not _may_fit(train, micro, steps):
        return  # it fits no world size; the run shows what happens
    micro = micro or (fits.micro if fits else None)
    steps = steps or (fits.accumulation_steps if fits else 1 if micro is None or train is None else None)
    if micro is not None and steps is None and train is not None:
        steps = 1 if train // micro < 2 else 2  # the number of ranks that share the rest is unknown
    if micro is None and train is not None:
        micro = max(1, train // (steps or 1) // _counted(config, real or ranks))
    if micro is None:
        return  # DeepSpeed rejects it, with any number of ranks
    small = min(micro, MOST_SAMPLES)
    are_mistyped = _are_mistyped(written)
    window = min(steps or 1, MOST_MICRO_STEPS) if are_mistyped else _window(config, steps or 1)
    wanted = dict(zip(BATCH_SIZES, (small * window * _counted(config, ranks), small, window), strict=True))
    if _stays(config, wanted, ranks):
        return
    for name in BATCH_SIZES:
        is_added = name == STEPS and window > 1 and not are_mistyped
        if config.written.get(written[name]) is not None or is_added:
            changes.set(config, (written[name],), wanted[name], why if name == TRAIN else _why(name, wanted[name]))
    if all(config.written.get(written[name]) is None for name in (TRAIN, MICRO)):
        changes.set(config, (MICRO,), small, why)  # without elasticity, the config sets no size


def _counted(config: Config, ranks: int) -> int:
    """The world size that DeepSpeed multiplies by; a run passes it a dict."""
    return max(1, int(data_parallel_size(config, ranks, from_file=False)))


def fits(config: Config, ranks: int) -> bool:
    """Whether the batch sizes, as written, fit this many ranks."""
    if is_on(config, "elasticity", "enabled"):
        return False
    train, micro, steps = (_given(config, name) for name in BATCH_SIZES)
    if config.stack == "trainer":
        own_micro, own_steps = (_argument(config, name, default) for name, default in _TRAINERS_BATCH)
        if micro not in (None, own_micro) or steps not in (None, own_steps):
            return False
        micro, steps = own_micro, own_steps
    return fitting(config, train, micro, steps, ranks) is not None


def _written(config: Config) -> dict[str, str]:
    """The key of each batch size; a mistyped key keeps its name, so that the run shows what it does."""
    _, written_as = with_meant_names(config)
    return {name: written_as.get(name, name) for name in BATCH_SIZES}


def _are_mistyped(written: dict[str, str]) -> bool:
    """Whether one of the batch sizes is."""
    return any(name != meant for meant, name in written.items())


def _why(name: str, value: int) -> str:
    if name == MICRO:
        return "a smaller micro batch is enough for the checks"
    return f"{value} micro steps are enough to check accumulation" if value > 1 else "the run is short"


def _window(config: Config, steps: int) -> int:
    """Micro steps of a window: two at stages 1 and 2, because gradients between them show which stage runs."""
    return MOST_MICRO_STEPS if zero_stage(config) in (1, 2) else min(steps, MOST_MICRO_STEPS)


def _stays(config: Config, wanted: dict[str, int], ranks: int) -> bool:
    """Whether the config, as written, results in these batch sizes."""
    train, micro, steps = (_given(config, name) for name in BATCH_SIZES)
    found = fitting(config, train, micro, steps, ranks)
    return found is not None and tuple(found) == tuple(wanted.values())


def _may_fit(train: int | None, micro: int | None, steps: int | None) -> bool:
    """Whether the given batch sizes fit any world size."""
    return train is None or train % ((micro or 1) * (steps or 1)) == 0


def _trainers_batch(config: Config, changes: Changes, ranks: int, why: str) -> None:
    """The same for sizes that the training arguments set too: both change if they agree."""
    (micro_name, most), (steps_name, fewest) = _TRAINERS_BATCH
    micro, steps = _argument(config, micro_name, most), _argument(config, steps_name, fewest)
    train, written_micro, written_steps = (_given(config, name) for name in BATCH_SIZES)
    if written_micro not in (None, micro) or written_steps not in (None, steps) or micro is None or steps is None:
        return  # the Trainer compares them and raises
    is_left_out = config.written.get(STEPS) is None
    if is_left_out:
        steps = 1  # Accelerate fills that in if the config does not set it
    real = config.world_size
    if train is not None and (train % (micro * steps) or (real and real * micro * steps != train)):
        return
    small = min(micro, MOST_SAMPLES)
    window = min(steps, MOST_MICRO_STEPS) if _are_mistyped(_written(config)) else _window(config, steps)
    changes.training |= {micro_name: small, steps_name: window}
    if small != micro:
        _change(config, changes, MICRO, micro_name, micro, small)
    if window != steps:
        if is_left_out:
            changes.set(config, (STEPS,), window, _why(STEPS, window))
        else:
            _change(config, changes, STEPS, steps_name, steps, window)
    if train is not None:
        changes.set(config, (TRAIN,), small * window * _counted(config, ranks), why)


def _are_left_to_script(config: Config) -> bool:
    """Whether Accelerate fills in one of the batch sizes; it inserts 1 for missing accumulation steps."""
    nodes = {name: config.written.get(name) for name in BATCH_SIZES}
    return nodes[STEPS] is None or any(node is not None and node.value == AUTO for node in nodes.values())


def _sizes_of_script(config: Config, ranks: int) -> tuple[int, int]:
    """The micro batch size and the accumulation steps of a script that fits the config on this many ranks."""
    train, micro, steps = (_given(config, name) for name in BATCH_SIZES)
    is_filled = config.written.get(STEPS) is not None
    steps = steps or (max(1, train // micro // ranks) if is_filled and train is not None and micro else 1)
    return micro or (max(1, train // steps // ranks) if train is not None else BATCH_SIZE), steps


def _scripts_batch(config: Config, changes: Changes, ranks: int, why: str) -> None:
    """The same for sizes that the script sets if they are ``"auto"``: the others change, the script follows them."""
    train, written_micro, written_steps = (_given(config, name) for name in BATCH_SIZES)
    real = config.world_size
    micro, steps = _sizes_of_script(config, _counted(config, real or ranks))
    if train is not None and (train % (micro * steps) or (real and _counted(config, real) * micro * steps != train)):
        return  # the run shows what DeepSpeed makes of it
    small, window = min(micro, MOST_SAMPLES), _window(config, steps)
    if written_micro is not None:
        changes.set(config, (MICRO,), small, _why(MICRO, small))
    is_left_out = config.written.get(STEPS) is None
    if written_steps is not None or (is_left_out and window > 1):
        changes.set(config, (STEPS,), window, _why(STEPS, window))
    if train is not None:
        changes.set(config, (TRAIN,), small * window * _counted(config, ranks), why)


def _script(config: Config, changes: Changes, steps: int, ranks: int, *, is_small: bool) -> None:
    """The script that passes the config to Accelerate, with batch sizes for the config as it is changed."""
    micro, window = _sizes_of_script(config, _counted(config, config.world_size or ranks))
    if is_small:
        changed = {edit.path: edit.value for edit in changes.edits}
        micro = changed.get((MICRO,), min(micro, MOST_SAMPLES))
        window = changed.get((STEPS,), _window(config, window))
    changes.script = script_of(config, micro, window, steps=steps, ranks=ranks)
    why = 'the run has its own script with Accelerate, which also fills each "auto"'
    changes.adaptations.append(Adaptation(None, "your script", changes.script.words, why))


def _change(config: Config, changes: Changes, key: str, name: str, before: int, after: int) -> None:
    """Change a size in the config if it is a number there, else in the arguments."""
    if _given(config, key) is not None:
        changes.set(config, (key,), after, _why(key, after))
    else:
        changes.adaptations.append(Adaptation(f"--{name}", before, after, _why(key, after)))


def _argument(config: Config, name: str, default: int) -> int | None:
    """A whole number among the training arguments."""
    found = config.argument(name)
    value = found.value if found is not None else default
    return value if isinstance(value, int) and value > 0 else None


def _given(config: Config, name: str) -> int | None:
    """A batch size that the config itself gives; None for ``"auto"``."""
    node = config.written.get(name)
    value = number_of(node) if node is not None and node.kind != "null" else None
    return int(value) if value is not None and value > 0 else None


# ----------------------------------------------------------------------------------------------- model, ranks and paths


def _small_model(config: Config, changes: Changes) -> None:
    """Every parameter of a small model is below a threshold for a large model."""
    if zero_stage(config) != 3:
        return
    threshold = (ZERO, "stage3_param_persistence_threshold")
    alias = (ZERO, "param_persistence_threshold")
    path = alias if config.written.at(alias) is not None else threshold
    why = "every parameter of the small model is below the threshold, so ZeRO would shard none"
    changes.set(config, path, 0, why)


def generation_edits(config: Config, changes: Changes) -> list[ConfigEdit]:
    """The edits of the part that generates: ZeRO-3 keeps a small model whole between two uses of its weights."""
    why = "while the run generates, so that it gathers each weight again, as for a large model"
    # The ranks that resume run at the same time, and swap to the other folder.
    edits = [ConfigEdit(one.path, f"{one.value}-generate") for one in changes.edits if one.path[-1] == "nvme_path"]
    for name in _KEPT:
        path = (ZERO, name if config.written.at((ZERO, name)) is not None else f"stage3_{name}")
        node = config.written.at(path)
        edits.append(ConfigEdit(path, 0))
        changes.adaptations.append(Adaptation(dotted(path), plain(node) if node is not None else None, 0, why))
    return edits


def _groups(config: Config, changes: Changes, ranks: int) -> None:
    """Groups of ranks that divide the ranks of the run: the largest that is not larger, or else the smallest."""
    if config.world_size == ranks:
        return  # the config is for as many, and the run shows whether its groups fit
    for name in _GROUPS:
        size = number_of(node) if (node := config.written.at((ZERO, name))) is not None else None
        if size is None or size < 2 or ranks % size == 0:
            continue
        fitting = [number for number in range(2, ranks + 1) if ranks % number == 0] or [1]
        group = max((number for number in fitting if number <= size), default=fitting[0])
        changes.set(config, (ZERO, name), group, f"the run has {ranks} rank{'s' * (ranks != 1)}")


def _sub_groups(config: Config, changes: Changes) -> None:
    """Sub-groups that are just large enough to be swapped, if a pipeline is to swap one while another is updated."""
    offload = (ZERO, "offload_optimizer")
    is_pipelined = is_on(config, *offload, "pipeline_read") or is_on(config, *offload, "pipeline_write")
    if zero_stage(config) != 3 or config.value(*offload, "device") != "nvme" or not is_pipelined:
        return
    block = number_of(node) if (node := config.written.at(("aio", "block_size"))) is not None else None
    size = int(max(SWAPPABLE, block or 0)) // FP32
    node = config.written.at((ZERO, "sub_group_size"))
    if node is None or (number_of(node) or 0) > size:
        why = "the small model has a single sub-group, which leaves nothing to pipeline"
        changes.set(config, (ZERO, "sub_group_size"), size, why)


def _paths(config: Config, changes: Changes, folder: str) -> None:
    """Write only below the folder, and send nothing."""
    for section in ("offload_optimizer", "offload_param"):
        path = (ZERO, section, "nvme_path")
        node = config.written.at(path)
        if node is not None and node.kind == "string":
            changes.set(config, path, os.path.join(folder, "nvme"), "the run writes only to a temporary folder")
    for monitor in _MONITORS:
        if is_on(config, monitor, "enabled"):
            changes.set(config, (monitor, "enabled"), False, "the run logs and sends nothing")
    if is_on(config, "nebula", "enabled"):
        changes.set(config, ("nebula", "enabled"), False, "the run sends nothing")
    if config.written.at(("flops_profiler", "output_file")) is not None:
        file = os.path.join(folder, "flops")
        changes.set(config, ("flops_profiler", "output_file"), file, "the run writes only to a temporary folder")
