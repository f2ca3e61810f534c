"""Random YAML files of ``accelerate launch``, of which about half start."""

from __future__ import annotations

import random
from typing import Any

import yaml

from ds_lint.source import yaml as yaml_source

BASES: list[dict[str, Any]] = [
    {
        "compute_environment": "LOCAL_MACHINE", "debug": False, "distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 2, "gradient_accumulation_steps": 1, "zero3_init_flag": False},
        "downcast_bf16": "no", "machine_rank": 0, "main_training_function": "main", "mixed_precision": "bf16",
        "num_machines": 1, "num_processes": 2, "rdzv_backend": "static", "same_network": True, "use_cpu": False,
    },
    {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"deepspeed_config_file": "ds.json"}},
    {"distributed_type": "MULTI_GPU", "num_processes": 2, "gpu_ids": "all", "mixed_precision": "no"},
    {"distributed_type": "NO", "compute_environment": "LOCAL_MACHINE", "dynamo_config": {"dynamo_backend": "INDUCTOR"}},
    {"distributed_type": "MULTI_GPU", "num_processes": 2, "mixed_precision": "fp8", "fp8_config": {"backend": "TE"}},
    {
        "distributed_type": "DEEPSPEED", "num_processes": 2, "mixed_precision": "fp8", "fp8_config": {"backend": "TE"},
        "deepspeed_config": {"zero_stage": 2},
    },
    {"distributed_type": "MULTI_CPU", "num_processes": 2, "use_cpu": True, "dynamo_config": {"dynamo_backend": "NO"}},
    {
        "compute_environment": "AMAZON_SAGEMAKER", "distributed_type": "NO", "ec2_instance_type": "ml.p3.2xlarge",
        "iam_role_name": "role", "mixed_precision": "no", "num_machines": 1, "profile": "default",
        "region": "us-east-1",
    },
]  # fmt: skip
FLAGS = [True, False, "true", "false", "yes", "no", "on", 1, 0, None, "maybe", "True", "NO"]
NUMBERS = [0, 1, 2, 3, 4, -1, 8, "2", 2.0, 2.5, True, None, "auto", "none", "1e-1", 0.5]
DEVICES = ["cpu", "none", "nvme", "CPU", "gpu", False, None, "disk", "None"]
SECTION: dict[str, list[Any]] = {
    "zero_stage": [*NUMBERS, "3", 3, 3, 1], "gradient_accumulation_steps": NUMBERS,
    "gradient_clipping": [*NUMBERS, 1.0],
    "offload_optimizer_device": DEVICES, "offload_param_device": DEVICES, "zero3_init_flag": FLAGS,
    "zero3_save_16bit_model": FLAGS, "deepspeed_config_file": ["ds.json", "none", None, "ds.json"],
    "deepspeed_multinode_launcher": ["standard", "pdsh", "slurm", None], "deepspeed_hostfile": ["hosts", None],
    "deepspeed_moe_layer_cls_names": ["Linear", None, "A,B", "A, B", ["A"], ""],
    "offload_optimizer_nvme_path": ["/nvme", None],
    "deepspeed_exclusion_filter": ["host1", None], "deepspeed_inclusion_filter": ["host1"],
    "stage3_gather_16bit_weights_on_model_save": [True], "max_restarts": [1], "num_processes": [2, 0],
    "mixed_precision": ["bf16", "no", "fp16"], "Zero_Stage": [2], "rdzv_backend": ["c10d"],
    "fsdp_offload_params": [True],
}  # fmt: skip
DYNAMO: dict[str, list[Any]] = {
    "dynamo_backend": ["INDUCTOR", "inductor", "no", False, "x", None, "EAGER"], "backend": ["INDUCTOR"],
    "dynamo_mode": ["default", "reduce-overhead", None, 1], "dynamo_use_dynamic": FLAGS, "use_dynamic": FLAGS,
    "dynamo_use_fullgraph": FLAGS, "dynamo_use_regional_compilation": FLAGS, "fullgraph": [True],
}  # fmt: skip
FP8: dict[str, list[Any]] = {
    "backend": ["TE", "te", "MSAMP", "AO", "x", None, "NO"], "fp8_format": ["HYBRID", "E4M3", "hybrid", "x", 1],
    "margin": [0, "x", 1.5], "interval": [1, "x"], "amax_history_len": [1024, "x"], "opt_level": ["O1", "O2", "o1"],
    "amax_compute_algo": ["max", "x"], "amax_compute_algorithm": ["x"], "use_autocast_during_eval": FLAGS,
    "pad_inner_dim": FLAGS, "override_linear_precision": [False, [False, True, False], [True], "x", ["maybe", 1, 1]],
}  # fmt: skip
TOP: dict[str, list[Any]] = {
    "num_processes": NUMBERS, "num_machines": [1, 1, 2, "2", None, 0, True], "machine_rank": [0, 1, "0", None, "x"],
    "mixed_precision": ["no", "fp16", "bf16", "BF16", "fp8", False, None, "fp32", "", 16, True],
    "gpu_ids": ["all", "0,1", "0", 0, None, "", [0, 1]], "main_process_port": [29511, "29512", None, 0, 70000, -5, 2.5],
    "main_process_ip": ["10.0.0.1", None], "rdzv_backend": ["static", "c10d", None], "same_network": [True, False],
    "distributed_type": ["DEEPSPEED", "DEEPSPEED", "MULTI_GPU", "NO", False, "deepspeed", "MULTI_CPU", None, "FSDP"],
    "compute_environment": ["LOCAL_MACHINE", None, "LOCAL", "AMAZON_SAGEMAKER"], "use_cpu": FLAGS,
    "debug": [True, False], "enable_cpu_affinity": [True, False], "main_training_function": ["main", "train"],
    "zero_stage": [2], "learning_rate": [1e-4], "dynamo_backend": ["NO", "INDUCTOR", False, "x"], "fp16": [True],
    "dynamo_config": [{"dynamo_backend": "INDUCTOR"}, {"backend": "no"}, {"dynamo_mode": "default"}, {}, None, "x"],
    "deepspeed_config": [None, {}, "x", [], {"zero_stage": 3}], "megatron_lm_config": [{}, {"zero_stage": 1}],
    "fsdp_config": [{}, {"fsdp_version": 2}, {"offload_params": True}, {"fsdp_sync_module_states": False}, None],
    "parallelism_config": [{}, None, {"parallelism_config_tp_size": 1}, {"tp_size": 2},
                           {"parallelism_config_cp_size": "2"}, {"parallelism_config_dp_shard_size": 2},
                           {"parallelism_config_dp_replicate_size": 2}, {"parallelism_config_sp_size": 2},
                           {"parallelism_config_sp_size": 4, "parallelism_config_cp_size": 2},
                           {"parallelism_config_cp_size": 2}, {"parallelism_config_sp_backend": "torch"},
                           {"parallelism_config_sp_seq_length_is_variable": False}],
    "fp8_config": [{"backend": "TE"}, {}], "ipex_config": [{}], "tpu_env": [[]], "mpirun_config": [{}],
}  # fmt: skip


SMALL_SECTIONS = {"dynamo_config": DYNAMO, "fp8_config": FP8}

FSDP_BASES: list[dict[str, Any]] = [
    {
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_backward_prefetch": "BACKWARD_PRE",
        "fsdp_cpu_ram_efficient_loading": True, "fsdp_forward_prefetch": False, "fsdp_offload_params": False,
        "fsdp_sharding_strategy": "FULL_SHARD", "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_sync_module_states": True, "fsdp_use_orig_params": True,
    },
    {
        "fsdp_version": 2, "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_reshard_after_forward": True,
        "fsdp_cpu_ram_efficient_loading": True, "fsdp_offload_params": False, "fsdp_activation_checkpointing": False,
    },
    {"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP", "fsdp_min_num_params": 2000},
    {},
]  # fmt: skip
STRATEGIES = ["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD", "HYBRID_SHARD", "full_shard", 1, 3, 5, 6, 0, "1", True, None]
FSDP_FLAGS = [True, False, True, False, "true", "false", "yes", 1, 0, None, "maybe", "cpu"]
FSDP_SECTION: dict[str, list[Any]] = {
    "fsdp_version": [1, 2, 2, "2", "1", 3, 2.0, None, True, "two"], "fsdp_offload_params": FSDP_FLAGS,
    "fsdp_sharding_strategy": STRATEGIES, "fsdp_reshard_after_forward": [True, False, "true", *STRATEGIES],
    "fsdp_auto_wrap_policy": ["TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP", "no_wrap", "LlamaLayer", None, 1],
    "fsdp_transformer_layer_cls_to_wrap": ["LlamaDecoderLayer", "A,B", "A, B", ["A", "B"], "", None, "A,", "a.B"],
    "fsdp_min_num_params": [100, 0, "1e8", 1e8, 2.5, None, "100", -1, True],
    "fsdp_backward_prefetch": ["BACKWARD_PRE", "BACKWARD_POST", "NO_PREFETCH", "backward_pre", None, 1, 3, False, "x"],
    "fsdp_state_dict_type": ["FULL_STATE_DICT", "SHARDED_STATE_DICT", "LOCAL_STATE_DICT", "sharded", None, 2, 3, 4],
    "fsdp_forward_prefetch": FSDP_FLAGS, "fsdp_use_orig_params": FSDP_FLAGS, "fsdp_sync_module_states": FSDP_FLAGS,
    "fsdp_cpu_ram_efficient_loading": FSDP_FLAGS, "fsdp_activation_checkpointing": FSDP_FLAGS,
    "fsdp_activation_checkpointing_offload": FSDP_FLAGS, "fsdp_ignored_modules": [None, "lm_head", ["a"]],
    "offload_params": FSDP_FLAGS, "version": [1, 2], "fsdp_backward_prefetch_policy": ["BACKWARD_PRE"],
    "fsdp_cpu_offload": [True], "fsdp_limit_all_gathers": [True], "fsdp_transformer_layer_cls_to_warp": ["A"],
    "zero_stage": [3], "mixed_precision": ["bf16"], "num_processes": [4], "fsdp_xla": [True],
}  # fmt: skip
FSDP_TOP: dict[str, list[Any]] = {
    "num_processes": [1, 2, 4, 8, 0, None], "mixed_precision": ["no", "fp16", "bf16", False, "fp8"],
    "deepspeed_config": [{"zero_stage": 3}, {}], "distributed_type": ["FSDP", "MULTI_GPU", "DEEPSPEED", "fsdp"],
    "fsdp_config": [None, {}, "x"], "use_cpu": [True, False], "num_machines": [1, 2], "zero_stage": [2],
    "parallelism_config": [
        {}, {"parallelism_config_dp_shard_size": 2}, {"parallelism_config_tp_size": 2},
        {"parallelism_config_dp_shard_size": 2, "parallelism_config_tp_size": 2}, {"parallelism_config_cp_size": 2},
        {"parallelism_config_dp_shard_size": "2"}, {"parallelism_config_dp_shard_size": 0}, {"dp_shard_size": 2},
        {"parallelism_config_dp_replicate_size": 2, "parallelism_config_tp_size": 2},
    ],
}  # fmt: skip


def random_fsdp_texts(count: int, seed: int) -> list[str]:
    """YAML files for FSDP of which about half start."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        section = {**draw.choice(FSDP_BASES)}
        values: dict[str, Any] = {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": section}
        for _ in range(draw.choice([0, 1, 1, 2, 2, 3])):
            name = draw.choice(list(FSDP_SECTION))
            section[name] = draw.choice(FSDP_SECTION[name])
        if draw.random() < 0.3:
            name = draw.choice(list(FSDP_TOP))
            values[name] = draw.choice(FSDP_TOP[name])
        text = yaml.safe_dump(values)
        if yaml_source.read(text, "accelerate.yaml"):
            found.append(text)
    return found


def random_texts(count: int, seed: int) -> list[str]:
    """YAML files of which about half start."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        base = draw.choice(BASES[:2] * 3 + BASES)
        values = {**base}
        if isinstance(base.get("deepspeed_config"), dict):
            values["deepspeed_config"] = {**base["deepspeed_config"]}
        for _ in range(draw.choice([0, 1, 1, 2, 3])):
            section = values.get("deepspeed_config")
            of_section = next((name for name in SMALL_SECTIONS if isinstance(values.get(name), dict)), None)
            if of_section is not None and draw.random() < 0.6:
                name = draw.choice(list(SMALL_SECTIONS[of_section]))
                values[of_section] = {**values[of_section], name: draw.choice(SMALL_SECTIONS[of_section][name])}
            elif isinstance(section, dict) and draw.random() < 0.6:
                name = draw.choice(list(SECTION))
                section[name] = draw.choice(SECTION[name])
            else:
                name = draw.choice(list(TOP))
                values[name] = draw.choice(TOP[name])
        if draw.random() < 0.08 and len(values) > 3:
            del values[draw.choice(list(values))]
        text = yaml.safe_dump(values)
        if yaml_source.read(text, "accelerate.yaml"):
            found.append(text)
    return found
