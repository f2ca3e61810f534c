"""Rules about the GPU and the machine of the run (DS85x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import bf16_section, is_on, zero_stage
from ds_lint.semantics.memory import WEIGHT, billions, gibibytes, model_states

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"
_ROOM = 0.95  # share of the host memory that an estimate may fill; it includes no buffers of the checkpoint or the data
_GATHERS = ("stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save")


@rule("DS850", "bf16-without-support", severity="warning", effects=("risk",), keys=("bf16", "bfloat16"))
def bf16_without_support(config: Config) -> Iterator[Problem]:
    """bf16 on a GPU that is older than Ampere."""
    section, gpu = bf16_section(config), config.facts.gpu
    member = config.member(section, "enabled")
    if gpu is None or gpu.supports_bf16 or member is None or not is_on(config, section, "enabled"):
        return
    capability = ".".join(map(str, gpu.compute_capability or ()))
    yield Problem(
        (section, "enabled"),
        member.value.span,
        f"{gpu.name} (compute capability {capability}) does not support bf16, which needs 8.0 or higher: newer torch "
        "emulates it without tensor cores, and with older torch deepspeed.initialize raises",
        RISK,
        help="Use `fp16`, or fp32 if the model overflows in fp16.",
        label="emulated",
    )


@rule("DS851", "offload-exceeds-host-memory", severity="warning", effects=("risk",), keys=(ZERO,))
def offload_exceeds_host_memory(config: Config) -> Iterator[Problem]:
    """States offloaded to the CPU that need more memory than a node has."""
    states, memory, stage = model_states(config), config.facts.host_memory, config.member(ZERO, "stage")
    if states is None or states.host is None or memory is None or stage is None:
        return
    needed = sum(states.host.values())
    likely = needed + states.beside if needed else 0
    if needed <= memory and likely <= _ROOM * memory:
        return
    about = f", about {gibibytes(likely)} with page-locked buffers and processes," if states.beside else ","
    yield Problem(
        (ZERO,),
        stage.value.span,
        f"offload of the states of {billions(states.parameters)} parameters to the CPU needs at least "
        f"{gibibytes(needed)} on each node ({_parts(states.host)}){about} but a node has {gibibytes(memory)} of "
        "memory: "
        + (
            "if you train all parameters, the system kills the run"
            if needed > memory
            else "if you train all parameters, the system may kill the run"
        ),
        RISK,
        help="Use more nodes, or offload to NVMe at stage 3. LoRA trains fewer parameters and needs less."
        if needed > memory
        else "Set `pin_memory` to false, use more nodes, or offload to NVMe at stage 3.",
        label=f"{gibibytes(needed if needed > memory else likely)} of {gibibytes(memory)}",
    )


@rule("DS852", "states-exceed-gpu-memory", severity="warning", effects=("risk",))
def states_exceed_gpu_memory(config: Config) -> Iterator[Problem]:
    """Weights, gradients and optimizer states that need more memory than a GPU has."""
    states, gpu = model_states(config), config.facts.gpu
    if states is None or gpu is None:
        return
    needed = sum(states.gpu.values())
    if needed <= gpu.memory:
        return
    alone = states.gpu["weights"] > gpu.memory
    stage = config.member(ZERO, "stage")
    yield Problem(
        (ZERO, "stage") if stage else None,
        stage.value.span if stage else config.opening,
        f"training {billions(states.parameters)} parameters needs at least {gibibytes(needed)} on every GPU "
        f"({_parts(states.gpu)}), but {gpu.name} has {gibibytes(gpu.memory)}: "
        + ("the weights alone do not fit" if alone else "if you train all parameters, the run is out of memory"),
        RISK,
        help="Use a higher ZeRO stage, more ranks, or offload."
        + ("" if alone else " LoRA trains fewer parameters and needs less."),
        label=f"{gibibytes(needed)} of {gibibytes(gpu.memory)}",
    )


@rule("DS853", "nvme-without-libaio", severity="error", effects=("rejected",), keys=(ZERO,))
def nvme_without_libaio(config: Config) -> Iterator[Problem]:
    """Offload to NVMe on a machine on which DeepSpeed cannot build ``async_io``."""
    if config.facts.async_io is not False or zero_stage(config) != 3:
        return
    for name in ("offload_param", "offload_optimizer"):
        member = config.member(ZERO, name, "device")
        if member is not None and member.value.value == "nvme":
            yield Problem(
                (ZERO, name, "device"),
                member.value.span,
                f"`{name}` to NVMe needs libaio, but the compiler on this machine does not find it: "
                "deepspeed.initialize raises when it builds async_io",
                rejected("initialize"),
                help="Install libaio-dev (libaio-devel on RPM-based systems), or offload to the CPU.",
                label="cannot be built here",
            )
            return


@rule("DS854", "gathered-weights-exceed-host-memory", severity="info", effects=("risk",), keys=(ZERO,), default=False)
def gathered_weights_exceed_host_memory(config: Config) -> Iterator[Problem]:
    """A save that gathers the whole model on one rank, on a node with less memory than that."""
    model, memory = config.facts.model, config.facts.host_memory
    member = next((found for name in _GATHERS if (found := config.member(ZERO, name)) is not None), None)
    if member is None or model is None or not model.parameter_count or memory is None or zero_stage(config) != 3:
        return
    size = model.parameter_count * WEIGHT
    if is_on(config, ZERO, member.key) and size > memory:
        yield Problem(
            (ZERO, member.key),
            member.value.span,
            f"a save of the model gathers {billions(model.parameter_count)} parameters (at least {gibibytes(size)}) in "
            f"the host memory of rank 0, but the node has {gibibytes(memory)}",
            RISK,
            help="Save sharded checkpoints, and convert them with zero_to_fp32.py on a machine with more memory.",
            label=f"{gibibytes(size)} of {gibibytes(memory)}",
        )


def _parts(sizes: dict[str, float]) -> str:
    return ", ".join(f"{name} {gibibytes(size)}" for name, size in sizes.items() if size)
