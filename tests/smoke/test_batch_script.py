from __future__ import annotations

import os
import shlex
import subprocess
import sys

import pytest
from command_line import clean_environment

from ds_lint.smoke.small_run.batch_script import sbatch

TWO_NODES = """\
#!/bin/bash
#SBATCH --job-name=ds-lint-smoke
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=15
#SBATCH --output=%x-%j.out

# source /path/to/the/environment/of/the/training/bin/activate

# One task per GPU, and each sees all GPUs of its node (no --gpus-per-task): rank 1 of a node takes its GPU 1.
# If a rank dies, the others have a minute to report; the exit status of the job is the highest of all ranks.
exec srun --wait=60 python -m ds_lint.smoke.worker ds_config.json
"""
# What stands in for srun, and for the python that it would start: it shows its arguments and ends with a status.
SRUN = '#!/bin/bash\nprintf "%s\\n" "$@"\nexit 3\n'


def run(script, tmp_path):
    stand_in = tmp_path / "srun"
    stand_in.write_text(SRUN)
    stand_in.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    return subprocess.run(
        ["bash"], input=script, env={"PATH": path}, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_script_has_one_task_for_each_gpu():
    assert sbatch(["ds_config.json"], nodes=2, gpus_per_node=8) == TWO_NODES


def test_a_job_has_a_time():
    script = sbatch(["ds_config.json"], nodes=1, gpus_per_node=4, minutes=5)
    assert "#SBATCH --time=5\n" in script


@pytest.mark.parametrize("argument", ["my config.json", "a'b\"c.json", "$HOME/ds.json", "--set=x=[1, 2]", "`id`"])
def test_arguments_arrive_as_they_were_given_and_the_exit_status_goes_through(argument, tmp_path):
    result = run(sbatch([argument, "--steps", "3"], nodes=1, gpus_per_node=2), tmp_path)
    worker = result.stdout.splitlines()[1:]
    assert worker == ["python", "-m", "ds_lint.smoke.worker", argument, "--steps", "3"]
    assert result.returncode == 3


def test_a_job_has_time_for_all_its_configs(tmp_path):
    for number in range(5):
        (tmp_path / f"ds_{number}.json").write_text('{"train_batch_size": 2, "zero_optimization": {"stage": 2}}')
    command = [
        sys.executable,
        "-m",
        "ds_lint",
        "check",
        ".",
        "--smoke-sbatch",
        "-",
        "--nodes",
        "1",
        "--world-size",
        "8",
    ]

    def minutes(*more):
        ran = subprocess.run(
            [*command, *more], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
        )
        return int(ran.stdout.partition("#SBATCH --time=")[2].partition("\n")[0])

    assert minutes() == 11 + 5 * 4
    assert minutes("--smoke-timeout", "300") == 11 + 5 * 10
    (tmp_path / "ds_0.json").unlink()
    assert minutes() == 11 + 4 * 4


def test_bash_understands_a_script():
    script = sbatch(["it's.json"], nodes=1, gpus_per_node=1)
    result = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_the_command_line_writes_the_script_and_trains_nothing(tmp_path):
    (tmp_path / "config.json").write_text('{"train_batch_size": 2}')
    command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke-sbatch", "job.sh"]
    few = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert few.returncode == 2
    assert "--smoke-sbatch needs --nodes and --world-size, which must be a multiple of --nodes" in few.stderr
    command += ["--nodes", "2", "--world-size", "16", "--trainer-args", "--bf16 True", "--stack", "trainer"]
    enough = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    said = "Wrote job.sh: a job for 16 GPUs on 2 nodes. Nothing was checked.\nNext:\n  sbatch job.sh\n"
    assert (enough.returncode, enough.stdout, enough.stderr) == (0, said, "")
    script = (tmp_path / "job.sh").read_text()
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=8\n#SBATCH --gpus-per-node=8\n" in script
    start = "exec srun --wait=60 python -m ds_lint.smoke.worker config.json --stack=trainer --world-size=16 --nodes=2 "
    assert script.splitlines()[-1].startswith(start + "'--trainer-args=--bf16 True'")
    assert script.endswith(" --smoke-folder=.\n")
    assert sorted(os.listdir(tmp_path)) == ["config.json", "job.sh"]
    again = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (2, "")
    assert again.stderr.startswith("ds-lint: job.sh already exists; delete it")
    assert (tmp_path / "job.sh").read_text() == script


def test_the_job_gets_what_variables_and_flags_set(tmp_path):
    (tmp_path / "config.json").write_text('{"train_batch_size": 2}')
    command = [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke-sbatch", "-", "--nodes", "1"]
    environment = clean_environment() | {"DS_LINT_STACK": "Trainer", "DS_LINT_WORLD_SIZE": "8"}
    done = subprocess.run(
        [*command, "--quiet", "--exit-zero", "--report=html=a, b.html", "--report=sarif=c"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    last = shlex.split(done.stdout.splitlines()[-1])
    reports = {"--report=html=a, b.html", "--report=sarif=c"}
    assert {"--stack=trainer", "--world-size=8", "--quiet", "--exit-zero", *reports} <= set(last)


def test_the_job_checks_the_same_configs_by_the_same_rules(tmp_path):
    (tmp_path / "config.json").write_text('{"train_batch_size": 2}')
    rules = ["--select=DS1,DS5", "--extend-select=DS3", "--ignore=DS101", "--preview", "--deepspeed-version=0.19"]
    search = ["--exclude=a,b/", "--extend-exclude=*.bak.json", "--no-force-exclude", "--no-respect-gitignore"]
    asked = [*rules, *search, "--detect", "--baseline=known.json", "--statistics", "--limit=0", "--verbose"]
    command = [sys.executable, "-m", "ds_lint", "check", "--smoke-sbatch", "-", "--nodes", "1", "--world-size", "8"]
    done = subprocess.run(
        [*command, *asked], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(asked) <= set(shlex.split(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "more",
    [
        "--watch",
        "--show-files",
        "--show-settings",
        "--fix",
        "--fix-only",
        "--diff",
        "--add-ignore",
        "--write-baseline",
        "--smoke-ranks=2",
        "--smoke-launch=torchrun",
        "-",
    ],
)
def test_what_a_job_does_not_do_is_refused(tmp_path, more):
    command = [
        sys.executable,
        "-m",
        "ds_lint",
        "check",
        "--smoke-sbatch",
        "job.sh",
        "--nodes",
        "1",
        "--world-size",
        "8",
    ]
    done = subprocess.run(
        [*command, more], cwd=tmp_path, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (2, "", [])
    assert "--smoke-sbatch" in done.stderr
