"""Keys that the run never read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.records.failure import Failure
from ds_lint.smoke.verify.check import SmallRun
from ds_lint.source.spelling import is_comment
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.verify.check import ObservedRun


def keys(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Keys that no part of the run read; the known ones of them belong to features that the run does not use."""
    unread = set(run.train[0].unread)
    if isinstance(run, SmallRun) and not isinstance(run.resumed, Failure):
        unread.intersection_update(run.resumed[0].unread)
    unknown = {dotted(visit.path): is_comment(visit.member.key) for visit in expectation.config.unknown}
    strange = sorted(key for key in unread if unknown.get(key) is False)
    rest = sorted(unread - unknown.keys())
    for key in strange:
        yield Check(
            "keys",
            "warn",
            key,
            "read",
            "never read",
            None,
            f"no library read `{key}` during the run",
            "Delete the key, or correct its name.",
        )
    yield Check(
        "keys",
        "pass",
        None,
        "read",
        f"not used in this run: {', '.join(rest)}"
        if rest
        else f"{len(strange)} never read"
        if strange
        else "every key read",
        None,
        "the run read every key"
        if not (rest or strange)
        else f"this run does not use {len(rest)} known {'key' if len(rest) == 1 else 'keys'}: {', '.join(rest)}"
        if rest
        else "the run read all other keys",
    )
