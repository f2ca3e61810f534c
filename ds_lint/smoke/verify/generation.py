"""Whether the model generates under ZeRO-3 as it does in one piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.records.job import GENERATED, GENERATING
from ds_lint.smoke.verify.check import SmallRun, checked, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.records.failure import Failure
    from ds_lint.smoke.records.messages import Ended

_EXPECTED = "generate ends on all ranks, with the tokens of the whole model"


def generate(expectation: Expectation, run: SmallRun) -> Iterator[Check]:
    """The tokens that each rank generates, and whether every rank comes to an end."""
    ran = run.generation
    if ran is None:
        return
    ended, failed = ran
    key = expectation.stage.key if expectation.stage is not None else None
    if failed is not None:
        yield _stopped(expectation, ended, failed, key)
        return
    found = [one.generated for one in ended.evidence if one is not None and one.generated is not None]
    unable = next((one.unable for one in found if one.unable), None)
    if unable is not None:
        yield skipped("generate", key, f"the model does not generate without ZeRO either: {unable.splitlines()[0]}")
        return
    wrong = [rank for rank, one in enumerate(found) if one.tokens != one.expected]
    counts = [len(one.tokens or ()) for one in found]
    yield checked(
        "generate",
        Requested(_EXPECTED, key),
        [one.tokens for one in found],
        not wrong,
        unit="tokens",
        kept=f"the {len(found)} ranks stop at {' and '.join(map(str, sorted(set(counts))))} tokens, and generate what "
        "the whole model generates",
        broken=f"{len(wrong)} of {len(found)} ranks generate other tokens than the whole model",
        help=f"Rank {wrong[0]} generates {found[wrong[0]].tokens}, not {found[wrong[0]].expected}." if wrong else "",
        adapted=True,
    )


def _stopped(expectation: Expectation, ended: Ended, failed: Failure, key: str | None) -> Check:
    """A run that did not come to its end: some ranks wait for those that have stopped, or a library raised."""
    waiting = [end.rank for end in ended.ends if end.exit == "timeout" and end.phase == GENERATING]
    over = [end.rank for end in ended.ends if end.exit == "timeout" and end.phase == GENERATED]
    if waiting and over:
        message = (
            f"generate hangs: rank {waiting[0]} waits for weights of rank {over[0]}, which has no more tokens to make"
        )
        return Check("generate", "fail", key, _EXPECTED, "a hang", None, message, _help(expectation))
    if failed.stage is not None and failed.raised is not None and failed.raised.phase == GENERATING:
        return Check("generate", "fail", key, _EXPECTED, "an exception", None, f"generate raises {failed.message}")
    return Check("generate", "error", key, _EXPECTED, None, None, f"generate was not checked: {failed.message}")


def _help(expectation: Expectation) -> str:
    """How to let ranks wait for each other."""
    node = expectation.config.written.at(("zero_optimization", "stage"))
    if node is not None and node.kind == "string":
        return f"Write the stage without quotes. Transformers does not recognize {node.value!r} as stage 3."
    return "Call `generate` with `synced_gpus=True`."
