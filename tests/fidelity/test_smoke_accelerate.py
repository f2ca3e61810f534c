"""A script with its own loop and Accelerate: good configs pass, and what Accelerate rejects or changes is found."""

from __future__ import annotations

import json

import pytest
from installed import measured_with_the_newest

from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
}
BF16 = {"bf16": {"enabled": "auto"}}
NUMBERS = {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 4}
OPTIMIZER = {"optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}}}
SCHEDULER = {
    "scheduler": {
        "type": "WarmupDecayLR",
        "params": dict.fromkeys(("warmup_min_lr", "warmup_max_lr", "warmup_num_steps", "total_num_steps"), "auto"),
    }
}
CPU = {"device": "cpu"}


def zero(stage, **more):
    return {"zero_optimization": {"stage": stage, **(GATHERED if stage == 3 else {}), **more}}


@pytest.fixture
def accelerated(prove):
    """Proves a config with a loop of Accelerate on some ranks."""

    def accelerated(config, *, ranks=2, **more):
        return prove(config, stack="accelerate", options=RunOptions(ranks=ranks, seconds=120.0), **more)

    return accelerated


def broken(verdict):
    return {check.id: check for check in verdict.checks if check.status in ("error", "fail", "warn")}


def passed(verdict):
    return {check.id for check in verdict.checks if check.status == "pass"}


def only(verdict, id):
    (found,) = (check for check in verdict.checks if check.id == id)
    return found


# --------------------------------------------------------------------------------------------------------------- passes


@pytest.mark.parametrize(
    ("stage", "ranks"),
    [
        (1, 2),
        (3, 2),
        *(pytest.param(*one, marks=pytest.mark.long) for one in [(0, 2), (0, 3), (1, 3), (2, 2), (2, 3), (3, 3)]),
    ],
)
def test_every_stage_trains_resumes_and_exports(accelerated, stage, ranks):
    verdict = accelerated({**AUTO, **BF16, **zero(stage)}, ranks=ranks)
    assert broken(verdict) == {}
    assert verdict.error is None
    shares = {"parameters", "master-weights", "optimizer-states", "gradients", "recovery"} if stage else set()
    assert passed(verdict) >= {"stage", "dtypes", "loss", "batch", "clipping", "resume", "export", "keys"} | shares
    assert only(verdict, "batch").observed == 2 * ranks * (2 if stage in (1, 2) else 1)


@pytest.mark.parametrize(
    ("stage", "ranks"), [(2, 3), *(pytest.param(*one, marks=pytest.mark.long) for one in [(2, 2), (3, 2), (3, 3)])]
)
def test_optimizer_and_scheduler_get_what_the_script_passes(accelerated, stage, ranks):
    verdict = accelerated({**AUTO, **BF16, **OPTIMIZER, **SCHEDULER, **zero(stage)}, ranks=ranks)
    assert broken(verdict) == {}
    # Two steps of warm-up to the rate of DummyOptim, and down to the end of the five steps.
    assert only(verdict, "learning-rate").observed == pytest.approx([0, 0, 1e-3, 1e-3, 2e-3 / 3])
    assert only(verdict, "learning-rate").status == "pass"


@pytest.mark.parametrize(
    "config",
    [
        {**NUMBERS, "bf16": {"enabled": True}, **zero(2, offload_optimizer=CPU)},
        {**NUMBERS, "bf16": {"enabled": True}, **OPTIMIZER, **zero(3, offload_optimizer=CPU, offload_param=CPU)},
        pytest.param({**NUMBERS, **zero(1)}, marks=pytest.mark.long),
        {"train_micro_batch_size_per_gpu": 4, **SCHEDULER, **zero(1)},
        pytest.param({**NUMBERS, "train_micro_batch_size_per_gpu": "auto", **zero(2)}, marks=pytest.mark.long),
        {**AUTO, "train_batch_size": 64, **zero(2)},
        {**AUTO, "fp16": {"enabled": "auto"}, **OPTIMIZER, **zero(2)},
        {**AUTO, **BF16, **zero(3, stage3_param_persistence_threshold="auto", reduce_bucket_size="auto")},
    ],
    ids=" ".join,
)
def test_good_configs_pass(accelerated, config):
    verdict = accelerated(config)
    assert (verdict.error, broken(verdict)) == (None, {})
    assert {"resume", "export", "batch"} <= passed(verdict)
    if "offload_optimizer" in config["zero_optimization"]:
        assert "offload" in passed(verdict)


def test_buffers_and_tied_weights_of_the_model_are_known(accelerated, tmp_path):
    # Position ids and token types of 1 KiB each, and a head that is tied to the embedding.
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", "architectures": ["BertForMaskedLM"]}))
    verdict = accelerated({**AUTO, **BF16, **zero(2)}, model=str(tmp_path))
    assert broken(verdict) == {}
    assert "configured buffers and inputs: 2,048 bytes of model buffers" in only(verdict, "memory").message
    assert any("are one tensor after the steps" in check.message for check in verdict.checks if check.id == "export")


def test_missing_accumulation_steps_are_inserted_as_one(accelerated):
    verdict = accelerated({"train_micro_batch_size_per_gpu": 4, **zero(0)})
    found = only(verdict, "batch")
    assert (found.status, found.observed) == ("pass", 8)


def test_the_script_is_told(accelerated):
    (told,) = (one for one in accelerated({**AUTO, **BF16, **zero(0)}).adaptations if one.before == "your script")
    assert told.after == (
        "Accelerator(gradient_accumulation_steps=1, mixed_precision='bf16'), DataLoader(batch_size=2), "
        "AdamW(lr=0.001, weight_decay=0.01)"
    )


# --------------------------------------------------------------------------------------------------------------- caught


@pytest.mark.parametrize(
    ("config", "key", "message"),
    [
        (NUMBERS, None, "Please specify the ZeRO optimization config"),
        ({"train_batch_size": "auto", **zero(2)}, "train_batch_size", "`train_batch_size` not found in kwargs"),
        (
            {**AUTO, "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto"}}, **zero(2)},
            "optimizer.params.betas",
            "`optimizer.params.betas` not found in kwargs",
        ),
        (
            {**AUTO, **BF16, "fp16": {"enabled": True}, **zero(2)},
            "bf16",
            "`--mixed_precision` arg cannot be set to `bf16` when `fp16` is set",
        ),
        ({**NUMBERS, "train_batch_size": 63, **zero(2)}, None, "63 != 16 * 4 * 2"),
    ],
)
def test_what_accelerate_rejects_is_the_finding(accelerated, config, key, message):
    verdict = accelerated(config)
    assert (verdict.status, verdict.error, list(broken(verdict))) == ("fail", None, ["start"])
    found = only(verdict, "start")
    assert message in found.message
    assert found.key == key


def test_weights_that_get_state_dict_refuses(accelerated):
    verdict = accelerated({**AUTO, **BF16, "zero_optimization": {"stage": 3}})
    assert list(broken(verdict)) == ["export"]
    found = only(verdict, "export")
    assert found.key == "zero_optimization.stage"
    assert "accelerator.get_state_dict raises: Cannot get 16bit model weights because" in found.message
    assert "zero_to_fp32.py" in found.help
    assert {"resume", "recovery"} <= passed(verdict)


@pytest.mark.long
def test_a_stage_in_quotes_saves_empty_tensors(accelerated):
    verdict = accelerated({**AUTO, **BF16, "zero_optimization": {"stage": "3", **GATHERED}})
    assert list(broken(verdict)) == ["export", "generate"]
    assert "21 empty tensors" in only(verdict, "export").message


def test_a_key_that_nothing_reads(accelerated):
    verdict = accelerated({**AUTO, **zero(1), "gradient_cliping": 0.5})
    assert broken(verdict)["keys"].key == "gradient_cliping"


def test_the_real_number_of_ranks_is_simulated(pool):
    from installed import INSTALLED

    from ds_lint.facts import Sources
    from ds_lint.facts.readers import gather
    from ds_lint.smoke.small_run import proof
    from ds_lint.source import documents

    config = {**AUTO, **BF16, **zero(3)}
    trained, world = proof.prove(
        pool,
        documents.from_bytes(json.dumps(config).encode(), "config.json"),
        stack="accelerate",
        facts=gather(Sources(world_size=64)),
        target=INSTALLED,
        options=RunOptions(),
    )
    assert (trained.status, world.status, world.world_size) == ("pass", "pass", 64)
    assert any("DataLoader(batch_size=2)" in str(one.after) for one in world.adaptations)
    assert only(world, "world-shares").status == "pass"
