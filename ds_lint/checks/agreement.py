"""Rules about a config and the training arguments of its run (DS61x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.knowledge.expressions import names_in
from ds_lint.semantics.constructors import evaluates_alone, optimizer_constructor
from ds_lint.semantics.evaluation import trainer_call
from ds_lint.semantics.features import is_on, zero_stage
from ds_lint.source.spelling import as_json
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ds_lint.diagnostics.finding import Fix, Safety, Stack
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import Mismatch, PreparedConfig
    from ds_lint.source.tree import KeyPath

_TRAINER: Stack = "trainer"
_OF_TRAINING = ("max_steps", "warmup_ratio", "warmup_steps")  # which ``trainer_config_finalize`` compares
_PRECISIONS = (("fp16", "enabled"), ("bf16", "enabled"))
_STEPS = ("scheduler", "params", "total_num_steps")
_ASKS_FOR_16_BIT = (
    "mixed_precision != 'no'"  # the condition under which Accelerate rejects a mode that the config does not have
)


def _filled_in(config: Config, path: KeyPath, safety: Safety) -> Fix | None:
    """The fix that lets the training arguments fill in a key."""
    return edits.set_to_auto(config, path, safety)


@rule("DS610", "trainer-mismatch", severity="error", effects=("rejected",))
def trainer_mismatch(config: Config) -> Iterator[Problem]:
    """A value that differs from the training arguments, although the Trainer requires them to be equal."""
    prepared = _prepare(config)
    for mismatch in prepared.mismatches if prepared else ():
        section = config.written.at(mismatch.path[:-1])  # an engine that only evaluates has not all of its keys
        member = section.member(mismatch.path[-1]) if section is not None else None
        if member is None or (mismatch.path in _PRECISIONS and _has_precision_conflict(config)):
            continue
        wanted, arithmetic = _wanted(config, mismatch)
        yield Problem(
            mismatch.path,
            member.value.span,
            f"`{dotted(mismatch.path)}` is {as_json(mismatch.written)}, but {wanted}: {trainer_call(config)} raises"
            f"{_unless(mismatch)}",
            {_TRAINER: rejected("initialize")},
            help=f'Set it to "auto", which the Trainer replaces with {as_json(mismatch.wanted)}, or change the '
            f"training arguments.{arithmetic}",
            label=f"not {as_json(mismatch.wanted)}",
            related=_places(config, mismatch.names, _compared),
            fix=_filled_in(config, mismatch.path, "safe"),
            severity="warning" if mismatch.only_if is not None else None,
            subject=as_json(mismatch.wanted),
        )


@rule("DS611", "training-arguments-refused", severity="error", effects=("rejected", "risk", "ignored"), also_on="names")
def training_arguments_refused(config: Config) -> Iterator[Problem]:
    """Training arguments that TrainingArguments or the Trainer rejects."""
    if config.foreign == "names":
        yield from _refused_in_launches(config)
        return
    if _prepare(config) is None:
        return
    from ds_lint.semantics.arguments import refusals
    from ds_lint.semantics.trainer_refusals import trainer_refusals

    found = [("TrainingArguments raises", *refusal) for refusal in refusals(config)]
    of = _created if found else None
    for who, names, message in found or [("the Trainer raises", *refusal) for refusal in trainer_refusals(config)]:
        yield Problem(
            None,
            config.opening,
            f"{who}: {message}",
            {_TRAINER: rejected("initialize")},
            help=f"Change {_quoted(names)} in the training arguments.",
            label="training arguments rejected",
            related=_places(config, names, of),
            subject=tuple(names),
        )
    training = config.facts.training
    if training is None:
        return
    for name, meant in training.slips.items():
        argument = training.others[name]
        document, span = argument.document, argument.span
        yield Problem(
            None,
            config.opening,
            f"`{name}` ({argument.origin}) is not a field of TrainingArguments: the run stops at it",
            {_TRAINER: RISK},
            help=f"Write `{meant}`. If the script declares an argument `{name}`, suppress this rule.",
            label=f"did you mean `{meant}`?",
            severity="warning",
            related=[Related(span, f"did you mean {meant}?", document.path)] if document and span else [],
            subject=name,
        )


def _refused_in_launches(config: Config) -> Iterator[Problem]:
    """Fields of other releases, and values that the parser of a script rejects, at their words in launches."""
    from ds_lint.checks.script_options import other_release_problem, value_problem
    from ds_lint.semantics.refused_script_options import refused_script_options

    for one in refused_script_options(config):
        if one.is_training:
            yield (other_release_problem if one.word.what == "unknown" else value_problem)(one, config)


@rule("DS612", "mixed-precision-conflict", severity="error", effects=("rejected",), keys=("fp16", "bf16"))
def mixed_precision_conflict(config: Config) -> Iterator[Problem]:
    """One 16-bit mode in the config and the other one in the training arguments: the Accelerator raises."""
    if not _has_precision_conflict(config) or (_is_on(config, "fp16") and _is_on(config, "bf16")):
        return  # both in the training arguments are training_arguments_refused
    if all(is_on(config, *path) and config.is_written(path) for path in _PRECISIONS):
        return  # both in the config are fp16_and_bf16
    wanted = "fp16" if _is_on(config, "fp16") else "bf16"
    written = "bf16" if wanted == "fp16" else "fp16"
    member = config.member(written, "enabled")
    if member is not None:
        yield Problem(
            (written, "enabled"),
            member.value.span,
            f"the config enables {written}, but the training arguments enable {wanted}: Trainer(...) raises",
            {_TRAINER: rejected("initialize")},
            help='Set `fp16.enabled` and `bf16.enabled` to "auto", or set '
            f"`{written}` instead of `{wanted}` in the training arguments.",
            label=f"enables {written}",
            related=_places(config, [wanted], _compared),
        )


@rule("DS613", "max-grad-norm-without-effect", severity="warning", effects=("wrong-result",))
def max_grad_norm_without_effect(config: Config) -> Iterator[Problem]:
    """``gradient_clipping`` is missing, so DeepSpeed uses its own default and ``max_grad_norm`` has no effect."""
    key = config.knowledge.find(("gradient_clipping",))
    argument = config.argument("max_grad_norm") if _prepare(config) else None
    if argument is None or key is None or config.node("gradient_clipping") is not None:
        return
    if evaluates_alone(config):
        return
    default = key.facts.get("default")
    if not isinstance(default, (int, float)) or (argument.value or 0) == default:
        return
    does = f"clips at {default:g}" if default else "does not clip"
    yield Problem(
        ("gradient_clipping",),
        config.opening,
        f"without `gradient_clipping`, `max_grad_norm` {as_json(argument.value)} ({argument.origin}) has no effect: "
        f"DeepSpeed {config.knowledge.deepspeed} {does}",
        {_TRAINER: WRONG_RESULT},
        help='Add "gradient_clipping": "auto", which the Trainer replaces with `max_grad_norm`.',
        label="no `gradient_clipping`",
        related=_places(config, ["max_grad_norm"]),
        fix=_filled_in(config, ("gradient_clipping",), "unsafe"),
        subject=argument.value,
    )


@rule("DS614", "optimizer-argument-without-effect", severity="warning", effects=("wrong-result",), keys=("optimizer",))
def optimizer_argument_without_effect(config: Config) -> Iterator[Problem]:
    """Parameters that are missing from ``optimizer.params``: the optimizer uses its own defaults."""
    prepared, constructor = _prepare(config), optimizer_constructor(config)
    section = config.member("optimizer", "params") or config.member("optimizer")
    if prepared is None or constructor is None or section is None:
        return
    for name, arguments in _OPTIMIZER_ARGUMENTS.items():
        given = [config.argument(argument) for argument in arguments]
        default = constructor.default(name)
        if config.node("optimizer", "params", name) is not None or None in given or default in (None, "$required"):
            continue
        if name == "lr" and config.node("scheduler") is not None:
            continue  # it sets the learning rate
        values = [argument.value for argument in given if argument is not None]
        wanted = values if len(values) > 1 else values[0]
        if wanted == default:
            continue
        yield Problem(
            ("optimizer", "params", name),
            section.key_span,
            f"{_named(arguments, wanted)} of the training arguments has no effect: {constructor.name} uses its default "
            f"`{name}` {as_json(default)}",
            {_TRAINER: WRONG_RESULT},
            help=f'Add "{name}": "auto" to `optimizer.params`, which the Trainer replaces with {as_json(wanted)}.',
            label=f"no `{name}`",
            related=_places(config, arguments),
            fix=_filled_in(config, ("optimizer", "params", name), "unsafe"),
            subject=as_json(wanted),
        )


_OPTIMIZER_ARGUMENTS = {
    "lr": ("learning_rate",),
    "betas": ("adam_beta1", "adam_beta2"),
    "eps": ("adam_epsilon",),
    "weight_decay": ("weight_decay",),
}


@rule("DS615", "accumulation-steps-missing", severity="warning", effects=("rejected", "risk"))
def accumulation_steps_missing(config: Config) -> Iterator[Problem]:
    """``gradient_accumulation_steps`` is missing, but the Trainer accumulates: Accelerate adds 1."""
    prepared = _prepare(config)
    steps = config.created("gradient_accumulation_steps") if prepared else None
    setting = prepared.settings.get(("gradient_accumulation_steps",)) if prepared else None
    if prepared is None or steps is None or setting is None or steps.value == setting.value:
        return
    if setting.did != "inserted":
        return
    is_refused = any(mismatch.path == ("gradient_accumulation_steps",) for mismatch in prepared.mismatches)
    if not is_refused and evaluates_alone(config):
        return
    yield Problem(
        ("gradient_accumulation_steps",),
        config.opening,
        f"Accelerate adds `gradient_accumulation_steps` {setting.value}, not {as_json(steps.value)} as in the training "
        f"arguments: {f'{trainer_call(config)} raises' if is_refused else 'DeepSpeed uses it'}",
        {_TRAINER: rejected("initialize") if is_refused else RISK},
        help=f'Add "gradient_accumulation_steps": "auto", which the Trainer replaces with {as_json(steps.value)}.',
        label="no `gradient_accumulation_steps`",
        related=_places(config, ["gradient_accumulation_steps"]),
        fix=_filled_in(config, ("gradient_accumulation_steps",), "safe"),
        subject=as_json(steps.value),
    )


@rule("DS616", "hidden-size-not-found", severity="error", effects=("rejected",), keys=("zero_optimization",))
def hidden_size_not_found(config: Config) -> Iterator[Problem]:
    """An ``"auto"`` that needs the hidden size of the model, which the library does not find."""
    prepared, model = _prepare_with_model(config), config.facts.model_or_family
    stack: Stack = "accelerate" if config.stack == "accelerate" else _TRAINER
    for path, library in prepared.unsized.items() if prepared else ():
        member = config.member(*path)
        if member is not None and model is not None:
            who = f"{library} {config.knowledge.target[library]}"
            yield Problem(
                path,
                member.value.span,
                f'"auto" needs the hidden size, which {who} does not find in a {model.model_type} model: '
                f"{'accelerator.prepare()' if stack == 'accelerate' else trainer_call(config)} raises",
                {stack: rejected("initialize")},
                help="Set a number, or delete the key to use DeepSpeed's default.",
                label="no hidden size",
            )
    section = config.member("zero_optimization")
    if prepared is not None and prepared.is_tripped_by_model and model is not None and section is not None:
        yield Problem(
            ("zero_optimization",),
            section.key_span,
            f"transformers {config.knowledge.target['transformers']} needs a `hidden_size`, but a {model.model_type} "
            f"model has none: {trainer_call(config)} raises",
            {_TRAINER: rejected("initialize")},
            help='Upgrade transformers: this release reads the hidden size of every model, even if no key is "auto".',
            label="no hidden size",
        )


@rule("DS617", "precision-section-missing", severity="info", effects=("risk",))
def precision_section_missing(config: Config) -> Iterator[Problem]:
    """bf16 or fp16 in the training arguments, but no section: Accelerate adds it after the Trainer has looked.

    At stage 3, from_pretrained has partitioned the model before that too, and DeepSpeed does not cast what is
    partitioned (``_cast_module_mixed_precision`` in deepspeed/runtime/engine.py).
    """
    prepared = _prepare(config)
    is_partitioned = zero_stage(config) == 3
    for name in ("bf16", "fp16") if is_partitioned else ("bf16",):
        setting = prepared.settings.get((name,)) if prepared else None
        if setting is None or setting.did != "inserted" or not isinstance(setting.value, dict):
            continue
        if setting.value.get("enabled") is not True:
            continue
        if _has_precision_conflict(config):
            return
        what, reason = "parameters stay in float32", "after ZeRO stage 3 has partitioned what from_pretrained loads."
        if not is_partitioned:
            what = "the Trainer casts inputs to another dtype"
            reason = f"for DeepSpeed, which trains in {name}. Of the inputs, only those in floating point are cast."
        yield Problem(
            (name,),
            config.opening,
            f"the training arguments enable {name}, but the config has no `{name}` section: {what}",
            {_TRAINER: RISK},
            help=f'Add "{name}": {{"enabled": "auto"}}. Accelerate adds the section {reason}',
            label=f"no `{name}`",
            related=_places(config, [name], _compared),
            fix=_filled_in(config, (name, "enabled"), "safe"),
            severity="warning" if is_partitioned else None,
        )


# Conditions of refusals that have their own rules: zero-section-missing, mixed-precision-conflict, trainer-mismatch.
_KNOWN_ELSEWHERE = {"zero_optimization is missing", _ASKS_FOR_16_BIT, "len(mismatches) > 0"}


@rule("DS620", "stack-refuses", severity="error", effects=("rejected",))
def stack_refuses(config: Config) -> Iterator[Problem]:
    """What the Trainer or Accelerate rejects for reasons that no other rule covers."""
    prepared = _prepare(config)
    for refusal in prepared.refusals if prepared else ():
        if refusal.is_trip or refusal.stage == "creation":
            continue  # a value that the rules about values report, training-arguments-refused
        if not _KNOWN_ELSEWHERE.isdisjoint(refusal.conditions):
            continue
        yield Problem(
            None,
            config.opening,
            f"{refusal.library} {config.knowledge.target[refusal.library]} rejects the config: {refusal.message}",
            {_TRAINER: rejected("initialize")},
            help="Change what the message names, in the config or in the training arguments.",
            label="rejected",
            subject=(refusal.library, refusal.conditions),
        )


def _prepare(config: Config) -> PreparedConfig | None:
    """What the Trainer makes of the config; None if it does not load it, or if the arguments are unknown."""
    if config.facts.training is None or config.stack != _TRAINER or config.written.kind != "object":
        return None
    from ds_lint.semantics.preparation import prepare  # not needed without training arguments

    return prepare(config)


def _prepare_with_model(config: Config) -> PreparedConfig | None:
    """The same, also for Accelerate, which needs no training arguments to ask a model for its size."""
    if config.stack != "accelerate" or config.facts.model_or_family is None or config.written.kind != "object":
        return _prepare(config)
    from ds_lint.semantics.preparation import prepare

    return prepare(config)


def _has_precision_conflict(config: Config) -> bool:
    """Whether Accelerate rejects the 16-bit mode of the training arguments because of the one in the config."""
    prepared = _prepare(config)
    return prepared is not None and any(_ASKS_FOR_16_BIT in refusal.conditions for refusal in prepared.refusals)


def _created(config: Config, name: str) -> Argument | None:
    return config.created(name)


def _compared(config: Config, name: str) -> Argument | None:
    """A training argument as it is when the Trainer compares it with the config: most are as they are made."""
    return config.argument(name) if name in _OF_TRAINING else config.created(name)


def _is_on(config: Config, name: str) -> bool:
    argument = config.created(name)
    return argument is not None and bool(argument.value)


def _wanted(config: Config, mismatch: Mismatch) -> tuple[str, str]:
    """What the training arguments have: the argument and its origin, or the value, and for the help its arithmetic."""
    arguments, wanted = [_compared(config, name) for name in mismatch.names], as_json(mismatch.wanted)
    if mismatch.path == _STEPS and evaluates_alone(config):
        return f"a run without training has {wanted} steps", ""
    if len(arguments) == 1 and arguments[0] is not None:
        has_same_name = mismatch.names[0] == mismatch.path[-1]
        who = "the training arguments have" if has_same_name else f"`{mismatch.names[0]}` is"
        return f"{who} {wanted} ({arguments[0].origin})", ""
    from ds_lint.semantics.preparation.words import words

    arithmetic = f" {wanted} is {words(mismatch.path, mismatch.expression)}."
    return f"the training arguments make it {wanted}", arithmetic


def _unless(mismatch: Mismatch) -> str:
    """The argument with which the Trainer does not compare the values, if nothing tells whether it is given."""
    if mismatch.only_if is None:
        return ""
    return f" unless {_quoted(names_in(mismatch.only_if))} is true"


def _quoted(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)


def _named(names: Iterable[str], value: object) -> str:
    return f"{' and '.join(f'`{name}`' for name in names)} {as_json(value)}"


def _places(
    config: Config, names: Iterable[str], of: Callable[[Config, str], Argument | None] | None = None
) -> list[Related]:
    """Where these training arguments are set, if they are set in a file; ``of`` tells which value counts."""
    found: dict[str, Argument] = {}
    for name in names:
        argument = config.argument(name) if of is None else of(config, name)
        if argument is not None and argument.document is not None and argument.span is not None:
            found[name] = argument
    return [
        Related(argument.span, f"{name} is {as_json(argument.value)}", argument.document.path)
        for name, argument in found.items()
        if argument.span is not None and argument.document is not None
    ]
