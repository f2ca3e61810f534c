"""Rules about batch sizes: micro batch x gradient accumulation x world size (DS51x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.batch import MICRO, STEPS, TRAIN, completed, data_parallel_size, sequence_parallel_ranks
from ds_lint.source.spelling import AUTO

_NEEDS_LOADER = "requires you to pass at least one of training or evaluation dataloaders"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.diagnostics.finding import Fix, Stack
    from ds_lint.semantics.config import Config


@rule("DS511", "batch-size-missing", severity="error", effects=("rejected",))
def batch_size_missing(config: Config) -> Iterator[Problem]:
    """A config without a batch size; DeepSpeed needs one of two keys."""
    if config.is_excerpt:
        return
    if _given(config, TRAIN) is None and _given(config, MICRO) is None:
        steps = config.member(STEPS)
        yield Problem(
            (STEPS,) if steps else None,
            steps.key_span if steps else config.opening,
            f"neither `{TRAIN}` nor `{MICRO}` is set, but DeepSpeed needs one of them",
            rejected("parse"),
            help=f'Add "{MICRO}": 1, or "auto" if the Trainer or Accelerate loads the file.',
            label="no batch size",
            fix=edits.set_to_auto(config, (MICRO,), "safe" if config.stack == "trainer" else "unsafe"),
        )
    elif _given(config, MICRO) is None and config.stack in ("trainer", "accelerate") and _is_multiplied(config):
        total = config.member(TRAIN)
        yield Problem(
            (MICRO,),
            total.key_span if total else config.opening,
            f"`{MICRO}` is not set, but accelerate {config.knowledge.target['accelerate']} multiplies by it: "
            "accelerator.prepare raises",
            rejected("initialize"),
            help=f'Add "{MICRO}": "auto".',
            label=f"no `{MICRO}`",
            fix=edits.set_to_auto(config, (MICRO,), "unsafe"),
        )
    elif config.stack == "accelerate" and _given(config, MICRO) == AUTO:
        yield from _auto_without_loader(config)


def _auto_without_loader(config: Config) -> Iterator[Problem]:
    """An "auto" that ``accelerator.prepare`` cannot take from a loader of data that it gets.

    The first call with anything but loaders makes the numbers; one of loaders alone does not.
    Source: ``_prepare_deepspeed`` in ``accelerate/accelerator.py``.
    """
    launch, member = config.facts.launch, config.member(MICRO)
    script = launch.script if launch is not None else None
    calls = [call for call in script.calls.prepared if not call.has_loaders_alone] if script is not None else []
    refusals = config.knowledge.table("accelerate", "refusals")
    if launch is None or not calls or not any(_NEEDS_LOADER in message for message in refusals):
        return
    first = calls[0]
    if first.is_conditional or not (first.has_no_loader or first.sizeless):
        return
    span = member.value.span if member is not None else config.opening
    if first.sizeless is None:
        why, place = f"`{first.function}`, {launch.at(first.place)}, gets no loader of data", first.place
        label, raising = "no loader of data", "it raises"
    else:
        why, place = f"the DataLoader of {launch.at(first.sizeless)} has no batch size", first.sizeless
        label, raising = "no batch size", "accelerator.prepare raises"
    yield Problem(
        (MICRO,),
        span,
        f'`{MICRO}` is "auto", but {why}: {raising} a ValueError',
        {"accelerate": rejected("initialize")},
        help=f"Pass the DataLoader to the same call as the model, with a `batch_size`, or set `{MICRO}` to a number "
        "in a DeepSpeed config.",
        label="nothing fills it in",
        related=launch.related(place, label),
    )


def _is_multiplied(config: Config) -> bool:
    """Whether Accelerate prepares the engine and multiplies by a micro batch size that is not set."""
    if config.stack == "accelerate" and _given(config, TRAIN) == AUTO:
        return False  # total-batch-size-alone
    requires = config.knowledge.table("transformers", "requires")
    prepares = config.stack == "accelerate" or requires["accelerate"]["prepares"]
    return prepares and config.knowledge.stack_does("micro-batch-size-is-multiplied-unasked")


@rule("DS512", "batch-arithmetic", severity="error", effects=("rejected",))
def batch_arithmetic(config: Config) -> Iterator[Problem]:
    """Batch sizes whose product is wrong, or that are not numbers."""
    given = [_given(config, name) for name in (TRAIN, MICRO, STEPS)]
    if given[0] is None and given[1] is None:
        return  # batch-size-missing
    if AUTO in given or any(_is_template(config, name) for name in (TRAIN, MICRO, STEPS)):
        return  # filled from the TrainingArguments, or auto-without-trainer
    outcomes: dict[Stack, Outcome] = {}
    complaint = ""
    for stack in config.stacks:
        found = _complaint(config, stack, given)
        if found:
            outcomes[stack] = rejected("parse")
            complaint = found
    if not outcomes:
        return
    members = [member for name in (TRAIN, MICRO, STEPS) if (member := config.member(name)) is not None]
    first, *others = sorted(members, key=lambda member: 0 if _is_number(member.value.value) is False else 1)
    yield Problem(
        (first.key,),
        first.value.span,
        complaint,
        outcomes,
        help=f"Set `{MICRO}` and `{STEPS}`, and delete `{TRAIN}`: DeepSpeed computes it for any world size.",
        label="does not match" if _is_number(first.value.value) else "not a number",
        related=[Related(other.value.span, other.key) for other in others],
        fix=_without_total(config),
    )


def _without_total(config: Config) -> Fix | None:
    """Let DeepSpeed compute the product, if the factors are numbers."""
    if _given(config, MICRO) is None or not all(_usable(_given(config, name)) for name in (MICRO, STEPS)):
        return None
    return edits.deletion(config, (TRAIN,), "unsafe")


def _given(config: Config, name: str) -> object:
    node = config.node(name)
    if node is None or node.kind == "null":
        return None
    return node.value if node.kind not in ("object", "array") else node


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float))


def _usable(size: object) -> bool:
    return size is None or (_is_number(size) and size != 0)


def _complaint(config: Config, stack: Stack, given: list[object]) -> str | None:
    """What is wrong in DeepSpeed's arithmetic; None if the known world size, or else any world size, satisfies it."""
    train, micro, steps = given
    written = tuple(given)
    if stack != "deepspeed" and steps is None:
        steps = 1  # Accelerate inserts it
    from_file = config.from_file and stack == "deepspeed"
    ranks = sequence_parallel_ranks(config, from_file=from_file)
    launch = config.facts.launch
    counted = config.world_size
    if launch is not None and launch.splits_model:
        from ds_lint.facts.megatron import ranks_that_count  # few launches split the model

        counted = ranks_that_count(launch)
    world = counted or _world_to_try(train, micro, steps, ranks or 1)
    complaint = multiply(train, micro, steps, data_parallel_size(config, world, from_file=from_file))
    if complaint and counted is None and all(_usable(size) or size == 0 for size in written):
        complaint = _for_any_number_of_ranks(*written)
    return (
        f"{complaint} ({ranks} ranks share a sequence and count as one)"
        if complaint and (ranks or 1) > 1
        else complaint
    )


def _for_any_number_of_ranks(train: Any, micro: Any, steps: Any) -> str:
    """What is wrong with sizes that no world size satisfies, without the world size that was tried."""
    for name, size in ((TRAIN, train), (MICRO, micro), (STEPS, steps)):
        if size is not None and not size > 0:
            return f"`{name}` is {size}, but DeepSpeed needs a value above 0"
    if micro is None and steps is None:
        return f"`{TRAIN}` is {train}, but DeepSpeed needs a whole number that it can split over the ranks"
    samples = "micro batch" if micro is None else f"{micro} per GPU"
    return f"no world size satisfies `{TRAIN}` {train} = {samples} x {_counted_steps(steps)} x ranks"


def _counted_steps(steps: Any) -> str:
    if steps is None:
        return "accumulation steps"
    return f"{steps} accumulation step{'' if steps == 1 else 's'}"


def _is_template(config: Config, name: str) -> bool:
    node = config.node(name)
    return node is not None and node.kind == "template"


def _world_to_try(train: object, micro: object, steps: object, ranks: float) -> int:
    """1 satisfies all sizes that can be satisfied, except three given sizes, which fit only one world size."""
    if _is_number(train) and _is_number(micro) and _is_number(steps) and micro * steps:  # type: ignore[operator]
        try:
            world = train * ranks / (micro * steps)  # type: ignore[operator]
        except OverflowError:  # of integers that are too large for a float
            return 1
        if world >= 1 and float(world).is_integer():
            return int(world)
    return 1


def multiply(train: Any, micro: Any, steps: Any, world: float) -> str | None:
    """DeepSpeed's arithmetic on the sizes as written: what is wrong, or None.

    Source: ``_set_batch_related_parameters`` and ``_batch_assertion`` in ``deepspeed/runtime/config.py``.
    """
    given = (train, micro, steps)
    try:
        train, micro, steps = completed(train, micro, steps, world)
        for name, size, written in zip((TRAIN, MICRO, STEPS), (train, micro, steps), given, strict=True):
            if not size > 0:
                comes = "is" if size == written else "comes out as"
                return f"`{name}` {comes} {size}, but DeepSpeed needs a value above 0"
        product = micro * steps * world
        if train != product:
            factors = f"{micro} per GPU x {_counted_steps(steps)} x {world:g} rank{'' if world == 1 else 's'}"
            return f"`{TRAIN}` is {train}, but {factors} = {str(product).removesuffix('.0')}"
    except (TypeError, ArithmeticError, ValueError):
        wrong = [name for name, size in ((TRAIN, given[0]), (MICRO, given[1]), (STEPS, given[2])) if not _usable(size)]
        are = "is not a number" if len(wrong) == 1 else "are not numbers"
        return f"`{'` and `'.join(wrong)}` {are} that DeepSpeed can compute with"
    return None
