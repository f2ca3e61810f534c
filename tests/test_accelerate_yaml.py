"""The YAML of ``accelerate launch``: found by its content, checked by release, and the config that is made of it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from linted import config_of, lint_bytes, lint_document
from newest import NEWEST

from ds_lint.facts import Facts
from ds_lint.facts.training import arguments_of
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.semantics.accelerate.deepspeed_config import SETTINGS
from ds_lint.semantics.accelerate.file import AccelerateFile
from ds_lint.semantics.effective import effective
from ds_lint.source import documents
from ds_lint.source.tree import plain

LAUNCH_NAMES = [
    *("compute_environment", "distributed_type", "num_processes", "num_machines", "machine_rank", "gpu_ids", "debug"),
    *("main_process_port", "mixed_precision", "dynamo_backend", "dynamo_config", "fsdp_config", "deepspeed_config"),
    *("parallelism_config", "fp8_config", "use_cpu", "fp16", "tpu_use_cluster", "rdzv_backend", "x"),
]

FILE = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 3
  gradient_accumulation_steps: 4
  offload_optimizer_device: CPU
mixed_precision: bf16
num_processes: 8
"""


def found(text, **known):
    """The codes and keys of the findings in a file, in its order."""
    return [(one.code, one.key) for one in lint_bytes(text.encode(), "accelerate.yaml", **known).findings]


def made(text, release=NEWEST["accelerate"]):
    document = documents.from_bytes(text.encode(), "accelerate.yaml")
    config = AccelerateFile(document, knowledge(Target(accelerate=release))).made
    return plain(config.root) if config is not None else None


# -------------------------------------------------------------------------------------------------- which files


@pytest.mark.parametrize(
    "text",
    [
        FILE,
        "distributed_type: FSDP\nnum_processes: 2\n",
        "compute_environment: LOCAL_MACHINE\ndebug: false\nnum_machnes: 1\n",
        "distributed_type: NO\nmixed_precision: no\n",
        "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: [1\n",
    ],
)
def test_a_file_of_accelerate(text):
    assert documents.from_bytes(text.encode(), "a.yaml").kind == "accelerate"
    assert [one.kind for one in documents.within(text.encode(), "a.yaml", "yaml")] == ["accelerate"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: 1\n",
        "- distributed_type\n",
        "distributed_type: ddp\nepochs: 3\nmodel: x\nlr: 1e-4\ndata: y\n",
        "compute_environment:\n  type: MANAGED\n  name: batch\n",
        "zero_optimization:\n  stage: 2\ntrain_batch_size: 8\n",
        "jobs:\n  build:\n    compute_environment: LOCAL_MACHINE\n",
        "compute_environment: {\n",
    ],
)
def test_another_file(text):
    assert [one.kind for one in documents.within(text.encode(), "a.yaml", "yaml") if not one.is_inline] == []
    assert documents.from_bytes(text.encode(), "a.yaml").kind == "deepspeed"


def test_json_with_such_keys_is_what_it_was():
    text = json.dumps({"compute_environment": "LOCAL_MACHINE", "distributed_type": "DEEPSPEED"})
    assert documents.from_bytes(text.encode(), "default_config.json").kind == "deepspeed"


def test_accelerate_reads_yaml_from_no_file_named_json():
    assert [one.code for one in lint_bytes(FILE.encode(), "accelerate.json", stack="accelerate").findings] == ["DS011"]


def test_a_search_finds_the_file_and_says_why(run, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "launch.yml").write_text(FILE)
    (tmp_path / "other.yaml").write_text("distributed_type: ddp\nepochs: 3\nmodel: x\nlr: 1e-4\ndata: y\n")
    shown = json.loads(run("check", "--show-files", "--output-format", "json", ".").stdout)
    (file,) = shown["files"]
    assert (file["path"], file["kind"]) == ("./conf/launch.yml", "accelerate")
    assert file["why"].startswith("has `compute_environment`, `distributed_type`")
    assert file["configs"] == [{"line": 1, "column": 1, "stack": "accelerate"}]


def test_the_named_config_is_checked_as_accelerate_loads_it(run, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "ds.json").write_text('{"train_batch_size": 8, "zero_optimizaton": {"stage": 2}}')
    (tmp_path / "a.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  deepspeed_config_file: conf/ds.json\n"
    )
    report = json.loads(run("check", "a.yaml", "--output-format", "json").stdout)
    assert [(one["path"], one["stack"]) for one in report["files"]] == [
        ("a.yaml", "accelerate"),
        ("conf/ds.json", "accelerate"),
    ]
    assert {one["path"] for one in report["findings"]} == {"conf/ds.json"}
    report = json.loads(run("check", "conf/ds.json", "a.yaml", "--output-format", "json").stdout)
    assert [one["path"] for one in report["files"]] == ["conf/ds.json", "a.yaml"]


# ------------------------------------------------------------------------------------------------------ findings


def test_a_finding_about_the_made_config_is_about_the_yaml():
    text = FILE.replace("zero_stage: 3", "zero_stage: 4")
    (finding,) = lint_bytes(text.encode(), "accelerate.yaml").findings
    assert (finding.code, finding.key, finding.effect) == ("DS201", "deepspeed_config.zero_stage", "rejected")
    assert text[finding.span.start : finding.span.end] == "4"
    assert finding.help.endswith("In this file, the setting is `deepspeed_config.zero_stage`.")
    assert finding.fix is None


def test_an_empty_key_of_a_section_is_one_that_nothing_reads():
    assert found(FILE.replace("  zero_stage: 3\n", "  zero_stage: 2\n  '': 1\n"))[0][0] == "DS653"


def test_a_finding_about_a_default_is_about_the_section():
    (finding,) = lint_bytes(FILE.encode(), "accelerate.yaml").findings
    assert (finding.code, finding.key) == ("DS703", "deepspeed_config")
    assert FILE[finding.span.start : finding.span.end] == "deepspeed_config"


def test_training_arguments_are_compared_with_the_settings(tmp_path):
    from ds_lint.facts import Sources
    from ds_lint.facts.readers import gather

    facts = gather(Sources(trainer_args="--bf16 --gradient_accumulation_steps 2"))
    report = lint_bytes(FILE.encode(), "accelerate.yaml", facts=facts)
    assert report.stack == "trainer"
    assert ("DS610", "deepspeed_config.gradient_accumulation_steps") in [(one.code, one.key) for one in report.findings]


def test_comments_suppress_findings(run, tmp_path):
    text = FILE.replace("zero_stage: 3", "zero_stage: 2")
    (tmp_path / "a.yaml").write_text(
        text + "rdzv_backend: c10d  # ds-lint: ignore[DS653]\n# ds-lint: ignore[DS651]\nx: 1\n"
    )
    assert run("check", "a.yaml").returncode == 0
    (tmp_path / "a.yaml").write_text(text + "debug: false  # ds-lint: ignore[DS653]\n")
    assert "unused-suppression" in run("check", "a.yaml").stdout


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("mixed_precision: 'no'", []),
        ("mixed_precision: no", [("DS652", "mixed_precision")]),
        ("mixed_precision: fp32", [("DS652", "mixed_precision")]),
        ("mixed_precision: ${PRECISION}", []),
        ("gpu_ids: 0", [("DS652", "gpu_ids")]),
        ("gpu_ids: '0'", []),
        ("num_machines: '2'", [("DS652", "num_machines")]),
        ("main_process_port: '29500'", [("DS652", "main_process_port")]),
        ("same_network: true", []),
        ("rdzv_backend: static", []),
        ("rdzv_backend: c10d", [("DS653", "rdzv_backend")]),
        ("enable_cpu_affinity: true", [("DS653", "enable_cpu_affinity")]),
        ("fsdp_config: {}", []),
        ("fsdp_config: {fsdp_version: 2}", [("DS653", "fsdp_config")]),
        ("dynamo_config: {dynamo_backend: INDUCTOR}", [("DS653", "dynamo_config")]),
        ("distributed_typ: x", [("DS651", "distributed_typ")]),
    ],
)
def test_lines(line, expected):
    text = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 2}\n"
    assert found(f"{text}{line}\n") == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"zero_stage": "'3'", "zero3_save_16bit_model": "on"}, []),
        ({"zero_stage": "true"}, ["zero_stage"]),
        ({"zero_stage": "auto"}, ["zero_stage"]),
        ({"gradient_clipping": "0"}, []),
        ({"gradient_clipping": "1e-1"}, []),
        ({"gradient_clipping": "true"}, ["gradient_clipping"]),
        ({"gradient_accumulation_steps": "2.5"}, ["gradient_accumulation_steps"]),
        ({"gradient_accumulation_steps": "null"}, []),
        ({"offload_param_device": "no"}, ["offload_param_device"]),
        ({"zero3_init_flag": "maybe"}, ["zero3_init_flag"]),
        ({"deepspeed_config_file": "''"}, ["deepspeed_config_file"]),
        ({"deepspeed_config_file": "x.json", "zero_stage": "null"}, ["zero_stage"]),
        ({"deepspeed_config_file": "x.json", "zero3_init_flag": "true"}, []),
        ({"deepspeed_config_file": "none", "zero_stage": "2"}, []),
    ],
)
def test_settings_that_are_rejected(settings, expected):
    lines = "".join(f"  {name}: {value}\n" for name, value in settings.items())
    report = lint_bytes(
        f"distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n{lines}".encode(), "accelerate.yaml"
    )
    rejected = [one.key.rpartition(".")[2] for one in report.findings if one.effect == "rejected" and one.key]
    assert rejected == expected


def test_a_release_without_a_key_and_one_that_reads_no_as_a_precision():
    text = "distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: no\n"
    assert found(text) == [("DS652", "mixed_precision")]
    assert found(text, target=Target(accelerate="0.33.0")) == []
    newer = text.replace("mixed_precision: no", "fp8_config: {backend: TE}")
    assert ("DS651", "fp8_config") in found(newer, target=Target(accelerate="0.33.0"))


def test_the_values_of_releases_before_the_check_are_not_looked_at():
    text = "distributed_type: DEEPSPEED\ngpu_ids: 0\nnum_processes: x\nmixed_precision: fp32\n"
    assert found(text, target=Target(accelerate="0.15.0")) == []


# ------------------------------------------------------------------------------------------- the config that is made


def test_the_made_config():
    assert made(FILE) == {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": 4,
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu", "nvme_path": None},
            "offload_param": {"device": "none", "nvme_path": None},
            "stage3_gather_16bit_weights_on_model_save": False,
        },
        "gradient_clipping": "auto",
        "fp16": {"enabled": False},
        "bf16": {"enabled": True},
    }


def test_an_older_plugin_does_not_clip():
    config = made("distributed_type: DEEPSPEED\nnum_processes: 2\nmixed_precision: fp8\n", "0.29.0")
    assert "gradient_clipping" not in config
    assert config["gradient_accumulation_steps"] == "auto"


@pytest.mark.parametrize(
    ("arguments", "precision"),
    [("--fp16", "fp16"), ("--bf16", "bf16"), ("", "bf16"), ("--fp16 False", "bf16")],
)
def test_the_training_arguments_override_the_precision_of_the_file(arguments, precision):
    """``TrainingArguments.__post_init__`` gives the plugin its own precision, and Accelerate's only if it has none."""
    from ds_lint.facts import Sources
    from ds_lint.facts.readers import gather

    facts = gather(Sources(trainer_args=arguments or "--seed 1"))
    config = config_of(documents.from_bytes(FILE.encode(), "accelerate.yaml"), facts=facts)
    enabled = {name: config.value(name, "enabled") for name in ("fp16", "bf16")}
    assert enabled == {"fp16": precision == "fp16", "bf16": precision == "bf16"}
    assert "DS612" not in [code for code, _ in found(FILE, facts=facts)]


@pytest.mark.parametrize(
    "text", [FILE.replace("DEEPSPEED", "FSDP"), FILE.replace("zero_stage: 3", "deepspeed_config_file: x")]
)
def test_no_config_is_made(text):
    assert made(text) is None


def test_effective_values_name_their_places():
    values = effective(config_of(documents.from_bytes(FILE.encode(), "a.yaml")))
    sources = {value.key: (value.value, value.by, value.source) for value in values}
    assert sources["zero_optimization.stage"] == (3, "written", "written, a.yaml:4")
    assert sources["bf16.enabled"] == (True, "written", "written, a.yaml:7")
    assert sources["zero_optimization.offload_param.device"] == (
        "none",
        "default",
        f"default of Accelerate {NEWEST['accelerate']}",
    )


def test_effective_of_a_named_config_and_of_none(run, tmp_path):
    (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 1}}')
    text = "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    (tmp_path / "a.yaml").write_text(text)
    result = run("effective", "a.yaml")
    assert (result.returncode, result.stdout.splitlines()[0].split()) == (
        0, ["zero_optimization.stage", "=", "1", "written,", "ds.json:1"],
    )  # fmt: skip
    (tmp_path / "a.yaml").write_text(text.replace("ds.json", "gone.json"))
    assert "gone.json, the value of `deepspeed_config_file`, is not found" in run("effective", "a.yaml").stderr
    (tmp_path / "a.yaml").write_text(text.replace("DEEPSPEED", "FSDP"))
    result = run("effective", "a.yaml")
    assert result.returncode == 2
    assert "a.yaml has no DeepSpeed config: `distributed_type` is FSDP" in result.stderr


@pytest.mark.parametrize(
    "text", ["distributed_type: [\n", "distributed_type: DEEPSPEED\n" + "a: [" * 2000, "x: &a [*a]\n" + FILE]
)
def test_any_text_has_an_answer(text):
    document = documents.from_bytes(text.encode(), "accelerate.yaml")
    assert lint_document(document).findings


NAMES = st.sampled_from(
    [*LAUNCH_NAMES, *(f"deepspeed_config.{name}" for name in SETTINGS.values()), "deepspeed_config.zero3_init_flag"]
)
VALUES = st.sampled_from([
    "", "0", "-1", "2.5", ".inf", ".nan", "1e400", "[1, 2]", "{a: 1}", "2020-01-01", "no", "'no'", "auto", "null",
    "1_0", "!!binary aGk=", '"\\u0661"', "x" * 3000, "9" * 40, "${X}",
])  # fmt: skip


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.sampled_from(["DEEPSPEED", "FSDP", "MULTI_GPU", "NO", "XLA"]))
def test_any_values_have_an_answer(values, kind):
    top = [f"{name}: {value}" for name, value in values.items() if "." not in name]
    below = [f"  {name.partition('.')[2]}: {value}" for name, value in values.items() if "." in name]
    lines = [f"distributed_type: {kind}", "num_machines: 1", *top, *(["deepspeed_config:"] if below else []), *below]
    document = documents.from_bytes("\n".join(lines).encode(), "accelerate.yaml")
    for release in ("0.15.0", "0.20.0", NEWEST["accelerate"]):
        report = lint_document(document, target=Target(accelerate=release))
        assert all(one.span.end <= len(document.text) for one in report.findings)


def test_add_ignore_writes_a_yaml_comment(run, tmp_path):
    text = FILE.replace("zero_stage: 3", "zero_stage: 2\n  overlap_comm: true")
    (tmp_path / "a.yaml").write_text(text)
    assert run("check", "a.yaml", "--add-ignore").returncode == 0
    assert (tmp_path / "a.yaml").read_text() == text.replace(
        "  overlap_comm", "  # ds-lint: ignore[accelerate-key-unread]\n  overlap_comm"
    )
    assert run("check", "a.yaml").returncode == 0


def test_why_a_key_is_not_read():
    text = (
        "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config: {zero_stage: 2, max_restart: 3}\n"
        "downcast_bf16: 'yes'\ndynamo_backend: 'yes'\nrdzv_backend: c10d\n"
    )
    found = {one.key: (one.message, one.help) for one in lint_bytes(text.encode(), "accelerate.yaml").findings}
    assert found == {
        "deepspeed_config.max_restart": (
            f"`deepspeed_config.max_restart` has no effect: accelerate {NEWEST['accelerate']} has no such setting",
            "Write `max_restarts`.",
        ),
        "downcast_bf16": (
            "`downcast_bf16` has no effect: a run of type DEEPSPEED does not read it",
            "Delete the key.",
        ),
        "dynamo_backend": (
            "`dynamo_backend` has no effect: a run of type DEEPSPEED does not read it",
            "Delete the key.",
        ),
        "rdzv_backend": (
            '`rdzv_backend` has no effect: the parser of `accelerate launch` has a default of its own, "static"',
            "Pass `--rdzv_backend` on the command line.",
        ),
    }


def test_a_long_file_of_another_kind_is_not_parsed(monkeypatch):
    monkeypatch.setattr("ds_lint.source.yaml.parse", None)
    text = FILE + "# comment\n" * 20_000
    assert documents.within(text.encode(), "a.yaml", "yaml") == []
    assert documents.within(b"optimizer: {stage: 2}\n", "a.yaml", "yaml") == []


def fsdp(settings, release=None, **known):
    """The findings about a file for FSDP; ``release`` of accelerate."""
    if release is not None:
        known["target"] = Target(accelerate=release)
    text = f"distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n{settings}"
    return [(one.code, one.key) for one in lint_bytes(text.encode(), "accelerate.yaml", **known).findings]


POLICY = "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"


@pytest.mark.parametrize(
    ("release", "settings", "expected"),
    [
        ("1.6.0", "  fsdp_version: 2\n  fsdp_state_dict_type: FULL_STATE_DICT\n", "DS652"),  # 1.6 takes shards only
        ("1.7.0", "  fsdp_version: 2\n  fsdp_state_dict_type: FULL_STATE_DICT\n", None),
        ("1.7.0", "  fsdp_version: 2\n  fsdp_state_dict_type: LOCAL_STATE_DICT\n", "DS652"),
        ("1.7.0", "  fsdp_state_dict_type: LOCAL_STATE_DICT\n", None),
        ("1.5.2", "  fsdp_version: 2\n", "DS653"),  # the setting is new in 1.6
        ("1.9.0", "  fsdp_ignored_modules: lm_head\n", "DS653"),
        ("1.10.0", "  fsdp_ignored_modules: lm_head\n", None),
        ("0.34.2", "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n", None),
        ("1.0.0", "  fsdp_backward_prefetch_policy: BACKWARD_PRE\n", "DS653"),  # the older name is gone
        ("0.20.3", "  fsdp_offload_params: cpu\n", "DS652"),  # not of this, but without the class of the layers
        ("0.22.0", "  fsdp_offload_params: cpu\n", "DS652"),
        ("0.25.0", "  fsdp_sharding_strategy: FULL_SHARD\n", "DS652"),  # the number is needed
        ("0.25.0", "  fsdp_sharding_strategy: 1\n", None),
        ("0.26.0", "  fsdp_sharding_strategy: FULL_SHARD\n", None),
        ("0.33.0", "  fsdp_sharding_strategy: full_shard\n", "DS652"),  # words are compared as they are written
        ("0.34.0", "  fsdp_sharding_strategy: full_shard\n", None),
        ("0.33.0", "  fsdp_state_dict_type: SHARDED_STATE_DICT\n", None),
        ("0.33.0", "  fsdp_state_dict_type: 2\n", "DS652"),
        ("0.34.0", "  fsdp_offload_params: cpu\n", "DS652"),
        ("1.14.0", "  fsdp_activation_checkpointing_offload: true\n", "DS653"),
        ("1.15.0", "  fsdp_activation_checkpointing_offload: true\n", "DS652"),  # without recomputation
    ],
)
def test_settings_of_fsdp_by_release(release, settings, expected):
    assert [code for code, _ in fsdp(POLICY + settings, release)] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("release", "kind", "expected"),
    [
        ("0.16.0", "FSDP", ["FSDP settings (checked since accelerate 0.17.0)"]),
        ("0.17.0", "FSDP", []),
        ("0.33.0", "MULTI_GPU", []),
    ],
)
def test_what_no_table_tells_of_a_release_is_named(release, kind, expected):
    text = f"distributed_type: {kind}\nnum_processes: 2\nfsdp_config:\n{POLICY}"
    report = lint_bytes(text.encode(), "accelerate.yaml", target=Target(accelerate=release))
    assert report.missing == ["world size", *expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("  fsdp_version: 2\n  fsdp_sharding_strategy: FULL_SHARD\n", None),  # what FSDP 2 does anyway
        ("  fsdp_version: 2\n  fsdp_sharding_strategy: NO_SHARD\n", "fsdp_sharding_strategy"),
        (
            "  fsdp_version: 2\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n  fsdp_reshard_after_forward: false\n",
            None,
        ),
        ("  fsdp_version: 2\n  fsdp_backward_prefetch: BACKWARD_PRE\n  fsdp_use_orig_params: true\n", None),
        ("  fsdp_version: 2\n  fsdp_use_orig_params: false\n", "fsdp_use_orig_params"),
        ("  fsdp_version: 2\n  fsdp_sync_module_states: true\n  fsdp_cpu_ram_efficient_loading: false\n", None),
        ("  fsdp_reshard_after_forward: true\n", None),
        ("  fsdp_reshard_after_forward: false\n", "fsdp_reshard_after_forward"),
        ("  fsdp_reshard_after_forward: false\n  fsdp_sharding_strategy: SHARD_GRAD_OP\n", None),
        ("  fsdp_version: ${VERSION}\n  fsdp_sharding_strategy: NO_SHARD\n", None),
        ("  fsdp_min_num_params: 2000\n", "fsdp_min_num_params"),
        ("  fsdp_min_num_params: 100000000\n", None),  # the default
    ],
)
def test_settings_of_fsdp_that_make_no_difference(settings, expected):
    text = f"distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n{POLICY}{settings}"
    ones = lint_bytes(text.encode(), "accelerate.yaml").findings
    assert {one.code for one in ones} <= {"DS653"}
    assert [one.key for one in ones if one.severity == "warning"] == ([f"fsdp_config.{expected}"] if expected else [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"bf16": True}, ["DS656", "DS659"]),
        ({"fsdp": "full_shard"}, []),  # the Trainer makes the plugin
        ({"fsdp": "full_shard", "fsdp_config": {"version": 1}}, ["DS658"]),
        ({"fsdp": "full_shard", "fsdp_config": "fsdp.json"}, []),  # which is not read
        ({"fsdp": ""}, ["DS656", "DS659"]),
        ({"deepspeed": "ds.json"}, ["DS658"]),
        ({"save_only_model": True}, ["DS656", "DS657", "DS659"]),
    ],
)
def test_training_arguments_beside_fsdp(arguments, expected):
    facts = Facts()
    facts.training = arguments_of(arguments)
    assert sorted(code for code, _ in fsdp("  fsdp_version: 2\n", facts=facts)) == expected


@pytest.mark.parametrize(
    ("sizes", "version", "expected"),
    [
        ("dp_shard_size: 2", 2, None),
        ("dp_shard_size: 4", 2, "DS652"),  # for two ranks
        ("tp_size: 2", 2, "DS652"),  # nothing to shard across
        ("cp_size: 2", 2, None),
        ("dp_shard_size: 2", 1, "DS652"),
        ("dp_shard_size: 0", 2, "DS652"),
        ("dp_shard_size: ${N}", 2, None),
    ],
)
def test_degrees_of_parallelism(sizes, version, expected):
    settings = f"{POLICY}  fsdp_version: {version}\nparallelism_config:\n  parallelism_config_{sizes}\n"
    assert [code for code, _ in fsdp(settings)] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("kind", "sizes", "expected"),
    [
        ("DEEPSPEED", {"tp_size": 2}, ["DS652"]),  # the split loader has no batch size
        ("DEEPSPEED", {"dp_shard_size": 4}, ["DS652"]),  # for two ranks
        ("DEEPSPEED", {"sp_size": 4}, []),  # DeepSpeed counts these ranks itself
        ("DEEPSPEED", {"cp_size": 2, "sp_size": 2}, ["DS652"]),
        ("DEEPSPEED", {"sp_size": 2, "sp_backend": "torch"}, ["DS652"]),
        ("DEEPSPEED", {"sp_size": 2, "sp_attn_implementation": "eager"}, ["DS652"]),
        ("DEEPSPEED", {"sp_attn_implementation": "eager"}, ["DS653"]),  # nothing is split
        ("MULTI_GPU", {"dp_replicate_size": 2}, []),
        ("MULTI_GPU", {"dp_replicate_size": 2, "tp_size": 2}, ["DS652"]),
        ("MULTI_GPU", {"cp_size": 2}, ["DS652"]),  # needs FSDP 2
        ("MULTI_XPU", {"tp_size": 8}, ["DS652"]),
        ("MULTI_XPU", {"tp_size": "9" * 3000, "cp_size": "9" * 3000}, ["DS652", "DS652"]),
    ],
)
def test_degrees_of_parallelism_in_other_types_of_runs(kind, sizes, expected):
    lines = "".join(f"  parallelism_config_{name}: {value}\n" for name, value in sizes.items())
    text = f"distributed_type: {kind}\nnum_processes: 2\nparallelism_config:\n{lines}"
    text += "deepspeed_config:\n  zero_stage: 2\n" if kind == "DEEPSPEED" else ""
    assert [code for code, _ in found(text)] == expected


def test_a_misspelled_setting_is_reported_whatever_its_value():
    section = "  zero_stage: 3\n  zero3_init_flg: false\n  offload_optimizer_devise: none\n"
    text = f"distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n{section}"
    unread = [finding for finding in lint_bytes(text.encode(), "accelerate.yaml").findings if finding.code == "DS653"]
    assert [finding.help for finding in unread] == ["Write `zero3_init_flag`.", "Write `offload_optimizer_device`."]


@pytest.mark.parametrize(("ranks", "machines", "expected"), [(7, 2, ["DS655"]), (8, 2, []), (3, 1, []), (1, 2, [])])
def test_ranks_that_the_machines_do_not_share_evenly(ranks, machines, expected):
    text = f"distributed_type: DEEPSPEED\nnum_processes: {ranks}\nnum_machines: {machines}\n"
    text += "deepspeed_config:\n  zero_stage: 2\n"
    assert [code for code, _ in found(text) if code == "DS655"] == expected


def test_what_to_write_instead_of_a_setting_of_fsdp():
    settings = {
        "  fsdp_auto_wrap_policy: TRANSFOMER_BASED_WRAP\n": "Write TRANSFORMER_BASED_WRAP.",
        f"{POLICY}  fsdp_version: 2\n  fsdp_sharding_strategy: HYBRID_SHARD\n": "Write `parallelism_config` with",
        f"{POLICY}  fsdp_version: 2\n  fsdp_sharding_strategy: NO_SHARD\n": "Write `fsdp_reshard_after_forward: true`",
        f"{POLICY}  fsdp_backward_prefetch_policy: BACKWARD_PRE\n": "Write `fsdp_backward_prefetch`.",
    }
    for lines, advice in settings.items():
        text = f"distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n{lines}"
        (finding,) = lint_bytes(text.encode(), "accelerate.yaml").findings
        assert finding.help.startswith(advice)


def test_a_number_of_ranks_that_the_command_line_may_have_hides_nothing():
    text = f"distributed_type: FSDP\nfsdp_config:\n{POLICY}  fsdp_version: 2\n  fsdp_forward_prefetch: true\n"
    assert [code for code, _ in found(text)] == ["DS652", "DS653"]
