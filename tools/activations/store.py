"""The files that these tools write: sums for each model type, and the releases that measured them."""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import warnings
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from tools.activations import kernels

if TYPE_CHECKING:
    from collections.abc import Collection

SCHEMAS = Path(__file__).parents[2] / "schemas"
STORE = SCHEMAS / "activations.json"


def settle() -> None:
    """Have small models compute the same each time, and say nothing of their sizes."""
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)


def measured_with(apart_from: Collection[str] = ()) -> dict[str, str]:
    """The releases that measure, without those that do not matter, and the day."""
    found = {
        "transformers": transformers.__version__,
        "torch": torch.__version__.partition("+")[0],
        "peft": metadata.version("peft"),
        **({"liger": metadata.version("liger-kernel")} if kernels.is_installed() else {}),
        "measured": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
    }
    return {name: value for name, value in found.items() if name not in apart_from}


def write(store: dict[str, Any], path: Path = STORE) -> None:
    """The store with one line for each sum."""
    whole = {**store, "models": dict(sorted(store["models"].items()))}
    text = re.sub(r"\n {6,}(?=\S)|\n {5}(?=[\]}])", " ", json.dumps(whole, indent=1))
    path.write_text(text + "\n", encoding="utf-8", newline="\n")
