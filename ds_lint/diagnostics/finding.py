"""The result of a rule: findings, their severity, effect and fix."""

from __future__ import annotations

from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from dataclasses import KW_ONLY
    from typing import Literal

    from ds_lint.source.tree import Span

    Severity = Literal["error", "warning", "info"]
    Effect = Literal["rejected", "wrong-result", "ignored", "overridden", "risk", "no-effect", "advice"]
    Stage = Literal["load", "parse", "initialize", "train"]
    Stack = Literal["deepspeed", "trainer", "accelerate"]
    RunStack = Literal["deepspeed", "trainer", "accelerate", "torch"]  # of a training run, which may have no config
    Safety = Literal["safe", "unsafe"]
    # What a rule is about: an object of settings, the syntax of a file, a YAML of Accelerate, the keywords of a call, a
    # recipe of a training framework, a training run, or two releases.
    Kind = Literal["config", "syntax", "accelerate", "call", "recipe", "run", "comparison", "project"]
    # A file that is not a config at all; one with names that lead nowhere may have configs in other documents.
    Foreign = Literal["yaml", "binary", "python", "names", "fsdp"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")  # most severe first

# What the stack does, worst first; the order decides which effect stands for a finding whose stack is unknown.
EFFECTS: tuple[Effect, ...] = ("rejected", "wrong-result", "ignored", "overridden", "risk", "no-effect", "advice")

NONE = "none"  # stands in ``Finding.effects`` for a stack that has no problem

STAGES: tuple[Stage, ...] = ("load", "parse", "initialize", "train")  # when a ``rejected`` config raises
STACKS: tuple[Stack, ...] = ("deepspeed", "trainer", "accelerate")  # who loads the config
LOADERS: dict[Stack, str] = {
    "deepspeed": "plain DeepSpeed",
    "trainer": "the Trainer",
    "accelerate": "Accelerate",
}  # in prose


class Related(Record):
    """Another place that is part of a finding. ``path`` is None for the file of the finding itself."""

    span: Span
    label: str
    path: str | None = None


class Edit(Record):
    """Replace the text of ``span`` with ``text``."""

    span: Span
    text: str


class Fix(Record):
    """A fix for a finding. ``safety`` is ``safe`` (same run, or the one clearly meant) or ``unsafe``.

    ``applied_with`` is the safety that must be allowed to apply it: its own, ``unsafe`` if it needs another fix that is
    unsafe, None if it is never applied. ``refusal`` is the reason if it differs from the safety. Both are known only if
    the fixes were tried.
    """

    title: str
    safety: Safety
    edits: list[Edit]
    refusal: str = ""

    def __post_init__(self) -> None:
        self.applied_with: Safety | None = self.safety


class Unfixed(Record):
    """A finding whose fix was tried and not applied: the reason, and the problems that it would have caused."""

    finding: Finding
    reason: str
    brings: list[tuple[str, str | None]]  # by code and key
    is_fixed_by_all: bool = False  # whether unsafe fixes, which were not allowed, would leave none of them


class Finding(Record):
    """One problem in one config.

    ``path`` and ``span`` are always those of the config. A finding that ``is_elsewhere`` is about a script or a launch:
    it is shown at the first of ``related`` (``FileReport.place``), and the config is the related place.
    """

    _: KW_ONLY
    code: str  # "DS101"
    name: str  # "unknown-key"
    kind: Kind = "config"  # of the rule
    family: str = ""  # of the rule
    severity: Severity
    effect: Effect
    stage: Stage | None  # when ``effect`` is ``rejected``
    effects: dict[Stack, str] | None  # effect by stack, if the stack is unknown and the stacks differ
    key: str | None  # dotted key path of the node that the finding is about
    message: str
    help: str
    path: str
    span: Span
    label: str = ""  # a word or two under the primary span
    related: list[Related] = field(factory=list)
    is_elsewhere: bool = False
    fix: Fix | None = None
    # By library, the first and last release of each affected stretch; None: all that were linted.
    releases: dict[str, list[tuple[str, str]]] | None = None
    advisory: str | None = None  # the id of the advisory that it is about
    subject: Hashable = None  # what makes it another one than those of the rule at the same key
    doubts: list[str] = field(factory=list)  # the unknown words of the launch that may change it
    confirmed_by: list[Hashable] = field(factory=list)  # subjects of findings of a run
    confirmed: str | None = None  # what a run of the config showed, if it showed the same

    def __repr__(self) -> str:
        """Short, for lists of findings."""
        return f"<Finding {self.code} [{self.severity}] {self.path}: {self.message}>"

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What is the same if two launches of a config bring up the same, wherever each of them is."""
        return self.code, self.key, self.span, self.effect, self.subject

    @property
    def affected_releases(self) -> str:
        """The affected releases, in words; empty if all that were linted are affected."""
        return "; ".join(
            f"{library} {' and '.join(one if one == last else f'{one} to {last}' for one, last in stretches)}"
            for library, stretches in (self.releases or {}).items()
        )
