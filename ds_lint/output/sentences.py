"""A finding in words: the effect with each stack, and the whole text for formats that have one field."""

from __future__ import annotations

from ds_lint.diagnostics.finding import EFFECTS, NONE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding


def outcome(finding: Finding) -> str:
    """The effect; if the stack is unknown and the stacks differ, the effect with each of them, the worst first.

    ``rejected at parse with trainer and accelerate, no-effect with deepspeed``
    """
    effects, stage = finding.effects, finding.stage
    if not effects:
        return finding.effect
    parts = []
    for effect in sorted(set(effects.values()), key=(*EFFECTS, NONE).index):
        stacks = " and ".join(stack for stack, found in effects.items() if found == effect)
        words = "fine" if effect == NONE else f"{effect}{f' at {stage}' if effect == 'rejected' and stage else ''}"
        parts.append(f"{words} with {stacks}")
    return ", ".join(parts)


def doubt(finding: Finding) -> str:
    """What is unknown of the launch and may change the finding; empty if nothing may."""
    names = " or ".join(f"`{name}`" for name in finding.doubts)
    return f"{names} of the launch may change this" if names else ""


def description(finding: Finding) -> str:
    """What is wrong, for which releases and stacks, what is unknown, what a training run showed, and the way out."""
    wrong = f"{finding.message} (with {finding.affected_releases})" if finding.releases else finding.message
    by_stack = f"It is {outcome(finding)}" if finding.effects else ""
    confirmed = f"The training run confirms it: {finding.confirmed}" if finding.confirmed else ""
    return " ".join(_ended(text) for text in (wrong, by_stack, doubt(finding), confirmed, finding.help) if text)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
