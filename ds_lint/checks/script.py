"""Rules about the training script that a launch starts with the config (DS82x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import NO_EFFECT, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.model_requests import reference_model, ungathered_generation
from ds_lint.semantics.constructors import has_kernel_of_gpu_only, offloads_optimizer
from ds_lint.semantics.features import is_on, is_truthy, zero_stage
from ds_lint.source.spelling import AUTO
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Related, Stack
    from ds_lint.launches.model_building import WholeModel
    from ds_lint.launches.model_loading import EarlyPartition
    from ds_lint.launches.script_calls import ScriptCalls
    from ds_lint.launches.script_code import CodePlace
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Member, Span

ZERO = "zero_optimization"
_STAGE = (ZERO, "stage")
_BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_OF_ENGINES: tuple[Stack, ...] = ("deepspeed", "accelerate")  # whose scripts call the engine themselves
_GPUS_OF_NODE = 8  # of the machines that are rented and sold most
# The releases of PyTorch that may not hand on what is set on a compiled module: the newest of each line.
_LAST_WITHOUT_FORWARDING = ("2.0.1", "2.1.2", "2.2.2", "2.3.1", "2.4.1", "2.5.1")
_WITH_TRANSFORMERS: tuple[Stack, ...] = ("trainer", "accelerate")
_EMPTY_ADAPTERS = (
    " Every adapter weight of more elements than `stage3_param_persistence_threshold` is partitioned, and empty."
)


@rule("DS820", "device-map-at-stage-3", severity="error", effects=("rejected",), keys=(ZERO,), elsewhere=True)
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
                f"`{load.function}` with `{argument}` raises a ValueError at stage 3",
                dict.fromkeys(_WITH_TRANSFORMERS, rejected("initialize")),
                help=f"Delete `{argument}` from the call: stage 3 places the parameters itself.",
                label="stage 3 places the parameters",
                related=_related(config, given, argument),
            )


@rule(
    "DS821",
    "ungathered-weights-saved",
    severity="error",
    effects=("wrong-result", "risk"),
    keys=(ZERO,),
    elsewhere=True,
)
def ungathered_weights_saved(config: Config) -> Iterator[Problem]:
    """A state that is saved as a rank has it: partitioned parameters have no elements there."""
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None:
        return
    for save in calls.ungathered:
        yield Problem(
            _STAGE,
            stage.value.span,
            f"`{save.function}` saves "
            f"{'large adapter weights' if save.is_adapter else 'partitioned parameters'} empty at stage 3",
            RISK if save.is_adapter else WRONG_RESULT,
            help=f"{_how_to_save(config)} The call saves what one rank has."
            + (_EMPTY_ADAPTERS if save.is_adapter else ""),
            label="partitions the weights",
            severity="warning" if save.is_adapter else None,
            related=_related(config, save.place, "saves without gathering"),
        )


@rule("DS822", "called-on-one-rank", severity="error", effects=("risk",), keys=(), elsewhere=True)
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
            f"only one rank calls `{call.function}`, which "
            + ("gathers weights from all ranks at stage 3" if call.at_stage_3 else "waits for all ranks")
            + ": the run hangs",
            RISK,
            help=f"Call `{call.function}` on every rank, and keep only what follows, such as printing, under the "
            "condition.",
            label="weights are on all ranks" if call.at_stage_3 else "on several ranks",
            related=[
                *_related(config, call.place, "called on one rank"),
                *_related(config, call.condition, "on one rank"),
            ],
        )


@rule("DS823", "client-optimizer-with-offload", severity="error", effects=("rejected",), keys=(ZERO,), elsewhere=True)
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
        f"the script passes {name}, but offload needs {taken}: deepspeed.initialize raises",
        {"deepspeed": rejected("initialize")},
        help=f"Pass {taken}."
        if has_kernel_of_gpu_only(made.name)
        else f"Pass {taken}, or set `zero_force_ds_cpu_optimizer` to false to run {name} on the CPU.",
        label="offloads the optimizer",
        related=_related(config, made.place, f"{name} is made here"),
    )


@rule("DS824", "autocast-around-engine", severity="error", effects=("rejected", "no-effect"), keys=(), elsewhere=True)
def autocast_around_engine(config: Config) -> Iterator[Problem]:
    """The engine is called inside ``torch.autocast``, which DeepSpeed rejects, or switches off inside of the engine.

    Source: ``validate_nested_autocast``, later ``autocast_if_enabled``, in ``deepspeed/runtime/torch_autocast.py``.
    """
    calls = _calls(config)
    first = next(iter(config.root.members), None)
    if calls is None or first is None or is_on(config, "torch_autocast"):
        return
    raises = config.knowledge.does("autocast-around-the-engine-raises")
    if raises and config.stack == "trainer":
        yield from _autocast_of_trl(config, calls, first)
    if config.stack not in _OF_ENGINES:
        return
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
            f"`torch.autocast` around `{call.function}(...)` {happens}",
            {config.stack: outcome},
            help="Delete the `torch.autocast` of the script, and set `torch_autocast` or `bf16` in the config."
            + (" The engine raises an AssertionError." if raises else " The engine disables autocast."),
            label="without `torch_autocast`",
            severity=("error" if call.enabled else "warning") if raises else "info" if is_16_bit else "warning",
            related=_related(config, call.place, "autocast around the engine"),
        )


def _autocast_of_trl(config: Config, calls: ScriptCalls, first: Member) -> Iterator[Problem]:
    """A trainer of trl that casts the adapters of a 4-bit model to bf16, and runs it in ``torch.autocast`` then.

    Source: ``compute_loss`` in ``trl/trainer/dpo_trainer.py``.
    """
    from ds_lint.frameworks.trl import AUTOCASTS
    from ds_lint.targets.pin import is_exact, version_of
    from ds_lint.targets.releases import numbers_of  # few scripts get here

    aligned, quantized, pin = calls.aligned, calls.quantized, config.basis.pins.get("trl")
    bf16 = config.argument("bf16")
    if aligned is None or quantized is None or pin is None or bf16 is None or aligned.trainer not in AUTOCASTS:
        return
    if not is_exact(pin.specifier) or quantized.argument != "load_in_4bit" or bf16.value is not True:
        return
    release, (since, until) = version_of(pin.specifier), AUTOCASTS[aligned.trainer]
    oldest, here, newest = numbers_of(since), numbers_of(release), numbers_of(until)
    if here is None or oldest is None or newest is None or not oldest <= here <= newest or not aligned.makes_adapter:
        return
    yield Problem(
        None,
        first.key_span,
        f"{aligned.trainer} of trl {release} runs the model in `torch.autocast`, as it is quantized: "
        "the engine raises without `torch_autocast`",
        {"trainer": rejected("train")},
        help="Upgrade DeepSpeed, or do not load the model in 4 bit. trl casts the adapters to bf16, and DeepSpeed "
        "raises an AssertionError in the first batch.",
        label="without `torch_autocast`",
        related=_related(config, quantized.place, "quantized here"),
    )


@rule("DS825", "model-loaded-before-config", severity="warning", effects=("risk",), keys=(ZERO,), elsewhere=True)
def model_loaded_before_config(config: Config) -> Iterator[Problem]:
    """The model is loaded before transformers knows of stage 3.

    Source: ``from_pretrained`` asks ``is_deepspeed_zero3_enabled`` of ``transformers/integrations/deepspeed.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None or calls.quantized or _builds_whole_models(config):
        return
    if config.world_size == 1 and config.value(ZERO, "offload_param", "device") not in ("cpu", "nvme"):
        return  # which has all partitions
    late = [(load.function, load.place, *load.setup_after) for load in calls.loads if load.setup_after is not None]
    reported = (*late, *calls.built_whole)
    for function, made, setup, place in reported:
        does = "builds" if function.endswith("from_config") else "loads"
        yield Problem(
            _STAGE,
            stage.value.span,
            f"`{function}` runs before `{setup}`, {_at(config, place)}: every rank {does} the whole model",
            RISK,
            help=f"Call `{setup}` before `{function}`, so that transformers knows of stage 3.",
            label="partitions the model too late",
            related=[
                *_related(config, made, f"{does} the whole model"),
                *_related(config, place, "tells transformers of stage 3"),
            ],
        )
    whole = calls.whole
    if whole is not None and calls.unkept is None and whole.place not in {made for _, made, _, _ in reported}:
        yield _made_whole(config, whole, stage)


def _made_whole(config: Config, whole: WholeModel, stage: Member) -> Problem:
    """A model that is made whole, although or because transformers does not know of stage 3."""
    makes = _makes(whole.function)
    after = _at(config, whole.setup[1]) if whole.setup is not None else ""
    every = f"every rank {makes} the whole model"
    if not whole.is_load:
        message = f"`{whole.function}(...)` is not partitioned by transformers: {every}"
        advice = "Make it with `from_config` of its Auto class, or inside of `deepspeed.zero.Init`."
    elif whole.setup is not None:
        message = f"`{whole.function}` runs before `{whole.setup[0]}`, {after}: {every}"
        advice = f"Call `{whole.setup[0]}` before `{whole.function}`, so that transformers knows of stage 3."
    else:
        message = f"there is no `HfDeepSpeedConfig` before `{whole.function}`: {every}"
        advice = (
            "Assign `HfDeepSpeedConfig(config)`, with the config of the engine, to a variable before the model is "
            "made, and keep it: transformers then partitions the model as it makes it."
        )
    related = _related(config, whole.place, f"{makes} the whole model")
    if whole.setup is not None:
        related += _related(config, whole.setup[1], "tells transformers of stage 3")
    return Problem(
        _STAGE, stage.value.span, message, RISK, help=advice, label="partitions the model too late", related=related
    )


@rule("DS826", "config-not-kept-alive", severity="warning", effects=("risk",), keys=(ZERO,), elsewhere=True)
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
        f"no variable keeps the `HfDeepSpeedConfig` alive: `{unkept.load}`, "
        f"{_at(config, unkept.load_place)}, {_makes(unkept.load)} the whole model on every rank",
        {"deepspeed": RISK},
        help="Assign the object to a variable that lives as long as the model. transformers has only a weak "
        "reference to it, and without it does not know of stage 3.",
        label="partitions the model too late",
        related=[
            *_related(config, unkept.place, "not kept alive"),
            *_related(config, unkept.load_place, f"{_makes(unkept.load)} the whole model"),
        ],
    )


@rule(
    "DS827",
    "batch-size-before-init",
    severity="error",
    effects=("rejected",),
    keys=("train_batch_size", ZERO),
    elsewhere=True,
)
def batch_size_before_init(config: Config) -> Iterator[Problem]:
    """A config that is read for ``zero.Init`` before deepspeed.comm knows the number of ranks.

    Source: ``DeepSpeedConfig.__init__`` in ``deepspeed/runtime/config.py``.
    """
    early, ranks = _early(config), config.world_size
    if early is None or not early.is_alone or ranks is None or ranks == 1:
        return
    in_file = {name: _size_in_file(config, name) for name in _BATCH}
    in_script = {name: None if size is None else size.on(ranks) for name, size in early.config.sizes}
    whole, micro, steps = ({**in_file, **in_script}[name] for name in _BATCH)
    if whole is None or micro is None or steps is None or whole == micro * steps:
        return
    if not in_script and whole != micro * steps * ranks:  # they contradict each other for the ranks, too
        return
    member = config.member("train_batch_size") or config.member(*_STAGE)
    if member is None:
        return
    yield Problem(
        ("train_batch_size",) if member.key == "train_batch_size" else _STAGE,
        member.key_span if in_script else member.value.span,
        f"`{early.function}` runs before deepspeed.init_distributed and raises: {whole} is not {micro} * {steps} * 1",
        rejected("initialize"),
        help="Call deepspeed.init_distributed() before the model is built, or "
        + (
            "set no `train_batch_size`. "
            if "train_batch_size" in in_script
            else "delete `gradient_accumulation_steps`. "
        )
        + "Until then, DeepSpeed takes the world size for 1, and raises an AssertionError when it reads the config.",
        label=f"needs {ranks} ranks" if not in_script else "set in the script",
        related=_related(config, early.place, "reads the config for one rank"),
    )


@rule("DS864", "auto-read-by-zero-init", severity="error", effects=("rejected",), keys=_BATCH, elsewhere=True)
def auto_read_by_zero_init(config: Config) -> Iterator[Problem]:
    """An "auto" in the config of an ``HfDeepSpeedConfig``, by which a model is built before the Trainer fills it in.

    Source: ``get_init_context`` in ``transformers/modeling_utils.py`` hands ``zero.Init`` the config as it is.
    """
    early = _early(config)
    if early is None or config.stack not in _WITH_TRANSFORMERS:
        return
    in_script = dict(early.config.sizes)
    for name in _BATCH:
        member = config.member(name)
        if member is None or not _is_auto(config, name) or name in in_script:
            continue
        yield Problem(
            (name,),
            member.key_span,
            f'`{early.function}` reads `{name}` "auto" and raises: nothing filled it in',
            dict.fromkeys(_WITH_TRANSFORMERS, rejected("initialize")),
            help="Delete the `HfDeepSpeedConfig` and make the training arguments or the Accelerator before the model: "
            'they tell transformers of stage 3, with values for "auto". DeepSpeed raises a TypeError.',
            label="not filled in yet",
            related=_related(config, early.place, "reads the config"),
        )
        return


@rule("DS828", "weights-gathered-per-token", severity="warning", effects=("risk",), keys=(ZERO,), elsewhere=True)
def weights_gathered_per_token(config: Config) -> Iterator[Problem]:
    """A trainer of trl that generates with partitioned weights.

    Source: ``unwrap_model_for_generation`` in ``trl/models/utils.py``.
    """
    launch, stage = config.facts.launch, _stage_3(config)
    given = ungathered_generation(launch) if launch is not None else None
    if given is None or stage is None or config.world_size == 1:
        return
    setting, _, related = given
    yield Problem(
        _STAGE,
        stage.value.span,
        f"{setting} is false: at stage 3 every generated token gathers all weights",
        {"trainer": RISK},
        help=f"Delete {setting} if a GPU has memory for the whole model, or generate with vLLM (`use_vllm`). "
        "Gathering them from all ranks, layer by layer, makes generation take many times as long.",
        label="partitions the weights",
        related=related,
        subject=setting,
    )


@rule(
    "DS829",
    "reference-model-before-schedule",
    severity="error",
    effects=("rejected",),
    keys=("scheduler",),
    elsewhere=True,
)
def reference_model_before_schedule(config: Config) -> Iterator[Problem]:
    """A trainer of trl with a reference model, and a schedule that the Trainer fills in when it trains.

    Source: ``prepare_deepspeed`` in ``trl/models/utils.py``; until 0.12 ``_prepare_deepspeed`` of each trainer.
    """
    launch, stage = config.facts.launch, _stage_3(config)
    given = reference_model(launch) if launch is not None else None
    if given is None or stage is None or config.written.at(("optimizer", "type")) is None:
        return
    trainer, _, related = given
    for name in ("warmup_num_steps", "total_num_steps"):
        params = config.written.at(("scheduler", "params"))
        member = params.member(name) if params is not None else None
        if member is None or member.value.value != AUTO:
            continue
        yield Problem(
            ("scheduler", "params", name),
            member.key_span,  # what fills the value in comes too late
            f'the reference model of {trainer} gets `scheduler.params.{name}` "auto": the script raises',
            {"trainer": rejected("initialize")},
            help="Delete `scheduler`, and set `lr_scheduler_type` and `warmup_steps` in the training arguments. trl "
            'gives the reference model to DeepSpeed before the Trainer fills in "auto"; before 0.7.2 it does not, and '
            "raises for the partitioned weights.",
            label="not filled in yet",
            related=related,
            subject=trainer,
        )


@rule("DS869", "generation-not-synced", severity="warning", effects=("risk",), keys=(ZERO,), elsewhere=True)
def generation_not_synced(config: Config) -> Iterator[Problem]:
    """Ranks that generate different texts with partitioned weights, without ``synced_gpus``.

    Source: ``GenerationMixin.generate`` in ``transformers/generation/utils.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None or config.world_size == 1:
        return
    is_automatic = config.knowledge.stack_does("generation-is-synced-at-stage-3")
    release = config.knowledge.target["transformers"]
    for call in calls.generations:
        if call.is_switched_off:
            why, advice = " has `synced_gpus=False`", "Pass `synced_gpus=True`"
        elif not is_automatic:
            why = f" has no `synced_gpus`, which transformers {release} leaves off"
            advice = "Pass `synced_gpus=True`"
        elif call.is_known is False:
            why = " has no `synced_gpus`, and transformers does not know of stage 3"
            advice = "Pass `synced_gpus=True`, or make an `HfDeepSpeedConfig` before the model"
        else:
            continue
        yield Problem(
            _STAGE,
            stage.value.span,
            f"`{call.function}`{why}: the run hangs once a rank has its text",
            RISK,
            help=f"{advice}. The ranks generate texts of different lengths, and each token gathers weights from all "
            "ranks.",
            label="weights are on all ranks",
            related=_related(config, call.place, "ranks do not wait for each other"),
        )


def _makes(function: str) -> str:
    """What a function does to make a model."""
    return "loads" if function.endswith("from_pretrained") else "builds"


@rule("DS867", "device-of-global-rank", severity="error", effects=("risk",), keys=(), elsewhere=True)
def device_of_global_rank(config: Config) -> Iterator[Problem]:
    """The number of a rank among all, taken for that of a GPU of its node.

    Source: ``main`` in ``deepspeed/launcher/launch.py``, which counts RANK through all nodes.
    """
    calls, launch, nodes = _calls(config), config.facts.launch, config.facts.nodes
    first = next(iter(config.root.members), None)
    if calls is None or launch is None or calls.device is None or nodes is None or nodes < 2 or first is None:
        return
    device, processes, gpus = calls.device, launch.launch.processes_per_node, launch.launch.surroundings.gpus
    if processes == 1 or (gpus is not None and processes is not None and gpus.number > processes):
        return  # the second node may have a GPU of that number
    is_whole_node = gpus is not None or (processes or 0) >= _GPUS_OF_NODE or launch.launch.launcher == "deepspeed"
    stage = config.member(*_STAGE)
    yield Problem(
        _STAGE if stage is not None else None,
        stage.value.span if stage is not None else first.key_span,
        f"`{device.function}` takes GPU `{device.rank}` on {nodes} nodes: "
        + ("a rank of the second has none" if is_whole_node else "a rank of the second may have none")
        + " of that number",
        RISK,
        help='Use `int(os.environ["LOCAL_RANK"])`, which every launcher sets. The ranks of the second node '
        + (f"begin with {processes}" if processes is not None else "count on from the first")
        + ", its GPUs with 0, and CUDA raises for an invalid device ordinal.",
        label=f"{nodes} nodes",
        severity=None if is_whole_node else "warning",
        related=_related(config, device.place, "takes the GPU of the global rank"),
    )


@rule(
    "DS863",
    "shape-of-partitioned-parameter",
    severity="warning",
    effects=("wrong-result",),
    keys=(ZERO,),
    elsewhere=True,
)
def shape_of_partitioned_parameter(config: Config) -> Iterator[Problem]:
    """A shape, or a number of elements, of a parameter that is partitioned, and has none.

    Source: ``free_param`` in ``deepspeed/runtime/zero/partition_parameters.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    if calls is None or stage is None or config.world_size == 1 or calls.quantized:
        return
    for read in calls.shapes:
        if read.is_by_build and _builds_whole_models(config):
            continue
        yield Problem(
            _STAGE,
            stage.value.span,
            f"`{read.code}` "
            + (
                "counts none of the partitioned parameters"
                if read.is_count
                else "is empty: the parameter is partitioned"
            ),
            WRONG_RESULT,
            help=(
                'Count `getattr(p, "ds_numel", p.numel())` of each parameter.'
                if read.is_count
                else "Take the size from the config of the model, from `weight.ds_shape`, or inside "
                "`deepspeed.zero.GatheredParameters`."
            )
            + " At stage 3 a partitioned parameter holds an empty tensor.",
            label="partitions the weights",
            severity="info" if read.is_shown else None,
            related=_related(config, read.place, "0 elements"),
        )


@rule("DS865", "model-compiled-before-engine", severity="error", effects=("rejected",), keys=(ZERO,), elsewhere=True)
def model_compiled_before_engine(config: Config) -> Iterator[Problem]:
    """``deepspeed.initialize`` gets what ``torch.compile`` returns, at stage 3.

    Source: ``_forward_prologue`` in ``deepspeed/runtime/engine.py`` marks the parameters of each module, and those of
    the wrapper of torch are another dict: ``OptimizedModule.__setattr__`` in ``torch/_dynamo/eval_frame.py``.
    """
    calls, stage = _calls(config), _stage_3(config)
    compiled = calls.compiled if calls is not None else None
    if compiled is None or stage is None or not config.knowledge.does("forward-marks-parameters-of-every-module"):
        return
    pin = config.basis.pins.get("torch")
    if pin is not None and allowed(pin.specifier, _LAST_WITHOUT_FORWARDING):
        return
    yield Problem(
        _STAGE,
        stage.value.span,
        f"`deepspeed.initialize`, {_at(config, compiled.engine_place)}, gets the model of `torch.compile`: "
        "the first forward pass raises at stage 3",
        {"deepspeed": rejected("train")},
        help="Give `deepspeed.initialize` the model itself, and call `engine.compile()` after it. DeepSpeed raises an "
        "AttributeError for `_in_forward`.",
        label="partitions the weights",
        related=[
            *_related(config, compiled.place, "compiled here"),
            *_related(config, compiled.engine_place, "given to the engine"),
        ],
    )


def _calls(config: Config) -> ScriptCalls | None:
    """What the script does that the launch starts."""
    launch = config.facts.launch
    return launch.script.calls if launch is not None and launch.script is not None and launch.stack else None


def _early(config: Config) -> EarlyPartition | None:
    """What builds the model by a config that the script hands over itself, if it is this config."""
    calls = _calls(config)
    early = calls.early if calls is not None else None
    if early is None or not early.config.is_known or (early.is_by_transformers and _stage_3(config) is None):
        return None
    path = early.config.path
    return early if path is None or path.rpartition("/")[2] == config.document.path.rpartition("/")[2] else None


def _is_auto(config: Config, name: str) -> bool:
    node = config.written.at((name,))
    return node is not None and node.value == AUTO


def _size_in_file(config: Config, name: str) -> int | None:
    node = config.written.at((name,))
    return node.value if node is not None and type(node.value) is int else None


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
