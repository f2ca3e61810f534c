"""The keywords of the Trainer of a release of transformers, and what stands in for deprecated training arguments."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.extract import source
from tools.extract.deprecations import constructor, deprecations
from tools.extract.history import Facts, at, changes, merged

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "transformers"
STORE = Path(__file__).parent.parent.parent / "schemas" / "trainer.json"

_TRAINERS = {"Trainer": "trainer.py", "Seq2SeqTrainer": "trainer_seq2seq.py"}
_ARGUMENTS = "TrainingArguments"


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = tree / LIBRARY
    arguments = source.find(source.parse(package / "training_args.py"), _ARGUMENTS)
    if not isinstance(arguments, ast.ClassDef):
        raise LookupError(f"{_ARGUMENTS} is not a class")  # noqa: TRY004 - another layout
    trainers: Facts = {}
    for name, file in _TRAINERS.items():
        cls = source.find(source.parse(package / file), name)
        made = constructor(cls) if isinstance(cls, ast.ClassDef) else None
        if made is None:
            if name == "Trainer":
                raise LookupError(f"{name} has no constructor")
            made = {"inherits": "Trainer"}
        trainers[name] = made
    return {"trainers": trainers, "deprecated": deprecations(arguments, source.fields(arguments))}
