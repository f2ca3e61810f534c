"""The GPU that a cluster calls by a name of its own, as in ``--gres=gpu:a100-40g:2``: model, memory, MIG slice.

Sites write the memory as ``40gb``, ``40g`` or ``40``. A slice is called by NVIDIA's profiles, such as ``3g.20gb``:
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

from __future__ import annotations

import re

from ds_lint.facts.gpu import GIB, Gpu, named
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables

_SLICE = re.compile(r"(?<![0-9a-z])([1-7]g\.([0-9]{1,6})gb)(?:\.me)?(?![0-9a-z])")
_MEMORY = re.compile(r"(?<![0-9a-z.])([0-9]{2,3})g?b?(?![0-9a-z.])")
_WITH_MEMORY = re.compile(r"^([a-z]+[0-9]+[a-z]*?)((?:16|32|40|64|80|94|96|141)gb?)(?![0-9a-z])")  # a10080g


def of_cluster(name: str) -> Gpu | None:
    """The GPU that a cluster means; None if its name does not tell which, or how much memory it has."""
    text = re.sub(r"[_\s]+", "-", name.lower())
    part = _SLICE.search(text)
    if part is not None:
        return _slice(part, _named(_without_memory(text.replace(part[0], ""))))
    text = _WITH_MEMORY.sub(r"\1-\2", text)
    kind = _named(_without_memory(text)) or _named(text)
    if kind is None:
        return None
    model = re.sub(r"[^0-9a-z]", "", kind.name.lower())
    sizes = [size for size in _MEMORY.findall(text) if size not in model]
    variants = tables.load("gpus")["gpus"][kind.name].get("variants", {})
    if not sizes:
        sizes = [str(size) for variant, size in variants.items() if variant in text.split("-")]
    if not sizes:
        return _named(text)
    return _named(f"{kind.name} {sizes[0]}GB") if len(set(sizes)) == 1 else None


def _slice(part: re.Match[str], whole: Gpu | None) -> Gpu:
    """A part of a GPU; those that can be split are NVIDIA's since Ampere."""
    memory = int(part[2])
    name = f"{whole.name} {part[1]}" if whole is not None else part[1]
    capability = whole.compute_capability if whole is not None else None
    return Gpu(name, memory * GIB, capability, supports_bf16=True, origin=f"{name}, a part with {memory} GB")


def _without_memory(text: str) -> str:
    return re.sub(r"-?(?<![0-9a-z.])[0-9]{2,3}gb?(?![0-9a-z.])", "", text)


def _named(text: str) -> Gpu | None:
    try:
        return named(text)
    except UnreadableFact:
        return None
