"""All that is looked up about this machine."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ds_lint.facts import host
from ds_lint.facts.machine.accelerate_default import AccelerateDefault, accelerate_default
from ds_lint.facts.machine.driver import GpuDriver, driver
from ds_lint.facts.machine.operators import Ops, Surrounding, ops
from ds_lint.facts.machine.software import Software, software
from ds_lint.facts.machine.toolkit import BuildTools, Toolkit, build_tools, toolkit
from ds_lint.facts.machine.torch_build import TorchBuild, torch_build
from ds_lint.targets.distributions import training_environment
from ds_lint.targets.text import text_of

_INFINIBAND = "/sys/class/infiniband"


class Machine(NamedTuple):
    """Software, GPUs, memory and DeepSpeed's ops; None is not known."""

    software: Software
    torch: TorchBuild | None
    driver: GpuDriver
    toolkit: Toolkit | None
    tools: BuildTools
    ops: Ops
    processors: int | None
    processor: str | None
    memory: int | None  # bytes
    shared_memory: int | None  # bytes of /dev/shm
    infiniband: tuple[str, ...]
    accelerate_default: AccelerateDefault | None


def machine(directory: str) -> Machine:
    """What is known of the machine here, with the environment that the project around a directory trains in."""
    paths = training_environment(directory)
    around = Surrounding(toolkit(), build_tools(), driver(), torch_build(paths))
    return Machine(
        software(directory),
        around.torch,
        around.driver,
        around.toolkit,
        around.tools,
        ops(paths, around),
        os.cpu_count(),
        _processor(),
        host.memory(),
        host.shared_memory(),
        tuple(_infiniband()),
        accelerate_default(),
    )


def _processor() -> str | None:
    found = re.search(r"^model name\s*:\s*(.+)$", text_of("/proc/cpuinfo"), re.MULTILINE)
    return found[1].strip() if found is not None else None


def _infiniband() -> list[str]:
    try:
        return sorted(os.listdir(_INFINIBAND))
    except OSError:
        return []
