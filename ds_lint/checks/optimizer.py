"""Rules about the optimizer and the scheduler that DeepSpeed builds from the config (DS50x)."""

from __future__ import annotations

from ds_lint.checks.values import as_wanted, nearest, rejects_auto, shown, unquoted
from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.knowledge.coercion import refusal
from ds_lint.semantics.constructors import (
    Constructor,
    brings_optimizer,
    brings_scheduler,
    has_no_optimizer,
    named_constructor,
    names_optimizer,
    offloads_optimizer,
    optimizer_constructor,
    optimizer_types,
    scheduler_constructor,
    with_passed_optimizer,
)
from ds_lint.semantics.features import is_on, is_truthy, model_dtype, number, number_of, zero_stage
from ds_lint.semantics.schedules import sets_the_rate
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Fix, Stack, Stage
    from ds_lint.knowledge.coercion import Expected
    from ds_lint.knowledge.records import ParameterFacts
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Member

# ZERO_SUPPORTED_OPTIMIZERS in deepspeed/runtime/zero/utils.py; a fidelity test compares the two.
ZERO_TESTED = frozenset(
    (
        "Adam",
        "AdamW",
        "Adagrad",
        "FusedAdam",
        "DeepSpeedCPUAdam",
        "ZenFlowCPUAdam",
        "DeepSpeedCPUAdagrad",
        "DeepSpeedCPULion",
        "FusedLion",
        "MuonWithAuxAdam",
    )
)


@rule("DS501", "unsupported-optimizer", severity="error", effects=("rejected",), keys=("optimizer",))
def unsupported_optimizer(config: Config) -> Iterator[Problem]:
    """An ``optimizer.type`` that neither DeepSpeed nor ``torch.optim`` has."""
    member = config.member("optimizer", "type")
    if member is None or member.value.kind != "string" or optimizer_constructor(config) is not None:
        return
    if brings_optimizer(config):
        return
    name = str(member.value.value)
    last_release = config.knowledge.last_release_of_type("optimizer.params", name.lower())
    arrival = config.knowledge.next_release_of_type("optimizer.params", name.lower())
    known = optimizer_types(config.knowledge) + list(config.knowledge.torch["optimizers"])
    yield Problem(
        ("optimizer", "type"),
        member.value.span,
        _why_there_is_none("optimizer", name, last_release, arrival),
        rejected("initialize"),
        help=_other_type("optimizer", name, known, "AdamW"),
        label=_age(last_release, arrival),
        fix=nearest(config, ("optimizer", "type"), name, known),
    )


@rule("DS502", "unsupported-scheduler", severity="error", effects=("rejected",), keys=("scheduler",))
def unsupported_scheduler(config: Config) -> Iterator[Problem]:
    """A ``scheduler.type`` that neither DeepSpeed nor ``torch.optim.lr_scheduler`` has."""
    member = config.member("scheduler", "type")
    if member is None or member.value.kind != "string" or scheduler_constructor(config) is not None:
        return
    if brings_scheduler(config):
        return
    name = str(member.value.value)
    known = config.knowledge.types("scheduler.params") + list(config.knowledge.torch["schedulers"])
    last_release = config.knowledge.last_release_of_type("scheduler.params", name)
    arrival = config.knowledge.next_release_of_type("scheduler.params", name)
    yield Problem(
        ("scheduler", "type"),
        member.value.span,
        _why_there_is_none("scheduler", name, last_release, arrival) + with_passed_optimizer(config),
        rejected("initialize"),
        help=_other_type("scheduler", name, known, "WarmupLR"),
        label=_age(last_release, arrival),
        fix=nearest(config, ("scheduler", "type"), name, known),
    )


@rule("DS503", "unknown-parameter", severity="error", effects=("rejected", "ignored"), keys=("optimizer", "scheduler"))
def unknown_parameter(config: Config) -> Iterator[Problem]:
    """Parameters that the constructor of the optimizer or scheduler does not have."""
    for section, constructor in _constructors(config):
        for member in _parameters(config, section):
            if constructor.knows(member.key):
                continue
            from ds_lint.knowledge import suggestions

            arrival = _arrival(config, section, member.key) if constructor.is_open else None
            meant = None if arrival else suggestions.choice(member.key, constructor.names())
            if constructor.is_open:
                outcome, consequence = IGNORED, "DeepSpeed silently ignores it"
            else:
                outcome = rejected("initialize")
                consequence = f"deepspeed.initialize raises{with_passed_optimizer(config)}"
            yield Problem(
                (section, "params", member.key),
                member.key_span,
                f"{constructor.name} has no parameter `{member.key}`"
                f"{f' before DeepSpeed {arrival}' if arrival else ''}: {consequence}",
                _but_auto(config, member, (section, "params", member.key), outcome),
                help=f"Upgrade to DeepSpeed {arrival}, or delete `{member.key}`."
                if arrival
                else _instead_of(member.key, meant),
                label=f"did you mean `{meant}`?" if meant else f"new in {arrival}" if arrival else "unknown parameter",
                fix=_as_meant(config, (section, "params", member.key), meant),
            )


def _arrival(config: Config, section: str, name: str) -> str | None:
    """The newer release that reads a parameter by name, as it does for Muon; None if an older one did."""
    path = (section, "params", name)
    return None if config.knowledge.last_release_of(path) else config.knowledge.next_release_of(path)


@rule("DS504", "refused-parameter", severity="error", effects=("rejected",), keys=("optimizer", "scheduler"))
def refused_parameter(config: Config) -> Iterator[Problem]:
    """Parameter values that the constructor or the first step rejects."""
    for section, constructor in _constructors(config):
        for member in _parameters(config, section):
            facts = constructor.facts(member.key)
            path = (section, "params", member.key)
            if facts is None or member.value.kind == "template" or _scheduler_overwrites(config, path, facts):
                continue
            if member.key in _OF_MOMENTUM and constructor.name == "OneCycle" and not _cycles_momentum(config):
                continue
            outcomes: dict[Stack, Outcome] = {}
            for reading in config.readings(member.value):
                wanted = refusal(facts, False, member.value, reading.kind, reading.value)
                if wanted:
                    stacks = [stack for stack in reading.stacks if stack == "deepspeed" or reading.value != AUTO]
                    stage = (
                        "initialize" if _meets_schedule(config, path, reading.kind) else _stage(config, section, facts)
                    )
                    outcomes.update((stack, rejected(stage)) for stack in stacks)
                    words = wanted
            if outcomes and not (member.value.value == AUTO and rejects_auto(config, stage)):  # auto-without-trainer
                yield Problem(
                    path,
                    member.value.span,
                    f"`{member.key}` of {constructor.name} must be {words}, got {shown(config, member.value)}: "
                    + ("deepspeed.initialize raises" if stage == "initialize" else "the first step raises")
                    + with_passed_optimizer(config),
                    outcomes,
                    help=_instead_of_value(member, words),
                    label=f"not {words}" if len(words.words) < 40 else "rejected",
                    fix=as_wanted(config, path, member.value, words),
                )


@rule("DS505", "missing-parameter", severity="error", effects=("rejected",), keys=("optimizer", "scheduler"))
def missing_parameter(config: Config) -> Iterator[Problem]:
    """Required parameters that the config does not set, or a scheduler without ``params``."""
    for section, constructor in _constructors(config):
        node = config.section(section)
        kind = node.member("type") if node else None
        if node is None or kind is None:
            continue
        params = node.get("params")
        if section == "scheduler" and params is None:
            missing = ["params"]
            message = "`scheduler.params` is missing, but DeepSpeed always reads it: deepspeed.initialize raises"
            message += with_passed_optimizer(config)
        else:
            given = {member.key for member in params.members} if params else set()
            missing = [name for name in constructor.required() if name not in given] or _lacking(
                config, section, constructor
            )
            message = f"{constructor.name} needs `{'`, `'.join(missing)}`: deepspeed.initialize raises"
            message += with_passed_optimizer(config)
        if missing:
            yield Problem(
                (section, "type"),
                kind.value.span,
                message,
                rejected("initialize"),
                help=f'Add "params": {{}} to `{section}`.' if missing == ["params"] else f"Add {_quoted(missing)}.",
                label=f"needs {_quoted(missing)}",
                fix=edits.written(config, (section, "params"), {}, "safe") if missing == ["params"] else None,
            )


@rule("DS506", "clipping-in-optimizer", severity="error", effects=("rejected",), keys=("optimizer",))
def clipping_in_optimizer(config: Config) -> Iterator[Problem]:
    """``max_grad_norm`` in ``optimizer.params``, which DeepSpeed rejects by name."""
    member = config.member("optimizer", "params", "max_grad_norm")
    if member is None or config.value("optimizer", "type") is None:
        return
    path = ("optimizer", "params", "max_grad_norm")
    broken = member.value.kind not in ("integer", "float", "boolean")
    if not broken and not names_optimizer(config):
        return
    yield Problem(
        path,
        member.key_span,
        "DeepSpeed rejects `max_grad_norm` in `optimizer.params`: "
        + ("DeepSpeedConfig raises" if broken else "deepspeed.initialize raises"),
        rejected("parse" if broken else "initialize"),
        help="Delete it, and set `gradient_clipping` at the top level.",
        label="belongs to `gradient_clipping`",
        fix=edits.moving(config, path, ("gradient_clipping",), "safe") or edits.deletion(config, path, "unsafe"),
    )


def _lacking(config: Config, section: str, constructor: Constructor) -> list[str]:
    """The first of the alternatives that a constructor needs, if the config has none of them."""
    alternatives: list[list[str]] = constructor.as_a_whole.get("needs", [])
    for names in alternatives:
        nodes = [config.node(section, "params", name) for name in names]
        if all(node is not None and node.kind != "null" for node in nodes):
            return []
    return alternatives[0] if alternatives else []


@rule("DS529", "unusable-type", severity="error", effects=("rejected",), keys=("optimizer", "scheduler"))
def unusable_type(config: Config) -> Iterator[Problem]:
    """Optimizers and schedulers of torch that DeepSpeed finds by name but cannot use with any parameters."""
    for section, constructor in _constructors(config):
        member = config.member(section, "type")
        never = constructor.as_a_whole.get("never")
        if member is None or never is None:
            continue
        stage = _stage(config, section, constructor.as_a_whole)
        yield Problem(
            (section, "type"),
            member.value.span,
            f"{constructor.name} does not work with DeepSpeed: "
            f"{'deepspeed.initialize' if stage == 'initialize' else 'the first step'} raises"
            + with_passed_optimizer(config),
            rejected(stage),
            help=(
                'Set `optimizer.type` to "AdamW".'
                if section == "optimizer"
                else 'Set `scheduler.type` to "WarmupLR", or build the schedule in the script.'
            )
            + f" {constructor.name} never works: {never}.",
            label="never works",
        )


_ONEBIT = ("onebitadam", "zerooneadam", "onebitlamb")  # removed in 0.19.7; _configure_basic_optimizer asserts


@rule("DS516", "onebit-with-zero", severity="error", effects=("rejected",), keys=("optimizer",))
def onebit_with_zero(config: Config) -> Iterator[Problem]:
    """The 1-bit optimizers, which compress what ZeRO partitions; DeepSpeed 0.19.7 removed them."""
    member = config.member("optimizer", "type")
    if member is None or str(member.value.value).lower() not in _ONEBIT or not zero_stage(config):
        return
    if optimizer_constructor(config) is not None:
        yield Problem(
            ("optimizer", "type"),
            member.value.span,
            f"{member.value.value} does not work with ZeRO, but the stage is {zero_stage(config)}: "
            "deepspeed.initialize raises",
            rejected("initialize"),
            help="Use AdamW, or set `zero_optimization.stage` to 0.",
            label="does not work with ZeRO",
        )


@rule("DS507", "untested-zero-optimizer", severity="error", effects=("rejected",), keys=("optimizer",))
def untested_zero_optimizer(config: Config) -> Iterator[Problem]:
    """An optimizer that DeepSpeed runs with ZeRO only if the config allows untested optimizers."""
    constructor = optimizer_constructor(config)
    member = config.member("optimizer", "type")
    if constructor is None or member is None or not zero_stage(config):
        return
    is_tested = constructor.name in ZERO_TESTED and (
        constructor.name != "ZenFlowCPUAdam" or config.knowledge.does("zenflow-is-tested-under-zero")
    )
    if is_tested or is_truthy(config.node("zero_allow_untested_optimizer")):
        return
    if str(member.value.value).lower() in _ONEBIT:
        return  # onebit-with-zero
    would_raise = constructor.name == "FusedLamb" and offloads_optimizer(config)  # in its first step: lamb-offloaded
    yield Problem(
        ("optimizer", "type"),
        member.value.span,
        f"DeepSpeed has not tested {constructor.name} with ZeRO: deepspeed.initialize raises",
        rejected("initialize"),
        help="Use AdamW." if would_raise else 'Set "zero_allow_untested_optimizer": true, or use AdamW.',
        label="untested with ZeRO",
        fix=None if would_raise else edits.setting(config, ("zero_allow_untested_optimizer",), True, "unsafe"),
    )


@rule("DS509", "nesterov-without-momentum", severity="error", effects=("rejected",), keys=("optimizer",))
def nesterov_without_momentum(config: Config) -> Iterator[Problem]:
    """SGD with Nesterov momentum but without a momentum."""
    constructor = optimizer_constructor(config)
    member = config.member("optimizer", "params", "nesterov")
    if constructor is None or constructor.name != "SGD" or member is None or not is_truthy(member.value):
        return
    momentum = number(config.value("optimizer", "params", "momentum")) or 0
    dampening = config.node("optimizer", "params", "dampening")
    if momentum <= 0 or (dampening is not None and dampening.value != 0):
        yield Problem(
            ("optimizer", "params", "nesterov"),
            member.value.span,
            "SGD with `nesterov` needs a `momentum` above 0 and a `dampening` of 0: deepspeed.initialize raises",
            rejected("initialize"),
            help='Add "momentum": 0.9, and delete `dampening`.',
            label="needs momentum",
        )


@rule("DS510", "legacy-fusion", severity="error", effects=("rejected",), keys=("optimizer",))
def legacy_fusion(config: Config) -> Iterator[Problem]:
    """``legacy_fusion``, which makes the 16-bit wrapper use an interface that FusedAdam no longer has."""
    member = config.member("optimizer", "legacy_fusion")
    constructor = optimizer_constructor(config)
    if member is None or constructor is None or constructor.name != "FusedAdam" or not is_truthy(member.value):
        return
    if model_dtype(config) == "bf16" and config.knowledge.does("bf16-accumulates-in-fp32"):
        return  # another wrapper, which ignores it
    if zero_stage(config) == 0 and model_dtype(config) != "fp32":
        yield Problem(
            ("optimizer", "legacy_fusion"),
            member.value.span,
            f"`legacy_fusion` does not work in {model_dtype(config)} without ZeRO: the first step raises",
            rejected("train"),
            help="Delete `legacy_fusion`. With it, DeepSpeed passes FusedAdam arguments that it no longer accepts.",
            label="enabled",
            fix=edits.deletion(config, ("optimizer", "legacy_fusion"), "unsafe"),
        )


@rule("DS514", "negative-clipping", severity="warning", effects=("wrong-result",), keys=("gradient_clipping",))
def negative_clipping(config: Config) -> Iterator[Problem]:
    """A negative ``gradient_clipping``, which disables clipping."""
    member = config.member("gradient_clipping")
    limit = number(member.value.value) if member else None
    if member is not None and limit is not None and limit < 0 and not has_no_optimizer(config):
        yield Problem(
            ("gradient_clipping",),
            member.value.span,
            f"`gradient_clipping` is {limit:g}, but DeepSpeed clips only if the limit is above 0: nothing is clipped",
            WRONG_RESULT,
            help="Set it to the largest gradient norm that you want, or to 0 to disable clipping.",
            label="clips nothing",
            fix=edits.replacement(config, ("gradient_clipping",), "0", "safe"),
        )


@rule("DS515", "lamb-with-static-loss-scale", severity="error", effects=("rejected",), keys=("optimizer",))
def lamb_with_static_loss_scale(config: Config) -> Iterator[Problem]:
    """Lamb with a static loss scale, which DeepSpeed rejects."""
    member = config.member("optimizer", "type")
    if member is None or str(member.value.value).lower() not in ("lamb", "onebitlamb"):
        return
    if named_constructor(config) is None:  # DeepSpeed looks at the name, also if the script passes an optimizer
        return
    scale = config.member("fp16", "loss_scale")
    is_static = scale is not None and bool(number_of(scale.value))
    section = config.knowledge.find(("fp16",))
    if section is not None and not section.strict:  # DeepSpeed reads an open section only if it is enabled
        is_static = is_static and is_on(config, "fp16", "enabled")
    if scale is not None and is_static:
        reason = f"`fp16.loss_scale` is {shown(config, scale.value)}"
        instead = "Set `fp16.loss_scale` to 0"
    elif model_dtype(config) == "bf16" and config.knowledge.does("bf16-has-a-static-loss-scale"):
        reason = "bf16 does not have one"
        instead = f"Use fp16, upgrade to DeepSpeed {config.knowledge.ended('bf16-has-a-static-loss-scale')}"
    else:
        return
    yield Problem(
        ("optimizer", "type"),
        member.value.span,
        f"{member.value.value} needs a dynamic loss scale, but {reason}: deepspeed.initialize raises",
        rejected("initialize"),
        help=f"{instead}, or use AdamW.",
        label="needs a dynamic loss scale",
        related=[Related(scale.value.span, "static")] if scale is not None and is_static else [],
        fix=edits.replacement(config, ("fp16", "loss_scale"), "0", "unsafe") if is_static else None,
    )


@rule("DS530", "lamb-in-bf16-without-zero", severity="error", effects=("rejected",), keys=("optimizer",))
def lamb_in_bf16_without_zero(config: Config) -> Iterator[Problem]:
    """Lamb for a bf16 model without ZeRO: its kernel gets bf16 gradients, which it does not support.

    Source: ``lamb_cuda_kernel`` in ``csrc/lamb/fused_lamb_cuda_kernel.cu``; ZeRO, and up to 0.17.5 stage 0 too, pass
    it gradients in fp32.
    """
    member, constructor = config.member("optimizer", "type"), optimizer_constructor(config)
    if member is None or constructor is None or constructor.name != "FusedLamb" or zero_stage(config) != 0:
        return
    if model_dtype(config) == "bf16" and not config.knowledge.does("bf16-accumulates-in-fp32"):
        yield Problem(
            ("optimizer", "type"),
            member.value.span,
            "without ZeRO, Lamb gets bf16 gradients, which its kernel does not support: the first step raises",
            rejected("train"),
            help="Set `zero_optimization.stage` to 1 and `zero_allow_untested_optimizer` to true, or use AdamW. The "
            "kernel supports only fp16 and fp32.",
            label="does not support bf16",
        )


def _why_there_is_none(what: str, name: str, last_release: str | None, arrival: str | None) -> str:
    if last_release:
        return f"DeepSpeed removed the {what} `{name}` after {last_release}: deepspeed.initialize raises"
    if arrival:
        return f"the {what} `{name}` needs DeepSpeed {arrival} or newer: deepspeed.initialize raises"
    return f"unknown {what} `{name}`: deepspeed.initialize raises"


def _age(last_release: str | None, arrival: str | None) -> str:
    return "removed" if last_release else f"since {arrival}" if arrival else "unknown"


def _stage(config: Config, section: str, facts: ParameterFacts) -> Stage:
    """When DeepSpeed raises: without ZeRO, the 16-bit wrapper makes an empty step while it is built."""
    dtype = model_dtype(config)
    is_wrapped = dtype == "fp16" or (dtype == "bf16" and not config.knowledge.does("bf16-accumulates-in-fp32"))
    if section == "optimizer" and is_wrapped and zero_stage(config) == 0:
        return "initialize"
    return facts["stage"]


def _meets_schedule(config: Config, path: KeyPath, kind: str) -> bool:
    """Whether the Trainer's own schedule multiplies this learning rate while it sets up DeepSpeed.

    The constant schedule multiplies by the integer 1, which works for a string too.
    """
    if path != ("optimizer", "params", "lr") or config.stack != "trainer" or config.node("scheduler") is not None:
        return False
    schedule = config.argument("lr_scheduler_type")
    return kind != "string" or schedule is None or schedule.value != "constant"


_OF_MOMENTUM = ("cycle_min_mom", "cycle_max_mom", "decay_mom_rate")


def _cycles_momentum(config: Config) -> bool:
    """Whether ``OneCycle`` reads the momentum, which it does if the defaults of the optimizer have ``betas``.

    Source: ``_initialize_momentum`` in ``deepspeed/runtime/lr_schedules.py``.
    """
    switch, optimizer = config.node("scheduler", "params", "cycle_momentum"), optimizer_constructor(config)
    if switch is not None and not is_truthy(switch):
        return False
    return optimizer is not None and optimizer.knows("betas") and optimizer.name != "MuonWithAuxAdam"


def _scheduler_overwrites(config: Config, path: tuple[str, ...], facts: ParameterFacts) -> bool:
    """Whether the scheduler of the config replaces a bad learning rate before the first step reads it."""
    if path[0] != "optimizer" or path[-1] != "lr" or _stage(config, "optimizer", facts) != "train":
        return False
    return sets_the_rate(config)


def _constructors(config: Config) -> Iterator[tuple[str, Constructor]]:
    optimizer = optimizer_constructor(config)
    if optimizer is not None:
        yield "optimizer", optimizer
    scheduler = scheduler_constructor(config)
    if scheduler is not None:
        yield "scheduler", scheduler


def _parameters(config: Config, section: str) -> list[Member]:
    params = config.section(section, "params")
    if params is None:
        return []
    elsewhere = "max_grad_norm" if section == "optimizer" else None  # clipping_in_optimizer reports it
    return [member for member in params.members if params.member(member.key) is member and member.key != elsewhere]


def _but_auto(config: Config, member: Member, path: tuple[str, ...], outcome: Outcome) -> dict[Stack, Outcome]:
    """The outcome by stack: Accelerate's prepare raises at an unknown parameter set to "auto", unless it is filled."""
    if member.value.value != AUTO:
        return dict.fromkeys(config.stacks, outcome)
    filling = (*config.filled_by(path), "deepspeed")
    return {stack: outcome if stack in filling else rejected("initialize") for stack in config.stacks}


def _other_type(section: str, name: str, known: list[str], usual: str) -> str:
    from ds_lint.knowledge import suggestions

    return f'Set `{section}.type` to "{suggestions.choice(name, known) or usual}".'


def _instead_of_value(member: Member, wanted: Expected) -> str:
    if member.value.value == AUTO:
        return 'Write a value: only the Trainer and Accelerate replace "auto".'
    plain = unquoted(str(member.value.value), wanted.kinds) if member.value.kind == "string" else None
    return f"Write {plain} without quotes." if plain else f"Set it to {wanted}."


def _instead_of(name: str, meant: str | None) -> str:
    return f"Rename it to `{meant}`." if meant else f"Delete `{name}`."


def _as_meant(config: Config, path: KeyPath, meant: str | None) -> Fix | None:
    from ds_lint.knowledge import suggestions

    if meant is None:
        return edits.deletion(config, path, "unsafe")
    return edits.renaming(config, path, meant, "safe" if suggestions.is_typo(path[-1], meant) else "unsafe")


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
