"""The peaks of an estimate against the bytes that the real engine holds at once, on simulated groups of ranks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")

from installed import INSTALLED, measured_with_the_newest
from ranks import ROOT

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import partition, setup
from ds_lint.footprint.band import total
from ds_lint.footprint.estimate import estimate
from ds_lint.knowledge import keys
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents

if TYPE_CHECKING:
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.setup import TrainingSetup

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

PROGRAM = Path(__file__).parent / "programs" / "peaks.py"
MODEL = {
    "vocab_size": 500,
    "hidden_size": 256,
    "intermediate_size": 700,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}
BUCKETS = {
    "reduce_bucket_size": 1_000_000,
    "allgather_bucket_size": 1_000_000,
    "stage3_prefetch_bucket_size": 100_000,
    "stage3_param_persistence_threshold": 1_000,
}
OFFLOAD = {"device": "cpu", "pin_memory": False}  # what is page-locked is not counted on a CPU
PASSING = 0.06  # of the parameters' bytes: activations of two tokens, and norms of gradients
LIKELY = 0.12  # how far the likely figure may be off, as a share of the measured one


def job(stage: int, ranks: int = 4, dtype: str = "bf16", steps: int = 1, **zero: Any) -> dict[str, Any]:
    """A run; ``steps`` are the micro batches of a step."""
    precision: dict[str, Any] = {dtype: {"enabled": True}} if dtype != "fp32" else {}
    if dtype == "fp16":
        precision["fp16"]["loss_scale"] = 1  # no step is skipped
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "gradient_clipping": 1.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": stage, **BUCKETS, **zero},
        **precision,
    }
    return {"config": config, "ranks": ranks, "dtype": dtype, "model": MODEL}


PARTS = {"offload_optimizer": OFFLOAD, "offload_param": OFFLOAD}
QUICK = [job(2, 5, steps=2), job(3, 5)]
LONG = [
    job(1, 3),
    job(0),
    job(2, 8, steps=2),
    job(2, offload_optimizer=OFFLOAD),
    *(job(stage, ranks, dtype) for stage in (0, 1, 2) for ranks, dtype in ((2, "fp32"), (5, "bf16"), (64, "bf16"))),
    *(job(stage, 4, "fp16") for stage in (0,)),
    *(job(stage, steps=2) for stage in (0, 1)),
    *(job(stage, overlap_comm=True) for stage in (1, 2)),
    *(job(stage, offload_optimizer=OFFLOAD) for stage in (1,)),
    *(job(stage, steps=2, offload_optimizer=OFFLOAD) for stage in (1, 2)),
    *(job(3, ranks, dtype) for ranks, dtype in ((2, "fp32"), (4, "fp16"), (64, "bf16"))),
    job(3, steps=2),
    job(3, offload_optimizer=OFFLOAD),
    job(3, **PARTS),
    job(3, sub_group_size=100_000),
    job(3, stage3_max_live_parameters=0, stage3_max_reuse_distance=0),
    job(3, stage3_param_persistence_threshold=100_000),
]


def measured(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    environment = dict(os.environ, DS_ACCELERATOR="cpu", PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(jobs)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
        env=environment,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(jobs), done.stderr[-3000:]
    return found


def setup_of(one: dict[str, Any]) -> TrainingSetup:
    """The setup that is read from the config, for one rank on each node."""
    facts = Facts(world_size=one["ranks"], nodes=one["ranks"])
    facts.model = Model("", {"model_type": "llama", **one["model"]})
    text = json.dumps(one["config"]).encode()
    basis = Basis(keys.knowledge(INSTALLED), "deepspeed", facts)
    found = setup.of(configs.from_document(documents.from_bytes(text, "config.json"), basis))
    assert found is not None
    return found


def expected(one: dict[str, Any], tensors: list[Any]) -> dict[str, Band]:
    """What a GPU and the host hold together, without its process."""
    found = setup_of(one)._replace(tensors=tuple(Tensor(*tensor) for tensor in tensors), flattens_on_gpu=True)
    run, begun = estimate(found), estimate(found._replace(accumulation_steps=1))  # nothing is accumulated yet
    lasting = [amount.bytes for name, amount in run.host.items() if name != "processes"]
    # At stages 1 to 3 there are no optimizer states before the first step.
    at_first = [amount.bytes for name, amount in begun.host.items() if name not in ("processes", "optimizer_states")]
    at_start = total([run.peaks["initialization"].tensors, *at_first])
    if found.optimizer_offload is not None:  # the GPU holds most before all of the host's buffers are made
        held = total([run.parts["parameters"].gpu.bytes, *at_first])
        at_start = at_start._replace(least=min(at_start.least, held.least))
    return {
        "initialization": at_start,
        "step": total([run.peaks["step"].tensors, *lasting]),
    }


def wrong(jobs: list[dict[str, Any]]) -> list[str]:
    """The phases of which the measured bytes are not in the band, or the likely ones are far from them."""
    of_most = [{**one, "rank": partition.holds_most(setup_of(one))} for one in jobs]
    found = []
    for one, answer in zip(jobs, measured(of_most), strict=True):
        assert "error" not in answer, answer["error"]
        bands, passing = expected(one, answer["tensors"]), PASSING * 2 * sum(size for _, size in answer["tensors"])
        began, passes, updated = (answer["phases"][name] for name in ("initialization", "passes", "update"))
        for phase, taken in (("initialization", began), ("step", max(passes, updated))):
            band = bands[phase]
            is_far = phase == "step" and abs(band.likely - taken) > LIKELY * taken
            if is_far or not band.least - passing <= taken <= band.most + passing:
                found.append(f"{phase} of {one['ranks']} ranks, {one['config']}: {taken:,} bytes, not {band}")
    return found


def test_the_engine_takes_what_is_said() -> None:
    assert wrong(QUICK) == []


@pytest.mark.long
def test_the_engine_takes_what_is_said_of_many_setups() -> None:
    assert wrong(LONG) == []
