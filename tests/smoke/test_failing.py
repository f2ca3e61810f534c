"""Which of several ranks that failed is told of."""

from __future__ import annotations

import errno
import subprocess

import pytest
import torch

from ds_lint.diagnostics.verdict import RankEnd
from ds_lint.smoke.driver.failure import as_told, failure
from ds_lint.smoke.driver.messages import Ended
from ds_lint.smoke.job import Evidence, Job, Raised
from ds_lint.smoke.rank.cause import cause_of

GLOO = "[pair.cc:553] Connection closed by peer"
WHERE = "deepspeed/runtime/engine.py:1 step"


def raised(text):
    return ("exception", f"RuntimeError: {text}", Raised("RuntimeError", text, "train", WHERE))


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


def test_a_full_disk_is_told_with_what_is_free(tmp_path):
    job = Job("{}", "deepspeed", str(tmp_path))
    error = Raised("RuntimeError", "[enforce fail at inline_container.cc:672] . unexpected pos", "save", WHERE)
    found = failure(job, Ended([RankEnd(0, "exception", "save", str(error))], [Evidence(0, "save", error)]))
    assert found.message.startswith("the disk is full (")
    assert f"MiB free below {tmp_path.parent}): RuntimeError: [enforce fail" in found.message
    assert found.stage is None


def test_what_a_rank_says_of_its_peer_is_not_its_own_error():
    assert as_told(RankEnd(0, "exception", "train", GLOO)) == RankEnd(0, "ended", "train", "another rank ended first")
    assert as_told(RankEnd(0, "exception", "train", "KeyError: 'x'")).error == "KeyError: 'x'"


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
