"""What a run takes: each part on each GPU, host and NVMe, and the peaks."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts.parameter_count import OTHER_SHAPES
from ds_lint.footprint import host, inference, quantized, shared_memory, states
from ds_lint.footprint.band import NOTHING, Band
from ds_lint.footprint.live import live_bytes, live_parameters
from ds_lint.footprint.parallel_activations import at_fullest_stage, in_parallel
from ds_lint.footprint.parameters import parameters, reference
from ds_lint.footprint.peaks import beside, peaks
from ds_lint.footprint.placed import Amount, Placed
from ds_lint.footprint.remembered import remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.peaks import Peak
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.footprint.untrained import Untrained


class Estimate(NamedTuple):
    """What a run takes. ``parts`` are those of the rank that holds most."""

    setup: TrainingSetup
    parts: dict[str, Placed]
    peaks: dict[str, Peak]  # at initialization, step, saving, evaluation, generation

    @property
    def rank(self) -> dict[str, Amount]:
        """What one GPU holds, by part."""
        return {name: placed.gpu for name, placed in self.parts.items()}

    @property
    def host(self) -> dict[str, Amount]:
        """What the host of one node holds, by part."""
        return {name: placed.host.times(self.setup.ranks_per_node) for name, placed in self.parts.items()}

    @property
    def nvme(self) -> dict[str, Amount]:
        """What lies on the NVMe of one node, by part."""
        return {name: placed.nvme.times(self.setup.ranks_per_node) for name, placed in self.parts.items()}

    @property
    def held(self) -> dict[str, Band]:
        """What one GPU likely holds, by kind, at the moment when it holds most."""
        return max(self.peaks.values(), key=lambda peak: peak.gpu.likely).held

    @property
    def gpu_bytes(self) -> Band:
        """The most bytes of one GPU over all phases."""
        return _highest([peak.gpu for peak in self.peaks.values()])

    @property
    def host_bytes(self) -> Band:
        """The most bytes of one node's host memory over all phases."""
        return _highest([peak.host for peak in self.peaks.values()])


@remembered()
def estimate(setup: TrainingSetup) -> Estimate:
    """What a run with this setup takes."""
    if setup.fsdp is not None:
        from ds_lint.footprint.fsdp import run  # most configs are DeepSpeed's

        computed, in_layers = _activations(setup), _activations(setup, are_logits_freed=True)
        return _unsure(Estimate(setup, *run.taken(setup, computed, in_layers)))
    if setup.untrained is not None:
        return _unsure(_without_training(setup, setup.untrained))
    setup = at_fullest_stage(setup)
    parts = states.of(setup)
    if setup.reference is not False:
        parts["reference_model"] = reference(setup)
    if setup.further:
        parts["other_models"] = _further(setup)
    if setup.stage == 3:
        gathered = Amount(_widened(setup, live_parameters(setup)), _widened(setup, live_bytes(setup)))
        parts["live"] = Placed(gpu=gathered)
    if setup.weights is not None:
        parts["unpacked"] = Placed(gpu=Amount(bytes=quantized.unpacked(setup)))
    if (computed := _activations(setup)) is not None:
        parts["activations"] = Placed(gpu=Amount(bytes=computed))
    parts["buffers"] = Placed(host=host.buffers(setup))
    parts["page_locked"] = Placed(host=Amount(bytes=host.rounding(setup)))
    parts["shared_memory"] = Placed(host=Amount(bytes=shared_memory.of_rank(setup)))
    parts["processes"] = Placed(host=Amount(bytes=host.PROCESS))
    found = peaks(setup, parts, _activations(setup, are_logits_freed=True) or NOTHING)
    if setup.evaluation is not None and (evaluated := inference.computed(setup, setup.evaluation)) is not None:
        found["evaluation"] = beside(setup, parts, found["saving"], inference.parts_of(evaluated))
    if setup.rollout is not None and (rolled := inference.computed(setup, setup.rollout)) is not None:
        found["generation"] = beside(setup, parts | _gathered(setup), found["saving"], inference.parts_of(rolled))
    parts["allowance"] = Placed(gpu=Amount(bytes=_highest([peak.allowance for peak in found.values()])))
    return _unsure(Estimate(setup, parts, found))


def _gathered(setup: TrainingSetup) -> dict[str, Placed]:
    """At stage 3, trl gathers the whole model to generate, unless ``ds3_gather_for_generation`` is off."""
    if setup.stage < 3:
        return {}
    whole = setup.parameter_count * setup.width
    least = live_parameters(setup).least * setup.width
    return {"live": Placed(gpu=Amount(bytes=Band(least, whole, whole)))}


def _further(setup: TrainingSetup) -> Placed:
    """The models beside the trained one: a frozen one as a reference model, a trained one with states of its own."""
    held = Placed()
    for one in setup.further:
        other = setup._replace(tensors=one.tensors, reference=True)
        for part in states.of(other).values() if one.is_trained else (reference(other),):
            held = held.plus(part)
    return held


def _without_training(setup: TrainingSetup, work: Untrained) -> Estimate:
    """What a run takes that trains nothing: the parameters, and what its passes hold."""
    engine = inference.without_training(setup)
    parts = dict.fromkeys(states.KINDS, Placed()) | {"parameters": parameters(engine)}
    if work.has_optimizer:  # which never makes a step: no gradients, and no states (``_initializes``)
        made = states.of(setup)
        parts |= {name: made[name] for name in ("parameters", "master_weights", "buckets")}
    if engine.stage == 3:
        gathered = Amount(_widened(engine, live_parameters(engine)), _widened(engine, live_bytes(engine)))
        parts["live"] = Placed(gpu=gathered)
    passes: dict[str, Placed] = {}
    if (computed := inference.computed(engine, work)) is not None:
        passes = inference.parts_of(computed)
    parts["buffers"] = Placed(host=host.buffers(engine))
    parts["page_locked"] = Placed(host=Amount(bytes=host.rounding(engine)))
    parts["shared_memory"] = Placed(host=Amount(bytes=shared_memory.of_rank(engine)))
    parts["processes"] = Placed(host=Amount(bytes=host.PROCESS))
    begun = peaks(engine, parts, NOTHING)
    found = {"initialization": begun["initialization"], work.work: beside(engine, parts, begun["step"], passes)}
    allowed = Placed(gpu=Amount(bytes=_highest([peak.allowance for peak in found.values()])))
    return Estimate(engine, parts | passes | {"allowance": allowed}, found)


def _activations(setup: TrainingSetup, *, are_logits_freed: bool = False) -> Band | None:
    """What the passes of a micro batch keep; None if the sizes of the batch or of the model are not known."""
    found = in_parallel(setup, are_logits_freed=are_logits_freed)
    if found is None:
        return None
    found = found.plus(quantized.kept_inputs(setup))
    if setup.kernels.others or (setup.computes_own_loss and setup.loss is None):
        found = found._replace(least=0)
    elif not setup.is_length_known:  # the longest of all that the run sees may be of any length
        shortest = in_parallel(setup._replace(sequence_length=1), are_logits_freed=True)
        found = found._replace(least=min(found.least, shortest.least if shortest is not None else 0))
    return _widened(setup, found)


def _unsure(found: Estimate) -> Estimate:
    """The same where something may divide the model in a way that is not counted: the least is of the smallest part."""
    if found.setup.part.is_sure:
        return found
    smallest = 1 / found.setup.world
    lowered = {name: peak.least_times(smallest) for name, peak in found.peaks.items()}
    return found._replace(parts={name: one.least_times(smallest) for name, one in found.parts.items()}, peaks=lowered)


def _widened(setup: TrainingSetup, found: Band) -> Band:
    """What depends on the architecture, of a model of which only the number of parameters is known."""
    if not setup.is_stand_in:
        return found
    return found.within(OTHER_SHAPES)


def fits(needed: Band, capacity: float | None) -> bool | None:
    """Whether so much memory is enough: True if the most fits, False if the least does not, else None."""
    if capacity is None:
        return None
    if needed.most <= capacity:
        return True
    return False if needed.least > capacity else None


def _highest(bands: list[Band]) -> Band:
    found = NOTHING
    for band in bands:
        found = found.at_least(band)
    return found
