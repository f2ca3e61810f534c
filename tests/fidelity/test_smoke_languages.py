"""A run trains with what the config is, in whichever language it is written, and not with the text of its file."""

from __future__ import annotations

import json
from textwrap import dedent, indent

import pytest
from installed import INSTALLED

from ds_lint.facts import Facts
from ds_lint.smoke.small_run import proof
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.source import documents

pytestmark = pytest.mark.fidelity

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
    "zero_optimization": {"stage": 2},
}
TEXT = json.dumps(CONFIG, indent=2)
INITIALIZE = f"import deepspeed\nconfig = {CONFIG!r}\ndeepspeed.initialize(model=model, config=config)\n"
WRITTEN = f"config = '''\n{TEXT}\n'''\nwith open('ds.json', 'w') as file:\n    file.write(config)\n"
HEREDOC = f"cat <<'EOT' > ds_config.json\n{TEXT}\nEOT\n"
ACCELERATE = """\
    distributed_type: DEEPSPEED
    mixed_precision: bf16
    num_processes: 2
    deepspeed_config:
      zero_stage: 2
"""
RECIPE = {
    "model_name_or_path": "a",
    "per_device_train_batch_size": 2,
    "learning_rate": 0.001,
    "num_train_epochs": 1,
    "save_steps": 5,
    "bf16": True,
    "deepspeed": {
        "train_micro_batch_size_per_gpu": "auto",
        "bf16": {"enabled": "auto"},
        "zero_optimization": {"stage": 2},
    },
}
PLUGIN = """\
from accelerate import Accelerator, DeepSpeedPlugin
plugin = DeepSpeedPlugin(zero_stage=2)
Accelerator(deepspeed_plugin=plugin, mixed_precision="bf16")
"""


def notebook(*cells):
    """A notebook with these code cells."""
    sources = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": one} for one in cells
    ]
    return json.dumps({"cells": sources, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


FILES = {
    "dict-in-python": ("train.py", INITIALIZE),
    "dict-that-becomes-a-file": ("train.py", f"import json\njson.dump({CONFIG!r}, open('ds.json', 'w'))\n"),
    "text-that-becomes-a-file": ("train.py", WRITTEN),
    "plugin-in-python": ("train.py", PLUGIN),
    "here-document": ("run.sh", HEREDOC),
    "python-in-a-shell-script": ("run.sh", f"python - <<'EOT'\n{INITIALIZE}EOT\n"),
    "python-in-a-notebook": ("a.ipynb", notebook("!pip install deepspeed", INITIALIZE)),
    "here-document-in-a-notebook": ("a.ipynb", notebook("x = 1", f"%%bash\n{HEREDOC}")),
    "file-of-a-notebook": ("a.ipynb", notebook(f"%%writefile ds_config.json\n{TEXT}")),
    "text-in-a-notebook": ("a.ipynb", notebook("x = 1", WRITTEN)),
    "json-in-markdown": ("README.md", f"# Training\n\n```json\n{TEXT}\n```\n"),
    "python-in-markdown": ("README.md", f"- a dict:\n\n  ```python\n{indent(INITIALIZE, '  ')}  ```\n"),
    "yaml-of-accelerate": ("accelerate.yaml", dedent(ACCELERATE)),
    "recipe": ("sft.json", json.dumps(RECIPE)),
}
IN_EVERY_RUN = ("dict-in-python", "here-document-in-a-notebook", "text-in-a-notebook")


@pytest.mark.parametrize(
    ("path", "text"),
    [pytest.param(*FILES[one], id=one, marks=[] if one in IN_EVERY_RUN else pytest.mark.long) for one in FILES],
)
def test_the_config_in_a_file_of_any_language_trains(pool, path, text):
    (document,) = documents.configs_in(text.encode(), path)
    options = RunOptions(seconds=120.0, simulates=False)
    (verdict,) = proof.prove(pool, document, stack=document.stack, facts=Facts(), target=INSTALLED, options=options)
    assert verdict.error is None
    assert [check.message for check in verdict.checks if check.status in ("error", "fail", "warn")] == []
    assert {check.id: check.observed for check in verdict.checks}["stage"] == 2


def test_a_dict_keeps_the_numbers_that_hjson_would_change():
    """From a file DeepSpeed gets 100 for 100.0 (``hjson.loads``); a dict arrives as it is."""
    from ds_lint.smoke.rank.loaded_config import load
    from ds_lint.smoke.records.job import Job

    text = '{"train_batch_size": 100.0}'
    assert repr(load(Job(text, "deepspeed", ""))["train_batch_size"]) == "100"
    assert repr(load(Job(text, "deepspeed", "", is_dict=True))["train_batch_size"]) == "100.0"
