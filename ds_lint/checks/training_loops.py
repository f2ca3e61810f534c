"""Rules about the loop in which a script calls the engine itself, against what the engine does by the config."""

from __future__ import annotations

from ds_lint.diagnostics.problem import OVERRIDDEN, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.script_values import script_value
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.features import zero_stage
from ds_lint.semantics.preparation import prepare
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Related
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.training_loop import ClipCall, LoopNumber, RareStep, TrainingLoop
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_PARTITIONS_GRADIENTS = 2  # the first stage that does
_ENDINGS = {2: "nd", 3: "rd"}
STEPS, CLIPPING = "gradient_accumulation_steps", "gradient_clipping"


@rule("DS860", "accumulation-steps-overruled", severity="error", effects=("overridden",), keys=(), elsewhere=True)
def accumulation_steps_overruled(config: Config) -> Iterator[Problem]:
    """``Accelerator`` gets another ``gradient_accumulation_steps`` than the config has, which counts.

    Source: ``_prepare_deepspeed`` in ``accelerate/accelerator.py``.
    """
    loop, launch = _loop(config), config.facts.launch
    number = loop.accumulation if loop is not None else None
    if number is None or launch is None or config.stack != "accelerate":
        return
    wanted, steps = _value(config, number), _configured(config)
    if wanted is None or steps is None or wanted <= 1 or wanted == steps:
        return
    path, span = _key(config, STEPS)
    is_there = config.member(STEPS) is not None
    yield Problem(
        path,
        span,
        (
            f"`{STEPS}` {steps} of the config wins over"
            if is_there
            else f"Accelerate adds `{STEPS}` {steps} to the config, which wins over"
        )
        + f" the {wanted:g} of `Accelerator(...)`",
        {"accelerate": OVERRIDDEN},
        help=f"{_how_to_leave_it(config)}, or set it to {wanted:g}. "
        f"Until then, an update has the gradients of {steps} and not of {wanted:g} batches.",
        label="wins" if is_there else f"no `{STEPS}`",
        related=launch.related(number.place, "has no effect"),
        subject=wanted,
    )


@rule(
    "DS861", "batches-not-accumulated", severity="error", effects=("wrong-result", "rejected"), keys=(), elsewhere=True
)
def batches_not_accumulated(config: Config) -> Iterator[Problem]:
    """A loop that lets the engine update at other batches than the config says.

    Sources: ``DeepSpeedEngineWrapper.backward`` in ``accelerate/utils/deepspeed.py``, and ``step`` and
    ``is_gradient_accumulation_boundary`` in ``deepspeed/runtime/engine.py``, which counts the calls of ``step``.
    """
    loop, launch, steps = _loop(config), config.facts.launch, _steps(config)
    if loop is None or launch is None or loop.backward is None:
        return
    if config.knowledge.does("the-engine-has-no-sync"):
        yield from _refused_no_sync(config, loop, launch)
    if loop.may_accumulate or steps is None:
        return
    if config.stack == "accelerate":
        yield from _updates_of_accelerate(config, loop, launch, steps)
    elif config.stack == "deepspeed" and loop.step is not None:
        yield from _updates_of_engine(config, loop.step, launch, steps)


def _updates_of_accelerate(config: Config, loop: TrainingLoop, launch: LaunchFacts, steps: int) -> Iterator[Problem]:
    """Accelerate's optimizer does nothing in ``step``: the engine steps in ``accelerator.backward``."""
    backward, rare = loop.backward, loop.step
    assert backward is not None  # noqa: S101 - the rule has looked
    if steps > 1 and config.knowledge.stack_does("accelerate-sets-the-boundary"):
        message = f"`{backward.function}` runs outside of `accelerator.accumulate`: "
        message += f"each batch is an update, with its gradient divided by {steps}"
        advice = f"Put the batch inside `with accelerator.accumulate(model):`, or set `{STEPS}` to 1. Accelerate steps "
        advice += "at every batch for which nothing says otherwise, and DeepSpeed still divides."
        yield _other_updates(config, message, advice, launch.related(backward.place, "updates the weights"))
        return
    wanted = _value(config, rare.number) if rare is not None and rare.number is not None else None
    if rare is None or wanted is None or wanted <= 1 or steps != 1:
        return
    message = f"`{rare.function}` every {wanted:g} batches does nothing: "
    message += f"`{backward.function}` updates the weights after each batch"
    advice = f"{_how_to_leave_it(config)}, pass {wanted:g} to `Accelerator`, and use `accelerator.accumulate(model)` "
    advice += "in place of the condition."
    yield _other_updates(config, message, advice, launch.related(rare.place, "does nothing with DeepSpeed"))


def _updates_of_engine(config: Config, rare: RareStep, launch: LaunchFacts, steps: int) -> Iterator[Problem]:
    advice = f"Call `{rare.function}` after each batch: the engine counts the calls, and updates the weights at the "
    advice += "last of them."
    if rare.number is None:
        if steps > 1:
            message = f"`{rare.function}` waits for a boundary that it has to count: the weights never change"
            yield _other_updates(config, message, advice, launch.related(rare.place, "never called"))
        return
    wanted = _value(config, rare.number)
    if wanted is None or wanted <= 1:
        return
    related = launch.related(rare.place, "one of many batches")
    if steps > 1:
        message = f"`{rare.function}` is called once in {wanted:g} batches, and updates the weights at every "
        message += f"{steps}{_ENDINGS.get(steps, 'th')} call: once in {wanted * steps:g} batches"
        yield _other_updates(config, message, advice, related)
    elif zero_stage(config) in (1, 2) and config.knowledge.does("gradients-between-steps-are-lost"):
        message = f"`{rare.function}` is called once in {wanted:g} batches, but `{STEPS}` is 1: "
        message += "the gradients of all other batches are lost"
        advice = f"Set `{STEPS}` to {wanted:g}, and call `{rare.function}` after each batch. The engine divides the "
        advice += "loss itself."
        yield _other_updates(config, message, advice, related)


def _refused_no_sync(config: Config, loop: TrainingLoop, launch: LaunchFacts) -> Iterator[Problem]:
    """``no_sync`` of the engine, which older releases of Accelerate enter in ``accumulate``.

    Sources: ``no_sync`` and ``step`` in ``deepspeed/runtime/engine.py``.
    """
    stage, first = zero_stage(config) or 0, next(iter(config.root.members), None)
    call = loop.no_sync if config.stack == "deepspeed" else None
    why, advice = "ZeRO partitions the gradients of each batch", "Delete it: the engine adds up gradients itself."
    if config.stack == "accelerate" and config.world_size != 1:
        counted = _counted(config, loop)
        enters = config.knowledge.stack_does("accumulate-enters-no-sync")
        call = loop.accumulate if enters and counted is not None and counted > 1 else None
        why = f"accelerate {config.knowledge.target['accelerate']} enters `no_sync` of the engine"
        advice = "Upgrade accelerate, which does without it in newer releases."
    is_partitioned = stage >= _PARTITIONS_GRADIENTS
    steps_inside = config.stack == "accelerate" and not config.knowledge.stack_does("accelerate-sets-the-boundary")
    if call is None or first is None or not (is_partitioned or steps_inside):
        return
    yield Problem(
        None,
        first.key_span,
        f"`{call.function}` raises an AssertionError at stage {stage}: {why}",
        {config.stack or "deepspeed": rejected("train")},
        help=advice,
        label="does not work with `no_sync`",
        related=launch.related(call.place, "enters `no_sync`"),
    )


def _other_updates(config: Config, message: str, advice: str, related: list[Related]) -> Problem:
    path, span = _key(config, STEPS)
    steps = _steps(config)
    label = "each batch is an update" if steps == 1 else f"{steps} batches for an update"
    outcomes = {config.stack or "deepspeed": WRONG_RESULT}
    return Problem(path, span, message, outcomes, help=advice, label=label, related=related)


@rule("DS862", "loss-divided-twice", severity="error", effects=("wrong-result",), keys=(), elsewhere=True)
def loss_divided_twice(config: Config) -> Iterator[Problem]:
    """The script divides the loss by the number of steps that the engine divides it by, too.

    Source: ``backward`` in ``deepspeed/runtime/engine.py``.
    """
    loop, launch, steps = _loop(config), config.facts.launch, _steps(config)
    if loop is None or launch is None or loop.backward is None or loop.divisor is None or steps is None or steps == 1:
        return
    divisor = _value(config, loop.divisor)
    if divisor is None or divisor <= 1 or config.stack not in ("deepspeed", "accelerate"):
        return
    path, span = _key(config, STEPS)
    yield Problem(
        path,
        span,
        f"the script divides the loss by {divisor:g}, and `{loop.backward.function}` "
        f"divides it by {steps}: gradients are {divisor:g} times too small",
        {config.stack: WRONG_RESULT},
        help=f"Do not divide the loss: DeepSpeed divides it by `{STEPS}`.",
        label=f"divides by {steps}",
        related=launch.related(loop.divisor.place, "divides first"),
    )


@rule(
    "DS873",
    "clipping-left-to-config",
    severity="warning",
    effects=("wrong-result", "rejected"),
    keys=(),
    elsewhere=True,
)
def clipping_left_to_config(config: Config) -> Iterator[Problem]:
    """The script clips gradients, but the engine has them, and clips at ``gradient_clipping``.

    Sources: ``clip_grad_norm_`` in ``accelerate/accelerator.py``, which returns the norm that the engine has found,
    and ``step`` of the optimizers of ZeRO, which have taken the gradients from the parameters.
    """
    loop, launch, stack = _loop(config), config.facts.launch, config.stack
    if loop is None or launch is None or stack not in ("deepspeed", "accelerate"):
        return
    limit = _clipping(config)
    for clip in loop.clips:
        is_by_value = clip.function.endswith("value_")
        is_ignored = clip.is_by_torch and (stack == "accelerate" or bool(zero_stage(config)))
        wanted = _value(config, clip.limit)
        if wanted is None or wanted <= 0 or not all(_may_hold(config, *condition) for condition in clip.conditions):
            continue
        if stack == "accelerate" and is_by_value and not clip.is_by_torch:
            yield _clip(config, clip, launch, "raises: DeepSpeed clips by the norm alone", rejected("train"))
        elif (is_ignored or stack == "accelerate") and limit is not None and (wanted != limit or is_by_value):
            how = f"clips at the norm {limit:g}" if limit else "does not clip"
            yield _clip(config, clip, launch, f"does not clip at {wanted:g}: the engine {how}", WRONG_RESULT)


def _clip(config: Config, clip: ClipCall, launch: LaunchFacts, happens: str, outcome: Outcome) -> Problem:
    path, span = _key(config, CLIPPING)
    limit, wanted = _clipping(config), _value(config, clip.limit)
    is_by_norm = not clip.function.endswith("value_")
    return Problem(
        path,
        span,
        f"`{clip.function}` {happens}",
        {config.stack or "deepspeed": outcome},
        help=(f"Set `{CLIPPING}` to {wanted:g}, and delete" if is_by_norm else f"Set `{CLIPPING}`, and delete")
        + " the call. "
        + (
            "The parameters have no gradients when it runs."
            if clip.is_by_torch
            else "With DeepSpeed, `clip_grad_norm_` returns the norm of the gradients, or None."
        ),
        label=f"clips at {limit:g}" if limit else "no clipping",
        severity="error" if outcome.effect == "rejected" else None,
        related=launch.related(clip.place, "has no effect" if outcome is WRONG_RESULT else "raises"),
        subject=(clip.function, wanted),
    )


@rule("DS874", "backward-of-torch", severity="error", effects=("wrong-result", "rejected"), keys=(), elsewhere=True)
def backward_of_torch(config: Config) -> Iterator[Problem]:
    """``loss.backward()`` where the engine has to make the gradients.

    Sources: ``DeepSpeedEngineWrapper.backward`` in ``accelerate/utils/deepspeed.py``, which alone steps, and
    ``_backward_prologue`` in ``deepspeed/runtime/engine.py``.
    """
    loop, launch, stack = _loop(config), config.facts.launch, config.stack
    bare = loop.bare if loop is not None else None
    first = next(iter(config.root.members), None)
    if bare is None or launch is None or first is None or stack not in ("deepspeed", "accelerate"):
        return
    raises = zero_stage(config) == 0 and config.knowledge.does("backward-of-torch-needs-zero")
    if stack == "deepspeed" and not raises:
        return
    instead = "accelerator.backward(loss)" if stack == "accelerate" else "engine.backward(loss)"
    happens = "raises a RuntimeError at stage 0" if raises else "never lets the engine step: the weights do not change"
    outcome: Outcome = rejected("train") if raises else WRONG_RESULT
    yield Problem(
        None,
        first.key_span,
        f"`{bare.function}()` {happens}",
        {stack: outcome},
        help=f"Call `{instead}`."
        + (" Accelerate's `optimizer.step()` does nothing with DeepSpeed." if stack == "accelerate" else ""),
        label="trains with DeepSpeed",
        related=launch.related(bare.place, "not seen by the engine"),
    )


@rule("DS875", "several-models-prepared", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def several_models_prepared(config: Config) -> Iterator[Problem]:
    """``accelerator.prepare`` gets several models, of which it can make one engine.

    Source: ``prepare`` in ``accelerate/accelerator.py``.
    """
    launch, first = config.facts.launch, next(iter(config.root.members), None)
    script = launch.script if launch is not None else None
    if launch is None or script is None or first is None or config.stack != "accelerate":
        return
    for call in script.calls.prepared:
        if call.models > 1 and not call.is_conditional:
            yield Problem(
                None,
                first.key_span,
                f"`{call.function}` gets {call.models} models: with DeepSpeed it raises an AssertionError",
                {"accelerate": rejected("initialize")},
                help="Prepare one model with its optimizer. Train others with a plugin and an `Accelerator` of their "
                "own, and do not prepare what is not trained, or make one module of all.",
                label="makes one engine",
                related=launch.related(call.place, f"gets {call.models} models"),
            )
            return


# ------------------------------------------------------------------------------------------------------------- values


def _loop(config: Config) -> TrainingLoop | None:
    launch = config.facts.launch
    return launch.script.calls.loop if launch is not None and launch.script is not None and launch.stack else None


def _value(config: Config, number: LoopNumber) -> float | None:
    """A number of the loop under the launch; None if it is unknown."""
    launch = config.facts.launch
    if launch is None:
        return None
    if number.is_of_engine:
        return _steps(config)
    found = script_value(number.expression, launch.launch, launch.script)
    if isinstance(found, str) and found.isdecimal():
        found = int(found)  # of an option that is declared elsewhere
    return found if type(found) in (int, float) else None


def _may_hold(config: Config, expression: str, wanted: bool) -> bool:
    """Whether a condition of the script may be as a call needs it."""
    launch = config.facts.launch
    found = script_value(expression, launch.launch, launch.script) if launch is not None else UNKNOWN
    return found is UNKNOWN or bool(found) is wanted


def _configured(config: Config) -> int | None:
    """The steps that the config says whatever the script says; None if the script decides, or that is unknown."""
    if config.stack == "accelerate":
        value = prepare(config).value(STEPS) if config.knowledge.stack_does("the-config-decides-the-steps") else None
    else:
        node = config.node(STEPS)
        is_one = node is None and config.node("train_batch_size") is None
        value = 1 if is_one else node.value if node is not None else None
    return value if type(value) is int and value > 0 else None


def _steps(config: Config) -> int | None:
    """The batches of an update, as the engine counts and divides."""
    steps, loop, node = _configured(config), _loop(config), config.node(STEPS)
    is_left = config.stack == "accelerate" and (node is None or node.value == AUTO)
    if steps is not None or not is_left or loop is None or loop.accumulation is None:
        return steps
    launch = config.facts.launch
    given = script_value(loop.accumulation.expression, launch.launch, launch.script) if launch is not None else None
    return given if type(given) is int and given > 0 else None


def _counted(config: Config, loop: TrainingLoop) -> float | None:
    """The batches of an update as Accelerate counts them, which older releases do apart from the engine."""
    if config.knowledge.stack_does("accelerate-sets-the-boundary"):
        return _steps(config)
    node = config.node(STEPS)
    if config.accelerate is not None and node is not None and type(node.value) is int:
        return node.value  # by way of a variable of the environment
    return _value(config, loop.accumulation) if loop.accumulation is not None else None


def _clipping(config: Config) -> float | None:
    """The norm at which the engine clips; 0 if it does not."""
    value = prepare(config).value(CLIPPING) if config.stack == "accelerate" else config.value(CLIPPING)
    if value is None and config.node(CLIPPING) is None:
        key = config.knowledge.find((CLIPPING,))
        value = key.facts.get("default") if key is not None else None
    return value if isinstance(value, (int, float)) else None


def _how_to_leave_it(config: Config) -> str:
    """How the steps are left to the script: the settings of Accelerate's own have no "auto"."""
    if config.accelerate is not None or config.call is not None:
        return f"Delete `{STEPS}`, which leaves it to the script"
    return f'Set `{STEPS}` to "auto", which leaves it to the script'


def _key(config: Config, name: str) -> tuple[KeyPath, Span]:
    """A key of the config; where it is missing, the place where it would be."""
    member = config.member(name)
    return (name,), member.value.span if member is not None else config.opening
