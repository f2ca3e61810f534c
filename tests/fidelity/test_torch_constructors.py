"""What is known of torch's optimizers and schedulers is so: their parameters, and what they take by themselves."""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from ds_lint.source import documents

pytest.importorskip("torch")

import torch
from installed import knowledge

from ds_lint.knowledge import tables
from ds_lint.knowledge.coercion import refusal
from tools.extract.history import at
from tools.extract.torch import extract

pytestmark = pytest.mark.fidelity

RELEASE = torch.__version__.partition("+")[0]
EXTRACTED = json.loads(json.dumps(extract(Path(torch.__file__).parent.parent)))  # as a store has them: lists for tuples
MODULES = {
    "optimizers": (torch.optim, torch.optim.Optimizer),
    "schedulers": (torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler),
}

VALUES: tuple[Any, ...] = (
    None, False, -1, 0, 1, 2, 0.5, -0.5, 1.5, float("nan"), "1e-3", "abc", [], [0.9, 0.99], [0.5, 1.2], [None, 1e-3],
    ["0.9", "0.99"], [0.9, 0.99, 0.5], {}, "min", "max", "rel", "abs", "cos", "linear", "triangular",
)  # fmt: skip
REQUIRED = {
    "T_max": 10,
    "T_0": 10,
    "base_lr": 1e-4,
    "max_lr": 1e-3,
    "gamma": 0.9,
    "milestones": [30, 50],
    "step_size": 9,
}
ON_GPU_ONLY = {"capturable", "fused"}
NEEDS_ANOTHER = {"nesterov"}  # nesterov-without-momentum
# What the words of the overlay do not tell apart: other lengths of arrays, one for each group, ends of ranges.
EXCEPTIONS = {
    ("step_sizes", "array"), ("betas", "array"), ("eps", "array"), ("min_lr", "array"), ("lr", "array"),
    ("base_lr", "array"), ("max_lr", "array"), ("base_momentum", "array"), ("max_momentum", "array"),
    ("milestones", "array"), ("max_momentum", "integer"),
    ("step_size_up", "float"), ("step_size_down", "float"), ("total_steps", "integer"),
    ("total_steps", "null"),
}  # fmt: skip


def outcome(family: str, name: str, params: dict[str, Any]) -> str | None:
    """The stage at which a constructor or the steps after it raise."""
    layers = [torch.nn.Linear(4, 4, bias=name != "Muon"), torch.nn.Linear(4, 4, bias=name != "Muon")]
    model, schedule, stage = torch.nn.Sequential(*layers), None, "initialize"
    try:
        if family == "optimizers":
            optimizer = getattr(torch.optim, name)(model.parameters(), **params)
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **params)
        stage = "train"
        for _ in range(3):
            model(torch.randn(2, 4)).pow(2).mean().backward()
            optimizer.step()
            if schedule is not None:
                try:
                    schedule.step()
                except TypeError:  # as DeepSpeed does, with the batch size for the metric
                    schedule.step(1)
    except Exception:  # whatever it raises
        return stage
    return None


def constructors(family: str) -> dict[str, dict[str, Any]]:
    """What Python knows of the classes of the installed torch."""
    module, base = MODULES[family]
    return {
        name: {one.name: default(one) for one in list(inspect.signature(thing).parameters.values())[1:]}
        for name, thing in vars(module).items()
        if inspect.isclass(thing)
        and thing is not base
        and not name.startswith("_")
        # ReduceLROnPlateau derives from nothing before 2.2
        and (issubclass(thing, base) or (family == "schedulers" and name in module.__all__))
    }


def default(parameter: inspect.Parameter) -> Any:
    if parameter.default is inspect.Parameter.empty or repr(parameter.default) == "<required parameter>":
        return "$required"
    return list(parameter.default) if isinstance(parameter.default, tuple) else parameter.default


@pytest.mark.parametrize("family", MODULES)
def test_what_is_extracted_is_what_python_knows(family: str) -> None:
    theirs = constructors(family)
    assert json.dumps(EXTRACTED[family], sort_keys=True) == json.dumps(theirs, sort_keys=True)  # 0 is not 0.0
    assert {name: list(parameters) for name, parameters in EXTRACTED[family].items()} == {
        name: list(parameters) for name, parameters in theirs.items()
    }
    assert len(theirs) > 10


def test_the_store_has_the_facts_of_the_installed_torch() -> None:
    store = tables.load("torch")
    if RELEASE not in store["releases"]:
        pytest.skip(f"torch {RELEASE} is not in the store")
    assert at(store, RELEASE) == EXTRACTED


@pytest.mark.parametrize("family", MODULES)
def test_values_are_refused_where_torch_refuses_them(family: str) -> None:
    module = "torch.optim" if family == "optimizers" else "torch.optim.lr_scheduler"
    differing = []
    for name, parameters in EXTRACTED[family].items():
        facts = knowledge().parameters(f"{module}.*") | knowledge().parameters(f"{module}.{name}")
        if "never" in facts.get("*", {}):
            continue
        given = {one: REQUIRED[one] for one, default in parameters.items() if default == "$required"}
        if name == "OneCycleLR":
            given["total_steps"] = 100
        for parameter in parameters.keys() - ON_GPU_ONLY - NEEDS_ANOTHER:
            for value in VALUES:
                node = documents.from_bytes(json.dumps([value]).encode(), "value.json").root.items[0]
                if (parameter, node.kind) in EXCEPTIONS:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs = outcome(family, name, copy.deepcopy({**given, parameter: value}))
                wanted = refusal(facts.get(parameter, {}), False, node, node.kind, node.value)
                ours = facts[parameter]["stage"] if wanted else None
                if ours != theirs:
                    differing.append((name, parameter, value, ours, theirs))
    assert not differing


@pytest.mark.parametrize(
    ("family", "name", "stage"),
    [
        ("optimizers", "LBFGS", "train"),
        ("optimizers", "SparseAdam", "train"),
        ("schedulers", "ChainedScheduler", "initialize"),
        ("schedulers", "LambdaLR", "initialize"),
        ("schedulers", "MultiplicativeLR", "initialize"),
        ("schedulers", "SequentialLR", "initialize"),
    ],
)
def test_what_never_works_raises(family: str, name: str, stage: str) -> None:
    module = "torch.optim" if family == "optimizers" else "torch.optim.lr_scheduler"
    assert knowledge().parameters(f"{module}.{name}")["*"]["stage"] == stage
    params = {"lr_lambda": 0.9} if "lr_lambda" in EXTRACTED[family][name] else {}
    if name == "SequentialLR":
        params = {"schedulers": ["StepLR"], "milestones": []}
    assert outcome(family, name, params) == stage
