"""Rules about recipes of training frameworks that name or hold a DeepSpeed config (DS67x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.knowledge.presets import holders, words_of
from ds_lint.semantics.related import given_at
from ds_lint.source.recognition import NAMES_CONFIG
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.refusals import FrameworkRejection
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.semantics.config import Config


@rule("DS670", "recipe-rejected", severity="error", effects=("rejected",), kind="recipe")
def recipe_rejected(config: Config) -> Iterator[Problem]:
    """A recipe that its framework rejects, with DeepSpeed as it is."""
    recipe = config.facts.recipe
    if recipe is None:
        return
    found = recipe.refusal(_stage(config), config.basis.pins.get(recipe.record.package))
    if found is None:
        return
    first, *others = found.fields
    yield Problem(
        (first,),
        _place(recipe, first),
        f"{recipe.framework}{_release(found)} rejects the recipe: {found.sentence}",
        rejected("initialize"),
        help=advice(found),
        label="rejected with DeepSpeed",
        related=[
            *_on_command_line(recipe, first),
            *(Related(span, name) for name in others if (span := recipe.place_of(name)) is not None),
            *(place for name in others for place in _on_command_line(recipe, name)),
        ],
    )


def _release(found: FrameworkRejection) -> str:
    return f" {found.release}" if found.release is not None else ""


def advice(found: FrameworkRejection) -> str:
    """What to do about a rejection."""
    fields = [*found.fields, NAMES_CONFIG] if NAMES_CONFIG in found.message.lower() else found.fields
    way = "Remove" if len(fields) == 1 else "Remove or change"
    stage = ", or use another ZeRO stage" if found.depends_on_stage else ""
    return f"{way} {' or '.join(f'`{name}`' for name in fields)}{stage}."


@rule("DS671", "muon-without-parameters", severity="warning", effects=("wrong-result",), kind="recipe")
def muon_without_parameters(config: Config) -> Iterator[Problem]:
    """Muon at stage 3, where no parameter that is loaded has two dimensions, so AdamW trains them all.

    Source: ``_create_muon_optimizer`` in ``llamafactory/train/trainer_utils.py``.
    """
    recipe = config.facts.recipe
    if recipe is None or not recipe.does("muon-takes-matrices") or _stage(config) != _PARTITIONS_PARAMETERS:
        return
    if recipe.value("use_muon") is not True or not recipe.trains_all:
        return  # adapters are not loaded, and have their shapes
    if any(recipe.value(name) for name in _NOT_LOADED_IN_PARTITIONS):
        return
    yield Problem(
        ("use_muon",),
        _place(recipe, "use_muon"),
        f"Muon of {recipe.framework} gets no parameter at ZeRO stage 3: AdamW trains all of them",
        WRONG_RESULT,
        help="Use stage 2. Muon gets the parameters with two dimensions, and at stage 3 a loaded parameter has one.",
        label="trains with AdamW",
        related=_on_command_line(recipe, "use_muon"),
    )


@rule("DS674", "unknown-preset", severity="error", effects=("rejected",), kind="recipe")
def unknown_preset(config: Config) -> Iterator[Problem]:
    """A name without a config of the framework, which reads any other word as a path or as JSON.

    Sources: ``_init_deepspeed`` in ``swift/arguments/sft_args.py``, ``trl/cli/accelerate_config.py``.
    """
    one = config.preset
    if one is None or one.release is None or one.is_there or one.named.is_file:
        return
    framework, word = one.named.framework, one.named.word
    words = words_of(framework.name, one.release)
    from difflib import get_close_matches

    near = next(iter(get_close_matches(word, words, 1)), None)
    parts = [f"Did you mean {near}?"] if near is not None else []
    if (found := holders(framework.name, word)) is not None:
        parts.append(f"{framework.name} {found[0]} to {found[1]} have `{word}`.")
    if words:
        parts.append(f"The names are {', '.join(words)}.")
    yield Problem(
        ("deepspeed",),
        one.named.place,
        f"{framework.name} {one.release} has no config `{word}`: the run stops when it reads its arguments",
        rejected("initialize"),
        help=" ".join(parts),
        label="no such config",
    )


@rule("DS672", "field-not-taken", severity="error", effects=("rejected", "ignored", "risk"), kind="recipe")
def field_not_taken(config: Config) -> Iterator[Problem]:
    """A field of a recipe that its framework does not have, or whose value it does not take."""
    recipe = config.facts.recipe
    if recipe is None:
        return
    from ds_lint.semantics.recipe_fields import refused_in_recipe  # few configs are in or named by a recipe

    basis = config.basis
    for name, refused in refused_in_recipe(recipe, basis.pins, config.facts.launch, basis.copies):
        yield Problem(
            (name,),
            _place(recipe, name),
            refused.message,
            refused.outcome,
            help=refused.help,
            label=refused.label,
            severity=refused.severity,
            related=_on_command_line(recipe, name),
        )


_PARTITIONS_PARAMETERS = 3
_NOT_LOADED_IN_PARTITIONS = ("mixture_of_depths", "quantization_bit", "train_from_scratch", "use_kt", "use_unsloth")


def _place(recipe: TrainingRecipe, name: str) -> Span:
    """Where a recipe has a field; else, of one that the command line sets, where it names the config."""
    return recipe.place_of(name) or recipe.place or Span(0, 0)


def _on_command_line(recipe: TrainingRecipe, name: str) -> list[Related]:
    """Where the command line sets a field of a recipe."""
    return given_at(recipe.fields[name], name) if recipe.place_of(name) is None else []


def _stage(config: Config) -> int | None:
    """The ZeRO stage of the config that the recipe names or holds; None if it is unknown."""
    named = config.document.named
    root = named.root if named is not None else config.root
    if root is None or root.kind != "object":
        return None
    section = root.get("zero_optimization")
    if section is None:
        return 0
    node = section.get("stage") if section.kind == "object" else None
    return node.value if node is not None and node.kind == "integer" and isinstance(node.value, int) else None
