"""What rules say of optimizers and their kernels, and of timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.gpu.claimed.claim import (
    BF16,
    LAMB,
    UNTESTED,
    Claim,
    config_of,
    every,
    fp16,
    is_less_exact,
    offloaded,
    raises,
    shows,
    trains,
)

if TYPE_CHECKING:
    from tools.gpu.setting import Result

_WAITS = "Where do the timers wait?"
# Nothing else that waits: the throughput timer is on by default, and waits at the end of each step too.
_UNTIMED: Result = {"gradient_clipping": 0, "timers": {"throughput": {"enabled": False}}}

CLAIMS = (
    Claim(
        name="tf32",
        rule="DS611",
        says=("With --tf32 on a GPU since Ampere, nothing raises, and products of matrices in fp32 are less exact."),
        config={"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}},
        expected="TrainingArguments are made, and the error of a product grows tenfold or more",
        holds=is_less_exact,
        question="Are products of matrices less exact?",
        reports=False,
        look="dtypes:tf32",
        facts={"trainer_args": {"tf32": True}, "gpu": "H100"},
        stack="trainer",
    ),
    Claim(
        name="timers-wait",
        rule="DS842",
        says="`wall_clock_breakdown` reads its timers in every step, which waits for the GPU.",
        config=config_of(0, "SGD", wall_clock_breakdown=True, **_UNTIMED),
        expected="the GPU is idle when step returns, and without this key it is not",
        holds=every(shows("step", True), shows("step", False, "without")),
        question=_WAITS,
        look="times:waits",
        others={"without": config_of(0, "SGD", **_UNTIMED)},
    ),
    Claim(
        name="flops-profiler-waits",
        rule="DS842",
        says="`flops_profiler` turns on `wall_clock_breakdown`, whose timers are read in every step.",
        config=config_of(0, "SGD", flops_profiler={"enabled": True, "profile_step": 100}, **_UNTIMED),
        expected="the GPU is idle when step returns, and without this key it is not",
        holds=every(shows("step", True), shows("step", False, "without")),
        question=_WAITS,
        look="times:waits",
        others={"without": config_of(0, "SGD", **_UNTIMED)},
    ),
    *(
        Claim(
            name=f"{optimizer.lower()}-offloaded-at-stage-0",
            rule="DS315",
            says=f"The first step of {built} raises because the parameters stay on the GPU.",
            config=offloaded(0, optimizer),
            expected="AssertionError in the first step: the parameter must be on the CPU",
            holds=raises("step", "must be 'cpu'", step=1),
            question="Does the first step raise?",
        )
        for optimizer, built in (
            ("AdamW", "DeepSpeedCPUAdam"),
            ("Adagrad", "DeepSpeedCPUAdagrad"),
            ("Lion", "DeepSpeedCPULion"),
        )
    ),
    Claim(
        name="adamw-offloaded-at-stage-1",
        rule="DS315",
        says="Stage 1 also offloads on a single GPU: nothing is reported.",
        config=offloaded(1),
        expected="it trains, with master weights and states in host memory",
        holds=every(
            trains(),
            shows("master.devices", ["cpu"]),
            shows("states.devices", ["cpu"]),
            shows("parameters.devices", ["cuda"]),
        ),
        question="Are only the states offloaded?",
        reports=False,
        how={"needed": ["cpu_adam"]},
    ),
    Claim(
        name="lamb-in-bf16-without-zero",
        rule="DS530",
        says="The first step raises, because the Lamb kernel has no bf16.",
        config=config_of(None, "Lamb", **BF16),
        expected="RuntimeError in the first step: lamb_cuda_kernel not implemented for BFloat16",
        holds=raises("step", "lamb_cuda_kernel", step=1),
        question="Does the real kernel refuse bf16?",
        how=LAMB,
    ),
    Claim(
        name="lamb-in-bf16-at-stage-1",
        rule="DS530",
        says="At stage 1 the kernel gets gradients in fp32: nothing is reported.",
        config=config_of(1, "Lamb", **BF16, **UNTESTED),
        expected="it trains",
        holds=trains(),
        question="Does it train with the real kernel?",
        reports=False,
        how=LAMB,
    ),
    Claim(
        name="lamb-offloaded-at-stage-0",
        rule="DS315",
        says="The states of FusedLamb stay on the GPU.",
        config=offloaded(0, "Lamb"),
        expected="it trains, with all states on the GPU",
        holds=every(trains(), shows("states.devices", ["cuda"])),
        question="Where are the states of Lamb?",
        how=LAMB,
    ),
    *(
        Claim(
            name=f"lamb-offloaded-at-stage-{stage}",
            rule="DS369",
            says=f"FusedLamb gets weights in host memory at stage {stage}, and its first step raises.",
            config=offloaded(stage, "Lamb", **UNTESTED),
            expected="RuntimeError in the first step: it must be a CUDA tensor",
            holds=raises("step", "must be a CUDA tensor", step=1),
            question="Does the kernel of Lamb reject what is in host memory?",
            how=LAMB,
        )
        for stage in (1, 2, 3)
    ),
    Claim(
        name="lamb-at-stage-3",
        rule="DS507",
        says="Lamb at stage 3 with zero_allow_untested_optimizer: nothing is reported.",
        config=config_of(3, "Lamb", **UNTESTED),
        expected="it trains",
        holds=trains(),
        question="Does it train with the real kernel?",
        reports=False,
        how=LAMB,
    ),
    Claim(
        name="lamb-untested-with-zero",
        rule="DS507",
        says="deepspeed.initialize raises: DeepSpeed has not tested FusedLamb with ZeRO.",
        config=config_of(1, "Lamb"),
        expected="an exception about zero_allow_untested_optimizer in deepspeed.initialize",
        holds=raises("initialize", "untested"),
    ),
    Claim(
        name="lamb-with-static-loss-scale",
        rule="DS515",
        says="Lamb needs a dynamic loss scale: deepspeed.initialize raises.",
        config=config_of(None, "Lamb", **fp16(loss_scale=128)),
        expected="AssertionError about dynamic loss scaling",
        holds=raises("initialize", "dynamic loss scaling"),
    ),
    Claim(
        name="lion-in-bf16-without-zero",
        rule="DS530",
        says="The kernel of Lion has bf16: nothing is reported.",
        config=config_of(None, "Lion", **BF16),
        expected="it trains",
        holds=trains(),
        question="Does the real kernel take bf16?",
        reports=False,
        how={"needed": ["fused_lion"]},
    ),
    Claim(
        name="adamw-with-amsgrad",
        rule="DS504",
        says="FusedAdam does not support amsgrad: deepspeed.initialize raises.",
        config=config_of(params={"amsgrad": True}),
        expected="RuntimeError in deepspeed.initialize",
        holds=raises("initialize", "AMSGrad"),
        question="Does the class for a GPU refuse it?",
    ),
    Claim(
        name="legacy-fusion",
        rule="DS510",
        says=("The bf16 wrapper calls FusedAdam with arguments that it no longer accepts: the first step raises."),
        config={**config_of(**BF16), "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}, "legacy_fusion": True}},
        expected="RuntimeError in the first step: FusedAdam has been updated",
        holds=raises("step", "FusedAdam has been updated", step=1),
        question="Does the class for a GPU refuse it?",
    ),
    Claim(
        name="static-loss-scale-with-fused-adam",
        rule="DS409",
        says="Since 0.17.1 a static loss scale without ZeRO has its timers: nothing is reported.",
        config=config_of(None, **fp16(loss_scale=1)),
        expected="it trains",
        holds=trains(),
        question="Does it train with the real kernel?",
        reports=False,
        how={"needed": ["fused_adam"]},
    ),
)
