"""What the rules about the model and the machine claim is what the installed libraries do, on one rank."""

from __future__ import annotations

import pytest

pytest.importorskip("deepspeed")

from deepspeed.ops.op_builder import AsyncIOBuilder
from ranks import run

from ds_lint.facts import host

pytestmark = pytest.mark.fidelity


def answer(program, *arguments):
    done = run(program, *arguments, ranks=1)
    assert done.is_complete, done.errors
    return done.answers[0]


def test_the_trainer_takes_activation_checkpointing_and_nothing_uses_it():
    """DS353."""
    pytest.importorskip("transformers")
    assert answer("recompute") == {"steps": 2, "ran": [], "partition_activations": True}


@pytest.mark.parametrize(
    ("dtype", "stage", "states"),
    [("float32", 0, "float32"), ("float32", 2, "float32"), ("bfloat16", 0, "bfloat16"), ("bfloat16", 2, "float32")],
)
def test_without_a_section_the_model_keeps_its_dtype(dtype, stage, states):
    """DS451."""
    assert answer("undecided", dtype, str(stage)) == {"weights": [f"torch.{dtype}"], "states": [f"torch.{states}"]}


needs_async_io = pytest.mark.skipif(
    type(AsyncIOBuilder()).__name__ == "NotImplementedBuilder", reason="DeepSpeed below 0.15 has no async_io on a CPU"
)


@needs_async_io
def test_libaio_is_where_deepspeed_looks_for_it():
    found = host.has_async_io()
    assert found is None or found is bool(AsyncIOBuilder().is_compatible())


@needs_async_io
@pytest.mark.skipif(host.has_async_io() is not False, reason="this machine can build async_io")
@pytest.mark.parametrize("section", ["offload_param", "offload_optimizer"])
def test_without_libaio_the_engine_is_not_made(section, tmp_path):
    assert "Unable to JIT load the async_io op" in answer("nvme", section, str(tmp_path))["error"]
