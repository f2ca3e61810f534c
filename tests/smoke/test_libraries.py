"""What a training run says if a library that it needs is missing, or too old to be imported with the others."""

from __future__ import annotations

import os
import subprocess
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from ds_lint.smoke.rank.libraries import OLDEST

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def python(tmp_path):
    """The Python of an environment with ds-lint and what it needs itself, and nothing that trains."""
    venv.create(tmp_path / "environment", symlinks=True)
    python = tmp_path / "environment" / "bin" / "python"
    (site,) = (tmp_path / "environment" / "lib").glob("python*/site-packages")
    (site / "ds_lint").symlink_to(ROOT / "ds_lint")
    (site / "rules").symlink_to(ROOT / "rules")
    (site / "schemas").symlink_to(ROOT / "schemas")
    (site / "packaging").symlink_to(Path(find_spec("packaging").origin).parent)
    return python


def put(python, name, version, text=""):
    """Install a release of a library whose code is ``text``."""
    (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(text)
    metadata = site / f"{name}-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def said(python, tmp_path):
    """Why there is no run, as the command says."""
    (tmp_path / "ds_config.json").write_text('{"train_micro_batch_size_per_gpu": 1}')
    command = [python, "-m", "ds_lint", "check", "ds_config.json", "--smoke", "--stack=deepspeed"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    return done.stderr.splitlines()[-1].removeprefix("ds-lint: the smoke run could not be made: ")


def test_what_is_missing_is_named_and_nothing_else(python, tmp_path):
    for name in ("torch", "transformers", "accelerate"):
        put(python, name, OLDEST[name])
    assert said(python, tmp_path) == f"deepspeed is not installed for {python}: pip install deepspeed"


def test_all_can_be_missing(python, tmp_path):
    named = "torch, transformers, deepspeed and accelerate are not installed"
    assert said(python, tmp_path) == f"{named} for {python}: pip install torch transformers deepspeed accelerate"


def test_a_release_that_is_too_old_to_be_imported_is_named(python, tmp_path):
    for name in ("torch", "transformers", "accelerate"):
        put(python, name, OLDEST[name])
    put(python, "deepspeed", "0.12.6", "raise ValueError('CPU_Accelerator requires intel_extension_for_pytorch')")
    assert said(python, tmp_path) == (
        "the libraries cannot be imported: ValueError: CPU_Accelerator requires intel_extension_for_pytorch; "
        "deepspeed 0.12.6 is older than 0.15, the oldest release that runs support"
    )


def test_a_broken_library_of_a_release_that_is_new_enough_is_not_called_old(python, tmp_path):
    for name in OLDEST:
        put(python, name, OLDEST[name], "import hjson" if name == "deepspeed" else "")
    assert said(python, tmp_path) == ("the libraries cannot be imported: ModuleNotFoundError: No module named 'hjson'")
