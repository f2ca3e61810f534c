"""Rules about saving and resuming (DS7xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import has_no_optimizer, may_have_bf16_optimizer, names_optimizer
from ds_lint.semantics.features import (
    adapter_argument,
    bf16_section,
    is_on,
    is_truthy,
    set_argument,
    zero_stage,
)
from ds_lint.semantics.related import beside, given_at, launched, place_of_launch
from ds_lint.semantics.swapping import SECTION, buffer_count, buffers_of_adam, pipelines, swaps_optimizer
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.record import ResumeAnswer
    from ds_lint.diagnostics.finding import Severity
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Node

ZERO = "zero_optimization"
# The current key first. DeepSpeed treats all three as the same setting: deepspeed/runtime/zero/config.py.
GATHER = (
    "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save",
    "gather_16bit_weights_on_model_save",
)


@rule("DS701", "checkpoint-writer-without-data-parallel", severity="error", effects=("rejected",), keys=("checkpoint",))
def checkpoint_writer_without_data_parallel(config: Config) -> Iterator[Problem]:
    """A checkpoint writer without ``data_parallel``, for which DeepSpeed raises below stage 3.

    Source: ``_get_data_parallel_config`` in ``deepspeed/runtime/model_checkpointing/data_parallel_writer_factory.py``
    reads ``dp_rank`` of ``UniversalParallelInfo``, which has no such attribute.
    """
    member = config.member("checkpoint", "writer")
    stage = zero_stage(config)
    if member is None or member.value.kind != "object" or stage is None or stage == 3:
        return
    choice = member.value.get("data_parallel")
    if choice is None or choice.kind == "null":
        yield Problem(
            ("checkpoint", "writer"),
            member.key_span,
            f"`checkpoint.writer` has no `data_parallel`, which stage {stage} requires: "
            "deepspeed.initialize raises an AttributeError",
            rejected("initialize"),
            help='Add "data_parallel": "REPLICA" to `checkpoint.writer`.',
            label="no `data_parallel`",
            fix=edits.written(config, ("checkpoint", "writer", "data_parallel"), "REPLICA", "unsafe"),
        )


@rule("DS703", "weights-not-gathered-on-save", severity="warning", effects=("risk",), keys=(ZERO,))
def weights_not_gathered_on_save(config: Config) -> Iterator[Problem]:
    """Stage 3 without gathered weights, so the Trainer and Accelerate have no model to save.

    If DeepSpeed alone may load the config, it is unknown whether the script saves a whole model. Sources:
    ``Trainer.save_model`` in ``transformers/trainer.py``, ``get_state_dict`` in ``accelerate/accelerator.py``.
    """
    stage = _stage_without_gathering(config)
    if "deepspeed" in config.stacks or stage is None or not _is_for_training(config) or has_no_optimizer(config):
        return
    if config.stack == "trainer" and adapter_argument(config):
        return  # empty_adapter_on_save, and since transformers 5 no problem
    name = _key_to_gather(config)
    if name is None or _never_gets_states(config):
        return
    member = config.member(ZERO, name)
    written = member.value if member is not None else None
    yield Problem(
        (ZERO, name if written is not None else "stage"),
        written.span if written is not None else stage.span,
        f"stage 3 {_not_gathered(name, written)}: {_nothing_to_load(config)}",
        RISK,
        help=f"Set `{ZERO}.{name}` to true; rank 0 gathers the whole model to save it. If you only need the shards, "
        "for zero_to_fp32.py, suppress this rule for the file in the settings (`per-file-ignores`)."
        + _why_nothing_is_saved(config, written),
        label="not gathered",
        fix=edits.setting(config, (ZERO, name), True, "unsafe"),
    )


@rule("DS707", "empty-adapter-on-save", severity="error", effects=("risk",), keys=(ZERO,))
def empty_adapter_on_save(config: Config) -> Iterator[Problem]:
    """Stage 3 without gathered weights, and an adapter, which older releases of transformers save empty.

    Source: ``Trainer.save_model`` in ``transformers/trainer.py``, which deletes a model file that it wrote without
    weights, but not an adapter file.
    """
    stage, adapter, name = _stage_without_gathering(config), adapter_argument(config), _key_to_gather(config)
    if stage is None or adapter is None or name is None or "trainer" not in config.stacks:
        return
    if not config.knowledge.stack_does("adapters-are-gathered"):
        yield Problem(
            (ZERO, "stage"),
            stage.span,
            f"`{adapter}` suggests an adapter, which transformers {config.knowledge.target['transformers']} saves "
            "without any tensors at stage 3",
            {"trainer": RISK},
            help=f"Set `{ZERO}.{name}` to true, or use transformers 5. The file is adapter_model.safetensors.",
            label="not gathered",
            fix=edits.setting(config, (ZERO, name), True, "unsafe"),
        )


@rule("DS708", "stage-missing-on-save", severity="error", effects=("risk",), keys=(ZERO,))
def stage_missing_on_save(config: Config) -> Iterator[Problem]:
    """A ``zero_optimization`` without ``stage``, which Accelerate reads only when the model is saved.

    Source: ``Accelerator.get_state_dict`` in ``accelerate/accelerator.py``.
    """
    member = config.member(ZERO)
    if member is None or member.value.kind != "object" or "deepspeed" in config.stacks or config.is_cut_off:
        return
    if _never_gets_states(config):
        return
    from ds_lint.knowledge import suggestions

    is_misspelled = any(
        suggestions.is_typo(visit.member.key, "stage") for visit in config.unknown if visit.path[0] == ZERO
    )
    if member.value.get("stage") is not None or is_misspelled:
        return
    saves = {
        "trainer": "trainer.save_model and every checkpoint raise a KeyError",
        "accelerate": "get_state_dict raises a KeyError",
    }
    yield Problem(
        (ZERO, "stage"),
        member.key_span,
        "`zero_optimization` has no `stage`: " + ", and ".join(saves[stack] for stack in config.stacks),
        RISK,
        help='Add "stage": 0, or the stage that you want. Without it, the run trains at stage 0, but Accelerate reads '
        "`stage` when the model is saved.",
        label="no `stage`",
        fix=edits.written(config, (ZERO, "stage"), 0, "unsafe"),
    )


def _never_gets_states(config: Config) -> bool:
    """Whether a script with a loop of its own has no call that asks Accelerate for the weights."""
    launch = config.facts.launch
    document = launch.script_document if launch is not None else None
    if config.stack != "accelerate" or document is None:
        return False
    return not any(call in document.content for call in ("get_state_dict", ".save_model("))


def _stage_without_gathering(config: Config) -> Node | None:
    """The stage, if it is 3 and the weights are not gathered when they are saved.

    A stage in quotes has its own rule, stage_as_string.
    """
    stage = config.node(ZERO, "stage")
    is_3 = stage is not None and stage.kind != "string" and zero_stage(config) == 3
    return stage if is_3 and not _gathers(config) else None


def _key_to_gather(config: Config) -> str | None:
    """The name of the key in the target; None before 0.3.14, which has no such key."""
    return next((name for name in GATHER if config.knowledge.find((ZERO, name))), None)


def _is_for_training(config: Config) -> bool:
    """Whether the config has settings for training; stage 3 also serves inference, which saves no model."""
    keys = ("optimizer", "scheduler", "gradient_accumulation_steps", "gradient_clipping")
    batch_sizes = ("train_batch_size", "train_micro_batch_size_per_gpu")
    return (
        config.facts.training is not None
        or any(config.node(key) is not None for key in keys)
        or any(config.value(key) == AUTO for key in batch_sizes)
    )


def _gathers(config: Config) -> bool:
    return any(is_on(config, ZERO, name) for name in GATHER)


def _not_gathered(name: str, written: Node | None) -> str:
    if written is None:
        return f"without `{name}`"
    if written.value == AUTO:
        return f'with `{name}` "auto"'
    return f"with `{name}` off"


def _nothing_to_load(config: Config) -> str:
    """What happens on each possible stack when the script saves the model."""
    does = {"trainer": "trainer.save_model writes no model", "accelerate": "accelerator.get_state_dict raises"}
    return ", ".join(does[stack] for stack in config.stacks)


def _why_nothing_is_saved(config: Config, written: Node | None) -> str:
    """What is written instead, for the help."""
    reason, only_model = "", config.argument("save_only_model")
    if "trainer" in config.stacks:
        reason = " trainer.save_model writes ZeRO shards, which from_pretrained cannot load."
        if only_model is not None and only_model.value:
            reason += " Checkpoints contain all states despite `save_only_model`."
    if written is not None and written.value == AUTO:
        reason += ' "auto" is false unless accelerate launch has --zero3_save_16bit_model.'
    return reason


@rule("DS704", "best-model-without-states", severity="error", effects=("rejected",))
def best_model_without_states(config: Config) -> Iterator[Problem]:
    """``load_best_model_at_end`` with ``save_only_model``: DeepSpeed has no checkpoint to load the best model from."""
    only_model, best = set_argument(config, "save_only_model"), set_argument(config, "load_best_model_at_end")
    if only_model is None or best is None:
        return
    if config.knowledge.stack_does("save-only-model-refuses-best-model"):
        yield Problem(
            None,
            config.opening,
            "`save_only_model` and `load_best_model_at_end` are both set: with DeepSpeed, Trainer() raises",
            {"trainer": rejected("initialize")},
            help="Remove one of the two training arguments.",
            label="requires full checkpoints",
            related=[*given_at(only_model, "save_only_model"), *given_at(best, "load_best_model_at_end")],
        )


@rule("DS705", "resume-without-states", severity="warning", effects=("risk",))
def resume_without_states(config: Config) -> Iterator[Problem]:
    """A run that resumes, but writes checkpoints that cannot be resumed.

    Source: ``deepspeed_load_checkpoint`` in ``transformers/integrations/deepspeed.py``.
    """
    only_model, resumed = set_argument(config, "save_only_model"), _resumed(config)
    if only_model is None or resumed is None:
        return
    if _stage_without_gathering(config) is not None:
        return  # whole checkpoints after all: weights_not_gathered_on_save
    yield Problem(
        None,
        config.opening,
        "`save_only_model` leaves the DeepSpeed states out of checkpoints: trainer.train() cannot resume from them",
        {"trainer": RISK},
        help="Remove `save_only_model` to be able to resume. This run resumes from a checkpoint; with one of its own, "
        "trainer.train() raises.",
        label="cannot be resumed",
        related=[*given_at(only_model, "save_only_model"), *given_at(resumed, "resume_from_checkpoint")],
    )


@rule("DS706", "shards-on-each-node-only", severity="warning", effects=("risk",), keys=("checkpoint",))
def shards_on_each_node_only(config: Config) -> Iterator[Problem]:
    """Shards on the local storage of each node, but the Trainer's own state only on the first node.

    ``save_on_each_node`` sets both. Sources: ``TrainingArguments.should_save``, and ``Trainer.train``, which restores
    the state of a run from ``trainer_state.json``.
    """
    each, member = config.argument("save_on_each_node"), config.member("checkpoint", "use_node_local_storage")
    if member is None or not is_truthy(member.value) or "trainer" not in config.stacks:
        return
    if each is not None and not each.value and (config.facts.nodes or 1) > 1:
        yield Problem(
            ("checkpoint", "use_node_local_storage"),
            member.value.span,
            f"without `save_on_each_node`, the Trainer writes its state on the first of {config.facts.nodes} nodes: "
            "resuming fails on the others",
            {"trainer": RISK},
            help="Set `save_on_each_node` in the training arguments, which sets this key too, or delete the key if the "
            "nodes share storage. With it, DeepSpeed expects local storage on each node.",
            label="without save_on_each_node",
            related=given_at(each, "save_on_each_node"),
        )


@rule("DS702", "nvme-states-lost-on-resume", severity="warning", effects=("risk",), keys=("zero_optimization",))
def nvme_states_lost_on_resume(config: Config) -> Iterator[Problem]:
    """Optimizer states on NVMe, which a checkpoint restores only in part, or which cannot be saved.

    Source: ``load_checkpoint`` in ``deepspeed/runtime/engine.py`` skips the ZeRO checkpoint with NVMe and copies the
    swapped files; ``MIN_AIO_BYTES`` in ``deepspeed/runtime/swap_tensor/utils.py`` determines what is swapped.
    """
    path = ("zero_optimization", "offload_optimizer", "device")
    member = config.member(*path)
    if member is None or member.value.value != "nvme" or zero_stage(config) != 3 or has_no_optimizer(config):
        return
    resumed = None
    severity: Severity
    if config.knowledge.does("nvme-states-are-loaded-in-part"):
        resumed = _resumed(config)
        # A run that does not resume loses nothing.
        severity = "warning" if resumed or _has_checkpoint(config) else "info"
        what = "resuming restarts Adam's step count and loses weights and moments below 1 MiB, which are not on NVMe"
    elif config.knowledge.does("nvme-states-are-not-saved"):
        severity = "warning"
        what = (
            f"DeepSpeed {config.knowledge.deepspeed} cannot save optimizer states on NVMe: saving a checkpoint raises"
        )
    else:
        return
    yield Problem(
        path,
        member.value.span,
        what,
        RISK,
        help='Set `device` to "cpu" if host memory is large enough, or do not resume this run.',
        label="not in the checkpoint",
        severity=severity,
        related=given_at(resumed, "resume_from_checkpoint") if resumed else [],
    )


def _has_checkpoint(config: Config) -> bool:
    """Whether the launch resumes from a checkpoint that is in the project."""
    launch = config.facts.launch
    return launch is not None and launch.checkpoint is not None


def _resumed(config: Config) -> Argument | None:
    """``resume_from_checkpoint``, if the training arguments ask for it."""
    resumed = set_argument(config, "resume_from_checkpoint")
    return resumed if resumed is not None and str(resumed.value).lower() != "false" else None


@rule("DS711", "pipelined-weights-mixed-up", severity="warning", effects=("risk",), keys=(ZERO,))
def pipelined_weights_mixed_up(config: Config) -> Iterator[Problem]:
    """Swap buffers that a checkpoint takes for the fp32 weights of the sub-groups that they were used for.

    ``_complete_swap_out`` in ``deepspeed/runtime/swap_tensor/pipelined_optimizer_swapper.py`` leaves the weights in a
    buffer that the next sub-group gets; ``_rigid_state_dict`` in ``deepspeed/runtime/zero/stage3.py`` saves them.
    """
    name = next(iter(pipelines(config)), None)
    member = config.member(*SECTION, name) if name is not None else None
    if member is None or name is None or not swaps_optimizer(config):
        return
    if (buffer_count(config) or 0) < (buffers_of_adam(config) or 1):
        return  # a rank with so many sub-groups trains no step: too_few_swap_buffers
    if not config.knowledge.does("swapped-weights-stay-in-buffers"):
        return
    yield Problem(
        (*SECTION, name),
        member.value.span,
        f"with `{name}`, zero_to_fp32 silently recovers wrong weights if the swap buffers are too few",
        RISK,
        help="Set `zero_optimization.stage3_gather_16bit_weights_on_model_save` to true and save the model, or set "
        '`device` to "cpu". If a rank has more sub-groups of parameters than fit into the swap buffers, the checkpoint '
        "has what was in the buffers last.",
        label="not in the checkpoint",
        related=beside(config, *SECTION, "device"),
    )


@rule("DS712", "moments-rounded-on-resume", severity="warning", effects=("risk",), keys=("fp16", "bf16", "bfloat16"))
def moments_rounded_on_resume(config: Config) -> Iterator[Problem]:
    """Moments in fp32 of master weights in 16 bit, which torch casts to the dtype of the weights when it loads them.

    Source: ``_load_legacy_checkpoint`` in ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``_rigid_load_state_dict`` in
    ``deepspeed/runtime/zero/stage3.py`` call ``load_state_dict`` of the optimizer.
    """
    for section in ("fp16", bf16_section(config)):
        name = f"{'fp16' if section == 'fp16' else 'bf16'}_master_weights_and_grads"
        member = config.member(section, name)
        if member is None or not (is_on(config, section, "enabled") and is_on(config, section, name)):
            continue
        if not _has_moments_in_fp32(config, section) or not config.knowledge.does("moments-are-cast-on-loading"):
            return
        resumed = _resumed(config)
        # A run that does not resume loses nothing.
        severity: Severity = "warning" if resumed or _has_checkpoint(config) else "info"
        is_fp16 = section == "fp16"
        yield Problem(
            (section, name),
            member.value.span,
            f"resuming from a checkpoint converts Adam's moments from fp32 to {'fp16' if is_fp16 else 'bf16'}"
            f"{': second moments below 6e-8 become 0' if is_fp16 else ' for the rest of the run'}",
            RISK,
            help=f"Delete `{name}`{'' if is_fp16 else ', or set `bf16_optimizer_states` to true'}, or do not resume "
            "this run, which does not continue as before.",
            label="fp32 until the run resumes",
            severity=severity,
            related=given_at(resumed, "resume_from_checkpoint") if resumed else [],
        )


def _has_moments_in_fp32(config: Config, section: str) -> bool:
    """Whether DeepSpeedCPUAdam updates the 16-bit master weights, with moments in fp32."""
    if not zero_stage(config) or config.value(ZERO, "offload_optimizer", "device") != "cpu":
        return False
    if is_on(config, section, "bf16_optimizer_states"):
        return False
    if config.node("optimizer", "params", "fp32_optimizer_states") is not None:
        return False
    return not names_optimizer(config) or str(config.value("optimizer", "type")).lower() in ("adam", "adamw")


@rule("DS710", "parameters-mixed-up-by-round-robin", severity="warning", effects=("wrong-result", "risk"), keys=(ZERO,))
def parameters_mixed_up_by_round_robin(config: Config) -> Iterator[Problem]:
    """Partitions in the order of ``round_robin_gradients``, although DeepSpeed looks parameters up in model order.

    ``_link_all_hp_params`` in ``deepspeed/runtime/zero/stage_1_and_2.py`` follows ``bit16_groups``, the partitions
    follow ``round_robin_bit16_groups``. With ``parameter_alignment`` it depends on the shapes of the model.
    """
    path, stage = (ZERO, "round_robin_gradients"), zero_stage(config)
    member = config.member(*path)
    if member is None or not is_on(config, *path) or stage not in (1, 2) or config.world_size == 1:
        return
    if not config.knowledge.does("partitions-are-linked-in-model-order") or is_on(config, ZERO, "parameter_alignment"):
        return
    if may_have_bf16_optimizer(config):  # it keeps the order of the model
        return
    loads, launch = is_on(config, "checkpoint", "load_universal"), config.facts.launch
    calls = launch.script.calls if launch is not None and launch.script is not None else None
    call = calls.parameter if calls is not None else None
    if launch is not None and call is not None:
        what = f"`{call.function}`, {launch.at(call.place)}, uses the values of other parameters"
        related = launch.related(call.place, "looks parameters up in model order")
    elif loads:
        what = "loading a universal checkpoint silently mixes up the values of parameters"
        related = []
    else:
        return  # training, resuming, saving and zero_to_fp32 are correct
    yield Problem(
        path,
        member.value.span,
        f"with `round_robin_gradients` at stage {stage}, {what}",
        WRONG_RESULT if call is not None else RISK,
        help="Delete the key; it only speeds up copying gradients to the host with `offload_optimizer`.",
        label="parameters are looked up in model order",
        related=[*beside(config, ZERO, "stage"), *related],
        fix=edits.deletion(config, path, "unsafe"),
    )


@rule(
    "DS713",
    "checkpoint-cannot-be-loaded",
    severity="error",
    effects=("rejected", "wrong-result"),
    elsewhere=True,
)
def checkpoint_cannot_be_loaded(config: Config) -> Iterator[Problem]:
    """A checkpoint of the project that is broken, of weights alone, or saved with other settings.

    Sources: ``load_checkpoint`` in ``deepspeed/runtime/engine.py``, ``deepspeed_load_checkpoint`` in
    ``transformers/integrations/deepspeed.py``.
    """
    launch = config.facts.launch
    checkpoint = launch.checkpoint if launch is not None else None
    if launch is None or checkpoint is None or checkpoint.saved is None or config.stack not in ("deepspeed", "trainer"):
        return
    from ds_lint.checkpoints.resumed_config import differences
    from ds_lint.checkpoints.resumption import answer
    from ds_lint.semantics.resumed_settings import resumed_config

    resumed = resumed_config(config)
    saved = (checkpoint.universal if resumed.loads_universal else None) or checkpoint.saved
    found = differences(saved, resumed)
    given = answer(saved, checkpoint.folder, None, None, found)
    if given is None or given.status == "yes" or is_on(config, "checkpoint", "use_node_local_storage"):
        return
    if config.stack == "deepspeed" and given.is_of_trainer:
        return
    raises = given.raises_in(config.stack)
    place = launch.resumption.place if launch.resumption is not None else None
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"the launch resumes from `{checkpoint.path}`, which does not load{'' if raises else ', and nothing raises'}",
        rejected("train") if raises else WRONG_RESULT,
        help=f"{given.why[0].upper()}{given.why[1:]}. {_advice(given)} `ds-lint checkpoint` lists its files.",
        label="has to fit the checkpoint",
        related=[
            *(launch.related(place, "resumes") if place is not None else []),
            launched(launch, "resumes from a folder of the project"),
        ],
        subject=(checkpoint.path, given.why),
    )


def _advice(given: ResumeAnswer) -> str:
    if given.status == "convert":
        return f"Convert it with `{given.command}`."
    return "Resume from a whole checkpoint, with the settings that it was saved with."
