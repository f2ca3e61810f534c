"""The sbatch script that repeats the smoke run on the nodes of a cluster, with one rank per GPU."""

from __future__ import annotations

import math
import shlex

_STARTING = 11  # minutes for the libraries, which are slow to import on many nodes at once
_PARTS = 2  # of a run, one after the other, each of which may use its whole time


def minutes_of(configs: int, seconds: float) -> int:
    """The minutes to ask for: what so many runs take at most, whose parts are ended after so many seconds."""
    return _STARTING + math.ceil(max(1, configs) * _PARTS * seconds / 60)


def sbatch(arguments: list[str], *, nodes: int, gpus_per_node: int, minutes: int = 15) -> str:
    """A script for ``sbatch`` whose job runs ``ds_lint.smoke.worker`` with these arguments and ends as it does."""
    worker = shlex.join(["python", "-m", "ds_lint.smoke.worker", *arguments])
    return f"""\
#!/bin/bash
#SBATCH --job-name=ds-lint-smoke
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node={gpus_per_node}
#SBATCH --gpus-per-node={gpus_per_node}
#SBATCH --time={minutes}
#SBATCH --output=%x-%j.out

# source /path/to/the/environment/of/the/training/bin/activate

# One task per GPU, and each sees all GPUs of its node (no --gpus-per-task): rank 1 of a node takes its GPU 1.
# If a rank dies, the others have a minute to report; the exit status of the job is the highest of all ranks.
exec srun --wait=60 {worker}
"""
