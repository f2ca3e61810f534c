"""The rules: a module for each family, and which families a config needs.

A family is imported, which registers its rules, with the first config that has what it needs: a clean file of which
nothing else is known needs half of them. Add a family where it belongs, and the descriptions here stay true.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.semantics.config import Config

FOR_ANY_CONFIG = ("batch", "keys", "saving", "trainer", "values", "zero")

# Those whose rules all name some of these top-level keys.
FOR_KEYS: dict[str, frozenset[str]] = {
    "compilation": frozenset({"compile"}),
    "dtypes": frozenset({"communication_data_type", "data_types", "torch_autocast"}),
    "experts": frozenset({"expert_parallel"}),
    "launch": frozenset({"data_parallel_size", "sequence_parallel_size", "tensor_parallel"}),
    "loss_scale": frozenset({"fp16"}),
    "offload": frozenset({"zero_optimization"}),
    "optimizer": frozenset({"gradient_clipping", "optimizer", "scheduler"}),
    "precision": frozenset({"amp", "data_types", "fp16", "torch_autocast"}),
    "schedule": frozenset({"optimizer", "scheduler"}),
    "zeropp": frozenset({"zero_optimization"}),
}


def _has_training_arguments(config: Config) -> bool:
    return config.facts.training is not None


def _is_filled_in(config: Config) -> bool:
    """Whether anything is known of which the Trainer or Accelerate fills in values, or launches may give arguments."""
    of_model = config.stack == "accelerate" and config.facts.model_or_family is not None
    return of_model or _has_training_arguments(config) or _has_absent_names(config)


def _has_model_or_machine(config: Config) -> bool:
    return config.facts.has_model_or_machine


def _knows_model(config: Config) -> bool:
    return config.facts.has_model_or_machine or config.facts.recipe is not None or _has_launch(config)


def _has_launch(config: Config) -> bool:
    return config.facts.launch is not None


def _knows_ranks(config: Config) -> bool:
    return config.world_size is not None or _has_launch(config)


def _has_several_pins(config: Config) -> bool:
    return len(config.basis.pins) > 1


def _has_release(config: Config) -> bool:
    return bool(config.basis.pins)


def _has_unknown_keys(config: Config) -> bool:
    return bool(config.unknown)


def _has_older_release(config: Config) -> bool:
    return config.before is not None


def _has_policies(config: Config) -> bool:
    return bool(config.policies)


def _was_run(config: Config) -> bool:
    return bool(config.facts.smoke)


def _is_accelerates(config: Config) -> bool:
    return config.accelerate is not None


def _may_have_fsdp(config: Config) -> bool:
    return config.accelerate is not None or config.document.kind == "TrainingArguments"


def _is_call(config: Config) -> bool:
    return config.call is not None


def _is_recipe(config: Config) -> bool:
    return config.document.kind == "recipe" or config.preset is not None


def _is_composed(config: Config) -> bool:
    return config.document.composed is not None


def _has_issues(config: Config) -> bool:
    return bool(config.document.issues)


def _has_absent_names(config: Config) -> bool:
    return config.foreign == "names"


def _uses_fsdp(config: Config) -> bool:
    return config.foreign == "fsdp"


# Those whose rules have nothing to say about a config without this.
FOR_FACTS: tuple[tuple[Callable[[Config], bool], tuple[str, ...]], ...] = (
    (_is_filled_in, ("agreement",)),
    (_has_training_arguments, ("incompatible", "overridden")),
    (_has_model_or_machine, ("hardware", "memory")),
    (_knows_model, ("model",)),
    (_has_launch, ("accelerate_launches", "environment", "hosts", "script", "script_models", "script_optimizers")),
    (_has_launch, ("framework_launches", "launch_refusals", "megatron", "training_loops")),
    (_knows_ranks, ("launching",)),
    (_has_release, ("advisories",)),
    (_has_several_pins, ("pairs",)),
    (_has_unknown_keys, ("unknown",)),
    (_has_older_release, ("releases",)),
    (_has_policies, ("policy",)),
    (_was_run, ("smoke",)),
    (_is_accelerates, ("accelerate", "accelerate_machines", "machines_by_deepspeed")),
    (_may_have_fsdp, ("fsdp",)),
    (_is_call, ("calls",)),
    (_is_composed, ("composed",)),
    (_is_recipe, ("recipes",)),
    (_has_issues, ("suppressions", "syntax")),
    (_has_absent_names, ("launcher_options", "names", "script_keywords", "script_options")),
    (_uses_fsdp, ("fsdp_scripts",)),
)

# Those whose rules look at one key and its value: what they find in a fragment holds whatever other keys it gets.
ABOUT_ONE_KEY = frozenset({"composed", "keys", "policy", "releases", "suppressions", "syntax", "unknown", "values"})

# Those whose rules are all off unless selected.
FOR_SELECTION = ("performance", "stage_keys")


def needed(config: Config, keys: set[str]) -> Iterator[str]:
    """The families that may have something to say about a config with these top-level keys, by their default rules."""
    yield from FOR_ANY_CONFIG
    for family, any_of in FOR_KEYS.items():
        if not any_of.isdisjoint(keys):
            yield family
    for has_what_it_takes, families in FOR_FACTS:
        if has_what_it_takes(config):
            yield from families


def every_family() -> Iterator[str]:
    """All families."""
    yield from FOR_ANY_CONFIG
    yield from FOR_KEYS
    for _, families in FOR_FACTS:
        yield from families
    yield from FOR_SELECTION
