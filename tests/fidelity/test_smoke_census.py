"""The census of live storages: each once, with what it belongs to, and whoever hides one."""

from __future__ import annotations

import gc
import threading
import types

import pytest

pytestmark = pytest.mark.fidelity
torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

ELEMENTS = 3 * 5 + 3
BYTES = 4 * ELEMENTS


@pytest.fixture
def engine():
    """A model after a step, as an engine without ZeRO has it."""
    from ds_lint.smoke.observe import census

    census.begin()
    model = torch.nn.Linear(5, 3)
    model.register_buffer("table", torch.ones(7))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    yield types.SimpleNamespace(module=model, optimizer=optimizer)
    gc.unfreeze()


def taken(engine, inputs=(), ours=None):
    from ds_lint.smoke.observe.census import Census

    return Census(engine, set(inputs), ours)


def test_everything_has_an_owner(engine):
    held = taken(engine).held
    steps = 2  # a number for each parameter
    assert {kind: one.bytes for kind, one in held.items()} == {
        "parameters": BYTES,
        "gradients": BYTES,
        "optimizer states": 2 * BYTES + 4 * steps,
        "model buffers": 28,
    }
    assert held["optimizer states"].elements == 2 * ELEMENTS + steps


def test_an_attribute_that_hides_a_copy_is_named(engine):
    engine.module.kept = torch.ones(100)
    (unknown,) = taken(engine).unknown
    assert (unknown.bytes, unknown.shape, unknown.holder) == (400, [100], "Linear.kept")


def test_a_closure_that_hides_a_copy_is_named(engine):
    copy = torch.ones(100)
    engine.module.register_forward_hook(lambda *_: copy.sum())
    found = taken(engine)
    assert found.held["unknown"].bytes == 400
    assert "closure of test_a_closure_that_hides_a_copy_is_named" in found.unknown[0].holder


def test_a_view_is_counted_with_all_of_its_storage_and_once(engine):
    engine.module.kept = [torch.ones(100)[:2]]
    engine.module.kept.append(engine.module.kept[0][1:])
    assert taken(engine).held["unknown"].bytes == 400


def test_what_ds_lint_holds_is_left_out_of_every_census(engine):
    """Python makes the dict of attributes when it is first read, so a second census finds other addresses."""
    record = type("Record", (), {"__module__": "ds_lint.smoke.observe.recording"})
    ours = record()
    for number in range(5):
        part = record()
        part.kept = torch.ones(100)
        setattr(ours, f"part_{number}", part)
    assert ["unknown" in taken(engine, ours=ours).held for _ in range(3)] == [False] * 3


def test_gradients_that_python_never_saw_are_found(engine):
    kept = torch.nn.Parameter(torch.ones(100))
    (kept * 2).sum().backward()
    assert taken(engine).held["unknown"].bytes == 800


def test_what_is_freed_is_not_held(engine):
    engine.module.weight.data = torch.empty(0)
    engine.module.weight.grad = None
    held = taken(engine).held
    assert held["parameters"].bytes == held["gradients"].bytes == 12


def test_batches_and_what_ds_lint_keeps_are_known(engine):
    batch = torch.ones(4, 8, dtype=torch.int64)
    same_shape = torch.ones(4, 8)
    ours = type("Recording", (types.SimpleNamespace,), {"__module__": "ds_lint.smoke.observe.recording"})()
    ours.steps = {0: [(torch.ones(50),)]}
    held = taken(engine, [(torch.int64, torch.Size([4, 8]))], ours).held
    assert held["inputs"].bytes == batch.untyped_storage().nbytes()
    assert held["unknown"].bytes == same_shape.untyped_storage().nbytes()


def test_what_a_thread_still_sends_is_waited_for(engine):
    from ds_lint.smoke.observe.census import settled

    engine.module.sent = torch.ones(1000)
    timer = threading.Timer(0.2, lambda: delattr(engine.module, "sent"))
    timer.start()
    assert "unknown" not in settled(engine, set(), None).held
    timer.join()
    engine.module.kept = torch.ones(1000)
    assert settled(engine, set(), None).held["unknown"].bytes == 4000


class Kept:
    """A record of ds-lint that holds a tensor."""

    __module__ = "ds_lint.smoke.kept"

    def __init__(self, tensor):
        self.tensor = tensor


def test_no_record_hides_the_tensors_of_the_next_one():
    from ds_lint.smoke.observe.census import _tensors_in

    kept = [Kept(torch.ones(1)) for _ in range(100)]
    assert len(list(_tensors_in(kept, set()))) == 100
