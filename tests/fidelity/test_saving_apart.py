"""What the real libraries save in a run of a script: the user's files stay, and the new ones go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint.smoke.probe import loggers
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.script.restore import restore

WITHOUT = ("transformers", "accelerate", "safetensors", "peft", "datasets")
STARTUP = Path(__file__).parents[2] / "ds_lint" / "smoke" / "probe" / "startup"
SAVES = """
import os, sys, torch
from tokenizers import Tokenizer, models
from safetensors.torch import save_file, load_file
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments, AutoConfig
from huggingface_hub import HfApi, create_repo
model = LlamaForCausalLM(LlamaConfig(
    hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, vocab_size=32))
words = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")))
for folder in ("new", "old"):
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    torch.save(torch.ones(3), f"{folder}.pt")
    save_file({"a": torch.ones(3)}, f"{folder}.safetensors")
assert torch.equal(torch.load("old.pt"), torch.ones(3)) and torch.equal(torch.load("new.pt"), torch.ones(3))
assert LlamaForCausalLM.from_pretrained("new").config.hidden_size == 16
assert PreTrainedTokenizerFast.from_pretrained("new").vocab_size == 2
arguments = TrainingArguments("old", report_to="none")
assert arguments.output_dir.endswith("/outputs" + os.path.abspath("old")), arguments.output_dir
assert create_repo("name").repo_id == "user/name"
assert model.push_to_hub("me/name").commit_url.startswith("https://huggingface.co/me/name/commit/")
assert HfApi().upload_folder(repo_id="me/n", folder_path="new", run_as_future=True).result().repo_url.repo_id == "me/n"
print(sorted(os.listdir("new")))
"""


@pytest.mark.fidelity
def test_every_way_of_saving(tmp_path):
    path = tmp_path.resolve() / "user"
    (path / "old").mkdir(parents=True)
    for name in ("old/model.safetensors", "old/tokenizer.json", "old.pt", "old.safetensors"):
        (path / name).write_text("mine")
    before = _files(path)
    plan = plans.Plan(str(tmp_path.resolve() / "run"))
    environment = loggers.environment(plan, dict(os.environ)) | {
        "PYTHONPATH": str(STARTUP), plans.VARIABLE: plans.write(plan), "HF_HUB_OFFLINE": "1", "TMPDIR": plan.temporary,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SAVES],
        cwd=path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "tokenizer.json" in done.stdout
    assert "model.safetensors" in done.stdout
    assert {name: text for name, text in _files(path).items() if name in before} == before
    result = restore(plan.folder)
    assert not result.left
    assert not result.failed
    assert _files(path) == before


def _files(path):
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


def test_a_script_without_transformers_is_observed_and_its_files_are_inspected():
    modules = [f"ds_lint.smoke.probe.{one.stem}" for one in sorted(STARTUP.parent.glob("*.py")) if one.stem[0] != "_"]
    assert len(modules) > 10
    words = f"import sys; sys.modules.update(dict.fromkeys({WITHOUT}))\n"
    words += "".join(f"import {one}\n" for one in [*modules, "ds_lint.smoke.script.inspection"])
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
