"""The real Trainer evaluates a small model with each of some configs and does not train: ``evaluation.py CASES``.

Told is, for each name in the JSON of ``CASES``, the error that stops it, or the kind of optimizer that the engine has.
"""

from __future__ import annotations

import json
import sys
import tempfile

import torch
import transformers
from answering import answer

SIZE = 64


class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Two samples."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = torch.full((8,), index + 1)
        return {"input_ids": tokens, "labels": tokens}


def evaluated(config: dict[str, object], arguments: dict[str, object]) -> dict[str, str]:
    """What becomes of one evaluation."""
    shape = transformers.LlamaConfig(
        hidden_size=SIZE, intermediate_size=SIZE, num_hidden_layers=1, num_attention_heads=4, vocab_size=SIZE
    )
    try:
        with tempfile.TemporaryDirectory() as folder:
            given = transformers.TrainingArguments(
                folder, deepspeed=config, report_to=[], use_cpu=True, disable_tqdm=True, **arguments
            )
            trainer = transformers.Trainer(
                transformers.LlamaForCausalLM(shape), given, train_dataset=Tokens(), eval_dataset=Tokens()
            )
            trainer.evaluate()
    except (AssertionError, AttributeError, KeyError, TypeError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"optimizer": type(trainer.deepspeed.optimizer).__name__}


cases = json.loads(sys.argv[1])
answer(**{name: evaluated(config, arguments) for name, (config, arguments) in cases.items()})
