"""The result of a rule: findings, their severity, effect and fix."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Literal

    from ds_lint.source.tree import Span

    Severity = Literal["error", "warning", "info"]
    Effect = Literal["rejected", "wrong-result", "ignored", "overridden", "risk", "no-effect", "advice"]
    Stage = Literal["load", "parse", "initialize", "train"]
    Stack = Literal["deepspeed", "trainer", "accelerate"]
    Safety = Literal["safe", "unsafe"]
    # What a rule is about: an object of settings, the syntax of a file, a YAML of Accelerate, the keywords of a call, a
    # recipe of a training framework, a training run, or two releases.
    Kind = Literal["config", "syntax", "accelerate", "call", "recipe", "run", "comparison", "project"]
    Foreign = Literal["yaml", "binary", "python"]  # a file that is not a config at all

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


class Related:
    """Another place that is part of a finding. ``path`` is None for the file of the finding itself."""

    __slots__ = ("label", "path", "span")

    def __init__(self, span: Span, label: str, path: str | None = None) -> None:
        self.span = span
        self.label = label
        self.path = path


class Edit:
    """Replace the text of ``span`` with ``text``."""

    __slots__ = ("span", "text")

    def __init__(self, span: Span, text: str) -> None:
        self.span = span
        self.text = text


class Fix:
    """A fix for a finding. ``safety`` is ``safe`` (same run, or the one clearly meant) or ``unsafe``.

    ``applied_with`` is the safety that must be allowed to apply it: its own, ``unsafe`` if it needs another fix that is
    unsafe, None if it is never applied. ``refusal`` is the reason if it differs from the safety. Both are known only if
    the fixes were tried.
    """

    __slots__ = ("applied_with", "edits", "refusal", "safety", "title")

    def __init__(self, title: str, safety: Safety, edits: list[Edit]) -> None:
        self.title = title
        self.safety = safety
        self.edits = edits
        self.applied_with: Safety | None = safety
        self.refusal = ""


class Unfixed:
    """A finding whose fix was tried and not applied: the reason, and the problems that it would have caused."""

    __slots__ = ("brings", "finding", "is_fixed_by_all", "reason")

    def __init__(self, finding: Finding, reason: str, brings: list[tuple[str, str | None]]) -> None:
        self.finding = finding
        self.reason = reason
        self.brings = brings  # by code and key
        self.is_fixed_by_all = False  # whether unsafe fixes, which were not allowed, would leave none of them


class Finding:
    """One problem in one config."""

    __slots__ = (
        "code",
        "confirmed",
        "confirmed_by",
        "doubts",
        "effect",
        "effects",
        "family",
        "fix",
        "help",
        "key",
        "kind",
        "label",
        "message",
        "name",
        "path",
        "related",
        "releases",
        "severity",
        "span",
        "stage",
        "subject",
    )

    def __init__(
        self,
        *,
        code: str,
        name: str,
        kind: Kind = "config",
        family: str = "",
        severity: Severity,
        effect: Effect,
        stage: Stage | None,
        effects: dict[Stack, str] | None,
        key: str | None,
        message: str,
        help: str,
        path: str,
        span: Span,
        label: str = "",
        related: list[Related] | None = None,
        fix: Fix | None = None,
        releases: dict[str, list[tuple[str, str]]] | None = None,
        subject: Hashable = None,
    ) -> None:
        self.code = code  # "DS101"
        self.name = name  # "unknown-key"
        self.kind = kind  # of the rule
        self.family = family  # of the rule
        self.severity = severity
        self.effect = effect
        self.stage = stage  # when ``effect`` is ``rejected``
        self.effects = effects  # effect by stack, if the stack is unknown and the stacks differ
        self.key = key  # dotted key path of the node that the finding is about
        self.message = message
        self.help = help
        self.path = path
        self.span = span
        self.label = label  # a word or two under the primary span
        self.related = related or []
        self.fix = fix
        # By library, the first and last release of each affected stretch; None: all that were linted.
        self.releases = releases
        self.subject = subject  # what makes it another one than those of the rule at the same key
        self.doubts: list[str] = []  # the unknown words of the launch that may change it
        self.confirmed_by: list[Hashable] = []  # subjects of findings of a run
        self.confirmed: str | None = None  # what a run of the config showed, if it showed the same

    def __repr__(self) -> str:
        """Short, for lists of findings."""
        return f"<Finding {self.code} [{self.severity}] {self.path}: {self.message}>"

    @property
    def identity(self) -> tuple[Hashable, ...]:
        """What is the same if two launches of a config bring up the same, wherever each of them stands."""
        return self.code, self.key, self.span, self.effect, self.subject

    @property
    def affected_releases(self) -> str:
        """The affected releases, in words; empty if all that were linted are affected."""
        return "; ".join(
            f"{library} {' and '.join(one if one == last else f'{one} to {last}' for one, last in stretches)}"
            for library, stretches in (self.releases or {}).items()
        )
