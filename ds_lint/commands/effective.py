"""``ds-lint effective``: print a config as the stack uses it, or what differs between two."""

from __future__ import annotations

import sys

from ds_lint import __version__
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.one_config import UnreadableConfigError, config_of_launch, one_config
from ds_lint.commands.report import print_text, write_notes
from ds_lint.linter import engine
from ds_lint.output.effective_values import as_object, lines
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.record import Record
from ds_lint.semantics.effective import differences, effective
from ds_lint.session.session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.output.terminal import Terminal
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.effective import Difference, Value
    from ds_lint.session.options import Options

    Json = dict[str, object]

VERSION = 1  # of the JSON, raised when a reader of it would have to change


class EffectiveOutcome(Record):
    """One config, its values, and the findings that reject it."""

    config: Config
    values: list[Value]
    rejected: list[Finding]


def run(options: Options, *, against: str | None, everything: bool) -> int:
    """Print, and return the exit status: 1 if two configs differ, 2 if one cannot be read."""
    (path,) = options.paths
    everything = everything or against is not None  # a section that one of two leaves out has its defaults
    try:
        session = Session(options)
        outcome = _outcome(path, session, everything=everything)
        other = _outcome(against, session, everything=everything) if against is not None else None
    except (*WRONG_USAGE, UnreadableConfigError) as error:
        return complain(error)
    different = differences(outcome.values, other.values) if other is not None else None
    documents = [one.config.document for one in (outcome, other) if one is not None]
    if options.output_format == "json":
        sys.stdout.write(harmless(_as_json(outcome, different, session.notes), JSON, documents))
        write_notes(session.notes, documents)
    else:
        terminal = terminal_of(sys.stdout)
        rows = lines(outcome.values, terminal) if different is None else _against(different, terminal)
        print_text(harmless("".join(f"{row}\n" for row in rows), documents=documents), sys.stdout)
        write_notes(_notes([outcome, other], session), documents)
    return 1 if different else 0


def _outcome(path: str, session: Session, *, everything: bool) -> EffectiveOutcome:
    """The outcome of one file; raises OSError if there is none, UnreadableConfigError if no library can read it."""
    return outcome_of(one_config(path, session), session, everything=everything)


def outcome_of(config: Config, session: Session, *, everything: bool) -> EffectiveOutcome:
    """The values of a config, or of the one that a launch makes or names, and what rejects it."""
    if config.accelerate is not None:
        config = config_of_launch(config, config.accelerate, session)
    rejected = [finding for finding in engine.check(config) if finding.effect == "rejected"]
    return EffectiveOutcome(config, effective(config, everything=everything), rejected)


def _against(different: list[Difference], terminal: Terminal) -> list[str]:
    """Two lines for each key, as a diff has them; one for a key that only one config has."""
    signed = [(sign, value) for each in different for sign, value in (("- ", each.one), ("+ ", each.other)) if value]
    return lines([value for _, value in signed], terminal, [sign for sign, _ in signed])


def _notes(outcomes: list[EffectiveOutcome | None], session: Session) -> Iterator[str]:
    """Notes on what the values depend on, and on what keeps a config from a run."""
    yield from session.notes
    for choice in session.choices.values():
        for library, (first, last) in choice.ranges.items():
            yield f"{library} {first} to {last} are possible; the values are those of {last}"
    for outcome in outcomes:
        if outcome is None:
            continue
        path = outcome.config.document.path
        for finding in outcome.rejected:
            yield f"{path} is rejected: {finding.code} {finding.message}"
        if outcome.config.stack is None:
            yield f"{path}: shown as it is written, because the stack is unknown (set --stack)"
        elif outcome.config.stack == "trainer" and outcome.config.facts.training is None:
            yield f"{path}: ? depends on the training arguments (set --trainer-args)"


def _as_json(outcome: EffectiveOutcome, different: list[Difference] | None, notes: list[str]) -> str:
    from json import dumps

    config = outcome.config
    described: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        **({"notes": notes} if notes else {}),
        "path": config.document.path,
        "stack": config.stack,
        "target": config.knowledge.target,
        "facts": config.facts.origins,
        "rejected": [{"code": one.code, "name": one.name, "message": one.message} for one in outcome.rejected],
    }
    if different is None:
        described["values"] = [as_object(value) for value in outcome.values]
    else:
        described["differences"] = [
            {"key": each.key, "one": each.one and as_object(each.one), "other": each.other and as_object(each.other)}
            for each in different
        ]
    return dumps(described, indent=2) + "\n"
