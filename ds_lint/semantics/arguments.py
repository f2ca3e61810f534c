"""The training arguments that TrainingArguments or HfArgumentParser rejects."""

from __future__ import annotations

from ds_lint.facts.argument_values import WANTED, fields, is_accepted, kind_of
from ds_lint.facts.training import field_of
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

_TF32 = (8, 0)  # is_torch_tf32_available in transformers/utils/import_utils.py asks for Ampere


def is_explicit(config: Config, name: str) -> bool:
    """Whether this field was set on purpose; an object has all fields, so a default there does not count."""
    training = config.facts.training
    given = (training.later.get(name) or training.given.get(name)) if training is not None else None
    if given is None or given.is_flag or given.document is not None:
        return given is not None
    field = fields(config.knowledge).get(name, {})
    return "default" not in field or bool(given.value != field["default"])


def refusals(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """The arguments that TrainingArguments or HfArgumentParser rejects, and why.

    Source: ``_validate_args`` in ``transformers/training_args.py``, up to transformers 4 ``__post_init__``.
    """
    known = fields(config.knowledge)
    strangers = list(_strangers(config))
    yield from strangers
    launch = config.facts.launch
    is_parsed = launch is not None and launch.script is not None and launch.script.command_line is not None
    training = None if is_parsed else config.facts.training  # then each word is reported in the launch
    for name, given in training.given.items() if training is not None else ():
        if name in known and not is_accepted(given, known[name]) and given.is_flag and given.value is not UNKNOWN:
            written = f", got {given.value!r}" if given.value is not None else ""
            yield (name,), f"--{name} expects {WANTED[kind_of(known[name])]}{written}"
    gpu = config.facts.gpu
    if (
        gpu is not None
        and gpu.compute_capability is not None
        and gpu.compute_capability < _TF32
        and _is_on(config, "tf32")
    ):
        capability = ".".join(map(str, gpu.compute_capability))
        yield ("tf32",), f"tf32 requires compute capability 8.0 or higher, but {gpu.name} has {capability}"
    for one, other in (("fp16", "bf16"), ("fp16_full_eval", "bf16_full_eval")):
        if _is_on(config, one) and _is_on(config, other):
            yield (one, other), f"{one} and {other} are both enabled"
    for name, wrong in (("warmup_steps", _wrong_steps(config)), ("warmup_ratio", _wrong_share(config))):
        if wrong:
            yield (name,), f"{name} is {wrong}"
    yield from _counts(config)
    if not strangers and not _is_of_another_release(config):
        yield from _strategies(config)
        yield from _intervals(config)


def _strangers(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Fields of other releases, and why the target does not have them; an object that has one got it from its class.

    Source: ``HfArgumentParser.parse_dict`` and ``parse_args_into_dataclasses`` in ``transformers/hf_argparser.py``.
    """
    training, known = config.facts.training, fields(config.knowledge)
    if training is None or training.are_taken:
        return
    store, target = tables.load("transformers"), config.knowledge.target["transformers"]
    releases: list[str] = store["releases"]
    for name in training.given:
        if name in known or (field := field_of(name)) in known:
            continue
        runs = store["training_arguments"][field]["runs"]
        if releases.index(target) < releases.index(runs[0]["since"]):
            yield (name,), f"{name} is new in transformers {runs[0]['since']}"
        else:
            removed_in = releases[releases.index(runs[-1]["until"]) + 1]
            yield (name,), f"{name} is removed in transformers {removed_in}"


def _is_of_another_release(config: Config) -> bool:
    """Whether a script gives a field that the target does not have: what it means by that is not known."""
    known = fields(config.knowledge)
    given = config.facts.training.given if config.facts.training is not None else {}
    return any(name not in known and field_of(name) not in known for name in given)


def _strategies(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """When to evaluate, save and log: invalid words, and values that conflict."""
    evaluation = _evaluation_strategy(config)
    for name in (evaluation, "save_strategy", "logging_strategy"):
        found = config.created(name)
        if found is not None and isinstance(found.value, bool):
            yield (
                (name,),
                f"{name} is {str(found.value).lower()}, because YAML reads an unquoted no or yes as a boolean",
            )
            return
    evaluates, saves = _word(config, evaluation), _word(config, "save_strategy")
    if _is_on(config, "load_best_model_at_end") and None not in (evaluates, saves) and saves not in (evaluates, "best"):
        yield (
            ("load_best_model_at_end", evaluation, "save_strategy"),
            f"load_best_model_at_end requires equal {evaluation} and save_strategy, got {evaluates} and {saves}",
        )
    schedule = _word(config, "lr_scheduler_type")
    needs_evaluation = ["reduce_lr_on_plateau"]
    if config.knowledge.stack_does("greedy-schedules-need-an-evaluation"):
        needs_evaluation.append("greedy")
    if schedule in needs_evaluation and evaluates == "no":
        yield ("lr_scheduler_type", evaluation), f"{schedule} requires an evaluation, but {evaluation} is no"


def _counts(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """Numbers that are out of range, or that require another argument."""
    empties = config.created("torch_empty_cache_steps")
    if empties is not None and empties.value is not None and not (isinstance(empties.value, int) and empties.value > 0):
        yield ("torch_empty_cache_steps",), f"torch_empty_cache_steps is {empties.value}, but must be 1 or more"
    ahead, workers = config.created("dataloader_prefetch_factor"), _number(config, "dataloader_num_workers")
    if ahead is not None and ahead.value is not None and workers == 0:
        names = ("dataloader_prefetch_factor", "dataloader_num_workers")
        yield names, "dataloader_prefetch_factor requires data loader workers, but dataloader_num_workers is 0"


def _intervals(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    """After how many steps to log, evaluate and save: not 0, no fraction above 1, saving only after evaluating."""
    evaluation = _evaluation_strategy(config)
    logs, evaluates, saves = (
        _word(config, name) == "steps" for name in ("logging_strategy", evaluation, "save_strategy")
    )
    logging, saving = _number(config, "logging_steps"), _number(config, "save_steps")
    if logging is None or saving is None or (evaluates and config.created("eval_steps") is None):
        return
    evaluating = _number(config, "eval_steps") or logging
    if evaluates and evaluating <= 0:
        yield ("eval_steps", "logging_steps"), f"{evaluation} is steps, but eval_steps and logging_steps are 0"
        return
    if logs and logging == 0:
        yield ("logging_steps",), "logging_steps is 0"
    for name, is_used, steps in (
        ("logging_steps", logs, logging),
        ("eval_steps", evaluates, evaluating),
        ("save_steps", saves, saving),
    ):
        if is_used and steps > 1 and steps != int(steps):
            yield (name,), f"{name} is {steps}, but must be a whole number if it is above 1"
            return
    if _is_on(config, "load_best_model_at_end") and evaluates and saves and not _is_multiple(saving, evaluating):
        names = ("load_best_model_at_end", "save_steps", "eval_steps")
        yield (
            names,
            f"load_best_model_at_end requires save_steps to be a multiple of eval_steps {evaluating:g}, got {saving:g}",
        )


def _is_multiple(saving: float, evaluating: float) -> bool:
    """Whether every save comes after an evaluation; values below 1 are fractions of the run."""
    if saving % evaluating == 0:
        return True
    return saving < 1 and evaluating < 1 and saving * _SHARES % (evaluating * _SHARES) == 0


_SHARES = 1_000_000  # as TrainingArguments multiplies them


def _evaluation_strategy(config: Config) -> str:
    """The field that says when to evaluate: the old name wins if it is set."""
    old = config.created("evaluation_strategy")
    is_old = "eval_strategy" not in fields(config.knowledge) or (old is not None and old.value is not None)
    return "evaluation_strategy" if is_old else "eval_strategy"


def _word(config: Config, name: str) -> str | None:
    """The word that a field is set to; None if it is not known."""
    found = config.created(name)
    return str(found.value) if found is not None and isinstance(found.value, str) else None


def _wrong_steps(config: Config) -> str | None:
    """The steps of the warm-up and why they are rejected; older releases accept any."""
    steps = _number(config, "warmup_steps")
    if steps is None:
        return None
    if steps < 0 and config.knowledge.stack_does("warmup-steps-are-checked"):
        return f"{steps}, but must be 0 or more"
    if isinstance(steps, float) and config.knowledge.stack_does("warmup-steps-are-whole"):
        return f"{steps}, but must be a whole number"
    if steps == 1 and config.knowledge.stack_does("one-warmup-step-is-refused"):
        return "1, but this release accepts only 0 or more than 1"
    return None


def _wrong_share(config: Config) -> str | None:
    """The fraction of the training that warms up and why it is rejected; transformers 5 converts it to steps."""
    share = _number(config, "warmup_ratio")
    if share is None or 0 <= share <= 1:
        return None
    if share < 0:
        return f"{share}, but must be 0 or more"
    return None if fields(config.knowledge)["warmup_ratio"]["default"] is None else f"{share}, but must be at most 1"


def _number(config: Config, name: str) -> float | None:
    found = config.created(name)
    return found.value if found is not None and isinstance(found.value, (int, float)) else None


def _is_on(config: Config, name: str) -> bool:
    found = config.created(name)
    return found is not None and bool(found.value)
