"""``ds-lint effective``: print a config as the stack will use it, or what differs between two."""

from __future__ import annotations

import os
import sys

from ds_lint import __version__, linting
from ds_lint.choice import UnknownRelease, choose
from ds_lint.effective import differences, effective
from ds_lint.facts import Facts, UnreadableFact
from ds_lint.facts.gathering import gather
from ds_lint.facts.training import UNKNOWN
from ds_lint.output.terminal import QUIET, terminal_of
from ds_lint.output.text import visible
from ds_lint.spelling import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.config import Config
    from ds_lint.effective import Difference, Value
    from ds_lint.facts import Sources
    from ds_lint.finding import Finding
    from ds_lint.output.terminal import Terminal

    Json = dict[str, object]

VERSION = 1  # of the JSON, raised when a reader of it would have to change
WIDEST = 60  # columns of a value, beyond which its source is not aligned


class Options:
    """What the command line of ``effective`` asks for."""

    __slots__ = ("against", "everything", "output_format", "path", "sources", "stack", "versions")

    def __init__(
        self,
        path: str,
        *,
        sources: Sources,
        stack: str | None = None,
        versions: dict[str, str] | None = None,
        against: str | None = None,
        everything: bool = False,
        output_format: str = "text",
    ) -> None:
        self.path = path
        self.against = against
        self.stack = stack
        self.versions = versions or {}
        self.sources = sources
        self.everything = everything
        self.output_format = output_format


class _Outcome:
    """One config, its values, what is known to refuse it, and what there is to say of the releases."""

    __slots__ = ("config", "notes", "rejected", "values")

    def __init__(self, config: Config, values: list[Value], rejected: list[Finding], notes: list[str]) -> None:
        self.config = config
        self.values = values
        self.rejected = rejected
        self.notes = notes


def run(options: Options) -> int:
    """Print, and return the exit status: 1 where two configs differ, 2 where one cannot be read."""
    try:
        facts = gather(options.sources) if options.sources else Facts()
        outcome = _outcome(options.path, options, facts)
        other = _outcome(options.against, options, facts) if options.against is not None else None
    except (UnknownRelease, UnreadableFact) as error:
        sys.stderr.write(f"ds-lint: {error}\n")
        return 2
    different = differences(outcome.values, other.values) if other is not None else None
    if options.output_format == "json":
        sys.stdout.write(_as_json(outcome, different))
    else:
        terminal = terminal_of(sys.stdout)
        lines = _lines(outcome.values, terminal) if different is None else _against(different, terminal)
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        for one in (outcome, other):
            if one is not None:
                _note(one)
    return 1 if different else 0


def _outcome(path: str, options: Options, facts: Facts) -> _Outcome:
    """What becomes of one file; raises OSError where it cannot be read."""
    if path == "-":
        document = linting.read(sys.stdin.buffer.read(), "<stdin>")
    else:
        with open(path, "rb") as file:
            document = linting.read(file.read(), path)
    choice = choose(os.path.dirname(document.path), options.versions)
    target = choice.newest
    config = linting.config_of(document, target=target, stack=options.stack, facts=facts)
    report = linting.lint_document(document, target=target, stack=options.stack, facts=facts)
    rejected = [finding for finding in report.findings if finding.effect == "rejected"]
    notes = list(choice.notes)
    for library, (first, last) in choice.ranges.items():
        notes.append(f"{library} {first} to {last} are possible, and {last} is shown")
    return _Outcome(config, effective(config, everything=options.everything), rejected, notes)


def _lines(values: list[Value], terminal: Terminal) -> list[str]:
    texts = [visible(f"{value.key} = {_shown(value)}") for value in values]
    width = max((len(text) for text in texts if len(text) <= WIDEST), default=0)
    return [
        f"{text.ljust(width)}   {terminal.paint(visible(value.source), QUIET)}"
        for text, value in zip(texts, values, strict=True)
    ]


def _against(different: list[Difference], terminal: Terminal) -> list[str]:
    """Two lines for each key, as a diff has them; one for a key that only one config has."""
    signed = [(sign, value) for each in different for sign, value in (("-", each.one), ("+", each.other)) if value]
    lines = _lines([value for _, value in signed], terminal)
    return [f"{sign} {line}" for (sign, _), line in zip(signed, lines, strict=True)]


def _shown(value: Value) -> str:
    return "?" if value.value is UNKNOWN else as_json(_without_unknown(value.value))


def _note(outcome: _Outcome) -> None:
    """Say what stands between this config and a run, and what the values rest on, beside the list of them."""
    path = visible(outcome.config.document.path)
    for note in outcome.notes:
        sys.stderr.write(f"note: {visible(note)}\n")
    for finding in outcome.rejected:
        sys.stderr.write(f"note: {path} is refused: {finding.code} {visible(finding.message)}\n")
    if outcome.config.stack is None:
        sys.stderr.write(f"note: {path}: shown as it is written, because nobody knows who loads it (give --stack)\n")
    elif outcome.config.stack == "trainer" and outcome.config.facts.training is None:
        sys.stderr.write(f"note: {path}: ? follows from the training arguments (give --trainer-args)\n")


def _as_json(outcome: _Outcome, different: list[Difference] | None) -> str:
    from json import dumps

    config = outcome.config
    described: Json = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": __version__},
        "path": config.document.path,
        "stack": config.stack,
        "target": config.knowledge.target,
        "facts": config.facts.origins,
        "rejected": [{"code": one.code, "name": one.name, "message": one.message} for one in outcome.rejected],
    }
    if different is None:
        described["values"] = [_value(value) for value in outcome.values]
    else:
        described["differences"] = [
            {"key": each.key, "one": each.one and _value(each.one), "other": each.other and _value(each.other)}
            for each in different
        ]
    return dumps(described, indent=2) + "\n"


def _value(value: Value) -> Json:
    is_known = value.value is not UNKNOWN
    return {
        "key": value.key,
        "is_known": is_known,
        "value": _without_unknown(value.value) if is_known else None,
        "by": value.by,
        "source": value.source,
    }


def _without_unknown(value: object) -> object:
    """A value as JSON can hold it: what is unknown in an array is null, and numbers without end are texts."""
    if isinstance(value, list):
        return [_without_unknown(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124 - NaN
        return str(value)
    return None if value is UNKNOWN else value
