"""Rules about the training script that a launch starts with the config (DS82x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.model_requests import reference_model, ungathered_generation
from ds_lint.semantics.constructors import has_kernel_of_gpu_only, offloads_optimizer
from ds_lint.semantics.features import is_on, is_truthy, zero_stage
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Related, Stack
    from ds_lint.launches.script_calls import ScriptCalls
    from ds_lint.launches.script_code import CodePlace
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Member, Span

ZERO = "zero_optimization"
_STAGE = (ZERO, "stage")
_WITH_TRANSFORMERS: tuple[Stack, ...] = ("trainer", "accelerate")
_EMPTY_ADAPTERS = (
    " Every adapter weight of more elements than `stage3_param_persistence_threshold` is partitioned, and empty."
)


@rule("DS820", "device-map-at-stage-3", severity="error", effects=("rejected",), keys=(ZERO,))
def device_map_at_stage_3(config: Config) -> Iterator[Problem]:
    """``from_pretrained`` with a ``device_map``, or in older releases ``low_cpu_mem_usage``, at stage 3.

    Source: ``check_and_set_device_map`` in ``transformers/integrations/accelerate.py``; before,
    ``PreTrainedModel.from_pretrained`` itself.
    """
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None or _builds_whole_models(config):
        return
    for load in calls.loads:
        argument, given = "device_map", load.device_map
        if given is None and config.knowledge.stack_does("low-cpu-memory-is-refused-at-stage-3"):
            argument, given = "low_cpu_mem_usage", load.low_memory
        if given is not None and load.is_after_setup:
            yield Problem(
                _STAGE,
                stage.value.span,
                f"`{load.function}` with `{argument}`, {_at(config, load.place)}, raises a ValueError at stage 3",
                dict.fromkeys(_WITH_TRANSFORMERS, rejected("initialize")),
                help=f"Delete `{argument}` from the call: stage 3 places the parameters itself.",
                label="stage 3 places the parameters",
                related=_related(config, given, argument),
            )


@rule("DS821", "ungathered-weights-saved", severity="error", effects=("wrong-result", "risk"), keys=(ZERO,))
def ungathered_weights_saved(config: Config) -> Iterator[Problem]:
    """A state that is saved as a rank has it: partitioned parameters have no elements there."""
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None:
        return
    for save in calls.ungathered:
        yield Problem(
            _STAGE,
            stage.value.span,
            f"`{save.function}`, {_at(config, save.place)}, saves "
            f"{'large adapter weights' if save.is_adapter else 'partitioned parameters'} empty at stage 3",
            RISK if save.is_adapter else WRONG_RESULT,
            help=f"{_how_to_save(config)} The call saves what one rank has."
            + (_EMPTY_ADAPTERS if save.is_adapter else ""),
            label="partitions the weights",
            severity="warning" if save.is_adapter else None,
            related=_related(config, save.place, "saves without gathering"),
        )


@rule("DS822", "called-on-one-rank", severity="error", effects=("risk",), keys=())
def called_on_one_rank(config: Config) -> Iterator[Problem]:
    """A call that communicates with all ranks, under a condition that one of them meets."""
    calls, stage = _calls(config), config.member(*_STAGE)
    if calls is None or stage is None or config.world_size == 1:
        return
    for call in calls.on_one_rank:
        if call.at_stage_3 and _stage_3(config) is None:
            continue
        yield Problem(
            _STAGE,
            stage.value.span,
            f"only one rank calls `{call.function}`, {_at(config, call.place)}, which "
            + ("gathers weights from all ranks at stage 3" if call.at_stage_3 else "waits for all ranks")
            + ": the run hangs",
            RISK,
            help=f"Call `{call.function}` on every rank, and keep only what follows, such as printing, under the "
            "condition.",
            label="weights are on all ranks" if call.at_stage_3 else "every rank saves its part",
            related=[
                *_related(config, call.place, "called on one rank"),
                *_related(config, call.condition, "on one rank"),
            ],
        )


@rule("DS823", "client-optimizer-with-offload", severity="error", effects=("rejected",), keys=(ZERO,))
def client_optimizer_with_offload(config: Config) -> Iterator[Problem]:
    """An optimizer from the script that is not one of DeepSpeed's for the CPU, with ``offload_optimizer``.

    Source: ``_configure_optimizer`` in ``deepspeed/runtime/engine.py``.
    """
    calls, force = _calls(config), config.node("zero_force_ds_cpu_optimizer")
    handed = calls.optimizers if calls is not None else None
    made = handed.optimizer if handed is not None and handed.function == "deepspeed.initialize" else None
    if made is None or not offloads_optimizer(config) or not config.knowledge.knows(("zero_force_ds_cpu_optimizer",)):
        return
    name = made.class_name
    takes_lion = config.knowledge.does("cpu-lion-may-be-passed")
    if (force is not None and not is_truthy(force)) or name == "DeepSpeedCPUAdam":
        return
    if name == "DeepSpeedCPULion" and takes_lion:
        return
    path, span = _offload(config)
    taken = "DeepSpeedCPUAdam or DeepSpeedCPULion" if takes_lion else "DeepSpeedCPUAdam"
    yield Problem(
        path,
        span,
        f"the script passes {name}, {_at(config, made.place)}, but offload needs {taken}: deepspeed.initialize raises",
        {"deepspeed": rejected("initialize")},
        help=f"Pass {taken}."
        if has_kernel_of_gpu_only(made.name)
        else f"Pass {taken}, or set `zero_force_ds_cpu_optimizer` to false to run {name} on the CPU.",
        label="offloads the optimizer",
        related=_related(config, made.place, f"{name} is made here"),
    )


@rule("DS824", "autocast-around-engine", severity="error", effects=("rejected", "no-effect"), keys=())
def autocast_around_engine(config: Config) -> Iterator[Problem]:
    """The engine is called inside ``torch.autocast``, which DeepSpeed rejects, or switches off inside of the engine.

    Source: ``validate_nested_autocast``, later ``autocast_if_enabled``, in ``deepspeed/runtime/torch_autocast.py``.
    """
    calls = _calls(config)
    first = next(iter(config.root.members), None)
    if calls is None or first is None or is_on(config, "torch_autocast"):
        return
    raises = config.knowledge.does("autocast-around-the-engine-raises")
    if not raises and not config.knowledge.does("engine-sets-its-own-autocast"):
        return
    is_16_bit = is_on(config, "bf16") or is_on(config, "fp16")
    for call in calls.autocast:
        when = "" if call.enabled else " when it is enabled"
        happens = (
            f"raises{when}: `torch_autocast` is not enabled in the config"
            if raises
            else "has no effect: `torch_autocast` is not enabled in the config"
        )
        outcome: Outcome = rejected("train") if raises else NO_EFFECT
        yield Problem(
            None,
            first.key_span,
            f"`torch.autocast` around `{call.function}(...)`, {_at(config, call.place)}, {happens}",
            {"deepspeed": outcome},
            help="Delete the `torch.autocast` of the script, and set `torch_autocast` or `bf16` in the config."
            + (" The engine raises an AssertionError." if raises else " The engine disables autocast."),
            label="without `torch_autocast`",
            severity=("error" if call.enabled else "warning") if raises else "info" if is_16_bit else "warning",
            related=_related(config, call.place, "autocast around the engine"),
        )


@rule("DS825", "model-loaded-before-config", severity="warning", effects=("risk",), keys=(ZERO,))
def model_loaded_before_config(config: Config) -> Iterator[Problem]:
    """The model is loaded before transformers knows of stage 3.

    Source: ``from_pretrained`` asks ``is_deepspeed_zero3_enabled`` of ``transformers/integrations/deepspeed.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None or config.world_size == 1 or calls.quantized or _builds_whole_models(config):
        return
    for load in calls.loads:
        if load.setup_after is not None:
            setup, place = load.setup_after
            yield Problem(
                _STAGE,
                stage.value.span,
                f"`{load.function}`, {_at(config, load.place)}, runs before `{setup}`, {_at(config, place)}: "
                "every rank loads the whole model",
                RISK,
                help=f"Call `{setup}` before `{load.function}`, so that transformers knows of stage 3.",
                label="partitions the model too late",
                related=[
                    *_related(config, load.place, "loads the whole model"),
                    *_related(config, place, "tells transformers of stage 3"),
                ],
            )


@rule("DS826", "config-not-kept-alive", severity="warning", effects=("risk",), keys=(ZERO,))
def config_not_kept_alive(config: Config) -> Iterator[Problem]:
    """An ``HfDeepSpeedConfig`` to which transformers has the only reference, a weak one.

    Source: ``set_hf_deepspeed_config`` in ``transformers/integrations/deepspeed.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    unkept = calls.unkept if calls is not None else None
    if unkept is None or stage is None or config.world_size == 1:
        return
    yield Problem(
        _STAGE,
        stage.value.span,
        f"no variable keeps the `HfDeepSpeedConfig` of {_at(config, unkept.place)} alive: `{unkept.load}`, "
        f"{_at(config, unkept.load_place)}, loads the whole model on every rank",
        {"deepspeed": RISK},
        help="Assign the object to a variable that lives as long as the model. transformers has only a weak "
        "reference to it, and without it does not know of stage 3.",
        label="partitions the model too late",
        related=[
            *_related(config, unkept.place, "not kept alive"),
            *_related(config, unkept.load_place, "loads the whole model"),
        ],
    )


@rule("DS827", "batch-size-before-init", severity="error", effects=("rejected",), keys=("train_batch_size",))
def batch_size_before_init(config: Config) -> Iterator[Problem]:
    """A config that is read for ``zero.Init`` before deepspeed.comm knows the number of ranks.

    Source: ``DeepSpeedConfig.__init__`` in ``deepspeed/runtime/config.py``.
    """
    calls, ranks = _calls(config), config.world_size
    early = calls.early if calls is not None else None
    if early is None or ranks is None or ranks == 1 or (early.is_by_transformers and _stage_3(config) is None):
        return
    if early.config is not None and early.config.rpartition("/")[2] != config.document.path.rpartition("/")[2]:
        return
    member = config.member("train_batch_size")
    whole, micro, steps = (
        node.value if (node := config.node(name)) is not None and type(node.value) is int else None
        for name in ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    )
    if member is None or whole is None or micro is None or steps is None or whole != micro * steps * ranks:
        return
    yield Problem(
        ("train_batch_size",),
        member.value.span,
        f"`{early.function}`, {_at(config, early.place)}, runs before deepspeed.init_distributed and raises: "
        f"{whole} is not {micro} * {steps} * 1",
        {"deepspeed": rejected("initialize")},
        help="Call deepspeed.init_distributed() before the model is built, or delete `gradient_accumulation_steps`. "
        "Until then, DeepSpeed takes the world size for 1, and raises an AssertionError when it reads the config.",
        label=f"needs {ranks} ranks",
        related=_related(config, early.place, "reads the config for one rank"),
    )


@rule("DS828", "weights-gathered-per-token", severity="warning", effects=("risk",), keys=(ZERO,))
def weights_gathered_per_token(config: Config) -> Iterator[Problem]:
    """A trainer of trl that generates with partitioned weights.

    Source: ``unwrap_model_for_generation`` in ``trl/models/utils.py``.
    """
    launch, stage = config.facts.launch, _stage_3(config)
    given = ungathered_generation(launch) if launch is not None else None
    if given is None or stage is None or config.world_size == 1:
        return
    setting, where, related = given
    yield Problem(
        _STAGE,
        stage.value.span,
        f"{setting} is false, {where}: at stage 3 every generated token gathers all weights",
        {"trainer": RISK},
        help=f"Delete {setting} if a GPU has memory for the whole model, or generate with vLLM (`use_vllm`). "
        "Gathering them from all ranks, layer by layer, makes generation take many times as long.",
        label="partitions the weights",
        related=related,
        subject=setting,
    )


@rule("DS829", "reference-model-before-schedule", severity="error", effects=("rejected",), keys=("scheduler",))
def reference_model_before_schedule(config: Config) -> Iterator[Problem]:
    """A trainer of trl with a reference model, and a schedule that the Trainer fills in when it trains.

    Source: ``prepare_deepspeed`` in ``trl/models/utils.py``; until 0.12 ``_prepare_deepspeed`` of each trainer.
    """
    launch, stage = config.facts.launch, _stage_3(config)
    given = reference_model(launch) if launch is not None else None
    if given is None or stage is None or config.written.at(("optimizer", "type")) is None:
        return
    trainer, where, related = given
    for name in ("warmup_num_steps", "total_num_steps"):
        params = config.written.at(("scheduler", "params"))
        member = params.member(name) if params is not None else None
        if member is None or member.value.value != AUTO:
            continue
        yield Problem(
            ("scheduler", "params", name),
            member.key_span,  # what fills the value in comes too late
            f'the reference model of {trainer}, {where}, gets `scheduler.params.{name}` "auto": the script raises',
            {"trainer": rejected("initialize")},
            help="Delete `scheduler`, and set `lr_scheduler_type` and `warmup_steps` in the training arguments. trl "
            'gives the reference model to DeepSpeed before the Trainer fills in "auto"; before 0.7.2 it does not, and '
            "raises for the partitioned weights.",
            label="not filled in yet",
            related=related,
            subject=trainer,
        )


def _calls(config: Config) -> ScriptCalls | None:
    """What the script does that the launch starts."""
    launch = config.facts.launch
    return launch.script.calls if launch is not None and launch.script is not None and launch.stack else None


def _at(config: Config, place: CodePlace) -> str:
    launch = config.facts.launch
    return launch.at(place) if launch is not None else ""


def _related(config: Config, place: CodePlace, label: str) -> list[Related]:
    launch = config.facts.launch
    return launch.related(place, label) if launch is not None else []


def _stage_3(config: Config) -> Member | None:
    return config.member(*_STAGE) if zero_stage(config) == 3 else None


def _builds_whole_models(config: Config) -> bool:
    """Whether Accelerate does not tell transformers of stage 3 while models are built."""
    launch = config.facts.launch
    return launch is not None and launch.builds_whole_models and launch.stack == "accelerate"


def _offload(config: Config) -> tuple[KeyPath, Span]:
    """What offloads the optimizer."""
    for path in ((ZERO, "offload_optimizer"), (ZERO, "cpu_offload")):
        if (member := config.member(*path)) is not None:
            return path, member.key_span
    raise LookupError("the optimizer is not offloaded")


def _how_to_save(config: Config) -> str:
    if "trainer" in config.stacks:
        return "Call `trainer.save_model()` on every rank, which gathers the weights."
    if "accelerate" in config.stacks:
        return "Pass `state_dict=accelerator.get_state_dict(model)`, and call it on every rank."
    return "Call `engine.save_16bit_model(folder)` on every rank, which gathers the weights."
