"""What changes between the run that saved a checkpoint and the config of the one that resumes from it.

Each difference was tried with DeepSpeed: ``_get_ckpt_name``, ``_get_zero_ckpt_name`` and ``_load_checkpoint`` in
``deepspeed/runtime/engine.py``, ``load_state_dict`` of the optimizers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.checkpoints.deepspeed_folder import is_enabled
from ds_lint.checkpoints.record import RETURNS_NONE, TRAINER_RAISES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.record import EngineState, SavedFolder

_NOT_VALID = f'{TRAINER_RAISES} "Can\'t find a valid checkpoint"'
_SILENT = "an AssertionError without a message"
_OF_ADAM = ("adam", "adamw", "fusedadam", "radam", "nadam", "deepspeedcpuadam")
_WITHOUT_MOMENTS = {"sgd": "momentum", "adagrad": "sum"}  # what torch's own steps miss in states of Adam


class ResumedConfig(NamedTuple):
    """What decides of a config whether it loads a checkpoint; None is not known."""

    stage: int | None = None
    dtype: str | None = None
    loads_universal: bool = False
    is_elastic: bool = False
    optimizer: str | None = None  # the type, in lower case
    scheduler: str | None = None
    stack: str | None = None


class ConfigDifference(NamedTuple):
    """A sentence about a difference, the key of the config, and whether loading or the first step raises."""

    key: str
    text: str
    raises: bool = True


def differences(saved: SavedFolder, resumed: ResumedConfig) -> list[ConfigDifference]:
    """What the run that resumes has otherwise, and what comes of it."""
    engine = saved.engine
    if engine is None:
        return list(_of_other_kind(saved))
    if saved.kind == "universal":
        return list(_of_universal(saved, resumed))
    found = list(_of_stage(saved, resumed))
    if not any(one.raises for one in found):
        found += _of_dtype(saved, engine, resumed)
    if not any(one.raises for one in found):
        found += [*_of_optimizer(engine, resumed), *_of_scheduler(engine, resumed)]
    return found


def _of_other_kind(saved: SavedFolder) -> Iterator[ConfigDifference]:
    if saved.kind in ("fsdp", "trainer", "accelerate", "lightning", "megatron"):
        name = {"fsdp": "FSDP", "megatron": "Megatron-LM"}.get(saved.kind, saved.kind.capitalize())
        yield ConfigDifference(
            "zero_optimization",
            f"the folder is of {name}{'' if saved.kind == 'fsdp' else ' without DeepSpeed'}, and DeepSpeed finds no "
            f"checkpoint of its own in it: {_NOT_VALID}",
        )
    elif saved.partition == "none":
        yield ConfigDifference(
            "zero_optimization",
            f"the folder has no states of DeepSpeed: {_NOT_VALID}, and load_checkpoint() {RETURNS_NONE}",
        )


def _of_universal(saved: SavedFolder, resumed: ResumedConfig) -> Iterator[ConfigDifference]:
    if not resumed.loads_universal:
        yield ConfigDifference(
            "checkpoint.load_universal",
            "the checkpoint is universal and `checkpoint.load_universal` is not set: load_checkpoint() looks for "
            f"`latest`, and {RETURNS_NONE} without it; {TRAINER_RAISES}",
        )
    elif resumed.stage is not None and saved.stage is not None and _layout(resumed.stage) != _layout(saved.stage):
        raised = "AttributeError" if resumed.stage == 0 and saved.stage < 3 else _SILENT
        yield ConfigDifference(
            "zero_optimization.stage",
            f"the universal checkpoint is of stage {saved.stage}, and the config has stage {resumed.stage}: "
            f"load_checkpoint() raises {raised}",
        )


def _layout(stage: int) -> int:
    """Stages whose files have the same names: 1 and 2 differ in gradients only."""
    return 1 if stage == 2 else stage


def _of_stage(saved: SavedFolder, resumed: ResumedConfig) -> Iterator[ConfigDifference]:
    if resumed.loads_universal:
        yield ConfigDifference(
            "checkpoint.load_universal",
            "`checkpoint.load_universal` is set and the checkpoint is not universal: load_checkpoint() raises "
            "ValueError: Invalid for universal checkpoint: latest_universal does not exist",
        )
        return
    before, after = saved.stage, resumed.stage
    if before is None or after is None or before == after:
        return
    what = f"saved at stage {before}, and the config has stage {after}"
    if _layout(before) == _layout(after):
        yield ConfigDifference("zero_optimization.stage", f"{what}: it loads, the files of 1 and 2 are the same", False)
    elif 3 in (before, after):
        yield ConfigDifference("zero_optimization.stage", f"{what}: load_checkpoint() raises {_SILENT}")
    elif before == 0:
        yield ConfigDifference(
            "zero_optimization.stage",
            f"{what}: load_checkpoint() raises FileNotFoundError, the states of stage 0 are not partitioned",
        )
    else:
        raised = "TypeError, AttributeError in fp32" if before else ""
        yield ConfigDifference("zero_optimization.stage", f"{what}: load_checkpoint() raises {raised}")


def _of_dtype(saved: SavedFolder, engine: EngineState, resumed: ResumedConfig) -> Iterator[ConfigDifference]:
    before = dtype_of(engine.config)
    if before is None or resumed.dtype is None or before == resumed.dtype:
        return
    what = f"saved in {before}, and the config has {resumed.dtype}"
    if saved.stage == 0:
        yield ConfigDifference(resumed.dtype, f"{what}: load_checkpoint() raises KeyError at stage 0")
    elif "bf16" in (before, resumed.dtype):
        prefix = "bf16_" if resumed.dtype == "bf16" else ""
        names = {file.path.rpartition("/")[2] for file in saved.files if file.status == "ok"}
        has_both = any("from a run in" in note for note in saved.notes) and names
        raised = "it loads the states of another run" if has_both else "load_checkpoint() raises FileNotFoundError"
        yield ConfigDifference(
            resumed.dtype, f"{what}: the engine reads {prefix}zero_pp_rank_* and {raised}", raises=not has_both
        )
    else:
        yield ConfigDifference(resumed.dtype, f"{what}: it loads", raises=False)


def dtype_of(config: dict[str, object]) -> str | None:
    """The dtype that the config in a checkpoint has switched on; None if it does not tell."""
    if not config:
        return None
    switches = {"bf16": is_enabled(config, "bf16", "bfloat16"), "fp16": is_enabled(config, "fp16")}
    if None in switches.values():
        return None
    return next((name for name, is_on in switches.items() if is_on), "fp32")


def _of_optimizer(engine: EngineState, resumed: ResumedConfig) -> Iterator[ConfigDifference]:
    if engine.is_elastic != resumed.is_elastic and resumed.is_elastic:
        yield ConfigDifference(
            "zero_optimization.elastic_checkpoint", "saved without `elastic_checkpoint`: it loads", False
        )
    if resumed.optimizer is None or engine.moments is None:
        return
    has_moments = engine.moments >= {"exp_avg", "exp_avg_sq"}
    if has_moments and resumed.optimizer in _WITHOUT_MOMENTS:
        missed = _WITHOUT_MOMENTS[resumed.optimizer]
        yield ConfigDifference(
            "optimizer.type",
            f"the states are those of Adam, and the config has {resumed.optimizer}: KeyError: '{missed}' in the first "
            "step, or in load_checkpoint()",
        )
    elif not has_moments and resumed.optimizer in _OF_ADAM and engine.moments <= {"momentum_buffer", "sum"}:
        yield ConfigDifference(
            "optimizer.type",
            f"the states have no moments of Adam, and the config has {resumed.optimizer}: KeyError: 'betas' in the "
            "first step",
        )


def _of_scheduler(engine: EngineState, resumed: ResumedConfig) -> Iterator[ConfigDifference]:
    if resumed.scheduler and engine.scheduler is None and engine.config and "scheduler" not in engine.config:
        yield ConfigDifference(
            "scheduler",
            f"saved without a scheduler, and the config has {resumed.scheduler}: load_checkpoint() raises TypeError: "
            "'NoneType' object is not subscriptable",
        )
