"""The registry of rules: one decorated function a rule."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.checks.problem import Problem
    from ds_lint.config import Config

    Check = Callable[[Config], Iterator[Problem]]

RULES: list[Rule] = []


class Rule:
    """A check with its identity. ``keys`` are the top-level keys without any of which it cannot fire."""

    __slots__ = ("check", "code", "effects", "is_about_syntax", "keys", "name", "severity")

    def __init__(
        self, code: str, name: str, severity: str, effects: tuple[str, ...], keys: frozenset[str], check: Check
    ) -> None:
        self.code = code
        self.is_about_syntax = code.startswith("DS0")
        self.name = name
        self.severity = severity
        self.effects = effects
        self.keys = keys
        self.check = check


def rule(
    code: str, name: str, *, severity: str, effects: tuple[str, ...], keys: tuple[str, ...] = ()
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule; its page is ``rules/<code>-<name>.md``."""

    def register(check: Check) -> Check:
        RULES.append(Rule(code, name, severity, effects, frozenset(keys), check))
        return check

    return register
