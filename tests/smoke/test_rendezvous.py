"""Who a rank is, by variables that launchers really set (printed under torch 2.13, DeepSpeed 0.19, Accelerate 1.15)."""

from __future__ import annotations

import pytest

from ds_lint.smoke.records.rendezvous import (
    NEEDED,
    NoRendezvous,
    Rendezvous,
    environment,
    find,
    first_host,
    tasks_by_node,
)

ELASTIC = {
    "GROUP_RANK": "0",
    "GROUP_WORLD_SIZE": "1",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "OMP_NUM_THREADS": "1",
    "RANK": "1",
    "ROLE_NAME": "default",
    "ROLE_RANK": "1",
    "ROLE_WORLD_SIZE": "2",
    "TORCHELASTIC_MAX_RESTARTS": "0",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "TORCHELASTIC_USE_AGENT_STORE": "True",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "WORLD_SIZE": "2",
}
# torchrun --nproc-per-node 2
TORCHRUN = ELASTIC | {
    "MASTER_ADDR": "localhost",
    "MASTER_PORT": "44997",
    "TORCHELASTIC_RUN_ID": "3540b75e-5995-4670-b9ac-718ecb54b636",
}
# accelerate launch --use_deepspeed --num_processes 2
ACCELERATE_DEEPSPEED = ELASTIC | {
    "ACCELERATE_CONFIG_DS_FIELDS": "",
    "ACCELERATE_MIXED_PRECISION": "no",
    "ACCELERATE_USE_DEEPSPEED": "true",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "none",
}
ACCELERATE = {
    "ACCELERATE_DYNAMO_BACKEND": "NO",
    "ACCELERATE_DYNAMO_MODE": "default",
    "ACCELERATE_DYNAMO_USE_DYNAMIC": "False",
    "ACCELERATE_DYNAMO_USE_FULLGRAPH": "False",
    "ACCELERATE_MIXED_PRECISION": "no",
    "OMP_NUM_THREADS": "1",
}
# accelerate launch --multi_gpu --num_processes 2
ACCELERATE_MULTI_GPU = ELASTIC | ACCELERATE | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
# accelerate launch --cpu --num_processes 2, and a config file with distributed_type: MULTI_CPU
ACCELERATE_CPU = ACCELERATE | {
    "ACCELERATE_USE_CPU": "True",
    "KMP_AFFINITY": "granularity=fine,compact,1,0",
    "KMP_BLOCKTIME": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
}
# accelerate launch --num_processes 1
ACCELERATE_SINGLE = ACCELERATE | {"ACCELERATE_USE_CPU": "False"}
# deepspeed --num_gpus 2
DEEPSPEED = {
    "CROSS_RANK": "0",
    "CROSS_SIZE": "1",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "LOCAL_RANK": "1",
    "LOCAL_SIZE": "2",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29500",
    "RANK": "1",
    "WORLD_SIZE": "2",
}

# These three are simulated after the manuals of srun and sbatch, and of Open MPI and Intel MPI.
SLURM_JOB = {
    "SLURM_JOB_ID": "1042",
    "SLURM_JOB_NODELIST": "gpu[003-005,7]",
    "SLURM_JOB_NUM_NODES": "4",
    "SLURM_NNODES": "4",
    "SLURM_NTASKS": "7",
    "SLURM_TASKS_PER_NODE": "2(x3),1",
    "SLURM_NODEID": "0",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
}
SRUN = SLURM_JOB | {
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "gpu[003-005,7]",
    "SLURM_STEP_NUM_NODES": "4",
    "SLURM_STEP_NUM_TASKS": "7",
    "SLURM_STEP_TASKS_PER_NODE": "2(x3),1",
    "SLURM_NODEID": "2",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}


def without(variables, *names):
    return {name: value for name, value in variables.items() if name not in names}


def reason(variables):
    with pytest.raises(NoRendezvous) as caught:
        find(variables)
    return str(caught.value)


@pytest.mark.parametrize(
    ("variables", "address", "port", "launcher"),
    [
        (TORCHRUN, "localhost", 44997, "torchrun"),
        (DEEPSPEED, "127.0.0.1", 29500, "deepspeed launcher"),
        (ACCELERATE_DEEPSPEED, "127.0.0.1", 29500, "accelerate launch"),
        (ACCELERATE_MULTI_GPU, "127.0.0.1", 29500, "accelerate launch"),
        (without(DEEPSPEED, "CROSS_RANK", "CROSS_SIZE"), "127.0.0.1", 29500, "environment variables"),
    ],
)
def test_the_launchers_say_who_a_rank_is(variables, address, port, launcher):
    assert find(variables) == Rendezvous(1, 2, 1, 2, address, port, launcher, node=0, nodes=1)


def test_torchrun_on_several_nodes_says_which_node_it_is():
    second = TORCHRUN | {"RANK": "9", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"}
    second |= {"GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "MASTER_ADDR": "gpu003"}
    assert find(second) == Rendezvous(9, 16, 1, 8, "gpu003", 44997, "torchrun", node=1, nodes=2)


def test_torchrun_within_srun_is_asked_before_slurm():
    one_task_per_node = SRUN | {"SLURM_NTASKS": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    assert find(one_task_per_node | TORCHRUN) == find(TORCHRUN)


def test_srun_says_who_a_rank_is():
    assert find(SRUN) == Rendezvous(5, 7, 1, 2, "gpu003", 20420, "srun", node=2, nodes=4)


def test_the_last_node_of_a_slurm_job_can_have_fewer_ranks():
    last = SRUN | {"SLURM_PROCID": "6", "SLURM_LOCALID": "0", "SLURM_NODEID": "3"}
    assert find(last) == Rendezvous(6, 7, 0, 1, "gpu003", 20420, "srun", node=3, nodes=4)


def test_a_step_is_not_the_whole_job():
    step = SRUN | {"SLURM_STEP_NODELIST": "gpu[004-005]", "SLURM_STEP_NUM_TASKS": "4"}
    step |= {"SLURM_STEP_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "3", "SLURM_NODEID": "1", "SLURM_STEP_ID": "2"}
    assert find(step) == Rendezvous(3, 4, 1, 2, "gpu004", 20422, "srun", node=1, nodes=2)


def test_tasks_on_each_node_are_enough_where_slurm_does_not_list_them():
    few = without(SRUN, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS")
    few |= {"SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS": "8"}
    assert find(few) == Rendezvous(5, 8, 1, 2, "gpu003", 20420, "srun", node=2, nodes=4)


def test_what_the_batch_script_exports_goes_before_what_slurm_says():
    found = find(SRUN | {"MASTER_ADDR": "10.0.0.3", "MASTER_PORT": "6000", "WORLD_SIZE": "7"})
    assert (found.address, found.port, found.rank) == ("10.0.0.3", 6000, 5)


def test_ranks_that_a_script_takes_from_slurm_have_the_nodes_of_slurm():
    script = {"RANK": "6", "WORLD_SIZE": "7", "LOCAL_RANK": "0", "MASTER_ADDR": "gpu003", "MASTER_PORT": "29500"}
    found = find(SRUN | script | {"SLURM_NODEID": "3"})
    assert (found.local_world_size, found.found_by) == (1, "environment variables")


@pytest.mark.parametrize("job", ["1", "999", "1000", "18446744", "67108863"])
def test_the_port_of_a_slurm_job_is_free_for_users(job):
    assert 20000 <= find(SRUN | {"SLURM_JOB_ID": job}).port <= 29999


def test_open_mpi_says_who_a_rank_is():
    found = find(OPEN_MPI | {"MASTER_ADDR": "gpu003"})
    assert found == Rendezvous(3, 4, 1, 2, "gpu003", 29500, "mpirun", node=1, nodes=2)


def test_mpi_on_one_node_needs_no_address():
    assert find(HYDRA) == Rendezvous(1, 2, 1, 2, "127.0.0.1", 29500, "mpirun", node=0, nodes=1)


def test_mpi_on_several_nodes_is_asked_for_an_address():
    assert "as rank 3 of 4 on several nodes, but MASTER_ADDR is not set: add `-x MASTER_ADDR=" in reason(OPEN_MPI)


def test_mpirun_within_a_slurm_job_is_asked_before_slurm():
    assert find(SRUN | OPEN_MPI | {"MASTER_ADDR": "gpu003"}).rank == 3


def test_srun_with_an_mpi_plugin_is_still_srun():
    assert find(SRUN | {"PMI_RANK": "5", "PMI_SIZE": "7"}) == find(SRUN)


def test_a_process_without_a_launcher_is_told_how():
    assert reason({}) == (
        "The rank of this process is unknown, because RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT are "
        "not set: start it with `torchrun --nproc-per-node 2 -m ds_lint.smoke.worker ...`, or with "
        "`srun python -m ds_lint.smoke.worker ...` in a Slurm job."
    )


@pytest.mark.parametrize("variables", [ACCELERATE_CPU, ACCELERATE_SINGLE])
def test_accelerate_starts_one_process_without_a_rank_on_cpus(variables):
    said = reason(variables)
    assert said.startswith("accelerate launch started this one process without a RANK, as it does with --cpu")
    assert "`accelerate launch --use_deepspeed --num_processes 2 -m ds_lint.smoke.worker ...`" in said


@pytest.mark.parametrize("missing", NEEDED)
def test_a_partial_set_names_what_is_missing(missing):
    said = reason(without(TORCHRUN, missing))
    assert f"are set, but not {missing}, so the rank of this" in said


def test_an_empty_variable_is_not_set():
    assert "but not RANK, so the rank of this process is unknown" in reason(TORCHRUN | {"RANK": ""})


def test_a_world_size_alone_is_no_world():
    assert reason({"WORLD_SIZE": "2"}).startswith("WORLD_SIZE is set, but not RANK, LOCAL_RANK, MASTER_ADDR and ")


@pytest.mark.parametrize("exported", [{}, {"WORLD_SIZE": "7", "MASTER_ADDR": "gpu003", "MASTER_PORT": "29500"}])
def test_the_batch_script_itself_is_no_rank(exported):
    assert reason(SLURM_JOB | exported) == (
        "This process runs in Slurm job 1042, but is not one of the tasks that srun starts: "
        "start it with `srun python -m ds_lint.smoke.worker ...`."
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        (TORCHRUN | {"RANK": "first"}, "RANK is 'first', which is not a whole number of at least 0."),
        (TORCHRUN | {"RANK": "-1"}, "RANK is '-1', which is not a whole number of at least 0."),
        (TORCHRUN | {"RANK": "2"}, "This is rank 2 of 2 according to torchrun; ranks count from 0."),
        (TORCHRUN | {"WORLD_SIZE": "0"}, "This is rank 1 of 0 according to torchrun; ranks count from 0."),
        (TORCHRUN | {"LOCAL_RANK": "2"}, "This is local rank 2 of 2 on its node according to torchrun; local ranks"),
        (TORCHRUN | {"LOCAL_WORLD_SIZE": "4"}, "This node has 4 of 2 ranks according to torchrun."),
        (TORCHRUN | {"MASTER_PORT": "70000"}, "The port of rank 0 is 70000 according to torchrun; it must be from 1"),
        (SRUN | {"WORLD_SIZE": "28"}, "WORLD_SIZE is 28, but srun started 7 ranks: start one per GPU, or do not set"),
        (SRUN | {"SLURM_STEP_TASKS_PER_NODE": "2x3"}, "SLURM_TASKS_PER_NODE is '2x3', which is not of the form"),
        (SRUN | {"SLURM_NODEID": "4"}, "SLURM_NODEID is 4, but SLURM_TASKS_PER_NODE has 4 nodes."),
        (
            without(SRUN, "SLURM_LOCALID"),
            "SLURM_LOCALID is not set, although other variables of the same launcher are.",
        ),
        (
            without(SRUN, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"),
            "srun started this process, but SLURM_JOB_NODELIST names no host: set MASTER_ADDR.",
        ),
        (
            without(TORCHRUN, "LOCAL_WORLD_SIZE") | {"MASTER_ADDR": "gpu003"},
            "RANK, WORLD_SIZE and LOCAL_RANK are set, but not how many ranks this node has: set LOCAL_WORLD_SIZE.",
        ),
    ],
)
def test_what_contradicts_itself_is_told_before_ranks_wait_for_one_another(variables, said):
    assert reason(variables).startswith(said)


@pytest.mark.parametrize(
    ("nodelist", "first"),
    [
        ("node7", "node7"),
        ("gpu[003-005,7],login", "gpu003"),
        ("login,gpu[003-005]", "login"),
        ("gpu[7,003-005]", "gpu7"),
        ("rack[2-3]node[01-04]", "rack2node01"),
        ("gpu[1-2]-ib.cluster,other", "gpu1-ib.cluster"),
        ("gpu-a-01,gpu-a-02", "gpu-a-01"),
    ],
)
def test_rank_0_runs_on_the_first_host(nodelist, first):
    assert first_host(nodelist) == first


@pytest.mark.parametrize(
    ("layout", "tasks"), [("8", [8]), ("8(x2)", [8, 8]), ("2(x3),1", [2, 2, 2, 1]), ("1,2", [1, 2])]
)
def test_slurm_counts_the_tasks_of_each_node(layout, tasks):
    assert tasks_by_node(layout) == tasks


def test_the_libraries_get_every_variable_that_they_read():
    assert environment(find(SRUN)) == {
        "RANK": "5",
        "WORLD_SIZE": "7",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "LOCAL_SIZE": "2",
        "CROSS_RANK": "2",
        "CROSS_SIZE": "4",
        "MASTER_ADDR": "gpu003",
        "MASTER_PORT": "20420",
    }


@pytest.mark.parametrize("variables", [TORCHRUN, DEEPSPEED, ACCELERATE_DEEPSPEED])
def test_what_a_launcher_set_stays_as_it_was(variables):
    told = environment(find(variables))
    assert {name: told[name] for name in told if name in variables} == {
        name: variables[name] for name in variables if name in told
    }
