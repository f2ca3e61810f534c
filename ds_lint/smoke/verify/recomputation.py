"""Whether layers run again in the backward pass, so that their activations need no memory until then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.semantics.features import is_truthy, may_checkpoint_itself, recomputation_argument
from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.verify.check import ObservedRun, checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check

_SECTION = "activation_checkpointing"


def recomputation(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The layers that run again for the training argument, and those for the section of DeepSpeed."""
    layers, recomputed = run.train[0].layers or [], run.train[0].recomputed
    name, argument = recomputation_argument(expectation.config) or ("", None)
    if argument is not None and argument.value and not layers:
        yield skipped("recomputation", None, f"`{name}`: the run finds no list of layers in this model")
    elif argument is not None and argument.value:
        yield checked(
            "recomputation",
            Requested("layers that run again", None),
            len(recomputed),
            bool(recomputed),
            unit="layers",
            kept=f"`{name}`: the backward pass runs {len(recomputed)} of {len(layers)} layers again",
            broken=f"`{name}` is set, but the backward pass runs none of the {len(layers)} layers again",
            help="All activations stay in memory until the backward pass.",
        )
    section = expectation.final.section(_SECTION)
    is_on = section is not None and any(is_truthy(member.value) for member in section.members)
    if is_on and not may_checkpoint_itself(expectation.config):
        by_deepspeed = [name for name, by in recomputed.items() if by == "deepspeed"]
        yield checked(
            "recomputation",
            Requested("layers that run again", expectation.key(_SECTION)),
            len(by_deepspeed),
            bool(by_deepspeed),
            unit="layers",
            bad="warn",
            kept=f"deepspeed.checkpointing runs {len(by_deepspeed)} of {len(layers)} layers again",
            broken=f"deepspeed.checkpointing, which alone reads `{_SECTION}`, runs no layer again",
            help="Delete the section, and set `gradient_checkpointing` in the training arguments.",
        )
