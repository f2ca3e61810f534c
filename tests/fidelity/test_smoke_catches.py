"""Configs that go wrong in a real training run are caught by one, and those that go well are not blamed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import INSTALLED, measured_with_the_newest
from linted import lint_dict

from ds_lint.facts import Facts
from ds_lint.smoke.small_run.options import RunOptions

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

MODELS = os.path.join(ROOT, "tests", "models")
BATCH = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2}
BASE = {**BATCH, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "bf16": {"enabled": True}}
TRAINER = {"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"}}
FP16 = {**{name: value for name, value in BASE.items() if name != "bf16"}, "fp16": {"enabled": True}}
NVME = {"device": "nvme", "nvme_path": "/local_nvme"}
SCHEDULE = {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 5e-4, "warmup_num_steps": 2}}
GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}


def zero(stage, **more):
    return {"zero_optimization": {"stage": stage, **more}}


def broken(verdict):
    """Of what is not as it was asked for, the checks by their id."""
    return {check.id: check for check in verdict.checks if check.status in ("error", "fail", "warn")}


# ------------------------------------------------------------------------------------------------------------- caught


@pytest.mark.parametrize("stage", [2, *(pytest.param(stage, marks=pytest.mark.long) for stage in (1, 3))])
def test_a_mistyped_section_trains_unsharded(prove, stage):
    verdict = prove({**BASE, "zero_optimizations": {"stage": stage}})
    found = broken(verdict)
    assert verdict.status == "fail"
    assert found["stage"].key == "zero_optimizations.stage"
    assert (found["stage"].expected, found["stage"].observed) == (stage, 0)
    assert found["optimizer-states"].expected == [12368, 12368]
    assert found["optimizer-states"].observed == [24736, 24736]
    assert found["master-weights"].observed == [24736, 24736]
    assert found["keys"].key == "zero_optimizations"


def test_a_learning_rate_that_is_not_filled_stops_the_run_in_the_first_step(prove):
    verdict = prove({**BASE, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, **zero(2)})
    assert (verdict.status, list(broken(verdict))) == ("fail", ["start"])


@pytest.mark.long
def test_a_stage_in_quotes_saves_empty_tensors_under_the_trainer(prove):
    verdict = prove({**TRAINER, **zero("3")}, stack="trainer", arguments={"bf16": True})
    found = broken(verdict)
    assert list(found) == ["export", "generate"]
    assert found["export"].key == "zero_optimization.stage"
    assert "21 empty tensors" in found["export"].message
    assert "without quotes" in found["export"].help


def test_a_stage_in_quotes_is_no_problem_without_the_trainer(prove):
    assert broken(prove({**BASE, **zero("2")})) == {}


@pytest.mark.parametrize(
    ("stack", "config", "arguments", "written"),
    [
        ("deepspeed", BASE, None, {}),
        ("trainer", TRAINER, {"bf16": True}, {"stage3_gather_16bit_weights_on_model_save": False}),
        pytest.param(
            "deepspeed", BASE, None, {"stage3_gather_16bit_weights_on_model_save": False}, marks=pytest.mark.long
        ),
        pytest.param("trainer", TRAINER, {"bf16": True}, {}, marks=pytest.mark.long),
    ],
)
def test_stage_3_without_the_gather_leaves_nothing_to_load(prove, stack, config, arguments, written):
    verdict = prove({**config, **zero(3, **written)}, stack=stack, arguments=arguments)
    found = broken(verdict)
    assert verdict.status == "fail"
    assert list(found) == ["export"]
    (key,) = written or {"stage": 3}
    assert found["export"].key == f"zero_optimization.{key}"
    assert "model.safetensors is missing" in found["export"].message
    assert "zero_to_fp32.py" in found["export"].help


@pytest.mark.parametrize(
    ("stack", "config", "arguments", "checkpoint"),
    [
        ("deepspeed", BASE, None, "checkpoint"),
        pytest.param(
            "trainer", TRAINER, {"bf16": True}, os.path.join("output", "checkpoint-3"), marks=pytest.mark.long
        ),
    ],
)
def test_the_recipe_recovers_the_weights(prove, tmp_path, stack, config, arguments, checkpoint):
    options = RunOptions(keep=str(tmp_path))
    verdict = prove({**config, **zero(3)}, stack=stack, arguments=arguments, options=options)
    recipe = broken(verdict)["export"].help
    folder = tmp_path / "config.json" / checkpoint
    _, _, command = recipe.partition("python ")
    script, source, target = command.split()[:3]
    assert (script, source, target) == ("zero_to_fp32.py", "CHECKPOINT_FOLDER", "OUTPUT_FOLDER")
    ran = subprocess.run(
        [sys.executable, str(folder / script), str(folder), str(tmp_path / "recovered")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    import torch

    (file,) = (tmp_path / "recovered").glob("pytorch_model*.bin")
    recovered = torch.load(file, weights_only=True)
    assert sum(tensor.numel() for tensor in recovered.values()) == 24736
    assert all(tensor.isfinite().all() and tensor.dtype == torch.float32 for tensor in recovered.values())
    assert next(check for check in verdict.checks if check.id == "recovery").status == "pass"


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (zero(2, offload_param={"device": "cpu"}), "zero_optimization.offload_param.device"),
        (zero(0, offload_optimizer={"device": "cpu"}), "zero_optimization.offload_optimizer.device"),
        pytest.param(  # the larger model of a run with NVMe takes its time
            zero(2, offload_optimizer=NVME), "zero_optimization.offload_optimizer.device", marks=pytest.mark.long
        ),
    ],
)
def test_what_is_not_offloaded_is_told(prove, config, key):
    found = broken(prove({**BASE, **config}))
    assert list(found) == ["offload"]
    assert found["offload"].status == "fail"
    assert found["offload"].key == key


@pytest.mark.parametrize(
    ("stack", "config", "arguments"),
    [
        ("deepspeed", BASE, None),
        pytest.param("trainer", TRAINER, {"bf16": True}, marks=pytest.mark.long),
        pytest.param(
            "trainer",
            {**TRAINER, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}},
            {"bf16": True},
            marks=pytest.mark.long,
        ),
    ],
)
def test_nvme_states_do_not_come_back(prove, stack, config, arguments):
    verdict = prove({**config, **zero(3, offload_optimizer=NVME, **GATHERED)}, stack=stack, arguments=arguments)
    found = broken(verdict)
    assert list(found) == ["resume", "recovery"]
    assert {check.key for check in found.values()} == {"zero_optimization.offload_optimizer.device"}
    assert "exp_avg 0" in found["resume"].help
    offload = next(check for check in verdict.checks if check.id == "offload")
    assert (offload.status, offload.adapted) == ("pass", True)


@pytest.mark.parametrize(
    ("stack", "pipeline"),
    [("deepspeed", "pipeline_read"), pytest.param("trainer", "pipeline_write", marks=pytest.mark.long)],
)
@pytest.mark.long
def test_what_a_pipeline_has_written_to_nvme_is_not_in_memory(prove, stack, pipeline):
    offload = {**NVME, "buffer_count": 8, pipeline: True}
    verdict = prove({**BASE, **zero(3, offload_optimizer=offload, **GATHERED)}, stack=stack)
    assert list(broken(verdict)) == ["resume", "recovery"]
    assert "zero_optimization.sub_group_size" in {one.key for one in verdict.adaptations}


@pytest.mark.long
@pytest.mark.parametrize("count", [11, 8])
def test_two_pipelines_need_more_buffers_than_a_single_sub_group_shows(prove, count):
    """The rule about the text alone says the same."""

    def config(count):
        offload = {**NVME, "buffer_count": count, "pipeline_read": True, "pipeline_write": True}
        return {**BASE, **zero(3, offload_optimizer=offload, **GATHERED)}

    def is_reported(count):
        found = lint_dict(config(count), target=INSTALLED, stack="deepspeed", facts=Facts(world_size=2)).findings
        return "DS361" in {finding.code for finding in found}

    verdict = prove(config(count))
    assert "ran out of swap buffers" in broken(verdict)["start"].message
    os.unlink(verdict.log)
    assert is_reported(count)
    assert list(broken(prove(config(12)))) == ["resume", "recovery"]
    assert not is_reported(12)


@pytest.mark.parametrize(
    ("stage", "scale"),
    [
        (1, 2**31),
        (2, 1e9),
        *(pytest.param(*one, marks=pytest.mark.long) for one in [(1, 1e9), (2, 2**31), (3, 2**31), (3, 1e9)]),
    ],
)
def test_a_static_loss_scale_never_steps(prove, stage, scale):
    verdict = prove({**FP16, "fp16": {"enabled": True, "loss_scale": scale}, **zero(stage, **GATHERED)})
    found = broken(verdict)
    assert list(found) == ["overflow"]
    assert (found["overflow"].status, found["overflow"].key) == ("fail", "fp16.loss_scale")
    assert all(step.is_skipped for step in verdict.steps)


def test_lamb_in_host_memory_stops_the_run(prove):
    """Its kernel takes tensors of a GPU alone; Lion has a kernel for the host."""
    offload = zero(2, offload_optimizer={"device": "cpu"})
    lamb = {"optimizer": {"type": "Lamb", "params": {"lr": 1e-3}}, "zero_allow_untested_optimizer": True}
    stopped = broken(prove({**BATCH, **lamb, **offload}))
    assert "p must be a CUDA tensor" in stopped["start"].message
    assert broken(prove({**BATCH, "optimizer": {"type": "Lion", "params": {"lr": 1e-4}}, **offload})) == {}


def test_a_static_loss_scale_never_steps_under_the_trainer(prove):
    config = {**TRAINER, "bf16": {"enabled": False}, "fp16": {"enabled": True, "loss_scale": 2**31}, **zero(2)}
    assert list(broken(prove(config, stack="trainer", arguments={"fp16": True}))) == ["overflow"]


@pytest.mark.parametrize("scale", [{}, {"loss_scale": 2**31}])
def test_stage_0_divides_gradients_that_were_not_scaled(prove, scale):
    verdict = prove({**FP16, "fp16": {"enabled": True, **scale}, **zero(0)})
    found = broken(verdict)
    assert list(found) == ["loss-scale"]
    assert found["loss-scale"].expected == scale.get("loss_scale", 2**16)
    assert found["loss-scale"].observed == 1


def test_a_dynamic_loss_scale_comes_down_by_itself(prove):
    config = {**FP16, "fp16": {"enabled": True, "initial_scale_power": 20, "hysteresis": 1}, **zero(2)}
    verdict = prove(config)
    assert verdict.status in ("pass", "warn")
    assert any(step.is_skipped for step in verdict.steps)
    assert set(broken(verdict)) <= {"overflow"}


def test_a_scheduler_overrides_that_of_the_trainer(prove):
    config = {**TRAINER, **zero(2), "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": SCHEDULE}
    arguments = {"bf16": True, "learning_rate": 5e-4, "lr_scheduler_type": "cosine", "warmup_steps": 2}
    found = broken(prove(config, stack="trainer", arguments=arguments))
    assert list(found) == ["learning-rate"]
    assert (found["learning-rate"].status, found["learning-rate"].key) == ("fail", "scheduler.type")


def test_an_overridden_warm_up_is_refused_by_the_trainer_itself(prove):
    config = {**TRAINER, **zero(2), "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}, "scheduler": SCHEDULE}
    arguments = {"bf16": True, "learning_rate": 5e-4, "warmup_steps": 4}
    verdict = prove(config, stack="trainer", arguments=arguments)
    assert broken(verdict)["start"].key == "scheduler.params.warmup_num_steps"
    os.unlink(verdict.log)


def test_a_clipping_that_the_config_leaves_out_is_not_that_of_the_trainer(prove):
    found = broken(prove({**TRAINER, **zero(1)}, stack="trainer", arguments={"bf16": True, "max_grad_norm": 0.3}))
    assert list(found) == ["clipping"]
    assert (found["clipping"].expected, found["clipping"].observed) == (0.3, 1.0)


def test_another_clipping_is_refused_by_the_trainer_itself(prove):
    config = {**TRAINER, **zero(1), "gradient_clipping": 0.5}
    verdict = prove(config, stack="trainer", arguments={"bf16": True, "max_grad_norm": 2.0})
    assert broken(verdict)["start"].key == "gradient_clipping"
    assert "max_grad_norm=2.0" in broken(verdict)["start"].message
    os.unlink(verdict.log)


def test_a_threshold_under_which_nothing_is_sharded(prove):
    config = {**BASE, **zero(3, stage3_param_persistence_threshold=1e9, **GATHERED)}
    found = broken(prove(config, model=os.path.join(MODELS, "llama")))
    assert list(found) == ["persistence"]
    assert found["persistence"].status == "fail"
    assert found["persistence"].key == "zero_optimization.stage3_param_persistence_threshold"


def test_a_threshold_is_checked_on_the_users_own_shapes_only(prove):
    config = {**BASE, **zero(3, stage3_param_persistence_threshold=1e9, **GATHERED)}
    (check,) = [check for check in prove(config).checks if check.id == "persistence"]
    assert (check.status, "--model" in check.message) == ("skip", True)


def test_an_optimizer_without_a_rate_takes_the_default_of_its_class(prove):
    found = broken(prove({**BASE, "optimizer": {"type": "AdamW"}, **zero(2)}))
    assert list(found) == ["learning-rate"]
    assert (found["learning-rate"].status, found["learning-rate"].key) == ("warn", "optimizer")
    assert "0.001" in found["learning-rate"].message


def test_an_optimizer_without_a_rate_forgets_that_of_the_trainer(prove):
    config = {**TRAINER, **zero(2), "optimizer": {"type": "AdamW"}}
    found = broken(prove(config, stack="trainer", arguments={"bf16": True, "learning_rate": 2e-5}))
    assert list(found) == ["learning-rate"]
    assert (found["learning-rate"].status, found["learning-rate"].key) == ("fail", "optimizer")


# --------------------------------------------------------------------------------------------------------------- good

CPU = {"offload_optimizer": {"device": "cpu"}}
BOTH = {**CPU, "offload_param": {"device": "cpu"}}
GOOD = [
    zero(0),
    zero(1),
    zero(2),
    zero(3, **GATHERED),
    zero(1, **CPU),
    zero(2, **CPU),
    zero(3, **CPU, **GATHERED),
    zero(3, **BOTH, **GATHERED),
]
# Stage 0 does not work in fp16: see test_stage_0_divides_gradients_that_were_not_scaled.
# Each in bf16 whose offloading is not a part of another's, and stage 2 in fp16 and fp32; the others are the long form.
# Under the Trainer, which fills in the same config, stage 3 has fp32; in fp16 it is in test_smoke_reference.py.
SHORT = [
    *((config, "bf16") for config in GOOD if config != zero(3, **CPU, **GATHERED)),
    (zero(2), "fp16"),
    (zero(2), "fp32"),
]
UNDER_THE_TRAINER = [(zero(2), "fp16"), (zero(3, **GATHERED), "fp32")]
GOOD_IN = [
    (config, dtype) for config in GOOD for dtype in ("bf16", "fp16", "fp32") if (config, dtype) != (zero(0), "fp16")
]


def long_unless(short):
    """Each good config in each precision; those that are not in the list are the long form."""
    return [pytest.param(*one, marks=() if one in short else pytest.mark.long) for one in GOOD_IN]


@pytest.mark.parametrize(("config", "dtype"), long_unless(SHORT), ids=str)
def test_a_good_config_passes(prove, config, dtype):
    precision = {dtype: {"enabled": True}} if dtype != "fp32" else {}
    optimizer = {"type": "AdamW", "params": {"lr": 1e-3}}
    verdict = prove({**BATCH, "optimizer": optimizer, "gradient_clipping": 1.0, **precision, **config})
    assert (verdict.status, broken(verdict)) == ("pass", {}), verdict.error


@pytest.mark.parametrize(("config", "dtype"), long_unless(UNDER_THE_TRAINER), ids=str)
def test_a_good_config_passes_under_the_trainer(prove, config, dtype):
    base = {**BATCH, "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto"}
    precision = {name: {"enabled": "auto"} for name in ("bf16", "fp16")}
    arguments = {dtype: True} if dtype != "fp32" else {}
    verdict = prove(
        {**base, "gradient_clipping": "auto", **precision, **config},
        stack="trainer",
        arguments={**arguments, "per_device_train_batch_size": 2, "gradient_accumulation_steps": 2},
    )
    assert (verdict.status, broken(verdict)) == ("pass", {}), verdict.error


@pytest.mark.parametrize("sizes", [{"train_batch_size": 7}, {"train_batch_size": 20, "gradient_accumulation_steps": 4}])
def test_sizes_for_other_numbers_of_ranks_are_fitted(prove, sizes):
    config = {name: value for name, value in BASE.items() if name not in BATCH}
    assert broken(prove({**config, **sizes})) == {}


def test_sizes_for_no_number_of_ranks_are_refused(prove):
    config = {name: value for name, value in BASE.items() if name not in BATCH}
    sizes = {"train_batch_size": 7, "train_micro_batch_size_per_gpu": 2}
    assert "7 != 2 * 1 * 2" in broken(prove({**config, **sizes}))["start"].message


def test_ranks_that_cut_tensors_train_on_the_same_samples(prove):
    verdict = prove({**TRAINER, **zero(1, **GATHERED), "tensor_parallel": {"autotp_size": 2}}, stack="trainer")
    assert set(broken(verdict)) == {"recovery"}  # zero_to_fp32 wants one file of optimizer states
    verdict = prove({**BASE, **zero(1), "tensor_parallel": {"autotp_size": 2}})
    assert set(broken(verdict)) == {"export", "recovery"}  # save_16bit_model saves the part of rank 0
    (batch,) = (check.message for check in verdict.checks if check.id == "batch")
    assert batch == "a step takes 2 x 2 micro steps x 1 copy of the model = 4 samples"


def test_a_loss_in_fp16_and_modules_kept_in_fp32_are_no_findings(prove, tmp_path):
    t5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "decoder_start_token_id": 0}
    (tmp_path / "config.json").write_text(json.dumps(t5))
    assert broken(prove({**FP16, **zero(2)}, model=str(tmp_path))) == {}


def test_clipping_is_seen_where_the_engine_tells_no_norm(prove):
    config = {name: value for name, value in BASE.items() if name != "bf16"}
    verdict = prove({**config, "gradient_clipping": 0.1})
    (clipping,) = (check for check in verdict.checks if check.id == "clipping")
    assert (clipping.status, clipping.message) == ("pass", "gradients are clipped to a norm of 0.1")


# ----------------------------------------------------------------------------------------------------- as people do it


@pytest.fixture
def check(tmp_path, tmp_path_factory):
    """Runs `ds-lint check --smoke` on configs by their names; the exit status, and the findings of the run."""

    def check(configs, *options, status):
        for name, config in configs.items():
            (tmp_path / name).write_text(json.dumps(config, indent=2))
        ran = subprocess.run(
            [sys.executable, "-m", "ds_lint", "check", ".", "--smoke", "--output-format=json", *options],
            capture_output=True,
            cwd=tmp_path,
            env=clean_environment() | {"TMPDIR": str(tmp_path_factory.mktemp("runs"))},  # logs of failing runs stay
            text=True,
            check=False,
            timeout=300,
        )
        assert ran.returncode == status, ran.stderr
        return Reported(json.loads(ran.stdout))

    return check


class Reported:
    """What a report says, by the name of the config."""

    def __init__(self, report):
        self._report = report

    def findings(self, name):
        return {one["code"]: one for one in self._report["findings"] if os.path.basename(one["path"]) == name}

    def of_the_run(self, name):
        return {code: one for code, one in self.findings(name).items() if code.startswith("DS9")}

    def runs(self, name):
        return [run for run in self._report["smoke"] if os.path.basename(run["path"]) == name]


def line_of(finding, text):
    """The line that the finding points at."""
    return text.splitlines()[finding["span"]["start"]["line"] - 1].strip()


def test_the_command_line_reports_what_the_runs_showed(check):
    configs = {
        "mistyped.json": {**BASE, "zero_optimizations": {"stage": 2}},
        "ungathered.json": {**BASE, **zero(3)},
        "offload.json": {**BASE, **zero(2, offload_param={"device": "cpu"})},
        "static.json": {**FP16, "fp16": {"enabled": True, "loss_scale": 2**31}, **zero(2)},
        "refused.json": {**BASE, **zero(2, stagee=3)},
        "good.json": {**BASE, **zero(2)},
    }
    report = check(configs, "--stack=deepspeed", status=1)
    expected = {
        "mistyped.json": ("DS902", '"stage": 2'),
        "ungathered.json": ("DS913", '"stage": 3'),
        "static.json": ("DS908", '"loss_scale": 2147483648'),
    }
    for name, (code, line) in expected.items():
        (found,) = report.of_the_run(name)
        assert (name, found) == (name, code)
        finding = report.of_the_run(name)[code]
        assert (finding["severity"], line_of(finding, json.dumps(configs[name], indent=2))) == ("error", line)
        assert [run["status"] for run in report.runs(name)] == ["fail"]
    assert "no library read" not in report.findings("mistyped.json")["DS101"]["message"]
    assert "no library read" in report.findings("mistyped.json")["DS101"]["confirmed"]
    earlier = report.findings("offload.json")["DS312"]  # a warning, which the run has made a fact
    assert "asks for host memory" in earlier["confirmed"]
    assert earlier["severity"] == "error"
    assert report.of_the_run("offload.json") == {}
    assert report.of_the_run("refused.json") == {}  # the static finding says it, and the run confirms that
    assert any("the run stops" in (one.get("confirmed", "")) for one in report.findings("refused.json").values())
    assert report.findings("good.json") == {}
    assert [run["status"] for run in report.runs("good.json")] == ["pass"]


@pytest.mark.long
def test_the_command_line_reports_what_runs_of_the_trainer_showed(check):
    configs = {
        "quotes.json": {**TRAINER, **zero("3")},
        "rate.json": {**TRAINER, **zero(2), "optimizer": {"type": "AdamW"}},
        "clipping.json": {**TRAINER, **zero(2), "gradient_clipping": 0.5},
    }
    arguments = "--trainer-args=--bf16 --learning_rate 2e-5 --max_grad_norm 2.0"
    report = check(configs, "--stack=trainer", arguments, status=1)
    assert any("empty tensors" in (one.get("confirmed", "")) for one in report.findings("quotes.json").values())
    assert "DS910" in report.of_the_run("rate.json")
    assert "DS911" in report.of_the_run("rate.json")  # the key is left out there
    assert any(one["key"] == "gradient_clipping" for one in report.findings("clipping.json").values())


@pytest.mark.long  # also seen by test_smoke_robust.py
def test_the_command_line_exits_with_0_after_good_runs(check):
    report = check({"good.json": {**BASE, **zero(2)}}, "--stack=deepspeed", status=0)
    assert report.findings("good.json") == {}
    (run,) = report.runs("good.json")
    assert run["status"] == "pass"


@pytest.mark.long  # a run that warns by itself; what --fail-on does with warnings, tests/test_cli.py shows
def test_fail_on_decides_whether_a_warning_counts(check):
    config = {"rate.json": {**BASE, "optimizer": {"type": "AdamW"}, **zero(2)}}
    report = check(config, "--stack=deepspeed", "--fail-on=warning", status=1)
    assert report.of_the_run("rate.json")["DS910"]["severity"] == "warning"
    assert [run["status"] for run in report.runs("rate.json")] == ["warn"]


# ------------------------------------------------------------------------------------- what a first user came upon

GUIDES = {  # the config of the guides to DeepSpeed in Transformers
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto"}},
    "scheduler": {
        "type": "WarmupLR",
        "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"},
    },
    "zero_optimization": {"stage": 2},
}


def test_a_schedule_that_the_config_fills_from_the_arguments_passes(prove):
    arguments = {"bf16": True, "learning_rate": 5e-5, "warmup_steps": 10, "max_steps": 100}
    verdict = prove(GUIDES, stack="trainer", arguments=arguments)
    assert [check for check in verdict.checks if check.status in ("warn", "fail", "error")] == []


def test_an_argument_that_the_release_does_not_know_is_refused(prove):
    verdict = prove(GUIDES, stack="trainer", arguments={"bf16": True, "warmup_ratio": 0.1})
    assert [(check.id, check.status) for check in verdict.checks] == [("start", "fail")]
    assert "warmup_ratio" in verdict.checks[0].message


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "Lion", "Lamb"])
def test_the_states_that_an_optimizer_is_said_to_keep_are_those_that_it_keeps(prove, kind):
    """``_STATES`` in expectation.py, compared with DeepSpeed's own classes."""
    optimizer = {"type": kind, "params": {"lr": 1e-3}}
    config = {**BASE, **zero(2), "optimizer": optimizer, "zero_allow_untested_optimizer": True}
    checks = [check for check in prove(config).checks if check.id == "optimizer-states"]
    assert [check.status for check in checks] == ["pass"] * (1 if kind == "Lion" else 2)


def test_lion_in_host_memory_has_a_second_state(prove):
    offloaded = zero(2, offload_optimizer={"device": "cpu"})
    verdict = prove({**BASE, **offloaded, "optimizer": {"type": "Lion", "params": {"lr": 1e-3}}})
    assert [check.message for check in verdict.checks if check.status not in ("pass", "skip")] == []
    assert sum(check.id == "optimizer-states" for check in verdict.checks) == 2


@pytest.mark.parametrize("ranks", [3, pytest.param(8, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "config",
    [zero(2), *(pytest.param(one, marks=pytest.mark.long) for one in (zero(0), zero(1), zero(3, **BOTH)))],
    ids=str,
)
def test_all_storages_of_a_rank_are_accounted_for_on_any_number_of_ranks(prove, config, ranks):
    verdict = prove({**BASE, **config}, options=RunOptions(ranks=ranks))
    (memory,) = (check for check in verdict.checks if check.id == "memory")
    assert memory.status == "pass", memory.message
    assert all(held.get("unknown", 0) < 100 for held in memory.observed)


def test_reduce_buckets_are_listed_apart(prove):
    (check,) = (check for check in prove({**BASE, **zero(3, **GATHERED)}).checks if check.id == "memory")
    assert (check.status, check.observed[0]["reduce buckets"]) == ("pass", 10**9)
    assert check.expected["gradients"] == 24736  # the flat buffer of a rank's share in bf16


@pytest.mark.parametrize(("ranks", "group"), [(4, 2), pytest.param(4, 4, marks=pytest.mark.long)])
def test_the_ranks_of_a_group_share_a_secondary_partition(prove, ranks, group):
    config = {**BASE, **zero(3, zero_hpz_partition_size=group, **GATHERED)}
    verdict = prove(config, options=RunOptions(ranks=ranks))
    (check,) = (check for check in verdict.checks if (check.key or "").endswith("zero_hpz_partition_size"))
    assert (broken(verdict), check.id, check.status) == ({}, "parameters", "pass")
    assert check.observed == [24736 // group] * ranks
