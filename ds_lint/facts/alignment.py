"""How a run learns from preferences or rewards: a second model beside the trained one, and samples that are pairs.

Sources: the trainers of trl 0.24 and 1.16 (``create_reference_model``, ``prepare_deepspeed``, the collators);
``create_ref_model`` of LLaMA-Factory; ``swift/arguments/rlhf_args.py`` of ms-swift; ``setup_reference_model`` in
``axolotl/train.py``.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.facts import Facts
    from ds_lint.launches.aligned import AlignedTraining

_TRUE = (True, "true", "True", "1")
_OFF = (None, False, "false", "False", "0")
_NO_WEIGHT = (0, 0.0, "0", "0.0")
_REWARDS = ("reward models",)
_GENERATION = "the cache of generation, or vLLM beside the training"
_WITH_ADAPTERS = ("use_peft", "use_lora")


class _Method(NamedTuple):
    """A way of training: ``weight`` is the default of the weight of the reference, of which 0 spares it."""

    samples: int = 1  # sequences of which each sample of a batch consists
    has_reference: bool = False
    weight: float | None = None
    others: tuple[str, ...] = ()  # models that are not of the trained one's size, or that may be none
    generates: bool = False


_METHODS = {
    "bco": _Method(has_reference=True),
    "cpo": _Method(2),
    "dpo": _Method(2, has_reference=True),
    "gkd": _Method(others=("the teacher model",), generates=True),
    "grpo": _Method(has_reference=True, weight=0.0, others=_REWARDS, generates=True),
    "ipo": _Method(2, has_reference=True),
    "kto": _Method(has_reference=True),
    "nash_md": _Method(has_reference=True, others=_REWARDS, generates=True),
    "online_dpo": _Method(2, has_reference=True, others=_REWARDS, generates=True),
    "orpo": _Method(2),
    "ppo": _Method(
        has_reference=True, others=("the value model, which is trained too", "the reward model"), generates=True
    ),
    "reward": _Method(2),
    "rloo": _Method(has_reference=True, weight=0.05, others=_REWARDS, generates=True),
    "rm": _Method(2),
    "simpo": _Method(2),
    "xpo": _Method(has_reference=True, others=_REWARDS, generates=True),
}
_TRAINERS = re.compile(r"(?P<method>\w+?)Trainer")


class Alignment(NamedTuple):
    """What a run holds and computes beside supervised training.

    ``reference`` says whether it keeps a frozen copy of the model; None if that is not known. ``samples`` are the
    sequences of one sample. ``others`` are what else it holds, in words, of which the size is not known.
    """

    method: str
    samples: int
    reference: bool | None
    others: tuple[str, ...]


def of(facts: Facts) -> Alignment | None:
    """How a run aligns its model; None if it does not, or nothing tells."""
    recipe, launch = facts.recipe, facts.launch
    if recipe is not None and recipe.framework in _READERS:
        return _READERS[recipe.framework](recipe.value, facts)
    if launch is None:
        return None
    value = launch.launch.arguments.get
    if launch.launch.launcher == "trl":
        return _of_trl(_subcommand(facts), value, facts)
    if launch.launch.launcher == "swift":
        return _of_ms_swift(value, facts)
    if launch.script is not None:
        made = launch.script.calls.aligned
        return _of_script(made, value, facts) if made is not None else None
    return _of_llama_factory(value, facts) if "finetuning_type" in launch.launch.arguments else None


def _alignment(name: str, facts: Facts, *, reference: bool | None, others: tuple[str, ...] = ()) -> Alignment | None:
    """The alignment by a method; ``reference`` says whether the run keeps one if the method has any."""
    method = _METHODS.get(name)
    if method is None:
        return None
    keeps = reference if method.has_reference else False
    if keeps and facts.lora is not None:  # as the user says: the adapters are switched off for it
        keeps = False
    generation = (_GENERATION,) if method.generates else ()
    return Alignment(name.upper().replace("_", " "), method.samples, keeps, (*others, *method.others, *generation))


def _subcommand(facts: Facts) -> str:
    """The word behind ``trl`` or ``swift``."""
    command = facts.launch.launch.command if facts.launch is not None else []
    launcher = facts.launch.launch.launcher if facts.launch is not None else ""
    words = [word for word in command if word is not None]
    at = next((place for place, word in enumerate(words) if word.rpartition("/")[2] == launcher), len(words))
    return words[at + 1] if at + 1 < len(words) else ""


def _is_complete(facts: Facts) -> bool:
    """Whether no unknown word of the launch may be a flag, so that one which is not there is not given."""
    return facts.launch is None or not facts.launch.doubts


def _of_trl(name: str, value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    """The subcommands of trl."""
    return _alignment(name, facts, reference=_kept_by_trl(name, value, facts))


def _kept_by_trl(name: str, value: Callable[[str], Any], facts: Facts) -> bool | None:
    """Whether a trainer of trl keeps a reference model, by its arguments."""
    if any(value(one) in _TRUE for one in (*_WITH_ADAPTERS, "precompute_ref_log_probs")):
        return False
    weight = value("beta")
    default = _METHODS[name].weight if name in _METHODS else None
    if weight in _NO_WEIGHT or (weight is None and default == 0):
        # Older releases of trl have 0.04 for GRPO.
        return False if weight in _NO_WEIGHT and default is not None else None
    return True if _is_complete(facts) and value("use_peft") in _OFF else None


def _of_recipe_of_trl(value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    return _of_trl(_subcommand(facts), value, facts)


def _of_llama_factory(value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    stage, loss = value("stage"), value("pref_loss")
    if not isinstance(stage, str) or stage in ("pt", "sft"):
        return None
    if stage == "dpo" and loss in ("orpo", "simpo"):
        return _alignment(str(loss), facts, reference=False)
    if value("ref_model") is not None:
        return _alignment(stage, facts, reference=False, others=("the reference model",))
    kind = value("finetuning_type")
    is_known = kind is not UNKNOWN and (kind is not None or _is_complete(facts))
    return _alignment(stage, facts, reference=kind not in (None, "lora") if is_known else None)


def _of_ms_swift(value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    if _subcommand(facts) != "rlhf" and value("rlhf_type") is None:
        return None
    name = value("rlhf_type") or "dpo"
    if value("ref_model") is not None:
        return _alignment(str(name), facts, reference=False, others=("the reference model",))
    kind = value("tuner_type") or value("train_type")
    is_known = kind is not UNKNOWN and (kind is not None or _is_complete(facts))
    keeps = kind == "full" and not (name == "grpo" and value("beta") in _NO_WEIGHT)
    return _alignment(str(name), facts, reference=keeps if is_known else None)


def _of_axolotl(value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    name = value("rl")
    if name is None and value("reward_model") in _TRUE:
        name = "reward"
    keeps: bool | None = value("adapter") is None or value("rl_adapter_ref_model") in _TRUE
    if name in ("grpo", "gdpo"):
        keeps = None if keeps else False  # its weight is in a section of its own
    return _alignment("grpo" if name == "gdpo" else str(name), facts, reference=keeps)


def _of_script(made: AlignedTraining, value: Callable[[str], Any], facts: Facts) -> Alignment | None:
    """A script that makes a trainer of trl, with the flags of its launch."""
    named = _TRAINERS.fullmatch(made.trainer)
    name = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=Nash)(?=MD)", "_", named["method"]).lower() if named is not None else ""
    if made.reference == "other":
        return _alignment(name, facts, reference=False, others=("the reference model",))
    has_adapters = made.adapters == "yes" or (made.adapters == "flags" and value("use_peft") in _TRUE)
    if has_adapters or made.is_precomputed or made.weight in _NO_WEIGHT:
        return _alignment(name, facts, reference=False)
    is_open = made.reference is None or made.is_precomputed is None or made.adapters == "maybe"
    kept = _kept_by_trl(name, value, facts)
    if made.weight is not None and made.weight is not UNKNOWN and kept is None and _is_complete(facts):
        kept = True
    return _alignment(name, facts, reference=None if is_open else kept)


_READERS = {
    "LLaMA-Factory": _of_llama_factory,
    "TRL": _of_recipe_of_trl,
    "axolotl": _of_axolotl,
    "ms-swift": _of_ms_swift,
}
