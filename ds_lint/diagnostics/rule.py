"""The registry of rules: one decorated function for each rule."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ds_lint.diagnostics.finding import Effect, Foreign, Kind, Severity
    from ds_lint.diagnostics.problem import Problem

    Check = Callable[[Any], Iterator[Problem]]  # of a Config, which is above the records

RULES: list[Rule] = []


class Rule:
    """A check with its identity.

    ``keys`` are the top-level keys without any of which it cannot fire. ``is_default`` is false for advice and other
    information that is off unless it is selected. ``preview`` is the release of ds-lint in which a rule entered
    preview, in which it is off without `preview = true`; None for a rule that is stable. ``alone_on`` names the
    kind of file that is not a config, which no other rule checks, and ``also_on`` one that it checks besides
    configs. The problems of a rule that ``is_elsewhere`` are about a script or a launch: they are shown at the
    first of their related places, and the config is a related place.
    """

    __slots__ = (
        "alone_on",
        "also_on",
        "check",
        "code",
        "effects",
        "family",
        "is_default",
        "is_elsewhere",
        "is_on",
        "keys",
        "kind",
        "name",
        "preview",
        "severity",
    )

    def __init__(
        self,
        code: str,
        name: str,
        severity: Severity,
        effects: tuple[Effect, ...],
        keys: frozenset[str],
        check: Check,
        *,
        kind: Kind = "config",
        alone_on: Foreign | None = None,
        also_on: Foreign | None = None,
        is_default: bool = True,
        preview: str | None = None,
        is_elsewhere: bool = False,
    ) -> None:
        self.code = code
        self.name = name
        self.severity = severity
        self.effects = effects
        self.keys = keys
        self.family = check.__module__.rpartition(".")[2]  # the module in ds_lint/checks
        self.kind = kind
        self.alone_on = alone_on
        self.also_on = also_on
        self.preview = preview
        self.check = check
        self.is_default = is_default
        self.is_elsewhere = is_elsewhere
        self.is_on = is_default and preview is None  # runs without any choice of rules

    @property
    def is_about_config(self) -> bool:
        """Whether it runs with every config; what is about the project is reported with its first config."""
        return self.kind in ("config", "project")


def rule(
    code: str,
    name: str,
    *,
    severity: Severity,
    effects: tuple[Effect, ...],
    keys: tuple[str, ...] = (),
    kind: Kind = "config",
    alone_on: Foreign | None = None,
    also_on: Foreign | None = None,
    default: bool = True,
    preview: str | None = None,
    elsewhere: bool = False,
) -> Callable[[Check], Check]:
    """Register the decorated function as a rule; its page is ``rules/<code>-<name>.md``."""

    def register(check: Check) -> Check:
        one = Rule(
            code,
            name,
            severity,
            effects,
            frozenset(keys),
            check,
            kind=kind,
            alone_on=alone_on,
            also_on=also_on,
            is_default=default,
            preview=preview,
            is_elsewhere=elsewhere,
        )
        RULES.append(one)
        return check

    return register


def named(word: str) -> Rule | None:
    """The rule of this code or name among those that are imported, or None."""
    return next((one for one in RULES if word.lower() in (one.code.lower(), one.name)), None)
