"""What the rules predict of a config, held against the run of the user's script.

A finding is confirmed, contradicted, or not tested by this run. A contradiction is a bug of ds-lint, which no change of
the config can avoid, so it is a check without a rule. It has what is needed to reproduce it.
"""

from __future__ import annotations

import json
from shlex import join
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.addresses import REPOSITORY
from ds_lint.diagnostics.verdict import CUDA, Check, worst
from ds_lint.output.harmless import without_secrets
from ds_lint.smoke.probe.presence import SAVE
from ds_lint.smoke.records.failure import first_line
from ds_lint.smoke.script.ending import places_of
from ds_lint.source.tree import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ds_lint.diagnostics.finding import Finding, Stack
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.job import Raised
    from ds_lint.smoke.script.command_start import CommandEnd

PREDICTION = "prediction"  # the id of the checks
CONFIRMED, CONTRADICTED, NOT_TESTED = "confirmed", "contradicted", "not tested"

_REPORT = f"This is a bug of ds-lint, not of your config; report it at {REPOSITORY}/issues with this reproduction"
_STATUSES = {CONFIRMED: "pass", CONTRADICTED: "warn", NOT_TESTED: "skip"}
_BEFORE_TRAINING = ("load", "parse", "initialize")  # stages
_DONE = "done"
# Where the libraries read a config, and what they raise about one.
_READERS = (
    "deepspeed/runtime/config", "deepspeed/runtime/zero/config", "deepspeed/runtime/zero/offload_config",
    "accelerate/utils/deepspeed", "transformers/integrations/deepspeed", "hjson/",
)  # fmt: skip
_ABOUT_CONFIGS = ("DeepSpeedConfigError", "HfDeepSpeedConfigError")
_OF_VALUES = "ValidationError"  # of pydantic, which scripts use too
# Where they act on one, and where on one and on training arguments. Other errors of theirs, such as an argument that is
# unknown to the script, are not about the config.
_ACTORS = (*_READERS, "deepspeed/", "accelerate/accelerator", "accelerate/utils/dataclasses")
_ACTORS_ON_BOTH = (*_ACTORS, "transformers/training_args", "transformers/trainer", "ds_lint/smoke/standins/")
_LAUNCHERS = "deepspeed/launcher/"
_OF_MODELS = "hidden_size"  # in what the libraries raise about a model that has none
# What the stand-ins for GPUs take part in: with them the libraries may accept what they reject on a GPU.
_OF_DEVICES = (
    "activation_checkpointing", "aio", "amp", "bf16", "compile", "compression_training", "fp16", "optimizer",
    "sparse_attention", "torch_autocast", "zero_optimization.offload", "zero_optimization.zenflow",
)  # fmt: skip
_ABOUT_MACHINES = ("hardware", "hosts", "launching", "machines_by_deepspeed", "memory")  # families of rules
_ABOUT_SAVING = "saving"
_ABOUT_ONE_RANK = "DS822"


class SeenRun(NamedTuple):
    """What a run of the script shows that predictions are about."""

    stack: Stack | None  # None if no engine was made
    is_on_gpus: bool
    has_engine: bool
    is_whole: bool  # it made its steps and saved
    is_over: bool  # the script does no more with the engine: it is whole, or the script does not train it
    world_size: int | None
    raised: Raised | None  # what ended the script, unless the machine is the cause
    parted: str  # where each rank is when the time is up, if only some of them save; else empty
    given: Mapping[str, Any]  # the config as DeepSpeed gets it
    unread: frozenset[str]
    versions: Mapping[str, str]


class Prediction(NamedTuple):
    """What became of what a rule predicts; without a finding, of its silence."""

    finding: Finding | None
    outcome: str
    why: str


def seen_run(first: CommandEnd, engine: EngineTrace | None) -> SeenRun:
    """What the first start shows of an engine, or of the script if it has none."""
    raised = next((one.raised for one in first.ranks if one.raised is not None and one.raised.cause is None), None)
    evidence = engine.evidence if engine is not None else None
    is_done = engine is not None and all(one.phase == _DONE for one in first.ranks)
    return SeenRun(
        stack=engine.stack if engine is not None else None,
        is_on_gpus=engine is not None and engine.mode == CUDA,
        has_engine=engine is not None and not engine.is_refused,
        is_whole=is_done and engine is not None and engine.has_checkpoint,
        is_over=is_done and engine is not None and (engine.has_checkpoint or not engine.is_trained),
        world_size=engine.counted_ranks if engine is not None else None,
        raised=raised,
        parted=_parted(first),
        given=engine.config or {} if engine is not None else {},
        unread=frozenset(evidence.unread) if evidence is not None else frozenset(),
        versions=engine.versions if engine is not None else {},
    )


def _parted(first: CommandEnd) -> str:
    """Where the ranks are that wait for each other, if some of them save and others do not."""
    saving = {one.phase == SAVE for one in first.ranks}
    is_over_time = first.status is None and first.unobserved is None
    return places_of(first.ranks) if is_over_time and len(saving) > 1 else ""


def predictions(report: FileReport, seen: SeenRun, world_size: int | None, *, is_by_all: bool) -> Iterator[Prediction]:
    """Each finding that predicts what the run would show, and the silence about what it rejects.

    ``world_size`` is the one that the findings are for, and ``is_by_all`` says that no rule is switched off.
    """
    findings = [(one, _effect(one, seen.stack)) for one in report.findings if one.kind != "run"]
    obstacle = _obstacle(report, seen, world_size)
    rejected = [one for one, effect in findings if effect == "rejected" and _is_early(one) != seen.has_engine]
    for finding, effect in findings:
        if effect == "rejected":
            outcome, why = _rejected(finding, rejected, seen)
        elif effect == "ignored" or (effect == "no-effect" and _is_unread(finding.key, seen)):
            outcome, why = _ignored(finding, seen)
        elif finding.code == _ABOUT_ONE_RANK and seen.parted:
            outcome, why = CONFIRMED, f"the run hangs: {seen.parted}"
        else:
            continue
        if outcome == CONTRADICTED and obstacle is not None:
            outcome, why = NOT_TESTED, obstacle
        yield Prediction(finding, outcome, why)
    raised = seen.raised
    if raised is None or seen.has_engine or rejected or not _is_about_config(raised):
        return
    rejection = f"the libraries reject the config: {first_line(str(raised)).rstrip('.')}"
    if _OF_MODELS in raised.text:
        yield Prediction(None, NOT_TESTED, f"{rejection}; the script may wrap the model that the check knows")
    elif obstacle is None and is_by_all and not (report.missing or report.unreported):
        yield Prediction(None, CONTRADICTED, f"{rejection}, and no rule predicts it")
    else:
        yield Prediction(None, NOT_TESTED, f"{rejection}; the check lacked facts or rules to predict it")


def with_predictions(
    verdict: Verdict, report: FileReport, seen: SeenRun, command: list[str], world_size: int | None, *, is_by_all: bool
) -> Verdict:
    """The verdict with a check for each prediction; the findings that are confirmed name the run."""
    found = list(predictions(report, seen, world_size, is_by_all=is_by_all))
    for one in found:
        if one.finding is not None and one.outcome == CONFIRMED:
            one.finding.confirmed = one.finding.confirmed or one.why
    made = list(checks(found, report, seen, command))
    status = worst([verdict.status, *(check.status for check in made)])
    return verdict._replace(status=status, checks=[*verdict.checks, *made])


def checks(found: Iterable[Prediction], report: FileReport, seen: SeenRun, command: list[str]) -> Iterator[Check]:
    """A check for each prediction; that of a contradiction has a reproduction."""
    for one in found:
        key = one.finding.key if one.finding is not None else None
        name = f"{one.finding.code} ({one.finding.name})" if one.finding is not None else "what ds-lint does not report"
        message = f"{name} is {one.outcome}: {one.why}"
        expected = one.finding.effect if one.finding is not None else None
        observed = one.why if one.outcome == CONFIRMED else None
        check = Check(PREDICTION, _STATUSES[one.outcome], key, expected, observed, None, message)
        if one.outcome == CONTRADICTED:
            reproduction = _reproduction(one, report, seen, command)
            check = check._replace(observed=reproduction, help=f"{_REPORT}: {json.dumps(reproduction)}")
        yield check


def _effect(finding: Finding, stack: Stack | None) -> str:
    """What a finding predicts for the stack that ran."""
    return finding.effects[stack] if finding.effects and stack in finding.effects else finding.effect


def _obstacle(report: FileReport, seen: SeenRun, world_size: int | None) -> str | None:
    """Why the run cannot contradict the report: it is about something else."""
    others = [
        f"{library} {version}"
        for library, version in seen.versions.items()
        if report.target.get(library, version) != version or library in report.ranges
    ]
    if others:
        return f"the run has {', '.join(others)}, and the config is checked for other releases"
    if world_size is not None and seen.world_size not in (None, world_size):
        return f"the run has {seen.world_size} ranks, and the config is checked for {world_size}"
    return None


def _is_early(finding: Finding) -> bool:
    """Whether it says that no engine is made."""
    return finding.stage in _BEFORE_TRAINING


def _rejected(finding: Finding, rejected: list[Finding], seen: SeenRun) -> tuple[str, str]:
    """What becomes of the prediction that the libraries raise."""
    is_early = _is_early(finding)
    if seen.raised is not None and is_early != seen.has_engine:
        return _raised(finding, rejected, seen.raised)
    if is_early and seen.has_engine:
        if finding.family in _ABOUT_MACHINES:
            return NOT_TESTED, "the run is on this machine"
        is_of_device = finding.stage == "initialize" and (finding.key or "").startswith(_OF_DEVICES)
        if is_of_device and not seen.is_on_gpus:
            return NOT_TESTED, "stand-ins for GPUs take part in it"
        return CONTRADICTED, "deepspeed.initialize made the engine"
    if not is_early and seen.is_whole and seen.is_on_gpus and finding.family != _ABOUT_SAVING:
        return CONTRADICTED, "the script made its steps and saved"
    return NOT_TESTED, "the run does not get there"


def _raised(finding: Finding, candidates: list[Finding], raised: Raised) -> tuple[str, str]:
    """What becomes of it if the script has raised."""
    if not raised.where.startswith(_ACTORS_ON_BOTH):
        return NOT_TESTED, "what the run raises is not about the config"
    text = str(raised)
    named = [one for one in candidates if one.key and one.key.rpartition(".")[2] in text]
    if finding in named or (not named and len(candidates) == 1):
        return CONFIRMED, f"the run raises {first_line(str(raised))}"
    return NOT_TESTED, "another error ends the run"


def _ignored(finding: Finding, seen: SeenRun) -> tuple[str, str]:
    """What becomes of the prediction that nothing reads a key."""
    key = finding.key
    if key is None or not seen.is_over or not _has(seen.given, key):
        return NOT_TESTED, "DeepSpeed is not given the key" if seen.is_over else "the run does not get there"
    if _is_unread(key, seen):
        return CONFIRMED, f"nothing read `{key}`"
    if any(one.startswith(f"{key}.") for one in seen.unread):
        return NOT_TESTED, f"only parts of `{key}` are read"
    return CONTRADICTED, f"DeepSpeed read `{key}`"


def _is_unread(key: str | None, seen: SeenRun) -> bool:
    return key is not None and any(key == one or key.startswith(f"{one}.") for one in seen.unread)


def _has(config: Mapping[str, Any], key: str) -> bool:
    """Whether a config has a value at a dotted path; a name in it may have dots itself."""
    return key in config or any(
        isinstance(value, dict) and key.startswith(f"{name}.") and _has(value, key.removeprefix(f"{name}."))
        for name, value in config.items()
    )


def is_refusal(raised: Raised) -> bool:
    """Whether the libraries raise while they act on the config."""
    return raised.where.startswith(_ACTORS) and not raised.where.startswith(_LAUNCHERS)


def _is_about_config(raised: Raised) -> bool:
    """Whether an exception is about the config alone, by its class or the place that raises it."""
    is_of_values = raised.kind == _OF_VALUES and raised.where.startswith("deepspeed/")
    return raised.kind in _ABOUT_CONFIGS or is_of_values or raised.where.startswith(_READERS)


def _reproduction(one: Prediction, report: FileReport, seen: SeenRun, command: list[str]) -> dict[str, Any]:
    """All that a maintainer needs, without secrets."""
    root = report.document.root
    found = {
        "finding": one.finding.code if one.finding is not None else None,
        "key": one.finding.key if one.finding is not None else None,
        "predicted": one.finding.message if one.finding is not None else None,
        "observed": one.why,
        "stack": seen.stack or report.stack,
        "checked_for": report.target,
        "versions": dict(seen.versions),
        "facts": report.facts,
        "command": f"ds-lint smoke -- {join(command)}",
        "config": plain(root) if root is not None else None,
    }
    whole: dict[str, Any] = json.loads(without_secrets(json.dumps(found, default=str), [report.document]))
    return whole
