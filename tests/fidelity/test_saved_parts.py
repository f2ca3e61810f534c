"""A model of another library than transformers is saved in a file, or in files of its modules."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ds_lint.smoke.observe.probes import digest  # noqa: E402 - imports torch
from ds_lint.smoke.script.inspection import inspect  # noqa: E402
from ds_lint.smoke.script.saved_files import SavedFiles  # noqa: E402

pytestmark = pytest.mark.fidelity


def test_the_weights_of_all_folders_are_read(tmp_path):
    one, other = torch.ones(2), torch.zeros(3)
    torch.save({"weight": one}, tmp_path / "pytorch_model.bin")
    (tmp_path / "2_Dense").mkdir()
    torch.save({"linear.bias": other}, tmp_path / "2_Dense" / "pytorch_model.bin")
    saved = SavedFiles(
        export=str(tmp_path), checkpoint="", model_class="sentence_transformers.SentenceTransformer",
        has_adapters=False, adapter_names={}, trained=[], tied=[], samples="", rule=None,
        is_on_gpus=False, clipping=0.0, is_sharded=False, dtypes={}, is_compared=True,
    )  # fmt: skip
    assert inspect(saved).stored == {"weight": digest(one), "2_Dense/linear.bias": digest(other)}
