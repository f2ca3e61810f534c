"""The claims that a GPU is to confirm are those of rules: each is tied to what ds-lint finds in its config."""

from __future__ import annotations

import json

import pytest

from ds_lint.linter.engine import every_rule
from tools.gpu import part
from tools.gpu.claimed.claim import (
    AGAIN,
    IT,
    every,
    is_slower,
    meets_a_double,
    moves,
    overflows,
    raises,
    shows,
    skips,
    stays,
    takes,
    trains,
)
from tools.gpu.parts import claims
from tools.gpu.setting import PASS, UNANSWERED, Setting

ALL = {claim.name: claim for claim in claims.CLAIMS}
RUN = {"raised": None, "losses": [1.0], "moved": [0.5], "states": {"devices": ["cpu"]}, "peak": 5_000, "digest": "a"}
BROKEN = {
    **RUN,
    "raised": {"stage": "step", "step": 1, "type": "E", "message": "must be", "where": "swap"},
    "moved": [],
}


def test_each_claim_is_measured_once():
    assert len(ALL) == len(claims.CLAIMS) >= 15
    names = [item.name for item in claims.items(Setting("", rehearses=True))]
    assert sorted(names) == sorted(ALL)


def test_what_only_a_gpu_answers_comes_first():
    asked = [ALL[item.name].question is not None for item in claims.items(Setting("", rehearses=True))]
    assert asked == sorted(asked, reverse=True)


@pytest.mark.parametrize("claim", ALL.values(), ids=list(ALL))
def test_the_rule_reports_the_config(claim):
    """The rule exists, and reports the config, or is silent where the claim is that there is nothing to report."""
    assert claim.rule in {rule.code for rule in every_rule()}
    found = claims.reported(claim)
    if claim.reports is None:
        return
    assert claim.reports == (claim.rule in {one.code for one in found})
    if not claim.reports:
        assert [one.code for one in found if one.effect == "rejected"] == []


@pytest.mark.parametrize(
    ("holds", "seen", "expected"),
    [
        (trains(), RUN, True),
        (trains(), BROKEN, False),
        (trains(), {**RUN, "losses": ["nan"]}, False),
        (trains(), {**RUN, "moved": [0.5, 0.0]}, False),
        (stays(), RUN, False),
        (stays(), {**RUN, "moved": [0.0, 0.0]}, True),
        (raises("step", "must", step=1, where="swap"), BROKEN, True),
        (raises("initialize", "must"), BROKEN, False),
        (raises("forward step", "other"), BROKEN, False),
        (raises("step", step=2), BROKEN, False),
        (raises("step", where="aio"), BROKEN, False),
        (raises("step"), RUN, False),
        (moves(0.5), RUN, True),
        (moves(0.7), RUN, False),
        (skips(1, 2), {**RUN, "moved": [0.0, 0.5]}, True),
        (skips(1, 2), {**RUN, "moved": [0.0] * 5}, False),
        (shows("states.devices", ["cpu"]), RUN, True),
        (shows("states.devices", ["cuda"]), RUN, False),
        (shows("states.devices", ["cpu"]), {"raised": None}, False),
        (every(trains(), moves(0.5)), RUN, True),
        (every(trains(), moves(0.7)), RUN, False),
    ],
)
def test_what_shows_a_claim(holds, seen, expected):
    assert holds({IT: seen}) is expected


def test_a_size_is_told_from_another():
    assert takes(4_000, "small")({IT: RUN, "small": {**RUN, "peak": 1_000}})
    assert not takes(2_000, "small")({IT: RUN, "small": {**RUN, "peak": 1_000}})
    assert not takes(4_000, "small")({IT: RUN, "small": BROKEN | {"peak": None}})


@pytest.mark.parametrize(
    ("before", "after", "factor", "expected"),
    [
        ([3.0, 4.0], [3.5], 1.0, True),
        ([3.0, 4.0], [1.5], 1.0, False),
        ([2.0, 9.0], [3.5], 1.0, False),
        ([3.0, 4.0], [3.5], 2.0, False),
        ([5.0, 6.0], [4.5], 2.0, True),
    ],
)
def test_each_step_is_slower_than_any(before, after, factor, expected):
    seen = {IT: {"each": before}, "quick": {"each": [1.0, 2.0]}, AGAIN: {"each": after}}
    assert is_slower("quick", factor)(seen) is expected


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, True),
        ({"duplicate": ["Duplicate GPU detected", None]}, False),
        ({"raised": [True, False]}, False),
        ({"devices": ["cuda:0", "cuda:1"]}, False),
    ],
)
def test_both_ranks_meet_a_double(changed, expected):
    run = {"devices": ["cuda:0"] * 2, "raised": [True] * 2, "duplicate": ["Duplicate GPU detected"] * 2}
    assert meets_a_double({IT: run | changed}) is expected


def test_a_claim_about_time_has_the_machine_to_itself():
    timed, other = (
        next(one for one in claims.CLAIMS if (one.look == "times:pace") is alone) for alone in (True, False)
    )
    for claim, is_free in ((timed, False), (other, True)):
        with claims._turn(claim):
            assert claims._TURNS.acquire(blocking=False) is is_free
        if is_free:
            claims._TURNS.release()


def test_what_is_an_overflow():
    at_minimum = {"stage": "step", "step": 9, "message": "scale already at minimum", "where": "fp16/loss_scaler.py:1"}
    assert not overflows({IT: RUN})
    assert not overflows({IT: BROKEN})
    assert overflows({IT: RUN | {"losses": [1.0, "nan"]}})
    assert overflows({IT: RUN | {"raised": at_minimum}})


@pytest.mark.fidelity
@pytest.mark.long
def test_a_rehearsal(tmp_path, monkeypatch):
    pytest.importorskip("deepspeed")
    chosen = ("lamb-with-static-loss-scale", "adamw-offloaded-at-stage-0")
    monkeypatch.setattr(claims, "CLAIMS", tuple(ALL[name] for name in chosen))
    out = tmp_path / "claims.json"
    assert part.main(["claims", "--out", str(out), "--seconds", "200", "--rehearse"]) == 0
    found = {item["name"]: item for item in json.loads(out.read_text())["items"]}
    assert {name: item["status"] for name, item in found.items()} == dict(zip(chosen, (PASS, UNANSWERED), strict=True))
    assert "dynamic loss scaling" in found[chosen[0]]["observed"][IT]["raised"]["message"]
    assert found[chosen[1]]["question"].startswith(ALL[chosen[1]].question)
