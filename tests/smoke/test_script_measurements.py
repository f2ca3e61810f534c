"""From what each rank of a script has measured to the figures of the run; nothing trains here."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import pytest
from shown_engines import observed

from ds_lint.diagnostics.verdict import CPU, Communication, Held, PeakMemory
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.records.engine_trace import Communicated, EngineTrace, Length, Measured, Moment
from ds_lint.smoke.records.job import Engine, Evidence, TrainedParameter
from ds_lint.smoke.script.measurements import files_in, measurements
from ds_lint.smoke.verify import replayed, saving, script_saving

GIB = 2**30
SECONDS = {1: 9.0, 2: 0.5, 3: 0.7, 4: 5.0, 5: 0.6}  # the first and the one after saving take longer


@pytest.fixture(scope="module")
def knowledge():
    return Knowledge()


@pytest.fixture
def config(knowledge):
    def of(written=None, **facts):
        basis = Basis(knowledge, stack="deepspeed").but(facts=Facts(**facts))
        return configs.from_dict(written or {"zero_optimization": {"stage": 3}}, basis)

    return of


def moments(*, gpu=False, slower=0.0):
    found = [Moment("initialize", 0, 3.0, None, None, GIB), Moment("script", 1, 0.0, None, None, GIB)]
    for step, seconds in SECONDS.items():
        of_gpu = (step * GIB, 6 * GIB) if gpu else (None, None)
        found += [
            Moment("forward", step, seconds / 2, *of_gpu, GIB),
            Moment("step", step, seconds / 2 + slower, *of_gpu, 2 * GIB),
            Moment("ds-lint", step, 0.25, 99 * GIB if gpu else None, 99 * GIB, 99 * GIB),
        ]
        if step == 3:
            found.append(Moment("save", 3, 4.0, None, None, 3 * GIB))
    return found


def engine(rank=0, **changes):
    measured = Measured(moments=changes.pop("moments", moments()), tokens=[50, 100], length=changes.pop("length", None))
    evidence = Evidence(rank, parameters=[TrainedParameter("weight", 1000)], samples=[[1], [1, 1]])
    evidence.held = {"parameters": Held(500, 1000)}
    evidence.engine = Engine(3, 2, 1, 1, 0.0, "DeepSpeedZeroOptimizer_Stage3", "bfloat16", None, None, None)
    usual = {"number": 1, "evidence": evidence, "stack": "deepspeed", "mode": CPU}
    usual |= {"world_size": 2, "data_parallel": 2, "multiplied_by": 2}
    usual |= {"model_class": "train.Model", "is_trained": True, "has_checkpoint": True, "measured": measured}
    return EngineTrace(**(usual | changes))


@pytest.fixture
def measure(config, tmp_path):
    def of(first, second=(), written=None, kept=tmp_path):
        found = config(written, world_size=2)
        return measurements(list(first), list(second), str(kept), found, found)

    return of


def test_the_first_step_and_the_one_after_saving_are_not_timed(measure):
    found = measure([engine(0), engine(1, moments=moments(slower=0.1))])
    assert found.timed_steps == [2, 3, 5]
    assert found.step_seconds == pytest.approx(0.7)  # the median of 0.6, 0.8 and 0.7 on the slower rank


def test_what_ds_lint_does_is_no_peak_of_the_script(measure):
    found = measure([engine(0, moments=moments(gpu=True)), engine(1)])
    assert found.gpu_peaks == [PeakMemory(0, 5 * GIB, "forward", 5, 6 * GIB)]
    assert found.host_peaks == [PeakMemory(rank, 3 * GIB, "save", 3) for rank in (0, 1)]
    assert found.own_seconds == pytest.approx(1.25)


def test_a_profiled_step_is_not_timed_and_tells_the_share_of_communication(measure):
    ranks = [engine(0), engine(1)]
    for one in ranks:
        one.measured.communicated = Communicated(5, 0.15, {"all_gather": 0.15})
    found = measure(ranks)
    assert found.timed_steps == [2, 3]
    assert found.communication == [
        Communication(rank, 5, 0.15, pytest.approx(0.6), {"all_gather": 0.15}) for rank in (0, 1)
    ]


def test_collectives_that_overlap_count_once():
    communication = pytest.importorskip("ds_lint.smoke.probe.communication")
    assert communication.covered([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.75)]) == 4.0
    assert communication.covered([]) == 0.0


def test_phases_are_those_of_both_starts(measure):
    again = engine(moments=[Moment("initialize", 0, 5.0), Moment("load", 1, 2.0)])
    assert measure([engine(0), engine(1)], [again]).seconds == {"initialize": 5.0, "save": 4.0, "load": 2.0}


@pytest.mark.parametrize(("data_parallel", "samples"), [(2, 4), (1, 2)])
def test_ranks_that_share_samples_count_them_once(measure, data_parallel, samples):
    found = measure([engine(rank, data_parallel=data_parallel) for rank in (0, 1)])
    assert (found.samples, found.tokens) == (samples, samples * 50)


def test_an_engine_that_is_not_trained_has_no_figures(measure):
    assert measure([engine(0), engine(1, is_trained=False)]) is None


def test_without_room_for_a_checkpoint_all_steps_but_the_first_are_timed(measure):
    of_rank = [one for one in moments() if one.phase != "save"]
    found = measure([engine(rank, moments=of_rank, has_checkpoint=False, no_room="full") for rank in (0, 1)])
    assert found.timed_steps == [2, 3, 4, 5]
    assert found.files == {}


@pytest.mark.parametrize("check", [script_saving.export, replayed.resume])
def test_without_room_what_is_not_saved_is_not_checked(check):
    run = SimpleNamespace(ranks=[engine(no_room="the disk of /tmp has 1.0 GB free")], repetition=None)
    (found,) = check(SimpleNamespace(stage=None, optimizer_offload=None), run)
    assert (found.status, found.message) == ("skip", "the disk of /tmp has 1.0 GB free")


@pytest.mark.parametrize(("check", "name"), [(saving.export, "export"), (saving.recovery, "recovery")])
def test_weights_that_are_too_large_to_compare_are_said_to_be(check, name):
    why = "the model has 140 GB of weights"
    stage = Requested(3, "zero_optimization.stage")
    wanted = SimpleNamespace(stage=stage, gathers=True, key=lambda *_path: None)
    (found,) = check(wanted, observed([Evidence(0, uncompared=why)]))
    assert (found.id, found.status, found.message) == (name, "skip", why)


def test_files_by_kind(tmp_path):
    sizes = {
        "checkpoint/global_step3/zero_pp_rank_0_mp_rank_00_model_states.pt": 10,
        "checkpoint/global_step3/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt": 20,
        "checkpoint/global_step3/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt": 20,
        "checkpoint/global_step3/offloaded_tensors/1.tensor.swp": 7,
        "checkpoint/latest": 1,
        "export/model.safetensors": 5,
    }
    for name, size in sizes.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"0" * size)
    assert files_in(str(tmp_path)) == {"model states": 10, "optimizer states": 47, "other": 1, "export": 5}


@pytest.mark.parametrize(
    ("length", "checkpoints"),
    [
        (Length(1000, 250, "steps", 300, None), 4),  # at 300, 600, 900, and the last step
        (Length(1000, 250, "steps", 300, 2), 2),
        (Length(1000, 250, "steps", 0.1, None), 10),
        (Length(1000, 250, "epoch", 500, None), 4),
        (Length(1000, 250, "no"), None),
        (Length(None, 250), None),
    ],
)
def test_the_projection_is_arithmetic(measure, tmp_path, length, checkpoints):
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / "model.safetensors").write_bytes(b"0" * 8)
    found = measure([engine(0, length=length), engine(1)]).projection
    assert found.checkpoints == checkpoints
    assert found.checkpoint_bytes == (checkpoints * 8 if checkpoints else None)
    assert found.seconds == (pytest.approx(1000 * 0.6) if length.steps else None)
    assert found.seconds_of_epoch == pytest.approx(250 * 0.6)


def test_the_free_space_is_that_of_the_output_folder_of_the_script(config, tmp_path, monkeypatch):
    from ds_lint.facts.training import Argument, TrainingArguments

    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(0, 0, 1000))
    arguments = TrainingArguments({"output_dir": Argument(str(tmp_path / "not" / "there"), "run.sh")}, "run.sh")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "latest").write_bytes(b"0" * 24)
    found = config(world_size=2, training=arguments)
    first = [engine(0, length=Length(10, 5, "steps", 5, None)), engine(1)]
    projected = measurements(first, [], str(tmp_path), found, found).projection
    assert projected.free_bytes == 1000 + 24  # the run's own files are on the same disk, and go away


def test_the_estimate_is_made_of_the_parameters_of_the_run(measure):
    written = {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}}
    found = {one.kind: one for one in measure([engine(0), engine(1)], written=written).estimated}
    assert set(found) == {"parameters", "master weights", "optimizer states"}
    assert found["master weights"].least == 500 * 4
    assert found["parameters"].held == 1000


def test_ranks_with_layers_of_their_own_are_not_estimated(measure):
    assert measure([engine(0, is_pipeline=True), engine(1, is_pipeline=True)]).estimated == []
