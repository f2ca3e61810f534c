"""Models with LoRA adapters: only the adapters train, are saved and loaded; frozen weights stay, and come back."""

from __future__ import annotations

import json

import pytest
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytest.importorskip("peft")
pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

AUTO = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto"}
NUMBERS = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2, "gradient_clipping": 0.05}
GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
CPU = {"device": "cpu"}
TRAINED, FROZEN = 28, 21  # tensors: two for each of the 7 linear layers in both layers; 9 in each layer, and 3 more


def config(stack, stage, precision="bf16", **more):
    section = {} if precision == "fp32" else {precision: {"enabled": True}}
    zero = {"stage": stage, **(GATHERED if stage == 3 else {}), **more}
    return {**(NUMBERS if stack == "deepspeed" else AUTO), **section, "zero_optimization": zero}


@pytest.fixture
def adapted(prove):
    """Trains LoRA adapters with a config on some ranks."""

    def adapted(config, *, stack="deepspeed", ranks=2, **more):
        precision = next((name for name in ("bf16", "fp16") if name in config), None)
        arguments = {precision: True} if stack == "trainer" and precision else None
        options = RunOptions(ranks=ranks, seconds=120.0, has_adapters=True)
        return prove(config, stack=stack, arguments=arguments, options=options, **more)

    return adapted


def broken(verdict):
    assert verdict.error is None
    return {check.id for check in verdict.checks if check.status not in ("pass", "skip")}


def only(verdict, id):
    (found,) = (check for check in verdict.checks if check.id == id)
    return found


def leaves_frozen_weights_out(stack, stage):
    """Whether `zero_to_fp32` does, though the checkpoint has them: DeepSpeed records them from stage 2 on."""
    return stage == 1 and stack != "trainer"


# --------------------------------------------------------------------------------------------------------------- passes

STACKS = ("deepspeed", "trainer", "accelerate")
FIRST = {("deepspeed", 2, 3), ("trainer", 3, 2), ("accelerate", 1, 2)}
EVERY = [
    pytest.param(*one, marks=() if one in FIRST else pytest.mark.long)
    for one in ((stack, stage, ranks) for stack in STACKS for stage in range(4) for ranks in (2, 3))
]


@pytest.mark.parametrize(("stack", "stage", "ranks"), EVERY)
def test_adapters_train_resume_and_are_saved(adapted, stack, stage, ranks):
    verdict = adapted(config(stack, stage), stack=stack, ranks=ranks)
    assert broken(verdict) == ({"recovery"} if leaves_frozen_weights_out(stack, stage) else set())
    passed = {check.id for check in verdict.checks if check.status == "pass"}
    shares = {"parameters", "master-weights", "optimizer-states", "gradients"} if stage else set()
    assert passed >= {"stage", "dtypes", "loss", "averaging", "update", "weights", "resume", "export"} | shares
    assert only(verdict, "frozen").message.startswith(f"{FROZEN} of {FROZEN} frozen tensors are the same")
    assert f"PeftModel.from_pretrained, and all {TRAINED} tensors" in only(verdict, "export").message
    if stage == 3:
        assert "generate" in passed
    if stage > 1:
        whole = TRAINED if stack == "trainer" else TRAINED + FROZEN
        assert f"recovers all {whole} " in only(verdict, "recovery").message


def test_only_adapters_have_states(adapted):
    verdict = adapted(config("deepspeed", 2))
    adapters = 4 * 2 * 2 * 8 * 32 + 3 * 2 * 8 * (32 + 64)  # rank 8: 4 layers of 32 x 32 and 3 of 32 x 64, twice
    assert verdict.model == "tiny Llama with LoRA adapters"
    assert verdict.parameter_count == 24_736 + adapters
    for kind in ("master weights", "exp_avg", "exp_avg_sq"):
        assert [held[kind].elements for held in verdict.held] == [adapters // 2] * 2
    told = f"each rank holds {adapters // 2:,} elements of master weights, 1/2 of {adapters:,}"
    assert only(verdict, "master-weights").message == told


def test_the_report_names_the_adapters(adapted):
    import peft

    verdict = adapted(config("deepspeed", 2))
    (told,) = (one for one in verdict.adaptations if one.before == "the model")
    assert told.after == "frozen, with LoRA adapters of rank 8 on its linear layers"
    assert verdict.versions["peft"] == peft.__version__


@pytest.mark.parametrize(
    ("stack", "precision", "stage", "more"),
    [
        ("deepspeed", "fp32", 2, {}),
        ("trainer", "fp16", 3, {}),
        ("accelerate", "bf16", 2, {"offload_optimizer": CPU}),
        ("trainer", "bf16", 3, {"offload_optimizer": CPU, "offload_param": CPU}),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in [
                ("deepspeed", "fp16", 2, {}),
                ("deepspeed", "fp16", 3, {}),
                ("deepspeed", "fp32", 0, {}),
                ("deepspeed", "bf16", 2, {"round_robin_gradients": True}),
                ("deepspeed", "bf16", 3, {"zero_hpz_partition_size": 2}),
                ("deepspeed", "bf16", 3, {"offload_optimizer": CPU, "offload_param": CPU}),
                ("trainer", "fp32", 3, {}),
                ("trainer", "fp32", 1, {}),
                ("trainer", "fp16", 2, {"offload_optimizer": CPU}),
                ("accelerate", "fp32", 3, {}),
                ("accelerate", "bf16", 3, {"offload_optimizer": CPU}),
            ]
        ),
    ],
    ids=str,
)
@pytest.mark.long
def test_good_configs_pass(adapted, stack, precision, stage, more):
    verdict = adapted(config(stack, stage, precision, **more), stack=stack)
    assert broken(verdict) == set()
    expected = {"frozen", "resume", "export", *(["recovery"] if stage else [])}
    assert expected <= {check.id for check in verdict.checks if check.status == "pass"}


def test_peft_keeps_adapters_in_fp32_beside_partitioned_weights(adapted):
    verdict = adapted(config("trainer", 3), stack="trainer")
    told = {check.message for check in verdict.checks if check.id == "dtypes"}
    assert "adapters are float32, as peft creates them beside partitioned 16-bit weights" in told
    assert "parameters are bfloat16" in told


def test_the_trainer_saves_an_adapter_without_gathering(adapted):
    """`trainer.save_model` does not read the key for a model with adapters, since transformers 5.0.0."""
    made = config("trainer", 3)
    del made["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"]
    assert broken(adapted(made, stack="trainer")) == set()


@pytest.mark.parametrize("stack", ["deepspeed", "accelerate"])
@pytest.mark.long
def test_others_save_no_adapter_without_gathering(adapted, stack):
    made = config(stack, 3)
    del made["zero_optimization"]["stage3_gather_16bit_weights_on_model_save"]
    verdict = adapted(made, stack=stack)
    assert broken(verdict) == {"export"}
    expected = "adapter_model.safetensors is missing" if stack == "deepspeed" else "get_state_dict raises"
    assert expected in only(verdict, "export").message


@pytest.mark.parametrize("stack", ["deepspeed", pytest.param("accelerate", marks=pytest.mark.long)])
def test_zero_to_fp32_leaves_frozen_weights_out_at_stage_1(adapted, stack):
    found = only(adapted(config(stack, 1), stack=stack), "recovery")
    assert (found.status, found.key) == ("warn", "zero_optimization.stage")
    assert found.message == (
        f"zero_to_fp32 recovers the {TRAINED} trained tensors and silently leaves out {FROZEN} frozen ones"
    )


@pytest.mark.parametrize("stack", ["deepspeed", pytest.param("trainer", marks=pytest.mark.long)])
def test_tied_weights_stay_tied(adapted, tmp_path, stack):
    tied = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(tied))
    verdict = adapted(config(stack, 2), stack=stack, model=str(tmp_path))
    assert broken(verdict) == set()
    (found,) = (check for check in verdict.checks if "one tensor" in check.message)
    where = "after the steps" + (" and in what zero_to_fp32 recovers" if stack == "deepspeed" else "")
    assert found.message.endswith(f"are one tensor {where}")


@pytest.fixture
def model(tmp_path):
    """The folder of a model of a type, with its defaults."""

    def model(type, architecture):
        (tmp_path / "config.json").write_text(json.dumps({"model_type": type, "architectures": [architecture]}))
        return str(tmp_path)

    return model


@pytest.mark.parametrize(
    ("type", "architecture", "stage"),
    [
        ("t5", "T5ForConditionalGeneration", 3),
        pytest.param("bert", "BertForMaskedLM", 2, marks=pytest.mark.long),
        pytest.param("gpt2", "GPT2LMHeadModel", 3, marks=pytest.mark.long),
        pytest.param("qwen2_moe", "Qwen2MoeForCausalLM", 3, marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_other_architectures_pass(adapted, model, type, architecture, stage):
    verdict = adapted(config("trainer", stage), stack="trainer", model=model(type, architecture))
    assert broken(verdict) - {"persistence"} == set()


def test_a_model_without_adapters_is_no_fault_of_the_config(adapted, model):
    verdict = adapted(config("deepspeed", 2), model=model("mamba", "MambaForCausalLM"))
    assert verdict.status == "error"
    assert verdict.error.startswith("peft adds no adapters to the linear layers of a Mamba: ")
    assert verdict.error.endswith("; without --model the run uses a tiny Llama")


# --------------------------------------------------------------------------------------------------------------- caught


@pytest.mark.parametrize(
    ("name", "stack", "stage", "checks"),
    [
        # Its checkpoint has no frozen weights, so it cannot bring back moved ones.
        ("frozen weights move", "trainer", 3, {"averaging", "weights", "frozen", "resume"}),
        ("adapter without a tensor", "deepspeed", 2, {"export"}),
        ("frozen weights left out", "deepspeed", 2, {"resume", "recovery"}),
        ("other frozen weights", "accelerate", 2, {"resume", "recovery"}),
        *(
            pytest.param(*one, marks=pytest.mark.long)
            for one in [
                ("nothing", "deepspeed", 2, set()),
                ("empty adapter", "trainer", 3, {"export"}),
                ("frozen weights move", "deepspeed", 2, {"averaging", "weights", "frozen"}),
                ("adapter without tensors", "trainer", 3, {"export"}),
                ("other adapter", "accelerate", 2, {"export"}),
                ("frozen weights left out", "accelerate", 3, {"resume", "recovery"}),
                ("other frozen weights", "deepspeed", 0, {"resume"}),
                ("removed adapter", "deepspeed", 3, {"export"}),
                ("frozen weights move", "accelerate", 0, {"averaging", "weights", "frozen"}),
                ("empty adapter", "deepspeed", 2, {"export"}),
                ("other adapter", "trainer", 2, {"export"}),
                ("frozen weights left out", "deepspeed", 3, {"resume", "recovery"}),
                ("other frozen weights", "deepspeed", 3, {"resume", "recovery"}),
                ("unsharded masters", "deepspeed", 2, {"master-weights"}),
                ("weights never move", "deepspeed", 2, {"update", "optimizer-states"}),
                ("states are not restored", "deepspeed", 2, {"resume"}),
                ("nothing", "accelerate", 3, set()),
            ]
        ),
    ],
)
def test_a_broken_promise_about_adapters_fails_its_check(adapted, mutating, name, stack, stage, checks):
    pool = mutating(name)
    verdict = adapted(config(stack, stage), stack=stack, pool=pool)
    assert broken(verdict) == checks


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty adapter", f"the weights file holds {TRAINED} empty tensors"),
        ("adapter without tensors", f"{TRAINED} of {TRAINED} tensors are missing from the saved adapter"),
    ],
)
def test_an_empty_adapter_is_named(adapted, mutating, name, message):
    pool = mutating(name)
    assert message in only(adapted(config("deepspeed", 2), pool=pool), "export").message


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "stack", "stage", "ranks", "checks"),
    [
        ("frozen weights move", "deepspeed", 2, 3, {"averaging", "weights", "frozen"}),
        ("other adapter", "accelerate", 2, 5, {"export"}),
        ("frozen weights left out", "deepspeed", 3, 3, {"resume", "recovery"}),
        ("nothing", "trainer", 3, 3, set()),
    ],
)
def test_it_is_noticed_on_any_number_of_ranks(adapted, mutating, name, stack, stage, ranks, checks):
    verdict = adapted(config(stack, stage), stack=stack, pool=mutating(name), ranks=ranks)
    assert broken(verdict) == checks
