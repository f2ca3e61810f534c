"""LoRA adapters: which a run trains, and what parameters a model has with them.

A layer keeps its frozen weight and gets two trained matrices of ``rank`` columns and rows, as peft makes them
(``peft/tuners/lora/layer.py``). Which layers peft takes if nothing names them is in ``schemas/peft.json``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.facts.shapes import Kind, head, in_order, kinds
from ds_lint.facts.tensors import Tensor
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.frameworks.record import ALL
from ds_lint.knowledge import tables
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.model import Model

ALL_LINEAR = "all-linear"  # peft's word for all linear layers but that of the logits
DEFAULT_RANK = 8  # of peft.LoraConfig
_EXAMPLE = "r=16,targets=q_proj+v_proj"
_TWO_DIMENSIONS, _THREE_DIMENSIONS = 2, 3


class Adapters(NamedTuple):
    """Adapters that a run trains. ``targets`` are the names of layers, ALL_LINEAR, ALL, or a regular expression."""

    rank: int
    targets: tuple[str, ...] | str | None = None  # None is what peft takes for the model type
    modules_to_save: tuple[str, ...] = ()  # that are trained as a whole, each as a copy
    source: str = ""


class NoAdapters(UnreadableFact):
    """Why peft makes no such adapters for a model."""


def parsed(text: str, source: str = "--lora") -> Adapters:
    """The adapters that ``r=16,targets=q_proj+v_proj`` means; raises UnreadableFact."""
    given: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or not value or name not in ("r", "targets", "modules_to_save") or name in given:
            raise UnreadableFact(
                f"{text!r} does not describe adapters: write r, targets and modules_to_save, such as {_EXAMPLE}"
            )
        given[name] = value
    rank = count(given.get("r", str(DEFAULT_RANK)))
    if not rank:
        raise UnreadableFact(f"r={given['r'][:20]} is not a valid rank of adapters: it must be 1 or more")
    return Adapters(rank, named_targets(given.get("targets")), _names(given.get("modules_to_save", "")), source)


def named_targets(text: str | None) -> tuple[str, ...] | str | None:
    """The targets in a text, which has ``+`` or a comma between names."""
    if text is None or text in (ALL_LINEAR, ALL):
        return text
    return _names(text)


def tensors_with(model: Model, adapters: Adapters) -> list[Tensor]:
    """The parameters of a model with adapters, in its order; raises NoAdapters, and is empty if no shapes are known."""
    found = _kinds_of(model)
    if not found:
        return []
    plan = _Plan(model, found, adapters)
    layered: list[Kind] = []
    trained: list[Kind] = []
    for kind, following in zip(found, [*found[1:], None], strict=True):
        layered.append(kind)
        trained += plan.trained_for(kind)
        if following is None or _module(following.name) != _module(kind.name):  # behind the bias of the layer
            layered += trained
            trained = []
    layered += plan.trained_for_tied_head()
    if not plan.has_found_some:
        raise NoAdapters(f"no layer of {model.origin} has a name that the adapters target: {plan.sought}")
    return [Tensor(kind.name, kind.size, kind.name in plan.trained_names, kind.shape) for kind in in_order(layered)]


class _Plan:
    """Which parameters of a model get adapters, and of which rank."""

    def __init__(self, model: Model, found: list[Kind], adapters: Adapters) -> None:
        self.model, self.found, self.adapters = model, found, adapters
        self.head = head(model.config)
        self.modules: set[str] | str
        self.parameters: dict[str, int] = {}  # ranks by the ends of names
        self.trained_names: set[str] = set()
        self.has_found_some = False
        targets = adapters.targets if adapters.targets is not None else self._default()
        self.sought = targets if isinstance(targets, str) else ", ".join(targets)
        self.modules = set(targets) if not isinstance(targets, str) else targets
        if targets in (ALL_LINEAR, ALL):
            self.modules = {_module(kind.name) for kind in found if kind.layer in ("linear", "conv1d")} - {self.head}
        self._rename_experts(targets)

    def trained_for(self, kind: Kind) -> list[Kind]:
        """The matrices of the adapters of a parameter, and its copy if its layer is trained as a whole."""
        module = _module(kind.name)
        if any(re.match(rf"(^|.*\.){re.escape(one)}($|\..*)", module) for one in self.adapters.modules_to_save):
            leaf = kind.name.rpartition(".")[2]
            return self._trained([Kind(f"{module}.modules_to_save.default.{leaf}", kind.shape, kind.times)])
        is_weight = kind.name == f"{module}.weight"
        if is_weight and kind.layer is not None and self._is_target(module):
            self.has_found_some = True
            return self._matrices(kind, module, self.adapters.rank)
        rank = next((rank for end, rank in self.parameters.items() if f".{kind.name}".endswith(f".{end}")), None)
        if rank is None or len(kind.shape) not in (_TWO_DIMENSIONS, _THREE_DIMENSIONS):
            return []
        self.has_found_some = True
        return self._matrices(kind, module, rank)

    def trained_for_tied_head(self) -> list[Kind]:
        """The adapters or the copy of the layer that makes logits with the weight of the embeddings."""
        if self.head is None or any(kind.name == f"{self.head}.weight" for kind in self.found):
            return []
        shape = next((kind.shape for kind in self.found if kind.layer == "embedding"), None)
        if shape is None:
            return []
        return self.trained_for(Kind(f"{self.head}.weight", shape, 1, "linear"))

    def _matrices(self, kind: Kind, module: str, rank: int) -> list[Kind]:
        """The two matrices: ``[out, in]`` gets ``rank * in`` and ``out * rank``."""
        experts = kind.shape[0] if len(kind.shape) == _THREE_DIMENSIONS else 1
        outputs, inputs = kind.shape[-2:]
        if kind.layer in ("conv1d", "embedding"):  # their weights are the other way around
            outputs, inputs = inputs, outputs
        names = ("lora_embedding_A", "lora_embedding_B") if kind.layer == "embedding" else ("lora_A", "lora_B")
        ends = ("default", "default") if kind.layer == "embedding" else ("default.weight", "default.weight")
        if kind.layer is None:  # experts in one parameter
            module = kind.name
        return self._trained(
            [
                Kind(f"{module}.{names[0]}.{ends[0]}", (rank * experts, inputs), kind.times),
                Kind(f"{module}.{names[1]}.{ends[1]}", (outputs, rank * experts), kind.times),
            ]
        )

    def _trained(self, found: list[Kind]) -> list[Kind]:
        self.trained_names.update(kind.name for kind in found)
        return found

    def _is_target(self, module: str) -> bool:
        """Whether a layer is a target, by the rules of ``check_target_module_exists`` in peft."""
        if isinstance(self.modules, str):
            return re.fullmatch(self.modules, module.replace("#", "0")) is not None
        return module in self.modules or any(module.endswith(f".{one}") for one in self.modules)

    def _default(self) -> tuple[str, ...] | str:
        store, model_type = tables.load("peft"), self.model.model_type or ""
        targets = store["targets"].get(model_type)
        if targets is None or model_type in store["experts_like"]:  # whose targets peft renames before it looks
            raise NoAdapters(
                f"peft has no default targets for model type {self.model.model_type}: name them, such as {_EXAMPLE}"
            )
        return targets if isinstance(targets, str) else tuple(targets)

    def _rename_experts(self, targets: tuple[str, ...] | str) -> None:
        """Do with the names of experts what peft does for models whose experts transformers fuses since 5.0.

        Source: ``_convert_peft_config_moe`` in ``peft/utils/transformers_weight_conversion.py``.
        """
        store = tables.load("peft")
        like = store["experts_like"].get(self.model.model_type or "")
        if like is None or (isinstance(targets, str) and targets not in (ALL_LINEAR, ALL)):
            return
        renamed, fused = store["experts"][like]["renamed"], store["experts"][like]["fused"]
        names = set(self.modules)
        if targets in (ALL_LINEAR, ALL):
            names = {name.rpartition(".")[2] for name in names}
        if targets == ALL_LINEAR:
            names |= renamed.keys()
        old = {name: end for name in names for end in renamed if name == end or name.endswith(f".{end}")}
        self.modules = names - old.keys()
        for new, needed in fused.items():
            present = {end for end in old.values() if renamed[end] == new} & set(needed)
            if 0 < len(present) < len(needed):
                lacking = " and ".join(one for one in needed if one not in present)
                raise NoAdapters(
                    f"peft cannot target {' and '.join(sorted(present))} without {lacking}: both are {new}"
                )
        for end in old.values():
            new = renamed[end]
            self.parameters[new] = self.adapters.rank * max(1, len(fused.get(new, ())))


def _kinds_of(model: Model) -> list[Kind]:
    """The parameters of a model with their layers: by its config, else by the names in its checkpoint."""
    found = kinds(model.config)
    if found is not None or model.parameters is None or model.quantization:
        return found or []
    return [Kind(one.name, tuple(one.shape), 1, _layer_by_name(one.name, one.shape)) for one in model.parameters]


def _layer_by_name(name: str, shape: tuple[int, ...]) -> str | None:
    """What kind of layer a weight is of, as far as its name and shape tell."""
    if len(shape) != _TWO_DIMENSIONS or not name.endswith(".weight"):
        return None
    return "embedding" if re.search(r"emb|wte|wpe|relative_attention_bias|shared", name) else "linear"


def _module(parameter: str) -> str:
    """The name of the module that holds a parameter."""
    return parameter.rpartition(".")[0]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in re.split(r"[+,\s]+", text) if name)
