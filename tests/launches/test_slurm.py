"""What a job of Slurm asks for, and what srun starts in it."""

from __future__ import annotations

import pytest

from ds_lint.source.slurm import allocation, step, with_options


@pytest.mark.parametrize(
    ("option", "gpus", "kind"),
    [
        ("--gres=gpu:a100-40g:2", 2, "a100-40g"),
        ("--gres=gpu:3g.20gb:1", 1, "3g.20gb"),
        ("--gres=gpu:2080ti:4(S:0-1)", 4, "2080ti"),
        ("--gres=gpu:v100", 1, "v100"),
        ("--gres=gpu", 1, None),
        ("--gres=gpu:4,lscratch:100", 4, None),
        ("--gres=lscratch:100", None, None),
        ("--gpus-per-node=h100_nvl:8", 8, "h100_nvl"),
    ],
)
def test_a_job_asks_for_gpus(option, gpus, kind):
    found = allocation(f"#!/bin/bash\n#SBATCH {option}\n")
    assert (found.gpus, found.gpu) == (gpus, kind)


@pytest.mark.parametrize(
    ("options", "nodes", "tasks"),
    [
        ("--nodes=4 run.sh", 4, 16),
        ("-N4 --ntasks-per-node 2 run.sh --nodes 9", 4, 8),
        ("--partition gpu run.sh", 2, 8),
        ("-n 6 run.sh", 2, 6),
        ("--nodes=1-4 run.sh", None, None),
        ("--nodes=1 : --nodes=2 run.sh", None, None),
    ],
)
def test_the_options_of_sbatch_win_over_those_of_the_script(options, nodes, tasks):
    job = with_options(allocation("#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\n"), options.split())
    assert (job.nodes, job.tasks) == (nodes, tasks)


@pytest.mark.parametrize(
    ("job", "options", "started"),
    [
        ("--nodes=2", "", (2, 2, 1)),
        ("--nodes=2 --ntasks-per-node=8", "--ntasks-per-node=1", (2, 16, 8)),
        ("--nodes=2 --ntasks-per-node=8", "-N 2 --ntasks-per-node=1", (2, None, None)),  # another number by release
        ("--nodes=2 --ntasks-per-node=8", "-n 2", (2, 2, 1)),
        ("--nodes=2 --ntasks-per-node=8", "-N1 -n1", (1, 1, 1)),
        ("--nodes=2 --ntasks=16", "", (2, 16, None)),
        ("--nodes=2 --ntasks=16 --exclusive", "", (2, 16, 8)),
        ("--ntasks=16", "", (None, 16, None)),
        ("--nodes=2", "-w n2", (2, 2, 1)),
        ("--nodes=1 hetjob --nodes=2", "", (None, None, None)),
        ("--nodes=2", "-N1 a : -N1 b", (None, None, None)),
    ],
)
def test_srun_starts_tasks_by_the_options_of_the_job_and_its_own(job, options, started):
    """Each is measured in test_real_slurm.py."""
    found = step(allocation(f"#SBATCH {job}\n"), options.split())
    assert (found.nodes, found.tasks, found.per_node) == started


def test_a_job_without_nodes_is_for_one_unless_it_reads_their_number():
    job = "#SBATCH --ntasks-per-node=8\n"
    assert allocation(job).nodes == 1
    assert allocation(f"{job}torchrun --nnodes $SLURM_NNODES train.py").nodes is None


def test_what_every_job_has_in_its_environment_has_no_default():
    assert allocation("#SBATCH --nodes=1\n").variables["SLURM_JOB_NODELIST"] is None
    assert allocation("#SBATCH --nodes=1-2\n").variables["SLURM_NNODES"] is None
    assert "SLURM_NTASKS_PER_NODE" not in allocation("#SBATCH --nodes=2\n").variables
    assert allocation("echo\n").variables == {}


@pytest.mark.parametrize(
    ("options", "gibibytes"),
    [
        ("--mem=64G", 64),
        ("--mem=64gb", 64),
        ("--mem=65536", 64),
        ("--mem=67108864KB", 64),
        ("--mem=64GiB", None),  # sbatch rejects it, as it does 1.5G
        ("--mem=0", None),  # all that the node has
        ("--mem-per-cpu=4G", 4),
        ("--mem-per-cpu=4G -c 8", 32),
        ("--mem-per-cpu=4G -c 8 -n 4 -N 1", 128),
        ("--mem-per-cpu=4G -c 8 --ntasks-per-node=4 -N 2", 128),
        ("--mem-per-cpu=4G -n 5 -N 2", None),
        ("--mem-per-cpu=0 -c 5", None),
        ("--mem-per-gpu=32G --gpus-per-node=4", 128),
        ("--mem-per-gpu=32G --gpus-per-task=1 --ntasks-per-node=4", 128),
        ("--exclusive --mem=64G", 64),
        ("--exclusive --mem-per-cpu=4G", None),
        ("--exclusive --mem-per-gpu=16G --gpus-per-node=2", None),
        ("--cpus-per-task=4", None),
    ],
)
def test_the_memory_of_each_node(options, gibibytes):
    found = allocation(f"#!/bin/bash\n#SBATCH {options}\n").memory
    assert found == (gibibytes and gibibytes * 2**30)


@pytest.mark.parametrize(
    ("of_job", "of_step", "gibibytes"),
    [
        ("--mem=64G", "", 64),
        ("--mem=64G", "--mem=0", 64),
        ("--mem=64G", "--mem=16G", 16),
        ("--mem=64G -c 4", "--mem-per-cpu=2G", 8),
        ("--mem-per-cpu=4G -c 4", "", 16),
        ("--mem-per-cpu=4G -c 4", "--mem=8G", 8),
        ("--mem-per-cpu=4G -c 4 -n 4 -N 1", "-n 1", None),
        ("--mem-per-cpu=4G -c 4 -n 4 -N 1", "-n 1 -c 4", 16),
        ("--mem-per-gpu=16G --gpus-per-node=4", "--gpus-per-node=2", 32),
    ],
)
def test_the_memory_of_a_step(of_job, of_step, gibibytes):
    found = step(allocation(f"#SBATCH {of_job}\n"), of_step.split()).memory
    assert found == (gibibytes and gibibytes * 2**30)
