"""The facts of a run that are not known, each with what the run takes by every answer to it.

An estimate covers all answers, so that one unknown fact can make a band many times as wide. An answer is one
``_replace`` of the setup.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.kernels import Kernels
from ds_lint.footprint.optimizers import is_known

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    from ds_lint.footprint.band import Band
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.setup import TrainingSetup

    Answers: TypeAlias = Iterator[tuple[str, TrainingSetup]]

_SMALLEST = 0.03  # share of the most that an answer has to take from a band, for the fact to be named
_USUAL_OPTIMIZER = "adamw"
_WITHOUT_OPTION = "in the script"


class OpenAnswer(NamedTuple):
    """One answer to what is not known, and what the run takes then."""

    words: str
    gpu: Band
    host: Band


class OpenFact(NamedTuple):
    """A fact that is not known. ``give`` is the option that gives it, or where else it is said."""

    name: str
    give: str
    answers: tuple[OpenAnswer, ...]


def open_facts(setup: TrainingSetup) -> list[OpenFact]:
    """What is not known of a run and makes its band wider, the widest first."""
    found = estimate(setup)
    costs: list[tuple[float, OpenFact]] = []
    for name, give, ask in _QUESTIONS:
        answers = tuple(_answer(words, answered) for words, answered in ask(setup))
        cost = max((_narrowed(found, one) for one in answers), default=0)
        if cost >= _SMALLEST:
            costs.append((cost, OpenFact(name, give, answers)))
    return [fact for _, fact in sorted(costs, key=lambda one: -one[0])]


def _answer(words: str, setup: TrainingSetup) -> OpenAnswer:
    made = estimate(setup)
    return OpenAnswer(words, made.gpu_bytes, made.host_bytes)


def _narrowed(found: Estimate, answer: OpenAnswer) -> float:
    """What an answer takes from the band of the GPU or of the host, as a share of the most; or from its least."""
    pairs = ((found.gpu_bytes, answer.gpu), (found.host_bytes, answer.host))
    return max(
        max((before.most - before.least - after.most + after.least) / before.most, 1 - after.least / before.least)
        for before, after in pairs
        if before.least
    )


def _attention(setup: TrainingSetup) -> Answers:
    if setup.attention is None:
        for kind in ("sdpa", "flash_attention_2", "eager"):
            yield kind, setup._replace(attention=kind)


def _checkpointing(setup: TrainingSetup) -> Answers:
    if setup.is_checkpointed is None:
        yield "on", setup._replace(is_checkpointed=True)
        yield "off", setup._replace(is_checkpointed=False)


def _length(setup: TrainingSetup) -> Answers:
    """Arguments say how long a sequence may be, not how long the longest one is."""
    if setup.sequence_length is not None and not setup.is_length_known:
        yield f"{setup.sequence_length} tokens", setup._replace(is_length_known=True)


def _padding(setup: TrainingSetup) -> Answers:
    if setup.micro_batch is not None and setup.micro_batch > 1 and setup.is_packed is None:
        yield "all of one length", setup._replace(is_packed=True)


def _kernels(setup: TrainingSetup) -> Answers:
    if (setup.kernels.layers is None or setup.kernels.is_assumed) and not setup.kernels.others:
        yield "transformers", setup._replace(kernels=Kernels("transformers", "logits"))
        yield "liger", setup._replace(kernels=Kernels("liger", "fused"))


def _optimizer(setup: TrainingSetup) -> Answers:
    if not is_known(setup):
        for name in (_USUAL_OPTIMIZER, "adamw_bnb_8bit", "lion"):
            yield name, setup._replace(optimizer=name)


def _zero_init(setup: TrainingSetup) -> Answers:
    if setup.stage == 3 and setup.uses_zero_init is None:
        yield "in partitions", setup._replace(uses_zero_init=True)
        yield "whole on each rank", setup._replace(uses_zero_init=False)


def _reference(setup: TrainingSetup) -> Answers:
    if setup.reference is None:
        yield "kept", setup._replace(reference=True)
        yield "none", setup._replace(reference=False)


def _shapes(setup: TrainingSetup) -> Answers:
    if setup.is_stand_in:
        yield "as usual for its size", setup._replace(is_stand_in=False)


_QUESTIONS: tuple[tuple[str, str, Callable[[TrainingSetup], Answers]], ...] = (
    ("attention", "--attention", _attention),
    ("activation checkpointing", "--activation-checkpointing", _checkpointing),
    ("longest sequence", "--sequence-length", _length),
    ("lengths in a batch", "--packing", _padding),
    ("kernels", "--kernels", _kernels),
    ("optimizer", "--optimizer", _optimizer),
    ("how the model is built", _WITHOUT_OPTION, _zero_init),
    ("reference model", _WITHOUT_OPTION, _reference),
    ("shapes of the model", "--model", _shapes),
)
