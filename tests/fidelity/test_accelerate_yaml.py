"""What ds-lint says of Accelerate's YAML files, against its launch, its plugin, ``Accelerator()`` and DeepSpeed.

Real files are those of the collection beside the checkout; where it is not there, only random ones are compared.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml
from accelerate_files import random_fsdp_texts, random_texts
from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint
from ds_lint.rule_pages import pages
from ds_lint.semantics.accelerate.file import AccelerateFile
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.semantics.accelerate.launch import AccelerateLaunch
from ds_lint.semantics.accelerate.unread import is_read
from ds_lint.semantics.basis import Basis
from ds_lint.source import yaml as yaml_source
from ds_lint.source.tree import plain

PROGRAM = Path(__file__).parent / "programs" / "accelerate_launches.py"
COLLECTION = Path(os.environ.get("DS_LINT_CORPUS", Path(__file__).parents[3] / "shared" / "corpus")) / "accelerate"
AGREE = 0.995

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]


def real_outcomes(folder: Path, texts: list[str]) -> list[dict[str, Any]]:
    """What accelerate does with each text."""
    paths = []
    for number, text in enumerate(texts):
        path = folder / str(number) / "accelerate.yaml"
        path.parent.mkdir()
        path.write_text(text, encoding="utf-8")
        (path.parent / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}')
        paths.append(str(path))
    process = launching()
    process.stdin.write(json.dumps(paths) + "\n")
    process.stdin.flush()
    answers = []
    while len(answers) < len(texts):
        line = process.stdout.readline()
        assert line, f"{PROGRAM} has ended; standard error shows why if it is run by hand"
        if line.startswith("\0"):
            answers.append(json.loads(line[1:]))
    return answers


@cache
def launching() -> subprocess.Popen[str]:
    """The process that launches for all tests, since it imports the libraries for seconds."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    return warm.start(str(PROGRAM), {**environment, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})


def disagreements(folder: Path, texts: list[str]) -> tuple[list[str], list[str]]:
    """The files over which ds-lint and accelerate disagree: about starting, and about keys that nothing reads."""
    starts, reads = [], []
    for text, real in zip(texts, real_outcomes(folder, texts), strict=True):
        rejected, unread = said(text)
        if bool(rejected) != (real["error"] is not None):
            starts.append(f"{real['error']} against {rejected} in\n{text}")
        elif real["error"] is None and unread != real["unread"]:
            differing = [key for key in unread + real["unread"] if (key in unread) != (key in real["unread"])]
            reads.append(f"{differing} in\n{text}")
        elif real["error"] is None and made_of(text) not in (None, without_steps(real.get("config", {}))):
            starts.append(f"{real.get('config')} against {made_of(text)} in\n{text}")
    return starts, reads


def without_steps(config: dict[str, Any]) -> dict[str, Any]:
    """A config of the plugin without what it writes over any value, so that DeepSpeed does not print."""
    return {name: value for name, value in config.items() if name != "steps_per_print"}


def made_of(text: str) -> Any:
    """The DeepSpeed config that ds-lint says the plugin makes; None if it makes none."""
    (document,) = yaml_source.read(text, "accelerate.yaml")
    made = AccelerateFile(document, knowledge()).made
    return plain(made.root) if made is not None else None


def said(text: str) -> tuple[list[str], list[list[str]]]:
    """The findings that a file is rejected, and the keys that nothing reads."""
    (document,) = yaml_source.read(text, "accelerate.yaml")
    report = lint(document, Basis(knowledge(), None, Facts()))
    rejected = [f"{finding.code} {finding.message}" for finding in report.findings if finding.effect == "rejected"]
    if document.root is None or document.issues:
        return rejected, []
    launch = AccelerateLaunch(document.root, knowledge())
    values = yaml.safe_load(text)
    leaves = [
        (name, below) if below is not None else (name,)
        for name, value in values.items()
        for below in (value if isinstance(value, dict) else [None])
    ]
    plugin = FsdpPlugin(launch)
    return rejected, [list(path) for path in leaves if not is_read(launch, plugin, path)]


def assert_agreement(folder: Path, texts: list[str]) -> None:
    starts, reads = disagreements(folder, texts)
    shown = "\n".join([f"{len(starts)} about starting, {len(reads)} about keys, of {len(texts)}", *starts, *reads])
    assert len(starts) <= (1 - AGREE) * len(texts), shown
    assert len(reads) <= (1 - AGREE) * len(texts), shown


def test_random_files(tmp_path: Path) -> None:
    assert_agreement(tmp_path, random_texts(50, seed=17))


@pytest.mark.long
def test_many_random_files(tmp_path: Path) -> None:
    assert_agreement(tmp_path, random_texts(1000, seed=18))


def test_random_files_for_fsdp(tmp_path: Path) -> None:
    assert_agreement(tmp_path, random_fsdp_texts(30, seed=19))


@pytest.mark.long
def test_many_random_files_for_fsdp(tmp_path: Path) -> None:
    assert_agreement(tmp_path, random_fsdp_texts(1000, seed=20))


@pytest.mark.skipif(not COLLECTION.is_dir(), reason="the collection of real files is not beside this checkout")
@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.long) for part in (1, 2))])
def test_real_files(tmp_path: Path, part: int) -> None:
    paths = sorted(COLLECTION.glob("*.yaml"))[part::3]
    assert_agreement(tmp_path, [with_file_here(path.read_text(encoding="utf-8")) for path in paths])


def test_examples_of_the_rule_pages(tmp_path: Path) -> None:
    texts = [
        with_file_here(example.config)
        for rule in every_rule()
        if rule.kind == "accelerate" and rule.code != "DS886"  # what a launcher refuses: test_hosts_truth.py
        for example in pages.examples(pages.page(rule))
        if example.target.accelerate in (None, knowledge().target["accelerate"])
        if yaml_source.read(example.config, "accelerate.yaml")  # and not a call in Python
    ]
    assert len(texts) > 10
    assert disagreements(tmp_path, texts) == ([], [])


def test_settings_that_are_misread(tmp_path: Path) -> None:
    """DS655: ``'yes'`` and 1 leave the gather off, ``on`` does not; at stage 2 the flag for stage 3 is off."""
    settings = {"zero_stage: 3\n  zero3_save_16bit_model": ["'yes'", "1", "on"], "zero3_init_flag": ["true"]}
    texts = [
        f"distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  {name}: {value}\n"
        for name, values in settings.items()
        for value in values
    ]
    gathers, flags = [], []
    for outcome in real_outcomes(tmp_path, texts):
        gathers.append(outcome["config"]["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"])
        flags.append(outcome["zero3_init_flag"])
    assert gathers[:3] == [False, False, True]
    assert flags[3] is False
    misread = [["DS655"], ["DS655"], [], ["DS655"]]
    for text, codes in zip(texts, misread, strict=True):
        (document,) = yaml_source.read(text, "accelerate.yaml")
        found = [one.code for one in lint(document, Basis(knowledge(), None, Facts())).findings]
        assert [code for code in found if code == "DS655"] == codes


@pytest.mark.parametrize("ranks", [7, 8])
def test_ranks_that_the_machines_do_not_share_evenly(ranks: int, tmp_path: Path) -> None:
    """DS655: torchrun gets the whole part of the quotient for each machine."""
    text = (
        f"distributed_type: DEEPSPEED\nnum_processes: {ranks}\nnum_machines: 2\nmachine_rank: 1\n"
        "main_process_ip: 10.0.0.1\nmain_process_port: 29500\nmixed_precision: bf16\n"
        "deepspeed_config:\n  zero_stage: 2\n  deepspeed_multinode_launcher: standard\n"
    )
    (outcome,) = real_outcomes(tmp_path, [text])
    (document,) = yaml_source.read(text, "accelerate.yaml")
    found = [one.code for one in lint(document, Basis(knowledge(), None, Facts())).findings]
    assert (outcome["ranks"] != ranks) == ("DS655" in found)
    assert outcome["ranks"] == 2 * (ranks // 2)


def test_a_training_run_uses_the_config_that_the_plugin_makes(tmp_path: Path) -> None:
    text = (
        "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: bf16\ndeepspeed_config:\n"
        "  zero_stage: 3\n  zero3_save_16bit_model: true\n  gradient_accumulation_steps: 2\n"
    )
    (tmp_path / "accelerate.yaml").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", "accelerate.yaml", "--smoke", "--output-format", "json"],
        cwd=tmp_path,
        env={**os.environ, "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")},
        capture_output=True,
        text=True,
        check=False,
    )
    (verdict,) = json.loads(done.stdout)["smoke"]
    assert (verdict["stack"], verdict["status"]) == ("accelerate", "pass"), verdict
    assert {"stage", "dtypes", "export"} <= {one["id"] for one in verdict["checks"] if one["status"] == "pass"}


def with_file_here(text: str) -> str:
    """A file that names the DeepSpeed config beside it, as the one it names is not in the collection."""
    lines = [
        line.partition(":")[0] + ": ds.json" if line.strip().startswith("deepspeed_config_file:") else line
        for line in text.splitlines()
    ]
    return "\n".join(lines) + "\n"
