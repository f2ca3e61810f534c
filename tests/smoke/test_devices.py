from __future__ import annotations

import contextlib
import os

import pytest

from ds_lint.commands import training_runs
from ds_lint.diagnostics.report import FileReport
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.small_run import devices
from ds_lint.source import documents

MIG = "MIG-5a1c"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine whose nvidia-smi lists GPUs, each with what is used of its memory in MiB; "mig" divides one in two."""
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), "/usr/bin", "/bin"]))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def make(*used):
        rows = [
            f"{number}, GPU-{number}f00, " + ("[N/A], Enabled" if memory == "mig" else f"{memory}, [N/A]")
            for number, memory in enumerate(used)
        ]
        tree = [
            line
            for number, memory in enumerate(used)
            for line in [
                f"GPU {number}: NVIDIA H100 (UUID: GPU-{number}f00)",
                *(f"  MIG 3g.40gb Device {one}: (UUID: {MIG}-{number}{one})" for one in range(2) if memory == "mig"),
            ]
        ]
        lines = {"query": rows, "tree": tree}
        for name, found in lines.items():
            (tmp_path / name).write_text("\n".join(found) + "\n")
        driver = tmp_path / "nvidia-smi"
        driver.write_text(f'#!/bin/sh\n[ "$1" = -L ] && exec cat {tmp_path}/tree\nexec cat {tmp_path}/query\n')
        driver.chmod(0o755)

    return make


def test_a_machine_without_a_driver_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")  # as the deepspeed launcher sets it for CPU ranks too
    assert devices.visible() == 0


def test_all_gpus_are_visible_unless_hidden(machine):
    machine(0, 0, 0, 0)
    assert devices.visible() == 4


@pytest.mark.parametrize(
    ("shown", "count"),
    [
        ("", 0),
        ("-1", 0),
        ("2", 1),
        ("0,3", 2),
        ("0,-1,2", 1),
        ("0,7,2", 1),
        ("0,0", 0),
        ("GPU-2f", 1),
        ("GPU-", 0),
        ("GPU-5ab", 0),
        ("1, 2", 2),
    ],
)
def test_cuda_stops_at_what_is_no_gpu(shown, count, machine, monkeypatch):
    machine(0, 0, 0, 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert devices.visible() == count


def test_memory_that_is_not_told_hides_no_gpu(machine):
    machine("[N/A]", "[N/A]")
    assert (devices.visible(), devices.chosen()[1]) == (2, None)


@pytest.mark.parametrize(
    ("shown", "uuids"),
    [
        (None, [f"{MIG}-00"]),
        (f"{MIG}-01", [f"{MIG}-01"]),
        (f"{MIG}-01,{MIG}-00", [f"{MIG}-01"]),
        ("MIG-none", []),
    ],
)
def test_cuda_uses_one_instance_of_mig(shown, uuids, machine, monkeypatch):
    machine("mig")
    if shown is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    assert [device.uuid for device in devices.devices()] == uuids


def test_a_gpu_that_is_not_divided_comes_before_instances(machine):
    machine("mig", 0)
    assert [device.name for device in devices.devices()] == ["1"]


def test_free_gpus_are_chosen(machine):
    machine(0, 40_000, 300, 70_000)
    found, said = devices.chosen()
    assert [device.name for device in found] == ["0", "2"]
    assert said == "the run uses GPU 0 and 2, because other programs use GPU 1 and 3"


def test_without_a_free_gpu_none_is_chosen(machine):
    machine(40_000, 40_000)
    assert devices.chosen() == ([], "other programs use GPU 0 and 1")


class Ranks(training_runs.Pool):
    """Ranks that are never started."""

    has_cuda = True
    versions = {"torch": "2.11.0"}  # noqa: RUF012 - read only

    def __init__(self):
        """Start nothing."""


@pytest.mark.parametrize(
    ("used", "has_cuda", "modes", "about"),
    [
        ((0, 0), True, ["cpu-gloo", "cuda-nccl"], [None, None]),
        (
            (0, 9000),
            True,
            ["cpu-gloo", "cuda-nccl"],
            [None, "the run uses GPU 0, because other programs use GPU 1"],
        ),
        ((9000,), True, ["cpu-gloo"], ["the run uses CPU ranks only, because other programs use GPU 0"]),
        ((0,), False, ["cpu-gloo"], ["the run uses CPU ranks only, because torch 2.11.0 is built without CUDA"]),
    ],
)
def test_the_runs_of_a_machine_with_gpus(machine, monkeypatch, used, has_cuda, modes, about):
    machine(*used)
    ranks = Ranks()
    monkeypatch.setattr(Ranks, "has_cuda", has_cuda)
    wishes = training_runs._runs(training_runs.Smoke(), ranks)
    assert [wish.mode for wish in wishes] == modes
    assert [wish.about_gpus for wish in wishes] == about
    if modes[-1] == "cuda-nccl":
        assert wishes[-1].ranks == len(wishes[-1].gpus) == used.count(0)
        assert wishes[-1].gpus[0] == "0"
    else:
        with pytest.raises(CouldNotRun, match="--smoke-device cuda needs a GPU for each rank, and "):
            training_runs._runs(training_runs.Smoke(device="cuda"), ranks)


def test_an_instance_of_mig_is_named_by_nothing(machine):
    machine("mig")
    *_, on_gpus = training_runs._runs(training_runs.Smoke(), Ranks())
    assert (on_gpus.ranks, on_gpus.gpus) == (1, ())


def test_ranks_of_a_launcher_whose_torch_has_no_cuda_run_on_the_cpu(machine):
    class Launched:
        has_cuda = False
        versions = {"torch": "2.11.0"}  # noqa: RUF012 - read only
        world_size = 2

    machine(0)
    (wish,) = training_runs._runs(training_runs.Smoke(), Launched())
    assert (wish.mode, wish.ranks) == ("cpu-gloo", 2)
    assert wish.about_gpus == "the run uses CPU ranks only, because torch 2.11.0 is built without CUDA"
    with pytest.raises(CouldNotRun, match=r"and torch 2\.11\.0 is built without CUDA"):
        training_runs._runs(training_runs.Smoke(device="cuda"), Launched())


def test_a_gpu_that_is_not_there_is_told_before_anything_is_imported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))

    class StartedError(AssertionError):
        """Raised if the process is started that imports the libraries."""

    def start(_folder, _mode):
        raise StartedError

    monkeypatch.setattr(training_runs, "Pool", start)
    monkeypatch.setattr(training_runs.progress, "shown", lambda _number, **_options: contextlib.nullcontext())
    document = documents.from_dict({})
    linted = [(FileReport("c.json", document, stack=None, target={}, missing=[], findings=[]), None)]
    (said,) = training_runs.prove_all(linted, training_runs.Smoke(device="cuda"))
    assert "--smoke-device cuda needs a GPU for each rank, and nvidia-smi shows none" in str(said)
    with pytest.raises(StartedError):
        training_runs.prove_all(linted, training_runs.Smoke(device="cpu"))
