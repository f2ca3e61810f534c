"""What a model is: its ``config.json`` and the headers of its safetensors files; nothing is downloaded.

A name is looked up where huggingface_hub keeps what it has downloaded:
https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import os
import re

from ds_lint.facts.safetensors import NotFetched, headers
from ds_lint.facts.shapes import broken, count, in_order, kinds
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.source.files import bytes_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ds_lint.facts.safetensors import Parameter
    from ds_lint.knowledge.records import JsonObject

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_ONE_FILE = "model.safetensors"
_ADAPTER = "adapter_config.json"  # PEFT's
_REPOSITORY = re.compile(r"[\w.-]+(/[\w.-]+)?")
_EXPERTS = re.compile(r"(moe_)?(num_(local_|routed_)?|n_routed_)experts|ffn_config\.moe_num_experts")
_MOST_BYTES = 64_000_000  # of an index, which has a line for every tensor of a model
NAMES_MODEL = "names the model"  # as the label of a place
BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}  # of an element, by torch's names


class Model:
    """One model, as the files that lie on this machine describe it.

    ``parameters`` are the tensors of its checkpoint, None where no weights lie beside the config; ``parameter_count``
    is known also where the config tells it (``ds_lint/facts/shapes.py``). ``is_stand_in`` says that only the number of
    parameters is that of the model (``ds_lint/facts/parameter_count.py``).
    """

    __slots__ = ("config", "is_stand_in", "origin", "parameter_count", "parameters", "path")

    def __init__(
        self,
        path: str,
        config: JsonObject,
        *,
        parameters: list[Parameter] | None = None,
        parameter_count: int | None = None,
        origin: str = "",
        is_stand_in: bool = False,
    ) -> None:
        self.path = path
        self.config = config
        self.parameters = parameters
        self.parameter_count = None if self.quantization else parameter_count  # quantised weights are packed
        self.origin = origin or path
        self.is_stand_in = is_stand_in

    def sizes(self) -> list[int]:
        """How many numbers each parameter has, in their order as far as it is known; none where it is not."""
        if self.parameters is not None:
            return [parameter.count for parameter in self.parameters]
        return [kind.size for kind in in_order(kinds(self.config) or [])]

    @property
    def model_type(self) -> str | None:
        """The family by which transformers chooses its classes."""
        return _text(self.config.get("model_type"))

    @property
    def architectures(self) -> tuple[str, ...]:
        """The classes that the checkpoint was saved from."""
        named = self.config.get("architectures")
        return tuple(str(name) for name in named) if isinstance(named, list) else ()

    @property
    def dtype(self) -> str | None:
        """The dtype that the weights were saved in, as torch names it; None where the config does not say."""
        for part in self._parts():
            for key in ("dtype", "torch_dtype"):  # the newer name, the older one
                named = _text(part.get(key))
                if named and named != "auto":
                    return named.removeprefix("torch.")
        return None

    @property
    def quantization(self) -> str | None:
        """The method by which the weights are quantised; None where they are not."""
        found = self.quantization_config
        return None if found is None else _text(found.get("quant_method")) or _bitsandbytes(found)

    @property
    def quantization_config(self) -> JsonObject | None:
        """What the config says of quantised weights; None where it says nothing."""
        for part in self._parts():
            for key in ("quantization_config", "compression_config"):  # the latter: llm-compressor's older name
                found = part.get(key)
                if isinstance(found, dict):
                    return found
        return None

    @property
    def experts(self) -> int | None:
        """How many experts a layer chooses from; None where the config names none."""
        counts = [
            value
            for part in self._parts()
            for key, value in part.items()
            if _EXPERTS.fullmatch(key) and isinstance(value, int)
        ]
        return max(counts, default=None)

    @property
    def is_moe(self) -> bool:
        """Whether it is a mixture of experts."""
        return (self.experts or 0) > 1

    def at(self, place: str) -> Any:
        """What the config has at a dotted place such as ``text_config.hidden_size``; None where there is nothing."""
        found: Any = self.config
        for name in place.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        return found

    def hidden_size(self, places: Iterable[str]) -> int | None:
        """The first of these places that holds a size, and of several sizes the largest; None where none does.

        Which places are looked at, and in which order, differs between the Trainer and Accelerate, and by release.
        """
        for place in places:
            found = self.at(place)
            sizes = [_count(size) for size in found] if isinstance(found, list) else [_count(found)]
            known = [size for size in sizes if size is not None]
            if known and len(known) == len(sizes):
                return max(known)
        return None

    def _parts(self) -> list[JsonObject]:
        """The config, and what a model of several modalities says about its text, or that of its thinker (Omni)."""
        text = self.at("text_config") or self.at("thinker_config.text_config")
        return [self.config, text] if isinstance(text, dict) else [self.config]


def load(name_or_path: str) -> Model:
    """The model in a folder, or of a name that was downloaded before; raises UnreadableFact where there is none."""
    if os.path.isdir(name_or_path):
        return _in_folder(name_or_path, "")
    if os.path.isfile(name_or_path) and os.path.basename(name_or_path) == CONFIG:
        return _in_folder(os.path.dirname(name_or_path), "")
    found = _on_hub(name_or_path)
    if found is None:
        raise UnreadableFact(
            f"{name_or_path} is neither a folder with a {CONFIG} nor a model in the Hugging Face cache "
            f"({cache_folder()}), and ds-lint does not know its shapes; nothing is downloaded"
        )
    return found


def _on_hub(name: str) -> Model | None:
    """The model of this name on the Hugging Face Hub, if it was downloaded before, or its shapes are known."""
    if not _REPOSITORY.fullmatch(name):
        return None
    snapshot = _snapshot(cache_folder(), name)
    return named(name) if snapshot is None else _in_folder(snapshot, f"{name}, as downloaded to {snapshot}")


def named(name: str) -> Model | None:
    """The model that is published under a name, by the shapes that ship with ds-lint; None if they do not."""
    from ds_lint.facts.published import published

    found = published(name)
    if found is None:
        return None
    meant, config = found
    origin = f"{name}, by the shapes of {meant} that ship with ds-lint"
    return Model(name, config, parameter_count=count(config), origin=origin)


def named_or_in(name: str | None, folder: str | None) -> Model | None:
    """The model that a launch or a recipe names, which may be a folder; None if nothing more is known of it."""
    try:
        if folder is not None:
            return _in_folder(folder, "")
        return _on_hub(name) if name is not None and not name.startswith(".") else None  # ./out is a folder
    except UnreadableFact:
        return None


def cache_folder() -> str:
    """Where huggingface_hub keeps models (``huggingface_hub/constants.py``)."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if folder := os.environ.get(variable):
            return os.path.expanduser(folder)
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache"), "huggingface"
    )
    return os.path.join(os.path.expanduser(home), "hub")


def _snapshot(cache: str, name: str) -> str | None:
    """The folder of the newest download of a model's main branch; None where it was never downloaded."""
    repository = os.path.join(cache, "--".join(["models", *name.split("/")]))
    try:
        with open(os.path.join(repository, "refs", "main"), encoding="utf-8") as file:
            commit = file.read().strip()
    except OSError:
        return None
    folder = os.path.join(repository, "snapshots", commit)
    return folder if os.path.isfile(os.path.join(folder, CONFIG)) else None


def _in_folder(folder: str, origin: str) -> Model:
    path = os.path.join(folder, CONFIG)
    if not os.path.isfile(path):
        raise UnreadableFact(_no_config(folder))
    config = _object(path)
    if (what := broken(config)) is not None:
        raise UnreadableFact(f"{path} describes no model: {what}")
    parameters, counted = _weights(folder, config)
    return Model(folder, config, parameters=parameters, parameter_count=counted or count(config), origin=origin)


def _no_config(folder: str) -> str:
    adapter = os.path.join(folder, _ADAPTER)
    if os.path.isfile(adapter):
        base = _object(adapter).get("base_model_name_or_path") or "the model that it was trained from"
        return f"{folder} has an adapter but no {CONFIG}: pass its base model, {base}"
    return f"{folder} has no {CONFIG}"


def _weights(folder: str, config: JsonObject) -> tuple[list[Parameter] | None, int | None]:
    """The tensors of the checkpoint and how many numbers they hold; None for what the files do not tell."""
    index = os.path.join(folder, _INDEX)
    one_file = os.path.join(folder, _ONE_FILE)
    names: Any
    metadata: Any = None
    if os.path.isfile(one_file):
        files = [one_file]
    elif os.path.isfile(index):
        content = _object(index)
        names, metadata = content.get("weight_map"), content.get("metadata")
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise UnreadableFact(f"{index} has no `weight_map` of files")
        files = [os.path.join(folder, name) for name in sorted(set(names.values()))]
    else:
        return None, None
    try:
        parameters = [parameter for file in files for parameter in headers(file)]
    except NotFetched:
        return None, _counted(metadata if isinstance(metadata, dict) else {}, config)
    return parameters, sum(parameter.count for parameter in parameters)


def _counted(metadata: JsonObject, config: JsonObject) -> int | None:
    """The number of parameters by an index whose files are not here."""
    total, size = _count(metadata.get("total_parameters")), _count(metadata.get("total_size"))
    width = BYTES.get(Model("", config).dtype or "")
    if total is None and size is not None and width is not None:
        return size // width
    return total


def _object(path: str) -> JsonObject:
    """The JSON object in a file."""
    import json  # a published model is known by its name

    try:
        content = json.loads(bytes_of(path, _MOST_BYTES).decode("utf-8"))
    except OSError as error:
        raise UnreadableFact(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # also for text that is not UTF-8
        raise UnreadableFact(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise UnreadableFact(f"{path} does not contain a JSON object")
    return content


def _bitsandbytes(found: JsonObject) -> str | None:
    """The method of a config that was saved before methods had names."""
    return "bitsandbytes" if found.get("load_in_8bit") or found.get("load_in_4bit") else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
