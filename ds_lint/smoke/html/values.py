"""The cells of a check on the page: what was expected and what was observed, by rank or by step where they differ."""

from __future__ import annotations

from ds_lint.output.html_page import text
from ds_lint.output.smoke import formatted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.diagnostics.verdict import Check

SHOWN_RANKS = 8  # with values of their own; more are a range, or the first of them
NOT_SET = '<span class="quiet">not set</span>'
_BY_STEP = {  # checks whose lists have a value for each step, and what that is
    "learning-rate": "steps", "loss": "steps", "loss-scale": "steps", "clipping": "steps", "batch": "micro steps"
}  # fmt: skip


def expected(check: Check, ranks: int) -> str:
    """What a check was made against; where nothing sets it, the observed value passes alone."""
    if check.expected is None:
        return NOT_SET if check.observed is not None else ""
    shown = _value(check, check.expected, ranks)
    return f"at most {shown}" if check.id == "memory" and isinstance(check.expected, dict) else shown


def observed(check: Check, ranks: int) -> str:
    """What the run showed."""
    return "" if check.observed is None else _value(check, check.observed, ranks)


def _value(check: Check, value: object, ranks: int) -> str:
    if isinstance(value, dict):
        order = [*(check.expected if isinstance(check.expected, dict) else ()), *value]
        kinds = [kind for kind in dict.fromkeys(order) if value.get(kind)]
        return _lines(f"{kind} {formatted(value[kind], check.unit)}" for kind in kinds)
    if isinstance(value, list) and value:
        steps = _BY_STEP.get(check.id)
        unit = None if steps == "steps" else check.unit
        is_by_rank = steps is None and len(value) == ranks > 1 and not any(isinstance(one, str) for one in value)
        if len(value) > 1 and all(one == value[0] for one in value):
            if steps is not None:
                return f"{text(formatted(value[0], unit))} in each of {len(value)} {steps}"
            if is_by_rank:
                shown = _value(check, value[0], ranks)
                return f"on each rank {shown}" if isinstance(value[0], dict) else f"{shown} on each rank"
        if is_by_rank:
            return _by_rank(check, value)
        return text(formatted(value, unit))
    return text(formatted(value, check.unit))


def _by_rank(check: Check, values: list[object]) -> str:
    """A line for each rank, or the least and the most of many."""
    numbers = [one for one in values if isinstance(one, (int, float))]
    if len(values) > SHOWN_RANKS and len(numbers) == len(values):
        return text(f"{formatted(min(numbers))} to {formatted(max(numbers), check.unit)} on {len(values):,} ranks")
    lines = [f"rank {rank}: {formatted(one, check.unit)}" for rank, one in enumerate(values[:SHOWN_RANKS])]
    more = len(values) - len(lines)
    return _lines([*lines, f"and {more:,} more ranks"] if more else lines)


def _lines(entries: Iterable[str]) -> str:
    return f'<ul class="plain">{"".join(f"<li>{text(entry)}</li>" for entry in entries)}</ul>'
