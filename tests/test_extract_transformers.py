"""What is read off the source of transformers, each kind of fact on source made for it."""

from __future__ import annotations

import made_sources
import pytest

from tools.extract import transformers, transformers_fsdp

FILL = 'self.fill_only("bucket", 10)'


@pytest.fixture
def extracted(tmp_path):
    """The facts of a release in which the named functions have these bodies."""

    def extract(**bodies):
        return transformers.extract(made_sources.write(tmp_path, made_sources.transformers(**bodies)))

    return extract


def test_a_value_that_is_filled_and_must_match(extracted):
    facts = extracted(trainer_config_process=made_sources.FILLED)
    assert facts["fills"] == {
        "optimizer.params.lr": {"sources": [{"from": "learning_rate", "at": "arguments", "matched": True}]}
    }


def test_a_value_that_is_only_filled(extracted):
    facts = extracted(trainer_config_process='self.fill_only("scheduler.params.warmup_min_lr", 0)')
    (source,) = facts["fills"]["scheduler.params.warmup_min_lr"]["sources"]
    assert source == {"from": "0", "at": "arguments", "matched": False}


def test_a_local_name_is_what_it_stands_for(extracted):
    facts = extracted(
        trainer_config_process="""
            train_batch_size = args.world_size * args.per_device_train_batch_size
            self.fill_match("train_batch_size", train_batch_size, "calculated", not auto_find_batch_size)
        """
    )
    (source,) = facts["fills"]["train_batch_size"]["sources"]
    assert source["from"] == "world_size * per_device_train_batch_size"
    assert source["matched_if"] == "not auto_find_batch_size"


def test_a_name_with_two_meanings_stays_a_name(extracted):
    facts = extracted(
        trainer_config_finalize="""
            hidden_size = None
            if hasattr(model, "config"):
                hidden_size = model.config.hidden_size
            self.fill_only("zero_optimization.reduce_bucket_size", hidden_size * hidden_size)
        """
    )
    (source,) = facts["fills"]["zero_optimization.reduce_bucket_size"]["sources"]
    assert source == {"from": "hidden_size * hidden_size", "at": "training", "matched": False}


@pytest.mark.parametrize(
    ("value", "number"),
    [("0.9 * size * size", "float"), ("int(0.9 * size * size)", "integer"), ("10 * size", None), ("size", None)],
)
def test_whether_a_value_is_an_integer_where_it_shows(extracted, value, number):
    facts = extracted(trainer_config_finalize=f'self.fill_only("bucket", {value})')
    assert facts["fills"]["bucket"]["sources"][0].get("number") == number


def test_a_fill_on_a_condition(extracted):
    facts = extracted(
        trainer_config_finalize="""
            if self.is_zero3():
                self.fill_only("bucket", 10)
        """
    )
    assert facts["fills"]["bucket"]["sources"][0]["only_if"] == ["is_zero3()"]


def test_that_there_is_an_auto_is_no_condition(extracted):
    facts = extracted(
        trainer_config_finalize="""
            autos = [key for key in keys if self.is_auto(key)]
            if len(autos) > 0:
                self.fill_only("bucket", 10)
        """
    )
    assert "only_if" not in facts["fills"]["bucket"]["sources"][0]


def test_a_key_that_is_overwritten(extracted):
    facts = extracted(
        deepspeed_optim_sched="""
            config = hf_deepspeed_config.config
            if "optimizer" in config:
                optimizer = None
            else:
                config["zero_allow_untested_optimizer"] = True
        """
    )
    assert facts["overwrites"] == {
        "zero_allow_untested_optimizer": {
            "sources": [{"with": "True", "at": "training", "only_if": ["optimizer is missing"]}]
        }
    }
    assert facts["inserts"] == {}


def test_a_section_that_is_made_where_it_is_missing_overwrites_nothing(extracted):
    facts = extracted(
        trainer_config_process=f"""
            {made_sources.FILLED}
            if args.save_on_each_node:
                self.config["checkpoint"] = self.config.get("checkpoint", {{}})
                self.config["checkpoint"]["use_node_local_storage"] = args.save_on_each_node
        """
    )
    assert facts["overwrites"] == {
        "checkpoint.use_node_local_storage": {
            "sources": [{"with": "save_on_each_node", "at": "arguments", "only_if": ["save_on_each_node"]}]
        }
    }


def test_a_refusal_with_its_message_and_conditions(extracted):
    facts = extracted(
        deepspeed_optim_sched="""
            if "optimizer" in hf_deepspeed_config.config and args.adafactor:
                raise ValueError(
                    f"--adafactor={args.adafactor}, but there is an optimizer. "
                    "Only one can be configured."
                )
        """
    )
    assert facts["refusals"] == {
        "--adafactor=..., but there is an optimizer. Only one can be configured.": {
            "at": "training",
            "only_if": ["optimizer is present", "adafactor"],
        }
    }


def test_the_oldest_libraries_and_who_prepares_the_engine(extracted, tmp_path):
    assert extracted()["requires"] == {
        "accelerate": {"minimum": "0.20.3", "prepares": True},
        "deepspeed": {"minimum": "0.9.3"},
    }
    older = made_sources.transformers(version="4.29.2")
    arguments = older["transformers/training_args.py"].replace("DeepSpeedPlugin(", "object(")
    files = {**older, "transformers/training_args.py": arguments}
    assert transformers.extract(made_sources.write(tmp_path, files))["requires"]["accelerate"]["prepares"] is False


def test_the_fields_of_the_training_arguments(extracted):
    assert extracted()["training_arguments"] == {
        "output_dir": {"type": "str"},
        "learning_rate": {"type": "float", "default": 5e-5},
        "lr_scheduler_kwargs": {"type": "dict", "default_is": "dict"},
        "logging_dir": {"type": "str | None", "default": None},
        "processes": {"type": "int", "default_is": "int(os.environ['PROCESSES'])"},
    }


def test_how_fields_are_written_on_a_command_line(extracted, tmp_path):
    files = made_sources.transformers()
    arguments = files["transformers/training_args.py"].replace("learning_rate: float", "when: IntervalStrategy | str")
    facts = transformers.extract(made_sources.write(tmp_path, {**files, "transformers/training_args.py": arguments}))
    assert facts["words"] == {"IntervalStrategy": {"choices": ["no", "steps"]}}
    assert facts["seq2seq_arguments"] == {"sortish_sampler": {"type": "bool", "default": False}}
    assert facts["options"] == {"dashes": {}}
    older = files["transformers/hf_argparser.py"].replace(".replace('_', '-')", "")
    files = {**files, "transformers/hf_argparser.py": older}
    assert transformers.extract(made_sources.write(tmp_path, files))["options"] == {}


def test_a_type_that_is_no_enumeration_is_an_error(tmp_path):
    files = made_sources.transformers()
    arguments = files["transformers/training_args.py"].replace("learning_rate: float", "learning_rate: Rate")
    made_sources.write(tmp_path, {**files, "transformers/training_args.py": arguments})
    with pytest.raises(LookupError, match="name Rate, which is not an enumeration"):
        transformers.extract(tmp_path)


def test_the_older_module_where_there_is_no_newer_one(extracted):
    assert set(extracted(file="deepspeed.py", trainer_config_process=FILL)["fills"]) == {"bucket"}


def test_the_newer_module_where_the_older_one_only_points_to_it(extracted, tmp_path):
    made_sources.write(tmp_path, {"transformers/deepspeed.py": "warnings.warn('moved')"})
    assert set(extracted(trainer_config_process=FILL)["fills"]) == {"bucket"}


def test_the_keys_of_fsdp_config_by_version_of_fsdp(extracted):
    assert extracted()["fsdp_config"] == {
        "min_num_params": {"versions": [1, 2], "policy_number": 1},
        "xla": {"versions": [1, 2]},
        "version": {"versions": [1, 2]},
        "cpu_offload": {"versions": [1, 2]},
        "auto_wrap_policy": {"versions": [1, 2]},
        "layers": {"versions": [1, 2], "policy_number": 0},
        "reshard": {"versions": [1, 2], "flag_for": [2]},
        "prefetch": {"versions": [1], "flag_for": [1]},
    }


def test_an_older_layout_of_fsdp_config(tmp_path):
    files = made_sources.transformers(version="5.9.0")
    files["transformers/trainer.py"] = 'for one in ["limit_all_gathers"]:\n    self.args.fsdp_config.get(one, None)\n'
    files["transformers/trainer_utils.py"] = 'class FSDPOption:\n    FULL_SHARD = "full_shard"\n'
    files["transformers/training_args.py"] += made_sources.OLDER_FSDP
    facts = transformers.extract(made_sources.write(tmp_path, files))
    keys = facts["fsdp_config"]
    assert keys["cpu_ram_efficient_loading"] == {"versions": [1, 2], "needs": "sync_module_states"}
    assert keys["limit_all_gathers"] == {"versions": [1, 2]}
    assert facts["fsdp_before"] == {"options": {"choices": ["full_shard"]}, "prefix": {"choices": ["files", "dicts"]}}


def test_the_layout_of_fsdp_config_by_release(extracted):
    assert extracted(version="4.30.0")["fsdp_config"] == {}
    assert extracted(version=transformers_fsdp.SINCE)["fsdp_config"] != {}
