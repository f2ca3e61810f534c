"""What the outcome of a claim means: whether it is right, and whether two runs came to the same."""

from __future__ import annotations

import contextlib
import re

SHARE = 0.05  # of a number, by which runs on other machines may differ
_LEAST = 0.001  # claims print three decimals
_EXCEPTION = re.compile(r"([\w.]*\.)?(\w+)(: |$)")
_VARYING = re.compile(r"0x[0-9a-f]+|[\w.-]*/[^\s'\"]*|\d+")  # addresses, paths, ports, sizes
_COMPARED = 40  # characters of the message of an exception


def is_right(outcome: str, right: str) -> bool:
    """Whether an outcome is that of a release without the defect."""
    found, wanted = _number(outcome), _number(right)
    if found is None or wanted is None:
        return outcome == right
    return _is_near(found, wanted)


def agree(outcome: str, measured: str, right: str) -> bool:
    """Whether a run came to what was measured: the same number or the same kind of wrong one, or the same exception."""
    if is_right(measured, right) or is_right(outcome, right):
        return is_right(measured, right) and is_right(outcome, right)
    found, known, wanted = _number(outcome), _number(measured), _number(right)
    if found is None or known is None:
        (kind, message), (known_kind, known_message) = _kernel(outcome), _kernel(measured)
        longer, shorter = sorted((message, known_message), key=len, reverse=True)
        return kind == known_kind and longer.startswith(shorter)  # of one, less may have been kept
    if _is_near(found, known) or wanted is None:
        return _is_near(found, known)
    return (found < wanted, found > wanted) == (known < wanted, known > wanted)


def _number(text: str) -> float | None:
    with contextlib.suppress(ValueError):
        return float(text)
    return None


def _is_near(one: float, other: float) -> bool:
    return one == other or abs(one - other) <= max(SHARE * abs(other), _LEAST)


def _kernel(outcome: str) -> tuple[str, str]:
    """The exception of an outcome and its message, without what differs between runs and between machines."""
    exception = _EXCEPTION.match(outcome)
    if exception is None or not exception[3].strip():
        return outcome.partition(" (")[0].lower(), ""
    return exception[2], _VARYING.sub("", outcome[exception.end() :]).lstrip("[ ")[:_COMPARED].strip()
