"""Which parameters FSDP gathers and frees together.

Sources: ``_recursive_wrap`` in ``torch/distributed/fsdp/wrap.py``, ``fsdp2_prepare_model`` and
``fsdp2_prepare_auto_wrap_policy`` in ``accelerate/utils/fsdp_utils.py``, ``fsdp_auto_wrap_policy`` in
``peft/utils/other.py``. The names of the parameters tell the modules.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.fsdp.sharding import LAYERS, SIZE
from ds_lint.footprint.live import layers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.fsdp.sharding import FsdpSharding

_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "embed_in.weight", "shared.weight")
_HEADS = ("lm_head.weight", "embed_out.weight", "output_layer.weight", "lm_head.bias")
_NORMS = ("norm", "ln_f", "layernorm")


class GatheredUnit(NamedTuple):
    """Parameters that are gathered together, in the order of the model."""

    tensors: tuple[Tensor, ...]
    reshards: bool  # they are freed after the forward pass
    is_around: bool = False  # embedding, head, and what else is in no layer
    is_tail: bool = False  # last norm and head
    is_tied: bool = False  # with the embedding

    @property
    def size(self) -> int:
        """The elements of all parameters."""
        return sum(tensor.size for tensor in self.tensors)

    @property
    def is_trained(self) -> bool:
        """Whether any parameter is trained."""
        return any(tensor.is_trained for tensor in self.tensors)


def units(tensors: Sequence[Tensor], sharding: FsdpSharding, ranks: int) -> list[GatheredUnit]:
    """The units of a model in the order in which the forward pass needs them; the root of FSDP 1 comes first."""
    apart = [one for one in tensors if sharding.adapters_alone and sharding.version == 1 and _is_leaf(one)]
    rest = [one for one in tensors if not (sharding.adapters_alone and sharding.version == 1 and _is_leaf(one))]
    reshards = sharding.reshards and (ranks > 1 or sharding.version == 2)
    inner = [GatheredUnit(tuple(one), reshards) for one in _wrapped(rest, sharding)]
    inside = {id(tensor) for unit in inner for tensor in unit.tensors}
    around = [one for one in rest if id(one) not in inside]
    alone = [GatheredUnit((one,), reshards) for one in apart]
    if sharding.version == 1:
        root = [GatheredUnit(tuple(around), reshards=False, is_around=True)] if around else []
        return [*root, *inner, *alone]
    return _of_version_2(around, inner, reshards=reshards)


def _is_leaf(tensor: Tensor) -> bool:
    return tensor.is_trained and tensor.name.endswith(".weight")


def _of_version_2(around: list[Tensor], inner: list[GatheredUnit], *, reshards: bool) -> list[GatheredUnit]:
    """The embedding is a unit, the last norm and the head another, and what is left is that of the model itself.

    A tied embedding is in the unit of the norm, which is gathered from the start to the end of a step.
    """
    embedding = next((one for one in around if one.name.endswith(_EMBEDDINGS)), None)
    heads = [one for one in around if one.name.endswith(_HEADS)]
    norms = [one for one in around if any(word in one.name.lower() for word in _NORMS)][-2:]
    is_tied = embedding is not None and not heads
    last = [*norms, *heads, *([embedding] if is_tied and embedding is not None else [])]
    first = [embedding] if embedding is not None and not is_tied else []
    taken = {id(one) for one in (*first, *last)}
    rest = [one for one in around if id(one) not in taken]
    found = [GatheredUnit(tuple(rest), reshards=False, is_around=True)] if rest else []
    found += [GatheredUnit(tuple(first), reshards, is_around=True)] if first else []
    tail = GatheredUnit(tuple(last), reshards=False, is_around=True, is_tail=True, is_tied=is_tied)
    return [*found, *inner, tail] if last and not is_tied else [*found, *([tail] if last else []), *inner]


def _wrapped(tensors: list[Tensor], sharding: FsdpSharding) -> list[list[Tensor]]:
    """The parameters of the units that a policy makes."""
    if sharding.adapters_alone and sharding.version == 2:
        return []  # ``fsdp2_prepare_auto_wrap_policy`` does not know the policy of peft
    if sharding.policy == LAYERS:
        by_layer: dict[int, list[Tensor]] = {}
        for tensor, layer in zip(tensors, layers(tensors), strict=True):
            if layer is not None:
                by_layer.setdefault(layer, []).append(tensor)
        return list(by_layer.values())
    if sharding.policy == SIZE and sharding.least > 0:
        return _by_size(tensors, sharding)
    return []


# ---------------------------------------------------------------------------------------------------------- by size


class _Node:
    """A module: its parameters, and the modules in it."""

    def __init__(self) -> None:
        self.own: list[Tensor] = []
        self.inner: dict[str, _Node] = {}

    @property
    def is_list(self) -> bool:
        """Whether it is a ModuleList, of which torch makes no unit."""
        return bool(self.inner) and not self.own and all(name.isdecimal() for name in self.inner)

    def tensors(self) -> list[Tensor]:
        """All parameters in it."""
        return [*self.own, *(tensor for node in self.inner.values() for tensor in node.tensors())]


def _by_size(tensors: list[Tensor], sharding: FsdpSharding) -> list[list[Tensor]]:
    root = _Node()
    for tensor, layer in zip(tensors, layers(tensors), strict=True):
        *modules, _ = tensor.name.replace("#", str(layer or 0), 1).split(".")
        node = root
        for name in modules:
            node = node.inner.setdefault(name, _Node())
        node.own.append(tensor)
    found: list[list[Tensor]] = []
    if sharding.version == 2:
        _larger(root, sharding.least, found, is_root=True)
    else:
        _wrap(root, sharding.least, found, is_root=True)
    return found


def _wrap(node: _Node, least: int, found: list[list[Tensor]], *, is_root: bool = False) -> set[int]:
    """The parameters of units in a module, from the leaves to the root (``_recursive_wrap``)."""
    held = node.tensors()
    if sum(one.size for one in held) < least:
        return set()
    taken: set[int] = set()
    for child in node.inner.values():
        taken |= _wrap(child, least, found)
    left = [one for one in held if id(one) not in taken]
    if is_root or node.is_list or sum(one.size for one in left) < least:
        return taken
    found.append(left)
    return taken | {id(one) for one in left}


def _larger(node: _Node, least: int, found: list[list[Tensor]], *, is_root: bool = False) -> set[int]:
    """Each module with more elements is a unit; one in another is the smaller, and comes first."""
    held = node.tensors()
    taken: set[int] = set()
    for child in node.inner.values():
        taken |= _larger(child, least, found)
    left = [one for one in held if id(one) not in taken]
    if is_root or not left or sum(one.size for one in held) <= least:
        return taken
    found.append(left)
    return taken | {id(one) for one in left}
