"""What a new process says of the files that a script has saved."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from ds_lint.smoke.script.inspection import inspect
from ds_lint.smoke.script.saved_files import SavedFiles

pytestmark = pytest.mark.fidelity


def saved(folder, **changes):
    usual = SavedFiles(
        export=str(folder / "export"), checkpoint=str(folder / "checkpoint"), model_class="__main__.Net",
        has_adapters=False, adapter_names={}, trained=[], tied=[], samples=str(folder), rule=None, is_on_gpus=False,
        clipping=0.0, is_sharded=False, is_compared=True,
    )  # fmt: skip
    return usual._replace(**changes)


def test_an_error_names_files_without_the_folder_of_the_run(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    found = inspect(saved(tmp_path, is_sharded=True))
    assert found.recovery_error == "ValueError: Unable to find 'latest' file at latest"


def test_weights_are_loaded_in_the_dtype_that_they_were_trained_in(tmp_path):
    """A script loads a model in bf16 and trains it in fp16: the config beside its weights still has the first."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    model = LlamaForCausalLM(config).half()
    config.dtype = torch.bfloat16
    config.save_pretrained(tmp_path / "export")
    torch.save(model.state_dict(), tmp_path / "export" / "pytorch_model.bin")
    found = inspect(saved(tmp_path, model_class="transformers.LlamaForCausalLM"))
    assert found.load_error is None
    assert found.loaded == {name: found.stored[name] for name, _ in model.named_parameters()}
