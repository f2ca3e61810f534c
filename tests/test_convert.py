"""``ds-lint convert``: FSDP for a DeepSpeed config and back, with a note on all that has no counterpart."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from command_line import write_into
from generate import configs as generated
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from newest import NEWEST

from ds_lint.conversion import fsdp, table, zero
from ds_lint.conversion.note import Converted, Note, joined, spelled
from ds_lint.conversion.setup import NotConvertibleError, Setup
from ds_lint.conversion.to_deepspeed import FLAGS, to_deepspeed
from ds_lint.conversion.to_fsdp import to_fsdp
from ds_lint.facts import Facts
from ds_lint.knowledge import resources, tables
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.accelerate.launch import AccelerateLaunch
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents
from ds_lint.source.tree import dotted

ZERO_3 = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
YAML = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  zero3_init_flag: false
  offload_optimizer_device: cpu
  deepspeed_multinode_launcher: standard
dynamo_config:
  dynamo_backend: INDUCTOR
mixed_precision: 'no'
num_machines: 2
num_processes: 16
main_process_ip: 10.0.0.1
main_process_port: 29500
machine_rank: 0
"""
FSDP_1 = """\
distributed_type: FSDP
mixed_precision: bf16
num_processes: 16
num_machines: 2
fsdp_config:
  fsdp_sharding_strategy: HYBRID_SHARD
  fsdp_reshard_after_forward: SHARD_GRAD_OP
  fsdp_offload_params: true
  fsdp_state_dict_type: SHARDED_STATE_DICT
  fsdp_activation_checkpointing: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
"""


@pytest.fixture
def files(tmp_path):
    return write_into(tmp_path)


def forward(
    config: dict[str, Any],
    *,
    stack: Any = "deepspeed",
    version: int | None = None,
    release: str = NEWEST["accelerate"],
    **facts: Any,
) -> Converted:
    known = knowledge(Target(accelerate=release))
    basis = Basis(known, stack, Facts(**facts))
    return to_fsdp(configs.from_dict(config, basis), fsdp.target_of(known, version, facts.get("world_size")))


def launch_of(text: str, release: str = NEWEST["accelerate"]) -> AccelerateLaunch:
    root = documents.from_bytes(text.encode(), "accelerate.yaml").root
    assert root is not None
    return AccelerateLaunch(root, knowledge(Target(accelerate=release)))


def back(content: dict[str, Any] | str, release: str = NEWEST["accelerate"], **more: Any) -> Converted:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    return to_deepspeed(launch_of(text, release), "accelerate.yaml", **more)


def about(converted: Converted, key: str) -> list[Note]:
    return [note for note in converted.notes if note.key == key]


# ------------------------------------------------------------------------------------------------- nothing is lost


def keys_below(node: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """The keys in a store: of every release."""
    found = set()
    for name, below in node.get("keys", {}).items():
        found |= {(*path, name)} | keys_below(below, (*path, name))
    for part, name in (("items_are", "0"), ("any_key", "*")):
        if part in node:
            found |= keys_below(node[part], (*path, name))
    return found


EVERY_KEY = keys_below(tables.load("deepspeed")["root"]) | keys_below(tables.load("overlay")["root"])


def test_every_key_of_every_release_of_deepspeed_is_converted_or_has_a_note():
    assert len(EVERY_KEY) > 600
    assert sorted(dotted(path) for path in EVERY_KEY if table.fate("to_fsdp", path) is None) == []


def test_every_setting_of_accelerates_deepspeed_plugin_is_converted_or_has_a_note():
    names = [name.removeprefix("deepspeed_config.") for name in tables.load("accelerate")["yaml"] if "." in name]
    made = ["zero_stage", "offload_optimizer_device", "offload_param_device", "gradient_accumulation_steps"]
    made += ["gradient_clipping", "zero3_save_16bit_model"]  # of which the plugin makes keys of the config
    left = [name for name in names if name not in made and table.fate("to_fsdp", ("deepspeed_config", name)) is None]
    assert left == []


def test_every_setting_of_fsdp_of_every_release_is_converted_or_has_a_note():
    prefixes = ("fsdp_", "parallelism_config_")
    names = [name for name in tables.load("accelerate")["launch_arguments"] if name.startswith(prefixes)]
    assert len(names) > 25
    assert [name for name in names if table.fate("to_deepspeed", (name,)) is None] == []


def test_the_table_has_no_key_that_no_release_knows():
    known = {dotted(path) for path in EVERY_KEY} | set(tables.load("accelerate")["yaml"])
    strangers = [key for entry in tables.load("conversion")["to_fsdp"] for key in entry["keys"] if key not in known]
    assert strangers == []


def test_the_table_says_everything_once():
    for direction in tables.load("conversion").values():
        keys = [key for entry in direction for key in entry["keys"]]
        assert len(keys) == len(set(keys))
        assert all(("text" in entry) == (entry["fate"] != "mapped") for entry in direction)


def written_with(key: Any) -> dict[str, Any]:
    """A config in which a key has a value that is not its default, and its sections are on."""
    types = key.facts.get("type") or "string"
    kind = types if isinstance(types, str) else types[0]
    default = key.facts.get("default")
    values = {"boolean": default is not True, "integer": 3, "number": 0.3, "array": ["x"], "object": {"x": 1}}
    value: Any = {"enabled": True} if key.is_section else values.get(kind, "x")
    for name in reversed(key.path[1:]):
        value = {"enabled": True, name: value} if name != "enabled" else {name: value}
    config = {"zero_optimization": {"stage": 3}}
    if key.path[0] == "zero_optimization":
        below = value if isinstance(value, dict) else {}
        below.pop("enabled", None)
        return {"zero_optimization": {"stage": 3, **below}}
    return {**config, key.path[0]: value}


def test_every_key_that_is_written_shows_in_the_yaml_or_in_a_note():
    silent = []
    for version in (1, 2):
        without = forward({"zero_optimization": {"stage": 3}}, version=version)
        for key in knowledge(Target(accelerate=NEWEST["accelerate"])).everywhere():
            config = written_with(key)
            if key.path in (("zero_optimization",), ("zero_optimization", "stage")):
                continue  # without which there is nothing to convert
            converted = forward(config, version=version)
            name = dotted(key.path)
            is_said = any(note.key is not None and f"{name}.".startswith(f"{note.key}.") for note in converted.notes)
            if not is_said and converted.content == without.content:
                silent.append((version, name))
    mapped = {
        key for entry in tables.load("conversion")["to_fsdp"] if entry["fate"] == "mapped" for key in entry["keys"]
    }
    assert {name for _, name in silent} <= mapped | SILENT
    assert {name for _, name in silent if "." in name} <= SILENT


# Their values in the config above are what is so without them, or no value of theirs.
SILENT = (
    {"bf16.enabled", "fp16.enabled", "bfloat16.enabled", "torch_autocast.dtype", "torch_autocast.enabled"}
    | {
        "weight_quantization.enabled",  # on by itself, so what is written there is off
    }
    | {f"zero_optimization.{name}" for name in ("offload_optimizer", "offload_param", "stage")}
)


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_any_config_is_converted_or_refused(seed):
    for config in generated(seed, 3, knowledge()):
        try:
            converted = forward(config, stack=None, world_size=8)
        except NotConvertibleError:
            continue
        assert yaml.safe_load(yaml.safe_dump(converted.content)) == converted.content
        assert all(joined(converted.notes))


# ------------------------------------------------------------------------------------------------- there and back


SETUPS = st.builds(
    Setup,
    sharding=st.sampled_from(["parameters", "gradients", "nothing"]),
    group=st.sampled_from([None, 4]),
    offloads=st.booleans(),
    saves_whole=st.booleans(),
    prefetches=st.booleans(),
    precision=st.sampled_from(["bf16", "fp16", "no", None]),
)


@given(SETUPS, st.sampled_from([1, 2]), st.sampled_from([NEWEST["accelerate"], "1.6.0", "0.26.0", "0.20.3"]))
@settings(max_examples=150, deadline=None)
def test_what_has_a_counterpart_comes_back(wish, version, release):
    version = min(version, fsdp.newest_version(knowledge(Target(accelerate=release))))
    config = zero.config_of(wish)
    there = forward(config, version=version, stack="accelerate", release=release, world_size=8)
    again = back(there.content, release, ranks_of_machine=4).content
    first, second = (zero.setup_of(configs.from_dict(one, BASIS)) for one in (config, again))
    if version == 2:
        first = first._replace(prefetches=True)  # FSDP 2 always does, as a note says
        if release == "1.6.0":  # which has no groups yet
            first = first._replace(group=None)
    assert second == first


BASIS = Basis(knowledge(Target(accelerate=NEWEST["accelerate"])), "accelerate", Facts())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_the_stage_comes_back_but_for_stage_1(stage, version):
    there = forward({"zero_optimization": {"stage": stage}}, version=version, world_size=8)
    assert back(there.content).content["zero_optimization"]["stage"] == {1: 2}.get(stage, stage)
    assert bool(about(there, "zero_optimization.stage")) == (stage == 1 or (stage == 0 and version == 2))


# ------------------------------------------------------------------------------------------------- to FSDP


def test_the_yaml_for_fsdp_2():
    assert forward(ZERO_3, world_size=8).content == {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP",
        "mixed_precision": "bf16",
        "num_processes": 8,
        "fsdp_config": {
            "fsdp_version": 2,
            "fsdp_reshard_after_forward": True,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_offload_params": False,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
            "fsdp_cpu_ram_efficient_loading": True,
        },
    }


def test_keys_are_those_of_the_release():
    newest, old, older = (
        set(forward(ZERO_3, version=1, release=release).content["fsdp_config"])
        for release in (NEWEST["accelerate"], "0.26.0", "0.25.0")
    )
    assert newest - old == {"fsdp_version"}
    assert old - older == {"fsdp_backward_prefetch"}
    assert older - old == {"fsdp_backward_prefetch_policy"}
    assert forward(ZERO_3, version=1, release="0.25.0").content["fsdp_config"]["fsdp_sharding_strategy"] == 1


def test_versions_of_fsdp_that_a_release_does_not_have_are_refused():
    assert forward(ZERO_3, release="1.5.2").content["fsdp_config"]["fsdp_sharding_strategy"] == "FULL_SHARD"
    with pytest.raises(NotConvertibleError, match=r"accelerate 1\.5\.2 has no FSDP 2"):
        forward(ZERO_3, version=2, release="1.5.2")
    with pytest.raises(NotConvertibleError, match=r"accelerate 0\.11\.0 has no sharding strategy"):
        forward(ZERO_3, release="0.11.0")


def test_half_an_offload_has_no_counterpart():
    config = {"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    converted = forward(config)
    assert converted.content["fsdp_config"]["fsdp_offload_params"] is False
    (note,) = about(converted, "zero_optimization.offload_optimizer.device")
    assert note.message.startswith(
        '`zero_optimization.offload_optimizer.device: "cpu"` has no counterpart: FSDP offloads'
    )
    assert note.message.endswith("keeps the optimizer states on the GPU, `true` offloads everything and is slower")
    old = forward({"zero_optimization": {"stage": 2, "cpu_offload": True}})
    assert len(about(old, "zero_optimization.cpu_offload")) == 1


def test_drives_become_memory():
    both = {name: {"device": "nvme", "nvme_path": "/nvme"} for name in ("offload_optimizer", "offload_param")}
    converted = forward({"zero_optimization": {"stage": 3, **both}, "aio": {"block_size": 262144}})
    assert converted.content["fsdp_config"]["fsdp_offload_params"] is True
    (note,) = about(converted, "zero_optimization.offload_param.device")
    assert "becomes `fsdp_offload_params: true`, the nearest" in note.message
    assert [one.message for one in about(converted, "aio")] == [
        '`aio: {"block_size": 262144}` has no counterpart: FSDP does not write to a drive'
    ]


@pytest.mark.parametrize(
    ("world_size", "release", "says", "makes"),
    [
        (
            16,
            NEWEST["accelerate"],
            "becomes `parallelism_config_dp_replicate_size: 2`",
            {"dp_replicate_size": 2, "dp_shard_size": 8},
        ),
        (None, NEWEST["accelerate"], "set --world-size", None),
        (12, NEWEST["accelerate"], "shards over all 12 ranks", None),
        (16, "1.9.0", "of accelerate 1.9.0 shards over all ranks", None),
    ],
)
def test_groups_of_fsdp_2(world_size, release, says, makes):
    config = {"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    converted = forward(config, release=release, **({"world_size": world_size} if world_size else {}))
    (note,) = about(converted, "zero_optimization.zero_hpz_partition_size")
    assert says in note.message
    made = converted.content.get("parallelism_config")
    assert made == (makes and {f"parallelism_config_{name}": size for name, size in makes.items()})


def test_off_is_not_worth_a_note():
    off = {"tensorboard": {"enabled": False}, "wandb": {}, "flops_profiler": {"enabled": False, "profile_step": 5}}
    silent = {**ZERO_3, **off, "wall_clock_breakdown": False, "fp16": {"enabled": False, "loss_scale": 0}}
    assert {note.key for note in forward(silent).notes} == {None}
    on = {**silent, "fp16": {"enabled": "auto", "loss_scale": 0}, "flops_profiler": {"enabled": True}}
    assert {note.key for note in forward(on, stack="trainer").notes} == {None, "fp16.loss_scale", "flops_profiler"}


def test_auto_stands_for_what_is_set_already():
    names = ("gradient_accumulation_steps", "train_micro_batch_size_per_gpu", "gradient_clipping")
    config = {"zero_optimization": {"stage": 2}, **dict.fromkeys(names, "auto")}
    for stack, subjects in (("trainer", ["not-needed"] * 3), ("accelerate", ["not-needed"] * 2 + ["script"])):
        converted = forward(config, stack=stack)
        assert [about(converted, name)[0].subject for name in names] == subjects


def test_what_a_stack_adds_is_not_of_the_file(run, files):
    files({"ds.json": {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}})
    result = run("convert", "ds.json", "--to", "fsdp", "--trainer-args", "--bf16 --max_grad_norm 0.5")
    assert yaml.safe_load(result.stdout)["mixed_precision"] == "bf16"
    assert "gradient_clipping" not in result.stderr
    assert "zero_allow_untested_optimizer" not in result.stderr
    assert '"auto" stands for what the training arguments set already' in result.stderr


def test_keys_that_deepspeed_does_not_know_are_left_out():
    (note,) = about(forward({**ZERO_3, "zero_stage": 3}), "zero_stage")
    assert note.message == "`zero_stage: 3` is left out: DeepSpeed does not know it"
    assert about(forward({**ZERO_3, "_comment": "x"}), "_comment") == []


@pytest.mark.parametrize(
    ("release", "version", "upcasts"),
    [("1.14.0", 2, True), ("1.13.0", 2, False), ("1.12.0", 2, True), ("0.30.0", 1, True), ("0.29.3", 1, False)],
)
def test_what_is_upcast_depends_on_the_release(release, version, upcasts):
    lines = joined(forward(ZERO_3, version=version, release=release).notes)
    assert any("are kept in fp32, and cast" in line for line in lines) == upcasts
    assert any("so load the model in fp32" in line for line in lines) != upcasts


def test_an_unknown_precision_stays_with_the_script():
    for stack, config in (("trainer", {"bf16": {"enabled": "auto"}}), ("accelerate", {})):
        converted = forward({"zero_optimization": {"stage": 2}, **config}, stack=stack)
        assert "mixed_precision" not in converted.content
        assert any(line.startswith("precision: the config does not decide it") for line in joined(converted.notes))


def test_autocast_of_torch_becomes_mixed_precision():
    converted = forward({"zero_optimization": {"stage": 2}, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}})
    assert converted.content["mixed_precision"] == "bf16"


def test_an_unknown_stage_is_refused():
    with pytest.raises(NotConvertibleError, match=r"`zero_optimization\.stage` is not a stage that is known"):
        forward({"zero_optimization": {"stage": "auto"}}, stack="trainer")


# ------------------------------------------------------------------------------------------------- to DeepSpeed


def test_the_config_for_a_yaml():
    converted = back(FSDP_1, ranks_of_machine=8)
    assert converted.content == {
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu", "pin_memory": True},
            "offload_param": {"device": "cpu", "pin_memory": True},
            "zero_hpz_partition_size": 8,
            "stage3_gather_16bit_weights_on_model_save": False,
        },
        "gradient_accumulation_steps": "auto",
        "gradient_clipping": "auto",
        "train_micro_batch_size_per_gpu": "auto",
    }
    said = {note.key: note.subject for note in converted.notes if note.key is not None}
    assert said == {
        "fsdp_config.fsdp_sharding_strategy": "nearest",
        "fsdp_config.fsdp_reshard_after_forward": "not-read",
        "fsdp_config.fsdp_activation_checkpointing": "script",
        "fsdp_config.fsdp_auto_wrap_policy": "not-needed",
        "gradient_clipping": "script",
    }
    (start,) = (note.text for note in converted.notes if note.subject == "start")
    assert "--zero3_init_flag true --num_processes 16 --num_machines 2 train.py" in start


@pytest.mark.parametrize(
    ("settings_", "stage", "subject"),
    [
        ("fsdp_version: 2, fsdp_reshard_after_forward: false", 2, None),
        ("fsdp_version: 2, fsdp_offload_params: true, fsdp_reshard_after_forward: 'no'", 2, "nearest"),
        ("fsdp_sharding_strategy: 2", 2, None),
        ("sharding_strategy: no_shard", 0, None),
        ("fsdp_sharding_strategy: HYBRID_SHARD_ZERO2", 2, "nearest"),
        ("fsdp_sharding_strategy: HYBRID_SHARD", 3, "nearest"),
        ("fsdp_backward_prefetch: NO_PREFETCH", 3, None),
        ("fsdp_state_dict_type: LOCAL_STATE_DICT", 3, "nearest"),
    ],
)
def test_strategies_become_stages(settings_, stage, subject):
    converted = back(f"distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {{{settings_}}}\n")
    assert converted.content["zero_optimization"]["stage"] == stage
    assert [note.subject for note in converted.notes if note.key is not None] == [
        *([subject] if subject else []),
        "script",
    ]


def test_a_value_that_fsdp_does_not_read_is_refused():
    for text in ("fsdp_sharding_strategy: FULL", "fsdp_offload_params: cpu", "fsdp_sharding_strategy: ${S}"):
        with pytest.raises(NotConvertibleError, match=r"`fsdp_config\.fsdp_\w+` has no value that FSDP reads"):
            back(f"distributed_type: FSDP\nfsdp_config:\n  {text}\n")


def test_every_flag_of_the_command_is_one_of_the_launch():
    assert set(FLAGS) <= set(tables.load("accelerate")["launch_arguments"])


# ------------------------------------------------------------------------------------------------- the command


def test_convert_writes_to_standard_output(run, files):
    files({"ds.json": {**ZERO_3, "overlap_comm": True, "gradient_clipping": 0.5}})
    result = run("convert", "ds.json", "--to", "fsdp", "--accelerate-version", NEWEST["accelerate"])
    assert result.returncode == 0
    assert yaml.safe_load(result.stdout)["distributed_type"] == "FSDP"
    assert "note: `gradient_clipping: 0.5` belongs to the script: " in result.stderr


def test_convert_writes_a_file_once(run, files, tmp_path):
    files({"ds.json": ZERO_3})
    command = ("convert", "ds.json", "--to", "fsdp", "--output-file", "out.yaml")
    assert (run(*command).stdout, run(*command).returncode) == ("", 2)
    assert run(*command, "--fsdp-version", "1", "--force").returncode == 0
    assert yaml.safe_load((tmp_path / "out.yaml").read_text())["fsdp_config"]["fsdp_version"] == 1


def test_convert_as_json(run, files):
    files({"ds.json": ZERO_3, "fsdp.yaml": FSDP_1})
    with open(resources.path("schemas", "convert.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    for command in (("ds.json", "--to", "fsdp"), ("fsdp.yaml", "--to", "deepspeed")):
        result = run("convert", *command, "--output-format", "json")
        described = json.loads(result.stdout)
        Draft7Validator(schema).validate(described)
        assert (described["path"], described["to"]) == (command[0], command[2])
        assert {line["subject"] for line in described["lines"]} >= {"memory", "precision", "saving"}
    assert described["content"]["zero_optimization"]["zero_hpz_partition_size"] == 8


def test_the_ranks_of_a_machine_are_those_of_the_file_or_of_the_options(run, files):
    without = "\n".join(line for line in FSDP_1.splitlines() if not line.startswith("num_"))
    files({"with.yaml": FSDP_1, "without.yaml": without})
    for name, options, size in (
        ("with.yaml", (), 8),
        ("with.yaml", ("--world-size", "4"), 8),
        ("without.yaml", (), None),
        ("without.yaml", ("--world-size", "4"), 4),
        ("without.yaml", ("--world-size", "4", "--nodes", "2"), 2),
    ):
        content = json.loads(run("convert", name, "--to", "deepspeed", *options).stdout)
        assert content["zero_optimization"].get("zero_hpz_partition_size") == size


def test_convert_takes_a_launch_and_the_config_that_it_names(run, files):
    named = YAML.replace("  zero_stage: 3\n", "  deepspeed_config_file: ds.json\n").replace(
        "mixed_precision: 'no'\n", ""
    )
    named = named.replace("  offload_optimizer_device: cpu\n", "")
    files({"made.yaml": YAML, "named.yaml": named, "ds.json": {**ZERO_3, "gradient_clipping": 1.0}})
    made, other = (run("convert", name, "--to", "fsdp", "--fsdp-version", "1") for name in ("made.yaml", "named.yaml"))
    for result, precision in ((made, "no"), (other, "bf16")):
        content = yaml.safe_load(result.stdout)
        assert content["mixed_precision"] == precision
        assert (content["num_machines"], content["num_processes"], content["main_process_port"]) == (2, 16, 29500)
        assert content["fsdp_config"]["fsdp_cpu_ram_efficient_loading"] is False
        assert "deepspeed_config" not in content
        assert "dynamo_config" not in content
        assert '`deepspeed_config.deepspeed_multinode_launcher: "standard"` has no counterpart' in result.stderr
        assert "`dynamo_config" in result.stderr
    assert '`deepspeed_config.offload_optimizer_device: "cpu"` has no counterpart' in made.stderr
    assert "gradient_clipping" not in made.stderr
    assert "`gradient_clipping: 1.0`" in other.stderr


TWO = """\
FIRST = {"zero_optimization": {"stage": 2}, "train_batch_size": 8}
SECOND = {
    "zero_optimization": {"stage": 3}, "train_batch_size": 8
}
"""


def test_a_file_with_several_configs_needs_a_place(run, files):
    files({"train.py": TWO})
    result = run("convert", "train.py", "--to", "fsdp")
    assert (result.returncode, result.stderr) == (
        2,
        "ds-lint: train.py has 2 configs, at 1 and 2; name one with its place: train.py:2\n",
    )
    for line, reshards in ((1, False), (2, True), (3, True)):
        content = yaml.safe_load(run("convert", f"train.py:{line}", "--to", "fsdp").stdout)
        assert content["fsdp_config"]["fsdp_reshard_after_forward"] is reshards
    result = run("convert", "train.py:7", "--to", "fsdp")
    assert (result.returncode, result.stderr) == (2, "ds-lint: train.py has no config at 7\n")
    assert "stage = 3" in run("effective", "train.py:2").stdout


def test_places_in_a_notebook_are_cells(run, files):
    cells = [{"cell_type": "code", "source": text.splitlines(keepends=True)} for text in (TWO, TWO.partition("\n")[0])]
    files({"train.ipynb": {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}})
    result = run("convert", "train.ipynb", "--to", "fsdp")
    assert "train.ipynb has 3 configs, at 1:1, 1:2 and 2:1; name one with its place: train.ipynb:2:1" in result.stderr
    for place, reshards in (("1:1", False), ("1:2", True), ("1:3", True), ("2", False), ("2:1", False)):
        content = yaml.safe_load(run("convert", f"train.ipynb:{place}", "--to", "fsdp").stdout)
        assert content["fsdp_config"]["fsdp_reshard_after_forward"] is reshards
    assert "train.ipynb has 2 configs, at 1:1 and 1:2" in run("convert", "train.ipynb:1", "--to", "fsdp").stderr


def test_a_colon_in_a_name_is_no_place(run, files):
    files({"b.json:2": json.dumps(ZERO_3)})
    assert run("convert", "b.json:2", "--to", "fsdp").returncode == 0


@pytest.mark.parametrize(
    ("name", "to", "says"),
    [
        ("ds.json", "deepspeed", "ds.json is a DeepSpeed config already; --to fsdp converts it"),
        ("fsdp.yaml", "fsdp", "fsdp.yaml configures FSDP already; --to deepspeed converts it"),
        ("ds.yaml", "deepspeed", "ds.yaml configures DeepSpeed already; --to fsdp converts it"),
        ("no.yaml", "deepspeed", "no.yaml: `distributed_type` is NO, not FSDP or MULTI_GPU"),
        ("multi.yaml", "fsdp", "multi.yaml has no DeepSpeed config: `distributed_type` is MULTI_GPU"),
        ("bad.json", "fsdp", "bad.json cannot be read by any library; run ds-lint check to see why"),
        ("none.json", "fsdp", "none.json: No such file or directory"),
    ],
)
def test_what_cannot_be_converted_is_wrong_usage(run, files, name, to, says):
    files(
        {
            "ds.json": ZERO_3,
            "fsdp.yaml": FSDP_1,
            "ds.yaml": YAML,
            "no.yaml": "distributed_type: 'NO'\nnum_processes: 1\n",
            "multi.yaml": "distributed_type: MULTI_GPU\nnum_processes: 2\n",
            "bad.json": "{",
        }
    )
    result = run("convert", name, "--to", to)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"ds-lint: {says}\n")


def test_a_rejected_config_is_converted_with_a_note(run, files):
    files({"ds.json": {**ZERO_3, "fp16": {"enabled": True}}})
    result = run("convert", "ds.json", "--to", "fsdp")
    assert result.returncode == 0
    assert "note: ds.json is rejected: DS" in result.stderr


def test_secrets_are_masked(run, files):
    files({"ds.json": {**ZERO_3, "comet": {"enabled": True, "api_key": "Zq8vK2mP4xL9wT3r"}}})
    for output_format in ("text", "json"):
        result = run("convert", "ds.json", "--to", "fsdp", "--output-format", output_format)
        assert "Zq8vK2mP4xL9wT3r" not in result.stdout + result.stderr


def test_long_values_are_not_repeated():
    assert spelled("a", {"b": 1}) == '`a: {"b": 1}`'
    assert spelled("a", {"b": "x" * 100, "c": 1}) == "`a` (b, c)"
    assert spelled("a", ["x" * 100]) == "`a`"
