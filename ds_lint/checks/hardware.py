"""Rules about the GPU and the machine of the run (DS85x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import bf16_section, is_on, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"


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
        f"{gpu.name} (compute capability {capability}) does not support bf16: torch emulates it without tensor cores, "
        "or raises",
        RISK,
        help="Use `fp16`, or fp32 if the model overflows in fp16. bf16 needs compute capability 8.0 or higher: newer "
        "torch emulates it, and with older torch deepspeed.initialize raises.",
        label="emulated",
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
                f"`{name}` to NVMe needs libaio, which the compiler here does not find: deepspeed.initialize raises",
                rejected("initialize"),
                help="Install libaio-dev (libaio-devel on RPM-based systems), or offload to the CPU. DeepSpeed "
                "builds async_io with the compiler of this machine.",
                label="cannot be built here",
            )
            return
