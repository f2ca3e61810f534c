"""Makes models small where a script makes them, so that no weights are needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence


def install(plan: Plan, presence: Presence) -> None:
    """Hook what makes models."""
