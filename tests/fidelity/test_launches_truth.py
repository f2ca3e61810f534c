"""What rules claim about launches, shown with the real launchers and ranks."""

from __future__ import annotations

import base64
import importlib.util
import json
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest
from ranks import run

from ds_lint.facts.checkpoints import checkpoint_in
from ds_lint.launches.scripts import launches_in

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

WITHOUT_MPI = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is not None, reason="mpi4py is installed")
RANK_FILE = """
    import os, pathlib, sys
    names = [os.environ[name] for name in ("TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE", "MASTER_PORT")]
    pathlib.Path(sys.argv[1], "-".join([str(os.getpid()), *names])).touch()
"""


@WITHOUT_MPI
@pytest.mark.parametrize(
    ("missing", "who"),
    [
        ("RANK", "deepspeed"),
        ("LOCAL_RANK,MASTER_PORT", "deepspeed"),
        pytest.param("RANK,LOCAL_RANK,WORLD_SIZE,MASTER_ADDR,MASTER_PORT", "trainer", marks=pytest.mark.long),
    ],
)
def test_a_process_without_ranks_asks_mpi(missing: str, who: str) -> None:
    """DS830."""
    done = run("without_ranks", missing, who, ranks=1)
    assert done.answers == [{"raised": "No module named 'mpi4py'"}], done.errors


def test_a_process_with_all_of_them_is_a_rank() -> None:
    """DS830 is silent."""
    done = run("without_ranks", "NOTHING", "deepspeed", ranks=1)
    assert done.answers == [{"raised": ""}], done.errors


@pytest.mark.parametrize("missing", ["MASTER_PORT", "RANK", "WORLD_SIZE"])
def test_accelerate_takes_a_process_with_a_local_rank_for_a_rank(missing: str) -> None:
    """DS830: mpi4py or not, torch looks for the rest."""
    done = run("without_ranks", missing, "trainer", ranks=1)
    (answer,) = done.answers
    assert answer is not None, done.errors
    assert f"environment variable {missing} expected, but not set" in answer["raised"]


@pytest.mark.long
@pytest.mark.parametrize("variable", ["WORLD_SIZE=2", "RANK=1"])
def test_one_process_waits_for_the_other_ranks(variable: str) -> None:
    """DS830: the process of a notebook is never joined by another rank."""
    assert run("without_ranks", variable, "deepspeed", ranks=1, timeout=20.0).hung


def torchrun(folder: Path, *words: str) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(textwrap.dedent(RANK_FILE), encoding="utf-8")
    (folder / "out").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "torch.distributed.run", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.long
def test_two_torchruns_are_two_runs(tmp_path: Path) -> None:
    """DS831: as ``srun --ntasks-per-node=2 torchrun --nproc_per_node 2`` starts them on one node."""
    both = [torchrun(tmp_path, "--nproc_per_node", "2", "train.py", "out") for _ in range(2)]
    texts = [one.communicate(timeout=120)[0] for one in both]
    found = [path.name.split("-")[-3:-1] for path in (tmp_path / "out").iterdir()]
    assert sorted(found) == [["0", "2"], ["0", "2"], ["1", "2"], ["1", "2"]], texts


@pytest.mark.long
def test_python_cannot_open_a_launcher(tmp_path: Path) -> None:
    """DS831."""
    text, _ = torchrun(tmp_path, "--nproc_per_node", "1", "deepspeed", "train.py", "out").communicate(timeout=120)
    assert "can't open file" in text
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize("nodes", [1, 2])
def test_a_node_waits_at_its_own_address(tmp_path: Path, nodes: int) -> None:
    """DS835: the first of two nodes waits for the second where the second, on another machine, does not come."""
    words = ["--nnodes", "2", "--nproc_per_node", "1", "--master_port", "29677"]
    started = [torchrun(tmp_path, *words, "--node_rank", str(rank), "train.py", "out") for rank in range(nodes)]
    ended = [_ends(one) for one in started]
    assert ended == ([False] if nodes == 1 else [True, True])
    assert len(list((tmp_path / "out").iterdir())) == (0 if nodes == 1 else 2)


def _ends(process: subprocess.Popen[str]) -> bool:
    try:
        process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.terminate()
        process.communicate(timeout=60)
        return False
    return True


class _StartedError(Exception):
    """The launcher starts this command."""

    def __init__(self, command: list[str]) -> None:
        super().__init__()
        self.command = command


def launched(monkeypatch: pytest.MonkeyPatch, *words: str) -> dict[str, list[int]]:
    """The GPUs of each host that ``deepspeed`` hands on, on a machine with eight."""
    from deepspeed.accelerator import get_accelerator
    from deepspeed.launcher import runner

    def start(command: list[str], **_: Any) -> None:
        raise _StartedError(command)

    monkeypatch.setattr(type(get_accelerator()), "device_count", lambda _: 8)
    monkeypatch.setattr(type(get_accelerator()), "visible_devices_envs", lambda _: ["CUDA_VISIBLE_DEVICES"])
    monkeypatch.setattr(runner.subprocess, "Popen", start)
    with pytest.raises(_StartedError) as started:
        runner.main([*words, "train.py"])
    (info,) = [word.partition("=")[2] for word in started.value.command if word.startswith("--world_info=")]
    found: dict[str, list[int]] = json.loads(base64.urlsafe_b64decode(info))
    return found


@pytest.mark.parametrize(
    ("words", "gpus"),
    [([], [4, 5]), (["--num_gpus", "2"], [0, 1]), (["--include", "localhost:6"], [6])],
)
def test_options_win_over_visible_devices(monkeypatch: pytest.MonkeyPatch, words: list[str], gpus: list[int]) -> None:
    """DS833."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5")
    assert launched(monkeypatch, *words) == {"localhost": gpus}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--include", "localhost:0", "--num_gpus", "1"], "Cannot specify num_nodes/gpus"),
        (["--exclude", "localhost:0", "--num_nodes", "1"], "Cannot specify num_nodes/gpus"),
        (["--include", "localhost:0", "--exclude", "localhost:1"], "mutually exclusive"),
        (["--hostfile", "hosts", "--no_ssh_check", "--master_addr", "a", "--include", "a:2"], "No slot '2'"),
        (["--hostfile", "hosts", "--no_ssh_check", "--master_addr", "a", "--include", "b"], "not found in hostfile"),
        (["--num_nodes", "2"], "Num nodes is >1 but no extra nodes available via hostfile"),
        (["--num_nodes", "2", "--num_gpus", "4", "--hostfile", "/dev/null", "--launcher", "slurm"], "Num nodes is >1"),
        (["--num_nodes", "2", "--no_ssh", "--node_rank", "0"], "Num nodes is >1"),
    ],
)
def test_options_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str], error: str) -> None:
    """DS834."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text("a slots=2\n", encoding="utf-8")
    with pytest.raises(ValueError, match=error):
        launched(monkeypatch, *words)


@pytest.mark.parametrize(
    "words",
    [
        "--num_nodes 3 --num_gpus 8",
        "--num_nodes 1",
        "--num_gpus 2",
        "--exclude b",
        "--exclude a:0,1",
        "--include b:1,1,0",
        "--include a@b",
        "",
    ],
)
def test_ranks_are_on_the_nodes_that_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str) -> None:
    """The number of ranks in DS512, DS801 and others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts").write_text("a slots=4\nb\tslots=2\n", encoding="utf-8")
    options = ["--hostfile", "hosts", "--no_ssh", "--node_rank", "0", "--master_addr", "a"]
    slots = launched(monkeypatch, *options, *words.split())
    command = f"deepspeed --hostfile hosts {words} train.py --deepspeed_config ds.json"
    (ours,) = launches_in(command, "run.sh", {"hosts": "a slots=4\nb\tslots=2\n"}.get).launches
    assert ours.nodes == len(slots)
    if len({len(of_node) for of_node in slots.values()}) == 1:
        assert ours.world_size == sum(map(len, slots.values()))


@pytest.mark.parametrize("stage", [2, pytest.param(1, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_a_checkpoint_is_loaded_by_as_many_ranks(tmp_path: Path, stage: int) -> None:
    """DS836, with the number of ranks that the names of the files tell."""
    saved = run("resumed", "save", str(stage), str(tmp_path))
    assert saved.is_complete, saved.errors
    checkpoint = checkpoint_in(str(tmp_path))
    assert checkpoint is not None
    assert checkpoint.ranks == 2
    alone = run("resumed", "load", str(stage), str(tmp_path), ranks=1)
    assert not alone.is_complete
    assert "DP world size of 2 but the current world size is 1" in alone.errors[0]
    assert run("resumed", "load", str(stage), str(tmp_path)).is_complete


@pytest.mark.parametrize("is_set", [False, True])
def test_what_belongs_to_all_is_on_each_node_only_with_the_key(tmp_path: Path, is_set: bool) -> None:
    """DS837."""
    done = run("node_storage", json.dumps(is_set), str(tmp_path))
    first, second = (answer["files"] for answer in done.answers if answer is not None)
    assert {"latest", "mp_rank_00_model_states.pt"} <= set(first)
    assert ("mp_rank_00_model_states.pt" in second) == is_set
    assert "latest" not in second  # newer releases write it on the first node alone
