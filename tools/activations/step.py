"""One training step of a small model, with every storage that comes and goes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from ds_lint.footprint.quantities import KEYS
from tools.activations import kernels, models
from tools.activations.timeline import Timeline, record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.model_shapes import Family


def measured(family: Family, probe: models.Probe, variant: models.Variant, layers: int = models.LAYERS) -> Timeline:
    """What a step of a model with so many layers in each stack holds."""
    counts = {key: layers for size in ("layers", "decoder_layers") for key in KEYS[size] if key in probe.config}
    with kernels.undone(family.model_class) if variant.kernels else contextlib.nullcontext(), as_on_a_gpu():
        model = models.build(family, probe, variant, counts)
        return record(model, models.batch(family, probe, variant))


@contextlib.contextmanager
def as_on_a_gpu() -> Iterator[None]:
    """Dropout with the kernel of a GPU, which keeps a mask of one byte."""

    def dropout(values: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        return torch.ops.aten.native_dropout(values, p, True)[0] if training and p else values

    usual = torch.nn.functional.dropout
    torch.nn.functional.dropout = dropout
    try:
        yield
    finally:
        torch.nn.functional.dropout = usual
