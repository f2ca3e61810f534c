"""What travels between the driver and the ranks of a user's script: the plan, and what an engine shows."""

from __future__ import annotations

from shown_engines import shown

from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.probe.plan import RESUME, Plan
from ds_lint.smoke.records import engine_trace


def test_every_process_reads_the_plan_that_the_driver_wrote(tmp_path, monkeypatch):
    plan = Plan(str(tmp_path), RESUME, steps=7, steps_after=0, resumes=False, uses_cpu=True)
    monkeypatch.setenv(plans.VARIABLE, plans.write(plan))
    assert plans.of_environment() == plan


def test_outside_a_run_there_is_no_plan(monkeypatch):
    monkeypatch.delenv(plans.VARIABLE, raising=False)
    assert plans.of_environment() is None
    monkeypatch.setenv(plans.VARIABLE, "")
    assert plans.of_environment() is None


def test_both_starts_share_what_is_kept_and_nothing_else(tmp_path):
    first = Plan(str(tmp_path))
    second = first._replace(part=RESUME)
    assert plans.write(first) != plans.write(second)
    assert first.kept_folder == second.kept_folder
    assert {first.own_folder, first.outputs, first.temporary}.isdisjoint(
        {second.own_folder, second.outputs, second.temporary}
    )


def test_engines_come_back_by_number_each_with_its_ranks_in_order(tmp_path):
    for number, rank in ((2, 1), (1, 10), (2, 0), (1, 9)):
        engine_trace.write(shown(rank, number=number), str(tmp_path))
    found = engine_trace.read_all(str(tmp_path))
    assert [(number, [one.evidence.rank for one in ranks]) for number, ranks in found.items()] == [
        (1, [9, 10]),
        (2, [0, 1]),
    ]
    assert repr(found[1][0]) == repr(shown(9, number=1))


def test_a_later_record_takes_the_place_of_an_earlier_one(tmp_path):
    for is_trained in (False, True):
        engine_trace.write(shown(is_trained=is_trained), str(tmp_path))
    ((one,),) = engine_trace.read_all(str(tmp_path)).values()
    assert one.is_trained


def test_half_a_record_is_not_read(tmp_path):
    (tmp_path / "0-1.engine.new").write_bytes(b"\x80")
    assert engine_trace.read_all(str(tmp_path)) == {}
    assert engine_trace.read_all(str(tmp_path / "missing")) == {}
