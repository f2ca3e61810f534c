"""Rules about offload: its device, and the settings that prevent it (DS3xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import (
    has_kernel_of_gpu_only,
    has_no_optimizer,
    offloads_optimizer,
    optimizer_constructor,
    script_optimizers,
    with_passed_optimizer,
)
from ds_lint.semantics.features import (
    OLD_OFFLOAD,
    is_known_off,
    is_old_offload_unseen,
    is_on,
    is_truthy,
    number,
    number_of,
    zero_stage,
)
from ds_lint.semantics.related import beside
from ds_lint.semantics.swapping import BUFFERS_OF_ADAM, buffer_count, buffers_of_adam, pipelines, swaps_optimizer
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Member

ZERO = "zero_optimization"
DEVICE = (ZERO, "offload_optimizer", "device")


@rule("DS303", "partial-offload-below-stage-3", severity="error", effects=("rejected",), keys=(ZERO,))
def partial_offload_below_stage_3(config: Config) -> Iterator[Problem]:
    """``offload_optimizer.ratio`` below 1 without stage 3."""
    member = config.member(ZERO, "offload_optimizer", "ratio")
    ratio = number(member.value.value) if member else None
    stage = zero_stage(config)
    if not config.knowledge.does("partial-offload-is-checked"):
        return
    if member is not None and ratio is not None and 0 <= ratio < 1 and stage in (0, 1, 2):
        yield Problem(
            (ZERO, "offload_optimizer", "ratio"),
            member.value.span,
            f"`offload_optimizer.ratio` below 1 works only at stage 3, but the stage is {stage}: "
            "DeepSpeed rejects the config",
            rejected("parse"),
            help="Set `ratio` to 1.0, or set `stage` to 3.",
            label="needs stage 3",
            related=beside(config, ZERO, "stage"),
            fix=edits.replacement(config, (ZERO, "offload_optimizer", "ratio"), "1.0", "unsafe"),
        )


@rule("DS311", "nvme-path-missing", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def nvme_path_missing(config: Config) -> Iterator[Problem]:
    """Offload to NVMe at stage 3 without ``nvme_path``; below stage 3 DeepSpeed offloads to the CPU instead.

    For ``"auto"`` Accelerate takes the path of ``accelerate launch`` or its YAML, else the word none, which is a path
    like any other (``DeepSpeedPlugin.__post_init__`` in ``accelerate/utils/dataclasses.py``).
    """
    if zero_stage(config) != 3:
        return
    for name in ("offload_param", "offload_optimizer"):
        section = config.section(ZERO, name)
        device = section.member("device") if section else None
        path = section.get("nvme_path") if section else None
        if device is None or device.value.value != "nvme":
            continue
        if _is_named_none(config, name):
            member = config.member(ZERO, name, "nvme_path")
            yield Problem(
                (ZERO, name, "nvme_path"),
                member.value.span if member is not None else device.value.span,
                f'Accelerate sets the "auto" of `{name}.nvme_path` to "none": DeepSpeed writes to a folder `none`',
                RISK,
                help="Set `nvme_path` to a folder on the NVMe drive of every node instead of one in the working "
                f"directory, or start the script with `accelerate launch --{name}_nvme_path FOLDER`.",
                label='filled with "none"',
                severity="warning",
            )
        if path is not None and path.kind != "null":
            continue
        if name == "offload_optimizer" and has_no_optimizer(config):
            continue
        yield Problem(
            (ZERO, name, "device"),
            device.value.span,
            f'`{name}.device` is "nvme", but `nvme_path` is missing: deepspeed.initialize raises'
            + (with_passed_optimizer(config) if name == "offload_optimizer" else ""),
            rejected("initialize"),
            help="Add `nvme_path`: a folder on the NVMe drive of every node.",
            label="needs nvme_path",
        )


def _is_named_none(config: Config, name: str) -> bool:
    """Whether nothing gives Accelerate the path that takes the place of ``"auto"``."""
    written = config.written.at((ZERO, name, "nvme_path"))
    if written is None or written.value != AUTO or config.stack not in ("trainer", "accelerate"):
        return False
    launch = config.facts.launch.launch if config.facts.launch is not None else None
    if launch is not None and (
        launch.surroundings.has(f"{name}_nvme_path", "config_file")
        or f"ACCELERATE_DEEPSPEED_{name.upper()}_NVME_PATH" in launch.environment
        or (launch.launcher == "accelerate" and not launch.surroundings.is_complete)
    ):
        return False
    from ds_lint.semantics.preparation import prepare  # few configs have such a path

    return bool(prepare(config).value(ZERO, name, "nvme_path") == "none")


@rule("DS312", "offload-param-below-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def offload_param_below_stage_3(config: Config) -> Iterator[Problem]:
    """``offload_param`` at a stage that does not partition the parameters."""
    member = config.member(ZERO, "offload_param", "device")
    stage = zero_stage(config)
    if member is None or member.value.value not in ("cpu", "nvme") or stage is None or stage == 3:
        return
    yield Problem(
        (ZERO, "offload_param"),
        member.value.span,
        f"`offload_param` works only at stage 3, but the stage is {stage}: the parameters stay on the GPU",
        NO_EFFECT,
        help="Set `stage` to 3, or delete `offload_param`.",
        label="nothing is offloaded",
        related=beside(config, ZERO, "stage"),
        fix=edits.deletion(config, (ZERO, "offload_param"), "unsafe"),
    )


@rule("DS313", "offload-without-device", severity="warning", effects=("no-effect",), keys=(ZERO,))
def offload_without_device(config: Config) -> Iterator[Problem]:
    """An offload section without a device."""
    for name in ("offload_param", "offload_optimizer"):
        member = config.member(ZERO, name)
        if member is not None and member.value.members and member.value.get("device") is None:
            yield Problem(
                (ZERO, name),
                member.key_span,
                f'`{name}` has no `device`, which defaults to "none": nothing is offloaded',
                NO_EFFECT,
                help='Add `"device": "cpu"`.',
                label="no device",
                fix=edits.written(config, (ZERO, name, "device"), "cpu", "unsafe"),
            )


@rule("DS315", "offload-optimizer-at-stage-0", severity="error", effects=("risk", "no-effect"), keys=(ZERO,))
def offload_optimizer_at_stage_0(config: Config) -> Iterator[Problem]:
    """``offload_optimizer`` at stage 0: DeepSpeed builds a CPU optimizer, but only ZeRO moves its parameters there."""
    member = _offload(config)
    if member is None or zero_stage(config) != 0:
        return
    constructor = optimizer_constructor(config)
    if constructor is not None and "CPU" not in constructor.name:
        yield Problem(
            DEVICE,
            member.value.span,
            f"`offload_optimizer` needs ZeRO, but the stage is 0: the states of {constructor.name} stay on the GPU",
            NO_EFFECT,
            help="Set `stage` to 1, 2 or 3, or delete `offload_optimizer`.",
            label="nothing is offloaded",
            severity="warning",
        )
        return
    yield Problem(
        DEVICE,
        member.value.span,
        "`offload_optimizer` at stage 0 leaves the parameters on the GPU: "
        f"the first step of {constructor.name if constructor else 'a CPU optimizer'} raises",
        RISK,
        help="Set `stage` to 1, 2 or 3, or delete `offload_optimizer`, which needs ZeRO.",
        label="does not work at stage 0",
    )


@rule("DS369", "lamb-offloaded", severity="error", effects=("rejected",), keys=(ZERO,))
def lamb_offloaded(config: Config) -> Iterator[Problem]:
    """FusedLamb, whose kernel takes tensors on a GPU only, with weights and states on the host.

    Source: ``CHECK_CUDA`` in ``csrc/lamb/fused_lamb_cuda.cpp``; ``_configure_basic_optimizer`` in
    ``deepspeed/runtime/engine.py`` builds FusedLamb wherever the optimizer is.
    """
    path = DEVICE if config.member(*DEVICE) is not None else OLD_OFFLOAD
    member, constructor = config.member(*path), optimizer_constructor(config)
    if member is None or not offloads_optimizer(config) or not zero_stage(config):
        return
    yield from _passed_kernel_of_gpu(config, path, member)
    if constructor is None or constructor.name != "FusedLamb":
        return
    if not is_truthy(config.node("zero_allow_untested_optimizer")):
        return  # untested-zero-optimizer
    yield Problem(
        path,
        member.value.span,
        "DeepSpeed has no Lamb for the CPU: FusedLamb gets weights in host memory, and its first step raises",
        rejected("train"),
        help=f"Delete `{path[1]}`, or use AdamW, Lion or Adagrad, which DeepSpeed has a CPU version of.",
        label="has no CPU version",
    )


def _passed_kernel_of_gpu(
    config: Config, path: tuple[str, str, str] | tuple[str, str], member: Member
) -> Iterator[Problem]:
    """An optimizer with such a kernel that the script passes, where the config lets any run on the host.

    Sources: ``multi_tensor_apply`` in ``csrc/adam/multi_tensor_apply.cuh`` and ``csrc/lion/multi_tensor_apply.cuh``.
    """
    launch, force = config.facts.launch, config.node("zero_force_ds_cpu_optimizer")
    handed = script_optimizers(config)
    made = handed.optimizer if handed is not None else None
    if launch is None or made is None or force is None or is_truthy(force) or config.stack != "deepspeed":
        return  # client-optimizer-with-offload
    if not has_kernel_of_gpu_only(made.name):
        return
    name = made.class_name
    yield Problem(
        path,
        member.value.span,
        f"the script passes {name}, {launch.at(made.place)}, but its weights are in host memory: its first step raises",
        rejected("train"),
        help=f"Delete `{path[1]}`, or pass DeepSpeedCPUAdam or an optimizer of torch: {name} has a kernel for GPUs "
        "only.",
        label="has no CPU version",
        related=launch.related(made.place, f"{name} is made here"),
    )


@rule("DS316", "nvme-optimizer-below-stage-3", severity="error", effects=("wrong-result",), keys=(ZERO,))
def nvme_optimizer_below_stage_3(config: Config) -> Iterator[Problem]:
    """Optimizer offload to NVMe at a stage that only offloads to host memory."""
    member = _offload(config)
    stage = zero_stage(config)
    if member is None or member.value.value != "nvme" or stage not in (1, 2):
        return
    if config.knowledge.does("nvme-below-stage-3-is-host-memory"):
        yield Problem(
            DEVICE,
            member.value.span,
            f"stage {stage} writes no optimizer states to NVMe: they stay in host memory, and DeepSpeed ignores "
            "`nvme_path`",
            WRONG_RESULT,
            help='Set `stage` to 3, which writes them, or set `device` to "cpu" if host memory is large enough.',
            label="read as cpu",
            related=beside(config, ZERO, "stage"),
        )


_BOTH_ADAMS_TAKE = ("lr", "betas", "eps", "weight_decay", "amsgrad")


@rule("DS322", "zenflow-without-its-needs", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def zenflow_without_its_needs(config: Config) -> Iterator[Problem]:
    """ZenFlow without ZeRO, without offload, or with an optimizer that it does not support.

    Source: ``ZenFlowZeroOptimizer.__init__`` passes ``optimizer.params`` to torch's AdamW too, and ZenFlow calls the
    ``step`` of the optimizer with a ``step_id``.
    """
    member = config.member(ZERO, "zenflow")
    if member is None or member.value.kind != "object":
        return
    lack = _lack_of_zenflow(config)
    if lack is not None:
        what, outcome = lack
        yield Problem(
            (ZERO, "zenflow"),
            member.key_span,
            f"ZenFlow {what}{with_passed_optimizer(config)}",
            outcome,
            help='Set `stage` to 2 and `offload_optimizer` to `{"device": "cpu"}`, and use AdamW with no parameters '
            "other than `lr`, `betas`, `eps` and `weight_decay`. Or delete `zenflow`.",
            label="on",
        )


@rule("DS323", "super-offload-below-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def super_offload_below_stage_3(config: Config) -> Iterator[Problem]:
    """SuperOffload below stage 3, the only stage that has it."""
    path = (ZERO, "offload_optimizer", "super_offload")
    member = config.member(*path)
    stage = zero_stage(config)
    if member is not None and is_on(config, *path) and stage in (1, 2):  # at stage 0 the whole section has no effect
        yield Problem(
            path,
            member.value.span,
            f"`super_offload` works only at stage 3, but the stage is {stage}: DeepSpeed ignores it",
            NO_EFFECT,
            help="Set `stage` to 3, or delete `super_offload`.",
            label="has no effect",
            related=beside(config, ZERO, "stage"),
        )


@rule("DS328", "super-offload-without-its-needs", severity="error", effects=("rejected",), keys=(ZERO,))
def super_offload_without_its_needs(config: Config) -> Iterator[Problem]:
    """SuperOffload with an optimizer other than Adam, with an optimizer on the GPU, or without CPU cores.

    Sources: ``SuperOffloadOptimizer_Stage3.__init__`` reads ``betas``, ``eps`` and ``amsgrad`` of each parameter group,
    ``SuperOffloadCPUOptimizer`` checks the share of cores (``deepspeed/runtime/superoffload/``).
    """
    path = (ZERO, "offload_optimizer", "super_offload")
    member = config.member(*path)
    constructor = optimizer_constructor(config)
    if member is None or not is_on(config, *path) or zero_stage(config) != 3 or constructor is None:
        return
    cores = config.member(ZERO, "offload_optimizer", "cpuadam_cores_perc")
    lack = None
    if constructor.name not in ("DeepSpeedCPUAdam", "Adam", "AdamW"):
        why = "" if _offload(config) is not None else ' (`device` is not "cpu")'
        lack = f"needs DeepSpeed's Adam on the CPU, not {constructor.name}{why}"
    elif cores is not None and number_of(cores.value) == 0:
        lack = "needs CPU cores for the optimizer, but `cpuadam_cores_perc` is 0"
    if lack:
        yield Problem(
            path,
            member.value.span,
            f"SuperOffload {lack}: deepspeed.initialize raises",
            rejected("initialize"),
            help='Set `device` to "cpu", use Adam or AdamW, and leave `cpuadam_cores_perc` out. Or delete '
            "`super_offload`.",
            label="on",
            fix=edits.deletion(config, path, "unsafe"),
        )


def _lack_of_zenflow(config: Config) -> tuple[str, Outcome] | None:
    """What ZenFlow needs and the config lacks, with the outcome; stage 3 is unknown without a GPU."""
    stage = zero_stage(config)
    if stage in (None, 3):
        return None
    if stage == 0:
        return _zenflow_at_stage_0(config)
    if _offload(config) is None:
        return "needs `offload_optimizer` with a `device`: deepspeed.initialize raises", rejected("initialize")
    if config.value("optimizer", "type") is None or config.section("optimizer", "params") is None:
        what = "passes `optimizer.params` to torch's AdamW, but there are none: deepspeed.initialize raises"
        return what, rejected("initialize")
    if foreign := _foreign_to_zenflow(config):
        what = f"builds torch's AdamW too, which does not accept `{foreign}`: deepspeed.initialize raises"
        return what, rejected("initialize")
    if not _has_step_of_zenflow(config):
        named = _with_its_library(str(config.value("optimizer", "type")))
        what = f"calls `step` with a `step_id`, which {named} does not accept: the first step raises"
        return what, rejected("train")
    return None


def _zenflow_at_stage_0(config: Config) -> tuple[str, Outcome]:
    """After the warm-up, the engine calls a method of its optimizer that only ZeRO's optimizer has.

    Source: ``is_zenflow_update_boundary`` and ``zenflow_step`` in ``deepspeed/runtime/zenflow/engine.py``.
    """
    rounds = config.node(ZERO, "zenflow", "full_warm_up_rounds")
    if rounds is None or (number(rounds.value) or 0) <= 1:
        return "needs ZeRO and offload, but the stage is 0: the first step raises", rejected("train")
    return f"needs ZeRO and offload, but the stage is 0: step {rounds.value} raises", RISK


def _foreign_to_zenflow(config: Config) -> str | None:
    """A parameter of Adam that one of ZenFlow's two optimizers rejects."""
    params = config.section("optimizer", "params")
    if params is None or str(config.value("optimizer", "type")).lower() not in ("adam", "adamw"):
        return None
    taken_out = () if config.knowledge.does("optimizer-parameters-are-copied") else ("torch_adam", "adam_w_mode")
    return next((one.key for one in params.members if one.key not in (*_BOTH_ADAMS_TAKE, *taken_out)), None)


def _has_step_of_zenflow(config: Config) -> bool:
    kind = str(config.value("optimizer", "type")).lower()
    return kind == "muon" or (
        kind in ("adam", "adamw") and not is_truthy(config.node("optimizer", "params", "torch_adam"))
    )


def _offload(config: Config) -> Member | None:
    """The device to which the optimizer is offloaded, or None without offload."""
    member = config.member(*DEVICE)
    return member if member is not None and member.value.value in ("cpu", "nvme") else None


@rule("DS327", "old-offload-with-own-optimizer", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def old_offload_with_own_optimizer(config: Config) -> Iterator[Problem]:
    """``cpu_offload`` in a config without an optimizer: Accelerate does not recognize that the run offloads.

    Sources: ``_prepare_deepspeed`` in ``accelerate/accelerator.py`` checks ``offload_optimizer`` before it replaces an
    optimizer with DeepSpeed's for the CPU; ``_configure_optimizer`` in ``deepspeed/runtime/engine.py`` rejects others.
    """
    member = config.member(*OLD_OFFLOAD)
    if member is not None and is_old_offload_unseen(config) and not has_no_optimizer(config):
        yield Problem(
            OLD_OFFLOAD,
            member.key_span,
            "with the old `cpu_offload`, Accelerate does not use DeepSpeed's CPU optimizer, and DeepSpeed rejects "
            "any other",
            {"trainer": rejected("initialize"), "accelerate": RISK},
            help='Replace it with `"offload_optimizer": {"device": "cpu"}`, the only form that Accelerate looks for.',
            label="Accelerate ignores it",
            fix=edits.offloading_renamed(config, OLD_OFFLOAD, "offload_optimizer"),
        )


@rule("DS360", "partial-offload-without-adam", severity="error", effects=("rejected",), keys=(ZERO,))
def partial_offload_without_adam(config: Config) -> Iterator[Problem]:
    """``offload_optimizer.ratio`` below 1 with an optimizer other than DeepSpeed's Adam for the CPU.

    Source: ``DeepSpeedZeroOptimizer_Stage3.__init__`` asserts exactly that class, which ZenFlow's Adam is not.
    """
    path = (ZERO, "offload_optimizer", "ratio")
    member = config.member(*path)
    ratio = number(member.value.value) if member else None
    kind = config.value("optimizer", "type")
    if member is None or ratio is None or not 0 <= ratio < 1 or zero_stage(config) != 3 or _offload(config) is None:
        return
    if not isinstance(kind, str) or _is_cpu_adam(config, kind):
        return
    named = f"{kind} with ZenFlow" if config.section(ZERO, "zenflow") is not None else _with_its_library(kind)
    yield Problem(
        path,
        member.value.span,
        f"`offload_optimizer.ratio` below 1 needs DeepSpeed's own Adam, not {named}: deepspeed.initialize raises",
        rejected("initialize"),
        help="Set `ratio` to 1.0, or set `optimizer.type` to AdamW without `torch_adam`.",
        label="needs AdamW",
        related=beside(config, "optimizer", "type"),
        fix=edits.replacement(config, path, "1.0", "unsafe"),
    )


def _with_its_library(kind: str) -> str:
    """An optimizer that is not DeepSpeed's Adam, as a message names it: an Adam is then torch's."""
    return f"torch's {kind}" if kind.lower() in ("adam", "adamw") else kind


def _is_cpu_adam(config: Config, kind: str) -> bool:
    """Whether DeepSpeed builds its own Adam for the CPU, not torch's or ZenFlow's."""
    is_torch = is_truthy(config.node("optimizer", "params", "torch_adam"))
    return kind.lower() in ("adam", "adamw") and not is_torch and config.section(ZERO, "zenflow") is None


@rule("DS361", "too-few-swap-buffers", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def too_few_swap_buffers(config: Config) -> Iterator[Problem]:
    """Fewer buffers than DeepSpeed needs to swap optimizer states in from NVMe.

    Sources: ``swap_in_optimizer_state`` in ``deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py`` and
    ``pipelined_optimizer_swapper.py``. Partitions below 1 MB stay in memory, so a tiny model runs. Without any
    buffer ``SwapBufferManager.__init__`` in ``deepspeed/runtime/swap_tensor/utils.py`` raises an IndexError.
    """
    section = config.section(ZERO, "offload_optimizer")
    if section is None or not swaps_optimizer(config):
        return
    member, count = section.member("buffer_count"), buffer_count(config)
    if member is not None and count == 0:
        yield Problem(
            (*DEVICE[:-1], "buffer_count"),
            member.value.span,
            "`buffer_count` is 0, but swapping optimizer states in from NVMe needs buffers: deepspeed.initialize "
            "raises",
            rejected("initialize"),
            help="Set it to 4 or more for Adam, to 8 or more with a pipeline, or to 12 or more with both.",
            label="no buffer",
            fix=edits.deletion(config, (*DEVICE[:-1], "buffer_count"), "unsafe"),
        )
        return
    needed, names = buffers_of_adam(config), pipelines(config)
    if needed is None or count is None or count >= needed:
        return
    place = member or section.member(names[0] if names else "device")
    if place is None:
        return
    if count >= BUFFERS_OF_ADAM:
        groups = "two sub-groups" if count >= 2 * BUFFERS_OF_ADAM else "one sub-group"
        what = (
            f"Adam with {' and '.join(f'`{name}`' for name in names)} needs {needed} buffers, but "
            f"`buffer_count` is {count:g}: the first steps may raise"
        )
        condition = f" The steps raise if a rank has more than {groups} of parameters."
    else:
        condition = ""
        what = f"Adam needs {needed} buffers, but `buffer_count` is {count:g}: the first steps raise"
    yield Problem(
        (*DEVICE[:-1], "buffer_count"),
        place.value.span,
        what,
        RISK,
        help=f"Set `buffer_count` to {needed} or more: Adam uses {needed} buffers at a time.{condition}",
        label=f"below {needed}",
        fix=edits.setting(config, (*DEVICE[:-1], "buffer_count"), needed, "unsafe"),
    )


@rule("DS365", "zenflow-settings-conflict", severity="error", effects=("rejected",), keys=(ZERO,))
def zenflow_settings_conflict(config: Config) -> Iterator[Problem]:
    """Settings that ZenFlow does not support.

    Sources: ``configure_zenflow`` in ``deepspeed/runtime/zenflow/engine.py``; ``ZenFlowZeroOptimizer.__init__`` and
    ``_initialize_zenflow_stage3_epilogue``; ``ZenFlowZeroOptimizer.average_tensor``, which calls
    ``gradient_reduction_w_predivide`` without one of its arguments.
    """
    section = config.section(ZERO, "zenflow")
    scatter = config.member(ZERO, "reduce_scatter")
    if section is not None and scatter is not None and zero_stage(config) in (1, 2) and not is_truthy(scatter.value):
        yield Problem(
            (ZERO, "reduce_scatter"),
            scatter.value.span,
            "ZenFlow needs `reduce_scatter` to reduce gradients, but it is off: the first backward pass raises",
            rejected("train"),
            help="Delete `reduce_scatter`: it is on by default.",
            label="off",
            fix=edits.deletion(config, (ZERO, "reduce_scatter"), "unsafe"),
        )
    conflict = _conflict_of_zenflow(config) if section is not None else None
    if section is None or conflict is None:
        return
    key, what, remedy = conflict
    member = section.member(key) or config.member(ZERO, "zenflow")
    if member is not None:
        yield Problem(
            (ZERO, "zenflow", key),
            member.value.span if member.key == key else member.key_span,
            f"{what}: deepspeed.initialize raises",
            rejected("initialize"),
            help=remedy,
            label="conflict",
        )


@rule("DS367", "super-offload-in-one-sub-group", severity="warning", effects=("rejected", "risk"), keys=(ZERO,))
def super_offload_in_one_sub_group(config: Config) -> Iterator[Problem]:
    """SuperOffload in its first releases, which raise always, and in later ones, which do not register one sub-group.

    Sources: the advisories with this code; ``_create_fp16_sub_groups`` in
    ``deepspeed/runtime/superoffload/superoffload_stage3.py``, which returns a small parameter group before it counts
    its parameters, and ``reduce_independent_p_g_buckets_and_remove_grads``, which reads the count.
    """
    path = (ZERO, "offload_optimizer", "super_offload")
    member = config.member(*path)
    if member is None or not is_on(config, *path) or zero_stage(config) != 3:
        return
    from ds_lint.checks.advisories import problems_of_releases  # few configs have it

    yield from problems_of_releases(config, "DS367")
    if _offload(config) is None or config.knowledge.does("super-offload-raises"):
        return
    size, behaviour = _sub_group_size(config), "super-offload-skips-single-sub-groups"
    if size is None or not config.knowledge.does(behaviour):
        return
    model, ranks = config.facts.model, config.world_size
    if model is not None and model.parameter_count and ranks and model.parameter_count > size * ranks:
        return
    yield Problem(
        path,
        member.value.span,
        f"SuperOffload of DeepSpeed {config.knowledge.deepspeed} raises a KeyError if a rank has at most "
        "`sub_group_size` elements of a parameter group",
        RISK,
        help=f"Upgrade to DeepSpeed {config.knowledge.ended(behaviour)}, or set "
        f"`sub_group_size` ({size:,.0f} elements) to less than a rank has of each parameter group. The first backward "
        "pass raises.",
        label="needs several sub-groups",
        related=beside(config, ZERO, "sub_group_size"),
    )


def _sub_group_size(config: Config) -> float | None:
    """The largest number of elements in a sub-group; None if it is unknown."""
    written = config.node(ZERO, "sub_group_size")
    if written is not None:
        return number(written.value)
    known = config.knowledge.find((ZERO, "sub_group_size"))
    return float(known.facts["default"]) if known is not None else None


def _conflict_of_zenflow(config: Config) -> tuple[str, str, str] | None:
    """The key, what is wrong with it, and what to write instead; another rule reports values that pydantic rejects."""
    strategy = config.value(ZERO, "zenflow", "select_strategy") or "auto"
    select, update = (config.node(ZERO, "zenflow", name) for name in ("select_interval", "update_interval"))
    selects = number(select.value) if select is not None else None
    if strategy == "auto":
        if selects is not None:
            return (
                "select_interval",
                f'`select_interval` is {selects:g}, but `select_strategy` is "auto" and sets the interval itself',
                'Delete `select_interval`, or set `select_strategy` to "step" or "epoch".',
            )
    elif strategy in ("step", "epoch"):
        if select is None or select.value == "auto":
            return (
                "select_interval",
                f'`select_strategy` "{strategy}" needs a number for `select_interval`, which is "auto"',
                "Set `select_interval` to a number.",
            )
        updates = number(update.value) if update is not None else None  # "auto" by default
        if strategy == "step" and selects and updates is not None and selects < updates:
            return (
                "select_interval",
                f"`select_interval` is {selects:g}, which is below the `update_interval` of {updates:g}",
                f"Set it to {updates:g} or more, or lower `update_interval`.",
            )
    if is_on(config, ZERO, "zenflow", "offload") and _lacks_overlap_of_zenflow(config):
        return (
            "offload",
            "`zenflow.offload` needs `overlap_comm`, which is off",
            "Set `zero_optimization.overlap_comm` to true, or delete `offload`.",
        )
    return None


def _lacks_overlap_of_zenflow(config: Config) -> bool:
    """Whether ``overlap_comm`` is off: the default below stage 3; older releases have no ZenFlow at stage 3."""
    stage, is_off = zero_stage(config), is_known_off(config, ZERO, "overlap_comm")
    if stage in (1, 2):
        return is_off or config.node(ZERO, "overlap_comm") is None
    return stage == 3 and is_off and config.knowledge.does("zenflow-runs-at-stage-3")
