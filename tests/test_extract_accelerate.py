"""What is read off the source of accelerate, each kind of fact on source made for it."""

from __future__ import annotations

import made_sources
import pytest
from made_sources import GIVEN

from tools.extract import accelerate


@pytest.fixture
def extracted(tmp_path):
    """The facts of a release in which the named methods have these bodies."""

    def extract(**bodies):
        return accelerate.extract(made_sources.write(tmp_path, made_sources.accelerate(**bodies)))

    return extract


def test_what_the_plugin_fills(extracted):
    facts = extracted(
        plugin=f"""
            {GIVEN}
                plugin_to_config_mapping = {{"zero_stage": "zero_optimization.stage"}}
                kwargs = {{v: getattr(self, k) for k, v in plugin_to_config_mapping.items()}}
                for key in kwargs.keys():
                    self.fill_match(key, **kwargs, must_match=False)
        """
    )
    assert facts["fills"] == {
        "zero_optimization.stage": {
            "sources": [{"from": "DeepSpeedPlugin.zero_stage", "at": "plugin", "matched": False}]
        }
    }


def test_what_is_filled_when_the_precision_is_known(extracted):
    facts = extracted(
        precision="""
            kwargs = {"fp16.enabled": mixed_precision == "fp16"}
            self.fill_match("fp16.enabled", must_match=False, **kwargs)
        """
    )
    (source,) = facts["fills"]["fp16.enabled"]["sources"]
    assert source == {"from": "mixed_precision == 'fp16'", "at": "precision", "matched": False}


def test_what_is_filled_when_model_and_optimizer_are_prepared(extracted):
    facts = extracted(
        prepare="""
            deepspeed_plugin = self.deepspeed_plugin
            deepspeed_plugin.fill_match("steps", must_match=False, steps=self.steps)
            config_kwargs = {"gradient_clipping": 1.0}
            config_kwargs["train_batch_size"] = deepspeed_plugin.size * self.num_processes
            if isinstance(optimizer, DummyOptim):
                config_kwargs.update({"optimizer.params.lr": optimizer.lr})
            deepspeed_plugin.deepspeed_config_process(must_match=False, **config_kwargs)
        """
    )
    sources = {key: facts["sources"][0] for key, facts in facts["fills"].items()}
    assert {key: source["from"] for key, source in sources.items()} == {
        "steps": "Accelerator.steps",
        "gradient_clipping": "1.0",
        "train_batch_size": "DeepSpeedPlugin.size * Accelerator.num_processes",
        "optimizer.params.lr": "optimizer.lr",
    }
    assert sources["optimizer.params.lr"]["only_if"] == ["isinstance(optimizer, DummyOptim)"]


def test_fills_that_must_match(extracted):
    facts = extracted(
        prepare="""
            config_kwargs = {"gradient_clipping": 1.0}
            deepspeed_plugin.deepspeed_config_process(**config_kwargs)
        """
    )
    assert facts["fills"]["gradient_clipping"]["sources"][0]["matched"] is True


def test_two_sources_stand_in_the_order_in_which_they_are_tried(extracted):
    facts = extracted(
        plugin="""
            plugin_to_config_mapping = {"gradient_clipping": "gradient_clipping"}
            kwargs = {v: getattr(self, k) for k, v in plugin_to_config_mapping.items()}
            self.fill_match("gradient_clipping", **kwargs)
        """,
        prepare="""
            config_kwargs = {"gradient_clipping": 1.0}
            deepspeed_plugin.deepspeed_config_process(**config_kwargs)
        """,
    )
    sources = facts["fills"]["gradient_clipping"]["sources"]
    assert [source["from"] for source in sources] == ["DeepSpeedPlugin.gradient_clipping", "1.0"]


def test_a_key_that_is_overwritten_and_one_that_is_inserted(extracted):
    facts = extracted(
        plugin=f"""
            {GIVEN}
                if "gradient_accumulation_steps" not in self.hf_ds_config.config:
                    self.hf_ds_config.config["gradient_accumulation_steps"] = 1
            else:
                config["gradient_clipping"] = self.gradient_clipping
            self.deepspeed_config["steps_per_print"] = float("inf")
        """
    )
    assert facts["inserts"] == {"gradient_accumulation_steps": {"sources": [{"with": "1", "at": "plugin"}]}}
    assert facts["overwrites"] == {"steps_per_print": {"sources": [{"with": "float('inf')", "at": "plugin"}]}}


def test_a_loop_over_constants_is_written_out(extracted):
    facts = extracted(
        precision="""
            ds_config = self.deepspeed_config
            for dtype in ["fp16", "bf16"]:
                if dtype not in ds_config:
                    ds_config[dtype] = {"enabled": False}
        """
    )
    source = {"with": "{'enabled': False}", "at": "precision"}
    assert facts["inserts"] == {"fp16": {"sources": [source]}, "bf16": {"sources": [source]}}


def test_an_update_writes_too(extracted):
    facts = extracted(
        precision="""
            ds_config = self.deepspeed_config
            if mixed_precision == "fp16" and "fp16" not in ds_config and "bf16" not in ds_config:
                ds_config.update({"fp16": {"enabled": True}})
        """
    )
    (source,) = facts["inserts"]["fp16"]["sources"]
    assert source["only_if"] == ["mixed_precision == 'fp16'", "bf16 is missing"]


def test_a_key_that_a_config_must_have(extracted):
    facts = extracted(
        plugin=f"""
            {GIVEN}
                if "zero_optimization" not in self.hf_ds_config.config:
                    raise ValueError("Please specify the ZeRO optimization config in the DeepSpeed config.")
        """
    )
    assert facts["required"] == {"zero_optimization": {"at": "plugin"}}


def test_an_auto_that_is_not_filled_is_rejected(extracted):
    facts = extracted(
        filling="""
            if config.get(ds_key) == "auto":
                if ds_key_long in kwargs:
                    return
                else:
                    raise ValueError(f"`{ds_key_long}` not found in kwargs.")
        """
    )
    assert facts["refusals"] == {
        "`...` not found in kwargs.": {
            "at": "prepare",
            "only_if": ["config.get(ds_key) == 'auto'", "ds_key_long not in kwargs"],
        }
    }


def test_settings_that_a_yaml_must_not_have_beside_a_file(extracted):
    facts = extracted(checks='names = ["ACCELERATE_DEEPSPEED_ZERO_STAGE", "ACCELERATE_MIXED_PRECISION"]')
    assert facts["beside_file"] == {
        "zero_stage": {"environment": "ACCELERATE_DEEPSPEED_ZERO_STAGE"},
        "mixed_precision": {"environment": "ACCELERATE_MIXED_PRECISION"},
    }
    assert extracted(version="0.15.0")["beside_file"] == {}


def test_the_oldest_deepspeed_in_general_and_on_special_hardware(extracted):
    facts = extracted(
        constructor="""
            if deepspeed_plugins is not None:
                if is_mlu_available():
                    if compare_versions("deepspeed", "<", "0.15.2"):
                        raise ImportError("too old")
                elif compare_versions("deepspeed", "<", "0.9.3"):
                    raise ImportError("too old")
        """
    )
    assert facts["requires"] == {
        "deepspeed": {"minimum": "0.9.3"},
        "deepspeed where is_mlu_available()": {"minimum": "0.15.2"},
    }


def test_the_fields_of_the_plugin_and_the_variables_that_stand_in(extracted):
    facts = extracted(
        plugin="""
            if self.zero_stage is None:
                stage = os.environ.get("ACCELERATE_DEEPSPEED_ZERO_STAGE", 2)
                self.zero_stage = int(stage)
        """
    )
    assert facts["plugin"] == {
        "zero_stage": {
            "type": "int",
            "default": None,
            "environment": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
            "otherwise": 2,
        },
        "hf_ds_config": {"type": "Any", "default": None},
    }


def test_flags_and_keys_of_the_yaml(extracted):
    facts = extracted()
    assert facts["launch_arguments"] == {
        "debug": {"default": None},
        "tpu_use_cluster": {"default": False},
        "zero_stage": {"type": "int", "default": None, "choices": [0, 1]},
        "fsdp_min_num_params": {"type": "int", "default": 100000000},
    }
    assert facts["yaml"] == {
        "mixed_precision": {"type": "str"},
        "num_processes": {"type": "int", "default": -1},
        "deepspeed_config": {"type": "dict", "default": None},
        "fp16": {"converted": True},
        "dynamo_backend": {"converted": True},
        "deepspeed_config.zero_stage": {},
    }
    assert facts["sagemaker"] == {
        "mixed_precision": {"type": "str"},
        "region": {"type": "str", "default": "us-east-1"},
    }


def test_what_launchers_read(extracted):
    assert extracted()["launchers"] == {
        "deepspeed": {"reads": ["debug", "fp8_*", "zero_stage"]},
        "other": {"reads": ["num_processes"]},
        "every": {"reads": ["config_file"], "keys": ["distributed_type"]},
    }


def test_words_of_enumerations(extracted):
    assert extracted()["words"] == {
        "ComputeEnvironment": {"choices": ["LOCAL_MACHINE"]},
        "DistributedType": {"choices": ["NO", "DEEPSPEED"]},
        "DynamoBackend": {"choices": ["NO"]},
        "FP8BackendType": {"choices": ["NO"]},
        "PrecisionType": {"choices": ["no"]},
        "SageMakerDistributedType": {"choices": ["NO"]},
        "FSDP_SHARDING_STRATEGY": {"choices": ["FULL_SHARD"]},
        "FSDP_AUTO_WRAP_POLICY": {"choices": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP"]},
        "FSDP_BACKWARD_PREFETCH": {"choices": ["BACKWARD_PRE"]},
        "FSDP_STATE_DICT_TYPE": {"choices": ["FULL_STATE_DICT"]},
    }


def test_the_variables_that_the_launch_writes_for_fsdp(extracted):
    assert extracted()["fsdp_variables"] == {
        "fsdp_version": {"variable": "FSDP_VERSION", "lowered": False},
        "fsdp_reshard": {"variable": "FSDP_RESHARD", "lowered": True},
        "fsdp_auto_wrap_policy": {"variable": "FSDP_AUTO_WRAP_POLICY", "lowered": False, "if_given": True},
    }


def test_what_the_plugin_for_fsdp_reads_by_its_version(extracted):
    words = {"1": "FULL_SHARD", "2": "true"}
    assert extracted()["fsdp_plugin"] == {
        "fsdp_version": {"variable": "FSDP_VERSION", "otherwise": "1", "kind": "integer", "versions": [1, 2]},
        "sharding_strategy": {"variable": "FSDP_SHARDING_STRATEGY", "otherwise": "FULL_SHARD", "versions": [1]},
        "reshard_after_forward": {"variable": "FSDP_RESHARD", "otherwise": words, "kind": "flag", "versions": [2]},
        "backward_prefetch": {
            "variable": "FSDP_BACKWARD_PREFETCH",
            "otherwise": None,
            "versions": [1],
            "checked": [2],
        },
        "min_num_params": {
            "variable": "FSDP_MIN_NUM_PARAMS",
            "otherwise": 0,
            "kind": "integer",
            "policy": "SIZE_BASED_WRAP",
            "versions": [1, 2],
        },
        "state_dict_type": {
            "variable": "FSDP_STATE_DICT_TYPE",
            "otherwise": "FULL_STATE_DICT",
            "versions": [1, 2],
            "refused": ["== LOCAL_STATE_DICT"],
        },
    }
