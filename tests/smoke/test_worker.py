from __future__ import annotations

import subprocess
import sys

from command_line import clean_environment

from ds_lint.smoke.worker import as_check, timeout_in


def start(**variables):
    """The worker, started without a launcher."""
    kept = {name: value for name, value in clean_environment().items() if name not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-m", "ds_lint.smoke.worker", "config.json"]
    return subprocess.run(command, env=kept | variables, capture_output=True, text=True, timeout=60, check=False)


def test_a_process_without_a_rank_says_how_to_start_it():
    ended = start()
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith("ds-lint: The rank of this process is unknown, because RANK, WORLD_SIZE")
    assert "mpi4py" not in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_batch_script_that_forgot_srun_hears_of_it():
    ended = start(SLURM_JOB_ID="7", SLURM_NTASKS="16", SLURM_PROCID="0")
    assert ended.returncode == 2
    assert "is not one of the tasks that srun starts" in ended.stderr


def test_rank_0_is_the_check_that_it_was_asked_to_be():
    given = ["--local_rank=0", "a config.json", "--stack=trainer", "--output-format", "json"]
    wanted = ["check", "a config.json", "--stack=trainer", "--output-format", "json", "--smoke", "--smoke-join"]
    assert as_check(given) == wanted


def test_other_ranks_read_how_long_the_ranks_may_take_to_come():
    assert (
        timeout_in(["config.json", "--smoke-timeout=90"]) == timeout_in(["--smoke-timeout", "90", "config.json"]) == 90
    )
    assert timeout_in(["config.json"]) is timeout_in(["--smoke-timeout"]) is None
