"""What the hundreds of rule codes are about, and which families of ds_lint/checks have codes in each.

The site and the test of the rule pages read it; tests/test_rule_pages.py holds its families to those of ds_lint.checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule


class RuleRange(NamedTuple):
    """The codes that begin with the same digit."""

    title: str
    families: tuple[str, ...]


RANGES = {  # by the first digit of the codes
    "0": RuleRange("Syntax and comments", ("suppressions", "syntax")),
    "1": RuleRange("Keys and releases", ("keys", "releases", "unknown")),
    "2": RuleRange("Values", ("policy", "values")),
    "3": RuleRange("ZeRO and offload", ("advisories", "model", "offload", "stage_keys", "zero", "zeropp")),
    "4": RuleRange("Precision", ("dtypes", "loss_scale", "model", "precision")),
    "5": RuleRange("Optimizer, schedule, batch sizes", ("advisories", "batch", "optimizer", "overridden", "schedule")),
    "6": RuleRange(
        "Trainer and Accelerate",
        (
            "accelerate",
            "accelerate_launches",
            "accelerate_machines",
            "agreement",
            "calls",
            "composed",
            "framework_launches",
            "fsdp",
            "fsdp_scripts",
            "incompatible",
            "launch_refusals",
            "launcher_options",
            "megatron",
            "recipes",
            "script_keywords",
            "script_options",
            "trainer",
        ),
    ),
    "7": RuleRange("Saving and resuming", ("saving",)),
    "8": RuleRange(
        "Launch, speed, machine",
        (
            *("advisories", "compilation", "environment", "experts", "hardware", "hosts", "launch", "launching"),
            *("machines_by_deepspeed", "memory", "names", "pairs", "performance", "script", "script_models"),
            *("script_optimizers", "training_loops"),
        ),
    ),
    "9": RuleRange("Training runs", ("smoke",)),
}


def digit_of(rule: Rule) -> str:
    """The digit that says what a rule is about."""
    return rule.code[2]
