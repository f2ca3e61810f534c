"""The bytes on NVMe of one rank, by the files that DeepSpeed leaves there."""

from __future__ import annotations

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")

from ds_lint.smoke.probe.measured import swapped_bytes


def test_files_of_other_ranks_and_of_earlier_runs_are_not_counted(tmp_path):
    sizes = {
        "zero_stage_3/optimizer/rank0/1.tensor.swp": 100,
        "zero_stage_3/bfloat16params/rank0/2_param.tensor.swp": 10,
        "zero_stage_3/bfloat16params/rank0/notes.txt": 1000,
        "zero_stage_3/optimizer/rank1/1.tensor.swp": 1000,
        "zero_stage_3/optimizer/rank0/old.tensor.swp": 1000,
    }
    for name, size in sizes.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0" * size)
        os.utime(path, (2000, 1000 if "old" in name else 2000))
    offload = SimpleNamespace(nvme_path=tmp_path)
    engine = SimpleNamespace(zero_offload_optimizer=lambda: offload, zero_offload_param=lambda: offload)
    nothing = SimpleNamespace(zero_offload_optimizer=lambda: None, zero_offload_param=lambda: None)

    assert swapped_bytes(engine, 0, since=1500) == 110
    assert swapped_bytes(nothing, 0, since=1500) == 0
