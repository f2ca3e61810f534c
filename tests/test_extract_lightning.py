"""What is read off the source of Lightning, on source made for it."""

from __future__ import annotations

import made_sources

from tools.extract import lightning


def extracted(tmp_path):
    return lightning.extract(made_sources.write(tmp_path, made_sources.LIGHTNING))


def test_keywords_have_their_defaults(tmp_path):
    assert extracted(tmp_path)["strategy"] == {
        "accelerator": {"default": None},
        "on": {"default": True},
        "stage": {"default": 2},
        "offload": {"default": False},
        "size": {"default": 10_000},
        "level": {"default_is": "logging.WARN"},
    }


def test_the_config_has_a_keyword_or_a_condition_for_each_key(tmp_path):
    assert extracted(tmp_path)["strategy_config"] == {
        "size": {"keyword": "size", "only_if": ["size != 'auto'"]},
        "zero_optimization": {"only_if": ["on"]},
        "zero_optimization.stage": {"keyword": "stage"},
        "zero_optimization.offload_optimizer": {"only_if": ["offload"]},
        "zero_optimization.offload_optimizer.buffer_size": {"keyword": "size"},
        "aio": {},
        "aio.block_size": {"keyword": "size"},
    }


def test_a_registered_name_has_the_keywords_of_its_call(tmp_path):
    facts = extracted(tmp_path)
    assert facts["trainer_names"] == {
        "deepspeed": {"keywords": {}},
        "deepspeed_3": {"keywords": {"stage": 3, "offload": True}},
    }
    assert facts["fabric_names"] == {"deepspeed_1": {"keywords": {"stage": 1}}}
