"""Real configs, as they are and mutated, through the real DeepSpeed: ds-lint agrees on 99 of 100."""

from __future__ import annotations

import copy
import json
import os
import random
from pathlib import Path

import pytest
from linted import lint_bytes, lint_dict, lint_file

pytest.importorskip("deepspeed")

from agreement import LINTED_FOR, assert_agreement, compare_all, is_decided
from generate import mutate
from installed import INSTALLED, knowledge
from matching_arguments import matching_arguments
from oracle import Job, Oracle
from pairs import Pair
from test_trainer_agreement import disagreement
from trainer import prepare

from ds_lint.facts import Facts

CORPUS = Path(os.environ.get("DS_LINT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus"))
MUTATED = 1000
# One in so many in every test run, the others in the long form.
PARTS = 16
EACH_PART = [0, *(pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS))]
# What the Trainer would write for "auto", so that most mutated configs come to their first step.
FILLED = {
    "lr": 1e-3, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0, "warmup_min_lr": 0, "warmup_max_lr": 1e-3,
    "warmup_num_steps": 5, "total_num_steps": 50, "gradient_clipping": 1.0, "enabled": False, "train_batch_size": 2,
    "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
}  # fmt: skip
BATCH_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")

pytestmark = [pytest.mark.fidelity, pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")]


@pytest.mark.parametrize("part", EACH_PART)
def test_real_configs_as_files(part):
    texts = [path.read_bytes() for path in sorted((CORPUS / "configs").glob("*.json"))[part::PARTS]]
    with Oracle() as oracle:
        verdicts = oracle.verdicts(texts, level="train", as_file=True)
    compared = [
        (text.decode(errors="replace"), lint_bytes(text, "config.json", **LINTED_FOR).findings, verdict)
        for text, verdict in zip(texts, verdicts, strict=True)
    ]
    # A template is linted as what it will be once it is filled in.
    assert_agreement(compare_all(one for one in compared if not any(finding.name == "template" for finding in one[1])))


TRAINING_ARGUMENTS = [  # the defaults, what the guides show, and values that few configs repeat
    {"max_steps": 100},
    {"bf16": True, "learning_rate": 2e-5, "gradient_accumulation_steps": 4, "max_steps": 100},
    {"max_grad_norm": 0.5, "warmup_steps": 10, "weight_decay": 0.1, "adam_beta2": 0.95, "max_steps": 100},
]


@pytest.mark.parametrize("part", EACH_PART)
@pytest.mark.parametrize("arguments", TRAINING_ARGUMENTS)
def test_real_configs_with_training_arguments(arguments, part):
    """Each newest version: the Trainer's verdict, the keys that mismatch, and the config that DeepSpeed gets."""
    wrong = []
    for path in newest()[part::PARTS]:
        config = parsed(path)
        if config is not None and "tensor_parallel" not in config:  # which needs a process group
            pair = Pair(config, arguments, 2, {"hidden_size": 64}, frozenset({"world size", "model"}))
            if found := disagreement(pair):
                wrong.append(f"{path.name}: {found}")
    assert wrong == []


@pytest.mark.parametrize("part", EACH_PART)
def test_real_configs_with_the_trainer(part):
    """Each newest version, with arguments that agree with it: it is rejected if ds-lint reports it, and only then."""
    wrong, prepared = [], []
    for path in newest()[part::PARTS]:
        facts = Facts(world_size=1)
        findings = lint_file(str(path), target=INSTALLED, stack="trainer", facts=facts).findings
        config = parsed(path)
        if config is None or any(finding.name == "template" for finding in findings):
            continue
        rejecting = [finding.code for finding in findings if finding.effect == "rejected"]
        try:
            final = prepare(config, matching_arguments(config))
        except Exception as error:
            if not rejecting:
                wrong.append(f"{path.name}: {error}, and ds-lint says nothing")
        else:
            prepared.append((path, rejecting, {key: final[key] for key in final if key != "steps_per_print"}))
    with Oracle() as oracle:
        verdicts = oracle.run([Job(final, passed_optimizer=handed_over(final)) for _, _, final in prepared])
    for (path, rejecting, _), verdict in zip(prepared, verdicts, strict=True):
        if bool(rejecting) != bool(verdict.rejected_at) and (rejecting or is_decided(verdict)):
            wrong.append(f"{path.name}: {verdict.rejected_at} {verdict.error}, ds-lint: {rejecting}")
    assert wrong == []


def handed_over(final: dict) -> str | None:
    """The optimizer that Accelerate gives DeepSpeed for the Trainer's own: it looks at `offload_optimizer` alone."""
    if (final.get("optimizer") or {}).get("type") is not None:
        return None
    offload = final["zero_optimization"].get("offload_optimizer") or {}
    return "AdamW" if offload.get("device", "none") == "none" else "DeepSpeedCPUAdam"


def newest() -> list[Path]:
    lines = (CORPUS / "manifest.jsonl").read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line) for line in lines]
    files = [CORPUS / entry["file"] for entry in entries if entry["where"] == "head"]
    return sorted(path for path in files if path.parent.name == "configs")


@pytest.mark.parametrize("part", EACH_PART)
def test_real_configs_mutated(part):
    chance = random.Random(20261121 + part)
    bases = [filled(config) for path in sorted((CORPUS / "configs").glob("*.json")) if (config := parsed(path))]
    configs = []
    for _ in range(MUTATED // PARTS):
        config = copy.deepcopy(chance.choice(bases))
        mutate(chance, config, knowledge())
        configs.append(config)
    with Oracle() as oracle:
        verdicts = oracle.verdicts(copy.deepcopy(configs), level="train")
    assert_agreement(
        compare_all(
            (config, lint_dict(config, **LINTED_FOR).findings, verdict)
            for config, verdict in zip(configs, verdicts, strict=True)
        )
    )


def parsed(path: Path) -> dict | None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return config if isinstance(config, dict) else None


def filled(config: dict) -> dict:
    """The config for one rank, with a value for every "auto" or without the key."""
    done = {
        key: filled(value) if isinstance(value, dict) else FILLED.get(key) if value == "auto" else value
        for key, value in config.items()
        if value != "auto" or key in FILLED
    }
    return done | {key: FILLED[key] for key in BATCH_SIZES if key in done}
