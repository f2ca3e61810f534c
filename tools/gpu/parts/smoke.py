"""The training run of ``ds-lint check --smoke`` on a GPU: stages, precisions, stacks, models, and offload."""

from __future__ import annotations

import contextlib
import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.gpu.proving import Prover, compared, without_ops
from tools.gpu.setting import Item, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.gpu.setting import Result

QUESTION = "Does a run on a GPU pass every check that the same run on a CPU rank passes?"
LANES = 4
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
WHOLE = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}


class Lane(NamedTuple):
    """The processes of a lane: one for the GPU, and one for CPU ranks."""

    plain: Prover
    on_cpu: Prover | None  # None in a rehearsal, whose runs are all on CPU ranks


@contextlib.contextmanager
def lane(setting: Setting) -> Iterator[Lane]:
    """These processes; none of them finds a built op."""
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(without_ops(setting))
        cpu = setting._replace(rehearses=True)
        yield Lane(plain, None if setting.rehearses else stack.enter_context(without_ops(cpu)))


def items(_setting: Setting) -> list[Item]:
    """The runs that most users have, then every other combination."""
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
        return compared(on_gpu, on_cpu)

    return Item(name, measure)
