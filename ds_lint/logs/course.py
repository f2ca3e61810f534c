"""The course of a training as a log shows it: loss, gradient norm, learning rate, loss scale and skipped steps."""

from __future__ import annotations

import math
import re
from collections import deque
from dataclasses import dataclass, field

# What follows a name: `': 0.31`, `: '4.335'`, `=0.3`, ` 0.31`, ` is 0.31`, `: tensor(0.31`, `| 3.1E-01`
_VALUE = re.compile(
    r"['\"]?\s{0,3}(?:[:=|]\s{0,8}|is\s|\s)\s{0,3}['\"]?(?:tensor\()?\[?"
    r"([-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|NaN|inf(?:inity)?|Inf(?:inity)?))(?![\w.])"
)
_BEFORE_LOSS = re.compile(r"(?:^|[^\w.]|(?:train|training|lm|step|total|ce|sft|mean|avg|average)[ _])$", re.IGNORECASE)
_LONGEST_BEFORE = 10  # characters before a name that are looked at
# deepspeed/runtime/fp16/loss_scaler.py, and engine.py for scales that do not change
_SCALE = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_SCALED_DOWN = re.compile(
    rf"OVERFLOW!.*?(?:Attempted loss scale|from|scale):? *{_SCALE},? *(?:reducing )?to *{_SCALE}", re.IGNORECASE
)
_SKIPPED = re.compile(r"step=(\d+), skipped=(\d+)")
ANCHORS = ("loss", "Loss", "OVERFLOW", "skipped=", "grad_norm", "grad norm", "overflow")
FEW = 3  # losses that show that a run goes on
# What the Trainer prints, which most logs are full of.
_OF_TRAINER = re.compile(
    r"\{'loss': '?([\w.+-]+)'?, 'grad_norm': '?([\w.+-]+)'?, 'learning_rate': '?([\w.+-]+)'?[,}]", re.ASCII
)


@dataclass(slots=True)
class Series:
    """A number that a run prints now and then."""

    count: int = 0
    first: float = math.nan
    last: float = math.nan
    first_at: int = 0  # line of the log
    last_at: int = 0
    strange: int = 0  # how many are NaN or infinite
    strange_at: int | None = None  # the line of the first
    before_strange: float | None = None
    run: int = 0  # how many of the last are the same, or all not finite
    run_at: int = 0  # the line where that run begins
    places: deque[int] = field(default_factory=lambda: deque(maxlen=FEW))  # the lines of the last ones

    def add(self, value: float, at: int) -> None:
        """Add the next value."""
        is_strange = not math.isfinite(value)
        if is_strange:
            self.strange += 1
            if self.strange_at is None:
                self.strange_at = at
                self.before_strange = self.last if self.count else None
        same = self.count > 0 and (value == self.last or (is_strange and not math.isfinite(self.last)))
        if same:
            self.run += 1
        else:
            self.run, self.run_at = 1, at
        if self.count == 0:
            self.first, self.first_at = value, at
        self.count += 1
        self.last, self.last_at = value, at
        self.places.append(at)


@dataclass(slots=True)
class Course:
    """What a log says of the numbers of a run."""

    loss: Series = field(default_factory=Series)
    norm: Series = field(default_factory=Series)
    rate: Series = field(default_factory=Series)
    overflows: int = 0
    overflow_at: int | None = None  # the line of the first
    last_overflow_at: int | None = None
    first_scale: float | None = None
    least_scale: float | None = None
    stuck_scale: int = 0  # overflows at a scale that can fall no more
    steps_with_overflow: int = 0  # in a row, up to the end
    overflows_since_loss: int = 0
    overflow_steps: int = 0  # steps that are logged with an overflow before them
    is_static: bool = False  # an overflow of a scale that does not change
    skipped: int | None = None
    steps: int | None = None
    bf16_overflow: bool = False

    def read(self, text: str, at: int) -> None:
        """Read a line of the log that has one of the anchors."""
        if (found := _OF_TRAINER.match(text)) is not None and (numbers := _numbers(found)) is not None:
            self._step(at, *numbers)
            return
        if "OVERFLOW" in text or "overflow" in text:
            self._overflow(text, at)
        if "skipped=" in text and (found := _SKIPPED.search(text)):
            self.steps, self.skipped = int(found[1]), int(found[2])
        loss, norm = _loss(text), _named(text, "grad_norm", "grad norm")
        if loss is not None:
            self._step(at, loss, norm, _named(text, "learning_rate", "learning rate", "lr"))
        elif norm is not None:  # Megatron leaves out a loss that is not finite
            self.norm.add(norm, at)

    def _step(self, at: int, loss: float, norm: float | None = None, rate: float | None = None) -> None:
        self.loss.add(loss, at)
        if norm is not None:
            self.norm.add(norm, at)
        if rate is not None:
            self.rate.add(rate, at)
        if self.overflows_since_loss:
            self.overflow_steps += 1
            self.steps_with_overflow += 1
            self.overflows_since_loss = 0
        else:
            self.steps_with_overflow = 0

    def _overflow(self, text: str, at: int) -> None:
        found = _SCALED_DOWN.search(text)
        if found is None and "OVERFLOW!" not in text:
            return
        self.overflows += 1
        self.overflows_since_loss += 1
        self.overflow_at = self.overflow_at if self.overflow_at is not None else at
        self.last_overflow_at = at
        if found is None:
            self.is_static = self.is_static or "Skipping step. Gradients are non-finite" in text
            return
        tried, next_one = float(found[1]), float(found[2])
        self.stuck_scale = self.stuck_scale + 1 if tried == next_one and tried <= 1 else 0
        self.least_scale = next_one if self.least_scale is None else min(self.least_scale, next_one)
        self.first_scale = self.first_scale if self.first_scale is not None else tried


def _loss(text: str) -> float | None:
    """The loss of a training step that a line names; that of an evaluation and a loss scale are none."""
    lowered = text if "loss" in text else text.lower()
    place = lowered.find("loss")
    while place >= 0:
        found = _VALUE.match(text, place + 4)
        if found and _BEFORE_LOSS.search(text[max(0, place - _LONGEST_BEFORE) : place]):
            return float(found[1])
        place = lowered.find("loss", place + 4)
    return None


def _numbers(found: re.Match[str]) -> tuple[float, float, float] | None:
    try:
        return float(found[1]), float(found[2]), float(found[3])
    except ValueError:
        return None


def _named(text: str, *names: str) -> float | None:
    for name in names:
        place = text.find(name)
        if place >= 0 and (found := _VALUE.match(text, place + len(name))):
            return float(found[1])
    return None
