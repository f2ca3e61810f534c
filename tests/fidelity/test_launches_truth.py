"""What rules claim about launches, shown with the real launchers and ranks."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import pathlib
import runpy
import shutil
import subprocess
import sys
import textwrap
import types
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deepspeed")

from installed import measured_with_the_newest
from ranks import run

from ds_lint.facts.checkpoints import checkpoint_in
from ds_lint.launches.script_parser import LOCAL_RANK
from ds_lint.launches.scripts import launches_in
from ds_lint.launches.training_script import read_training_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
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
    """DS830, DS892: a process of which nothing starts the other ranks is never joined by one."""
    assert run("without_ranks", variable, "deepspeed", ranks=1, timeout=20.0).hung


def test_a_star_of_transformers_leaves_the_names_of_configs_alone() -> None:
    import transformers

    from ds_lint.source.evaluation.names import names_config

    assert len(transformers.__all__) > 1000
    assert [name for name in transformers.__all__ if name.isidentifier() and names_config(name)] == []


def torchrun(folder: Path, *words: str, within: Sequence[str] = ()) -> subprocess.Popen[str]:
    (folder / "train.py").write_text(textwrap.dedent(RANK_FILE), encoding="utf-8")
    (folder / "out").mkdir(exist_ok=True)
    command = [*within, sys.executable, "-m", "torch.distributed.run", *words]
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
    """DS835, DS885: the first of two nodes waits for the second where the second, on another machine, does not come."""
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


SHOWS_WORDS = """\
import pathlib, sys
pathlib.Path(sys.argv[-1]).write_text(" ".join(sys.argv[1:-1]), encoding="utf-8")
"""


def test_launchers_pass_the_local_rank(tmp_path: Path) -> None:
    """DS866: ``deepspeed`` started for one process, and the words that torch makes for each of its own."""
    from torch.distributed.launch import parse_args
    from torch.distributed.run import config_from_args

    (tmp_path / "train.py").write_text(SHOWS_WORDS, encoding="utf-8")
    world = base64.urlsafe_b64encode(json.dumps({"localhost": [0]}).encode()).decode()
    options = {"with": [], "without": ["--no_local_rank"]}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "deepspeed.launcher.launch", f"--world_info={world}", *words, "train.py", name],
            cwd=tmp_path,
        )
        for name, words in options.items()
    ]
    assert [one.wait(timeout=120) for one in started] == [0, 0]
    for name, words in options.items():
        expected = (tmp_path / name).read_text(encoding="utf-8")
        assert expected == ("--local_rank=0" if name == "with" else "")
        assert added(f"deepspeed {' '.join(words)} train.py") == expected.partition("=")[0]
    for words in [], ["--use_env"], ["--use-env"]:
        _, _, command = config_from_args(parse_args([*words, "train.py", "--lr", "1"]))
        between = command[command.index("train.py") + 1 : command.index("--lr")]
        assert [one.partition("=")[0] for one in between] == ([] if words else ["--local-rank"])
        assert added(f"python -m torch.distributed.launch {' '.join(words)} train.py") == "".join(
            one.partition("=")[0] for one in between
        )


def test_ranks_count_on_through_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """DS867: what ``deepspeed`` gives the processes of the second node, of two with two GPUs each."""
    from deepspeed.launcher import launch

    started: list[tuple[str, str]] = []

    def start(_: list[str], env: dict[str, str]) -> types.SimpleNamespace:
        started.append((env["RANK"], env["LOCAL_RANK"]))
        if len(started) == 2:
            raise _StartedError([])
        return types.SimpleNamespace(pid=0)

    world = base64.urlsafe_b64encode(json.dumps({"a": [0, 1], "b": [0, 1]}).encode()).decode()
    monkeypatch.setattr(launch.subprocess, "Popen", start)
    monkeypatch.setattr(sys, "argv", ["launch.py", f"--world_info={world}", "--node_rank=1", "train.py"])
    with pytest.raises(_StartedError):
        launch.main()
    assert started == [("2", "0"), ("3", "1")]


def added(command: str) -> str:
    """The option that a command is said to add."""
    (launch,) = launches_in(command, "run.sh", lambda _: "import deepspeed").launches
    return launch.added_option


OF_TRANSFORMERS = """\
import sys
from dataclasses import dataclass
from transformers import HfArgumentParser, TrainingArguments
@dataclass
class Own:
    width: int = 8
"""
FILE = """\
parser = HfArgumentParser((Own, TrainingArguments))
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    own, args = parser.parse_json_file(json_file=sys.argv[1])
else:
    own, args = parser.parse_args_into_dataclasses()
"""
OF_DEEPSPEED = """\
import argparse, deepspeed
parser = deepspeed.add_config_arguments(argparse.ArgumentParser())
parser.parse_args()
"""
CLICK = "import click\n@click.command()\n@click.option({})\ndef main({}):\n    print(0)\nmain()\n"
TYPER = "import typer\ndef main({}: int = 0):\n    print(0)\ntyper.run(main)\n"


@pytest.mark.parametrize(
    ("script", "takes"),
    [
        (OF_TRANSFORMERS + "HfArgumentParser(Own).parse_args_into_dataclasses()\n", []),
        (OF_TRANSFORMERS + "HfArgumentParser([Own, TrainingArguments]).parse_args_into_dataclasses()\n", [0, 1]),
        (
            OF_TRANSFORMERS.replace("width", "local_rank") + "HfArgumentParser(Own).parse_args_into_dataclasses()\n",
            [0, 1],
        ),
        (OF_TRANSFORMERS + FILE, [0, 1]),
        (OF_DEEPSPEED, []),
        (CLICK.format('"--width"', "width"), []),
        (CLICK.format('"--local_rank"', "local_rank"), [0]),
        (TYPER.format("width"), []),
        (TYPER.format("local_rank"), [1]),
    ],
)
def test_parsers_of_other_libraries(
    script: str, takes: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """DS866, as in ``tests/launches/test_script_parser.py``."""
    pytest.importorskip("transformers")
    for library in ("click", "typer"):
        if f"import {library}" in script:
            pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    read = read_training_script(script)
    assert read is not None
    *_, parser = read.calls.parsers
    assert parser.takes == tuple(LOCAL_RANK[one] for one in takes)
    for number, option in enumerate(LOCAL_RANK):
        monkeypatch.setattr(sys, "argv", ["train.py", f"{option}=0"])
        assert _ends_well(script) == (number in takes)


def _ends_well(script: str) -> bool:
    try:
        runpy.run_path(str(_written(script)), run_name="__main__")
    except SystemExit as end:  # of click and typer, with 0 also at the end of what they run
        return end.code in (None, 0)
    except ValueError:
        return False
    return True


def _written(script: str) -> pathlib.Path:
    path = pathlib.Path("train.py")
    path.write_text(script, encoding="utf-8")
    return path


def test_the_option_hides_a_file_of_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """DS866: a script that reads the file if it is the only word."""
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "args.json").write_text('{"output_dir": "out", "use_cpu": true}', encoding="utf-8")
    read = read_training_script(OF_TRANSFORMERS + FILE)
    assert read is not None
    assert [one.kind for one in read.calls.parsers] == ["file", "parser"]
    for words, ends_well in (["args.json"], True), (["--local_rank=0", "args.json"], False):
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        assert _ends_well(OF_TRANSFORMERS + FILE) == ends_well


@pytest.fixture
def two_nodes() -> Iterator[list[str]]:
    """The names of two networks, each a node with an address of its own, 10.99.7.1 and 10.99.7.2."""
    names = [f"ds-lint-{os.getpid()}-{number}" for number in (1, 2)]
    links = [f"dl{os.getpid()}{number}" for number in (1, 2)]

    def ip(*words: str) -> int:
        return subprocess.run(["ip", *words], capture_output=True, check=False).returncode

    if shutil.which("ip") is None or ip("netns", "add", names[0]) != 0:
        pytest.skip("networks of their own need root, and `ip`")
    try:
        ip("netns", "add", names[1])
        ip("link", "add", links[0], "netns", names[0], "type", "veth", "peer", "name", links[1], "netns", names[1])
        for number, (name, link) in enumerate(zip(names, links, strict=True), start=1):
            ip("-n", name, "addr", "add", f"10.99.7.{number}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            ip("netns", "delete", name)


@pytest.mark.long
@pytest.mark.parametrize("numbers", [(0, 1), (0, 0)])
def test_nodes_need_numbers_of_their_own(tmp_path: Path, two_nodes: list[str], numbers: tuple[int, int]) -> None:
    """DS885: two nodes that both take themselves for the first one wait for each other."""
    words = ["--nnodes", "2", "--nproc_per_node", "1", "--master_addr", "10.99.7.1", "--master_port", "29679"]
    started = [
        torchrun(tmp_path, *words, "--node_rank", str(number), "train.py", "out", within=["ip", "netns", "exec", node])
        for node, number in zip(two_nodes, numbers, strict=True)
    ]
    ended = [_ends(one) for one in started]  # one after the other, and the second ends with the first
    assert ended[0] == (numbers == (0, 1))
    assert len(list((tmp_path / "out").iterdir())) == (2 if numbers == (0, 1) else 0)


@pytest.mark.long
@pytest.mark.parametrize("ports", [(29681, 29682), (29681, 29681)])
def test_a_port_is_for_one_run(tmp_path: Path, ports: tuple[int, int]) -> None:
    """DS887: the second run at a port stops."""
    (tmp_path / "train.py").write_text(
        "import time, torch.distributed\ntorch.distributed.init_process_group('gloo')\ntime.sleep(10)\n",
        encoding="utf-8",
    )
    info = base64.urlsafe_b64encode(b'{"localhost": [0]}').decode()
    command = [sys.executable, "-m", "deepspeed.launcher.launch", f"--world_info={info}", "--master_addr=127.0.0.1"]
    started = [
        subprocess.Popen(
            [*command, f"--master_port={port}", "train.py"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for port in ports
    ]
    texts = [one.communicate(timeout=120)[0] for one in started]
    stopped = [one for one, text in zip(started, texts, strict=True) if one.returncode and "EADDRINUSE" in text]
    assert len(stopped) == (ports[0] == ports[1])


@pytest.mark.long
def test_a_torchrun_of_one_node_is_a_run_of_its_own(tmp_path: Path, two_nodes: list[str]) -> None:
    """DS884: as ``srun --nodes=2 torchrun --nproc_per_node 2`` starts them."""
    words = ["--nproc_per_node", "2", "train.py", "out"]
    started = [torchrun(tmp_path, *words, within=["ip", "netns", "exec", node]) for node in two_nodes]
    texts = [one.communicate(timeout=120)[0] for one in started]
    found = [path.name.split("-")[-3:-1] for path in (tmp_path / "out").iterdir()]
    assert sorted(found) == [["0", "2"], ["0", "2"], ["1", "2"], ["1", "2"]], texts
