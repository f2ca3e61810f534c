"""Rules about what a training run of a few steps showed (DS9xx): the checks of its verdict as findings."""

from __future__ import annotations

from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, OVERRIDDEN, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_SHARES = ("parameters", "master-weights", "optimizer-states", "gradients")
_SEVERITY = {"fail": "error", "warn": "warning"}


@rule("DS901", "run-is-refused", severity="error", effects=("rejected",))
def run_is_refused(config: Config) -> Iterator[Problem]:
    """The libraries raise on the config."""
    for check in _broken(config, "start"):
        yield _problem(config, check, rejected(str(check.observed)))


@rule("DS902", "other-stage-runs", severity="error", effects=("wrong-result",))
def other_stage_runs(config: Config) -> Iterator[Problem]:
    """The engine runs another ZeRO stage than the text asks for."""
    yield from _problems(config, WRONG_RESULT, "stage")


@rule("DS903", "rank-holds-too-much", severity="error", effects=("wrong-result",))
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


@rule("DS904", "parameters-stay-whole", severity="error", effects=("no-effect",))
def parameters_stay_whole(config: Config) -> Iterator[Problem]:
    """A persistence threshold under which ZeRO-3 shards little of the user's model."""
    yield from _problems(config, NO_EFFECT, "persistence")


@rule("DS905", "offload-does-not-happen", severity="error", effects=("no-effect",))
def offload_does_not_happen(config: Config) -> Iterator[Problem]:
    """Something is to be offloaded and is not, or to another place."""
    yield from _problems(config, NO_EFFECT, "offload")


@rule("DS906", "other-dtype-runs", severity="error", effects=("wrong-result",))
def other_dtype_runs(config: Config) -> Iterator[Problem]:
    """Tensors of another dtype than the text asks for."""
    yield from _problems(config, WRONG_RESULT, "dtypes")


@rule("DS907", "loss-is-not-finite", severity="error", effects=("wrong-result",))
def loss_is_not_finite(config: Config) -> Iterator[Problem]:
    """A loss that is NaN or infinite."""
    yield from _problems(config, WRONG_RESULT, "loss")


@rule("DS908", "every-step-overflows", severity="error", effects=("wrong-result",))
def every_step_overflows(config: Config) -> Iterator[Problem]:
    """A loss scale under which no step is made: for ever if it is static, for a time if it is not."""
    for check in _broken(config, "overflow"):
        problem = _problem(config, check, WRONG_RESULT)
        problem.severity = "error" if check.status == "fail" else "info"
        yield problem


@rule("DS909", "other-batch-size-runs", severity="error", effects=("wrong-result",))
def other_batch_size_runs(config: Config) -> Iterator[Problem]:
    """A step takes another number of samples than the text asks for."""
    yield from _problems(config, WRONG_RESULT, "batch")


@rule("DS910", "other-learning-rate-runs", severity="error", effects=("overridden",))
def other_learning_rate_runs(config: Config) -> Iterator[Problem]:
    """Learning rates that nobody asked for, or that are not those of the training arguments."""
    yield from _problems(config, OVERRIDDEN, "learning-rate")


@rule("DS911", "other-clipping-runs", severity="error", effects=("overridden",))
def other_clipping_runs(config: Config) -> Iterator[Problem]:
    """Gradients are clipped to another norm than the text, or the training arguments, ask for."""
    yield from _problems(config, OVERRIDDEN, "clipping")


@rule("DS912", "checkpoint-does-not-resume", severity="error", effects=("wrong-result",))
def checkpoint_does_not_resume(config: Config) -> Iterator[Problem]:
    """A fresh process does not go on where the checkpoint was written."""
    yield from _problems(config, WRONG_RESULT, "resume")


@rule("DS913", "saved-model-does-not-load", severity="error", effects=("wrong-result",))
def saved_model_does_not_load(config: Config) -> Iterator[Problem]:
    """What was saved is no model that ``from_pretrained`` loads with the weights that were trained."""
    yield from _problems(config, WRONG_RESULT, "export")


@rule("DS914", "weights-are-not-recovered", severity="error", effects=("wrong-result",))
def weights_are_not_recovered(config: Config) -> Iterator[Problem]:
    """``zero_to_fp32`` does not give the fp32 weights of the checkpoint."""
    yield from _problems(config, WRONG_RESULT, "recovery")


@rule("DS915", "key-is-never-read", severity="warning", effects=("ignored",))
def key_is_never_read(config: Config) -> Iterator[Problem]:
    """A key that ds-lint does not know and nothing has read."""
    yield from _problems(config, IGNORED, "keys")


@rule("DS916", "real-world-does-not-fit", severity="error", effects=("rejected", "wrong-result"))
def real_world_does_not_fit(config: Config) -> Iterator[Problem]:
    """What rank 0 of the user's real number of ranks shows."""
    for check in _broken(config, "world", "world-shares"):
        yield _problem(config, check, rejected("initialize") if check.observed is None else WRONG_RESULT)


@rule("DS917", "loss-is-not-scaled", severity="error", effects=("wrong-result",))
def loss_is_not_scaled(config: Config) -> Iterator[Problem]:
    """Gradients are divided by a loss scale that the loss was not multiplied by."""
    yield from _problems(config, WRONG_RESULT, "loss-scale")


def _problems(config: Config, outcome: Outcome, *ids: str) -> Iterator[Problem]:
    """A problem for each check of these that was not kept."""
    for check in _broken(config, *ids):
        yield _problem(config, check, outcome)


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
