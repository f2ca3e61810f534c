"""``ds-lint doctor`` for people: each cause with what shows it and what to write instead, the best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.output.terminal import FRAME, QUIET, STRONG
from ds_lint.output.text import counted, shown_path, visible, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.logs.cause import Cause
    from ds_lint.logs.diagnosis import Diagnosis
    from ds_lint.output.terminal import Terminal

_STYLES = {"certain": "1;31", "likely": "1;35", "possible": "1;94"}
_MOST = 3  # causes that are shown at length


def lines(diagnosis: Diagnosis, terminal: Terminal) -> Iterator[str]:
    """The lines of the text."""
    for cause in diagnosis.causes[:_MOST]:
        yield from _of_cause(cause, terminal)
        yield ""
    for cause in diagnosis.causes[_MOST:]:
        yield from _wrapped(f"also {cause.confidence}: {_coded(cause)}", terminal, 0)
    for one in diagnosis.contradictions:
        finding, place = one.reported.finding, f"{shown_path(one.path)}:{one.line}"
        text = f"contradicted: {finding.code} says that the run stops before its first step, but {place} shows a step"
        yield from _wrapped(text, terminal, 2)
    yield terminal.paint(_summary(diagnosis), QUIET)


def _of_cause(cause: Cause, terminal: Terminal) -> Iterator[str]:
    head = terminal.paint(cause.confidence, _STYLES[cause.confidence])
    first, *rest = wrap(_coded(cause), terminal.width, taken=len(cause.confidence) + 2, indent=2)
    yield f"{head}: {terminal.paint(first, STRONG)}"
    yield from (terminal.paint(line, STRONG) for line in rest)
    for label, text in _facts(cause):
        yield from _labelled(label, text, terminal)


def _coded(cause: Cause) -> str:
    code = f"{cause.codes[0]} " if cause.codes else ""
    return visible(f"{code}{cause.message}")


def _facts(cause: Cause) -> Iterator[tuple[str, str]]:
    if cause.rank is not None:
        yield "first", f"rank {cause.rank}"
    if cause.followers:
        ways: dict[str, list[str]] = {}
        for follower in cause.followers:
            ways.setdefault(follower.how, []).append(str(follower.rank))
        yield "then", "; ".join(f"rank {', '.join(ranks)} {how}" for how, ranks in ways.items())
    if cause.exception:
        when = f", in {cause.phase}" if cause.phase else ""
        yield "ended" if cause.is_of_end else "raised", f"{cause.exception}{when}"
    if cause.path is not None:
        key = f" ({cause.key})" if cause.key else ""
        yield "at", f"{shown_path(cause.path)}:{cause.line}{key}"
    for one in cause.evidence[:1]:
        yield "log", f"{shown_path(one.path)}:{one.line}"
    for text in cause.memory:
        yield "memory", text
    if cause.help:
        yield "help", cause.help
    if len(cause.codes) > 0:
        yield "more", f"ds-lint explain {cause.codes[0]}"


def _labelled(label: str, text: str, terminal: Terminal) -> Iterator[str]:
    first, *rest = wrap(visible(text.replace("\n", " ")), terminal.width, taken=10, indent=10)
    yield f"  {terminal.paint(f'{label:>6}', FRAME)}  {first}"
    yield from rest


def _wrapped(text: str, terminal: Terminal, indent: int) -> Iterator[str]:
    yield from wrap(visible(text), terminal.width, taken=0, indent=indent)


def _summary(diagnosis: Diagnosis) -> str:
    count = sum(log.lines for log in diagnosis.logs)
    logs = counted(len(diagnosis.logs), "log")
    number = "1 line" if count == 1 else f"{count:,} lines"
    ranks = f", {counted(diagnosis.world_size, 'rank')}" if diagnosis.world_size else ""
    releases = "".join(f", {name} {release}" for name, release in diagnosis.releases.items())
    unread = f", {diagnosis.unread} not readable" if diagnosis.unread else ""
    found = "No cause found" if not diagnosis.causes else counted(len(diagnosis.causes), "cause")
    others = f"; ds-lint check has {counted(len(diagnosis.others), 'other finding')}" if diagnosis.others else ""
    return f"{found} in {logs} ({number}{ranks}{releases}{unread}){others}."
