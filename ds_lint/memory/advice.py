"""What makes a run fit: changes in the order of the guides, from what costs the least time to what costs the most.

Each change is one ``_replace`` of the setup, so that what it brings is the estimate of another setup. All that suffice
alone are given; if none does, the shortest combination, of several the first in that order.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial
from itertools import combinations
from typing import NamedTuple

from ds_lint.memory.estimate import estimate
from ds_lint.memory.partitioned import INIT_FLAG
from ds_lint.memory.setup import Offload
from ds_lint.memory.sweep import at_stage
from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Literal, TypeAlias

    from ds_lint.memory.capacity import Bound, Capacity
    from ds_lint.memory.estimate import Estimate
    from ds_lint.memory.setup import TrainingSetup

    Place: TypeAlias = Literal["config", "arguments", "launch", "script"]
    # The changes that a step can make of a setup, from the mildest to the farthest.
    Step: TypeAlias = Callable[[TrainingSetup], Iterator["SetupChange"]]
    # The setup of a run after changes; None if the stack rejects what they leave.
    Apply: TypeAlias = Callable[[Sequence["SetupChange"]], TrainingSetup | None]
    Tried: TypeAlias = tuple[tuple["SetupChange", ...], Estimate]

_ZERO = "zero_optimization"
_MOST_RANKS = 1024
_UNTOUCHED = ("tensors", "architecture", "optimizer_parameters")  # fields of a setup that no change touches
_USUAL_ON_NODE = 8  # GPUs
_NVME_PATH = "/local_nvme"  # what the guides of Transformers call it
_CPU = Offload("cpu", is_pinned=True)
# With the defaults of ``deepspeed/runtime/zero/offload_config.py``.
_OPTIMIZER_ON_NVME = Offload("nvme", is_pinned=True, buffer_count=4)
_PARAMETERS_ON_NVME = Offload("nvme", is_pinned=True, buffer_count=5, buffer_size=10**8, kept=10**9)


class Write(NamedTuple):
    """A key to write, with its value: in the config, the training arguments, the launch, or a call in the script."""

    place: Place
    key: str
    value: object


class SetupChange(NamedTuple):
    """A change of a setup, in words and as what to write."""

    words: str
    setup: TrainingSetup
    writes: tuple[Write, ...]


class Advice(NamedTuple):
    """Changes that together make a run fit: surely, or else likely."""

    changes: tuple[SetupChange, ...]
    estimate: Estimate
    is_sure: bool

    @property
    def words(self) -> str:
        """The changes in words."""
        return ", ".join(change.words for change in self.changes)

    @property
    def writes(self) -> list[Write]:
        """What to write; of a key that several changes write, the last value."""
        last = {(write.place, write.key): write for change in self.changes for write in change.writes}
        return list(last.values())


def advice(setup: TrainingSetup, capacity: Capacity, applied: Apply | None = None) -> list[Advice]:
    """What makes a run fit that may not; nothing if it surely does, if no memory is known, or if nothing helps.

    ``applied`` tells the setup of the run after changes, None if they leave a config that the stack rejects.
    """
    if not capacity.is_known or capacity.holds(now := estimate(setup)):
        return []
    needs = _Estimates(setup, applied or (lambda changes: changes[-1].setup))
    bounds: tuple[Bound, ...] = ("most", "likely")
    for bound in bounds:
        holds = partial(capacity.holds, bound=bound)
        if holds(now):  # likely, as it is
            break
        found = [tried for step in STEPS if (tried := _tried((step,), needs, holds)) is not None]
        if not found and _is_in_reach(needs, capacity, bound):
            found = _shortest(needs, holds)
        if found:
            return [Advice(changes, needed, capacity.holds(needed)) for changes, needed in found]
    return []


class _Estimates(Record):
    """The estimates of the setups that changes make of one, each made once."""

    setup: TrainingSetup
    applied: Apply
    known: dict[tuple[object, ...], Estimate] = field(factory=dict)

    def of(self, changed: TrainingSetup) -> Estimate:
        """The estimate of a changed setup."""
        key = tuple(value for name, value in zip(changed._fields, changed, strict=True) if name not in _UNTOUCHED)
        if key not in self.known:
            self.known[key] = estimate(changed)
        return self.known[key]


def _is_in_reach(needs: _Estimates, capacity: Capacity, bound: Bound) -> bool:
    """Whether the GPU, and the host, would do if nothing else counted: else no combination is worth a look."""
    on_gpu = needs.of(_farthest(needs.setup, _OFF_GPU)).gpu_bytes
    on_host = [needs.of(_farthest(needs.setup, steps)).host_bytes for steps in _OFF_HOST]
    return (capacity.gpu is None or getattr(on_gpu, bound) <= capacity.gpu) and (
        capacity.host is None or min(getattr(band, bound) for band in on_host) <= capacity.host
    )


def _farthest(setup: TrainingSetup, steps: Sequence[Step]) -> TrainingSetup:
    """The setup after these steps, each as far as it goes."""
    for step in steps:
        for change in list(step(setup))[-1:]:
            setup = change.setup
    return setup


def _shortest(needs: _Estimates, holds: Callable[[Estimate], bool]) -> list[Tried]:
    """The first of the combinations with the fewest steps that suffice."""
    for length in range(2, len(STEPS) + 1):
        for steps in combinations(STEPS, length):
            if any(one in steps and other in steps for one, other in _ALTERNATIVES):
                continue
            if (found := _tried(steps, needs, holds)) is not None:
                return [found]
    return []


def _tried(steps: Sequence[Step], needs: _Estimates, holds: Callable[[Estimate], bool]) -> Tried | None:
    """The steps one after the other, if each changes something and the last setup fits.

    The last goes only as far as it must, those before it as far as they can. What a stage cannot do without another is
    tried after the stage.
    """
    changes: list[SetupChange] = []
    setup = needs.setup
    *before, last = sorted(steps, key=lambda step: step not in _STAGES)
    for step in before:
        possible = list(step(setup))
        if not possible:
            return None
        changes.append(possible[-1])
        setup = possible[-1].setup
    possible = list(last(setup))
    if last in _ONWARD:
        first = bisect_left(possible, True, key=lambda change: holds(needs.of(change.setup)))
        possible = possible[first:]
    for change in possible:
        if not holds(needs.of(change.setup)):
            continue
        made = needs.applied((*changes, change))
        if made is not None and holds(needed := needs.of(made)):
            return (*changes, change), needed
    return None


def _without_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    """What is not offloaded takes no host memory."""
    if setup.parameter_offload is not None:
        yield SetupChange(
            "no parameter offload",
            setup._replace(parameter_offload=None),
            (Write("config", f"{_ZERO}.offload_param.device", "none"),),
        )
    if setup.optimizer_offload is not None:
        writes = [Write("config", f"{_ZERO}.offload_optimizer.device", "none")]
        if setup.parameter_offload is not None:
            writes.append(Write("config", f"{_ZERO}.offload_param.device", "none"))
        yield SetupChange("no offload", setup._replace(optimizer_offload=None, parameter_offload=None), tuple(writes))


def _sharded_loading(setup: TrainingSetup) -> Iterator[SetupChange]:
    """No rank has the whole model at the start, neither in host memory nor on the GPU."""
    if setup.stage == 3 and not setup.uses_zero_init:
        is_flag = setup.zero_init_way == INIT_FLAG
        where = Write("launch", INIT_FLAG, True) if is_flag else Write("script", setup.zero_init_way, None)
        yield SetupChange("model built in shards", setup._replace(uses_zero_init=True), (where,))


def _checkpointing(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Activations are computed again in backward instead of being kept."""
    if setup.is_checkpointed:
        return
    where = (
        Write("arguments", "gradient_checkpointing", True)
        if setup.stack == "trainer"
        else Write("script", "model.gradient_checkpointing_enable()", None)
    )
    yield SetupChange("activation checkpointing", setup._replace(is_checkpointed=True), (where,))


def _stage_2(setup: TrainingSetup) -> Iterator[SetupChange]:
    if setup.stage < 2:
        yield _stage(setup, 2)


def _stage_3(setup: TrainingSetup) -> Iterator[SetupChange]:
    if setup.stage < 3:
        yield _stage(setup, 3)


def _stage(setup: TrainingSetup, stage: int) -> SetupChange:
    return SetupChange(f"ZeRO stage {stage}", at_stage(setup, stage), (Write("config", f"{_ZERO}.stage", stage),))


def _optimizer_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    if setup.stage > 0 and setup.optimizer_offload is None:
        yield SetupChange(
            "optimizer offload to the CPU",
            setup._replace(optimizer_offload=_CPU),
            (Write("config", f"{_ZERO}.offload_optimizer.device", "cpu"),),
        )


def _parameter_offload(setup: TrainingSetup) -> Iterator[SetupChange]:
    if setup.stage == 3 and setup.parameter_offload is None:
        yield SetupChange(
            "parameter offload to the CPU",
            setup._replace(parameter_offload=_CPU),
            (Write("config", f"{_ZERO}.offload_param.device", "cpu"),),
        )


def _nvme(setup: TrainingSetup) -> Iterator[SetupChange]:
    """The optimizer, then the parameters too: they are read more often."""
    if setup.stage < 3:
        return
    if not _is_on_nvme(setup.optimizer_offload):
        setup = setup._replace(optimizer_offload=_OPTIMIZER_ON_NVME)
        yield SetupChange("optimizer offload to NVMe", setup, _to_nvme("offload_optimizer"))
        both = _to_nvme("offload_optimizer") + _to_nvme("offload_param")
    else:
        both = _to_nvme("offload_param")
    if not _is_on_nvme(setup.parameter_offload):
        words = "optimizer and parameter offload to NVMe" if len(both) > 2 else "parameter offload to NVMe"
        yield SetupChange(words, setup._replace(parameter_offload=_PARAMETERS_ON_NVME), both)


def _to_nvme(section: str) -> tuple[Write, ...]:
    return (
        Write("config", f"{_ZERO}.{section}.device", "nvme"),
        Write("config", f"{_ZERO}.{section}.nvme_path", _NVME_PATH),
    )


def _is_on_nvme(offload: Offload | None) -> bool:
    return offload is not None and offload.device == "nvme"


def _smaller_micro_batch(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Half, a quarter and so on, with more accumulation steps, so that the batch size stays."""
    if setup.micro_batch is None:
        return
    size = setup.micro_batch // 2
    on_trainer = setup.stack == "trainer"
    while size >= 1:
        steps = setup.accumulation_steps * -(-setup.micro_batch // size)
        place: Place = "arguments" if on_trainer else "config"
        name = "per_device_train_batch_size" if on_trainer else "train_micro_batch_size_per_gpu"
        yield SetupChange(
            f"micro batch {size} instead of {setup.micro_batch}",
            setup._replace(micro_batch=size, accumulation_steps=steps),
            (Write(place, name, size), Write(place, "gradient_accumulation_steps", steps)),
        )
        size //= 2


def _more_ranks(setup: TrainingSetup) -> Iterator[SetupChange]:
    """Twice as many, four times as many and so on, eight on a node or as many as there are now."""
    ranks, on_node = setup.world * 2, max(setup.ranks_per_node, _USUAL_ON_NODE)
    while ranks <= _MOST_RANKS:
        nodes = max(setup.nodes, -(-ranks // on_node))
        on_nodes = f" on {nodes} nodes" if nodes > 1 else ""
        writes = [Write("launch", "world_size", ranks)]
        if nodes != setup.nodes:
            writes.append(Write("launch", "nodes", nodes))
        yield SetupChange(
            f"{ranks} ranks{on_nodes} instead of {setup.world}",
            setup._replace(ranks=ranks // setup.part.degrees.of_a_copy, nodes=nodes),
            tuple(writes),
        )
        ranks *= 2


_STAGES = (_stage_2, _stage_3)
_OFF_GPU = (
    _stage_3,
    _sharded_loading,
    _nvme,
    _checkpointing,
    _smaller_micro_batch,
    _more_ranks,
)  # what takes bytes off the GPU,
_OFF_HOST = (  # and off the host
    (_without_offload, _stage_3, _sharded_loading, _more_ranks),
    (_stage_3, _sharded_loading, _nvme, _more_ranks),
)
_ONWARD = (_smaller_micro_batch, _more_ranks)  # each change of which takes less than the one before
_ALTERNATIVES = (  # of which the second undoes the first
    (_stage_2, _stage_3),
    (_without_offload, _optimizer_offload),
    (_without_offload, _parameter_offload),
    (_without_offload, _nvme),
    (_optimizer_offload, _nvme),
    (_parameter_offload, _nvme),
)
STEPS: tuple[Step, ...] = (
    _without_offload,
    _sharded_loading,
    _checkpointing,
    _stage_2,
    _optimizer_offload,
    _stage_3,
    _parameter_offload,
    _nvme,
    _smaller_micro_batch,
    _more_ranks,
)
