"""Rules about what a training run of a few steps showed (DS9xx): the checks of its verdict as findings."""

from __future__ import annotations

from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, OVERRIDDEN, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Severity, Stage
    from ds_lint.diagnostics.rule import Check as RuleCheck
    from ds_lint.diagnostics.verdict import Check
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_SHARES = ("parameters", "master-weights", "optimizer-states", "gradients")
_SEVERITY: dict[str, Severity] = {"fail": "error", "warn": "warning"}

# What a check that was not kept means, one row a rule: its code, name and severity, outcome, and the check's id.
_ROWS: tuple[tuple[str, str, Severity, Outcome, str], ...] = (
    # The engine runs another ZeRO stage than the text asks for.
    ("DS902", "other-stage-runs", "error", WRONG_RESULT, "stage"),
    # A persistence threshold under which ZeRO-3 shards little of the user's model.
    ("DS904", "parameters-stay-whole", "error", NO_EFFECT, "persistence"),
    # Something is to be offloaded and is not, or to another place.
    ("DS905", "offload-does-not-happen", "error", NO_EFFECT, "offload"),
    # Tensors of another dtype than the text asks for.
    ("DS906", "other-dtype-runs", "error", WRONG_RESULT, "dtypes"),
    # A loss that is NaN or infinite.
    ("DS907", "loss-is-not-finite", "error", WRONG_RESULT, "loss"),
    # A step takes another number of samples than the text asks for.
    ("DS909", "other-batch-size-runs", "error", WRONG_RESULT, "batch"),
    # Learning rates that nobody asked for, or that are not those of the training arguments.
    ("DS910", "other-learning-rate-runs", "error", OVERRIDDEN, "learning-rate"),
    # Gradients are clipped to another norm than the text, or the training arguments, ask for.
    ("DS911", "other-clipping-runs", "error", OVERRIDDEN, "clipping"),
    # A fresh process does not go on where the checkpoint was written.
    ("DS912", "checkpoint-does-not-resume", "error", WRONG_RESULT, "resume"),
    # What was saved is no model that ``from_pretrained`` loads with the weights that were trained.
    ("DS913", "saved-model-does-not-load", "error", WRONG_RESULT, "export"),
    # ``zero_to_fp32`` does not give the fp32 weights of the checkpoint.
    ("DS914", "weights-are-not-recovered", "error", WRONG_RESULT, "recovery"),
    # A key that ds-lint does not know and nothing has read.
    ("DS915", "key-is-never-read", "warning", IGNORED, "keys"),
    # Gradients are divided by a loss scale that the loss was not multiplied by.
    ("DS917", "loss-is-not-scaled", "error", WRONG_RESULT, "loss-scale"),
)


@rule("DS901", "run-is-refused", severity="error", effects=("rejected",), kind="run")
def run_is_refused(config: Config) -> Iterator[Problem]:
    """The libraries raise on the config."""
    for check in _broken(config, "start"):
        stage: Stage = check.observed
        yield _problem(config, check, rejected(stage))


@rule("DS903", "rank-holds-too-much", severity="error", effects=("wrong-result",), kind="run")
def rank_holds_too_much(config: Config) -> Iterator[Problem]:
    """A rank does not hold the share that its stage promises; where another stage runs, that says it all."""
    if any(True for _ in _broken(config, "stage")):
        return
    checks = list(_broken(config, *_SHARES))
    for check in checks[:1]:
        problem = _problem(config, check, WRONG_RESULT)
        if others := [other.id.replace("-", " ") for other in checks[1:]]:
            problem.message += f"; likewise for {', '.join(dict.fromkeys(others))}"
        yield problem


@rule("DS908", "every-step-overflows", severity="error", effects=("wrong-result",), kind="run")
def every_step_overflows(config: Config) -> Iterator[Problem]:
    """A loss scale under which no step is made: for ever if it is static, for a time if it is not."""
    for check in _broken(config, "overflow"):
        problem = _problem(config, check, WRONG_RESULT)
        problem.severity = "error" if check.status == "fail" else "info"
        yield problem


@rule("DS916", "real-world-does-not-fit", severity="error", effects=("rejected", "wrong-result"), kind="run")
def real_world_does_not_fit(config: Config) -> Iterator[Problem]:
    """What rank 0 of the user's real number of ranks shows."""
    for check in _broken(config, "world", "world-shares"):
        yield _problem(config, check, rejected("initialize") if check.observed is None else WRONG_RESULT)


def _problems_of(name: str, outcome: Outcome) -> RuleCheck:
    """A rule's function: a problem with this outcome wherever the check of this id was not kept."""

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
        label="as the run showed",
        severity=_SEVERITY[check.status],
    )


def _place(config: Config, key: str | None) -> tuple[KeyPath | None, Span]:
    """The value that promised it; the opening of the config where no key did."""
    path = tuple(key.split(".")) if key else ()
    section = config.written.at(path[:-1]) if path else None
    member = section.member(path[-1]) if section is not None else None
    if member is None:
        return None, config.opening
    return path, member.key_span if member.value.kind == "object" else member.value.span


for _code, _name, _severity, _outcome, _check in _ROWS:
    rule(_code, _name, severity=_severity, effects=(_outcome.effect,), kind="run")(_problems_of(_check, _outcome))
