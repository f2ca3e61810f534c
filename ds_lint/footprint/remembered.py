"""Answers about a setup that are kept: advice and sweeps estimate many setups that differ in a few fields.

A field that a question does not depend on is named, not one that it does: a field that is new counts for every answer.
"""

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    Result = TypeVar("Result")
    Question = Callable[[Any], Result]  # about a TrainingSetup, which imports this module

OF_A_BATCH = ("micro_batch", "sequence_length", "is_checkpointed", "attention")
OF_STATES = (  # beside a batch: where the states lie, and how wide they are, but not how they are divided
    *OF_A_BATCH,
    *("optimizer_offload", "parameter_offload", "accumulation_steps", "overlaps_communication", "reduce_bucket"),
    *("prefetch_bucket", "gathers_on_save", "optimizer_parameters", "master_width", "state_width"),
    *("persistence_threshold", "persistence_total", "max_live_parameters", "max_reuse_distance"),
)
_MOST = 128  # answers to one question
_LARGE = (tuple, list, dict)  # compared by identity: models have thousands of parameters,
_SMALL = "optimizer_parameters"  # but not what each reading of a config makes for itself


_last: tuple[object, tuple[object, ...]] = (None, ())  # one setup is asked many questions, one after another


def _compared(setup: Any) -> tuple[object, ...]:
    """The fields of a setup as they are compared."""
    global _last  # noqa: PLW0603 - a pair is replaced as one, also where threads ask
    known = _last
    if known[0] is not setup:
        known = _last = setup, tuple([id(value) if type(value) in _LARGE else value for value in setup])
    return known[1]


def remembered(*apart_from: str) -> Callable[[Question[Result]], Question[Result]]:
    """Let a question be answered once for setups that differ in these fields alone."""

    def decorate(function: Question[Result]) -> Question[Result]:
        known: dict[tuple[object, ...], tuple[object, Result]] = {}
        last: tuple[object, Result] | None = None
        values_of: Callable[[Any], tuple[object, ...]] | None = None

        def answer(setup: Any) -> Result:
            nonlocal last, values_of
            if last is not None and last[0] is setup:
                return last[1]
            if values_of is None:
                apart = (*apart_from, _SMALL)
                values_of = itemgetter(*(place for place, name in enumerate(setup._fields) if name not in apart))
            key = values_of(_compared(setup))
            if _SMALL not in apart_from and setup.optimizer_parameters:
                key = (*key, repr(setup.optimizer_parameters))
            found = known.get(key)
            if found is None:
                if len(known) >= _MOST:
                    known.clear()
                # The setup is kept too, so that what is compared by identity stays.
                found = known[key] = setup, function(setup)
            last = setup, found[1]
            return found[1]

        answer.__doc__ = function.__doc__
        return answer

    return decorate


def by_tensors(function: Question[Result]) -> Question[Result]:
    """Let a question about the parameters of the model alone be answered once for a model."""
    last: tuple[object, Result] | None = None

    def answer(setup: Any) -> Result:
        nonlocal last
        if last is None or last[0] is not setup.tensors:
            last = setup.tensors, function(setup)
        return last[1]

    answer.__doc__ = function.__doc__
    return answer
