"""Which optimizer trains if the config names one and the script makes another one."""

from __future__ import annotations

import pytest

pytest.importorskip("deepspeed")
pytest.importorskip("transformers")

from installed import measured_with_the_newest
from ranks import run

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]


def test_the_optimizer_of_the_script_wins() -> None:
    """DS870: DeepSpeed does not build the optimizer of the config."""
    done = run("two_optimizers", "deepspeed", "BOTH", ranks=1)
    assert done.answers == [{"is_of_script": True, "rate": 3e-4}], "\n".join(done.errors)


@pytest.mark.parametrize("which", ["BOTH", "SCRIPT"])
def test_the_trainer_drops_the_optimizer_of_the_script(which: str) -> None:
    """DS870: whether the config names an optimizer or not."""
    done = run("two_optimizers", "trainer", which, ranks=1)
    assert done.answers == [{"is_of_script": False, "rate": 1e-5}], "\n".join(done.errors)
