"""What a config is checked against."""

from __future__ import annotations

from ds_lint.facts import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts.own_framework import FrameworkCopies
    from ds_lint.facts.policy import Policy
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.targets.pin import Pin


class Basis:
    """What a config is checked against: the libraries, the stack (None: unknown), and what is known beside the config.

    ``before`` is what an older release knows that the newest is compared with: the one that is upgraded from
    (``is_upgrade``), or the oldest of a range. ``policies`` are JSON Schemas of the organisation. ``pins`` has what is
    pinned of the libraries and of what they import. ``copies`` are the fields of the frameworks that projects carry, as
    far as they have been read. ``skipped_advisories`` are the ids of those that are not reported.
    """

    __slots__ = (
        "before", "copies", "facts", "is_upgrade", "knowledge", "pins", "policies", "skipped_advisories", "stack",
    )  # fmt: skip

    def __init__(
        self,
        knowledge: Knowledge,
        stack: Stack | None = None,
        facts: Facts | None = None,
        *,
        policies: Sequence[Policy] = (),
        pins: Mapping[str, Pin] | None = None,
        before: Knowledge | None = None,
        is_upgrade: bool = False,
        copies: FrameworkCopies | None = None,
        skipped_advisories: frozenset[str] = frozenset(),
    ) -> None:
        self.knowledge = knowledge
        self.stack = stack
        self.facts = facts or Facts()
        self.policies = policies
        self.pins = pins or {}
        self.before = before
        self.is_upgrade = is_upgrade
        self.copies: FrameworkCopies = {} if copies is None else copies
        self.skipped_advisories = skipped_advisories

    def but(self, **changes: Any) -> Basis:
        """The same, with other values for what is named."""
        return Basis(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})
