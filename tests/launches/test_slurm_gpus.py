"""How many GPUs of which kind a job asks for."""

from __future__ import annotations

import pytest

from ds_lint.source.slurm import allocation


@pytest.mark.parametrize(
    ("option", "gpus", "kind"),
    [
        ("--gres=gpu:a100-40g:2", 2, "a100-40g"),
        ("--gres=gpu:3g.20gb:1", 1, "3g.20gb"),
        ("--gres=gpu:2080ti:4(S:0-1)", 4, "2080ti"),
        ("--gres=gpu:v100", 1, "v100"),
        ("--gres=gpu", 1, None),
        ("--gres=gpu:4,lscratch:100", 4, None),
        ("--gres=lscratch:100", None, None),
        ("--gpus-per-node=h100_nvl:8", 8, "h100_nvl"),
    ],
)
def test_a_job_asks_for_gpus(option, gpus, kind):
    found = allocation(f"#!/bin/bash\n#SBATCH {option}\n")
    assert (found.gpus, found.gpu) == (gpus, kind)
