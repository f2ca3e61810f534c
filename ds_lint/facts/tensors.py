"""The parameters of a model as a run holds them: how large each is, and whether it is trained."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.model import Model


class Packed(NamedTuple):
    """A quantized weight: the elements that it had, the bytes of an element of what it is packed in, and more bytes.

    ``beside`` are its scales and tables, at the least, likely and at the most: a rank has all of them, also at stage 3.
    ``parts`` are the weights that were one parameter of the model before: each is unpacked for itself.
    """

    elements: int
    width: int
    beside: tuple[float, float, float]
    parts: int = 1


class Tensor(NamedTuple):
    """One parameter; ``#`` stands in its name for a number where only its kind is known."""

    name: str
    size: int  # elements
    is_trained: bool = True
    shape: tuple[int, ...] = ()  # where it is known
    packed: Packed | None = None  # if it is quantized: ``size`` is then that of the tensor in which it is packed

    @property
    def elements(self) -> int:
        """The elements that it has to a model."""
        return self.size if self.packed is None else self.packed.elements


def of(model: Model) -> list[Tensor]:
    """The parameters of a model in its order, all of them trained; none if their sizes are not known.

    A checkpoint has them sorted by name, and experts one by one that a class of transformers 5 has as one parameter.
    It counts where the class is not known, or has other parameters; quantized weights are packed there.
    """
    from ds_lint.facts.shapes import in_order, kinds

    described = [Tensor(kind.name, kind.size, shape=kind.shape) for kind in in_order(kinds(model.config) or [])]
    if (
        model.parameters is None
        or model.quantization
        or sum(one.size for one in described) == sum(one.count for one in model.parameters)
    ):
        return described
    return [Tensor(parameter.name, parameter.count, shape=tuple(parameter.shape)) for parameter in model.parameters]
