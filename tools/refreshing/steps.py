"""What is measured or counted with releases, each as a command, with the releases that its result rests on now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.releases import number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ROOT = Path(__file__).parents[2]


class Step(NamedTuple):
    """A command that brings files up to the releases that are installed, or that the package index has."""

    title: str
    command: tuple[str, ...]  # behind `python -m`
    rests_on: Callable[[], Mapping[str, str]]  # what its files say of themselves: a release of each library
    store: str = ""  # the file whose records are compared with what they were
    is_checked: bool = False  # status 1, and what it prints, say that a person has to look
    keeps_downloads: bool = False  # takes the option --cache

    def is_due(self, releases: Mapping[str, str]) -> bool:
        """Whether its result rests on older releases than these."""
        return any(number(releases.get(name, rested)) > number(rested) for name, rested in self.rests_on().items())


def _read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def _named(path: str, *libraries: str) -> Callable[[], Mapping[str, str]]:
    """The releases that a file names under the names of the libraries."""

    def found() -> Mapping[str, str]:
        content = _read(path)
        return {library: content[library] for library in libraries}

    return found


def _of_classes() -> Mapping[str, str]:
    return {"transformers": _read("schemas/model_classes.json")["release"]}


def _of_layers() -> Mapping[str, str]:
    return {"transformers": _read("schemas/layer_classes.json")["release"]}


def _of_peft() -> Mapping[str, str]:
    content = _read("schemas/peft.json")
    return {"peft": content["release"], "transformers": content["transformers"]}


def _of_launchers() -> Mapping[str, str]:
    return {one["library"]: one["releases"][-1] for one in _read("schemas/launchers.json").values()}


def _of_pairs() -> Mapping[str, str]:
    content = _read("schemas/pairs.json")
    return {**content["compared"], **{library: known[-1] for library, known in content["releases"].items()}}


def _of_exceptions() -> Mapping[str, str]:
    return {library: read["until"] for library, read in _read("schemas/exceptions.json")["releases"].items()}


def _of_environment() -> Mapping[str, str]:
    libraries = _read("schemas/environment.json")["libraries"]
    return {name: libraries[name]["releases"][-1] for name in ("torch", "deepspeed", "accelerate", "transformers")}


# With the libraries that requirements/fidelity.txt pins, installed.
INSTALLED = (
    Step("Classes of models", ("tools.model_classes", "--write"), _of_classes, "schemas/model_classes.json"),
    Step("Classes of layers", ("tools.layer_classes", "--write"), _of_layers, "schemas/layer_classes.json"),
    Step("Layers with adapters", ("tools.lora_targets", "--write"), _of_peft, "schemas/peft.json"),
    Step("What raises", ("tools.raises", "--write"),
         _named("tools/raises/releases.json", "deepspeed", "transformers", "accelerate"), is_checked=True),
    Step("Shapes of parameters", ("tools.model_shapes", "--changed"),
         _named("schemas/shapes.json", "transformers"), "schemas/shapes.json", is_checked=True),
    Step("Activations", ("tools.activations", "--changed"),
         _named("schemas/activations.json", "transformers", "torch", "peft"), "schemas/activations.json",
         is_checked=True),
    Step("Passes without autograd", ("tools.activations.forward",),
         _named("schemas/forward_activations.json", "transformers", "torch"), "schemas/forward_activations.json",
         is_checked=True),
    Step("Tensor parallelism", ("tools.tensor_parallel",),
         _named("schemas/tensor_parallel.json", "deepspeed", "transformers"), "schemas/tensor_parallel.json",
         is_checked=True),
)  # fmt: skip

# With the newest releases that were read.
READ = (
    Step("What frameworks make of recipes", ("tools.extract.recipes",), _named("schemas/recipes.json", "transformers"),
         keeps_downloads=True),
    Step("Options of launchers", ("tools.launcher_options", "--write"), _of_launchers, "schemas/launchers.json"),
    Step("Environment variables", ("tools.extract.environment",), _of_environment, keeps_downloads=True),
    Step("Releases that do not work together", ("tools.pairs",), _of_pairs, "schemas/pairs.json", keeps_downloads=True),
    Step("What exceptions mean", ("tools.exceptions",), _of_exceptions, is_checked=True, keeps_downloads=True),
)  # fmt: skip


def nothing() -> Mapping[str, str]:
    """Pages rest on the other files, which name the releases."""
    return {}


# Written again after anything else was.
PAGES = (
    Step("Schemas for editors", ("tools.publish_schemas",), nothing),
    Step("Rule pages", ("tools.rule_pages", "--write"), nothing),
    Step("Published memory", ("tools.published", "--write"), nothing),
    Step("Documents", ("tools.documents", "--write"), nothing),
    Step("The picture of a finding", ("tools.picture", "--write"), nothing),
)
