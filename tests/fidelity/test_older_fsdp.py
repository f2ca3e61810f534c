"""What ds-lint says of files for FSDP, against the plugin of older releases of accelerate, which pip downloads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("accelerate")

from accelerate_files import random_fsdp_texts
from installed import measured_with_the_newest

from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source import yaml as yaml_source
from tools.extract.releases import fetch

PROGRAM = Path(__file__).parent / "programs" / "older_fsdp.py"

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]


def about_the_plugin(count: int, seed: int) -> list[str]:
    """Random files in which nothing but the settings of FSDP decides."""
    found = []
    for text in random_fsdp_texts(count, seed):
        values = yaml.safe_load(text)
        section = values["fsdp_config"]
        is_plain = {*values} == {"distributed_type", "num_processes", "fsdp_config"} and values["num_processes"] == 2
        if is_plain and values["distributed_type"] == "FSDP" and isinstance(section, dict):
            found.append(text)
    return found


def real_outcomes(release: str, texts: list[str], folder: Path) -> list[str | None]:
    paths = []
    for number, text in enumerate(texts):
        (folder / f"{number}.yaml").write_text(text)
        paths.append(str(folder / f"{number}.yaml"))
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ACCELERATE_", "FSDP_"))}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(paths),
        env={**environment, "PYTHONPATH": str(fetch("accelerate", release, folder / "packages"))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "\0" in done.stdout, done.stderr[-2000:]
    answers: list[str | None] = json.loads(done.stdout.partition("\0")[2])
    return answers


def said(text: str, release: str) -> list[str]:
    (document,) = yaml_source.read(text, "accelerate.yaml")
    report = lint(document, Basis(knowledge(Target(accelerate=release)), None, Facts()))
    return [one.message for one in report.findings if one.effect == "rejected"]


@pytest.mark.parametrize("release", ["0.20.3", "0.24.0", "0.28.0", "0.33.0"])
def test_random_files_with_an_older_plugin(release: str, tmp_path: Path) -> None:
    texts = about_the_plugin(300, seed=23)
    assert len(texts) > 150
    wrong = [
        f"{real} against {said(text, release)} in\n{text}"
        for text, real in zip(texts, real_outcomes(release, texts, tmp_path), strict=True)
        if bool(real) != bool(said(text, release))
    ]
    assert not wrong, "\n".join(wrong)
