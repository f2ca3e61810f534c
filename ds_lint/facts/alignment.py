"""How a run learns from preferences or rewards: a second model beside the trained one, and samples that are pairs."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.frameworks.record import NO_WEIGHT, TRUE, Aligned, GivenFields
from ds_lint.frameworks.trl import ALIGNING_TRAINERS, METHODS, keeps_reference
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts import Facts
    from ds_lint.frameworks.record import FieldValues
    from ds_lint.launches.aligned import AlignedTraining

GENERATION = "the cache of generation, or vLLM beside the training"


class Alignment(NamedTuple):
    """What a run holds and computes beside supervised training.

    ``reference`` says whether it keeps a frozen copy of the model; None if that is not known. ``samples`` are the
    sequences of one sample. ``others`` are what else it holds, in words, of which the size is not known. ``generates``
    says that it generates the answers that it learns from.
    """

    method: str
    samples: int
    reference: bool | None
    others: tuple[str, ...]
    generates: bool = False


def of(facts: Facts) -> Alignment | None:
    """How a run aligns its model; None if it does not, or nothing tells."""
    recipe, launch = facts.recipe, facts.launch
    if recipe is not None and recipe.record.aligned is not None:
        return _alignment(recipe.record.aligned(_given(recipe.value, facts)), facts)
    if launch is None:
        return None
    given = _given(launch.launch.arguments.get, facts)
    if launch.framework is not None and launch.framework.aligned is not None:
        return _alignment(launch.framework.aligned(given), facts)
    made = launch.script.calls.aligned if launch.script is not None else None
    return _alignment(_of_script(made, given), facts) if made is not None else None


def _given(value: FieldValues, facts: Facts) -> GivenFields:
    """What the framework of a run is started with."""
    is_complete = facts.launch is None or not facts.launch.doubts
    return GivenFields(value, lambda name: value(name) is not UNKNOWN, _subcommand(facts), is_complete)


def _subcommand(facts: Facts) -> str:
    """The word behind the program of a framework."""
    command = facts.launch.launch.command if facts.launch is not None else []
    launcher = facts.launch.launch.launcher if facts.launch is not None else ""
    words = [word for word in command if word is not None]
    at = next((place for place, word in enumerate(words) if word.rpartition("/")[2] == launcher), len(words))
    return words[at + 1] if at + 1 < len(words) else ""


def _alignment(aligned: Aligned | None, facts: Facts) -> Alignment | None:
    """The alignment by a method; None if it is not known."""
    method = METHODS.get(aligned.method) if aligned is not None else None
    if aligned is None or method is None:
        return None
    keeps = aligned.reference if method.has_reference else False
    if keeps and facts.lora is not None:  # as the user says: the adapters are switched off for it
        keeps = False
    generation = (GENERATION,) if method.generates else ()
    name = aligned.method.upper().replace("_", " ")
    return Alignment(name, method.samples, keeps, (*aligned.others, *method.others, *generation), method.generates)


def _of_script(made: AlignedTraining, given: GivenFields) -> Aligned:
    """A script that makes a trainer of trl, with the flags of its launch."""
    name = ALIGNING_TRAINERS[made.trainer]
    if made.reference == "other":
        return Aligned(name, reference=False, others=("the reference model",))
    has_adapters = made.adapters == "yes" or (made.adapters == "flags" and given.value("use_peft") in TRUE)
    if has_adapters or made.is_precomputed or made.weight in NO_WEIGHT:
        return Aligned(name, reference=False)
    is_open = made.reference is None or made.is_precomputed is None or made.adapters == "maybe"
    kept = keeps_reference(name, given)
    if made.weight is not None and made.weight is not UNKNOWN and kept is None and given.is_complete:
        kept = True
    return Aligned(name, None if is_open else kept)
