"""Rules about a training run of a few steps (DS9xx): its failed checks as findings."""

from __future__ import annotations

from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, OVERRIDDEN, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Severity, Stage
    from ds_lint.diagnostics.rule import Check as RuleCheck
    from ds_lint.diagnostics.verdict import Check
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_ARITHMETIC = ("samples", "averaging", "update", "weights", "frozen", "training")
_SHARES = ("units", "parameters", "master-weights", "optimizer-states", "gradients", "memory")
_SEVERITY: dict[str, Severity] = {"fail": "error", "warn": "warning"}

# What a failed check means, one row per rule: its code, name and severity, outcome, and the id of the check.
_ROWS: tuple[tuple[str, str, Severity, Outcome, str], ...] = (
    # The engine runs another ZeRO stage than the config asks for.
    ("DS902", "other-stage-runs", "error", WRONG_RESULT, "stage"),
    # A persistence threshold that keeps much of the user's model whole under ZeRO-3.
    ("DS904", "parameters-stay-whole", "error", NO_EFFECT, "persistence"),
    # The engine does not offload what the config asks for, or offloads it to another place.
    ("DS905", "offload-does-not-happen", "error", NO_EFFECT, "offload"),
    # Tensors of another dtype than the config asks for.
    ("DS906", "other-dtype-runs", "error", WRONG_RESULT, "dtypes"),
    # A loss that is NaN or infinite.
    ("DS907", "loss-is-not-finite", "error", WRONG_RESULT, "loss"),
    # A step uses another number of samples than the config asks for.
    ("DS909", "other-batch-size-runs", "error", WRONG_RESULT, "batch"),
    # Learning rates that differ from the config or the training arguments, or that neither sets.
    ("DS910", "other-learning-rate-runs", "error", OVERRIDDEN, "learning-rate"),
    # Gradients are clipped to another norm than the config or the training arguments ask for.
    ("DS911", "other-clipping-runs", "error", OVERRIDDEN, "clipping"),
    # A new process does not continue from the checkpoint.
    ("DS912", "checkpoint-does-not-resume", "error", WRONG_RESULT, "resume"),
    # ``from_pretrained`` does not load the trained weights from the saved model.
    ("DS913", "saved-model-does-not-load", "error", WRONG_RESULT, "export"),
    # ``zero_to_fp32`` does not recover the fp32 weights of the checkpoint.
    ("DS914", "weights-are-not-recovered", "error", WRONG_RESULT, "recovery"),
    # A key that ds-lint does not know and no library reads.
    ("DS915", "key-is-never-read", "warning", IGNORED, "keys"),
    # Gradients are divided by a loss scale that the loss is not multiplied by.
    ("DS917", "loss-is-not-scaled", "error", WRONG_RESULT, "loss-scale"),
    # ``generate`` hangs under ZeRO-3, or gives other tokens than the whole model; the training itself is right.
    ("DS919", "generation-fails", "error", RISK, "generate"),
    # No layer runs again in the backward pass, though activations should be recomputed.
    ("DS920", "nothing-is-recomputed", "error", NO_EFFECT, "recomputation"),
)


@rule("DS901", "run-is-refused", severity="error", effects=("rejected",), kind="run")
def run_is_refused(config: Config) -> Iterator[Problem]:
    """The libraries raise during the run."""
    for check in _broken(config, "start"):
        stage: Stage = check.observed
        yield _problem(config, check, rejected(stage))


@rule("DS903", "rank-holds-too-much", severity="error", effects=("wrong-result",), kind="run")
def rank_holds_too_much(config: Config) -> Iterator[Problem]:
    """A rank does not hold its share of the stage; DS902 covers a run at another stage."""
    if any(True for _ in _broken(config, "stage")):
        return
    checks = list(_broken(config, *_SHARES))
    for check in checks[:1]:
        problem = _problem(config, check, WRONG_RESULT)
        if others := [other.id.replace("-", " ") for other in checks[1:] if other.id != "memory"]:
            problem.message += f"; the same applies to {', '.join(dict.fromkeys(others))}"
        yield problem


@rule("DS908", "every-step-overflows", severity="error", effects=("wrong-result",), kind="run")
def every_step_overflows(config: Config) -> Iterator[Problem]:
    """A loss scale that makes DeepSpeed skip every step: permanently if it is static, else until it falls."""
    for check in _broken(config, "overflow"):
        problem = _problem(config, check, WRONG_RESULT)
        problem.severity = "error" if check.status == "fail" else "info"
        yield problem


@rule("DS916", "real-world-does-not-fit", severity="error", effects=("rejected", "wrong-result"), kind="run")
def real_world_does_not_fit(config: Config) -> Iterator[Problem]:
    """Failed checks of the simulated ranks of the user's real world size."""
    for check in _broken(config, "world", "world-shares"):
        yield _problem(config, check, rejected("initialize") if check.observed is None else WRONG_RESULT)


@rule("DS918", "arithmetic-differs", severity="error", effects=("wrong-result",), kind="run")
def arithmetic_differs(config: Config) -> Iterator[Problem]:
    """The steps differ from those of plain torch: the samples, the gradients, the update, or the weights after it."""
    for check in _broken(config, *_ARITHMETIC):
        yield _problem(config, check, WRONG_RESULT)


def _problems_of(name: str, outcome: Outcome) -> RuleCheck:
    """A rule's function: a problem with this outcome for every failed check with this id."""

    def problems(config: Config) -> Iterator[Problem]:
        for check in _broken(config, name):
            yield _problem(config, check, outcome)

    return problems


def _broken(config: Config, *ids: str) -> Iterator[Check]:
    for verdict in config.facts.smoke:
        for check in verdict.checks:
            if check.id in ids and check.status in _SEVERITY:
                yield check


def _problem(config: Config, check: Check, outcome: Outcome) -> Problem:
    path, span = _place(config, check.key)
    return Problem(
        path,
        span,
        check.message,
        outcome,
        help=check.help,
        label="shown by the run",
        severity=_SEVERITY[check.status],
        subject=check.subject,
    )


def _place(config: Config, key: str | None) -> tuple[KeyPath | None, Span]:
    """The value that the check is about; the opening of the config if it is about no key."""
    path = tuple(key.split(".")) if key else ()
    file = config.accelerate
    is_of_file = file is not None and file.made is None and config.document.root is not None  # as one with FSDP
    root = config.document.root if is_of_file else config.written
    section = root.at(path[:-1]) if path and root is not None else None
    member = section.member(path[-1]) if section is not None else None
    if member is None:
        return None, config.opening
    return path, member.key_span if member.value.kind == "object" else member.value.span


for _code, _name, _severity, _outcome, _check in _ROWS:
    rule(_code, _name, severity=_severity, effects=(_outcome.effect,), kind="run")(_problems_of(_check, _outcome))
