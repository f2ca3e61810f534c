"""What DeepSpeed multiplies the batch sizes by: the exception that it raises where they do not multiply up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from linted import lint_bytes, lint_dict

pytest.importorskip("deepspeed")

from installed import INSTALLED, knowledge
from ranks import run

from ds_lint.facts import Facts

pytestmark = pytest.mark.fidelity

MICRO_BATCH = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1}
SEQUENCE = {"sequence_parallel_size": 2}
MESH = {**SEQUENCE, "data_parallel_size": 1}
COLUMNS = {"layer_specs": [{"patterns": [".*proj.weight$"], "partition_type": "column"}]}
PARTITIONS = {"partition_config": COLUMNS} if knowledge().find(("tensor_parallel", "partition_config")) else {}
SIZES = {
    "all ranks": {},
    "ranks that share a sequence": SEQUENCE,
    "a mesh of ranks": MESH,
    "ranks that share a tensor": {"tensor_parallel": {"autotp_size": 2, **PARTITIONS}},
}


def is_rejected(config: dict[str, Any], *, from_file: bool) -> bool:
    given = {**config, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
    known = {"target": INSTALLED, "stack": "deepspeed", "facts": Facts(world_size=2)}
    text = json.dumps(given).encode()
    report = lint_bytes(text, "config.json", **known) if from_file else lint_dict(given, **known)
    return any(finding.code == "DS512" for finding in report.findings)


@pytest.mark.parametrize(
    ("ranks", "from_file"),
    [
        *((ranks, False) for ranks in SIZES),
        ("ranks that share a sequence", True),
        ("a mesh of ranks", True),
    ],
)
def test_two_ranks_count_as_one_or_two(ranks, from_file, tmp_path):
    configs = [{**MICRO_BATCH, **SIZES[ranks], "train_batch_size": train} for train in (2, 4)]
    done = run("batch_sizes", json.dumps(configs), *([str(tmp_path)] if from_file else []))
    assert done.is_complete, done.errors
    refused = [["train_batch_size is not equal" in error for error in answer["errors"]] for answer in done.answers]
    assert refused[0] == refused[1]
    assert sorted(refused[0]) == [False, True]
    assert [is_rejected(config, from_file=from_file) for config in configs] == refused[0]
