"""The folders that the user's script has its weights from, and what a process of its own finds in them."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.smoke.records.engine_trace import Evaluated

_SECONDS = 600.0


class WeightsFolder(NamedTuple):
    """A folder from which ``from_pretrained`` has loaded a model."""

    path: str
    model_class: str
    dtype: str  # of the model then


class FoundWeights(NamedTuple):
    """The weights of a folder, as they should be in the model."""

    digests: dict[str, list[str]]  # of each parameter, in each dtype that an engine may have
    missing: list[str]  # parameters that no file has
    error: str = ""


def folders_of(evaluated: Evaluated) -> list[WeightsFolder]:
    """Those that the parameters of an engine are from, of models of transformers."""
    found = (
        WeightsFolder(one.folder, one.model_class, one.dtype)
        for one in evaluated.loaded.values()
        if one.folder and one.model_class.startswith("transformers.")
    )
    dtypes: dict[tuple[str, str], set[str]] = {}
    for one in found:
        dtypes.setdefault((one.path, one.model_class), set()).add(one.dtype)
    return [WeightsFolder(*place, next(iter(kinds))) for place, kinds in dtypes.items() if len(kinds) == 1]


def look(folders: list[WeightsFolder], kept: str, environment: dict[str, str]) -> dict[str, FoundWeights]:
    """The weights of each folder, found by a process of its own; ``kept`` is a folder for its job."""
    if not folders:
        return {}
    os.makedirs(kept, exist_ok=True)
    path = os.path.join(kept, "loaded")
    with open(path, "wb") as file:
        pickle.dump(folders, file)
    with open(f"{path}.log", "wb") as log:
        subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-m", "ds_lint.smoke.script.loaded_inspection", path],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, check=False, timeout=_SECONDS,
        )  # fmt: skip
    if not os.path.exists(f"{path}.found"):
        return {}
    with open(f"{path}.found", "rb") as file:
        found: dict[str, FoundWeights] = pickle.load(file)  # noqa: S301 - our own process has written it
    return found
