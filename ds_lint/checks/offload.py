"""Rules about offload: where it goes, and what keeps it from taking place (DS3xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import names_optimizer, optimizer_constructor, with_passed_optimizer
from ds_lint.semantics.features import (
    OLD_OFFLOAD,
    is_old_offload_unseen,
    is_on,
    is_truthy,
    number,
    number_of,
    zero_stage,
)
from ds_lint.semantics.places import beside

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
            f"only stage 3 offloads a part of the optimizer, and this is stage {stage}: DeepSpeed refuses the config",
            rejected("parse"),
            help="Write 1.0, or set `stage` to 3.",
            label="needs stage 3",
            related=beside(config, ZERO, "stage"),
            fix=edits.replacement(config, (ZERO, "offload_optimizer", "ratio"), "1.0", "unsafe"),
        )


@rule("DS311", "nvme-path-missing", severity="error", effects=("rejected",), keys=(ZERO,))
def nvme_path_missing(config: Config) -> Iterator[Problem]:
    """Offload to NVMe at stage 3 without saying where; below stage 3 it is offload to the CPU."""
    if zero_stage(config) != 3:
        return
    for name in ("offload_param", "offload_optimizer"):
        section = config.section(ZERO, name)
        device = section.member("device") if section else None
        path = section.get("nvme_path") if section else None
        if device is None or device.value.value != "nvme" or (path is not None and path.kind != "null"):
            continue
        yield Problem(
            (ZERO, name, "device"),
            device.value.span,
            f"`{name}` goes to NVMe, and there is no `nvme_path`: deepspeed.initialize raises"
            + (with_passed_optimizer(config) if name == "offload_optimizer" else ""),
            rejected("initialize"),
            help='Add "nvme_path", a folder on the NVMe drive of every node.',
            label="where to?",
        )


@rule("DS312", "offload-param-below-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def offload_param_below_stage_3(config: Config) -> Iterator[Problem]:
    """Parameters to be offloaded that are not partitioned."""
    member = config.member(ZERO, "offload_param", "device")
    stage = zero_stage(config)
    if member is None or member.value.value not in ("cpu", "nvme") or stage is None or stage == 3:
        return
    yield Problem(
        (ZERO, "offload_param"),
        member.value.span,
        f"`offload_param` is for stage 3, and this is stage {stage}: the parameters stay on the GPU",
        NO_EFFECT,
        help="Set `stage` to 3, or delete `offload_param`.",
        label="nothing is offloaded",
        related=beside(config, ZERO, "stage"),
        fix=edits.deletion(config, (ZERO, "offload_param"), "unsafe"),
    )


@rule("DS313", "offload-without-device", severity="warning", effects=("no-effect",), keys=(ZERO,))
def offload_without_device(config: Config) -> Iterator[Problem]:
    """An offload section that does not say where to."""
    for name in ("offload_param", "offload_optimizer"):
        member = config.member(ZERO, name)
        if member is not None and member.value.members and member.value.get("device") is None:
            yield Problem(
                (ZERO, name),
                member.key_span,
                f"`{name}` has no `device`, and its default is none: nothing is offloaded",
                NO_EFFECT,
                help='Add "device": "cpu".',
                label="no device",
                fix=edits.written(config, (ZERO, name, "device"), "cpu", "unsafe"),
            )


@rule("DS315", "offload-optimizer-at-stage-0", severity="error", effects=("risk", "no-effect"), keys=(ZERO,))
def offload_optimizer_at_stage_0(config: Config) -> Iterator[Problem]:
    """An optimizer that is chosen for the CPU by its device, and gets parameters that only ZeRO would move there."""
    member = _offload(config)
    if member is None or zero_stage(config) != 0:
        return
    constructor = optimizer_constructor(config)
    if constructor is not None and "CPU" not in constructor.name:
        yield Problem(
            DEVICE,
            member.value.span,
            f"`offload_optimizer` needs ZeRO, and this is stage 0: the states of {constructor.name} stay on the GPU",
            NO_EFFECT,
            help="Set `stage` to 1, 2 or 3, or delete `offload_optimizer`.",
            label="nothing is offloaded",
            severity="warning",
        )
        return
    yield Problem(
        DEVICE,
        member.value.span,
        "`offload_optimizer` needs ZeRO, and this is stage 0: "
        f"{constructor.name if constructor else 'an optimizer made for the CPU'} gets parameters that stay on the GPU, "
        "and the first step raises",
        RISK,
        help="Set `stage` to 1, 2 or 3, or delete `offload_optimizer`.",
        label="not at stage 0",
    )


@rule("DS316", "nvme-optimizer-below-stage-3", severity="error", effects=("wrong-result",), keys=(ZERO,))
def nvme_optimizer_below_stage_3(config: Config) -> Iterator[Problem]:
    """Optimizer states meant for NVMe at a stage that only knows host memory."""
    member = _offload(config)
    stage = zero_stage(config)
    if member is None or member.value.value != "nvme" or stage not in (1, 2):
        return
    if config.knowledge.does("nvme-below-stage-3-is-host-memory"):
        yield Problem(
            DEVICE,
            member.value.span,
            f"only stage 3 writes optimizer states to NVMe, and this is stage {stage}: they stay in host memory, and "
            "`nvme_path` is not used",
            WRONG_RESULT,
            help='Set `stage` to 3, or write "cpu" if host memory is large enough.',
            label="is taken for cpu",
            related=beside(config, ZERO, "stage"),
        )


_BOTH_ADAMS_TAKE = ("lr", "betas", "eps", "weight_decay", "amsgrad")


@rule("DS322", "zenflow-without-its-needs", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def zenflow_without_its_needs(config: Config) -> Iterator[Problem]:
    """ZenFlow without ZeRO, without offload, or with an optimizer that it cannot drive.

    Source: ``ZenFlowZeroOptimizer.__init__`` hands ``optimizer.params`` to an AdamW of torch as well, and calls the
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
            help='Set `stage` to 2, `offload_optimizer` to {"device": "cpu"}, and the optimizer to AdamW with no '
            "parameters but `lr`, `betas`, `eps` and `weight_decay`; or delete `zenflow`.",
            label="on",
        )


@rule("DS323", "super-offload-below-stage-3", severity="warning", effects=("no-effect",), keys=(ZERO,))
def super_offload_below_stage_3(config: Config) -> Iterator[Problem]:
    """SuperOffload, which only stage 3 has."""
    path = (ZERO, "offload_optimizer", "super_offload")
    member = config.member(*path)
    stage = zero_stage(config)
    if member is not None and is_on(config, *path) and stage in (1, 2):  # at stage 0 all of the section is in vain
        yield Problem(
            path,
            member.value.span,
            f"SuperOffload is for stage 3, and this is stage {stage}: the optimizer is offloaded as without it",
            NO_EFFECT,
            help="Set `stage` to 3, or delete `super_offload`.",
            label="without effect",
            related=beside(config, ZERO, "stage"),
        )


@rule("DS328", "super-offload-without-its-needs", severity="error", effects=("rejected",), keys=(ZERO,))
def super_offload_without_its_needs(config: Config) -> Iterator[Problem]:
    """SuperOffload with an optimizer other than Adam, with the optimizer on the GPU, or with no cores for it.

    Sources: ``SuperOffloadOptimizer_Stage3.__init__`` takes ``betas``, ``eps`` and ``amsgrad`` of each parameter group,
    ``SuperOffloadCPUOptimizer`` checks the share of the cores (``deepspeed/runtime/superoffload/``).
    """
    path = (ZERO, "offload_optimizer", "super_offload")
    member = config.member(*path)
    constructor = optimizer_constructor(config)
    if member is None or not is_on(config, *path) or zero_stage(config) != 3 or constructor is None:
        return
    cores = config.member(ZERO, "offload_optimizer", "cpuadam_cores_perc")
    lack = None
    if constructor.name not in ("DeepSpeedCPUAdam", "Adam", "AdamW"):
        where = "" if _offload(config) is not None else ", which is built where `device` is none"
        lack = f"drives DeepSpeed's Adam on the CPU, and this is {constructor.name}{where}"
    elif cores is not None and number_of(cores.value) == 0:
        lack = "needs cores for the optimizer, and `cpuadam_cores_perc` is 0"
    if lack:
        yield Problem(
            path,
            member.value.span,
            f"SuperOffload {lack}: deepspeed.initialize raises",
            rejected("initialize"),
            help='Set `device` to "cpu" and the optimizer to Adam or AdamW, leave `cpuadam_cores_perc` out; or delete '
            "`super_offload`.",
            label="on",
            fix=edits.deletion(config, path, "unsafe"),
        )


def _lack_of_zenflow(config: Config) -> tuple[str, Outcome] | None:
    """What ZenFlow does not find in a config, with what comes of it; of stage 3 nothing is known without a GPU."""
    stage = zero_stage(config)
    if stage in (None, 3):
        return None
    if stage == 0:
        return _zenflow_at_stage_0(config)
    if _offload(config) is None:
        return "needs `offload_optimizer` with a device: deepspeed.initialize raises", rejected("initialize")
    if not names_optimizer(config) or config.section("optimizer", "params") is None:
        what = "hands `optimizer.params` to torch's AdamW, and this config has none: deepspeed.initialize raises"
        return what, rejected("initialize")
    if foreign := _foreign_to_zenflow(config):
        what = (
            f"hands `optimizer.params` to torch's AdamW too, and that takes no `{foreign}`: deepspeed.initialize raises"
        )
        return what, rejected("initialize")
    if not _has_step_of_zenflow(config):
        kind = config.value("optimizer", "type")
        what = f"calls the optimizer as only DeepSpeed's Adam can be called, and this is {kind}: the first step raises"
        return what, rejected("train")
    return None


def _zenflow_at_stage_0(config: Config) -> tuple[str, Outcome]:
    """The engine asks its optimizer whether to update, which only that of ZeRO answers, once the warm-up is over.

    Source: ``is_zenflow_update_boundary`` and ``zenflow_step`` in ``deepspeed/runtime/zenflow/engine.py``.
    """
    rounds = config.node(ZERO, "zenflow", "full_warm_up_rounds")
    if rounds is None or (number(rounds.value) or 0) <= 1:
        return "needs ZeRO and offload, and this is stage 0: the first step raises", rejected("train")
    return f"needs ZeRO and offload, and this is stage 0: step {rounds.value} raises", RISK


def _foreign_to_zenflow(config: Config) -> str | None:
    """A parameter of Adam that either of the two optimizers of ZenFlow refuses."""
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
    """The device that the optimizer is to be offloaded to, or None where it is not."""
    member = config.member(*DEVICE)
    return member if member is not None and member.value.value in ("cpu", "nvme") else None


@rule("DS327", "old-offload-with-own-optimizer", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def old_offload_with_own_optimizer(config: Config) -> Iterator[Problem]:
    """``cpu_offload`` in a config without an optimizer: Accelerate does not see that the run offloads.

    Sources: ``_prepare_deepspeed`` in ``accelerate/accelerator.py`` looks at ``offload_optimizer`` before it puts a CPU
    optimizer of DeepSpeed for another one; ``_configure_optimizer`` in ``deepspeed/runtime/engine.py`` refuses others.
    """
    member = config.member(*OLD_OFFLOAD)
    if member is not None and is_old_offload_unseen(config):
        yield Problem(
            OLD_OFFLOAD,
            member.key_span,
            "Accelerate puts a CPU optimizer of DeepSpeed for the one of the script only where it finds "
            "`offload_optimizer`; with the old `cpu_offload` DeepSpeed gets another optimizer and refuses it",
            {"trainer": rejected("initialize"), "accelerate": RISK},
            help='Write "offload_optimizer": {"device": "cpu"} instead.',
            label="not seen by Accelerate",
            fix=edits.offloading_anew(config, OLD_OFFLOAD, "offload_optimizer"),
        )


@rule("DS360", "partial-offload-without-adam", severity="error", effects=("rejected",), keys=(ZERO,))
def partial_offload_without_adam(config: Config) -> Iterator[Problem]:
    """``offload_optimizer.ratio`` below 1 with another optimizer than DeepSpeed's Adam for the CPU.

    Source: ``DeepSpeedZeroOptimizer_Stage3.__init__`` asserts its very class, which the one of ZenFlow is not.
    """
    path = (ZERO, "offload_optimizer", "ratio")
    member = config.member(*path)
    ratio = number(member.value.value) if member else None
    kind = config.value("optimizer", "type")
    if member is None or ratio is None or not 0 <= ratio < 1 or zero_stage(config) != 3 or _offload(config) is None:
        return
    if not isinstance(kind, str) or _is_cpu_adam(config, kind):
        return
    named = f"{kind} with ZenFlow" if config.section(ZERO, "zenflow") is not None else kind
    yield Problem(
        path,
        member.value.span,
        f"only DeepSpeed's own Adam keeps a part of its states on the GPU, and the optimizer is {named}: "
        "deepspeed.initialize raises",
        rejected("initialize"),
        help="Write 1.0, or set `optimizer.type` to AdamW without `torch_adam`.",
        label="needs AdamW",
        related=beside(config, "optimizer", "type"),
        fix=edits.replacement(config, path, "1.0", "unsafe"),
    )


def _is_cpu_adam(config: Config, kind: str) -> bool:
    """Whether DeepSpeed builds its Adam for the CPU, and not that of torch or of ZenFlow."""
    is_torch = is_truthy(config.node("optimizer", "params", "torch_adam"))
    return kind.lower() in ("adam", "adamw") and not is_torch and config.section(ZERO, "zenflow") is None


# Of each parameter group Adam swaps in the master weights, its two moments and the gradients.
_BUFFERS_OF_ADAM = 4


@rule("DS361", "too-few-swap-buffers", severity="error", effects=("rejected", "risk"), keys=(ZERO,))
def too_few_swap_buffers(config: Config) -> Iterator[Problem]:
    """Fewer buffers than the optimizer states that are swapped in from NVMe at once.

    Sources: ``swap_in_optimizer_state`` in ``deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py`` and
    ``pipelined_optimizer_swapper.py``. Partitions below 1 MB stay in memory, so a tiny model runs. With no buffer at
    all ``SwapBufferManager.__init__`` in ``deepspeed/runtime/swap_tensor/utils.py`` raises IndexError.
    """
    section = config.section(ZERO, "offload_optimizer")
    if section is None or zero_stage(config) != 3 or config.value(*DEVICE) != "nvme":
        return
    pipelines = [name for name in ("pipeline_read", "pipeline_write") if is_on(config, *DEVICE[:-1], name)]
    member, known = section.member("buffer_count"), config.knowledge.find((*DEVICE[:-1], "buffer_count"))
    count = number(member.value.value) if member else known.facts.get("default") if known else None
    if member is not None and count == 0:
        yield Problem(
            (*DEVICE[:-1], "buffer_count"),
            member.value.span,
            "states are swapped in from NVMe through buffers, and `buffer_count` is 0: deepspeed.initialize raises",
            rejected("initialize"),
            help="Write 4 or more for Adam, 8 or more with a pipeline.",
            label="no buffer",
            fix=edits.deletion(config, (*DEVICE[:-1], "buffer_count"), "unsafe"),
        )
        return
    if str(config.value("optimizer", "type")).lower() not in ("adam", "adamw"):
        return
    needed = _BUFFERS_OF_ADAM * (2 if pipelines else 1)
    if not isinstance(count, (int, float)) or count >= needed:
        return
    place = member or section.member(pipelines[0] if pipelines else "device")
    if place is None:
        return
    if count >= _BUFFERS_OF_ADAM:
        what = (
            f"with `{pipelines[0]}` Adam needs {needed} buffers at once, and `buffer_count` is {count:g}: the first "
            "step raises once a rank has more than one sub-group of parameters"
        )
    else:
        what = f"Adam needs {needed} buffers at once, and `buffer_count` is {count:g}: the first steps raise"
    yield Problem(
        (*DEVICE[:-1], "buffer_count"),
        place.value.span,
        what,
        RISK,
        help=f'Write "buffer_count": {needed} or more.',
        label=f"below {needed}",
        fix=edits.setting(config, (*DEVICE[:-1], "buffer_count"), needed, "unsafe"),
    )


@rule("DS365", "zenflow-settings-conflict", severity="error", effects=("rejected",), keys=(ZERO,))
def zenflow_settings_conflict(config: Config) -> Iterator[Problem]:
    """Settings that ZenFlow does not run with.

    Sources: ``configure_zenflow`` in ``deepspeed/runtime/zenflow/engine.py``; ``ZenFlowZeroOptimizer.__init__`` and
    ``_initialize_zenflow_stage3_epilogue``; ``ZenFlowZeroOptimizer.average_tensor``, which calls
    ``gradient_reduction_w_predivide`` with an argument too few.
    """
    section = config.section(ZERO, "zenflow")
    scatter = config.member(ZERO, "reduce_scatter")
    if section is not None and scatter is not None and zero_stage(config) in (1, 2) and not is_truthy(scatter.value):
        yield Problem(
            (ZERO, "reduce_scatter"),
            scatter.value.span,
            "ZenFlow reduces gradients with reduce-scatter, which is switched off: the first backward pass raises",
            rejected("train"),
            help="Delete `reduce_scatter`, which is on by default.",
            label="off",
            fix=edits.deletion(config, (ZERO, "reduce_scatter"), "unsafe"),
        )
    conflict = _conflict_of_zenflow(config) if section is not None else None
    if section is None or conflict is None:
        return
    key, what, way_out = conflict
    member = section.member(key) or config.member(ZERO, "zenflow")
    if member is not None:
        yield Problem(
            (ZERO, "zenflow", key),
            member.value.span if member.key == key else member.key_span,
            f"{what}: deepspeed.initialize raises",
            rejected("initialize"),
            help=way_out,
            label="conflict",
        )


def _conflict_of_zenflow(config: Config) -> tuple[str, str, str] | None:
    """The key in question, what is wrong, and what to write instead; values that pydantic refuses come before."""
    strategy = config.value(ZERO, "zenflow", "select_strategy") or "auto"
    select, update = (config.node(ZERO, "zenflow", name) for name in ("select_interval", "update_interval"))
    selects = number(select.value) if select is not None else None
    if strategy == "auto":
        if selects is not None:
            return (
                "select_interval",
                f'`select_interval` is {selects:g}, and `select_strategy` "auto" chooses the interval itself',
                'Delete `select_interval`, or set `select_strategy` to "step" or "epoch".',
            )
    elif strategy in ("step", "epoch"):
        if select is None or select.value == "auto":
            return (
                "select_interval",
                f'`select_strategy` "{strategy}" needs a number for `select_interval`, which is "auto"',
                "Write the interval as a number.",
            )
        updates = number(update.value) if update is not None else None  # "auto" by default
        if strategy == "step" and selects and updates is not None and selects < updates:
            return (
                "select_interval",
                f"`select_interval` is {selects:g}, below the `update_interval` of {updates:g}",
                f"Write {updates:g} or more, or a smaller `update_interval`.",
            )
    if is_on(config, ZERO, "zenflow", "offload") and _lacks_overlap_of_zenflow(config):
        return (
            "offload",
            "`zenflow.offload` needs `overlap_comm`, which is off",
            'Set "overlap_comm": true in `zero_optimization`, or delete `offload`.',
        )
    return None


def _lacks_overlap_of_zenflow(config: Config) -> bool:
    """Whether communication does not overlap: off by default below stage 3; older releases have no ZenFlow there."""
    stage = zero_stage(config)
    if stage in (1, 2):
        return not is_on(config, ZERO, "overlap_comm")
    is_off = config.node(ZERO, "overlap_comm") is not None and not is_on(config, ZERO, "overlap_comm")
    return stage == 3 and is_off and config.knowledge.does("zenflow-runs-at-stage-3")
