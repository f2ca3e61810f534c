"""What a run with FSDP takes: each part by where it lies, and the peaks of its phases."""

from __future__ import annotations

from ds_lint.facts.parameter_count import OTHER_SHAPES
from ds_lint.footprint import host, shared_memory
from ds_lint.footprint.band import NOTHING, exactly
from ds_lint.footprint.fsdp import node, peaks, states
from ds_lint.footprint.peaks import peak
from ds_lint.footprint.placed import Amount, Placed, on_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.peaks import Peak
    from ds_lint.footprint.setup import TrainingSetup


def taken(
    setup: TrainingSetup, activations: Band | None, in_layers: Band | None
) -> tuple[dict[str, Placed], dict[str, Peak]]:
    """The parts, of the rank that holds most, and the peaks.

    ``in_layers`` are the activations that are left when the first gradient is there; None if they are not known.
    """
    parts = states.of(setup)
    beside = {}
    if setup.reference is not False:
        parts["reference_model"] = states.reference(setup)
        beside["reference_model"] = parts["reference_model"].gpu.bytes
    parts["live"] = Placed(gpu=Amount(bytes=peaks.gathered(setup)))
    if activations is not None:
        parts["activations"] = Placed(gpu=Amount(bytes=peaks.with_autocast(setup, activations)))
    parts["page_locked"] = Placed(host=Amount(bytes=node.rounding(setup)))
    parts["shared_memory"] = Placed(host=Amount(bytes=shared_memory.of_rank(setup)))
    parts["processes"] = Placed(host=Amount(bytes=host.PROCESS))
    computed = parts["activations"].gpu.bytes if activations is not None else NOTHING
    left = peaks.with_autocast(setup, in_layers) if in_layers is not None else NOTHING
    moments = peaks.moments(setup, parts, computed, left)
    if setup.is_stand_in:  # whose layers may be others
        moments = {phase: [_widened(one) for one in found] for phase, found in moments.items()}
    lasting = on_node(parts, setup.ranks_per_node)
    on_host = {
        "initialization": node.loads(setup, parts),
        "step": lasting,
        "saving": lasting.plus(node.saves(setup, parts)),
    }
    found = {
        phase: peak(setup, [moment | beside for moment in moments[phase]], held) for phase, held in on_host.items()
    }
    most = exactly(0)
    for one in found.values():
        most = most.at_least(one.allowance)
    parts["allowance"] = Placed(gpu=Amount(bytes=most))
    return parts, found


def _widened(moment: dict[str, Band]) -> dict[str, Band]:
    return moment | {"live": moment.get("live", NOTHING).within(OTHER_SHAPES)}
