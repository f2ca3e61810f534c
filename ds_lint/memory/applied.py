"""What a run takes after changes, read from the config as they leave it, and only if the stack accepts that."""

from __future__ import annotations

from ds_lint.memory import setup as setups
from ds_lint.semantics.rewritten import rewritten, with_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.facts import Facts
    from ds_lint.memory.advice import SetupChange, Write
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.semantics.config import Config

_MICRO = ("train_micro_batch_size_per_gpu", "per_device_train_batch_size")


class Applied:
    """The setups of a config after changes. ``rejections`` names what the stack rejects in a config."""

    def __init__(self, config: Config, setup: TrainingSetup, rejections: Callable[[Config], set[str]]) -> None:
        self.config = config
        self.setup = setup
        self.rejections = rejections
        self._before: set[str] | None = None
        self._known: dict[str, TrainingSetup | None] = {}

    def __call__(self, changes: Sequence[SetupChange]) -> TrainingSetup | None:
        """The setup after changes; None if the stack rejects what they leave, or nothing is known of it."""
        writes = {(one.place, one.key): one for change in changes for one in change.writes}
        key = repr(sorted((str(place), name, repr(one.value)) for (place, name), one in writes.items()))
        if key not in self._known:
            self._known[key] = self._read(list(writes.values()), changes[-1].setup)
        return self._known[key]

    def _read(self, writes: list[Write], setup: TrainingSetup) -> TrainingSetup | None:
        values = {tuple(one.key.split(".")): one.value for one in writes if one.place == "config"}
        changed = rewritten(self.config, values, self._facts(writes))
        found = setups.of(changed, ranks=setup.world)
        if self._before is None:
            self._before = self.rejections(self.config)
        if found is None or not self.rejections(changed) <= self._before:
            return None
        if setup.part.degrees.stages > 1 < found.stage:  # of which a pipeline takes none
            return None
        found = found._replace(
            tensors=self.setup.tensors,
            sequence_length=self.setup.sequence_length,
            ranks=setup.ranks,
            nodes=setup.nodes,
            part=setup.part,
        )
        if any(one.place == "script" for one in writes):
            found = found._replace(is_checkpointed=setup.is_checkpointed)
        if found.uses_zero_init != setup.uses_zero_init:
            found = found._replace(uses_zero_init=setup.uses_zero_init)
        return found

    def _facts(self, writes: list[Write]) -> Facts:
        facts = with_arguments(self.config.facts, {one.key: one.value for one in writes if one.place == "arguments"})
        of_launch = {one.key: one.value for one in writes if one.place == "launch"}
        for name in ("world_size", "nodes"):
            if isinstance(value := of_launch.get(name), int):
                setattr(facts, name, value)
        if any(one.key in _MICRO for one in writes):
            facts.micro_batch = None
        return facts
