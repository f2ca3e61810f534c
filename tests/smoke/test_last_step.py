"""When a start of the user's script ends: every engine has made its steps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ds_lint.smoke.probe.engines import _Engines
from ds_lint.smoke.probe.plan import RESUME, TRAIN, Plan


@pytest.fixture
def ends(tmp_path, monkeypatch):
    """Whether a start ends with a step, after its engines have made these; the first start has saved two engines."""
    for number in (1, 2):
        (tmp_path / "kept" / f"engine-{number}" / "checkpoint").mkdir(parents=True)
    (tmp_path / "kept" / "engine-3").mkdir()

    def ends(part, *steps):
        engines = _Engines(Plan(str(tmp_path), part, steps=3, steps_after=2), SimpleNamespace())
        engines._observed = [SimpleNamespace(steps=made, is_to_resume=part == RESUME) for made in steps]
        ended = []
        monkeypatch.setattr(engines, "_finish", lambda: ended.append(True))
        engines._made_step()
        return bool(ended)

    return ends


@pytest.mark.parametrize(
    ("part", "steps", "is_last"),
    [
        (TRAIN, [4], False),
        (TRAIN, [5], True),
        (TRAIN, [3, 5], False),
        (TRAIN, [3, 50], True),  # the script has left the first engine behind
        (RESUME, [2], False),  # the script trains one engine after the other
        (RESUME, [3, 1], False),
        (RESUME, [3, 2], True),
        (RESUME, [20], True),
    ],
)
def test_a_start_ends_when_every_engine_has_made_its_steps(ends, part, steps, is_last):
    assert ends(part, *steps) is is_last
