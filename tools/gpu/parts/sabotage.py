"""Runs in which DeepSpeed breaks a promise: on the GPU the check that names it has to fail, as on CPU ranks."""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING, NamedTuple

from tools.gpu.installation import ROOT
from tools.gpu.parts.smoke import BASE, PRECISIONS, config_of
from tools.gpu.proving import Prover, not_passed, prover
from tools.gpu.setting import ERROR, FAIL, PASS, Item, Setting

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.gpu.setting import Result

QUESTION = "Is a broken promise noticed on a GPU by the checks that notice it on CPU ranks?"
LANES = 4
_MUTATING = os.path.join(ROOT, "tests", "fidelity", "programs", "mutating")  # where each is broken
_CLIPPED = {"gradient_clipping": 0.25}  # less than the norm, so that it is clipped
_DECAYING = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "weight_decay": 0.1}}}
_SCHEDULE = {"type": "WarmupLR", "params": {"warmup_num_steps": 9, "warmup_type": "linear"}}
_FP16 = {**BASE, **PRECISIONS["fp16"], "zero_optimization": {"stage": 2}}
# The promise that is broken, the config, and the checks that fail on one CPU rank.
MUTATIONS: tuple[tuple[str, Result, set[str]], ...] = (
    ("nothing", config_of(2) | _CLIPPED, set()),
    ("nothing", config_of(3) | _CLIPPED, set()),
    ("does not clip", config_of(2) | _CLIPPED, {"clipping"}),
    ("double gradients", config_of(2), {"averaging"}),
    ("no weight decay", config_of(3) | _DECAYING, {"update"}),
    ("weights never follow", config_of(2), {"recovery", "weights"}),
    ("unscaled loss", _FP16, {"loss-scale"}),
    ("masters in 16 bit", config_of(2), {"dtypes"}),
    ("hidden copy", config_of(3), {"memory"}),
    ("states are not restored", config_of(2), {"resume"}),
    ("changed weight", config_of(3), {"export"}),
    ("schedule is not restored", config_of(2) | {"scheduler": _SCHEDULE}, {"resume"}),
    ("a sample too few", config_of(2), {"batch"}),
    ("double rate", config_of(3), {"learning-rate"}),
)


class Lane(NamedTuple):
    """The process whose next run breaks the promise that is named in the file."""

    prover: Prover
    name_file: str


@contextlib.contextmanager
def lane(setting: Setting) -> Iterator[Lane]:
    """Such a process."""
    folder = tempfile.mkdtemp(dir=setting.folder)
    name_file = os.path.join(folder, "mutation")
    path = os.pathsep.join([_MUTATING, ROOT, os.environ.get("PYTHONPATH", "")])
    with prover(setting, PYTHONPATH=path, MUTATION=name_file, TORCH_EXTENSIONS_DIR=folder) as made:
        yield Lane(made, name_file)


def items(_setting: Setting) -> list[Item]:
    """A run for each promise."""
    return [_run(*one) for one in MUTATIONS]


def _run(name: str, config: Result, expected: set[str]) -> Item:
    def measure(shared: Lane) -> Result:
        with open(shared.name_file, "w", encoding="utf-8") as file:
            file.write(name)
        found = shared.prover.prove(config)
        noticed = not_passed(found)
        status = ERROR if found["error"] is not None else PASS if noticed == sorted(expected) else FAIL
        return {**found, "status": status, "expected": sorted(expected), "observed": noticed}

    return Item(f"{name}, stage {config['zero_optimization']['stage']}", measure)
