"""What the models that FSDP shards need of the engines of their process, among which they count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.probe.frameworks import Frameworks
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.probe.presence import Presence


class Owner:
    """What the models of a process need of the engines of that process: their numbers, and the end of the run."""

    def __init__(
        self,
        plan: Plan,
        presence: Presence,
        maker: Frameworks,
        add: Callable[[Any], int],
        made_step: Callable[[], None],
    ) -> None:
        self.plan, self.presence, self.maker = plan, presence, maker
        self.add, self.made_step = add, made_step
