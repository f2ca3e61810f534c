"""What rules say of loss scales, dtypes and adapters."""

from __future__ import annotations

from tools.gpu.claimed.claim import (
    BF16,
    BF16_MODEL,
    PLAIN,
    PLAIN_16,
    UNTESTED,
    Claim,
    config_of,
    every,
    fp16,
    moves,
    offloaded,
    overflows,
    raises,
    shows,
    skips,
    stays,
    trains,
)

CLAIMS = (
    Claim(
        name="fp16-without-zero",
        rule="DS411",
        says=(
            "Without ZeRO the gradients are divided by a loss scale that the loss was not multiplied by: "
            "they are 128 times too small."
        ),
        config=config_of(None, "SGD", params={"lr": 1.0}, gradient_clipping=0, **fp16(loss_scale=128)),
        expected="a step of SGD is 1/128, and with a loss scale of 1 it is 1",
        holds=every(moves(1 / 128), moves(1.0, "scale 1")),
        how=PLAIN_16,
        others={"scale 1": config_of(None, "SGD", params={"lr": 1.0}, gradient_clipping=0, **fp16(loss_scale=1))},
    ),
    Claim(
        name="fp16-without-zero-in-fused-adam",
        rule="DS411",
        says=("With FusedAdam, whose wrapper is another class, the gradients are 128 times too small too."),
        config=config_of(
            None,
            params={"lr": 1.0, "betas": [0.0, 0.0], "eps": 1.0, "weight_decay": 0},
            gradient_clipping=0,
            **fp16(loss_scale=128),
        ),
        expected="a step is 1/129 (g/(g + eps) with g = 1/128), with a loss scale of 1 it is 1/2",
        holds=every(moves(1 / 129), moves(1 / 2, "scale 1")),
        question="Does the real kernel get small gradients?",
        how={**PLAIN_16, "needed": ["fused_adam"]},
        others={
            "scale 1": config_of(
                None,
                params={"lr": 1.0, "betas": [0.0, 0.0], "eps": 1.0, "weight_decay": 0},
                gradient_clipping=0,
                **fp16(loss_scale=1),
            )
        },
    ),
    Claim(
        name="high-initial-loss-scale",
        rule="DS412",
        says="DeepSpeed skips about 9 steps before the first that trains.",
        config=config_of(2, "SGD", **UNTESTED, **fp16(initial_scale_power=24)),
        expected="8 to 10 steps that move no weight",
        holds=skips(8, 10),
        how={**PLAIN_16, "steps": 14},
    ),
    Claim(
        name="static-loss-scale-overflows",
        rule="DS413",
        says=("DeepSpeed skips every step whose gradients overflow, to the end of the run, without an error."),
        config=config_of(2, "SGD", **UNTESTED, **fp16(loss_scale=2.0**20)),
        expected="no weight moves in 20 steps, and nothing raises; with a scale of 8 weights move",
        holds=every(stays(), trains("scale 8")),
        how={**PLAIN_16, "steps": 20},
        others={"scale 8": config_of(2, "SGD", **UNTESTED, **fp16(loss_scale=8))},
    ),
    Claim(
        name="initial-loss-scale-too-large",
        rule="DS408",
        says="A loss scale of 2^64 is too large: the first step raises.",
        config=config_of(1, "SGD", **UNTESTED, **fp16(initial_scale_power=64)),
        expected="OverflowError in the first step, where the loss is multiplied by the loss scale",
        holds=raises("forward backward step", step=1, where="loss_scaler"),
        how=PLAIN_16,
    ),
    Claim(
        name="fp16-overflows-where-bf16-does-not",
        rule="DS450",
        says=(
            "Values above 65504 overflow in fp16: the loss is NaN, or DeepSpeed skips steps until the "
            "loss scale is at its minimum and then raises."
        ),
        config=config_of(2, **fp16()),
        expected="an infinite loss, or a loss scale at its minimum, within 30 steps; in bf16 all losses are finite",
        holds=every(overflows, trains("bf16")),
        how={"model": "huge activations", "steps": 30},
        others={"bf16": config_of(2, **BF16)},
        facts={"model": BF16_MODEL},
    ),
    Claim(
        name="narrow-communication",
        rule="DS416",
        says="DeepSpeed reduces the gradients of the bf16 model in fp16: values below 6e-8 become 0.",
        config=config_of(
            2,
            "SGD",
            params={"lr": 100000000.0},
            gradient_clipping=0,
            communication_data_type="fp16",
            **BF16,
            **UNTESTED,
        ),
        expected="with gradients of 1e-8 no weight moves; without the key they move by 1",
        holds=every(stays(), moves(1.0, "without")),
        how={**PLAIN, "inputs": "bfloat16", "factor": 1e-08},
        others={"without": config_of(2, "SGD", params={"lr": 100000000.0}, gradient_clipping=0, **BF16, **UNTESTED)},
    ),
    Claim(
        name="narrow-gradient-accumulation",
        rule="DS415",
        says=("DeepSpeed accumulates the gradients of the bf16 model in fp16: values below 6e-8 become 0."),
        config=config_of(
            3,
            "SGD",
            params={"lr": 100000000.0},
            gradient_clipping=0,
            data_types={"grad_accum_dtype": "fp16"},
            **BF16,
            **UNTESTED,
        ),
        expected="with gradients of 1e-8 no weight moves; without the key they move by 1",
        holds=every(stays(), moves(1.0, "without")),
        how={**PLAIN, "inputs": "bfloat16", "factor": 1e-08},
        others={"without": config_of(3, "SGD", params={"lr": 100000000.0}, gradient_clipping=0, **BF16, **UNTESTED)},
    ),
    Claim(
        name="autocast-beside-bf16",
        rule="DS414",
        says="Beside bf16, autocast has no parameters in fp32.",
        config=config_of(1, torch_autocast={"enabled": True, "dtype": "bfloat16"}, **BF16),
        expected=(
            "parameters and gradients are bf16; with torch_autocast alone they are fp32, and layers compute in bf16"
        ),
        holds=every(
            shows("parameters.dtypes", ["bfloat16"]),
            shows("gradients", ["bfloat16"]),
            shows("parameters.dtypes", ["float32"], "alone"),
            shows("computed", ["bfloat16"], "alone"),
        ),
        how={"model": "layers", "inputs": "bfloat16"},
        others={"alone": config_of(1, torch_autocast={"enabled": True, "dtype": "bfloat16"})},
    ),
    Claim(
        name="autocast-around-engine",
        rule="DS824",
        says="The engine computes without the autocast around it.",
        config=config_of(None),
        expected="alone the layers compute in bf16, in the engine in fp32",
        holds=every(shows("alone", ["bfloat16"]), shows("in the engine", ["float32"])),
        question="In which dtype does the engine compute?",
        reports=None,
        look="dtypes:autocast_around",
    ),
    Claim(
        name="adapters-in-fp16",
        rule="DS906",
        says="peft creates adapters of fp16 weights in fp32, and DeepSpeed casts them to fp16.",
        config=config_of(2, **fp16(initial_scale_power=8)),
        expected="fp32 as created, fp16 after a step, and the adapters move",
        holds=every(trains(), shows("created.dtypes", ["float32"]), shows("trained.dtypes", ["float16"])),
        reports=None,
        look="dtypes:adapters",
    ),
    Claim(
        name="adapters-of-partitioned-fp16",
        rule="DS906",
        says="Beside partitioned fp16 weights DeepSpeed casts no adapter: it trains in fp32.",
        config=config_of(3, **fp16(initial_scale_power=8)),
        expected="fp32 as created and after a step, and the adapters move",
        holds=every(trains(), shows("created.dtypes", ["float32"]), shows("trained.dtypes", ["float32"])),
        reports=None,
        look="dtypes:adapters",
    ),
    Claim(
        name="fp16-master-weights-without-offload",
        rule="DS308",
        says=("fp16_master_weights_and_grads needs Adam, offloaded to the CPU: deepspeed.initialize raises."),
        config=config_of(2, **fp16(fp16_master_weights_and_grads=True)),
        expected="an exception in deepspeed.initialize",
        holds=raises("initialize", "DeepSpeedCPUAdam"),
    ),
    Claim(
        name="fp16-master-weights-with-offload",
        rule="DS308",
        says="With Adam on the CPU nothing is reported.",
        config=offloaded(2, **fp16(fp16_master_weights_and_grads=True, initial_scale_power=8)),
        expected="it trains, with master weights in fp16 in host memory",
        holds=every(trains(), shows("master.dtypes", ["float16"]), shows("master.devices", ["cpu"])),
        question="Does the real kernel take fp16 master weights?",
        reports=False,
        how={"needed": ["cpu_adam"]},
    ),
    Claim(
        name="bf16-states-on-the-gpu",
        rule="DS308",
        says=(
            "With bf16_optimizer_states and no offload the states stay on the GPU, which DeepSpeed "
            "allows: nothing is reported."
        ),
        config=config_of(
            2, bf16={"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}
        ),
        expected="it trains, with master weights and states in bf16 on the GPU",
        holds=every(
            trains(),
            shows("master.dtypes", ["bfloat16"]),
            shows("states.dtypes", ["bfloat16"]),
            shows("states.devices", ["cuda"]),
        ),
        question="Does the real kernel take bf16 master weights?",
        reports=False,
        how={"needed": ["fused_adam"]},
    ),
)
