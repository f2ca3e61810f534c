"""What ``ds-lint memory`` says of a run whose log shows that memory ran out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.commands.estimates import AnswerParts, answer_of, complaint_of
from ds_lint.commands.failures import WRONG_USAGE
from ds_lint.commands.launched_configs import launched_configs
from ds_lint.commands.one_config import UnreadableConfigError
from ds_lint.output.memory_table import in_units, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.footprint.answer import Answer
    from ds_lint.logs.cause import Cause
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

_RULES = {"DS851", "DS852", "DS855"}  # of memory that runs out
_CONFIGS = ("deepspeed", "accelerate")
_MOST = 3  # runs that are estimated


def add_expected_memory(causes: Iterable[Cause], documents: Iterable[Document], session: Session) -> None:
    """Add what the runs of the project need to the causes that are about memory."""
    of_memory = [cause for cause in causes if not _RULES.isdisjoint(cause.codes)]
    if not of_memory:
        return
    paths = list(dict.fromkeys(one.path for one in documents if one.kind in _CONFIGS))
    expected = list(dict.fromkeys(text for path in paths for text in _of_path(path, session)))[:_MOST]
    for cause in of_memory:
        cause.memory = expected


def _of_path(path: str, session: Session) -> Iterator[str]:
    try:
        found = launched_configs(path, session)
    except (*WRONG_USAGE, UnreadableConfigError):  # checking it has complained already
        return
    for one in found:
        answer = answer_of(one, AnswerParts())
        if answer is not None:
            yield in_words(answer)
        elif (reason := complaint_of(one)) is not None:
            yield f"no estimate of {reason}"


def in_words(answer: Answer) -> str:
    """What a run needs, what there is, and the first change that makes it fit."""
    needed, there = answer.estimate, answer.capacity
    parts = [f"{shown(needed.gpu_bytes)} on each GPU{f' of {in_units(there.gpu)}' if there.gpu is not None else ''}"]
    if needed.host_bytes.most:
        parts.append(f"{shown(needed.host_bytes)} on each host")
    left_out = f", without {' and '.join(answer.left_out)}" if answer.left_out else ""
    advice = next(iter(answer.advice), None)
    fits = f"; it fits with this change: {advice.words} ({shown(advice.estimate.gpu_bytes)})" if advice else ""
    return f"{os.path.normpath(answer.launch or answer.name)} needs {' and '.join(parts)}{left_out}{fits}"
