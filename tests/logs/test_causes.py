"""From logs to causes: which rank failed first, what it means, and how sure that is."""

from __future__ import annotations

import io

import pytest

from ds_lint.logs import reading
from ds_lint.logs.causes import causes
from tests.newest import NEWEST

OWN = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/home/me/train.py", line 25, in <module>
[rank{rank}]:     {code}
[rank{rank}]: {error}
"""
PEER = (
    "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1."
)
TABLE = """\
Failures:
[1]:
  rank      : {victim} (local_rank: {victim})
  exitcode  : -15 (pid: 5)  (SIGTERM)
Root Cause (first observed failure):
[0]:
  rank      : {culprit} (local_rank: {culprit})
  exitcode  : {status} (pid: 6)
"""
DEEPSPEED = "/env/lib/python3.11/site-packages/deepspeed"


def own(rank, error, code="pass"):
    return OWN.format(rank=rank, error=error, code=code)


def found(*texts):
    logs = [
        reading.read(f"rank{place}.log" if len(texts) > 1 else "train.log", io.BytesIO(text.encode()))
        for place, text in enumerate(texts)
    ]
    return causes(logs)


def first(*texts):
    return found(*texts)[0]


def test_the_rank_with_an_exception_of_its_own_failed_first():
    cause = first(own(0, PEER) + own(1, "KeyError: 'inputs'") + TABLE.format(culprit=1, victim=0, status=1))
    assert (cause.rank, cause.library, cause.exception) == (1, "script", "KeyError: 'inputs'")
    assert (cause.path, cause.line) == ("/home/me/train.py", 25)
    assert [(one.rank, one.how) for one in cause.followers] == [(0, "lost its connection to another rank")]


def test_all_ranks_alike_are_no_rank():
    assert first(own(0, "KeyError: 'inputs'") + own(1, "KeyError: 'inputs'")).rank is None


def test_of_some_ranks_the_first_is_named():
    assert first(own(2, "KeyError: 'inputs'") + own(3, "KeyError: 'inputs'")).rank == 2


def test_a_file_for_each_rank():
    text = own(0, PEER).replace("[rank0]: ", "")
    assert first(text, own(0, "KeyError: 'x'").replace("[rank0]: ", "")).rank == 1


def test_a_killed_rank_has_no_traceback_and_failed_first():
    cause = first(own(0, PEER) + TABLE.format(culprit=1, victim=0, status=-9))
    assert (cause.rank, cause.library) == (1, "host")
    assert "SIGKILL" in cause.message


def test_the_launcher_of_deepspeed_names_no_rank_but_the_victims_do():
    cause = first(
        "[INFO] [launch.py:163:main] dist_world_size=2\n"
        + own(0, PEER)
        + "['python', '-u', 'train.py', '--local_rank=0'] exits with return code = -9\n"
    )
    assert cause.rank == 1


def test_a_lost_connection_alone_is_a_rank_that_ended_too_early():
    cause = first(own(0, PEER) + TABLE.format(culprit=0, victim=1, status=1))
    assert "different number of steps" in cause.message
    assert cause.confidence == "possible"


@pytest.mark.parametrize(
    ("status", "words"),
    [(-9, "memory"), (-7, "/dev/shm"), (-11, "native code"), (247, "memory"), (-15, "from outside")],
)
def test_processes_that_end_without_a_traceback(status, words):
    assert words in first(f"['python', 'train.py'] exits with return code = {status}\n").message


def test_sigterm_is_never_the_first():
    cause = first(
        "slurmstepd-n1: error: Detected 1 oom_kill event in StepId=9.0.\nsrun: error: n2: task 1: Terminated\n"
    )
    assert (cause.codes[0], cause.confidence) == ("DS851", "certain")


def test_a_wrapper_gives_way_to_what_it_carries():
    cause = first(
        "Traceback (most recent call last):\n"
        f'  File "{DEEPSPEED}/elasticity/elastic_agent.py", line 9, in <module>\n'
        "ImportError: cannot import name 'log' from 'torch.distributed.elastic.agent.server.api' (/x/api.py)\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/env/lib/python3.11/site-packages/trl/import_utils.py", line 182, in _get_module\n'
        "RuntimeError: Failed to import trl.trainer because of the following error (look up to see its traceback):\n"
    )
    assert cause.codes == ["DS846"]
    assert "too old for torch" in cause.message


def test_the_error_of_the_compiler_comes_before_that_of_the_build():
    found_ones = found(
        "gemm_test.h:6:10: fatal error: cuda_profiler_api.h: No such file or directory\n"
        "Traceback (most recent call last):\n"
        f'  File "{DEEPSPEED}/ops/op_builder/builder.py", line 508, in jit_load\n'
        "RuntimeError: Error building extension 'transformer'\n"
    )
    assert "cuda_profiler_api.h" in found_ones[0].message
    assert [one.confidence for one in found_ones] == ["certain", "possible"]


def test_what_a_gpu_lacks_and_when():
    cause = first(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 3, in <module>\n'
        f'  File "{DEEPSPEED}/__init__.py", line 171, in initialize\n'
        f'  File "{DEEPSPEED}/runtime/zero/stage3.py", line 922, in initialize_optimizer_states\n'
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.74 GiB (GPU 5; 23.70 GiB)\n"
    )
    assert cause.message.endswith("the optimizer states: 3.74 GiB more do not fit.")
    assert (cause.codes, cause.phase, cause.library) == (["DS852"], "initialize", "cuda")


def test_a_rule_explains_an_exception_of_the_library():
    cause = first(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 3, in <module>\n'
        f'  File "{DEEPSPEED}/runtime/config.py", line 134, in _batch_assertion\n'
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size 4 != 2 * 1 * 1\n"
    )
    assert (cause.codes[0], cause.library) == ("DS512", "deepspeed")
    assert "not the product of micro batch (2)" in cause.message


# --------------------------------------------------------------------------------------------------------- of a course


def losses(*values, more=""):
    return "".join(f"{{'loss': {value}, 'grad_norm': 1.0{more}}}\n" for value in values)


def test_a_loss_that_is_nan_from_a_line_on():
    cause = first(losses(1.2, 1.1, "nan", "nan", "nan"))
    assert "NaN" in cause.message or "nan since line 3" in cause.message
    assert cause.codes == ["DS907"]


def test_a_loss_of_zero_beside_nan_is_no_finished_training():
    cause = first("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1e-6}\n" * 4)
    assert cause.message.startswith("The gradient norm is nan since line 1, and the loss is 0.0")


def test_overflow_without_end():
    line = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}\n"
    text = "".join(line.format(2**step, 2 ** (step - 1)) for step in range(8, 0, -1)) + line.format(1, 1) * 4
    cause = first(text)
    assert cause.codes == ["DS450", "DS908"]
    assert "fell to 1" in cause.message


def test_a_static_scale_that_overflows_in_every_step():
    overflow = "[Rank 0] [deepspeed] OVERFLOW! Skipping step. Gradients are non-finite, weights were not updated.\n"
    assert "DS413" in first(f"{overflow}step loss 0.3\n" * 6).codes


@pytest.mark.parametrize(
    "text",
    [
        losses(1.2, 1.1, 0.9, 0.7, 0.6, 0.5, 0.45, 0.4, 0.38),
        "OVERFLOW! Skipping step. Attempted loss scale: 65536, reducing to 32768\n" * 4 + losses(*range(1, 30)),
        losses(1.2, "nan", 1.1, 1.0),
        "***** eval metrics *****\n  eval_errors = 0\n  eval_loss = nan\n",
        own(0, "ConnectionError: retried") + "".join(f"step {step} loss 0.{9 - step}\n" for step in range(5)),
        "Process 5 exits successfully.\n",
        "",
    ],
)
def test_a_healthy_log_has_no_cause(text):
    assert found(text) == []


def test_a_rate_of_zero():
    assert (
        "learning rate is 0" in first(losses(*(1 + 1 / n for n in range(1, 12)), more=", 'learning_rate': 0.0")).message
    )


WATCHDOG = (
    "[rank{0}]:[E315 10:42:28.1 ProcessGroupNCCL.cpp:616] [Rank {0}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600011 milliseconds\n"
)


def test_what_lines_explain_comes_before_the_exception():
    alone = first(WATCHDOG.format(0, 9) + WATCHDOG.format(1, 9))
    assert (
        alone.message == "A collective (ALLREDUCE) did not end within 10 minutes: at least one rank did not reach it."
    )
    order = "Invalidate trace cache @ step 1: expected module 25, but got module 323\n"
    assert first(order + WATCHDOG.format(0, 9)).codes == ["DS350"]


def test_the_rank_that_the_others_wait_for():
    at_an_earlier_one = first(WATCHDOG.format(0, 9) + WATCHDOG.format(1, 8) + WATCHDOG.format(2, 9))
    assert at_an_earlier_one.rank == 1
    silent = first("dist_world_size=3\n" + WATCHDOG.format(0, 9) + WATCHDOG.format(2, 9))
    assert (silent.rank, silent.message.startswith("Rank 1 is behind")) == (1, True)


def test_a_log_that_ends_while_it_waits():
    built = "Using /home/me/.cache/torch_extensions/py310_cu118 as PyTorch extensions root...\n"
    assert "left its lock" in first(f"step 0 loss 0.3\n{built}").message
    assert found(built + losses(1.2, 1.1, 1.0, 0.9)) == []
    assert found(f"{built}Time to load utils op: 0.0002 seconds\n") == []


def test_an_exception_that_carries_another_one_speaks_where_that_one_is_cut_off():
    failed = "CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1."
    assert first(own(0, f"subprocess.{failed}")).message.startswith("The build of a compiled op failed")
    (cause,) = found(f"nvcc fatal   : Unsupported gpu architecture\n{own(0, f'subprocess.{failed}')}")
    assert cause.message == "nvcc does not compile the op: Unsupported gpu architecture"


def test_a_line_that_an_exception_repeats_is_one_cause():
    shared = "n1:1:2 [0] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n"
    error = "RuntimeError: DataLoader worker (pid 7) is killed by signal: Bus error. It is possible that dataloader's"
    causes_of_both = found(shared + own(0, f"{error} workers are out of shared memory."))
    assert [cause.codes[0] for cause in causes_of_both] == ["DS894"]


def test_the_gradient_norm_of_megatron_is_without_a_loss_where_that_is_not_finite():
    text = " iteration {}/ 250 | learning rate: 2.999E-04 | loss scale: 1.0 | grad norm: nan | TFLOPs: 78.46 |\n"
    assert first("".join(map(text.format, range(6)))).codes == ["DS907"]


RELEASE = "[INFO] [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version={}, git-hash=unknown\n"
DIVIDED = f"""\
Traceback (most recent call last):
  File "/home/me/train.py", line 25, in <module>
  File "{DEEPSPEED}/runtime/lr_schedules.py", line 700, in __init__
ZeroDivisionError: float division by zero
"""


@pytest.mark.parametrize(
    ("release", "advisory"), [("0.12.4", "DSA-2026-0137"), (NEWEST["deepspeed"], None), (None, None)]
)
def test_an_exception_of_an_affected_release_is_its_advisory(release, advisory):
    cause = first(f"{RELEASE.format(release) if release else ''}{DIVIDED}")
    assert (cause.advisory, "DS847" in cause.codes) == (advisory, advisory is not None)


def test_of_two_advisories_with_one_exception_none_is_likely():
    cause = first(f"{RELEASE.format('0.12.3')}{DIVIDED}")
    assert (cause.advisory, cause.confidence) == ("DSA-2026-0037", "possible")
    assert "Or DSA-2026-0137: DeepSpeed divides by zero" in cause.help


LINKED = "/usr/bin/ld: cannot find -laio\ncollect2: error: ld returned 1 exit status\n"


def test_a_probe_of_the_linker_is_a_cause_only_where_a_build_failed():
    assert [one.exception for one in found(LINKED + own(0, "KeyError: 'inputs'"))] == ["KeyError: 'inputs'"]
    assert found(LINKED) == []
    failed = "RuntimeError: Error building extension 'async_io'"
    assert first(LINKED + own(0, failed)).message == "The linker does not find libaio."


def test_what_a_library_reads_is_no_key_of_the_script():
    frame = f'  File "{DEEPSPEED}/runtime/zero/stage2.py", line 9, in has_overflow\n    grads[i]\n'
    cause = first(f"Traceback (most recent call last):\n{frame}KeyError: 0\n")
    assert (cause.confidence, cause.message) == ("possible", "KeyError: 0")
