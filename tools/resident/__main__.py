"""Write ``tools/resident/measured.json``: what training runs on CPU ranks take of the memory of their host.

    python -m tools.resident                  # all runs
    python -m tools.resident 'offload'        # the runs whose name has this, beside those that the file has

Run it as root in an environment that has torch, transformers and DeepSpeed, on a machine with 12 GB of free memory,
with DS_ACCELERATOR=cpu, OMP_NUM_THREADS=1, and MALLOC_MMAP_THRESHOLD_=65536, with which what is freed goes back to the
kernel: on a GPU, the allocator of torch has the small tensors of a step, and not the C library. The ranks are forked
from a process that has imported the libraries; what an import takes counts for each of them, as if each had imported
them. The kernel counts the pages of a rank that no file backs (``anonymous``), and those of files and of ``/dev/shm``
that it has mapped. ``node_anonymous`` is the most that all ranks have at once in a phase, looked at every 10 ms.
``cgroup`` is the most that is charged to the run, with the page cache and without imports.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deepspeed  # noqa: F401 - the ranks are forked from this process
import torch
import transformers

from tools.resident import files
from tools.resident import rank as rank_program
from tools.resident.cgroup import Cgroup
from tools.resident.rank import COUNTED
from tools.resident.runs import MODEL, NVME, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator

STORE = Path(__file__).parent / "measured.json"
_LIBRARIES = ("torch", "transformers", "deepspeed", "accelerate")
_SMALL = {**MODEL, "vocab_size": 100, "hidden_size": 24, "intermediate_size": 24, "num_hidden_layers": 1}
_EVERY = 0.01  # seconds
_LONGEST = 400  # seconds of a run


class Watch(threading.Thread):
    """What the processes of a run and their children have at once, again and again."""

    def __init__(self, cgroup: Cgroup, ranks: list[int]) -> None:
        super().__init__(daemon=True)
        self.cgroup, self.ranks = cgroup, ranks
        self.seen: list[tuple[float, int]] = []  # when, and how many bytes
        self.is_over = threading.Event()

    def run(self) -> None:
        """Look until it is over."""
        while not self.is_over.wait(_EVERY):
            self.seen.append((time.monotonic(), sum(map(_anonymous, self.cgroup.processes() or self.ranks))))

    def most(self, began: float, ended: float) -> int:
        """The most between two moments."""
        return max((taken for when, taken in self.seen if began <= when <= ended), default=0)


def _anonymous(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # it has ended
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def measured(run: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a run takes in each phase."""
    job = json.loads(json.dumps(run).replace(f'"{NVME}"', json.dumps(str(folder / "nvme"))))
    if run["files"] is not None:
        job["folder"] = str(_saved(run, folder))
    job["output"] = str(folder / "output")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with Cgroup(f"ds-lint-resident-{os.getpid()}") as cgroup:
        outputs = [folder / f"rank{rank}" for rank in range(run["ranks"])]
        processes = [_forked(job, rank, port, cgroup, output) for rank, output in enumerate(outputs)]
        watch = Watch(cgroup, processes)
        watch.start()
        _wait(processes, outputs)
        watch.is_over.set()
        watch.join()
        whole = cgroup.most()
    shutil.rmtree(folder / "output", ignore_errors=True)
    shutil.rmtree(folder / "nvme", ignore_errors=True)
    answers = [json.loads(output.read_text(encoding="utf-8").splitlines()[-1]) for output in outputs]
    phases: dict[str, Any] = {}
    for ends in zip(*answers, strict=True):
        node = watch.most(min(one["began"] for one in ends), max(one["ended"] for one in ends))
        ranks = [{name: one[name] for name in COUNTED} for one in ends]
        node = max(node, sum(one["anonymous"] for one in ranks))
        phases[ends[0]["phase"]] = {"node_anonymous": node, "ranks": ranks}
    return {**run, "cgroup": whole, "phases": phases}


def _forked(job: dict[str, Any], rank: int, port: int, cgroup: Cgroup, output: Path) -> int:
    """A rank, which writes what it takes as its last line."""
    process = os.fork()
    if process:
        return process
    cgroup.enter()
    os.environ.update(
        {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(job["ranks"]), "LOCAL_SIZE": str(job["ranks"])}
    )
    os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), **job.get("environment", {})})
    with output.open("w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        status = 1
        try:
            found = rank_program.train(job)
            sys.stdout.flush()
            file.write(f"\n{json.dumps(found)}\n")
            file.flush()
            status = 0
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(status)  # what a library does at its end is not measured


def _wait(processes: list[int], outputs: list[Path]) -> None:
    """Wait for all ranks; raises RuntimeError if one of them fails, or takes too long."""
    left, began = set(processes), time.monotonic()
    why = ""
    while left:
        for process in list(left):
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                left.discard(process)
                if status and not why:
                    why = outputs[processes.index(process)].read_text(encoding="utf-8", errors="replace")[-3000:]
        if why or time.monotonic() - began > _LONGEST:
            for process in left:
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)
            raise RuntimeError(why or "a run takes too long")
        time.sleep(0.05)


def _saved(run: dict[str, Any], folder: Path) -> Path:
    """The model of a run on the disk, as ``safetensors bfloat16``, ``bin float32`` or ``one bin bfloat16``."""
    place: Path = folder / run["files"].replace(" ", "-")
    if not place.exists():
        process = os.fork()  # so that this one does not keep what it takes
        if not process:
            files.write(run["files"], run["model"], place)
            os._exit(0)
        os.waitpid(process, 0)
    return place


def _wanted(words: list[str]) -> Iterator[dict[str, Any]]:
    yield from (run for run in RUNS if not words or any(word in run["name"] for word in words))


def main() -> None:
    """Measure the runs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    known = json.loads(STORE.read_text(encoding="utf-8"))["runs"] if STORE.exists() and names else []
    runs = list(_wanted(names))
    found = [one for one in known if not any(one["name"] == run["name"] for run in runs)]
    with tempfile.TemporaryDirectory(prefix="ds-lint-resident-") as folder:
        torch.set_num_threads(1)
        transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**_SMALL))  # for its imports
        for number, run in enumerate(runs, 1):
            began = time.monotonic()
            try:
                found.append(measured(run, Path(folder)))
            except RuntimeError as error:
                sys.stderr.write(f"{error}\n")
            words = f"{number} of {len(runs)}: {run['name']}, stage {run['config']['zero_optimization']['stage']}"
            sys.stderr.write(f"{words}, {run['ranks']} ranks, {time.monotonic() - began:.0f} s\n")
            _write(found)


def _write(runs: list[dict[str, Any]]) -> None:
    about = {"date": dt.datetime.now(dt.timezone.utc).date().isoformat(), "kernel": os.uname().release}
    libraries = {name: version(name) for name in _LIBRARIES}
    rows = ",\n".join(f"  {json.dumps(run)}" for run in runs)
    text = f'{{\n "measured": {json.dumps({**about, "libraries": libraries})},\n "runs": [\n{rows}\n ]\n}}\n'
    STORE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
