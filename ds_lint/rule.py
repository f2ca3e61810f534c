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
    """A check with its identity.

    ``keys`` are the top-level keys without any of which it cannot fire. ``is_default`` is false for advice and other
    information that somebody has to select.
    """

    __slots__ = ("check", "code", "effects", "is_about_syntax", "is_default", "keys", "name", "severity")

    def __init__(
        self,
        code: str,
        name: str,
        severity: str,
        effects: tuple[str, ...],
        keys: frozenset[str],
        check: Check,
        *,
        is_default: bool = True,
    ) -> None:
        self.code = code
        self.is_about_syntax = code.startswith("DS0")
        self.name = name
        self.severity = severity
        self.effects = effects
        self.keys = keys
        self.check = check
        self.is_default = is_default


def rule(
    code: str, name: str, *, severity: str, effects: tuple[str, ...], keys: tuple[str, ...] = (), default: bool = True
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule; its page is ``rules/<code>-<name>.md``."""

    def register(check: Check) -> Check:
        RULES.append(Rule(code, name, severity, effects, frozenset(keys), check, is_default=default))
        return check

    return register
