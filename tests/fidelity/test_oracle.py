"""The oracle says what was measured by hand, facts about the newest DeepSpeed that this project's documentation states.

How it works, and that it leaves nothing behind, holds for every release.
"""

from __future__ import annotations

import contextlib
import copy
import glob
import json
import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest
from oracle import Oracle

from ds_lint.smoke.observe import recorder

pytestmark = pytest.mark.fidelity

ADAMW: dict[str, Any] = {"type": "AdamW", "params": {"lr": 3e-5}}


def config(optimizer: Any = ADAMW, **sections: Any) -> dict[str, Any]:
    return {"train_batch_size": 1, "optimizer": optimizer, **sections}


def adamw(**params: Any) -> dict[str, Any]:
    return {"type": "AdamW", "params": params}


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"stage": stage, **settings}


def warmup(**params: Any) -> dict[str, Any]:
    return {"type": "WarmupLR", "params": params}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


REJECTED = {
    "zero typo": (config(zero_optimization=zero(2, overlap_com=True)), "parse", "ValidationError"),
    "batch triangle": ({"train_batch_size": 4, "train_micro_batch_size_per_gpu": 3}, "parse", "4 != 3 * 1 * 1"),
    "batch auto": ({"train_micro_batch_size_per_gpu": "auto"}, "parse", "TypeError"),
    "fp16 and bf16": (
        config(fp16={"enabled": True}, bf16={"enabled": True}),
        "parse",
        "cannot be simultaneously enabled",
    ),
    "communication_data_type": (config(communication_data_type="float32"), "parse", "Invalid communication_data_type"),
    "removed section": (config(elasticity={"enabled": False}), "parse", "DeepSpeedConfigError"),
    "cpu_offload twice": (
        config(zero_optimization=zero(2, cpu_offload=True, offload_optimizer={"device": "cpu"})),
        "parse",
        "Cannot provide deprecated parameter",
    ),
    "device upper case": (
        config(zero_optimization=zero(2, offload_optimizer={"device": "CPU"})),
        "parse",
        "ValidationError",
    ),
    "optimizer typo": (
        config(adamw(lr=1e-3, weight_decayy=0)),
        "initialize",
        "unexpected keyword argument 'weight_decayy'",
    ),
    "optimizer type": (
        config({"type": "AdamWW", "params": {}}),
        "initialize",
        "AdamWW is not a supported DeepSpeed Optimizer",
    ),
    "optimizer typ": (
        config({"typ": "AdamW"}, zero_optimization=zero(1)),
        "initialize",
        "zero stage 1 requires an optimizer",
    ),
    "max_grad_norm": (config(adamw(max_grad_norm=1.0)), "initialize", "'max_grad_norm' is not supported"),
    "lr torch_adam": (config(adamw(lr="3e-5", torch_adam=True)), "initialize", "TypeError"),
    "lr CPUAdam": (
        config(adamw(lr="3e-5"), zero_optimization=zero(1, offload_optimizer={"device": "cpu"})),
        "initialize",
        "create_adam(): incompatible function arguments",
    ),
    "scheduler typo": (
        config(scheduler=warmup(warmup_num_step=2)),
        "initialize",
        "unexpected keyword argument 'warmup_num_step'",
    ),
    "warmup 0": (
        config(scheduler=warmup(warmup_num_steps=0)),
        "initialize",
        "warmup_num_steps must be a positive integer",
    ),
    "scheduler parms": (
        config(scheduler={"type": "WarmupLR", "parms": {}}),
        "initialize",
        "must be a mapping, not NoneType",
    ),
    "StepLR": (
        config(scheduler={"type": "StepLR", "params": {"step_size": 1}}, bf16={"enabled": True}),
        "initialize",
        "is not an Optimizer",
    ),
    "no optimizer": (
        {"train_batch_size": 1, "zero_optimization": zero(2)},
        "initialize",
        "zero stage 2 requires an optimizer",
    ),
    "nvme nowhere": (config(zero_optimization=zero(3, offload_param={"device": "nvme"})), "initialize", '"nvme_path"'),
    "lr FusedAdam": (config(adamw(lr="3e-5")), "train", "multi_tensor_adam(): incompatible function arguments"),
    "lr FusedLion": (config({"type": "Lion", "params": {"lr": "3e-5"}}), "train", "multi_tensor_lion(): incompatible"),
    "lr FusedLamb": (config({"type": "Lamb", "params": {"lr": "3e-5"}}), "train", "lamb(): incompatible"),
    "betas": (config(adamw(betas=[0.9])), "train", "not enough values to unpack"),
    "clipping auto": (config(gradient_clipping="auto", zero_optimization=zero(2)), "train", "TypeError"),
    "stage 3, no optimizer": ({"train_batch_size": 1, "zero_optimization": zero(3)}, "train", "AttributeError"),
}


@measured_with_the_newest
@pytest.mark.parametrize(("config", "stage", "error"), REJECTED.values(), ids=REJECTED)
def test_rejected(oracle: Oracle, config: dict[str, Any], stage: str, error: str) -> None:
    verdict = oracle.verdict(config, passed_optimizer=None)
    assert verdict.undecided is None
    assert (verdict.rejected_at, error in str(verdict.error)) == (stage, True), verdict


IGNORED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "nothing": (config(zero_optimization=zero(3), bf16={"enabled": True}, scheduler=warmup(warmup_num_steps=2)), set()),
    "top level": (config(gradient_cliping=1.0), {"gradient_cliping"}),
    "topmost key": (
        config(zero_optimizations={"stage": 3, "offload_param": {"device": "cpu"}}),
        {"zero_optimizations"},
    ),
    "open section": (
        config(activation_checkpointing={"cpu_checkpointin": True}),
        {"activation_checkpointing.cpu_checkpointin"},
    ),
    "optimizer.param": (config({"type": "AdamW", "param": {"lr": 1.0}}), {"optimizer.param"}),
    "scheduler.typee": (config(scheduler={"typee": "WarmupLR", "params": {}}), {"scheduler.typee", "scheduler.params"}),
    "Muon": (
        config({"type": "Muon", "params": {"lr": 1e-3, "momentumm": 0.9}}, zero_optimization=zero(2)),
        {"optimizer.params.momentumm"},
    ),
    "bfloat16 beside bf16": (config(bf16={"enabled": True}, bfloat16={"enabled": False}), {"bfloat16"}),
    "monitors": (config(tensorboard={"enabled": True}, wandb={"enabled": True}, csv_monitor={"enabled": True}), set()),
    "pipeline": (config(pipeline={"stages": 2}), {"pipeline.stages"}),
}


@measured_with_the_newest
@pytest.mark.parametrize(("config", "ignored"), IGNORED.values(), ids=IGNORED)
def test_ignored(oracle: Oracle, config: dict[str, Any], ignored: set[str]) -> None:
    verdict = oracle.verdict(config)
    assert (verdict.error, verdict.ignored) == (None, ignored)


@measured_with_the_newest
def test_auto_in_a_strict_section_is_dropped(oracle: Oracle) -> None:
    sections = {
        "zero_optimization": zero(2, stagee="auto", offload_optimizer={"device": "auto"}),
        "fp16": {"enabled": "auto"},
    }
    verdict = oracle.verdict(config(**sections))
    assert verdict.error is None
    assert verdict.auto_dropped == {
        "zero_optimization.stagee",
        "zero_optimization.offload_optimizer.device",
        "fp16.enabled",
    }
    assert verdict.facts["param_dtype"] == "float32"


@measured_with_the_newest
def test_facts(oracle: Oracle) -> None:
    settings = zero("3", offload_optimizer={"device": "cpu"})  # type: ignore[arg-type]
    verdict = oracle.verdict(
        {**config(zero_optimization=settings, fp16={"enabled": True}), "gradient_accumulation_steps": 1}
    )
    expected = {
        "stage": 3,
        "train_batch_size": 1,
        "gradient_clipping": 1.0,
        "optimizer": "DeepSpeedCPUAdam",
        "zero_optimizer": "DeepSpeedZeroOptimizer_Stage3",
        "scheduler": None,
        "param_dtype": "float16",
        "steps": 2,
        "lr": [3e-5],
    }
    assert verdict.error is None
    assert expected.items() <= verdict.facts.items()


@measured_with_the_newest
def test_the_script_may_hand_over_an_optimizer(oracle: Oracle) -> None:
    alone = {"train_batch_size": 1, "zero_optimization": zero(2)}
    assert "requires an optimizer" in str(oracle.verdict(alone, passed_optimizer=None).error)
    assert oracle.verdict(alone, passed_optimizer="AdamW").facts["optimizer"] == "AdamW"
    assert "untested ZeRO Optimizer" in str(oracle.verdict(alone, passed_optimizer="SGD").error)
    offloaded = {**alone, "zero_optimization": zero(2, offload_optimizer={"device": "cpu"})}
    assert "ZeRO-Offload with a client" in str(oracle.verdict(offloaded, passed_optimizer="AdamW").error)
    assert oracle.verdict(offloaded, passed_optimizer="DeepSpeedCPUAdam").facts["steps"] == 2


def test_gradient_accumulation_is_run_to_its_boundary(oracle: Oracle) -> None:
    assert oracle.verdict({**config(), "train_batch_size": 24, "gradient_accumulation_steps": 8}).facts["steps"] == 2


def test_warnings(oracle: Oracle) -> None:
    verdict = oracle.verdict(config(zero_optimization=zero(2, cpu_offload=True)))
    assert "Config parameter cpu_offload is deprecated use offload_optimizer instead" in verdict.warnings
    assert verdict.facts["optimizer"] == "DeepSpeedCPUAdam"


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("// hjson\n{train_micro_batch_size_per_gpu: 1,}", None),
        ('{"train_batch_size": 1, "train_batch_size": 1}', "load"),
        ('{"train_batch_size": 1', "load"),
        ("", "parse"),
        ("[]", "parse"),
        (b"\xff\xfe", "load"),
    ],
)
def test_file(oracle: Oracle, text: str | bytes, stage: str | None) -> None:
    assert oracle.verdict(text, level="initialize").rejected_at == stage


@measured_with_the_newest
def test_hjson_makes_integers_of_floats(oracle: Oracle, tmp_path: Path) -> None:
    schedule = config(scheduler=warmup(warmup_num_steps=100.0), gradient_cliping=1.0)
    file = tmp_path / "ds_config.json"
    file.write_text(json.dumps(schedule))
    assert oracle.verdict(schedule).rejected_at == "initialize"
    assert oracle.verdict(schedule, as_file=True) == oracle.verdict(file)
    assert oracle.verdict(file).ignored == {"gradient_cliping"}
    assert oracle.verdict(file).error is None


def test_world_size(oracle: Oracle) -> None:
    stage_3 = {**config(zero_optimization=zero(3)), "train_batch_size": 64}
    assert oracle.verdict(stage_3, world_size=64, level="parse").facts["train_micro_batch_size_per_gpu"] == 1
    assert oracle.verdict(stage_3, world_size=64).error is None
    assert oracle.verdict(stage_3, world_size=128).rejected_at == "parse"


def has_fp16() -> bool:
    """Whether this CPU computes in fp16, as some with AVX512-FP16 do."""
    import torch

    return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


@measured_with_the_newest
def test_what_depends_on_the_machine_is_not_rejected(oracle: Oracle) -> None:
    half = config(fp16={"enabled": True})
    assert oracle.verdict(half).error is None
    on_this_cpu = str(oracle.verdict(half, assume_gpu=False).error)
    assert ("Type fp16 is not supported on your device" in on_this_cpu) != has_fp16()
    for settings, reason in (
        (zero(3, offload_optimizer={"device": "cpu", "super_offload": True}), "cuda"),
        (zero(3, zero_quantized_weights=True), "gpu_op"),
        (zero(2, reduce_bucket_size=10**13), "memory"),
    ):
        verdict = oracle.verdict(config(zero_optimization=settings, bf16={"enabled": True}))
        assert (verdict.rejected_at, verdict.undecided) == (None, reason)


@measured_with_the_newest
def test_nvme_is_written_nowhere_else(oracle: Oracle, tmp_path: Path) -> None:
    nvme = {"device": "nvme", "nvme_path": str(tmp_path)}
    assert oracle.verdict(config(zero_optimization=zero(3, offload_param=nvme, offload_optimizer=nvme))).error is None
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------- nothing is left over


def test_silence_and_order(oracle: Oracle, capfd: pytest.CaptureFixture[str]) -> None:
    configs = [config(log_level="debug", dump_state=True, **({"unknown": 1} if i % 3 else {})) for i in range(7)]
    for level in ("parse", "train"):
        verdicts = oracle.verdicts(configs, level=level)  # type: ignore[arg-type]
        assert ["unknown" in verdict.ignored for verdict in verdicts] == [i % 3 > 0 for i in range(7)]
    assert capfd.readouterr() == ("", "")


def test_a_hanging_config_is_stopped() -> None:
    with Oracle(processes=1, timeout=0.001) as oracle:  # else one answers while the other is forked
        verdicts = oracle.verdicts([config(), config()], level="train")  # which takes longer
        directory = oracle.directory
    assert [verdict.undecided for verdict in verdicts] == ["no answer within 0.001 s"] * 2
    assert not directory.exists()


def test_children_die_with_their_parent() -> None:
    script = f"""
        import contextlib, sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        with contextlib.redirect_stdout(sys.stderr):  # older releases log the accelerator
            from oracle import Oracle
            oracle = Oracle()
            oracle.verdict({{"train_batch_size": 1}}, level="parse")
        print(oracle._idle[0].pid, oracle.directory, flush=True)
        time.sleep(60)
    """
    parent = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child, directory = parent.stdout.readline().split()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    shutil.rmtree(directory)  # no process is left that would
    deadline = time.monotonic() + 10
    while _lives(int(child)):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # a zombie waits for its new parent


def test_shared_memory(oracle: Oracle) -> None:
    before = set(os.listdir("/dev/shm"))
    offload = {"zero_optimization": zero(2, offload_optimizer={"device": "cpu"}), "bf16": {"enabled": True}}
    writer = {"checkpoint": {"writer": {"type": "fast", "decoupled": True, "data_parallel": "replica"}}}
    assert [verdict.error for verdict in oracle.verdicts([config(**offload), config(**writer)])] == [None, None]
    assert [name for name in set(os.listdir("/dev/shm")) - before if not _is_in_use(name)] == []


def _is_in_use(segment: str) -> bool:
    """Whether a process has it open; other tests may run beside this one."""
    for maps in glob.glob("/proc/[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if f"/dev/shm/{segment}" in Path(maps).read_text():
                return True
    return False


# --------------------------------------------------------------------------------------------------- the recording dict


def test_recording() -> None:
    log = recorder.start()
    plain = {"read": 1, "swept": 2, "call": {"a": 1, "b": 2}, "list": [{"c": 3, "d": 4}], "in": 5, "asked": 6}
    watched = recorder.wrap(copy.deepcopy(plain), (), log)

    def function(**arguments: Any) -> dict[str, Any]:
        return arguments

    assert (watched, json.loads(json.dumps(watched)), pickle.loads(pickle.dumps(watched))) == (plain, plain, plain)
    assert ({**watched}, dict(watched), dict(watched.items())) == (plain, plain, plain)
    assert not log.read
    assert copy.copy(watched)["read"] == copy.deepcopy(watched).get("read") == 1
    assert function(**watched["call"]) == plain["call"]
    assert watched["list"][0].pop("c") == 3
    assert "in" in watched
    assert "asked" in watched.keys()  # noqa: SIM118
    assert recorder.unread(plain, log) == {("swept",), ("list", 0, "d")}
