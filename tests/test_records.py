"""Every record in ``schemas/`` has the type that ``ds_lint/knowledge/records.py`` gives it."""

from __future__ import annotations

import copy
import inspect
import json
import types
import typing
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest

from ds_lint.diagnostics.finding import EFFECTS, SEVERITIES, STACKS, STAGES
from ds_lint.knowledge import records
from ds_lint.targets.pin import LIBRARIES

SCHEMAS = Path(__file__).parent.parent / "schemas"
FILES = {
    "accelerate": records.StackStore,
    "activations": records.Activations,
    "forward_activations": records.ForwardActivations,
    "preference_losses": records.PreferenceLosses,
    "advisories": records.AdvisoryStore,
    "allowances": records.Allowances,
    "conversion": records.Conversion,
    "deepspeed": records.DeepSpeedStore,
    "documentation": records.Documentation,
    "exceptions": records.ExceptionStore,
    "symptoms": records.SymptomStore,
    "families": records.Families,
    "fsdp": records.FsdpStore,
    "gpus": records.Gpus,
    "launchers": dict[str, records.LauncherOptions],
    "layer_classes": records.LayerClasses,
    "megatron": records.Megatron,
    "model_classes": records.ModelClasses,
    "models": records.ModelStore,
    "overlay": records.Overlay,
    "pairs": records.Pairs,
    "environment": records.VariableStore,
    "presets": records.Presets,
    "recipe_fields": records.RecipeFields,
    "recipes": records.Recipes,
    "refusals": records.Refusals,
    "peft": records.Peft,
    "quantization": records.QuantizedLayers,
    "published_models": records.PublishedModels,
    "shapes": records.Shapes,
    "torch": records.TorchStore,
    "trainer_overlay": records.TrainerOverlay,
    "lightning": records.StackStore,
    "transformers": records.StackStore,
    "trainer": records.StackStore,
    "tensor_parallel": records.TensorParallel,
    "trl": records.StackStore,
}
# What records.py imports for the type checker alone.
ELSEWHERE = {
    "Effect": Literal[EFFECTS],
    "Library": Literal[LIBRARIES],
    "Severity": Literal[SEVERITIES],
    "Stack": Literal[STACKS],
    "Stage": Literal[STAGES],
}


def departures(value, kind, place="") -> list[str]:
    """Where a value is not of its type, and what stands there."""
    if kind is Any:
        return []
    if isinstance(kind, (str, typing.ForwardRef)):  # where a type names itself
        kind = getattr(records, kind if isinstance(kind, str) else kind.__forward_arg__)
    if typing.is_typeddict(kind):
        return _of_record(value, kind, place)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return min((departures(value, one, place) for one in arguments), key=len)
    if origin is list and isinstance(value, list):
        return [said for at, item in enumerate(value) for said in departures(item, arguments[0], f"{place}[{at}]")]
    if origin is dict and isinstance(value, dict):
        return [said for name, item in value.items() for said in departures(item, arguments[1], f"{place}.{name}")]
    fits = value in arguments if origin is Literal else origin is None and _is_a(value, kind)
    return [] if fits else [f"{place}: {value!r} is no {kind}"]


@cache
def hints_of(kind):
    """The types of a record's facts, by name."""
    return get_type_hints(kind, localns=ELSEWHERE)


def _of_record(value, kind, place):
    if not isinstance(value, dict):
        return [f"{place}: {value!r} is no {kind.__name__}"]
    hints = hints_of(kind)
    found = [f"{place}: {kind.__name__} without {name}" for name in kind.__required_keys__ - set(value)]
    for name, item in value.items():
        here = f"{place}.{name}"
        found += departures(item, hints[name], here) if name in hints else [f"{here}: {kind.__name__} has no {name}"]
    return found


def _is_a(value, kind):
    """Whether type checkers take a value for one of this class: a whole number is a float, True is not an int."""
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def read(name):
    return json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FILES)
def test_every_record_has_its_type(name):
    assert departures(read(name), FILES[name]) == []


def test_every_file_has_a_type():
    stored = {path.stem for path in SCHEMAS.glob("*.json") if not path.stem.endswith(".schema")}
    assert stored == set(FILES)


def test_a_fact_without_a_type_is_found():
    overlay = read("overlay")
    stage = overlay["root"]["keys"]["steps_per_print"]
    stage["colour"] = "red"
    stage["stage"] = "at night"
    stage["numbers"] = ["0"]
    found = departures(overlay, records.Overlay)
    assert [said.partition(":")[0] for said in found] == [
        ".root.keys.steps_per_print.stage",
        ".root.keys.steps_per_print.colour",
        ".root.keys.steps_per_print.numbers[0]",
    ]


def test_a_record_without_a_fact_that_all_have_is_found():
    gpus = copy.deepcopy(read("gpus"))
    del gpus["gpus"]["K80"]["memory"]
    assert departures(gpus, records.Gpus) == [".gpus.K80: GpuFacts without memory"]


def _typed_facts():
    """The names of all facts that a type in records.py has."""
    kinds = [one for _, one in inspect.getmembers(records, typing.is_typeddict)]
    return {name for kind in kinds for name in kind.__annotations__}


def test_every_fact_that_the_readme_explains_has_a_type():
    """The first column of its tables of facts, but for the table of files."""
    lines = (SCHEMAS / "README.md").read_text(encoding="utf-8").splitlines()
    cells = [line.split("|")[1] for line in lines if line.startswith("| `")]
    cells = [cell for cell in cells if ".json`" not in cell and "published/" not in cell]
    named = {word.partition(":")[0] for cell in cells for word in cell.split("`")[1::2]}
    assert named - _typed_facts() == set()
    assert len(named) > 50  # the tables were found
