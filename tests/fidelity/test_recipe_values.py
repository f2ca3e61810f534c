"""What becomes of a value of a recipe that LLaMA-Factory hands to the parser of transformers."""

from __future__ import annotations

import pytest

transformers = pytest.importorskip("transformers")


def test_a_text_stays_a_text(tmp_path):
    """DS672, DS673: the parser converts nothing of a dict."""
    parser = transformers.HfArgumentParser(transformers.TrainingArguments)
    recipe = {"output_dir": str(tmp_path), "logging_first_step": "false", "weight_decay": "high"}
    (arguments,) = parser.parse_dict(recipe)
    assert arguments.logging_first_step == "false"
    assert bool(arguments.logging_first_step)
    assert arguments.weight_decay == "high"
    with pytest.raises(ValueError, match="not used by the HfArgumentParser"):
        parser.parse_dict({**recipe, "hostfile": "hosts.txt"})
