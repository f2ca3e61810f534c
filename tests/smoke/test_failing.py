"""Which of several ranks that failed is told of."""

from __future__ import annotations

import errno
import subprocess
import time
from multiprocessing.connection import Pipe

import pytest
import torch
from linted import config_of
from shown_engines import UNSAVED

from ds_lint.diagnostics.verdict import CPU, CUDA, RankEnd, Step
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.expectation import Expectation
from ds_lint.smoke.processes.kept_files import kernel_caches
from ds_lint.smoke.rank import pool
from ds_lint.smoke.rank.environment import NoGpu
from ds_lint.smoke.records import hanging
from ds_lint.smoke.records.cause import cause_of
from ds_lint.smoke.records.failure import failure, first_line, rank_ends
from ds_lint.smoke.records.hanging import HangingPlace
from ds_lint.smoke.records.job import Evidence, Job, Raised, Reference
from ds_lint.smoke.records.messages import IMPORTING, Ended
from ds_lint.smoke.standins import ops
from ds_lint.smoke.standins.ops import NoStandIn
from ds_lint.smoke.verify import saving
from ds_lint.smoke.verify.check import SmallRun
from ds_lint.source import documents

GLOO = "[pair.cc:553] Connection closed by peer"
WHERE = "deepspeed/runtime/engine.py:1 step"


def raised(text):
    cause = cause_of(RuntimeError(text))
    return ("exception", f"RuntimeError: {text}", Raised("RuntimeError", text, "train", WHERE, cause))


KILLED, ABORTED, SLOW = ("signal", "SIGKILL", None), ("signal", "SIGABRT", None), ("timeout", None, None)
OURS, PEER, LOST = raised("no such head"), raised(GLOO), ("exception", "the process ended with status 1", None)


@pytest.mark.parametrize(
    ("ends", "rank", "said"),
    [
        ([PEER, KILLED], 1, "rank 1 was killed by SIGKILL in train"),
        ([OURS, KILLED], 1, "rank 1 was killed by SIGKILL in train"),
        ([PEER, OURS], 1, "RuntimeError: no such head"),
        ([ABORTED, OURS], 1, "RuntimeError: no such head"),
        ([PEER, ABORTED], 1, "rank 1 was killed by SIGABRT"),
        ([PEER, LOST], 1, "rank 1 stopped in train: the process ended with status 1"),
        ([PEER, SLOW], 1, "the run did not finish within 5 s (--smoke-timeout): rank 1 in train"),
        ([SLOW, SLOW], 0, "the run did not finish within 5 s (--smoke-timeout): rank 0 in train, rank 1 in train"),
        ([PEER, PEER], 0, f"RuntimeError: {GLOO}"),
    ],
)
def test_the_rank_that_failed_first_is_told(tmp_path, ends, rank, said):
    job = Job("{}", "deepspeed", str(tmp_path), seconds=5.0)
    ended = Ended(
        [RankEnd(number, how, "train", error) for number, (how, error, _) in enumerate(ends)],
        [Evidence(number, "train", one) if one else None for number, (_, _, one) in enumerate(ends)],
    )
    found = failure(job, ended)
    assert found.rank == rank
    assert found.message.startswith(said)


IN_ALL_REDUCE = HangingPlace("deepspeed/comm/comm.py:500 all_reduce", waits=True)
IN_STEP = HangingPlace("deepspeed/runtime/engine.py:9 step", waits=False)
IN_LOAD = HangingPlace("x.py:1 load", waits=False)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (
            [IN_ALL_REDUCE, IN_STEP, IN_ALL_REDUCE],
            "rank 1 is stuck in train, at deepspeed/runtime/engine.py:9 step; ranks 0, 2 wait for it",
        ),
        ([IN_LOAD, IN_ALL_REDUCE], "rank 0 is stuck in train, at x.py:1 load; rank 1 waits for it"),
        ([IN_ALL_REDUCE] * 2, f"rank 0 in train ({IN_ALL_REDUCE}), rank 1 in train ({IN_ALL_REDUCE})"),
    ],
)
def test_a_hang_names_the_rank_that_the_others_wait_for(tmp_path, places, said):
    job = Job("{}", "deepspeed", str(tmp_path), seconds=5.0)
    ends = [RankEnd(number, "timeout", "train", str(place)) for number, place in enumerate(places)]
    waiting = [number for number, place in enumerate(places) if place.waits]
    found = failure(job, Ended(ends, [None] * len(ends), waiting))
    assert found.message == f"the run did not finish within 5 s (--smoke-timeout): {said}"


@pytest.mark.parametrize(
    ("frames", "place"),
    [
        (
            ["/env/site-packages/deepspeed/ops/x.py", "/env/site-packages/deepspeed/runtime/engine.py"],
            "deepspeed/ops/x.py:1 f0",
        ),
        (
            [
                "/env/site-packages/torch/distributed/distributed_c10d.py",
                "/env/site-packages/deepspeed/runtime/engine.py",
            ],
            "waiting for the other ranks at deepspeed/runtime/engine.py:2 f1",
        ),
        (["/env/site-packages/torch/cuda/__init__.py", "/home/me/model.py"], "/home/me/model.py:2 f1"),
    ],
)
def test_the_place_of_a_rank_is_in_the_stack_of_its_main_thread(tmp_path, frames, place):
    stack = [f'  File "{path}", line {number + 1} in f{number}' for number, path in enumerate(frames)]
    other = ["Thread 0x01 (most recent call first):", '  File "/usr/lib/threading.py", line 3 in wait', ""]
    log = tmp_path / "rank.log"
    log.write_text("\n".join(["a warning", *other, "Current thread 0x02 (most recent call first):", *stack, ""]))
    assert str(hanging.place(str(log))) == place


def test_a_log_without_a_stack_tells_no_place(tmp_path):
    (tmp_path / "rank.log").write_text("a warning\n")
    assert hanging.place(str(tmp_path / "rank.log")) is None
    assert hanging.place(str(tmp_path / "none.log")) is None


def test_a_full_disk_is_told_with_what_is_free(tmp_path):
    job = Job("{}", "deepspeed", str(tmp_path))
    error = Raised("RuntimeError", "[enforce fail at inline_container.cc:672] . unexpected pos", "save", WHERE, "disk")
    found = failure(job, Ended([RankEnd(0, "exception", "save", str(error))], [Evidence(0, "save", error)]))
    assert found.message.startswith("the disk is full (")
    assert f"MiB free below {tmp_path.parent}): RuntimeError: [enforce fail" in found.message
    assert found.stage is None


NCCL = (
    "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled system error (run with "
    "NCCL_DEBUG=INFO for details), NCCL version 2.27.3"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (torch.distributed.DistBackendError(NCCL), "NCCL fails on this machine: DistBackendError: NCCL error in"),
        (
            RuntimeError("CUDA error: no kernel image is available for execution on the device"),
            "this torch has no kernels for the GPU: RuntimeError: CUDA error: no kernel image",
        ),
        (
            RuntimeError("The NVIDIA driver on your system is too old (found version 11040)."),
            "the driver does not fit this torch: RuntimeError: The NVIDIA driver",
        ),
        (
            RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable"),
            "the GPU cannot be used: RuntimeError: CUDA error: CUDA-capable",
        ),
    ],
)
def test_a_fault_of_the_machine_on_all_ranks_is_not_the_config(tmp_path, error, said):
    one = Raised(type(error).__name__, str(error), "train", WHERE, cause_of(error))
    ends = [RankEnd(rank, "exception", "train", str(one)) for rank in range(2)]
    found = failure(
        Job("{}", "deepspeed", str(tmp_path)), Ended(ends, [Evidence(rank, "train", one) for rank in range(2)])
    )
    assert found.stage is None  # status 2, and no finding
    assert found.message.startswith(said)


def test_what_a_rank_says_of_its_peer_is_not_its_own_error():
    ends = [RankEnd(0, "exception", "train", GLOO), RankEnd(1, "exception", "train", "KeyError: 'x'")]
    raised = [Raised("RuntimeError", GLOO, "train", WHERE, "peer"), Raised("KeyError", "'x'", "train", WHERE)]
    told = rank_ends(Ended(ends, [Evidence(number, "train", one) for number, one in enumerate(raised)]))
    assert told == [RankEnd(0, "ended", "train", "another rank ended first"), ends[1]]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OSError(errno.ENOSPC, "x"), "disk"),
        (PermissionError(errno.EACCES, "x"), "file"),
        (OSError(errno.EMFILE, "x"), "open files"),
        (OSError(errno.EADDRINUSE, "x"), "port"),
        (OSError(errno.ENOENT, "x"), None),
        (ConnectionResetError(errno.ECONNRESET, "x"), "peer"),
        (MemoryError(), "memory"),
        (torch.OutOfMemoryError("x"), "memory"),
        (torch.distributed.DistBackendError("x"), "peer"),
        (ModuleNotFoundError("x"), "package"),
        (ImportError("x"), None),
        (ValueError("x"), None),
    ],
)
def test_the_type_of_an_exception_tells_its_cause(error, cause):
    assert cause_of(error) == cause


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("[enforce fail at inline_container.cc:672] . unexpected pos 64 vs 0", "disk"),
        ("unable to open file: Permission denied (13)", "file"),
        ("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory: you tried to", "memory"),
        ("CUDA error: out of memory", "memory"),
        ("CUDA error: no kernel image is available for execution on the device", "architecture"),
        ("The NVIDIA driver on your system is too old (found version 11040).", "driver"),
        ("CUDA driver version is insufficient for CUDA runtime version", "driver"),
        ("CUDA error: CUDA-capable device(s) is/are busy or unavailable", "busy gpu"),
        ("CUDA error: uncorrectable ECC error encountered", "busy gpu"),
        ("Torch not compiled with CUDA enabled", "gpu"),
        ("expected m1 and m2 to have the same dtype: mixed dtype (CPU): expect parameter to have", "gpu"),
        ("Ninja is required to load C++ extensions (pip install ninja to get it)", "compiler"),
        ("AdamW8bit requires bitsandbytes, please install it", "package"),
        ("The server socket has failed to listen. port: 29500, error: EADDRINUSE", "port"),
        ("unable to open shared memory object </torch_1> in read-write mode: Too many open files (24)", "open files"),
        (GLOO, "peer"),
        ("Expected 4 groups, got 2", None),
    ],
)
def test_what_torch_raises_from_c_tells_by_its_text(text, cause):
    assert cause_of(RuntimeError(text)) == cause


def test_our_own_exceptions_say_their_cause():
    assert cause_of(NoStandIn("x")) == "stand-in"
    wrapped = AssertionError("cannot load")
    wrapped.__context__ = NoStandIn("x")
    assert cause_of(wrapped) == "stand-in"
    assert cause_of(NoGpu("this is rank 1 of its node")) == "gpu per rank"


def test_an_exception_that_is_raised_from_another_has_its_cause():
    error = RuntimeError("Error building extension")
    error.__cause__ = subprocess.CalledProcessError(1, "ninja")
    assert cause_of(error) == "compiler"


def test_a_cause_is_told_whatever_the_text_says(tmp_path):
    error = Raised("MemoryError", "", "train", WHERE, "memory")
    found = failure(
        Job("{}", "deepspeed", str(tmp_path)),
        Ended([RankEnd(0, "exception", "train", "")], [Evidence(0, "train", error)]),
    )
    assert (found.message, found.stage) == ("there is not enough memory: MemoryError", None)


def test_losses_of_gpus_are_compared_to_a_tolerance():
    def told(mode, after):
        before = [Step(4.0, [1e-3], None, None, is_skipped=False)] * 5
        again = [Step(loss, [1e-3], None, None, is_skipped=False) for loss in after]
        seen = [Evidence(0, steps=before, fingerprint={"x": "1"})]
        resumed = [Evidence(0, steps=again, fingerprint={"x": "1"})]
        run = SmallRun(train=seen, mode=mode, resumed=resumed, reference=Reference(), **UNSAVED)
        config = config_of(documents.from_dict({}), target=Target(), stack="deepspeed", facts=Facts(world_size=1))
        (check,) = saving.resume(Expectation(config, {}, {}), run)
        return check.status, check.message.rpartition("losses ")[2]

    assert told(CUDA, [4.0, 4.0]) == ("pass", "bitwise")
    assert told(CUDA, [4.0, 4.001]) == ("pass", "to 0.1%, as a GPU allows")
    assert told(CUDA, [4.0, 4.1])[0] == "fail"
    assert told(CPU, [4.0, 4.001])[0] == "fail"


def test_kernels_are_kept_where_the_user_keeps_them(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CUDA_CACHE_PATH", raising=False)
    monkeypatch.setenv("TRITON_CACHE_DIR", "/mine")
    assert kernel_caches() == {
        "CUDA_CACHE_PATH": str(tmp_path / "ds-lint" / "kernels" / "cuda"),
        "TRITON_CACHE_DIR": "/mine",
    }


def test_an_op_that_was_built_is_no_stand_in(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    assert not ops._is_built("fused_adam")
    (tmp_path / "fused_adam").mkdir()
    (tmp_path / "fused_adam" / "fused_adam.so").touch()
    assert ops._is_built("fused_adam")
    (tmp_path / "fused_adam" / "lock").touch()  # of a build that was killed, or goes on
    assert not ops._is_built("fused_adam")


class SlowRank:
    """A rank that imports for a while, and then is in a phase without an end."""

    def __init__(self, job, importing):
        self.job, self.number, self.end, self.ended_at = job, 0, None, 0.0
        self.is_silent, self.phase = False, IMPORTING
        self.pipe, self._theirs = Pipe(duplex=False)
        self._until = time.monotonic() + importing

    def listen(self):
        self.phase = IMPORTING if time.monotonic() < self._until else "train"

    def reap(self):
        """It does not end by itself."""

    def tell_place(self):
        """It is nowhere."""

    def kill(self, why):
        self.end = RankEnd(self.number, why, self.phase)


def test_imports_of_a_fresh_rank_do_not_count_as_time_of_the_run(tmp_path):
    ours, theirs = Pipe()
    rank = SlowRank(Job("{}", "deepspeed", str(tmp_path), seconds=0.3), importing=1.2)
    began = time.monotonic()
    pool._await([rank], ours)
    assert 1.4 < time.monotonic() - began < 30
    assert rank.end == RankEnd(0, "timeout", "train")
    assert theirs.recv().phase == IMPORTING


def test_the_colours_of_a_message_are_not_part_of_it():
    """torch writes what to do about ``weights_only`` in bold."""
    in_bold = "\x1b[1mdo those steps only\x1b[0m if you trust it"
    assert first_line(f"{in_bold}\nmore") == "do those steps only if you trust it"
