"""Training arguments that TrainingArguments accepts and the Trainer rejects: schedule, optimizer and saving.

If the config has an optimizer or a schedule, the Trainer builds none and does not check the arguments for it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from ds_lint.semantics.config import Config

    Refusal = tuple[tuple[str, ...], str]


def trainer_refusals(config: Config) -> Iterator[Refusal]:
    """The arguments that the Trainer rejects, and why.

    Sources: ``Trainer._validate_args``, ``create_accelerator_and_postprocess`` and ``create_scheduler`` in
    ``transformers/trainer.py``; ``_setup_low_rank_optimizer`` in ``transformers/trainer_optimizer.py``.
    """
    if _saves_the_best_of_nothing(config):
        yield ("save_strategy", "metric_for_best_model"), "save_strategy best requires metric_for_best_model"
    yield from _steps_given_twice(config)
    if config.node("optimizer") is None:
        yield from _modules(config)
    if config.node("scheduler") is None:
        yield from _schedule(config)
        yield from _end_of_polynomial(config)


def _saves_the_best_of_nothing(config: Config) -> bool:
    """Whether a metric is missing; TrainingArguments uses the loss if the best model or the schedule needs one."""
    saves, measures, loads, schedule = (
        config.argument(name)
        for name in ("save_strategy", "metric_for_best_model", "load_best_model_at_end", "lr_scheduler_type")
    )
    if saves is None or measures is None or loads is None or schedule is None:
        return False
    takes_the_loss = bool(loads.value) or schedule.value in ("reduce_lr_on_plateau", "greedy")
    return saves.value == "best" and measures.value is None and not takes_the_loss


def _steps_given_twice(config: Config) -> Iterator[Refusal]:
    accelerator = _section(config, "accelerator_config")
    accumulation = accelerator.get("gradient_accumulation_kwargs") if accelerator else None
    steps = config.argument("gradient_accumulation_steps")
    if not isinstance(accumulation, dict) or "num_steps" not in accumulation or steps is None:
        return
    if isinstance(steps.value, int) and steps.value > 1:
        names = ("accelerator_config", "gradient_accumulation_steps")
        yield names, f"num_steps in accelerator_config conflicts with gradient_accumulation_steps {steps.value}"


def _modules(config: Config) -> Iterator[Refusal]:
    """GaLore and APOLLO require the names of their modules."""
    kind, modules = config.argument("optim"), config.argument("optim_target_modules")
    if kind is None or modules is None or modules.value is not None:
        return
    if str(kind.value).startswith(("galore_", "apollo_")):
        yield ("optim", "optim_target_modules"), f"optim {kind.value} requires optim_target_modules"


def _end_of_polynomial(config: Config) -> Iterator[Refusal]:
    """A final learning rate that is not below the initial one, if the config has the optimizer."""
    kind, given = config.argument("lr_scheduler_type"), _section(config, "lr_scheduler_kwargs")
    rate = config.value("optimizer", "params", "lr")
    if kind is None or kind.value != "polynomial" or given is None or not isinstance(rate, (int, float)):
        return
    last = given.get("lr_end", 1e-7)
    if isinstance(last, (int, float)) and not rate > last:
        yield (
            ("lr_scheduler_type", "lr_scheduler_kwargs"),
            f"the polynomial schedule ends at lr_end {last:g}, which is not below the learning rate {rate:g}",
        )


def _schedule(config: Config) -> Iterator[Refusal]:
    """The arguments that ``get_scheduler`` in ``transformers/optimization.py`` rejects."""
    kind = config.argument("lr_scheduler_type")
    given = _section(config, "lr_scheduler_kwargs")
    find = _OF_SCHEDULES.get(str(kind.value)) if kind is not None else None
    if kind is None or given is None or find is None or any(_is_unknown(value) for value in given.values()):
        return
    for wrong in find(given):
        yield ("lr_scheduler_type", "lr_scheduler_kwargs"), f"the {kind.value} schedule {wrong}"


def _section(config: Config, name: str) -> dict[str, object] | None:
    """A dict of training arguments, given as JSON or as a dict; empty if it is not given, None if it is unknown."""
    training = config.facts.training
    given = (training.later.get(name) or training.given.get(name)) if training is not None else None
    if given is None or given.value is None:
        return {}
    if isinstance(given.value, dict):
        return given.value
    if not isinstance(given.value, str):
        return None
    from json import loads

    try:
        value = loads(given.value)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _is_unknown(value: Any) -> bool:
    return value is not None and not isinstance(value, (bool, int, float, str, list, dict))


def _lowest_rate(given: dict[str, object]) -> Iterator[str]:
    minima = [name for name in ("min_lr", "min_lr_rate") if given.get(name) is not None]
    if not minima:
        yield "requires min_lr or min_lr_rate in lr_scheduler_kwargs"
    elif len(minima) > 1:
        yield "accepts only one of min_lr and min_lr_rate, but lr_scheduler_kwargs has both"


def _words(choices: dict[str, tuple[str, ...]]) -> Callable[[dict[str, object]], Iterator[str]]:
    def find(given: dict[str, object]) -> Iterator[str]:
        for name, words in choices.items():
            if name in given and given[name] not in words:
                yield f"expects {' or '.join(words)} for {name}, got {given[name]!r}"

    return find


def _greedy(given: dict[str, object]) -> Iterator[str]:
    factor = given.get("factor")
    if isinstance(factor, (int, float)) and factor >= 1:
        yield f"expects a factor below 1, got {factor:g}"
    yield from _words({"mode": ("min", "max"), "threshold_mode": ("rel", "abs")})(given)


_SHAPES = ("linear", "cosine", "1-sqrt")
_OF_SCHEDULES: dict[str, Callable[[dict[str, object]], Iterator[str]]] = {
    "cosine_with_min_lr": _lowest_rate,
    "cosine_warmup_with_min_lr": _lowest_rate,
    "warmup_stable_decay": _words({"warmup_type": _SHAPES, "decay_type": _SHAPES}),
    "greedy": _greedy,
}
