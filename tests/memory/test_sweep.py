"""All stages beside each other: what fits first, the faster first, with the largest micro batch of each."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ds_lint.facts.parameter_count import stand_in
from ds_lint.facts.tensors import of
from ds_lint.footprint import largest
from ds_lint.footprint.capacity import Capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import TrainingSetup
from ds_lint.footprint.sweep import fastest, sweep

GIB = 2**30


def with_model(count, **changes):
    model = stand_in(count)
    setup = TrainingSetup(
        tuple(of(model)), ranks=8, nodes=1, stage=2, architecture=model.config, micro_batch=1, sequence_length=2048,
        uses_zero_init=True, attention="sdpa",
    )  # fmt: skip
    return setup._replace(**changes)


RUN = with_model(7 * 10**9)
ROOM = Capacity(80 * GIB, 2000 * GIB)
ROWS = sweep(RUN, ROOM)


def test_a_row_for_every_stage_offload_and_checkpointing():
    assert len(ROWS) == 2 * len({row.combination for row in ROWS}) == 18
    assert {row.combination.device for row in ROWS} == {None, "cpu", "nvme"}


@pytest.mark.parametrize(("kind", "bound"), list(enumerate(("likely", "most"))))
def test_the_largest_micro_batch_fits_and_the_next_does_not(kind, bound):
    for row in ROWS:
        size = row.largest[kind]
        setup = row.estimate.setup
        assert not size or ROOM.holds(estimate(setup._replace(micro_batch=size)), bound)
        assert not ROOM.holds(estimate(setup._replace(micro_batch=size + 1)), bound)


def test_what_fits_comes_first_and_has_places():
    likely = [row.places[0] for row in ROWS]
    count = sum(place is not None for place in likely)
    assert count > 0
    assert likely == [*range(1, count + 1), *[None] * (len(ROWS) - count)]
    assert all((row.places[0] is not None) == (row.largest.likely > 0) for row in ROWS)
    surely = sorted(row.places[1] for row in ROWS if row.places[1] is not None)
    assert surely == list(range(1, len(surely) + 1))
    assert len(surely) <= count


def test_the_faster_is_first():
    """No offload before offload, no checkpointing before it, up to stage 2 before 3, then the larger micro batch."""
    fitting = [row for row in ROWS if row.places[0] is not None]
    keys = [
        (len(row.offload), row.device == "nvme", row.checkpointing, row.stage == 3, -row.largest.likely)
        for row in fitting
    ]
    assert keys == sorted(keys)
    assert fastest(ROWS, 0) is ROWS[0]
    sure = fastest(ROWS, 1)
    assert sure.largest.surely > 0


def test_without_a_gpu_there_is_an_order_and_no_place():
    rows = sweep(RUN)
    assert {row.places for row in rows} == {(None, None)}
    assert {row.largest for row in rows} == {None}
    assert not rows[0].offload


def test_without_activations_checkpointing_makes_no_row():
    rows = sweep(RUN._replace(sequence_length=None), ROOM)
    assert len(rows) == 9
    assert {row.checkpointing for row in rows} == {None}
    assert {row.largest for row in rows} == {None}


def test_fp16_without_zero_is_not_advised():
    """DeepSpeed divides gradients by a loss scale that it never multiplied by (DS411)."""
    assert 0 not in {row.stage for row in sweep(RUN._replace(dtype="fp16"), ROOM)}
    assert 0 in {row.stage for row in sweep(RUN._replace(dtype="fp16", stage=0), ROOM)}


@pytest.mark.parametrize("is_checkpointed", [False, True])
@pytest.mark.parametrize("stage", [0, 2, 3])
def test_estimates_grow_with_samples_length_and_parameters(stage, is_checkpointed):
    """What the search by halves rests on."""
    base = RUN._replace(stage=stage, is_checkpointed=is_checkpointed)
    for changed in (
        [base._replace(micro_batch=size) for size in (1, 2, 3, 4, 7, 16, 100, 1000)],
        [base._replace(sequence_length=length) for length in (128, 256, 1024, 4096, 5120, 65536)],
        [
            with_model(count, stage=stage, is_checkpointed=is_checkpointed)
            for count in (10**8, 10**9, 3 * 10**9, 7 * 10**9, 13 * 10**9, 70 * 10**9)
        ],
    ):
        bands = [estimate(setup).gpu_bytes for setup in changed]
        assert all(one.likely <= next_one.likely and one.most <= next_one.most for one, next_one in pairwise(bands))


def test_the_largest_sizes_fit_and_a_step_more_does_not():
    def sized(count):
        return with_model(count, is_checkpointed=True, is_stand_in=True)

    architecture = {**RUN.architecture, "max_position_embeddings": 10**6}
    setup = RUN._replace(is_checkpointed=True, architecture=architecture)
    found = largest.sizes(setup, ROOM, sized)
    for length, bound in zip(found.sequence_length, ("likely", "most"), strict=True):
        assert ROOM.holds(estimate(setup._replace(sequence_length=length)), bound)
        assert not ROOM.holds(estimate(setup._replace(sequence_length=length + largest.STEP)), bound)
    for count, bound in zip(found.parameters, ("likely", "most"), strict=True):
        assert ROOM.holds(estimate(sized(count)), bound)
        assert not ROOM.holds(estimate(sized(round(1.2 * count))), bound)
    assert found.parameters.surely < found.parameters.likely


@pytest.mark.parametrize("is_checkpointed", [None, False, True])
def test_the_row_of_a_run_without_checkpointing_rows_is_marked(is_checkpointed):
    rows = sweep(RUN._replace(is_checkpointed=is_checkpointed), ROOM, ())
    assert sum(row.is_chosen for row in rows) == 1


def test_sequences_are_not_longer_than_the_positions_of_the_model():
    short = RUN._replace(is_checkpointed=True, architecture={**RUN.architecture, "max_position_embeddings": 1024})
    assert largest.sequence_length(short, ROOM) == (1024, 1024)
