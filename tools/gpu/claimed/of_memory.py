"""What rules say of what lies on the GPU, in host memory and on NVMe."""

from __future__ import annotations

from tools.gpu.claimed.claim import (
    BF16,
    CPU,
    IT,
    LAYERS,
    NVME,
    Claim,
    config_of,
    every,
    fp16,
    holds_as_many_master_weights_as_parameters,
    lies_pinned,
    offloaded,
    raises,
    shows,
    takes,
    trains,
)

CLAIMS = (
    Claim(
        name="parameters-offloaded-below-stage-3",
        rule="DS312",
        says="offload_param works only at stage 3: the parameters stay on the GPU.",
        config=config_of(2, zero={"offload_param": {**CPU, "pin_memory": True}}),
        expected="it trains, with all parameters on the GPU",
        holds=every(trains(), shows("parameters.devices", ["cuda"])),
        question="Where are the parameters?",
    ),
    Claim(
        name="offload-without-device",
        rule="DS313",
        says="Without a device nothing is offloaded.",
        config=config_of(2, zero={"offload_optimizer": {"pin_memory": True}}),
        expected="it trains, with master weights and states on the GPU",
        holds=every(trains(), shows("states.devices", ["cuda"]), shows("master.devices", ["cuda"])),
        question="Where are the states?",
    ),
    Claim(
        name="nvme-below-stage-3",
        rule="DS316",
        says=("Only stage 3 writes states to NVMe: they stay in host memory, and nvme_path is ignored."),
        config=config_of(2, zero={"offload_optimizer": NVME}),
        expected="it trains, with states in host memory and no file",
        holds=every(trains(), shows("states.devices", ["cpu"]), shows("master.devices", ["cpu"]), shows("files", [])),
        question="Where are the states?",
        how={"model": "wide"},  # whose states stage 3 would write to files
    ),
    Claim(
        name="pin-memory-of-states",
        rule="DS851",
        says="With pin_memory, master weights of stage 2 are page-locked; without it they are not.",
        config=offloaded(2, zero={"offload_optimizer": {**CPU, "pin_memory": True}}, **BF16),
        expected="every tensor of the master weights is page-locked with true, none with false",
        holds=every(trains(), trains("off"), lies_pinned("master", IT), shows("master.pinned", 0, "off")),
        question="Are they page-locked?",
        reports=None,
        others={"off": offloaded(2, zero={"offload_optimizer": {**CPU, "pin_memory": False}}, **BF16)},
    ),
    Claim(
        name="pin-memory-of-stage-3",
        rule="DS851",
        says=(
            "At stage 3 the buffer of gradients is page-locked with pin_memory, and that of offloaded "
            "parameters whatever pin_memory says."
        ),
        config=offloaded(
            3,
            zero={"offload_optimizer": {**CPU, "pin_memory": True}, "offload_param": {**CPU, "pin_memory": True}},
            **BF16,
        ),
        expected="gradients page-locked with true and not with false, parameters page-locked with both",
        holds=every(
            trains(),
            trains("off"),
            lies_pinned("buffers.grad_partitions_flat_buffer", IT),
            shows("buffers.grad_partitions_flat_buffer.pinned", 0, "off"),
            lies_pinned("buffers.param_groups_fp16_flat_cpu_memory", IT),
            lies_pinned("buffers.param_groups_fp16_flat_cpu_memory", "off"),
        ),
        question="Are they page-locked?",
        reports=None,
        others={
            "off": offloaded(
                3,
                zero={"offload_optimizer": {**CPU, "pin_memory": False}, "offload_param": {**CPU, "pin_memory": False}},
                **BF16,
            )
        },
    ),
    Claim(
        name="two-reduce-buckets",
        rule="DS840",
        says="overlap_comm keeps two reduce buckets of 5e+08 gradients on the GPU: 2.0 GB.",
        config=config_of(2, zero={"overlap_comm": True, "reduce_bucket_size": 500_000_000}, **BF16),
        expected="2.0 GB more at the peak than with buckets of ten thousand",
        holds=every(trains(), takes(2e9, "small")),
        question="How much memory do they take?",
        how={**LAYERS, "inputs": "bfloat16"},
        others={"small": config_of(2, zero={"overlap_comm": True, "reduce_bucket_size": 10_000}, **BF16)},
    ),
    Claim(
        name="two-reduce-buckets-in-fp32",
        rule="DS840",
        says="Where stage 1 accumulates in fp32, they take 4.0 GB.",
        config=config_of(
            1,
            zero={"overlap_comm": True, "reduce_bucket_size": 500_000_000},
            data_types={"grad_accum_dtype": "fp32"},
            **fp16(initial_scale_power=8),
        ),
        expected="4.0 GB more at the peak than with buckets of ten thousand",
        holds=every(trains(), takes(4e9, "small")),
        question="How much memory do they take?",
        how={**LAYERS, "inputs": "float16"},
        others={
            "small": config_of(
                1,
                zero={"overlap_comm": True, "reduce_bucket_size": 10_000},
                data_types={"grad_accum_dtype": "fp32"},
                **fp16(initial_scale_power=8),
            )
        },
    ),
    Claim(
        name="zero-on-one-rank",
        rule="DS803",
        says="One rank holds everything that ZeRO partitions.",
        config=config_of(2, **BF16),
        expected="as many master weights as parameters, in fp32, on this rank",
        holds=every(shows("master.dtypes", ["float32"]), holds_as_many_master_weights_as_parameters),
    ),
    Claim(
        name="too-few-swap-buffers",
        rule="DS361",
        says="Adam needs 4 buffers at a time, but buffer_count is 3: the first steps raise.",
        config=config_of(3, zero={"sub_group_size": 1, "offload_optimizer": {**NVME, "buffer_count": 3}}),
        expected="an exception of the swapper in one of the first steps; with 4 buffers it trains",
        holds=every(raises("forward backward step", where="swap_tensor"), trains("four")),
        question="Does it raise with the real kernel?",
        how={"model": "wide", "steps": 3, "needed": ["async_io"]},
        others={"four": config_of(3, zero={"sub_group_size": 1, "offload_optimizer": {**NVME, "buffer_count": 4}})},
    ),
)
