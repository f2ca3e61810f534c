"""What `ds-lint init` composes is what `ds-lint check` has nothing to say about, and says nothing for nothing."""

from __future__ import annotations

import json
from itertools import product

import pytest
from linted import lint_bytes

from ds_lint.diagnostics.finding import STACKS
from ds_lint.facts import Facts
from ds_lint.knowledge import keys
from ds_lint.scaffold.composition import OFFLOADS, PRECISIONS, STAGES, Purpose, config, launch_file, refusal

# Stage 3 gathers this module of a model as a whole; its sizes have to be in the file.
MODEL = {"hidden_size": 4096, "leaf_modules": ("OlmoeSparseMoeBlock",)}

EVERYTHING = [Purpose(*choice) for choice in product(STACKS, STAGES, OFFLOADS, PRECISIONS)]
POSSIBLE = [wish for wish in EVERYTHING if refusal(wish) is None]
WITH_MODEL = [wish._replace(**MODEL) for wish in POSSIBLE]

# Keys whose default is written out, and why: it was another in releases that are in use (DS121), or the Trainer and
# Accelerate refuse a config without it.
SPELLED_OUT = {"gradient_clipping", "pin_memory", "stage"}


def name(wish: Purpose) -> str:
    return "-".join(map(str, wish[:4]))


def leaves(section, path=()):
    for key, value in section.items():
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key), value


def test_all_but_offload_from_where_nothing_is_offloaded_can_be_written():
    assert len(EVERYTHING) == 108
    refused = {(wish.stage, wish.offload) for wish in EVERYTHING if wish not in POSSIBLE and wish.precision != "fp16"}
    assert refused == {(0, "cpu"), (0, "nvme"), (1, "nvme"), (2, "nvme")}


def test_fp16_is_not_written_for_stage_0():
    without_offload = [wish for wish in EVERYTHING if wish.offload == "none" and wish not in POSSIBLE]
    assert {(wish.stage, wish.precision) for wish in without_offload} == {(0, "fp16")}


@pytest.mark.parametrize("ranks", [None, 1, 8])
@pytest.mark.parametrize("wish", [*POSSIBLE, *WITH_MODEL], ids=name)
def test_check_has_nothing_to_say(wish, ranks):
    text = json.dumps(config(wish), indent=2)
    report = lint_bytes(text.encode(), "ds_config.json", stack=wish.stack, facts=Facts(world_size=ranks))
    by_nature = {("DS702", "info")} if wish.offload == "nvme" else set()  # about NVMe, however it is configured
    if ranks == 1 and wish.stage and wish.offload == "none":
        by_nature.add(("DS803", "info"))  # it was asked for
    assert {(finding.code, finding.severity) for finding in report.findings} == by_nature


@pytest.mark.parametrize("wish", [*POSSIBLE, *WITH_MODEL], ids=name)
def test_no_value_is_the_default(wish):
    knowledge = keys.knowledge()
    for path, value in leaves(config(wish)):
        key = knowledge.find(path)
        if path[:2] != ("optimizer", "params") and path[-1] not in SPELLED_OUT:
            assert key is not None, path
            assert value != key.facts.get("default"), path


@pytest.mark.parametrize(
    ("path", "since"),
    [
        (("gradient_clipping",), "0.19.3"),
        (("zero_optimization", "offload_optimizer", "pin_memory"), "0.19.5"),
        (("zero_optimization", "offload_param", "pin_memory"), "0.19.5"),
    ],
)
def test_a_default_is_written_out_where_older_releases_have_another(path, since):
    assert keys.knowledge().since_default(path) == since


@pytest.mark.parametrize("wish", [wish for wish in POSSIBLE if wish.stack == "deepspeed"], ids=name)
def test_plain_deepspeed_gets_no_auto_and_all_that_it_needs(wish):
    composed = config(wish)
    assert "auto" not in [value for _, value in leaves(composed)]
    assert {"optimizer", "train_micro_batch_size_per_gpu"} <= composed.keys()


@pytest.mark.parametrize("wish", [*POSSIBLE, *WITH_MODEL], ids=name)
def test_no_config_depends_on_the_number_of_ranks(wish):
    assert "train_batch_size" not in config(wish)


def test_the_trainer_fills_what_its_arguments_say():
    assert config(Purpose()) == {
        "bf16": {"enabled": "auto"},
        "zero_optimization": {
            "stage": 2,
            "allgather_bucket_size": 200_000_000,
            "overlap_comm": True,
            "reduce_bucket_size": 200_000_000,
        },
        "gradient_accumulation_steps": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_clipping": "auto",
    }


def test_stage_3_with_offload_keeps_parameters_and_optimizer_off_the_gpu():
    zero = config(Purpose(stage=3, offload="cpu"))["zero_optimization"]
    on_cpu = {"device": "cpu", "pin_memory": True}
    assert zero == {
        "stage": 3,
        "offload_optimizer": on_cpu,
        "offload_param": on_cpu,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_gather_16bit_weights_on_model_save": True,
    }


def test_nvme_has_its_path_and_the_aio_of_the_guides_at_the_top_level():
    composed = config(Purpose("deepspeed", 3, "nvme", nvme_path="/scratch"))
    assert composed["aio"] == {"block_size": 262144, "queue_depth": 32}
    assert composed["zero_optimization"]["offload_param"]["nvme_path"] == "/scratch"


def test_sizes_are_numbers_if_they_are_not_filled():
    zero = config(Purpose("deepspeed", 3, hidden_size=1024))["zero_optimization"]
    assert zero["reduce_bucket_size"] == 1_048_576
    assert zero["stage3_prefetch_bucket_size"] == 943_718
    assert zero["stage3_param_persistence_threshold"] == 10_240


@pytest.mark.parametrize("stage", STAGES)
def test_leaf_modules_are_for_stage_3(stage):
    zero = config(Purpose(stage=stage, leaf_modules=("OlmoeSparseMoeBlock",)))["zero_optimization"]
    assert zero.get("leaf_module") == ({"classes": ["OlmoeSparseMoeBlock"]} if stage == 3 else None)


def test_the_launch_file_says_nothing_that_the_config_says():
    assert launch_file("ds_config.json", Purpose("accelerate", 3), gpus=8) == {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json", "zero3_init_flag": True},
        "num_processes": 8,
    }
    assert launch_file("ds_config.json", Purpose("accelerate", 2), gpus=None) == {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"deepspeed_config_file": "ds_config.json"},
    }
