"""How many of something a launch asks for is read in one way, whatever is written there."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint import cli
from ds_lint.launches import files
from ds_lint.launches.scripts import launches_in
from ds_lint.source.counts import count

NO_COUNTS = ("\N{SUPERSCRIPT TWO}", "\N{CIRCLED DIGIT TWO}", "9" * 5000, "two", "", "-1", "0")
PLACES = (
    "torchrun --nproc_per_node {} --nnodes 1 train.py",
    "torchrun --nproc_per_node 1 --nnodes={} train.py",
    "deepspeed --num_gpus {} --num_nodes 1 train.py --deepspeed ds.json",
    "deepspeed --num_gpus 1 --num_nodes {} train.py --deepspeed ds.json",
    "deepspeed --include localhost:{0},{0} --num_gpus {0} train.py",
    "accelerate launch --num_processes {} --num_machines 1 train.py",
    "#SBATCH --nodes={}\nsrun python train.py --deepspeed ds.json",
    "#SBATCH -N{} --ntasks-per-node=1\nsrun -n {} python train.py --deepspeed ds.json",
    "#SBATCH --gres=gpu:{} --mem={}G --gpus-per-node={}\nsrun python train.py --deepspeed ds.json",
    "mpirun -np {} python train.py --deepspeed ds.json",
    "NPROC_PER_NODE={} swift sft --deepspeed ds.json",
    "shift {}; A[{}]=1; for i in {{1..{}}}; do :; done; torchrun --nproc_per_node $(seq {}) train.py",
    "CUDA_VISIBLE_DEVICES={} deepspeed train.py --deepspeed ds.json",
    "if [ {} -gt 1 ]; then N=2; fi; torchrun --nproc_per_node $N --nnodes $(( {} )) train.py",
)


def test_a_count_is_of_decimal_digits():
    assert [count(text) for text in ("8", "008", "\N{SUPERSCRIPT TWO}", "8x", "9" * 5000, "", None)] == [
        8,
        8,
        *[None] * 5,
    ]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place[:40])
def test_what_is_no_count_is_no_number_of_ranks(place):
    for word in NO_COUNTS:
        written = [word] * place.count("{}")
        for launch in launches_in(place.format(*written or [word]), "run.sh", lambda _: None).launches:
            assert launch.world_size in (None, 1)
    assert launches_in(place.format(*[2] * (place.count("{}") or 1)), "run.sh", lambda _: None).launches


@pytest.mark.parametrize("slots", ["\N{SUPERSCRIPT TWO}", "9" * 5000, "x"])
def test_a_hostfile_with_other_slots_has_no_nodes(slots):
    words = "deepspeed --hostfile hosts train.py --deepspeed ds.json"
    (launch,) = launches_in(words, "run.sh", {"hosts": f"one slots={slots}\n"}.get).launches
    assert launch.world_size is None


def test_a_file_that_cannot_be_read_hides_no_finding_of_another(tmp_path, monkeypatch, capsys):
    config = {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "gradient_cliping": 1}
    write_into(tmp_path)({"ds.json": config, "bad.sh": "deepspeed a.py", "run.sh": "deepspeed train.py"})
    read = files.launches

    def fails(text, path, *rest):
        if path == "bad.sh":
            raise KeyError(path)
        return read(text, path, *rest)

    monkeypatch.setattr(files, "launches", fails)
    monkeypatch.chdir(tmp_path)
    assert cli.run(["check", ".", "--output-format", "json"]) == 2
    printed = capsys.readouterr()
    assert {finding["key"] for finding in json.loads(printed.out)["findings"]} >= {"gradient_cliping"}
    assert "bad.sh: internal error (KeyError)" in printed.err


def test_memory_of_a_script_that_bash_rejects_is_an_error(run, tmp_path):
    write_into(tmp_path)(
        {"ds.json": {"train_batch_size": 8}, "run.sh": "case $1 in a) deepspeed t.py --deepspeed ds.json\n"}
    )
    result = run("memory", "run.sh")
    assert (result.returncode, result.stderr) == (
        2,
        "ds-lint: run.sh:1 is not understood, and no other line launches training\n",
    )
