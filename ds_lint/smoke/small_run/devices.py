"""Which GPUs a run may use, found without CUDA: a process that has initialized CUDA cannot fork ranks."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PATIENCE = 20  # seconds; a driver that wakes many GPUs takes its time
_IN_USE = 1024  # MiB; what a driver and a display server keep on a GPU is less
_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,memory.used,mig.mode.current", "--format=csv,noheader,nounits")


class Device(NamedTuple):
    """A GPU, or an instance of one that MIG divides, by a name that CUDA_VISIBLE_DEVICES takes."""

    name: str
    uuid: str
    used: int | None = None  # MiB; None if nvidia-smi does not tell: "[N/A]" with MIG and unified memory

    @property
    def is_free(self) -> bool:
        """Whether nothing else is known to compute there."""
        return self.used is None or self.used < _IN_USE


def visible() -> int:
    """The number of GPUs that a process sees."""
    return len(devices())


def devices() -> list[Device]:
    """The GPUs that a process sees, in the order of CUDA."""
    gpus, instances = _all_here()
    allowed = os.environ.get(_VISIBLE)
    if allowed is None:
        undivided = [gpu for gpu in gpus if not any(one.name.startswith(f"{gpu.name}:") for one in instances)]
        return undivided or instances[:1]  # CUDA uses one instance of MIG at most, and none beside a whole GPU
    found: list[Device] = []
    for name in allowed.split(","):
        device = _named(name.strip(), gpus, instances)
        if device is None:  # CUDA stops at the first that does not exist
            break
        if device in found:  # and shows none at all if one is repeated
            return []
        found.append(device)
    first_of_mig = next((device for device in found if device.uuid.startswith("MIG-")), None)
    return [first_of_mig] if first_of_mig is not None else found


def chosen() -> tuple[list[Device], str | None]:
    """The visible GPUs on which nothing else computes, and a sentence if some are left out."""
    every = devices()
    free = [device for device in every if device.is_free]
    busy = [device.name for device in every if not device.is_free]
    if not busy:
        return free, None
    others = f"other programs use GPU {_listed(busy)}"
    return free, f"the run uses GPU {_listed([one.name for one in free])}, because {others}" if free else others


def _named(name: str, gpus: list[Device], instances: list[Device]) -> Device | None:
    """What an entry of CUDA_VISIBLE_DEVICES stands for: a number, the start of a UUID, or an instance of MIG."""
    if name.startswith("MIG-"):
        return next((one for one in instances if one.uuid.startswith(name)), None)
    if name.startswith("GPU-"):
        found = [gpu for gpu in gpus if gpu.uuid.startswith(name)]
        return found[0] if len(found) == 1 else None
    number = re.match(r"\d+", name)  # CUDA ignores what follows a number
    return next((gpu for gpu in gpus if number and gpu.name == str(int(number[0]))), None)


def _all_here() -> tuple[list[Device], list[Device]]:
    """The GPUs of this machine, and the instances into which MIG divides some of them; both empty without a driver."""
    gpus, instances, divided = [], [], set()
    for line in _answer(*_QUERY).splitlines():
        index, uuid, used, mig = ([part.strip() for part in line.split(",")] + [""] * 4)[:4]
        if index.isdecimal():
            gpus.append(Device(index, uuid, int(used) if used.isdecimal() else None))
            divided |= {index} if mig == "Enabled" else set()
    if divided:
        owner = ""
        for line in _answer("nvidia-smi", "-L").splitlines():
            if (gpu := re.match(r"GPU (\d+):", line)) is not None:
                owner = gpu[1]
            elif owner in divided and (uuid_of_mig := re.search(r"UUID: (MIG-[^)]+)\)", line)) is not None:
                instances.append(Device(f"{owner}:{uuid_of_mig[1]}", uuid_of_mig[1]))
    return gpus, instances


def _answer(*command: str) -> str:
    from subprocess import SubprocessError, run

    try:
        return run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True).stdout  # noqa: S603
    except (OSError, SubprocessError):  # SubprocessError: no driver, or one older than this question
        return ""


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
