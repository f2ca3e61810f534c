"""The GPU that a run is meant for: named, or asked of ``nvidia-smi``.

``schemas/gpus.json`` has what is sold under a name. Of several sizes the largest is assumed, so that nothing is said to
be too large which might fit; what others than the maker have built in has to be asked for.
"""

from __future__ import annotations

import re

from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

GIB = 2**30
_MIB = 2**20
_PATIENCE = 20  # seconds; a driver that wakes many GPUs takes its time
_BF16_SINCE = (8, 0)  # Ampere


class Gpu:
    """One kind of GPU; ``compute_capability`` is None for one that is not NVIDIA's.

    ``least_memory`` is that of the smallest which is sold under the name, if the size is not known.
    """

    __slots__ = ("compute_capability", "least_memory", "memory", "name", "origin", "supports_bf16")

    def __init__(
        self,
        name: str,
        memory: int,
        compute_capability: tuple[int, int] | None,
        *,
        supports_bf16: bool,
        origin: str = "",
        least_memory: int | None = None,
    ) -> None:
        self.name = name
        self.memory = memory  # bytes
        self.least_memory = least_memory or memory
        self.compute_capability = compute_capability
        self.supports_bf16 = supports_bf16
        self.origin = origin or name


def named(name: str) -> Gpu:
    """The GPU of a name such as ``a100``, ``RTX 4090`` or ``NVIDIA A100-SXM4-80GB``."""
    known = tables.load("gpus")["gpus"]
    words = re.findall(r"[a-z]+[0-9a-z]*|[0-9]+[a-z]*", name.lower().replace(" gb", "gb"))
    spellings = set(_joins(words))
    found = [
        kind for kind, facts in known.items()
        if any(_collapsed(one) in spellings for one in (kind, *facts.get("also", ())))
    ]  # fmt: skip
    if not found or "laptop" in spellings:  # those for laptops have less memory
        raise UnreadableFact(f"unknown GPU {name!r}{_suggestion(name, known)}")
    kind = max(found, key=len)
    facts = known[kind]
    asked = next((int(one[:-2]) for one in words if re.fullmatch(r"[0-9]{1,6}gb", one)), None)
    if asked is not None and asked not in (*facts["memory"], *facts.get("rebuilt", ())):
        sizes = " or ".join(f"{size} GB" for size in facts["memory"])
        raise UnreadableFact(f"there is no {kind} with {asked} GB: it has {sizes}")
    memory = asked or max(facts["memory"])
    capability = _capability(facts["compute_capability"]) if "compute_capability" in facts else None
    return Gpu(
        kind,
        memory * GIB,
        capability,
        supports_bf16=capability >= _BF16_SINCE if capability else facts["bf16"],
        origin=f"{kind} with {memory} GB",
        least_memory=(asked or min(facts["memory"])) * GIB,
    )


def of_size(memory: int, kind: Gpu | None = None) -> Gpu:
    """A GPU with so many bytes of memory, of this kind if it is known."""
    if kind is None:
        return Gpu("GPU", memory, None, supports_bf16=True, origin=f"a GPU with {memory / GIB:.4g} GiB")
    return Gpu(
        kind.name,
        memory,
        kind.compute_capability,
        supports_bf16=kind.supports_bf16,
        origin=f"{kind.name} with {memory / GIB:.4g} GiB",
    )


def here() -> Gpu | None:
    """The weakest GPU of this machine; None where it has none, or no ``nvidia-smi``."""
    return min(all_here(), key=lambda gpu: (gpu.compute_capability or (0, 0), gpu.memory), default=None)


def all_here() -> list[Gpu]:
    """The GPUs of this machine; none where there is no ``nvidia-smi``."""
    from subprocess import SubprocessError, run

    query = ["nvidia-smi", "--query-gpu=name,memory.total,compute_cap", "--format=csv,noheader,nounits"]
    try:
        answer = run(query, capture_output=True, text=True, timeout=_PATIENCE, check=True)  # noqa: S603 - fixed words
    except (OSError, SubprocessError):  # SubprocessError: no driver, or one older than this question
        return []
    return [gpu for line in answer.stdout.splitlines() if (gpu := _listed(line)) is not None]


def _listed(line: str) -> Gpu | None:
    """The GPU of one line of the answer; None for one that nvidia-smi cannot tell about (``[N/A]``)."""
    shown = re.fullmatch(r"(.+), *([0-9]+), *([0-9]+)\.([0-9]+)", line.strip())
    if shown is None:
        return None
    capability = int(shown[3]), int(shown[4])
    return Gpu(
        shown[1],
        int(shown[2]) * _MIB,
        capability,
        supports_bf16=capability >= _BF16_SINCE,
        origin=f"{shown[1]} with {int(shown[2]) / 1024:.1f} GiB, by nvidia-smi",
    )


def _joins(words: list[str]) -> Iterator[str]:
    """Every run of neighbouring words, written together."""
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            yield "".join(words[start:end])


def _collapsed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _suggestion(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    spelled = {kind.lower(): kind for kind in known}
    close = get_close_matches(name.lower(), spelled, n=1, cutoff=0.5)
    return f"; did you mean {spelled[close[0]]}?" if close else f"; known GPUs are {', '.join(known)}"
