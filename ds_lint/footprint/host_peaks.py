"""The most bytes at once in the host memory of one node, while a run initializes, steps and saves.

Every rank of the node has a part in it; while a model is loaded, and while it is saved whole, rank 0 has more than the
others. ``tools/resident`` measures it on CPU ranks, where what a GPU would hold lies in host memory, too.
"""

from __future__ import annotations

from ds_lint.footprint import quantized
from ds_lint.footprint.band import Band, exactly
from ds_lint.footprint.gradients import gradients
from ds_lint.footprint.partition import share
from ds_lint.footprint.placed import FULL, on_node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.placed import Placed
    from ds_lint.footprint.setup import TrainingSetup

    Parts = dict[str, Placed]

_STATES = ("parameters", "master_weights", "gradients", "optimizer_states", "buffers", "page_locked")


def initializes(setup: TrainingSetup, parts: Parts) -> Band:
    """From the start to the first step: the model is loaded, then ``deepspeed.initialize`` makes its states."""
    begun = {name: part for name, part in parts.items() if name != "optimizer_states"}
    begun["gradients"] = gradients(setup._replace(accumulation_steps=1))  # none are accumulated yet
    resting = on_node({name: part for name, part in parts.items() if name not in _STATES}, setup.ranks_per_node)
    return resting.plus(_loaded(setup, parts)).at_least(on_node(begun, setup.ranks_per_node))


def steps(setup: TrainingSetup, parts: Parts) -> Band:
    """Between and in the steps."""
    return on_node(parts, setup.ranks_per_node)


def saves(setup: TrainingSetup, parts: Parts) -> Band:
    """A save between two steps, of the whole model or of the states of each rank."""
    return on_node(parts, setup.ranks_per_node).plus(_gathered(setup))


def _loaded(setup: TrainingSetup, parts: Parts) -> Band:
    """The models of a node as they are loaded, before there are states."""
    if setup.stage == 3 and setup.uses_zero_init:
        return _loaded_in_partitions(setup, parts)
    saved = setup.checkpoint_width
    if setup.weights is not None:  # one weight after the other goes to the GPU, from a file that may be all of them
        return Band(0, 0, setup.ranks_per_node * (saved or FULL) * setup.loaded_count)
    widths = setup.loaded_width or Band(0, saved or setup.width, FULL)  # 0 if the file stays mapped
    if not setup.maps_pickled_files:  # a file is read as a whole before the model is filled
        widths = widths._replace(most=widths.most + (saved or FULL))
    loaded = widths.times(setup.loaded_count)
    if setup.stage in (1, 2):
        copied = 2 * setup.loaded_count * setup.width  # the parameters, and their flat copy
        loaded = loaded.at_least(Band(0, 0, copied) if setup.flattens_on_gpu else exactly(copied))
    loaded = loaded.times(setup.ranks_per_node)
    if setup.stage == 3 and setup.uses_zero_init is None:
        return loaded._replace(least=0)
    return loaded


def _loaded_in_partitions(setup: TrainingSetup, parts: Parts) -> Band:
    """With ``zero.Init``: rank 0 alone reads the files, and all ranks have their partitions, which may lie on the host.

    Source: ``load_state_dict`` in ``transformers/modeling_utils.py``, which takes other ranks to the meta device. The
    file is mapped, unless it is one that is read as a whole.
    """
    readers = 1 if setup.rank_0_reads else setup.ranks_per_node
    read = setup.loaded_count * (setup.checkpoint_width or FULL) * readers
    return on_node({"parameters": parts["parameters"]}, setup.ranks_per_node).plus(Band(0, 0, read))


def _gathered(setup: TrainingSetup) -> Band:
    """What a save takes: the whole model on rank 0, then the optimizer states of each rank as they are written.

    Below stage 3, rank 0 copies the model to write it (``clone_tensors_for_torch_save``); at stage 3 only if weights
    are gathered, and writing may take them once more. Of the states, one tensor after the other comes from the GPU.
    """
    # What other ranks hold of the model is as wide as what this one holds, at the most.
    whole = quantized.whole(setup).bytes.most + (setup.saved_count - setup.parameter_count) * setup.width
    written = setup.ranks_per_node * share(setup) * FULL if setup.optimizer_offload is None else 0
    found = Band(0, 0, written)
    if setup.stage == 3:
        return found.at_least(Band(whole, whole, 2 * whole)) if setup.gathers_on_save else found
    return found.at_least(Band(0, 0, whole))
