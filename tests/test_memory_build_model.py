"""``ds-lint memory --build-model``: the parameters of a model type whose shapes ds-lint does not know."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from command_line import clean_environment, write_into

pytest.importorskip("transformers")

from ds_lint.smoke import meta_model

LFM2 = {  # of which there are no shapes in schemas/shapes.json
    "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "dtype": "bfloat16", "hidden_size": 256,
    "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 2,
    "layer_types": ["conv", "full_attention"], "tie_word_embeddings": True, "vocab_size": 1000,
}  # fmt: skip
CONFIG = {"bf16": {"enabled": True}, "optimizer": {"type": "AdamW"}, "train_micro_batch_size_per_gpu": 1}


@pytest.mark.long
def test_the_parameters_are_those_of_the_class_in_its_order():
    import torch
    import transformers

    with torch.device("meta"):
        model = transformers.Lfm2ForCausalLM(transformers.Lfm2Config(**LFM2))
    assert meta_model.parameters(LFM2) == [(name, tuple(one.shape)) for name, one in model.named_parameters()]


@pytest.mark.long
def test_a_model_is_built_only_on_request_and_no_code_beside_it_runs(tmp_path):
    write_into(tmp_path)(
        {
            "ds.json": json.dumps(CONFIG),
            "model/config.json": json.dumps(LFM2),
            "model/modeling_lfm2.py": "raise SystemExit('code of the model')\n",
            "torch.py": "raise SystemExit('code of the project')\n",
        }
    )

    def memory(*options: str) -> subprocess.CompletedProcess[str]:
        arguments = ("ds.json", "--model", "model", "--world-size", "2", "--stack", "deepspeed", *options)
        return subprocess.run(
            [sys.executable, "-m", "ds_lint", "memory", *arguments],
            cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip

    alone = memory()
    assert (alone.returncode, alone.stdout) == (2, "")
    assert "the shapes of the parameters are not known; set --build-model (or --parameters)" in alone.stderr
    built = memory("--build-model", "--output-format", "json")
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["setup"]["parameters"] > 10**6


@pytest.mark.long
def test_a_class_that_transformers_does_not_have_is_named():
    with pytest.raises(meta_model.NotBuilt, match=r"no class of the installed transformers builds it: .*unheard-of"):
        meta_model.parameters({"model_type": "unheard-of", "architectures": ["UnheardOfForCausalLM"]})
