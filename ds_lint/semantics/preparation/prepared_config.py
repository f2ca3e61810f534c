"""What became of a config: the records of its preparation."""

from __future__ import annotations

from ds_lint.knowledge.expressions import names_in
from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    from ds_lint.source.tree import KeyPath

    # An object of the config as it is: values of JSON, UNKNOWN, and whatever an expression evaluates to.
    ConfigObject = dict[str, Any]

    # When a library looks at a config before DeepSpeed does; training arguments are refused at their creation.
    PreparationStage = Literal["creation", "arguments", "plugin", "precision", "training", "prepare"]


class StackValue(Record):
    """What became of a key that the stack touched: its value, and what the library did with which expression."""

    value: Any
    library: str  # "transformers" or "accelerate"
    did: str  # "filled", "inserted" or "overwritten"
    expression: str


class Mismatch(Record):
    """A value of the config that is not what the Trainer wants it to be.

    ``only_if`` is a condition under which the Trainer compares them, if it is not known whether it holds.
    """

    path: KeyPath
    written: Any
    wanted: Any
    expression: str
    only_if: str | None = None

    @property
    def names(self) -> list[str]:
        """The training arguments that the wanted value follows from, and ``world_size``."""
        return [one for name in names_in(self.expression) for one in _BEHIND.get(name, (name,))]


# Behind what is not a training argument itself.
_BEHIND = {
    "max": (),
    "get_warmup_steps": ("warmup_steps", "warmup_ratio"),
    "num_training_steps": ("max_steps",),
    "fp16_backend": ("fp16_backend", "fp16"),
}


class StackRefusal:
    """Why the stack stops before DeepSpeed sees the config: the message of its error, whose it is, and when.

    ``conditions`` are those under which the library raises it, in the words of its facts.
    """

    __slots__ = ("conditions", "is_trip", "library", "message", "stage")

    def __init__(
        self,
        message: str,
        library: str,
        stage: PreparationStage,
        *,
        conditions: Iterable[str] = (),
        is_trip: bool = False,
    ) -> None:
        self.message = message
        self.conditions = tuple(conditions)
        self.is_trip = is_trip  # over a value that the library did not expect
        self.library = library
        self.stage = stage


class PreparedConfig(Record):
    """The config as it ends, and what was done to it."""

    config: ConfigObject
    settings: dict[KeyPath, StackValue] = field(factory=dict)
    mismatches: list[Mismatch] = field(factory=list)
    refusals: list[StackRefusal] = field(factory=list)
    unsized: dict[KeyPath, str] = field(
        factory=dict
    )  # keys that need a hidden size, and the library that does not find it
    is_tripped_by_model: bool = False  # the Trainer asks it for a hidden size that it does not have, and raises
    left: list[KeyPath] = field(factory=list)  # an "auto" that Accelerate meets and that is not filled

    @property
    def is_refused(self) -> bool:
        """Whether the stack stops before DeepSpeed sees the config, as far as that is known."""
        is_mismatched = any(one.only_if is None for one in self.mismatches)
        return bool(is_mismatched or self.refusals or self.left or self.unsized)

    def value(self, *path: str) -> Any:
        """The value at a key path; None where there is none."""
        found: Any = self.config
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        return found
