"""Why a training framework rejects what it is started with: fields of a recipe, or flags, beside DeepSpeed.

``schemas/refusals.json`` has the messages and conditions of each release. The release that the project pins counts;
without a pin, what all releases reject.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluate, names_in
from ds_lint.knowledge.stacks import record_at
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.recognition import NAMES_CONFIG
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ds_lint.knowledge.records import RefusalStore
    from ds_lint.targets.pin import Pin

_IS_STAGE_3 = "is_deepspeed_zero3_enabled()"
# LLaMA-Factory rejects DeepSpeed in a process that is not one of several, whatever the recipe says.
_OF_LAUNCH = {"parallel_mode": True, "ParallelMode.DISTRIBUTED": True, "ParallelMode.NOT_DISTRIBUTED": False}


class FrameworkRejection(NamedTuple):
    """The message of a framework, the fields that are set and that it looks at, and the release that is pinned."""

    message: str
    fields: list[str]
    depends_on_stage: bool
    release: str | None = None

    @property
    def sentence(self) -> str:
        """The first sentence of the message, which may go on to say what to do."""
        first, mark, _ = self.message.partition(". ")
        return f"{first}{mark.strip()}"


def refusal(framework: str, values: Mapping[str, Any], stage: int | None, pin: Pin | None) -> FrameworkRejection | None:
    """Why a framework rejects these values of fields with DeepSpeed; None if a possible release may not.

    ``stage`` is the ZeRO stage of the config, None if it is unknown.
    """
    store = tables.load("refusals")["frameworks"].get(framework)
    if store is None:
        return None
    releases = store["releases"]
    possible = allowed(pin.specifier, releases) if pin is not None and pin.specifier else []
    found: list[FrameworkRejection | None] = []
    for release in reversed(possible or releases):
        found.append(_of_release(store, release, values, stage))
        if found[-1] is None:
            return None
    known = [one for one in found if one is not None]
    # A release that does not take a field at all says nothing of DeepSpeed.
    about = next((one for one in known if NAMES_CONFIG in one.message.lower()), known[0])
    return about._replace(release=possible[-1]) if possible and len(possible) < len(releases) else about


def _of_release(
    store: RefusalStore, release: str, values: Mapping[str, Any], stage: int | None
) -> FrameworkRejection | None:
    defaults: dict[str, Any] = {}

    def look_up(text: str) -> Any:
        if text == _IS_STAGE_3:
            return UNKNOWN if stage is None else stage == 3
        if text == NAMES_CONFIG:
            return True
        if text in _OF_LAUNCH:
            return _OF_LAUNCH[text]
        if text in values:
            return values[text]
        if text not in defaults:
            record = store["defaults"].get(text)
            found = record_at(store, record, release) if record is not None else None
            defaults[text] = UNKNOWN if found is None else found["default"]
        return defaults[text]

    for message, record in store["refusals"].items():
        facts = record_at(store, record, release)
        if facts is None or not all(_holds(condition, look_up) for condition in facts["only_if"]):
            continue
        read = dict.fromkeys(name for condition in facts["only_if"] for name in names_in(condition))
        fields = [name for name in read if name != NAMES_CONFIG and values.get(name) not in (None, False, UNKNOWN)]
        if fields:
            depends = any(_IS_STAGE_3 in condition for condition in facts["only_if"])
            return FrameworkRejection(message.partition(" #")[0], fields, depends)
    return None


def _holds(condition: str, look_up: Callable[[str], Any]) -> bool:
    try:
        value = evaluate(condition, look_up)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):  # of values that are rejected
        return False
    return value is not UNKNOWN and bool(value)
