"""Rules about the models that a training script runs beside the one that it trains (DS88x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.features import zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

_STAGE = ("zero_optimization", "stage")


@rule(
    "DS880",
    "partitioned-model-without-engine",
    severity="error",
    effects=("rejected",),
    keys=("zero_optimization",),
    elsewhere=True,
)
def partitioned_model_without_engine(config: Config) -> Iterator[Problem]:
    """A second model that transformers builds in partitions at stage 3, and that the script runs without an engine.

    Source: ``from_pretrained`` enters ``deepspeed.zero.Init`` if ``is_deepspeed_zero3_enabled``; only the hooks of an
    engine gather the weights (``deepspeed/runtime/zero/parameter_offload.py``).
    """
    launch, stage = config.facts.launch, config.member(*_STAGE)
    if launch is None or launch.script is None or launch.stack is None or stage is None or zero_stage(config) != 3:
        return
    calls = launch.script.calls
    if calls.quantized or (launch.builds_whole_models and launch.stack == "accelerate"):
        return
    for model in calls.second_models:
        yield Problem(
            _STAGE,
            stage.value.span,
            f"stage 3 partitions the second model of `{model.function}`, and no engine gathers its weights: "
            f"`{model.run}(...)` raises",
            rejected("train"),
            help="Give the model to an engine of its own, `deepspeed.initialize(model=..., config=...)` without an "
            "optimizer, or load it whole: before the script makes what tells transformers of stage 3, which is "
            "HfDeepSpeedConfig, TrainingArguments or Accelerator. The first layer raises "
            "\"RuntimeError: 'weight' must be 2-D\", or a similar error about shapes.",
            label="partitions every model that transformers loads",
            severity=None if model.is_certain else "warning",
            related=[
                *launch.related(model.run_place, "runs on weights without elements"),
                *launch.related(model.place, "loaded in partitions"),
            ],
            subject=(model.function, model.run),
        )
