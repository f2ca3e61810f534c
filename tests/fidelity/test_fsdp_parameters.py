"""DS669: which parameters FSDP joins to one tensor, on ranks of a CPU."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

from ranks import run

pytestmark = pytest.mark.fidelity


@cache
def outcomes(ranks: int) -> list[dict[str, Any] | None]:
    done = run("fsdp_parameters", ranks=ranks)
    assert done.is_complete, "\n".join(done.errors)
    return done.answers


@pytest.mark.parametrize("ranks", [1, 2, *(pytest.param(ranks, marks=pytest.mark.long) for ranks in (3, 5))])
@pytest.mark.parametrize(
    ("name", "raised"),
    [
        ("bytes, FSDP 1", "ValueError"),
        ("bytes, FSDP 2", None),
        ("bf16, FSDP 1", None),
        ("frozen, without the original parameters", "ValueError"),
        ("frozen, with the original parameters", None),
    ],
)
def test_parameters_that_are_joined(name: str, raised: str | None, ranks: int) -> None:
    """DS669: FSDP 1 raises over integers, and over frozen parameters unless the original ones are kept."""
    assert [answer and answer[name] for answer in outcomes(ranks)] == [raised] * ranks
