"""The training run of ``ds-lint check --smoke`` on a GPU: stages, precisions, stacks, offload, and the real ops."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.smoke.driver.proof import RunOptions
from tools.gpu import builds
from tools.gpu.proving import Prover, not_passed, prover
from tools.gpu.setting import ERROR, FAIL, PASS, Item, Setting, Unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.gpu.setting import Result

QUESTION = (
    "Does a run on a GPU, with its kernels, pass the checks that the same run on a CPU rank passes, and no others?"
)
LANES = 4
_EXTENSIONS = "TORCH_EXTENSIONS_DIR"
BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
}
PRECISIONS: dict[str, Result] = {
    "bf16": {"bf16": {"enabled": True}},
    "fp16": {"fp16": {"enabled": True, "initial_scale_power": 8}},
    "fp32": {},
}
_TF32 = {  # with the values of the config
    "tf32": True,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 2,
    "max_grad_norm": 1.0,
    "learning_rate": 1e-3,
}
STACKS = ("deepspeed", "trainer", "accelerate")
_MODELS = ("gpt2", "qwen3", "mixtral", "bert", "t5", "gemma2")  # small ones of the type that transformers makes
CPU = {"device": "cpu", "pin_memory": True}
NVME = {"device": "nvme", "nvme_path": "nvme", "pin_memory": True}
_WHOLE = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
# Each with the op that its steps need, in the order of how many users have it.
WITH_OPS: tuple[tuple[str, str, Result], ...] = (
    ("FusedAdam, stage 2", "fused_adam", {"zero_optimization": {"stage": 2}}),
    ("FusedAdam, stage 3", "fused_adam", {"zero_optimization": _WHOLE}),
    ("CPUAdam, stage 2", "cpu_adam", {"zero_optimization": {"stage": 2, "offload_optimizer": CPU}}),
    (
        "CPUAdam, stage 3",
        "cpu_adam",
        {"zero_optimization": {**_WHOLE, "offload_optimizer": CPU, "offload_param": CPU}},
    ),
    ("async_io", "async_io", {"zero_optimization": {**_WHOLE, "offload_optimizer": NVME}}),
    ("async_io, parameters", "async_io", {"zero_optimization": {**_WHOLE, "offload_param": NVME}}),
    (
        "FusedLamb, stage 0, fp32",  # its kernel has no bf16
        "fused_lamb",
        {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}, "bf16": {}, "zero_optimization": {"stage": 0}},
    ),
    (
        "FusedLamb, stage 2",
        "fused_lamb",
        {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}, "zero_optimization": {"stage": 2}},
    ),
    (
        "FusedLion, stage 2",
        "fused_lion",
        {"optimizer": {"type": "Lion", "params": {"lr": 1e-4}}, "zero_optimization": {"stage": 2}},
    ),
    (
        "CPULion, stage 2",
        "cpu_lion",
        {
            "optimizer": {"type": "Lion", "params": {"lr": 1e-4}},
            "zero_optimization": {"stage": 2, "offload_optimizer": CPU},
        },
    ),
    (
        "CPUAdagrad, stage 2",
        "cpu_adagrad",
        {
            "optimizer": {"type": "Adagrad", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 2, "offload_optimizer": CPU},
        },
    ),
)


class Lane(NamedTuple):
    """The processes of a lane: one without any built op, one that builds them, and one for CPU ranks."""

    plain: Prover
    building: Prover
    on_cpu: Prover | None  # None in a rehearsal, whose runs are all on CPU ranks


@contextlib.contextmanager
def lane(setting: Setting) -> Iterator[Lane]:
    """These processes; what one builds, the others do not see."""
    nothing = {_EXTENSIONS: os.path.join(setting.folder, "no-ops")}
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(prover(setting, **nothing))
        building = stack.enter_context(prover(setting, **builds.environment(setting.ops)))
        cpu = setting._replace(rehearses=True)
        yield Lane(plain, building, None if setting.rehearses else stack.enter_context(prover(cpu, **nothing)))


def items(setting: Setting) -> list[Item]:
    """The runs that most users have, then every other combination, then those with the real ops."""
    grid = sorted(itertools.product((3, 2, 1, 0), PRECISIONS, STACKS), key=_is_rare)
    common = [_of_stage(*one) for one in grid]
    return [
        *common[:4],
        *(_run(name, config) for name, config in _offloaded()),
        *common[4:],
        *(
            _run(f"stage {stage}, fp32, trainer, tf32", config_of(stage, "fp32"), stack="trainer", arguments=_TF32)
            for stage in (2, 3)
        ),
        *(_run(name, config, model) for name, model, config in _of_models()),
        *(_with_op(setting, name, op, more) for name, op, more in WITH_OPS),
    ]


def config_of(stage: int, precision: str = "bf16", **zero: Any) -> Result:
    """A config that trains, saves and resumes."""
    gathers = {"stage3_gather_16bit_weights_on_model_save": True} if stage == 3 else {}
    return {**BASE, **PRECISIONS[precision], "zero_optimization": {"stage": stage, **gathers, **zero}}


def _offloaded() -> Iterator[tuple[str, Result]]:
    """Configs whose tensors are elsewhere."""
    for stage in (2, 3, 1):
        yield f"stage {stage}, optimizer on the CPU", config_of(stage, offload_optimizer=CPU)
    yield "stage 3, both on the CPU", config_of(3, offload_optimizer=CPU, offload_param=CPU)
    yield "stage 3, fp16, both on the CPU", config_of(3, "fp16", offload_optimizer=CPU, offload_param=CPU)
    yield "stage 3, optimizer on NVMe", config_of(3, offload_optimizer=NVME)
    yield "stage 3, both on NVMe", config_of(3, offload_optimizer=NVME, offload_param=NVME)


def _of_models() -> Iterator[tuple[str, str, Result]]:
    """Other architectures: biases whose gradients cancel, other kinds of attention, experts, an encoder."""
    for model, precision, stage in itertools.product(_MODELS, ("bf16", "fp32"), (2, 3)):
        yield f"{model}, stage {stage}, {precision}", model, config_of(stage, precision)


def _is_rare(one: tuple[int, str, str]) -> int:
    """bf16 at stages 2 and 3 first, and fp32 last."""
    stage, precision, stack = one
    return 4 * (precision == "fp32") + 2 * (precision == "fp16") + (stage < 2) + STACKS.index(stack)


def _of_stage(stage: int, precision: str, stack: str) -> Item:
    return _run(f"stage {stage}, {precision}, {stack}", config_of(stage, precision), stack=stack)


def _run(
    name: str,
    config: Result,
    model: str | None = None,
    stack: str = "deepspeed",
    arguments: Result | None = None,
) -> Item:
    """A run on the GPU, and the same on a CPU rank, which shows which checks pass there."""

    def measure(shared: Lane) -> Result:
        prove = functools.partial(Prover.prove, config=config, stack=stack, model=model, arguments=arguments)
        on_gpu = prove(shared.plain)
        on_cpu = prove(shared.on_cpu) if shared.on_cpu is not None else on_gpu
        return _compared(on_gpu, on_cpu)

    return Item(name, measure)


def _with_op(setting: Setting, name: str, op: str, more: Result) -> Item:
    """With the kernel that DeepSpeed compiles, which is built meanwhile."""

    def measure(shared: Lane) -> Result:
        if setting.rehearses and op not in builds.OPS["cpu"]:
            raise Unanswered(f"does {op} run as DeepSpeed compiles it?")
        built = builds.result(setting.ops, op)
        if built is None and setting.rehearses:
            raise Unanswered(f"does {op} run as DeepSpeed compiles it? Nothing builds it here.")
        config = {**config_of(2), "zero_allow_untested_optimizer": True, **more}
        with_op = shared.building.prove(config, wish=RunOptions(ranks=1, builds_ops=True))
        without = shared.plain.prove(config)
        return {
            **_compared(with_op, without),
            "op": op,
            "built": built,
            "losses_with_stand_in": without["losses"],
        }

    # On CPUs, DeepSpeed compiles what ranks share memory with, too.
    return Item(name, measure, seconds=150.0 if setting.rehearses else 20.0)


def _compared(found: Result, reference: Result) -> Result:
    """A run that is as it should be if it trains, and the same checks pass in it as in another one."""
    expected, observed = not_passed(reference), not_passed(found)
    is_the_same = expected == observed and "start" not in observed
    status = ERROR if found["error"] is not None else PASS if is_the_same else FAIL
    return {**found, "verdict": found["status"], "status": status, "expected": expected, "observed": observed}
