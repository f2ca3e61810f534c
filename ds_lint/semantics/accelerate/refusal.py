"""A value with which a launch does not start, and the words for it."""

from __future__ import annotations

from ds_lint.record import Record
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import KW_ONLY
    from typing import Any

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.semantics.made_config import SourceSetting
    from ds_lint.source.tree import KeyPath, Member


class LaunchRefusal(Record):
    """Why a run does not start: what is wrong, what to write instead, and when it is found.

    ``path`` and ``member`` are None for what is missing. ``can_be_given`` says that a flag of the command line may set
    it. ``instead`` is the value that is clearly meant, None if that is not clear. ``is_of_loop`` says that the Trainer,
    which prepares the loader in another way, does not raise.
    """

    path: KeyPath | None
    member: Member | None
    message: str
    help: str
    _: KW_ONLY
    stage: Stage = "load"
    label: str = ""
    can_be_given: bool = False
    instead: str | int | None = None
    is_of_loop: bool = False


def is_integer(value: Any) -> bool:
    """Whether Python makes an integer of a value."""
    try:
        int(value)
    except (ValueError, TypeError, OverflowError):
        return False
    return True


def kind_of(value: Any) -> str:
    """What a value is, in words."""
    if value is None:
        return "null"
    for kind, name in (
        (bool, "a boolean"),
        (int, "a number"),
        (float, "a fraction"),
        (str, "a string"),
        (dict, "a mapping"),
    ):
        if isinstance(value, kind):
            return name
    return "a list" if isinstance(value, list) else "a date"


def listed(words: list[str]) -> str:
    """Words as a message lists them."""
    return ", ".join(words)


def wrong(
    path: KeyPath, member: Member, problem: str, advice: str, *, stage: Stage = "load", instead: str | int | None = None
) -> LaunchRefusal:
    """The refusal of the value of a key."""
    where = "`accelerate launch` raises" if stage == "load" else "`Accelerator()` raises"
    return LaunchRefusal(
        path, member, f"`{dotted(path)}` is {problem}: {where}", advice, stage=stage, label=problem, instead=instead
    )


def of(
    setting: SourceSetting,
    name: str,
    problem: str,
    advice: str,
    *,
    stage: Stage = "load",
    instead: str | int | None = None,
) -> LaunchRefusal:
    """The refusal of a value of the namespace, where it is written."""
    if setting.path is None or setting.member is None:
        where = "`accelerate launch` raises" if stage == "load" else "`Accelerator()` raises"
        return LaunchRefusal(None, None, f"`{name}` is {problem}: {where}", advice, stage=stage)
    return wrong(setting.path, setting.member, problem, advice, stage=stage, instead=instead)
