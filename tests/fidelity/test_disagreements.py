"""docs/disagreements.md: what the libraries do where popular documentation says something else.

Every section of the page has the test of its name here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from linted import lint_bytes

pytest.importorskip("deepspeed")

from installed import knowledge, measured_with_the_newest
from oracle import Oracle

from ds_lint.knowledge.keys import Knowledge, Target

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

PAGE = Path(__file__).parent.parent.parent / "docs" / "disagreements.md"
ADAMW: dict[str, Any] = {"type": "AdamW", "params": {"lr": 1e-3}}


def config(stage: int = 0, optimizer: dict[str, Any] = ADAMW, **zero: Any) -> dict[str, Any]:
    return {"train_batch_size": 4, "optimizer": optimizer, "zero_optimization": {"stage": stage, **zero}}


@pytest.fixture(scope="module")
def oracle():
    with Oracle() as running:
        yield running


def default(path: str, release: str | None = None) -> object:
    """What ds-lint knows of a default; test_knowledge.py holds that of the newest release to the library."""
    known = knowledge() if release is None else Knowledge(Target(deepspeed=release))
    return known.find(tuple(path.split("."))).facts.get("default")


def zero_defaults(stage: int) -> Any:
    """DeepSpeed's own record of the section."""
    from deepspeed.runtime.zero.config import get_zero_config

    return get_zero_config({"zero_optimization": {"stage": stage, "offload_optimizer": {}, "offload_param": {}}})


def test_every_section_has_its_test():
    titles = re.findall(r"^## (.*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    names = {f"test_{re.sub('[^a-z0-9]+', '_', title.lower())}" for title in titles}
    assert names == {name for name in globals() if name.startswith("test_")} - {"test_every_section_has_its_test"}


def test_typos_fall_back_on_the_default(oracle):
    assert oracle.verdict(config() | {"gradient_cliping": 1}).ignored == {"gradient_cliping"}
    assert oracle.verdict(config() | {"aio": {"blocksize": 1}}).ignored == {"aio.blocksize"}
    for typo in (
        config(2, overlap_com=True),
        config() | {"fp16": {"enable": True}},
        config() | {"bf16": {"enable": 1}},
    ):
        assert oracle.verdict(typo).rejected_at == "parse"
    assert not Knowledge(Target(deepspeed="0.6.7")).find(("zero_optimization",)).strict
    assert Knowledge(Target(deepspeed="0.7.0")).find(("zero_optimization",)).strict
    for section in ("fp16", "bf16"):
        assert not Knowledge(Target(deepspeed="0.17.0")).find((section,)).strict
        assert Knowledge(Target(deepspeed="0.17.1")).find((section,)).strict


def steps_to_the_same_scale(engine: Any) -> dict[str, Any]:
    """How many steps the scaler of the engine skips until the scale is 2 to the power of 10."""
    scaler, skipped = engine.optimizer.loss_scaler, 0
    while scaler.cur_scale > 2**10:
        scaler.update_scale(overflow=True)
        skipped += 1
    return {"skipped": skipped}


def test_a_higher_initial_scale_power(oracle):
    skipped = {
        power: oracle.verdict(
            config(2) | {"fp16": {"enabled": True, "initial_scale_power": power}},
            level="initialize",
            look=steps_to_the_same_scale,
        ).facts["skipped"]
        for power in (16, 32)
    }
    assert skipped[32] - skipped[16] == 16


def saved_and_loaded(engine: Any) -> dict[str, Any]:
    """What is left of a checkpoint and of a saved model, in a run that has not gathered anything."""
    import os
    import tempfile

    import torch

    with tempfile.TemporaryDirectory() as folder:
        engine.save_checkpoint(folder)
        before = [group.clone() for group in engine.optimizer.fp32_partitioned_groups_flat]
        for group in engine.optimizer.fp32_partitioned_groups_flat:
            group.data.zero_()
        engine.load_checkpoint(folder)
        after = engine.optimizer.fp32_partitioned_groups_flat
        is_saved = engine.save_16bit_model(f"{folder}/model")
        has_weights = os.path.exists(f"{folder}/model/pytorch_model.bin")
    is_same = all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    return {"resumed": is_same, "model": bool(is_saved) or has_weights}


def test_gathering_for_resuming(oracle):
    facts = oracle.verdict(config(3) | {"bf16": {"enabled": True}}, look=saved_and_loaded).facts
    assert (facts["resumed"], facts["model"]) == (True, False)


def test_an_example_that_is_not_json(oracle):
    text = """{
      "train_batch_size": 4,
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
      "zero_optimization": {
        "stage": 2,
        "contiguous_gradients": true
        "round_robin_gradients": true
      }
    }"""
    assert oracle.verdict(text).error is None
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    found = lint_bytes(text.encode(), "a.json", stack="trainer").findings
    assert [finding.code for finding in found] == ["DS002"]


def test_gradient_clipping_has_a_default(oracle):
    assert oracle.verdict(config()).facts["gradient_clipping"] == 1.0
    assert (default("gradient_clipping", "0.19.2"), default("gradient_clipping", "0.19.3")) == (0.0, 1.0)


def test_communication_is_not_overlapped():
    assert [zero_defaults(stage).overlap_comm for stage in (0, 1, 2, 3)] == [False, False, False, True]


def test_the_prefetch_bucket():
    section = zero_defaults(3)
    assert (section.prefetch_bucket_size, section.param_persistence_threshold) == (50_000_000, 100_000)
    assert section.sub_group_size == 1_000_000_000
    runs = knowledge().runs(("zero_optimization", "stage3_prefetch_bucket_size"))
    assert {run["default"] for run in runs} == {50_000_000}


def test_page_locked_memory():
    section = zero_defaults(3)
    assert section.offload_optimizer.pin_memory
    assert section.offload_param.pin_memory
    for key in ("offload_optimizer", "offload_param"):
        path = f"zero_optimization.{key}.pin_memory"
        assert (default(path, "0.19.4"), default(path, "0.19.5")) == (False, True)


def test_a_report_every_ten_steps():
    from deepspeed.runtime.config import DeepSpeedConfig

    assert DeepSpeedConfig({"train_batch_size": 1}).steps_per_print is None
    assert (default("steps_per_print", "0.15.1"), default("steps_per_print", "0.15.2")) == (10, None)


def test_gradient_hooks(oracle):
    assert oracle.verdict(config(1, grad_hooks=True)).rejected_at == "parse"
    assert knowledge().last_release_of(("zero_optimization", "grad_hooks")) is None


def test_threads_for_asynchronous_input_and_output(oracle):
    assert oracle.verdict(config() | {"aio": {"thread_count": 2}}).ignored == {"aio.thread_count"}
    assert not oracle.verdict(config() | {"aio": {"intra_op_parallelism": 2}}).ignored
    assert knowledge().last_release_of(("aio", "thread_count")) == "0.16.3"


@pytest.mark.parametrize("kind", ["OneBitAdam", "ZeroOneAdam", "OneBitLamb"])
def test_optimizers_that_are_gone(oracle, kind):
    verdict = oracle.verdict({"train_batch_size": 4, "optimizer": {"type": kind, "params": {"lr": 1e-3}}})
    assert verdict.rejected_at == "initialize"
    assert knowledge().last_release_of_type("optimizer.params", kind.lower()) == "0.19.6"


def adam_mode(engine: Any) -> dict[str, Any]:
    return {"decoupled": engine.basic_optimizer.adam_w_mode}


def test_adam_is_adamw(oracle):
    adam = {"type": "Adam", "params": {"lr": 1e-3, "weight_decay": 0.1}}
    assert oracle.verdict(config(optimizer=adam), look=adam_mode).facts["decoupled"]


@pytest.mark.parametrize("section", [{"amp": {"enabled": False}}, {"sparse_gradients": False}])
def test_sections_that_are_gone(oracle, section):
    assert oracle.verdict(config() | section).rejected_at == "parse"


def test_zero_optimization_that_is_true(oracle):
    sample = {"train_batch_size": 4, "optimizer": ADAMW, "zero_optimization": True}
    assert oracle.verdict(sample).facts["stage"] == 1
    from accelerate.utils.deepspeed import HfDeepSpeedConfig

    with pytest.raises(AttributeError):
        HfDeepSpeedConfig(sample).is_zero3()


def offload(engine: Any) -> dict[str, Any]:
    return {"offloads": bool(engine.optimizer.cpu_offload), "class": type(engine.basic_optimizer).__name__}


def test_offload_at_stage_1(oracle):
    facts = oracle.verdict(config(1, offload_optimizer={"device": "cpu"}), look=offload).facts
    assert (facts["offloads"], facts["class"]) == (True, "DeepSpeedCPUAdam")


def test_stages_end_with_2(oracle):
    from deepspeed.runtime.zero.config import ZERO_FORMAT

    assert '"stage": [0|1|2],' in ZERO_FORMAT
    assert oracle.verdict(config(3)).facts["stage"] == 3


def test_partitioned_activations(oracle):
    from deepspeed.runtime.activation_checkpointing.config import ACTIVATION_CHKPT_FORMAT

    assert '"partitioned_activations"' in ACTIVATION_CHKPT_FORMAT
    section = {"activation_checkpointing": {"partitioned_activations": True}}
    assert oracle.verdict(config() | section).ignored == {"activation_checkpointing.partitioned_activations"}
