"""What the ranks of a user's script show of an engine, made up: two ranks of stage 2 that do all as they are asked."""

from __future__ import annotations

from typing import Any

from linted import config_of

from ds_lint.diagnostics.verdict import CPU, Step
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.expectation import Expectation
from ds_lint.smoke.records.engine_trace import EngineTrace, Replayed
from ds_lint.smoke.records.job import Engine, Evidence, TrainedParameter
from ds_lint.smoke.script.expectation import expectation_of
from ds_lint.smoke.verify.check import ObservedRun, Repetition, ScriptRun
from ds_lint.source import documents

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2},
}


def shown(rank: int = 0, **changes: Any) -> EngineTrace:
    """An engine on a rank."""
    engine = Engine(
        stage=2, train_batch_size=8, micro_batch_size=2, accumulation_steps=2, clipping=0.0,
        zero_optimizer="DeepSpeedZeroOptimizer", communication_dtype="float32", offloads_optimizer=None,
        offloads_parameters=None, is_pinned=None,
    )  # fmt: skip
    evidence = Evidence(
        rank,
        engine=engine,
        parameters=[TrainedParameter("weight", 10, 0)],
        steps=[Step(loss=1.0, learning_rates=[1e-3], loss_scale=None, gradient_norm=1.0, is_skipped=False)] * 3,
        fingerprint={f"weight of {rank}": "a", f"state of {rank}": "b"},
    )
    one = EngineTrace(
        number=1, evidence=evidence, stack="deepspeed", world_size=2, data_parallel=2, multiplied_by=2, mode=CPU,
        model_class="__main__.Net", config=dict(CONFIG), is_trained=True, has_checkpoint=True,
        batches=[[f"{rank} {step}"] * 2 for step in range(3)], rows=[2, 2], micro_steps=[2, 2, 2],
        replayed=replayed(rank),
    )  # fmt: skip
    for name, value in changes.items():
        assert hasattr(one, name)
        setattr(one, name, value)
    return one


def replayed(rank: int = 0, **changes: Any) -> Replayed:
    """The two steps after the checkpoint on a rank."""
    one = Replayed(
        restored={f"weight of {rank}": "a", f"state of {rank}": "b"},
        outputs=["c", "d"],
        losses=[2.5, 2.25],
        rates=[[1e-3], [1e-3]],
        last={f"weight of {rank}": "e"},
    )
    for name, value in changes.items():
        assert hasattr(one, name)
        setattr(one, name, value)
    return one


UNSAVED = {"steps": 3, "steps_after": 2, "exported": "nothing was saved", "real_shapes": "no model is given"}


def runs(ranks: list[EngineTrace], repetition: Repetition | None = None, *, mode: str = CPU) -> ScriptRun:
    """What is verified of the engine of these ranks."""
    train = [one.evidence for one in ranks]
    return ScriptRun(
        train=train, mode=mode, is_of_transformers=False, ranks=ranks, repetition=repetition, recomputed=None, **UNSAVED
    )


def observed(train: list[Evidence], mode: str = CPU) -> ObservedRun:
    """The same of ranks with this evidence, for what is verified of a run of either kind."""
    return ObservedRun(train=train, mode=mode, **UNSAVED)


def expected(one: EngineTrace, config: dict[str, Any] | None = None, **known: Any) -> Expectation:
    """What a config asks for in an engine."""
    document = documents.from_dict(config or CONFIG)
    known = {"stack": one.stack, "facts": Facts(world_size=one.world_size), **known}
    return expectation_of(config_of(document, target=Target(), **known), one)
