"""The parameters of a model as a run holds them: how large each is, and whether it is trained."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.model import Model


class Tensor(NamedTuple):
    """One parameter; ``#`` stands in its name for a number where only its kind is known."""

    name: str
    size: int  # elements
    is_trained: bool = True


def of(model: Model) -> list[Tensor]:
    """The parameters of a model in its order, all of them trained; none if their sizes are not known."""
    from ds_lint.facts.shapes import in_order, kinds

    if model.parameters is not None:
        return [Tensor(parameter.name, parameter.count) for parameter in model.parameters]
    return [Tensor(kind.name, kind.size) for kind in in_order(kinds(model.config) or [])]
