"""The GPUs of this machine and their driver, by ``nvidia-smi``."""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from ds_lint.facts.gpu import PATIENCE

_QUERY = ("--query-gpu=name,memory.total,compute_cap,driver_version", "--format=csv,noheader,nounits")
_CUDA = re.compile(r"CUDA(?: UMD)? Version\s*:\s*(\d+(?:\.\d+)*)")
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class DeviceKind(NamedTuple):
    """GPUs of one kind, and how many there are."""

    name: str
    memory: str  # MiB, or what nvidia-smi has in its place
    capability: tuple[int, int] | None
    number: int


class GpuDriver(NamedTuple):
    """The GPUs, the release of the driver, and the newest CUDA that it runs; ``problem`` says why there is none."""

    kinds: tuple[DeviceKind, ...] = ()
    release: str | None = None
    cuda: str | None = None
    visible: str | None = None  # what CUDA_VISIBLE_DEVICES has
    problem: str | None = None

    @property
    def number(self) -> int:
        """The number of GPUs."""
        return sum(kind.number for kind in self.kinds)


def driver() -> GpuDriver:
    """What ``nvidia-smi`` tells."""
    visible = os.environ.get(_VISIBLE)
    text, problem = _answer(*_QUERY)
    rows = [[part.strip() for part in line.split(",")] for line in text.splitlines() if line.count(",") >= 3]
    if not rows:
        return GpuDriver(visible=visible, problem=problem or "nvidia-smi shows no GPU")
    counted: dict[tuple[str, str, str], int] = {}
    for row in rows:
        kind = ", ".join(row[:-3]), row[-3], row[-2]
        counted[kind] = counted.get(kind, 0) + 1
    kinds = (DeviceKind(name, memory, _pair(shown), count) for (name, memory, shown), count in counted.items())
    overview, _ = _answer()  # the query has no field for it
    cuda = _CUDA.search(overview)
    return GpuDriver(tuple(kinds), rows[0][-1], cuda[1] if cuda is not None else None, visible)


def _pair(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found is not None else None


def _answer(*words: str) -> tuple[str, str | None]:
    """What nvidia-smi prints, and why it prints nothing."""
    from subprocess import SubprocessError, TimeoutExpired, run

    try:
        done = run(["nvidia-smi", *words], capture_output=True, timeout=PATIENCE, check=False)  # noqa: S603, S607
    except FileNotFoundError:
        return "", "there is no nvidia-smi on PATH"
    except TimeoutExpired:
        return "", f"nvidia-smi does not answer within {PATIENCE} seconds"
    except (OSError, SubprocessError) as error:
        return "", f"nvidia-smi cannot be run ({type(error).__name__})"
    text = done.stdout.decode(errors="replace")
    if done.returncode:
        first = next(iter((text + done.stderr.decode(errors="replace")).strip().splitlines()), "")
        return "", f"nvidia-smi fails with exit status {done.returncode}: {first[:200]}"
    return text, None
