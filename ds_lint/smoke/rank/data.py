"""What a run trains on: tokens made up from the position of a batch, the same on every machine and in every run."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import torch
from torch.utils.data import Dataset

from ds_lint.smoke.rank.training_model import MASKED

if TYPE_CHECKING:
    from ds_lint.smoke.rank.training_model import Recipe

_PREDICTED_EVERY = 5  # tokens of a masked language model
_NO_LABEL = -100  # what the losses of transformers leave out


def batch(recipe: Recipe, size: int, step: int, rank: int) -> dict[str, torch.Tensor]:
    """The batch that a rank trains on in a step: sequences of ordinary tokens, and what is to be predicted of them."""
    return _sequences(recipe, size, f"step {step} of rank {rank}")


class Tokens(Dataset):
    """The requested number of single sequences, for a Trainer, which makes batches of them itself."""

    def __init__(self, recipe: Recipe, length: int) -> None:
        self.recipe = recipe
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
        if not 0 <= place < self.length:
            raise IndexError(place)  # ends a loop over it
        return {key: value[0] for key, value in _sequences(self.recipe, 1, f"sequence {place}").items()}


def _sequences(recipe: Recipe, size: int, name: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(zlib.crc32(f"{recipe.seed}: {name}".encode()))
    ordinary = torch.tensor([token for token in range(recipe.vocabulary) if token not in recipe.special_tokens])
    drawn = torch.randint(len(ordinary), (size, recipe.sequence_length), generator=generator)
    tokens = ordinary[drawn]
    labels = tokens.clone()
    if recipe.kind == MASKED:
        labels[:, torch.arange(recipe.sequence_length) % _PREDICTED_EVERY != 0] = _NO_LABEL
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}
