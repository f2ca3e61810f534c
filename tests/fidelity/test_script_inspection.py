"""What a new process says of the files that a script has saved."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from shown_engines import expected, runs, shown

from ds_lint.smoke.observe.probes import digest
from ds_lint.smoke.script.inspection import inspect
from ds_lint.smoke.script.saved_files import SavedFiles
from ds_lint.smoke.verify.script_saving import export

pytestmark = pytest.mark.fidelity


def saved(folder, **changes):
    usual = SavedFiles(
        export=str(folder / "export"), checkpoint=str(folder / "checkpoint"), model_class="__main__.Net",
        has_adapters=False, adapter_names={}, trained=[], tied=[], samples=str(folder), rule=None, is_on_gpus=False,
        clipping=0.0, is_sharded=False, dtypes={}, is_compared=True,
    )  # fmt: skip
    return usual._replace(**changes)


def test_an_error_names_files_without_the_folder_of_the_run(tmp_path):
    (tmp_path / "checkpoint").mkdir()
    found = inspect(saved(tmp_path, is_sharded=True))
    assert found.recovery_error == "ValueError: Unable to find 'latest' file at latest"


DTYPES = ("float32", "bfloat16", "float16")
WAYS = ("save_pretrained", "torch.save", "mixed")


def compared(folder, model, *, way, trained, in_file, in_config):
    """The check of a model that trains in one dtype, and is saved in another beside a config with a third."""
    import safetensors.torch
    import torch

    live = {name: one.data.to(getattr(torch, trained)) for name, one in model.named_parameters()}
    stored = {name: one.to(getattr(torch, in_file)) for name, one in live.items()}
    if way == "mixed":  # a norm in fp32 beside weights in 16 bit
        stored["model.norm.weight"] = live["model.norm.weight"].float()
    model.config.dtype = getattr(torch, in_config)
    model.config.save_pretrained(folder / "export")
    if way == "torch.save":
        torch.save(stored, folder / "export" / "pytorch_model.bin")
    else:
        safetensors.torch.save_file(stored, folder / "export" / "model.safetensors", {"format": "pt"})
    one = shown(model_class="transformers.LlamaForCausalLM")
    one.evidence.live = {name: digest(tensor) for name, tensor in live.items()}
    run = runs([one, shown(1)])
    run.is_of_transformers = True
    kind, dtypes = "transformers.LlamaForCausalLM", dict.fromkeys(live, trained)
    run.exported = inspect(saved(folder, model_class=kind, dtypes=dtypes))
    (check,) = export(expected(one), run)
    return check.status, check.message


@pytest.fixture(scope="module")
def llama():
    """A tiny model with weights that no 16-bit dtype has."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.norm.weight.add_(0.123)
    return model


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("in_config", DTYPES)
@pytest.mark.parametrize("trained", DTYPES)
def test_the_dtype_in_the_config_does_not_count(tmp_path, llama, way, trained, in_config):
    """A script that loads a model in bf16 and trains it in fp16 leaves a config with the first."""
    status, message = compared(tmp_path, llama, way=way, trained=trained, in_file=trained, in_config=in_config)
    assert (status, message[:20]) == ("pass", "the saved model load")


@pytest.mark.parametrize(
    ("trained", "in_file"), [("float32", "bfloat16"), ("float32", "float16"), ("float16", "bfloat16")]
)
def test_weights_that_are_rounded_in_the_file_are_not_the_trained_ones(tmp_path, llama, trained, in_file):
    status, message = compared(tmp_path, llama, way="torch.save", trained=trained, in_file=in_file, in_config=trained)
    assert status == "fail"
    assert message.endswith(f"tensors of the saved model are in {in_file}, and the trained ones in {trained}")


@pytest.mark.parametrize("trained", ["bfloat16", "float16"])
def test_weights_that_are_saved_in_a_wider_dtype_are_the_trained_ones(tmp_path, llama, trained):
    status, _ = compared(tmp_path, llama, way="torch.save", trained=trained, in_file="float32", in_config=trained)
    assert status == "pass"


def test_a_release_that_does_not_know_dtype_gets_torch_dtype(monkeypatch):
    """Before transformers 4.56, ``from_pretrained`` puts ``dtype`` into the config, which then cannot be written."""
    import torch
    import transformers

    from ds_lint.smoke.script import inspection

    assert inspection.loaded_in(torch.float16) == {"dtype": torch.float16}
    monkeypatch.setattr(transformers, "PretrainedConfig", type("PretrainedConfig", (), {"torch_dtype": None}))
    assert inspection.loaded_in(torch.float16) == {"torch_dtype": torch.float16}
