"""The activations of a rank, also where ranks share tensors, sequences or layers; the stage of a pipeline with most."""

from __future__ import annotations

from ds_lint.footprint.activations import Pass, activations
from ds_lint.footprint.aligned_loss import with_loss
from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.placed import FULL
from ds_lint.footprint.shared import Shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.pipeline import Stage
    from ds_lint.footprint.setup import TrainingSetup

_FEWEST_BUFFERS = 2  # of a pipeline (``TrainSchedule.num_pipe_buffers``)
_HIDDEN = ("hidden_size", "n_embd", "d_model")
_FUSED = "sdpa"  # Ulysses takes no attention that wants a mask of every two tokens (``register_with_transformers``)
_STATES = 3 * FULL  # bytes of an element of the master weights and the states of Adam


def in_parallel(setup: TrainingSetup, *, are_logits_freed: bool = False) -> Band | None:
    """What the passes of a rank keep; None if the sizes of the batch or of the model are not known."""
    if setup.micro_batch is None or setup.sequence_length is None:
        return None
    part = setup.part
    shared = Shared(part.layer_ranks, part.logit_ranks)
    if part.stage is not None:
        shared = shared._replace(
            layers=part.stage.layers * part.stage.in_flight(setup.accumulation_steps), has_head=part.stage.is_last
        )
    computed = Pass(
        setup.micro_batch * setup.sequences,
        setup.sequence_length,
        setup.dtype,
        setup.is_checkpointed,
        setup.attention,
        setup.adapters,
        setup.kernels.layers,
        setup.kernels.loss,
        setup.is_packed,
        setup.kernels.sums_head_gradients,
        setup.transformers,
        shared,
    )
    are_logits_freed = are_logits_freed or not setup.has_logits or not shared.has_head
    found = _computed(setup, computed, are_logits_freed=are_logits_freed)
    if found is not None and setup.sequence_ranks > 1:
        is_sure = part.degrees.surely_divides_sequences
        of_rank = computed._replace(
            attention=computed.attention or (_FUSED if is_sure else None),
            sequence_length=-(-setup.sequence_length // setup.sequence_ranks),
            shared=shared._replace(sequences=setup.sequence_ranks),
        )
        divided = _computed(setup, of_rank, are_logits_freed=are_logits_freed)
        found = found if divided is None else divided if is_sure else divided._replace(most=found.most)
    if found is not None and part.degrees.experts > 1:  # where tokens go is not known, and kernels are AutoEP's own
        found = found._replace(least=found.least / 2, most=found.most * part.degrees.experts)
    if found is None or part.stage is None:
        return found
    return found.plus(_buffers(setup, part.stage)).plus(Band(0, 0, part.more))


def _computed(setup: TrainingSetup, computed: Pass, *, are_logits_freed: bool) -> Band | None:
    """The activations with the loss of the run."""
    found = activations(setup.architecture, computed, are_logits_freed=are_logits_freed)
    if found is None or setup.loss is None or are_logits_freed:
        return found
    layers = activations(setup.architecture, computed, are_logits_freed=True) or NOTHING
    return with_loss(found, layers, setup.loss, setup.architecture, computed)


def at_fullest_stage(setup: TrainingSetup) -> TrainingSetup:
    """The setup of the stage of a pipeline whose ranks likely hold most; without a pipeline the same setup."""
    if not setup.part.stages:
        return setup
    found = []
    for stage in setup.part.stages:
        of_stage = setup._replace(tensors=stage.tensors, part=setup.part._replace(stage=stage._replace(tensors=())))
        states = exactly(of_stage.parameter_count * (2 * setup.width + _STATES / setup.ranks))
        found.append((states.plus(in_parallel(of_stage) or NOTHING), of_stage))
    held, fullest = max(found, key=lambda one: one[0].likely)
    more = max(band.most for band, _ in found) - held.most
    return fullest._replace(part=fullest.part._replace(more=more))


def _buffers(setup: TrainingSetup, stage: Stage) -> Band:
    """What a stage gets and sends for each micro batch (``PipelineEngine.pipe_buffers``), and the gradient of one."""
    hidden = next((size for name in _HIDDEN if isinstance(size := setup.architecture.get(name), int)), 0)
    buffers = max(_FEWEST_BUFFERS, stage.in_flight(setup.accumulation_steps))
    one = (setup.micro_batch or 0) * (setup.sequence_length or 0) * hidden * setup.width
    return Band(0, (buffers + 1) * one, (2 * buffers + 2) * one)
