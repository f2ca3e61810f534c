"""What training by preferences or rewards holds beside supervised training: other logits, and further models.

``schemas/preference_losses.json`` has the bytes that the losses of trl hold at once for each token and entry of the
vocabulary, by release (``tools/activations/preference.py``); a sample counts with both of its sequences, and the
answers of the reference model are part of it. A model with a head of one number has no logits.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ds_lint.facts import Facts, lora_requests, model
from ds_lint.facts.own_arguments import named_by
from ds_lint.footprint.band import Band
from ds_lint.frameworks.trl import METHODS
from ds_lint.knowledge import tables
from ds_lint.targets.pin import is_exact, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.alignment import Alignment
    from ds_lint.facts.tensors import Tensor
    from ds_lint.semantics.config import Config

# Arguments that name a further model, by the word for it in ``others`` of an alignment.
_NAMES = {
    "reference model": ("ref_model", "ref_model_name_or_path", "ref_model_path"),
    "reward model": ("reward_model", "reward_model_path", "reward_model_name_or_path", "reward_pretrain"),
    "teacher model": ("teacher_model", "teacher_model_name_or_path", "teacher_name_or_path"),
    "value model": ("critic_model_name_or_path", "critic_pretrain", "value_model_path", "reward_model_path"),
}
_TRAINED = "value model"
_VALUE_HEAD = "RM"  # of LLaMA-Factory: a head of one number beside the one for the vocabulary
_WITH_VALUES = 6  # the logits in 16 bit and in fp32, of which no gradient is taken (trl/models/modeling_value_head.py)
_UPCASTS = ("LLaMA-Factory",)  # which computes log-probabilities of fp32 logits: train/dpo/trainer.py


class FurtherModel(NamedTuple):
    """A model beside the trained one; ``words`` are those with which it would be named as not included."""

    words: str
    tensors: tuple[Tensor, ...]
    is_trained: bool


def has_scalar_head(aligned: Alignment | None) -> bool:
    """Whether the trained model has a head of one number: ``AutoModelForSequenceClassification`` of RewardTrainer."""
    return aligned is not None and aligned.method == "REWARD"


def loss(config: Config, aligned: Alignment | None) -> Band | None:
    """The bytes that the loss holds at once for each token and entry of the vocabulary; None if it is the model's own.

    If the release of trl is not known, the likely figure is the middle one of those that were measured.
    """
    method = METHODS.get(aligned.method.lower().replace(" ", "_")) if aligned is not None else None
    if aligned is None or method is None:
        return None
    store = tables.load("preference_losses")
    own = store["in_fp32"]["with_reference" if aligned.reference else "alone"]
    framework = config.facts.recipe.record if config.facts.recipe is not None else None
    if aligned.method == _VALUE_HEAD:
        return Band(0, _WITH_VALUES, own)
    if framework is not None and framework.name in _UPCASTS and method.samples + bool(method.has_reference) > 1:
        return None if method.generates else Band(0, own, own)
    measured = store["trl"].get(method.trainer)
    if not measured:
        return None
    pin = config.basis.pins.get("trl")
    if pin is not None and is_exact(pin.specifier) and version_of(pin.specifier) in measured:
        known = measured[version_of(pin.specifier)]
        return Band(known, known, known)
    values = sorted(measured.values())
    return Band(values[0], values[len(values) // 2], max(own, *values))


def further(config: Config, aligned: Alignment | None) -> tuple[FurtherModel, ...]:
    """The models beside the trained one of which the sizes are known."""
    if aligned is None:
        return ()
    found = []
    for words in aligned.others:
        for kind, names in _NAMES.items():
            path = named_by(config.facts, names) if kind in words else None
            if path is not None and (tensors := _tensors(config, path)):
                found.append(FurtherModel(words, tensors, kind == _TRAINED))
                break
    return tuple(found)


def _tensors(config: Config, path: str) -> tuple[Tensor, ...]:
    """The parameters of a model that an argument names; none if they are not known."""
    beside = os.path.join(os.path.dirname(config.document.path), path)
    launch = config.facts.launch
    start = os.path.join(os.path.dirname(launch.document.path), path) if launch is not None else beside
    folder = next((one for one in (path, start, beside) if os.path.isdir(one)), None)
    known = model.named_or_in(path, folder)
    if known is None:
        return ()
    facts = Facts()
    facts.model = known
    return tuple(lora_requests.parameters(facts))
