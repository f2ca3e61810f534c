"""The peak of an estimate against the most resident memory of real ranks with offload.

On CPU ranks, what a GPU would hold lies in host memory too. Gloo copies what it sends, which NCCL does not: on several
ranks up to as much as the parameters take, once more.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest
from ranks import run
from test_memory_peaks import MODEL, OFFLOAD, expected, job

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]

LARGE = {**MODEL, "vocab_size": 4000, "hidden_size": 768, "intermediate_size": 2048, "num_hidden_layers": 10}
BESIDE = 300e6  # bytes: activations, threads, and pages of the libraries that training is the first to touch
OFFLOADS: list[dict[str, Any]] = [
    {"stage": 1, "offload_optimizer": OFFLOAD},
    {"stage": 2, "offload_optimizer": OFFLOAD},
    {"stage": 3, "offload_optimizer": OFFLOAD},
    {"stage": 3, "offload_optimizer": OFFLOAD, "offload_param": OFFLOAD},
]


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("zero", OFFLOADS, ids=lambda zero: f"stage {zero['stage']}, {len(zero) - 1} offloaded")
def test_no_rank_takes_more_than_is_said(zero: dict[str, Any], ranks: int) -> None:
    wanted = {**job(ranks=ranks, **zero), "model": LARGE}
    done = run("resident", json.dumps(wanted), ranks=ranks, timeout=400)
    assert done.is_complete, "\n".join(done.errors)
    for answer in done.answers:
        assert answer is not None
        step = expected(wanted, answer["tensors"])["step"]
        sent = 0 if ranks == 1 else 3 * sum(size for _, size in answer["tensors"])
        assert 0.98 * step.least <= answer["taken"] <= step.most + sent + BESIDE
