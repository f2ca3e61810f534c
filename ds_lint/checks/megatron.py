"""Rules about the options of Megatron-DeepSpeed, the config beside them, and pipelines (DS689 to DS692)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import OVERRIDDEN, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.megatron import builds_pipeline, megatron_arguments
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.batch import MICRO, STEPS, TRAIN
from ds_lint.semantics.constructors import offloads_optimizer
from ds_lint.semantics.features import is_on, is_truthy, zero_stage
from ds_lint.semantics.related import launched, place_of_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Related, Severity
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.megatron import MegatronArguments
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_ZERO, _CLIPPING = "zero_optimization", "gradient_clipping"
_STAGE = (_ZERO, "stage")
_SIZES = {"world_size": "ranks", "data_parallel_size": "data-parallel ranks"}  # not options


@rule("DS689", "megatron-refuses-options", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def megatron_refuses_options(config: Config) -> Iterator[Problem]:
    """Options of Megatron-DeepSpeed over which it raises before it builds the model.

    Sources: ``validate_args`` in ``megatron/arguments.py``, and ``megatron/microbatches.py``.
    """
    launch, arguments = _megatron(config)
    refusal = arguments.refusal if arguments is not None else None
    if launch is None or refusal is None:
        return
    why = refusal.message or (f"`{refusal.source}` is false" if refusal.source else "its options do not fit")
    shown = [text for name, value in refusal.looks_at.items() if (text := _shown(name, value))]
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"Megatron-DeepSpeed raises: {why}",
        rejected("initialize"),
        help=f"{refusal.raises} before the model is built." + (f" The run has {', '.join(shown)}." if shown else ""),
        label="refused",
        related=[launched(launch, "refused by Megatron-DeepSpeed")],
        subject=(refusal.message, refusal.source, tuple(shown)),
    )


@rule("DS690", "pipeline-with-partitioned-gradients", severity="error", effects=("rejected",), keys=(_ZERO,))
def pipeline_with_partitioned_gradients(config: Config) -> Iterator[Problem]:
    """ZeRO stage 2 or 3 with a pipeline; Megatron-DeepSpeed builds one by default, also of one stage.

    Sources: ``PipelineEngine.__init__`` in ``deepspeed/runtime/pipe/engine.py``, and ``model_provider`` in
    ``pretrain_gpt.py``.
    """
    launch, arguments = _megatron(config)
    stage, member = zero_stage(config), config.member(*_STAGE)
    if launch is None or member is None or stage not in (2, 3) or config.stack != "deepspeed":
        return
    made = launch.script.calls.pipeline if launch.script is not None else None
    advice, label = "Set `stage` to 1.", "not in a pipeline"
    if made is not None:
        whose, related = "the PipelineModule of the script", launch.related(made, "makes a pipeline")
    elif arguments is not None and _is_refused_pipeline(config, launch, arguments):
        whose, related = "the pipeline of Megatron-DeepSpeed", [launched(launch, "builds a pipeline")]
        if arguments.value("pipeline_model_parallel_size") == 1:
            advice, label = "Set `stage` to 1, or add `--no-pipeline-parallel` to the launch.", "needs another option"
        advice += " Without `--no-pipeline-parallel`, the model is a pipeline, also if it has one stage only."
    else:
        return
    yield Problem(
        _STAGE,
        member.value.span,
        f"ZeRO stage {stage} does not work with {whose}: deepspeed.initialize raises",
        rejected("initialize"),
        help=advice,
        label=label,
        related=related,
    )


@rule(
    "DS691",
    "megatron-option-against-config",
    severity="warning",
    effects=("overridden", "rejected", "risk", "wrong-result"),
    keys=(),
)
def megatron_option_against_config(config: Config) -> Iterator[Problem]:
    """An option of Megatron-DeepSpeed and a key of the config that say different things.

    Sources: ``train``, ``train_step`` and ``setup_model_and_optimizer`` in ``megatron/training.py``, ``model_provider``
    in ``pretrain_gpt.py``, and ``set_train_batch_size`` in ``deepspeed/runtime/engine.py``.
    """
    launch, arguments = _megatron(config)
    if launch is None or arguments is None or arguments.refusal is not None:
        return
    if not _is_refused_pipeline(config, launch, arguments):
        yield from _stage(config, launch, arguments)
    yield from _batch(config, launch, arguments)
    yield from _precision(config, launch, arguments)
    yield from _clipping(config, launch, arguments)
    yield from _optimizer(config, launch)


@rule("DS692", "megatron-optimizer-against-offload", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def megatron_optimizer_against_offload(config: Config) -> Iterator[Problem]:
    """The optimizer that Megatron-DeepSpeed passes, and offload: one is on the CPU and the other is not.

    Sources: ``get_megatron_optimizer`` in ``megatron/optimizer/__init__.py``, ``_configure_optimizer`` in
    ``deepspeed/runtime/engine.py``, and ``step`` in ``deepspeed/ops/adam/cpu_adam.py``.
    """
    launch, arguments = _megatron(config)
    if launch is None or arguments is None or arguments.refusal is not None:
        return
    of_cpu, of_torch = arguments.value("cpu_optimizer"), arguments.value("cpu_torch_adam")
    force = config.node("zero_force_ds_cpu_optimizer")
    is_forced = force is None or is_truthy(force)
    offloads = offloads_optimizer(config)
    key, span = place_of_launch(config)
    related = [launched(launch, "passes the optimizer")]
    if offloads and (of_cpu is False or of_torch is True):
        if not is_forced or not config.knowledge.knows(("zero_force_ds_cpu_optimizer",)):
            return
        what = "AdamW of torch" if of_cpu and of_torch is True else "an optimizer of the GPU"
        yield Problem(
            key,
            span,
            f"Megatron-DeepSpeed passes {what}, but offload needs DeepSpeedCPUAdam: deepspeed.initialize raises",
            rejected("initialize"),
            help="Add `--cpu-optimizer` to the launch."
            if of_cpu is False
            else "Delete `--cpu-torch-adam`, or set `zero_force_ds_cpu_optimizer` to false.",
            label="offloads the optimizer",
            related=related,
        )
    elif not offloads and of_cpu is True and of_torch is False and zero_stage(config) in (1, 2, 3):
        yield Problem(
            key,
            span,
            "`--cpu-optimizer` passes DeepSpeedCPUAdam, but the config does not offload: the first step raises",
            rejected("train"),
            help='Add `"offload_optimizer": {"device": "cpu"}` to `zero_optimization`, or delete `--cpu-optimizer`. '
            "DeepSpeedCPUAdam raises an AssertionError for parameters that are on a GPU.",
            label="no offload",
            related=related,
        )


def _megatron(config: Config) -> tuple[LaunchFacts | None, MegatronArguments | None]:
    launch = config.facts.launch
    if launch is None or config.stack != "deepspeed":
        return launch, None
    return launch, megatron_arguments(launch)


def _shown(name: str, value: object) -> str:
    """An argument as it is given; empty if it is not."""
    if name in _SIZES:
        return f"{value} {_SIZES[name]}"
    flag = f"`--{name.replace('_', '-')}"
    return "" if value is None or value is False else f"{flag}`" if value is True else f"{flag} {value}`"


def _is_refused_pipeline(config: Config, launch: LaunchFacts, arguments: MegatronArguments) -> bool:
    """Whether DeepSpeed gets a pipeline at a stage that it does not take one at."""
    is_pipeline = builds_pipeline(launch) and arguments.value("no_pipeline_parallel") is False
    return is_pipeline and zero_stage(config) in (2, 3) and arguments.refusal is None


def _given(launch: LaunchFacts, name: str, label: str) -> list[Related]:
    """The place of an option in the launch."""
    return launch.at_flag(name, label)[1]


def _problem(
    place: tuple[KeyPath, Span], message: str, outcome: Outcome, advice: str, label: str, related: list[Related]
) -> Problem:
    key, span = place
    severity: Severity | None = "error" if outcome.effect == "rejected" else None
    return Problem(key, span, message, outcome, help=advice, label=label, severity=severity, related=related)


def _place(config: Config, *path: str) -> tuple[KeyPath, Span] | None:
    member = config.member(*path)
    return None if member is None else (path, member.value.span)


def _stage(config: Config, launch: LaunchFacts, arguments: MegatronArguments) -> Iterator[Problem]:
    """``--zero-stage`` only decides whether the model is built with ``zero.Init``: DeepSpeed takes the config's."""
    written, stage = arguments.value("zero_stage"), zero_stage(config)
    place = _place(config, *_STAGE) or _place(config, _ZERO)
    if written is UNKNOWN or stage is None or place is None or written == stage or "zero_stage" not in arguments.given:
        return
    outcome: Outcome = OVERRIDDEN
    if written == 3:
        outcome = rejected("train")
        happens = f"the model is partitioned as it is built, and the first forward pass raises at stage {stage}"
    elif stage == 3:
        happens = "DeepSpeed trains with stage 3, and each GPU first holds the whole model"
    else:
        happens = f"DeepSpeed trains with stage {stage} of the config"
    yield _problem(
        place,
        f"`--zero-stage {written}` disagrees with the config: {happens}",
        outcome,
        f"Write `--zero-stage {stage}`, or set `stage` to {written}: DeepSpeed reads the config only.",
        f"stage {stage}",
        _given(launch, "zero_stage", f"stage {written}"),
    )


def _batch(config: Config, launch: LaunchFacts, arguments: MegatronArguments) -> Iterator[Problem]:
    """DeepSpeed divides by the micro-batches that it counts; the total is that of Megatron-DeepSpeed."""
    micro, total, ranks = (
        arguments.value(name) for name in ("micro_batch_size", "global_batch_size", "data_parallel_size")
    )
    train, of_config, steps = (config.value(name) for name in (TRAIN, MICRO, STEPS))
    if isinstance(ranks, int) and of_config is None and isinstance(train, int) and train > 0:
        of_config = train // ranks // steps if isinstance(steps, int) and steps > 0 else train // ranks
    place = _place(config, MICRO) or _place(config, TRAIN)
    if isinstance(micro, int) and isinstance(of_config, int) and of_config > 0 and micro != of_config and place:
        outcome: Outcome = WRONG_RESULT
        happens = "DeepSpeed counts other micro-batches than Megatron-DeepSpeed runs, and scales the gradients by them"
        if isinstance(total, int) and isinstance(ranks, int):
            if total % (of_config * ranks):
                outcome = rejected("train")
                happens = f"{total} is not a multiple of {of_config} on {ranks} ranks, so the first iteration raises"
            else:
                happens = f"DeepSpeed counts {total // (of_config * ranks)} micro-batches a step, "
                happens += f"Megatron-DeepSpeed {total // (micro * ranks)}"
        yield _problem(
            place,
            f"`--micro-batch-size {micro}` disagrees with {of_config} of the config: {happens}",
            outcome,
            f"Set `{MICRO}` to {micro}.",
            f"{of_config} samples",
            _given(launch, "micro_batch_size", f"{micro} samples"),
        )
        return
    place = _place(config, TRAIN)
    counts = "global_batch_size" in arguments.given and arguments.sets_batch_size
    counts = counts and arguments.value("rampup_batch_size") is None
    if place and counts and isinstance(total, int) and isinstance(train, int) and total != train:
        yield _problem(
            place,
            f"`--global-batch-size {total}` overrides `{TRAIN}` {train}",
            OVERRIDDEN,
            f"Set `{TRAIN}` to {total}: Megatron-DeepSpeed sets the batch size of the engine in each iteration.",
            "not used",
            _given(launch, "global_batch_size", "counts"),
        )


def _precision(config: Config, launch: LaunchFacts, arguments: MegatronArguments) -> Iterator[Problem]:
    for name, other in (("fp16", "bf16"), ("bf16", "fp16")):
        place = _place(config, other, "enabled")
        if arguments.value(name) is True and place is not None and is_on(config, other, "enabled"):
            yield _problem(
                place,
                f"`--{name}` disagrees with the config: DeepSpeed casts the model to {_DTYPES[other]}, "
                f"while Megatron-DeepSpeed computes in {_DTYPES[name]}",
                RISK,
                f"Write `--{other}` instead of `--{name}`, or enable `{name}` in the config instead of `{other}`.",
                f"casts to {_DTYPES[other]}",
                _given(launch, name, f"builds the model in {_DTYPES[name]}"),
            )


_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}


def _clipping(config: Config, launch: LaunchFacts, arguments: MegatronArguments) -> Iterator[Problem]:
    """Only the optimizers of Megatron read ``--clip-grad``, and not those that it gives to DeepSpeed."""
    written, used, key = arguments.value("clip_grad"), config.value(_CLIPPING), config.knowledge.find((_CLIPPING,))
    if used is None and key is not None:
        used = key.facts.get("default")
    if "clip_grad" not in arguments.given or not isinstance(written, float) or not isinstance(used, (int, float)):
        return
    if written == used or isinstance(used, bool):
        return
    member = config.member(_CLIPPING)
    by_whom = "" if member is not None else " by default"
    happens = f"DeepSpeed clips at {used:g}{by_whom}" if used else f"DeepSpeed does not clip gradients{by_whom}"
    path: KeyPath | None = (_CLIPPING,) if member is not None else None
    yield Problem(
        path,
        member.value.span if member is not None else config.document_start,
        f"`--clip-grad {written:g}` has no effect: {happens}",
        OVERRIDDEN,
        help=f"Set `{_CLIPPING}` to {written:g} in the config.",
        label="counts" if member is not None else "its default counts",
        related=_given(launch, "clip_grad", "not used"),
    )


def _optimizer(config: Config, launch: LaunchFacts) -> Iterator[Problem]:
    """Megatron-DeepSpeed passes its own optimizer and scheduler to ``deepspeed.initialize``."""
    for section, options in (("optimizer", "`--optimizer`, `--lr`"), ("scheduler", "`--lr-decay-style`")):
        member = config.member(section)
        if member is None or config.value(section, "type") is None:
            continue
        yield Problem(
            (section,),
            member.key_span,
            f"DeepSpeed takes the {section} of Megatron-DeepSpeed, and ignores `{section}` of the config",
            OVERRIDDEN,
            help=f"Delete `{section}`: {options} and similar options make it.",
            label="not built",
            related=[launched(launch, f"makes its own {section}")],
        )
