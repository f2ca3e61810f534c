"""The GPU that a run is meant for: named, or reported by ``nvidia-smi``.

``schemas/gpus.json`` has what is sold under a name. Of several sizes the largest is assumed, so that nothing is
reported to be too large which might fit; what others than the maker have built in has to be named.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.knowledge.records import GpuFacts

GIB = 2**30
_MIB = 2**20
PATIENCE = 20  # seconds; a driver that wakes many GPUs takes its time
_UNNAMED = "GPU"
_BF16_SINCE = (8, 0)  # Ampere
_LOOK_ALIKE = str.maketrans("oil", "011")  # letters that are typed for digits
_SIZE = re.compile(r"([0-9]{1,6})(?:gi?b|g)?")


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

    @property
    def in_words(self) -> str:
        """Its name, or words if only its memory is known."""
        return "the GPU" if self.name == _UNNAMED else self.name


def named(name: str) -> Gpu:
    """The GPU of a name such as ``a100``, ``RTX 4090`` or ``NVIDIA A100-SXM4-80GB``; every word of it has a meaning."""
    table = tables.load("gpus")
    known = table["gpus"]
    words = re.findall(r"[a-z]+[0-9a-z]*|[0-9]+[a-z]*", re.sub(r" (?=gi?b\b)", "", name.lower()))
    found = min(_kinds(words, known), key=lambda one: len(one.others), default=None)
    others = [word for word in found.others if word not in table["beside"]] if found is not None else []
    sizes = [int(size[1]) for word in others if (size := _SIZE.fullmatch(word)) is not None]
    if found is None or len(sizes) != len(others) or len(sizes) > 1:
        raise UnreadableFact(f"unknown GPU {name!r}{_suggestion(name, known)}")
    kind, named_size = found.name, next(iter(sizes), None)
    facts = known[kind]
    if named_size is not None and named_size not in (*facts["memory"], *facts.get("rebuilt", ())):
        made = " or ".join(f"{size} GB" for size in facts["memory"])
        raise UnreadableFact(f"there is no {kind} with {named_size} GB: it has {made}")
    memory = named_size or max(facts["memory"])
    capability = _capability(facts["compute_capability"]) if "compute_capability" in facts else None
    return Gpu(
        kind,
        memory * GIB,
        capability,
        supports_bf16=capability >= _BF16_SINCE if capability else facts["bf16"],
        origin=f"{kind} with {memory} GB",
        least_memory=(named_size or min(facts["memory"])) * GIB,
    )


def of_size(memory: int, kind: Gpu | None = None) -> Gpu:
    """A GPU with so many bytes of memory, of this kind if it is known."""
    if kind is None:
        return Gpu(_UNNAMED, memory, None, supports_bf16=True, origin=f"a GPU with {memory / GIB:.4g} GiB")
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
        answer = run(query, capture_output=True, encoding="utf-8", errors="replace", timeout=PATIENCE, check=True)  # noqa: S603 - fixed words
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


class _Kind(NamedTuple):
    """A kind of GPU that words name, and the words beside its name."""

    name: str
    others: list[str]


def _kinds(words: list[str], known: Mapping[str, GpuFacts]) -> Iterator[_Kind]:
    """The kinds whose name is a run of neighbouring words."""
    kinds = {_collapsed(one): kind for kind, facts in known.items() for one in (kind, *facts.get("also", ()))}
    for start in range(len(words)):
        for end in range(start + 1, len(words) + 1):
            if (kind := kinds.get("".join(words[start:end]))) is not None:
                yield _Kind(kind, words[:start] + words[end:])


def _collapsed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _capability(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def _suggestion(name: str, known: Mapping[str, GpuFacts]) -> str:
    """What was most likely meant: a kind, or one with its memory; else all kinds."""
    from difflib import get_close_matches

    names = [one for kind, facts in known.items() for one in (kind, *facts.get("also", ()))]
    sized = [f"{one}-{size}GB" for one in names if one in known for size in known[one]["memory"]]
    spelled = {_collapsed(one).translate(_LOOK_ALIKE): one for one in (*sized, *names)}
    close = get_close_matches(_collapsed(name).translate(_LOOK_ALIKE), spelled, n=1, cutoff=0.5)
    return f"; did you mean {spelled[close[0]]}?" if close else f"; known GPUs are {', '.join(known)}"
