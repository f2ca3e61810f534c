"""What is read off the source of trl, on source made for it."""

from __future__ import annotations

import made_sources
import pytest

from ds_lint.knowledge import tables
from ds_lint.knowledge import trl as known
from tools.extract import trl


def extracted(tmp_path, **changed):
    return trl.extract(made_sources.write(tmp_path, made_sources.TRL_CLASSES | changed))


def test_classes_have_their_bases(tmp_path):
    assert extracted(tmp_path)["classes"] == {
        "ClosedConfig": {"bases": ["_BaseConfig"]},
        "KTOConfig": {"bases": ["experimental.kto.KTOConfig"], "exported": True},
        "SFTConfig": {"bases": ["_BaseConfig"], "exported": True, "sets": ["max_length"]},
        "_BaseConfig": {"bases": ["TrainingArguments"]},
        "experimental.kto.KTOConfig": {"bases": ["_BaseConfig"]},
    }


def test_fields_are_those_that_a_dataclass_declares(tmp_path):
    assert extracted(tmp_path)["fields"] == {
        "SFTConfig.loss_type": {
            "type": "str",
            "default": "nll",
            "choices": ["nll", "dft"],
            "instead": "`another_class`",
        },
        "SFTConfig.max_length": {"type": "int | None", "default": 1024},
        "SFTConfig.max_seq_length": {"type": "int | None", "default": None, "replaced_by": "max_length"},
        "_BaseConfig.bf16": {"type": "bool | None", "default": None, "if_null": "not fp16"},
        "experimental.kto.KTOConfig.beta": {"type": "float", "default": 0.1},
    }


def test_a_base_that_is_not_read_is_another_layout(tmp_path):
    moved = made_sources.TRL_CLASSES["trl/trainer/sft_config.py"].replace("from .base_config", "from .bases")
    with pytest.raises(LookupError, match="inherits from Unread, whose fields are not read"):
        extracted(tmp_path, **{"trl/trainer/sft_config.py": moved.replace("_BaseConfig", "Unread")})


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("trl.SFTConfig", "SFTConfig"),
        ("trl.trainer.sft_config.SFTConfig", "SFTConfig"),
        ("trl.experimental.kto.KTOConfig", "experimental.kto.KTOConfig"),
        ("trl.experimental.kto.kto_config.KTOConfig", "experimental.kto.KTOConfig"),
    ],
)
def test_a_class_has_one_name_in_the_store(name, key):
    assert known.class_called(name) == key


def test_a_class_has_the_fields_of_its_bases():
    newest = tables.load("trl")["releases"][-1]
    config = known.classes(newest)["SFTConfig"]
    assert config.is_training
    assert config.is_exported
    assert {"max_length", "bf16"} <= config.fields.keys()  # its own, and that of the base of all configs
    assert "learning_rate" in config.fields
    assert not known.classes(newest)["ModelConfig"].is_training


@pytest.mark.parametrize(
    ("release", "name", "field", "fact"),
    [
        ("0.9.6", "SFTConfig", "max_seq_length", {"default": None}),
        ("0.19.1", "SFTConfig", "max_seq_length", {"replaced_by": "max_length"}),
        ("0.18.2", "SFTConfig", "bf16", None),
        ("0.20.0", "SFTConfig", "bf16", {"if_null": "not fp16"}),
        ("0.28.0", "GRPOConfig", "gradient_checkpointing", {"default": True}),
    ],
)
def test_what_releases_say_of_fields(release, name, field, fact):
    found = known.classes(release)[name].fields.get(field)
    assert found is None if fact is None else fact.items() <= found.items()


def test_which_classes_are_training_arguments():
    assert known.is_training("SFTConfig")
    assert known.is_training("PPOConfig")  # not up to 0.11
    assert known.is_training("ModelConfig") is False
    assert known.is_training("DDPOConfig") is False
    assert known.is_training("NewerConfig") is None
