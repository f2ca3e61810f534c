"""What an exception means, by what is known of it, and by the findings of the project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge import advisories, advisory_exceptions, advisory_words
from ds_lint.knowledge.exceptions import explained
from ds_lint.logs import phases
from ds_lint.logs.cause import Cause, evidence_of, first_line, shown_exception
from ds_lint.logs.messages import filled, of_rule
from ds_lint.targets.pin import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ds_lint.knowledge.exceptions import ExceptionRecord
    from ds_lint.knowledge.records import AdvisoryRecord
    from ds_lint.knowledge.symptoms import Match
    from ds_lint.logs.cause import Reported
    from ds_lint.logs.failing import First, KnownException
    from ds_lint.logs.tracebacks import RaisedException


def of_exception(first: First, findings: Sequence[Reported], releases: Mapping[str, str]) -> Cause:
    """What the exception means that the first failing rank has raised."""
    own_ranks = {one.raised.origin.rank for one in first.own}
    group = _group(first)
    chosen, match, records = _meaning(group, releases)
    raised = chosen.raised
    codes = list(dict.fromkeys(code for record in records for code in record.rules))
    codes += [code for code in (match.symptom.codes if match else ()) if code not in codes]
    paths = [frame.path for frame in raised.frames]
    defects = advisory_exceptions.about(raised.short_name, raised.message, paths, releases)
    codes = list(dict.fromkeys([*map(advisories.code_of, defects), *codes]))
    place = phases.script_place(raised)
    library = phases.library_of(raised)
    phase = phases.phase_of(raised)
    cause = Cause(
        message="", help="", library=library, confidence="likely", rank=first.rank,
        exception=shown_exception(raised), codes=codes, phase=phase,
        evidence=[evidence_of(chosen.log, raised)],
    )  # fmt: skip
    if place is not None:
        cause.path, cause.line = place.path, place.line
    reported = _finding(codes, findings, raised.message, defects) or (
        None if codes else _only_rejected(phase, findings)
    )
    _say(cause, chosen, match, records)
    if defects:
        _name_defects(cause, defects, codes)
    if phase == "initialize" and len(own_ranks) == 1 and any(record.rules for record in records):
        cause.rank = None  # the config is the same for every rank; the launcher ended the others before they told
    if reported is not None:
        finding = reported.finding
        cause.finding, cause.key = finding, finding.key
        cause.path, cause.line = reported.path, reported.line
        cause.codes = [finding.code, *(code for code in codes if code != finding.code)]
        cause.advisory = finding.advisory
        cause.message = finding.message
        cause.help = finding.help or cause.help
        cause.confidence = "certain" if codes else "likely"
    return cause


def _group(first: First) -> list[KnownException]:
    """The exceptions of the rank that failed first that belong together, the innermost first."""
    own = [one for one in first.own if first.rank is None or one.raised.origin.rank in (first.rank, None)]
    own = own or first.own
    whole = [one for one in own if not one.raised.is_loose] or own
    head = min(whole, key=lambda one: one.raised.at)
    group = [head]
    for one in sorted(own, key=lambda one: one.raised.at):
        if one.raised.above is not None and any(one.raised.above is known.raised for known in group):
            group.append(one)
    return group


def _meaning(
    group: Sequence[KnownException], releases: Mapping[str, str]
) -> tuple[KnownException, Match | None, list[ExceptionRecord]]:
    """The exception of a chain that says most, with what is known of it."""
    weak: tuple[KnownException, Match | None, list[ExceptionRecord]] | None = None
    for one in group:
        raised = one.raised
        frames = [(frame.path, frame.function) for frame in raised.frames]
        records = explained(raised.short_name, raised.message, frames, releases=releases)
        if any(record.rules for record in records):
            return one, one.match, records
        if one.match is not None and one.match.symptom.confidence != "possible":
            return one, one.match, records
        if weak is None and (records or one.match is not None):
            weak = one, one.match, records
    return weak or (group[0], group[0].match, [])


def _only_rejected(phase: str | None, findings: Sequence[Reported]) -> Reported | None:
    """The one finding that says that the run stops in this phase, for an exception of which nothing else is known."""
    stages = {"initialize": ("load", "parse", "initialize"), "step": ("train",)}.get(phase or "", ())
    found = [one for one in findings if one.finding.effect == "rejected" and one.finding.stage in stages]
    return found[0] if len(found) == 1 else None


def _finding(
    codes: Sequence[str], findings: Sequence[Reported], message: str, defects: Sequence[AdvisoryRecord]
) -> Reported | None:
    """The finding of the project that explains an exception: of the first code that has one."""

    def order(one: Reported) -> tuple[bool, bool, bool]:
        is_named = bool(one.finding.key) and str(one.finding.key).rpartition(".")[2] in message
        return not is_named, one.finding.effect != "rejected", one.finding.severity != "error"

    ids = [defect["id"] for defect in defects]
    for code in codes:
        fitting = [
            one for one in findings if one.finding.code == code and (not ids or one.finding.advisory in (None, *ids))
        ]
        if fitting:
            return min(fitting, key=order)
    return None


def _say(cause: Cause, chosen: KnownException, match: Match | None, records: Sequence[ExceptionRecord]) -> None:
    """Give a cause its words: of a rule, of a symptom, of a place that raises, or else of the exception itself."""
    reporting = [record for record in records if record.rules]
    codes = {code for record in reporting for code in record.rules}
    keys = list(dict.fromkeys(key for record in reporting for key in record.keys))
    cause.key = keys[0] if len(keys) == 1 else None
    is_of_stack = any(record.library in LIBRARIES for record in reporting)
    if match is not None and (match.symptom.confidence == "certain" or len(codes) != 1 or not is_of_stack):
        groups = {"function": phases.function_of(chosen.raised) or ""} | match.groups
        message, cause.help = filled(match.symptom, groups)
        cause.message = f"{_listed(keys)}: {message}" if keys and "key" not in match.groups else message
        cause.codes = list(dict.fromkeys([*match.symptom.codes, *cause.codes]))
        is_own = phases.library_of(chosen.raised) == "script" and match.symptom.confidence == "possible"
        cause.library = match.symptom.library or cause.library
        cause.confidence = "likely" if is_own else match.symptom.confidence
    elif reporting:
        record = reporting[0]
        summary, cause.help = of_rule(record.rules[0])
        about = f"{_listed(keys)}: {summary}" if keys else summary
        cause.message = f"{about} {record.library} raises {chosen.raised.short_name}{_in(record)}."
        cause.library, cause.confidence = _library(record), "certain" if len(codes) == 1 else "likely"
        if match is not None and not codes.isdisjoint(match.symptom.codes):
            cause.library = match.symptom.library
    elif records:
        record = records[0]
        text = f": {first_line(chosen.raised)}" if first_line(chosen.raised) else ""
        cause.message = f"{record.library} raises {chosen.raised.short_name}{_in(record)}{text}"
        cause.help = record.because or ""
        cause.library = "script" if record.reason == "script" else _library(record)
    elif cause.library == "script" and chosen.raised.frames:
        place = phases.script_place(chosen.raised)
        where = f" at {place.name}:{place.line}" if place is not None else ""
        cause.message = f"The script itself raises {chosen.raised.short_name}{where}: {first_line(chosen.raised)}"
        cause.help = "It is the script's own check or error; the lines above that one say when."
    else:
        cause.message = _own_words(chosen.raised, phases.script_place(chosen.raised), cause.phase)
        cause.help = "Nothing more is known of this exception; its traceback is in the log."
        cause.confidence = "possible"


def _name_defects(cause: Cause, defects: Sequence[AdvisoryRecord], codes: list[str]) -> None:
    """Give a cause the words of an advisory; several raise the same, and what decides is not in the log."""
    first, *others = defects
    cause.message = advisory_words.title(first)
    cause.help = " ".join(
        [advisory_words.help_of(first), *(f"Or {one['id']}: {advisory_words.title(one)}." for one in others)]
    )
    cause.codes, cause.advisory, cause.library = codes, first["id"], next(iter(first["libraries"]))
    cause.key, cause.confidence = None, "possible" if others else "likely"


def _listed(keys: Sequence[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys[:3])


def _in(record: ExceptionRecord) -> str:
    function = record.function.rpartition(".")[2]
    return f" in {function}" if function else ""


def _library(record: ExceptionRecord) -> str:
    """Whose code it is: of torch, pydantic or json below a library of the stack, that library."""
    return record.through.partition("/")[0] if record.through else record.library


def _own_words(raised: RaisedException, place: phases.ScriptLine | None, phase: str | None) -> str:
    where = f" at {place.name}:{place.line}" if place is not None else ""
    when = f" in {phase}" if phase else ""
    return f"{shown_exception(raised)}{where}{when}"
