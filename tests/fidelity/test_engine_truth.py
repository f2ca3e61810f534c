"""What rules claim about an engine that was built without complaint, looked up in the engine.

Most mistakes raise, and the examples of the rule pages show that they do. These change what the run computes, where it
keeps its states, or what it restores.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from linted import config_of

from ds_lint.source import documents

pytest.importorskip("deepspeed")

from installed import INSTALLED, knowledge, measured_with_the_newest
from oracle import Oracle, Verdict

from ds_lint.knowledge.advisories import advisories, is_affected
from ds_lint.semantics.effective import effective

pytestmark = pytest.mark.fidelity

ADAMW: dict[str, Any] = {"type": "AdamW", "params": {"lr": 1e-3}}
BF16, FP16 = {"bf16": {"enabled": True}}, {"fp16": {"enabled": True}}
AUTOCAST = {"torch_autocast": {"enabled": True, "dtype": "bfloat16"}}
CPU, NVME = ({"offload_optimizer": {"device": device, "nvme_path": "nvme"}} for device in ("cpu", "nvme"))


def config(stage: int, optimizer: dict[str, Any] = ADAMW, zero: Any = None, **sections: Any) -> dict[str, Any]:
    return {
        "train_batch_size": 4,
        "optimizer": optimizer,
        "zero_optimization": {"stage": stage} | (zero or {}),
    } | sections


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as running:
        yield running


def facts_of(verdict: Verdict) -> dict[str, Any]:
    """What was found out in a run to its end; an op without a stand-in ends no run of a user."""
    if verdict.undecided:
        pytest.skip(verdict.undecided)
    assert verdict.error is None
    return verdict.facts


# ------------------------------------------------------------------------------------------------------------- offload


@pytest.mark.parametrize(
    ("kind", "built"),
    [
        ("AdamW", "DeepSpeedCPUAdam"),
        ("Lion", "DeepSpeedCPULion"),
        ("Adagrad", "DeepSpeedCPUAdagrad"),
        ("Lamb", "FusedLamb"),
    ],
)
def test_stage_0_builds_the_optimizer_for_the_cpu(oracle, kind, built):
    """DS315: its parameters stay on the GPU, where there is one."""
    facts = facts_of(oracle.verdict(config(0, {"type": kind, "params": {"lr": 1e-3}}, CPU)))
    assert (facts["optimizer"], facts["zero_optimizer"]) == (built, built)


def keeps_states_on_the_host(engine: Any) -> dict[str, Any]:
    return {"host": engine.optimizer.cpu_offload, "files": os.path.exists("nvme")}


@pytest.mark.parametrize("stage", [1, 2])
def test_nvme_below_stage_3_is_host_memory(oracle, stage):
    """DS316."""
    facts = oracle.verdict(config(stage, zero=NVME), look=keeps_states_on_the_host).facts
    assert facts["host"] == knowledge().does("nvme-below-stage-3-is-host-memory")
    assert not facts["files"]


def zero_optimizer(engine: Any) -> dict[str, Any]:
    from deepspeed.utils import groups

    secondary = groups._get_zero_param_intra_parallel_group()
    return {"class": type(engine.optimizer).__name__, "has secondary partitions": secondary is not None}


SHARES = ("master weights", "gradients are shared", "bucket")


def shares(engine: Any) -> dict[str, Any]:
    optimizer = engine.optimizer
    masters = getattr(optimizer, "single_partition_of_fp32_groups", None)
    return {
        "master weights": masters and sum(one.numel() for one in masters),
        "gradients are shared": getattr(optimizer, "partition_gradients", None),
        "bucket": getattr(optimizer, "allgather_bucket_size", None),
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"zero_optimization": True}, {"zero_optimization": {"stage": 1}}),
        (
            {"zero_optimization": True, "allgather_size": 1000},
            {"zero_optimization": {"stage": 1, "allgather_bucket_size": 1000}},
        ),
        ({"zero_optimization": False, "allgather_size": 1000}, {"zero_optimization": {"stage": 0}}),
    ],
)
def test_a_boolean_zero_section_is_a_stage(oracle, old, new):
    """DS301, and what `ds-lint effective` shows."""
    one, other = ({**config(0), **section} for section in (old, new))
    built, meant = (
        {name: facts_of(oracle.verdict(each, world_size=4, look=shares))[name] for name in SHARES}
        for each in (one, other)
    )
    assert built == meant
    assert (built["master weights"] is not None) == old["zero_optimization"]
    shown = effective(config_of(documents.from_dict(one), target=INSTALLED, stack="deepspeed"))
    values = {value.key: value.value for value in shown}
    assert values["zero_optimization.stage"] == new["zero_optimization"]["stage"]
    assert built["bucket"] in (None, values["zero_optimization.allgather_bucket_size"])


@measured_with_the_newest
def test_what_is_for_stage_3_changes_nothing_below(oracle):
    """DS321 and DS323."""
    super_offload = {"offload_optimizer": {"device": "cpu", "super_offload": True}}
    for zero in ({"zero_quantized_weights": True, "zero_hpz_partition_size": 2}, super_offload):
        facts = oracle.verdict(config(2, zero=zero), world_size=4, look=zero_optimizer).facts
        assert (facts["class"], facts["has secondary partitions"]) == ("DeepSpeedZeroOptimizer", False)
    facts = oracle.verdict(config(3, zero={"zero_hpz_partition_size": 2}), world_size=4, look=zero_optimizer).facts
    assert facts["has secondary partitions"]


def save(engine: Any) -> dict[str, Any]:
    engine.save_checkpoint(os.environ["DS_LINT_CHECKPOINT"])
    return {"steps": steps_of_adam(engine)}


def load(engine: Any) -> dict[str, Any]:
    before = steps_of_adam(engine)
    path, _ = engine.load_checkpoint(os.environ["DS_LINT_CHECKPOINT"])
    return {"loaded": path is not None, "before": before, "steps": steps_of_adam(engine), "global": engine.global_steps}


def steps_of_adam(engine: Any) -> int:
    """The step counter, whose place differs between a state for each parameter and one for each group."""
    return max(int(state["step"]) for state in engine.basic_optimizer.state.values() if "step" in state)


@pytest.mark.parametrize("where", [CPU, NVME], ids=["cpu", "nvme"])
def test_a_checkpoint_brings_states_on_nvme_back_in_part(oracle, tmp_path, monkeypatch, where):
    """DS702: another process loads what one has saved after five steps."""
    monkeypatch.setenv("DS_LINT_CHECKPOINT", str(tmp_path))
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # DeepSpeed below 0.16 loads objects
    saved = facts_of(oracle.verdict(config(3, zero=where), steps=5, look=save))
    loaded = facts_of(oracle.verdict(config(3, zero=where), steps=1, look=load))
    assert (loaded["loaded"], loaded["global"], loaded["before"], saved["steps"]) == (True, 5, 1, 5)
    is_restored = where is CPU or not knowledge().does("nvme-states-are-loaded-in-part")
    assert loaded["steps"] == (5 if is_restored else 1)


def held_elements(engine: Any) -> dict[str, Any]:
    held = engine.optimizer.single_partition_of_fp32_groups
    return {"held": sum(group.numel() for group in held), "all": sum(p.numel() for p in engine.module.parameters())}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_one_rank_holds_everything(oracle, ranks):
    """DS803."""
    facts = oracle.verdict(config(2, **BF16), world_size=ranks, look=held_elements).facts
    assert facts["held"] == facts["all"] / ranks


# ---------------------------------------------------------------------------------------------------------------- Muon


def first_weight(engine: Any) -> dict[str, Any]:
    return {"weight": engine.module[0].weight.detach().float().flatten().tolist()}


def test_muon_without_zero(oracle):
    """DS531: one step of Muon at stage 0, against one of torch's SGD."""
    if knowledge().find(("optimizer", "params", "momentum")) is None:
        pytest.skip("this release builds torch's Muon")

    def after_a_step(kind: str) -> Any:
        optimizer = {"type": kind, "params": {"lr": 0.02}}
        return facts_of(oracle.verdict(config(0, optimizer), steps=1, look=first_weight))["weight"]

    is_sgd = after_a_step("Muon") == pytest.approx(after_a_step("SGD"), abs=1e-6)
    assert is_sgd == is_affected(
        "deepspeed", advisories()["DSA-2026-0041"]["libraries"]["deepspeed"], knowledge().deepspeed
    )


# ---------------------------------------------------------------------------------------------------------- loss scale


def moved(engine: Any) -> dict[str, Any]:
    """How far a bias is from where it began."""
    import torch

    torch.manual_seed(0)
    untrained = torch.nn.Linear(16, 16)
    return {"moved": float((engine.module[0].bias.detach().float() - untrained.bias).abs().sum())}


def test_fp16_at_stage_0_divides_gradients_that_were_not_scaled(oracle):
    """DS411: one step of SGD."""
    sgd = {"type": "SGD", "params": {"lr": 10}}
    rest = {"gradient_clipping": 0, "zero_allow_untested_optimizer": True, "train_batch_size": 1}

    def one_step(stage: int, **sections: Any) -> float:
        distance: float = facts_of(oracle.verdict(config(stage, sgd, **sections) | rest, steps=1, look=moved))["moved"]
        return distance

    right = one_step(0)
    fp16 = {"enabled": True, "initial_scale_power": 16}  # up to 0.17.0 it is 32 where no such key is given
    for stage in (1, 2):
        assert one_step(stage, fp16=fp16) == pytest.approx(right, rel=0.02)
    is_divided = not knowledge().does("loss-is-scaled-at-stage-0")
    for scale in (1, 8, 64):
        distance = one_step(0, fp16={"enabled": True, "loss_scale": scale})
        assert distance == pytest.approx(right / scale if is_divided else right, rel=0.05)
    assert (one_step(0, fp16=fp16) < right / 1000) == is_divided


def handed_to_adam(engine: Any) -> dict[str, Any]:
    """The largest gradient with which the optimizer is called; its own step is left out."""
    import torch

    found: list[float] = []

    def look(*_: Any, **__: Any) -> None:
        found.extend(
            float(p.grad.abs().max()) for group in engine.basic_optimizer.param_groups for p in group["params"]
        )

    engine.basic_optimizer.step = look
    torch.manual_seed(1)
    data = torch.randn(2, 16, dtype=torch.half, requires_grad=True)
    engine.backward(engine(data).float().pow(2).mean())
    engine.step()
    return {"gradient": max(found)}


@measured_with_the_newest
def test_fused_adam_gets_them_as_small(oracle):
    """DS411."""
    rest = {"gradient_clipping": 0, "train_batch_size": 1}
    stage_0, stage_1 = (
        oracle.verdict(config(stage, **FP16) | rest, steps=1, look=handed_to_adam).facts["gradient"] for stage in (0, 1)
    )
    assert stage_0 == pytest.approx(stage_1 / 2**16, rel=0.01)


def steps_until_it_fits(engine: Any) -> dict[str, Any]:
    """How many steps the real scaler skips until the scale is one that fp16 holds."""
    scaler, skipped = engine.optimizer.loss_scaler, 0
    while scaler.cur_scale > 2**16:
        scaler.update_scale(overflow=True)
        skipped += 1
    return {"skipped": skipped}


@measured_with_the_newest
@pytest.mark.parametrize(("power", "hysteresis", "skipped"), [(20, 2, 5), (32, 2, 17), (32, 1, 16), (48, 4, 35)])
def test_a_high_loss_scale_costs_a_step_for_each_power(oracle, power, hysteresis, skipped):
    """DS412."""
    fp16 = {"enabled": True, "initial_scale_power": power, "hysteresis": hysteresis}
    verdict = oracle.verdict(config(2, fp16=fp16), level="initialize", look=steps_until_it_fits)
    assert verdict.facts["skipped"] == skipped


def skipped_steps(engine: Any) -> dict[str, Any]:
    return {"skipped": engine.skipped_steps, "scale": engine.optimizer.loss_scale}


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_a_static_loss_scale_never_gives_up(oracle, stage):
    """DS413."""
    fp16 = {"enabled": True, "loss_scale": 1e9}
    verdict = oracle.verdict(config(stage, fp16=fp16), steps=6, look=skipped_steps)
    assert (verdict.error, verdict.facts["skipped"], verdict.facts["scale"]) == (None, 6, 1e9)


# -------------------------------------------------------------------------------------------------------------- dtypes


def dtypes(engine: Any) -> dict[str, Any]:
    _, accumulation = engine.get_data_types()
    return {
        "accumulation": str(accumulation),
        "communication": str(engine.communication_data_type),
        "of the optimizer": str(engine.optimizer.communication_data_type),
    }


@measured_with_the_newest
def test_bf16_casts_what_autocast_would_leave(oracle):
    """DS414."""
    both = oracle.verdict(config(2, **BF16, **AUTOCAST), look=dtypes).facts
    alone = oracle.verdict(config(2, **AUTOCAST), look=dtypes).facts
    assert (both["param_dtype"], both["communication"]) == ("bfloat16", "torch.bfloat16")
    assert (alone["param_dtype"], alone["communication"]) == ("float32", "torch.float32")


@pytest.mark.parametrize("stage", [2, 3])
@pytest.mark.parametrize("dtype", [BF16, {}])
def test_gradients_may_be_narrower_than_the_model(oracle, stage, dtype):
    """DS415 and DS416."""
    fp16 = "torch.float16"
    added = oracle.verdict(config(stage, **dtype, data_types={"grad_accum_dtype": "fp16"}), look=dtypes)
    assert (added.error, added.facts["accumulation"]) == (None, fp16)
    sent = oracle.verdict(config(stage, **dtype, communication_data_type="fp16"), world_size=2, look=dtypes)
    assert (sent.error, sent.facts["communication"], sent.facts["of the optimizer"]) == (None, fp16, fp16)


# --------------------------------------------------------------------------------------------------------------- ranks

RANK = """
import os, sys
import torch
rank, store = int(sys.argv[1]), sys.argv[2]
os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="3", LOCAL_SIZE="3", DS_ACCELERATOR="cpu")
import deepspeed
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled
torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(store, 3), rank=rank, world_size=3)
try:
    deepspeed.initialize(
        model=torch.nn.Linear(4, 4),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW", "params": {"torch_adam": True}},
            "tensor_parallel": {"autotp_size": 2},
        },
    )
except BaseException as error:
    sys.stderr.write(f"RAISED {type(error).__name__}: {error}")
os._exit(0)
"""


@measured_with_the_newest
def test_tensor_parallel_ranks_that_are_left_over_raise(tmp_path):
    """DS801: of three ranks, two make a group."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(RANK), str(rank), str(tmp_path / "store")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(3)
    ]
    try:
        left_over = ranks[2].communicate(timeout=120)[1]
    finally:
        for rank in ranks[:2]:  # they may wait for it for ever
            rank.kill()
    assert "RAISED IndexError: list index out of range" in left_over
    assert all("IndexError" not in rank.communicate()[1] for rank in ranks[:2])


def test_auto_tp_at_stage_3(oracle):
    """DS802; what follows is that AutoTP has no policy for the model."""
    if knowledge().find(("tensor_parallel", "autotp_size")) is None:
        pytest.skip("older than AutoTP training")
    verdict = oracle.verdict(config(3, tensor_parallel={"autotp_size": 2}), world_size=2)
    refuses = "has not been validated" in str(verdict.error)
    assert (verdict.rejected_at, refuses) == ("initialize", knowledge().does("tensor-parallel-refuses-stage-3"))
