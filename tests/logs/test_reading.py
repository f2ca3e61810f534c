"""What is read from a log: lines without what surrounds them, tracebacks, ends of processes, releases."""

from __future__ import annotations

import gzip
import io
import json

import pytest

from ds_lint.logs import reading
from ds_lint.logs.prefixes import Origin, split

TRACEBACK = """\
Traceback (most recent call last):
  File "/home/me/train.py", line 25, in <module>
    x = batch["inputs"]
KeyError: 'inputs'
"""


def read(text, path="train.log"):
    return reading.read(path, io.BytesIO(text if isinstance(text, bytes) else text.encode()))


def raised(text, path="train.log"):
    return [(one.name, one.message.strip(), one.origin.rank, len(one.frames)) for one in read(text, path).raised]


@pytest.mark.parametrize(
    ("line", "rank", "host", "text"),
    [
        ("[rank3]: KeyError: 'x'", 3, None, "KeyError: 'x'"),
        ("3: KeyError: 'x'", 3, None, "KeyError: 'x'"),
        ('gpu-1: [rank5]:   File "a.py"', 5, "gpu-1", '  File "a.py"'),
        ("[default1]:[rank9]: text", 9, None, "text"),
        ("[1,2]<stderr>:text", 2, None, "text"),
        ("2026-11-26T15:14:00.137Z stderr F   File", None, None, "  File"),
        ("[2024-03-11 09:12:02,114] [INFO] [launch.py:145:main] text", None, None, "[launch.py:145:main] text"),
        ("2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver]   File", None, None, "  File"),
        ("【2023-07-09 22:14:41】text", None, None, "text"),
        ("(RayTrainWorker pid=12, ip=10.0.0.3) text", None, "10.0.0.3/12", "text"),
        ("[pod/train-worker-1/pytorch] text", None, "train-worker-1", "text"),
        ("worker-1  | text", None, "worker-1", "text"),
        ("RuntimeError: text", None, None, "RuntimeError: text"),
        ("srun: error: n1: task 0: Killed", None, None, "srun: error: n1: task 0: Killed"),
    ],
)
def test_prefixes_name_rank_and_host(line, rank, host, text):
    assert split(line)[:2] == (Origin(rank, host), text)


@pytest.mark.parametrize(
    "changed",
    [
        lambda text: text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("KeyError", "\x1b[1;31mKeyError\x1b[0m"),
        lambda text: "".join(f"[rank0]: {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
        lambda text: "".join(f"E       {line}\n" for line in text.splitlines()),
        lambda text: f"  5%|▌  | 1/20 [00:01<00:19,  1.0it/s]{text}",
        lambda text: "".join(f"      {line}\n" for line in text.splitlines()),
        lambda text: text.encode("utf-16"),
        lambda text: "".join(json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in text.splitlines()),
        lambda text: json.dumps({"cells": [{"outputs": [{"output_type": "stream", "text": text.splitlines(True)}]}]}),
    ],
)
def test_a_traceback_is_read_whatever_surrounds_it(changed):
    ((name, message, _, frames),) = raised(changed(TRACEBACK))
    assert (name, message, frames) == ("KeyError", "'inputs'", 1)


def test_a_box_of_rich_is_a_traceback():
    log = read(
        "╭───────────── Traceback (most recent call last) ─────────────╮\n"
        "│ /home/me/train.py:12 in <module>                            │\n"
        "│ ❱ 12 │   main()                                             │\n"
        "│ /env/lib/python3.10/site-packages/deepspeed/runtime/config.p │\n"
        "│ y:134 in _batch_assertion                                   │\n"
        "╰─────────────────────────────────────────────────────────────╯\n"
        "AssertionError: Check batch related parameters.\n"
    )
    (one,) = log.raised
    assert one.name == "AssertionError"
    assert one.frames[-1].path.endswith("site-packages/deepspeed/runtime/config.py")
    assert one.frames[-1].function == "_batch_assertion"


def test_a_traceback_that_begins_or_ends_outside_of_the_log():
    lines = TRACEBACK.splitlines(keepends=True)
    assert raised("".join(lines[1:])) == [("KeyError", "'inputs'", None, 1)]
    assert raised("".join(lines[:-1])) == []


def test_which_exception_led_to_which():
    log = read(
        f"{TRACEBACK}\nThe above exception was the direct cause of the following exception:\n\n"
        f"{TRACEBACK.replace('KeyError', 'ValueError')}"
    )
    first, second = log.raised
    assert second.relation == "cause"
    assert [one.name for one in second.chain] == ["KeyError", "ValueError"]
    assert first.above is None


def test_what_ends_nothing_is_known():
    (one,) = read(f"Exception ignored in: <function A.__del__ at 0x7f>\n{TRACEBACK}").raised
    assert one.is_ignored


def test_interleaved_ranks_are_kept_apart():
    text = "".join(f"[rank{rank}]: {line}\n" for line in TRACEBACK.splitlines() for rank in (0, 1))
    assert raised(text) == [("KeyError", "'inputs'", 0, 1), ("KeyError", "'inputs'", 1, 1)]


@pytest.mark.parametrize("path", ["rank1.log", "logs/20261126_rank1.log", "attempt_0/1/stderr.log"])
def test_the_name_of_a_file_names_the_rank(path):
    assert raised(TRACEBACK, path) == [("KeyError", "'inputs'", 1, 1)]


def test_a_message_of_several_lines_ends_where_another_thing_is_logged():
    log = read(
        f"{TRACEBACK.replace(chr(39) + 'inputs' + chr(39), 'two')}\tlines of it\n"
        "E0502 14:20:11.402000 139900 api.py:826] failed (exitcode: 1) local_rank: 0 (pid: 9) of binary: python\n"
    )
    assert log.raised[0].message == "two\n\tlines of it"
    assert [(one.status, one.by) for one in log.exits] == [(1, "torchrun")]


def test_the_table_of_torchrun():
    log = read(
        "Failures:\n[1]:\n  host      : n1\n  rank      : 0 (local_rank: 0)\n  exitcode  : -15 (pid: 5)  (SIGTERM)\n"
        "Root Cause (first observed failure):\n[0]:\n  host      : n2\n  rank      : 9 (local_rank: 1)\n"
        "  exitcode  : -9 (pid: 6)  (SIGKILL)\n"
    )
    assert [(one.rank, one.host, one.signal, one.is_root) for one in log.exits] == [
        (0, "n1", 15, False),
        (9, "n2", 9, True),
    ]


@pytest.mark.parametrize(("status", "signal"), [(-9, 9), (137, 9), (247, 9), (1, None), (2, None), (255, None)])
def test_statuses_of_signals(status, signal):
    (one,) = read(f"['python', 'train.py'] exits with return code = {status}\n").exits
    assert one.signal == signal


def test_releases_and_the_config_that_deepspeed_prints():
    log = read(
        "[INFO] [logging.py:107:log_dist] [Rank 0] DeepSpeed info: version=0.14.4, git-hash=unknown\n"
        "[INFO] [launch.py:163:main] dist_world_size=4\n"
        '[INFO] [config.py:1003:print]   json = {\n    "train_batch_size": 8\n}\nstep 0\n'
    )
    assert log.releases == {"deepspeed": "0.14.4"}
    assert log.facts["world_size"] == "4"
    assert log.config == {"train_batch_size": 8}
    assert log.config_at == 3


def test_numbers_of_lines_hold_over_blocks():
    filler = "a line that says nothing\n" * 20_000
    log = read(filler + TRACEBACK + filler + "step 1 loss nan\n")
    assert log.raised[0].at == 20_004
    assert log.course.loss.strange_at == 40_005
    assert log.lines == 40_005


def test_what_is_no_text():
    assert read(gzip.compress(b"x" * 100)) is None
    assert read(b"") is not None


def test_a_line_without_end_is_cut():
    assert read("x" * 10_000_000).raised == []
