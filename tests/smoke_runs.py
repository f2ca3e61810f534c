"""Made training runs: one of each outcome."""

from __future__ import annotations

from ds_lint.diagnostics.verdict import (
    CPU,
    CUDA,
    FAKE,
    SCRIPT,
    Adaptation,
    Check,
    Estimated,
    Held,
    Measurements,
    PeakMemory,
    Projection,
    RankEnd,
    ScriptEngine,
    Step,
    Verdict,
)

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>&\x1b[31m\ud800"
PARAMETERS = 24736
VERSIONS = {
    "python": "3.11.2",
    "torch": "2.11.0",
    "deepspeed": "0.18.9",
    "transformers": "5.12.0",
    "accelerate": "1.12.0",
}
TINY = Adaptation(
    "zero_optimization.stage3_param_persistence_threshold",
    100_000,
    0,
    "the model is so small that every rank would keep all of it",
)
BATCH = Adaptation("train_batch_size", 256, 8, "the run has 2 ranks, the config is for 64")
STAGE = "zero_optimization.stage"


def check(id, status="pass", **changes):
    """A check of this id that passed without values, or what the changes make of it."""
    usual = {"key": None, "expected": None, "observed": None, "unit": None, "message": f"{id} is as asked for"}
    return Check(id, status, **(usual | changes))


def step(loss, rate=5e-4, **changes):
    usual = {"loss_scale": None, "gradient_norm": 1.25, "is_skipped": False}
    return Step(loss, [rate], **(usual | changes))


def held(elements):
    """What a rank holds that has so many elements of each kind: bf16, and fp32 masters and states."""
    return {
        "parameters": Held(elements, 2 * elements),
        "gradients": Held(elements, 2 * elements),
        "master weights": Held(elements, 4 * elements),
        "exp_avg": Held(elements, 4 * elements),
        "exp_avg_sq": Held(elements, 4 * elements),
    }


def verdict(**changes):
    """A run of ZeRO-3 on two CPU ranks that passed, or what the changes make of it."""
    half = [PARAMETERS // 2] * 2
    usual = {
        "path": "config.json",
        "stack": "deepspeed",
        "mode": CPU,
        "world_size": 2,
        "status": "pass",
        "adaptations": [TINY],
        "checks": [
            check("stage", key=STAGE, expected=3, observed=3, message="the engine runs ZeRO stage 3"),
            check("parameters", key=STAGE, expected=half, observed=half, unit="elements", adapted=True),
            check("optimizer-states", key=STAGE, expected=half, observed=half, unit="elements"),
            check("loss", expected="finite", observed=[4.1, 4.0, 3.9]),
            check("export", key="zero_optimization.stage3_gather_16bit_weights_on_model_save"),
            check("resume"),
            check("pinning", "skip", message="there is no pinned memory without a GPU"),
        ],
        "ranks": [RankEnd(0, "ok", "done"), RankEnd(1, "ok", "done")],
        "seconds": 4.16,
        "model": "tiny Llama, 24,736 parameters",
        "parameter_count": PARAMETERS,
        "steps": [step(4.1174, 0.0), step(4.0911, 1.67e-4), step(4.0512, 3.33e-4), step(4.01, 5e-4)],
        "held": [held(PARAMETERS // 2)] * 2,
        "versions": VERSIONS,
    }
    return Verdict(**(usual | changes))


def failing():
    whole = [PARAMETERS] * 2
    return verdict(
        status="fail",
        seconds=3.04,
        adaptations=[BATCH],
        checks=[
            check("loss", expected="finite", observed=[4.1, 4.0]),
            check(
                "optimizer-states",
                "fail",
                key="zero_optimizations.stage",
                expected=[PARAMETERS // 2] * 2,
                observed=whole,
                unit="elements",
                message="every rank holds all 24,736 elements of the optimizer's states: ZeRO is not on",
                help='write "zero_optimization"; nothing reads "zero_optimizations"',
            ),
            check(
                "clipping",
                "warn",
                key="gradient_clipping",
                expected=None,
                observed=1.0,
                message="it is not requested, and gradients are clipped at a norm of 1.0",
            ),
            check("overflow", "warn", key="fp16", expected=0, observed=2, unit="steps", message="2 of 4 steps skipped"),
            check("offload", "error", message="the engine does not say where its states are"),
            check("pinning", "skip", message="there is no pinned memory without a GPU"),
        ],
        held=[held(PARAMETERS)] * 2,
        steps=[
            step(4.12, 0.0, loss_scale=65536.0, gradient_norm=float("inf"), is_skipped=True),
            step(float("nan"), 0.0, loss_scale=32768.0, gradient_norm=float("inf"), is_skipped=True),
            step(4.12, 1.67e-4, loss_scale=16384.0),
            step(4.08, 3.33e-4, loss_scale=16384.0),
        ],
        log="smoke-logs/config.log",
    )


def broken():
    return verdict(
        status="error",
        error="rank 1 was killed by SIGKILL in phase initialize, usually because memory ran out",
        checks=[],
        adaptations=[],
        steps=[],
        held=[],
        ranks=[
            RankEnd(0, "exception", "initialize", "RuntimeError: Connection closed by peer\n  at gloo/transport"),
            RankEnd(1, "signal", "initialize", "SIGKILL"),
        ],
        log="smoke-logs/config.log",
    )


def on_gpus():
    return verdict(
        mode=CUDA,
        world_size=1,
        adaptations=[],
        checks=[
            check("stage", key=STAGE, expected=3, observed=3),
            check("optimizer-states", "skip", message="one rank shards nothing"),
            check("loss", expected="finite", observed=[4.1, 4.0, 3.9]),
            check("pinning", key="zero_optimization.offload_optimizer.pin_memory", expected=True, observed=True),
        ],
        ranks=[RankEnd(0, "ok", "done")],
        held=[held(PARAMETERS)],
        peak_bytes=[1_234_567_890],
    )


def simulated():
    return verdict(
        mode=FAKE,
        world_size=1024,
        checks=[
            check("stage", key=STAGE, expected=3, observed=3),
            check("parameters", key=STAGE, expected=29, observed=29, unit="elements", adapted=True),
            check("optimizer-states", key=STAGE, expected=29, observed=29, unit="elements"),
            check("batch", key="train_batch_size", expected=4096, observed=4096),
        ],
        ranks=[RankEnd(0, "ok", "done")],
        held=[held(29)],
    )


def hostile():
    return verdict(
        path=HOSTILE,
        stack="trainer",
        status="error",
        error=HOSTILE,
        model=HOSTILE,
        adaptations=[Adaptation(HOSTILE, {HOSTILE: [HOSTILE]}, HOSTILE, HOSTILE)],
        checks=[
            check("keys", "fail", key=HOSTILE, expected=HOSTILE, observed={HOSTILE: HOSTILE}, message=HOSTILE),
            check("loss", "warn", unit=HOSTILE, expected=1, message=HOSTILE, help=HOSTILE),
        ],
        ranks=[RankEnd(0, "exception", HOSTILE, HOSTILE)],
        held=[{HOSTILE: Held(8, 32)}],
        versions={HOSTILE: HOSTILE},
        log=HOSTILE,
    )


def of_script(device=CUDA, **changes):
    """A run of the user's own script, with what it takes."""
    gib = 2**30
    usual = {
        "gpu_peaks": [PeakMemory(0, 60 * gib, "backward", 2, 66 * gib), PeakMemory(1, 50 * gib, "step", 5, 55 * gib)],
        "host_peaks": [PeakMemory(0, 9 * gib, "save", 3), PeakMemory(1, 9 * gib, "script", 1)],
        "is_host_sampled": False,
        "step_seconds": 0.52,
        "timed_steps": [2, 3, 5],
        "seconds": {"initialize": 12.0, "save": 75.0, "load": 31.26},
        "own_seconds": 4.0,
        "samples": 8,
        "tokens": 4096,
        "files": {"model states": gib, "optimizer states": 6 * gib, "export": gib},
        "nvme_bytes": 12 * gib,
        "projection": Projection(1000, 520.0, 250, 130.0, 2, 16 * gib, 10 * gib),
        "estimated": [
            Estimated("parameters", gib, gib, gib),
            Estimated("peak GPU memory", 50 * gib, 80 * gib, 60 * gib),
        ],
    }
    engine = ScriptEngine(1, device, "train.Model", "torch.optim.adamw.AdamW", is_trained=True)
    if device == CPU:
        usual["gpu_peaks"] = []
    return verdict(mode=SCRIPT, engine=engine, measured=Measurements(**(usual | changes)))
