"""Hold ds-lint's verdict on a config against what the real DeepSpeed did with it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from oracle import Verdict

from ds_lint import linting
from ds_lint.finding import STAGES, Finding
from ds_lint.knowledge import Target
from ds_lint.spelling import is_comment

INSTALLED = Target(version("deepspeed").partition("+")[0])  # the release that ds-lint is held against

# A config without an optimizer is no error: the script may bring its own. The oracle's script does not.
NO_OPTIMIZER = (
    "requires an optimizer",
    "must provide optimizer",
    "set_gradient_accumulation_boundary",
    "_set_zero_group_parallelism",
    "'DeepSpeedZeRoOffload' object has no attribute",  # the backward pass of stage 3
    "bf16_optimizer.py",  # get_grads_for_norm asserts that there are gradients
)
# What the oracle's two linear layers cannot do, and another model can.
THE_MODEL = (
    "Not able to determine model policy",  # AutoTP
    "unexpected keyword argument 'progressive_layer_drop'",
    "Muon only supports 2D parameters",  # torch.optim.Muon, which DeepSpeed takes below 0.17.6
)

# Disagreements that are known and stay, each with its reason: (part of the real error, why ds-lint does not say it).
KNOWN = (
    (
        "expected 1 ",
        "a list of learning rates must be as long as there are parameter groups, and the groups are the script's",
    ),
    ("Failed to import lower precision safe module", "whether a class can be imported depends on what is installed"),
    ("Zenflow must be used with cpu offload", "ZenFlow checks of its own: fewer than one config in a thousand"),
)


@dataclass
class Disagreement:
    """A config on which ds-lint and DeepSpeed differ."""

    kind: str  # "false alarm", "silent", "stage", "ignored"
    config: Any
    ours: list[str]
    theirs: str

    def __str__(self) -> str:
        return f"{self.kind}: ds-lint says {self.ours or 'nothing'}, DeepSpeed: {self.theirs}\n    {self.config}"


def compare(config: Any, findings: list[Finding], verdict: Verdict) -> Disagreement | None:
    """None where both agree on start or rejection, on the stage, and on the keys that nothing reads."""
    if verdict.unjudged or any(words in (verdict.error or "") for words in THE_MODEL):
        return None
    rejected = [finding for finding in findings if finding.effect == "rejected"]
    theirs = f"{verdict.rejected_at or 'runs'} {verdict.error or ''}"
    if bool(rejected) != bool(verdict.rejected_at):
        if not rejected and lacks_optimizer(verdict):
            return None
        kind = "false alarm" if rejected else "silent"
        return Disagreement(kind, config, [_short(finding) for finding in rejected], theirs)
    if rejected:
        if lacks_optimizer(verdict):
            return None  # with an optimizer from the script, the run would have come to ds-lint's stage
        first = min((finding.stage for finding in rejected if finding.stage), key=STAGES.index)
        if first != verdict.rejected_at:
            return Disagreement("stage", config, [_short(finding) for finding in rejected], theirs)
        return None
    ours = {finding.key for finding in findings if finding.effect == "ignored"}
    alarms = ours - verdict.ignored
    silent = {path for path in verdict.ignored if _is_unknown(path)} - ours
    if alarms or silent:
        return Disagreement(
            "ignored", config, sorted(str(key) for key in ours), f"does not read {sorted(verdict.ignored)}"
        )
    return None


def lacks_optimizer(verdict: Verdict) -> bool:
    """Whether the run ended because the oracle's script brings no optimizer."""
    story = f"{verdict.error or ''} {verdict.facts.get('where', '')}"
    return any(words in story for words in NO_OPTIMIZER)


def is_known(disagreement: Disagreement) -> bool:
    """Whether the reason for a disagreement is written down in ``KNOWN``."""
    return any(words in disagreement.theirs for words, _ in KNOWN)


def _is_unknown(path: str) -> bool:
    """Whether a key that nothing read is unknown, and no comment: known keys may wait for a feature that is off."""
    parts = tuple(path.split("."))
    return linting.knowledge(INSTALLED).find(parts) is None and not is_comment(parts[-1])


def _short(finding: Finding) -> str:
    return f"{finding.code} {finding.key} {finding.stage or finding.effect}"
