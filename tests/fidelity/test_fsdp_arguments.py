"""What ds-lint says of ``fsdp`` and ``fsdp_config``, against TrainingArguments and Accelerate's plugin."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("accelerate")
pytest.importorskip("transformers")

from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.facts.training import arguments_of
from ds_lint.knowledge.keys import Knowledge, knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.fsdp_arguments import fsdp_arguments
from ds_lint.source import yaml as yaml_source

PROGRAM = Path(__file__).parent / "programs" / "fsdp_arguments.py"
AGREE = 0.995

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

FLAGS = [True, False, "true", "false", "yes", 1, 0, "maybe", None]
WORDS = ["full_shard", "shard_grad_op", "hybrid_shard", "no_shard", "FULL_SHARD", "true", True]
VALUES: dict[str, list[Any]] = {
    "version": [1, 2, 1, "2", "v2", 2.0], "cpu_offload": [True, False], "min_num_params": [0, 2000, "1e8", 1e8],
    "auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP", "no_wrap", "x"],
    "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer", ["A", "B"], None], "cpu_ram_efficient_loading": FLAGS,
    "state_dict_type": ["FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT", "sharded_state_dict", "full"],
    "activation_checkpointing": FLAGS, "reshard_after_forward": [*FLAGS, *WORDS], "forward_prefetch": FLAGS,
    "backward_prefetch": ["backward_pre", "BACKWARD_POST", "no_prefetch", "x"], "use_orig_params": FLAGS,
    "sync_module_states": FLAGS, "limit_all_gathers": FLAGS, "offload_params": [True], "sharding_strategy": WORDS,
    "fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"], "fsdp_offload_params": [True], "fsdp_version": [1, 2],
    "transformer_cls_names_to_wrap": ["A"], "mixed_precision": ["bf16"], "xla": [False],
}  # fmt: skip
OPTIONS = [
    True, True, True, "full_shard", "full_shard auto_wrap", "shard_grad_op offload", "hybrid_shard", "no_shard",
    "offload", "FULL_SHARD", "true", ["full_shard", "auto_wrap"], False, "", "full_shard,auto_wrap",
]  # fmt: skip


def random_arguments(count: int, seed: int) -> list[dict[str, Any]]:
    draw, found = random.Random(seed), []
    for _ in range(count):
        names = draw.sample(list(VALUES), draw.choice([0, 1, 2, 3]))
        found.append({"fsdp": draw.choice(OPTIONS), "fsdp_config": {name: draw.choice(VALUES[name]) for name in names}})
    return found


def real_outcomes(
    cases: list[dict[str, Any]], folder: Path, program: Path = PROGRAM, **variables: str
) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    done = subprocess.run(
        [sys.executable, str(program)],
        input=json.dumps(cases),
        env={**environment, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    answers = [json.loads(line[1:]) for line in done.stdout.splitlines() if line.startswith("\0")]
    assert len(answers) == len(cases), done.stderr[-2000:]
    return answers


def said(case: dict[str, Any], known: Knowledge) -> tuple[list[str], list[str]]:
    """Why the arguments are rejected, and the keys that nothing reads."""
    facts = Facts()
    facts.training = arguments_of(case)
    (document,) = yaml_source.read("distributed_type: FSDP\nnum_processes: 2\n", "accelerate.yaml")
    arguments = fsdp_arguments(configs.from_document(document, Basis(known, None, facts)))
    assert arguments is not None
    if not arguments.argument.value:
        return [], list(case["fsdp_config"])
    unread = {name for name, _, _ in arguments.unread()}
    return [what for _, what, _ in arguments.refusals()], [name for name in case["fsdp_config"] if name in unread]


def assert_agreement(cases: list[dict[str, Any]], folder: Path) -> None:
    wrong = []
    for case, real in zip(cases, real_outcomes(cases, folder), strict=True):
        refused, unread = said(case, knowledge())
        if bool(refused) != bool(real["error"]):
            wrong.append(f"{case}: {real['error']} against {refused}")
        elif not refused and unread != real["unread"]:
            wrong.append(f"{case}: {real['unread']} are not read, against {unread}")
    assert len(wrong) <= (1 - AGREE) * len(cases), "\n".join([f"{len(wrong)} of {len(cases)}", *wrong])


def test_random_arguments(tmp_path: Path) -> None:
    assert_agreement(random_arguments(60, seed=1), tmp_path)


@pytest.mark.long
def test_many_random_arguments(tmp_path: Path) -> None:
    assert_agreement(random_arguments(1000, seed=2), tmp_path)
