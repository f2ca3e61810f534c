"""What a new process says of the files that a script has saved."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from ds_lint.smoke.script.inspection import inspect
from ds_lint.smoke.script.saved_files import SavedFiles

pytestmark = pytest.mark.fidelity


def test_an_error_names_files_without_the_folder_of_the_run(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    saved = SavedFiles(
        export=str(tmp_path / "export"), checkpoint=str(tmp_path / "checkpoint"), model_class="__main__.Net",
        has_adapters=False, adapter_names={}, trained=[], tied=[], samples=str(tmp_path), rule=None, is_on_gpus=False,
        clipping=0.0, is_sharded=True, is_compared=True,
    )  # fmt: skip
    assert inspect(saved).recovery_error == "ValueError: Unable to find 'latest' file at latest"
