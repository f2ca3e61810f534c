"""What a rank holds with FSDP against what ``ds-lint memory`` says: counts to the byte, peaks within their bands.

Accelerate shards the model for one rank of a simulated group and trains it, and every storage is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("accelerate")

from fsdp_holdings import begun_of, case, differences, measured, step_of
from installed import measured_with_the_newest

from ds_lint.footprint.fsdp import passes, shares, states

if TYPE_CHECKING:
    from fsdp_holdings import FsdpCase

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
SIZE = {"auto_wrap_policy": "SIZE_BASED_WRAP", "min_num_params": 100_000}
LIKELY = 0.05  # how far the likely peak of a step may be off, as a share of the measured one
PASSING = 0.01  # what a few tokens take, and norms of gradients

USUAL = [case("wide", 1, 4, use_orig_params=True), case("wide", 2, 5)]
OTHERS = [
    *(case("wide", 1, 4, sharding_strategy=name) for name in ("SHARD_GRAD_OP", "NO_SHARD")),
    case("wide", 1, 8, nodes=2, sharding_strategy="HYBRID_SHARD", use_orig_params=True),
    case("wide", 2, 4, reshard_after_forward=False),
    case("wide", 2, 8, degrees={"dp_replicate": 2, "dp_shard": 4}),
    case("wide", 1, 3, use_orig_params=True, backward_prefetch="BACKWARD_PRE"),
    case("wide", 1, 4, use_orig_params=True, forward_prefetch=True),
    case("wide", 1, 1, use_orig_params=True),
    case("wide", 2, 1),
    case("wide", 1, 8, use_orig_params=True, precision="no"),
    case("wide", 2, 8, precision="no"),
    case("wide", 1, 2, use_orig_params=True, dtype="fp32"),
    case("wide", 2, 2, dtype="fp32"),
    case("wide", 1, 4, use_orig_params=True, accumulation=2),
    case("wide", 2, 4, accumulation=2),
    case("wide", 1, 4, use_orig_params=True, offload_params=True),
    case("wide", 1, 4, use_orig_params=True, auto_wrap_policy="NO_WRAP"),
    case("wide", 1, 4, use_orig_params=True, **SIZE),
    case("wide", 1, 4, use_orig_params=True, by_trainer=True, lora=LORA),
    case("wide", 2, 4, by_trainer=True, lora=LORA),
    case("wide", 2, 4, lora=LORA),
    case("wide", 1, 5, use_orig_params=True, precision="no", lora=LORA),
    case("gpt2", 1, 3, use_orig_params=True, rank=2),  # which holds most
    case("gpt2", 2, 3),
    case("mixtral", 1, 64, use_orig_params=True),
    case("mixtral", 2, 64),
    case("t5", 1, 5, use_orig_params=True, rank=3),  # which holds most
    case("wide", 1, 4, use_orig_params=True, tokens=256),
    case("wide", 2, 4, tokens=256),
    case("wide", 1, 4, use_orig_params=True, tokens=256, checkpointed=True),
    case("wide", 2, 4, tokens=256, checkpointed=True),
]


def wrong(cases: list[FsdpCase]) -> list[str]:
    """In words, what was counted otherwise than it is said."""
    found = []
    for one, answer in zip(cases, measured(cases), strict=True):
        found += [f"{one}: {words}" for words in differences(one, answer)]
        taken, least, likely, most = step_of(one, answer)
        passing = PASSING * taken
        is_far = one.model == "wide" and abs(likely - taken) > LIKELY * taken  # others are small beside activations
        if not least - passing <= taken <= most + passing or is_far:
            found.append(f"{one}: a step takes {taken:,} bytes, not {likely:,.0f} ({least:,.0f} to {most:,.0f})")
        if "fsdp_offload_params" in dict(one.settings):
            continue  # on a CPU, what goes to the host stays where it is
        taken, least, likely, most = begun_of(one, answer)
        if not least * (1 - PASSING) <= taken <= most * (1 + PASSING):
            found.append(f"{one}: the model takes {taken:,} bytes, not {likely:,.0f} ({least:,.0f} to {most:,.0f})")
    return found


def test_a_rank_holds_what_is_said() -> None:
    assert wrong(USUAL) == []


@pytest.mark.long
def test_a_rank_holds_what_is_said_of_many_setups() -> None:
    assert wrong(OTHERS) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "name", "other"),
    [
        (shares, "_rows", lambda tensor, ranks: -(-tensor.size // ranks)),
        (passes.FsdpPasses, "_gradients", lambda self, found: 0.0),
    ],
)
def test_a_wrong_formula_is_seen(monkeypatch: pytest.MonkeyPatch, module: object, name: str, other: object) -> None:
    monkeypatch.setattr(module, name, other)
    states._known.clear()
    assert wrong([case("mixtral", 2, 64), *USUAL]) != []
    states._known.clear()
