"""What a run takes after changes, read from the config as they leave it, and only if the stack accepts that."""

from __future__ import annotations

from ds_lint.facts import lora_requests
from ds_lint.facts.lora import Adapters, NoAdapters
from ds_lint.footprint import setup as setups
from ds_lint.footprint.activations import AdaptedLayers
from ds_lint.footprint.advice import advice
from ds_lint.footprint.capacity import capacity
from ds_lint.semantics.rewritten import rewritten, with_arguments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.facts import Facts
    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.changes import SetupChange, Write
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.semantics.config import Config

_USUAL_RANK = 16  # of adapters
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
            self._known[key] = self._read(list(writes.values()), changes)
        return self._known[key]

    def _read(self, writes: list[Write], changes: Sequence[SetupChange]) -> TrainingSetup | None:
        setup = changes[-1].setup
        values = {tuple(one.key.split(".")): one.value for one in writes if one.place == "config"}
        if any(self.config.knowledge.find(path) is None for path in values):  # the release does not know it
            return None
        changed = rewritten(self.config, values, self._facts(writes))
        found = setups.of(changed, ranks=setup.world)
        if self._before is None:
            self._before = self.rejections(self.config)
        if found is None or not self.rejections(changed) <= self._before:
            return None
        if setup.is_pipeline and found.stage > 1:  # of which a pipeline takes none
            return None
        found = found._replace(
            tensors=self.setup.tensors,
            sequence_length=self.setup.sequence_length,
            ranks=setup.ranks,
            nodes=setup.nodes,
            part=setup.part,
        )
        carried = {name: getattr(setup, name) for change in changes for name in change.carried}
        if found.uses_zero_init != setup.uses_zero_init:
            carried["uses_zero_init"] = setup.uses_zero_init
        return found._replace(**carried)

    def _facts(self, writes: list[Write]) -> Facts:
        facts = with_arguments(self.config.facts, {one.key: one.value for one in writes if one.place == "arguments"})
        of_launch = {one.key: one.value for one in writes if one.place == "launch"}
        for name in ("world_size", "nodes"):
            if isinstance(value := of_launch.get(name), int):
                setattr(facts, name, value)
        if any(one.key in _MICRO for one in writes):
            facts.micro_batch = None
        if any(one.key == "gradient_checkpointing" for one in writes):
            facts.activation_checkpointing = None
        if any(one.key == "optim" for one in writes):
            facts.named_optimizer = None
        return facts


def adapted(config: Config, setup: TrainingSetup) -> TrainingSetup | None:
    """The setup that trains adapters of a usual rank where peft puts them; None if it does, or peft has none."""
    if setup.adapters is not None or lora_requests.requested(config.facts) is not None:
        return None
    facts = config.facts.copy()
    facts.lora = Adapters(_USUAL_RANK)
    try:
        tensors = setups.tensors(facts)
    except NoAdapters:
        return None
    if not tensors:
        return None
    found = setups.with_model(setup, tensors, setup.architecture)
    return found._replace(adapters=AdaptedLayers(_USUAL_RANK, is_everywhere=False))


def advised(
    config: Config, setup: TrainingSetup, rejections: Callable[[Config], set[str]], most: int | None = None
) -> list[Advice]:
    """What makes the run of a config fit on the machine that the facts tell of."""
    gpu = config.facts.gpu
    return advice(
        setup,
        capacity(config.facts),
        Applied(config, setup, rejections),
        has_bf16=gpu is None or gpu.supports_bf16,
        adapted=lambda: adapted(config, setup) if most is None else None,
        most=most,
    )
