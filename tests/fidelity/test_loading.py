"""What a process holds of a model that transformers loads into host memory, before DeepSpeed sees it (DS855).

``/proc/self/status`` tells what the process has for itself; pages of a mapped file are not among it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from linted import config_of_dict

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from installed import INSTALLED

from ds_lint.facts import Facts
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.model import Model
from ds_lint.footprint import loading
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script
from ds_lint.source.document import Document

pytestmark = [pytest.mark.fidelity, pytest.mark.long]

PROGRAM = Path(__file__).parent / "programs" / "loading.py"
LARGE = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12, "num_attention_heads": 16}
SMALL = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A large model and a small one, saved in bf16 in several files."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    folder = tmp_path_factory.mktemp("models")
    for name, sizes in (("large", LARGE), ("small", SMALL)):
        model = LlamaForCausalLM(LlamaConfig(vocab_size=32000, **sizes)).to(torch.bfloat16)
        model.save_pretrained(folder / name, max_shard_size="200MB")
    return folder


@pytest.mark.parametrize("keywords", [{}, {"dtype": "auto"}, {"dtype": "float32"}, {"dtype": "float16"}])
def test_what_a_process_holds_after_it_loaded_a_model(folders, keywords):
    told = said_of(keywords)
    command = [sys.executable, str(PROGRAM), str(folders / "large"), json.dumps(keywords), str(folders / "small")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    answer = json.loads(done.stdout.splitlines()[-1])
    print(f"{INSTALLED.transformers} {keywords}: {answer['peak'] / answer['elements']:.2f} bytes, said {told}")
    assert told * answer["elements"] <= answer["after"] <= answer["peak"] < (told + 0.5) * answer["elements"]


def said_of(keywords):
    """The bytes of each element by which DS855 counts a script with such a call."""
    given = "".join(f', {name}="{value}"' for name, value in keywords.items())
    script = f'from transformers import AutoModelForCausalLM\nm = AutoModelForCausalLM.from_pretrained("m"{given})\n'
    (launch,) = launches_in("torchrun --nproc_per_node 2 train.py", "run.sh", lambda _: None).launches
    facts = Facts(world_size=2, nodes=1).with_launch(
        LaunchFacts(launch, Document("run.sh", "", None, []), read_training_script(script))
    )
    facts.model = Model("", {"model_type": "llama", "dtype": "bfloat16"}, parameter_count=1)
    zero = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    found = loading.on_each_rank(config_of_dict(zero, target=INSTALLED, stack="deepspeed", facts=facts))
    return found.rank_bytes if found is not None else 0
