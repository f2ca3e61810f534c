"""Scripts of jobs that tests/launches/test_real_slurm.py submits, by what they are about."""

from __future__ import annotations

from typing import NamedTuple


class Job(NamedTuple):
    """A script below its first line, and how it is submitted.

    ``unknown`` are the facts of its launches that only the cluster knows, and ``files`` other scripts beside it.
    """

    script: str
    unknown: str = ""
    submit: str = "sbatch run.sh"
    files: tuple[tuple[str, str], ...] = ()


def _job(options: str, *commands: str, unknown: str = "") -> Job:
    lines = [f"#SBATCH {one}" for one in options.split("; ") if one]
    return Job("\n".join(["#!/bin/bash", *lines, *commands, ""]), unknown)


PYTHON = "srun python train.py --deepspeed_config ds.json"
TORCHRUN = "torchrun --nproc_per_node {} train.py --deepspeed_config ds.json"
_HEAD = 'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
_RENDEZVOUS = "--rdzv_id $SLURM_JOB_ID --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:29500"

JOBS = {
    # What srun starts by the options of the job.
    "nodes": _job("--nodes=2", PYTHON),
    "nodes and tasks of each": _job("--nodes=2; --ntasks-per-node=4", PYTHON),
    "short options": _job("-N 2 -n2 -c4", PYTHON),
    "short options in one word": _job("-N2; -n2", PYTHON),
    "options in two words": _job("--nodes 2; --ntasks-per-node 2", PYTHON),
    "another name": _job("--nodes=2; --tasks-per-node=2", PYTHON),
    "nothing but tasks of each": _job("--ntasks-per-node=4 --gres=gpu:4", PYTHON),
    "no nodes and no tasks": _job("--gres=gpu:2", PYTHON),
    "tasks fill the first node": _job("--nodes=2; --ntasks=8", PYTHON, unknown="per_node"),
    "tasks of whole nodes are even": _job("--nodes=2; --ntasks=8; --exclusive", PYTHON),
    "tasks on nodes that Slurm chooses": _job("--ntasks=8", PYTHON, unknown="nodes per_node"),
    "tasks on more nodes than one": _job("--ntasks=8 --cpus-per-task=16", PYTHON, unknown="nodes per_node"),
    "one task": _job("--ntasks=1 --gpus=1", PYTHON),
    "tasks and a maximum for each node": _job("--nodes=2; --ntasks=4; --ntasks-per-node=3", PYTHON),
    "a range of nodes": _job("--nodes=1-2; --ntasks-per-node=2", PYTHON, unknown="nodes total"),
    "a range of one number": _job("--nodes=2-2", PYTHON),
    "named nodes": _job("--nodelist=n1,n3; --ntasks-per-node=2", PYTHON),
    "named nodes in brackets": _job("-w n[1-2]", PYTHON, unknown="nodes per_node total"),
    "the last option counts": _job("--nodes=3; --nodes=2", PYTHON),
    "tasks of each GPU": _job("--nodes=2; --ntasks-per-gpu=1; --gpus-per-node=4", PYTHON, unknown="gpus"),
    "GPUs of each task": _job("--nodes=2; --ntasks-per-node=4; --gpus-per-task=1", PYTHON, unknown="gpus"),
    # How the lines are read.
    "a comment behind options": _job("--nodes=2 # --ntasks=4; --job-name=a#b --nodes=1", PYTHON),
    "a value in quotes": _job('--job-name="a b" --nodes="2"', PYTHON),
    "lines that are none": Job(
        "#!/bin/bash\n#SBATCH -N 2\n##SBATCH -n 4\n# SBATCH -n 4\n  # indented\n\n#SBATCH\t-J\tx\n"
        f"{PYTHON}\n#SBATCH -n 4\n"
    ),
    "lines behind a command": Job(
        f"#!/bin/bash\nset -e\n#SBATCH --nodes=2\n#SBATCH --ntasks=2\n{PYTHON}\n", "nodes per_node total"
    ),
    "parts with nodes of their own": _job("--nodes=1; hetjob; --nodes=2", PYTHON, unknown="nodes per_node total"),
    # What srun starts by options of its own.
    "fewer tasks than nodes": _job("--nodes=2; --ntasks-per-node=4", PYTHON.replace("srun", "srun -n1")),
    "tasks on all nodes": _job("--nodes=2; --ntasks-per-node=4", PYTHON.replace("srun", "srun -n4")),
    "tasks on one node": _job("--nodes=2; --ntasks-per-node=4", PYTHON.replace("srun", "srun -N1 -n2")),
    "one task on each": _job("--nodes=2; --ntasks-per-node=4", PYTHON.replace("srun", "srun --ntasks=2")),
    "the tasks of the job win": _job(
        "--nodes=2; --ntasks-per-node=4", PYTHON.replace("srun", "srun --ntasks-per-node=1")
    ),
    "tasks of the job on other nodes": _job(
        "--nodes=2; --ntasks-per-node=4; --exclusive", PYTHON.replace("srun", "srun -N 1"), unknown="per_node total"
    ),
    "tasks of each node of a job without tasks": _job(
        "--nodes=2; --exclusive", PYTHON.replace("srun", "srun --ntasks-per-node=2")
    ),
    "one node of a job without tasks": _job("--nodes=2", PYTHON.replace("srun", "srun --nodes=1")),
    "a node by its name": _job("--nodes=2", PYTHON.replace("srun", "srun -N1 -n1 -w n2")),
    "a node by its name alone": _job("--nodes=2", PYTHON.replace("srun", "srun -w n2")),
    "GPUs of a step": _job("--nodes=2; --gres=gpu:4", PYTHON.replace("srun", "srun --gres=gpu:2")),
    "a variable of a step": _job("--nodes=2", PYTHON.replace("srun", "srun --export=ALL,X=1 --kill-on-bad-exit=1")),
    "a job of its own": Job(
        f"#!/bin/bash\n{PYTHON.replace('srun', 'srun -N2 --ntasks-per-node=2')}\n", "", "bash run.sh"
    ),
    "a job of its own with tasks": Job(
        f"#!/bin/bash\n{PYTHON.replace('srun', 'srun -N2 -n4')}\n", "per_node", "bash run.sh"
    ),
    # A launcher on each node.
    "a launcher on each node": _job(
        "--nodes=2; --ntasks-per-node=1; --gres=gpu:8",
        _HEAD,
        f"srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 {_RENDEZVOUS} train.py --deepspeed_config ds.json",
    ),
    "a launcher without tasks of each": _job(
        "--nodes=2 --gres=gpu:a100:8",
        _HEAD,
        "export NNODES=$SLURM_JOB_NUM_NODES GPUS=$SLURM_GPUS_ON_NODE",
        f"srun torchrun --nnodes=$NNODES --nproc_per_node=$GPUS {_RENDEZVOUS} train.py --deepspeed_config ds.json",
    ),
    "a launcher for each task": _job(
        "--nodes=2; --ntasks-per-node=8; --gres=gpu:8", f"srun {TORCHRUN.format(8)} --n $SLURM_NTASKS"
    ),
    "a launcher for each task, against srun": _job(
        "--nodes=2; --ntasks-per-node=8", f"srun --ntasks-per-node=1 {TORCHRUN.format(8)}"
    ),
    "a launcher for each node of tasks": _job("--nodes=2; --ntasks-per-node=8", f"srun -n 2 {TORCHRUN.format(8)}"),
    "a launcher on the first node": _job("--nodes=1 --gpus-per-node=4", TORCHRUN.format("$SLURM_GPUS_PER_NODE")),
    "a launcher on a whole node": _job("--nodes=1 --gres=gpu:2 --exclusive", TORCHRUN.format(8), unknown="gpus"),
    "a launcher on a whole node by srun": _job("--nodes=1 --gres=gpu:2 --exclusive", f"srun {TORCHRUN.format(2)}"),
    "GPUs in all": _job("--nodes=1 -G 4", TORCHRUN.format("${SLURM_GPUS}")),
    "GPUs in all, of two nodes": _job("--nodes=2 --gpus=8", f"srun {TORCHRUN.format(4)}", unknown="gpus"),
    "the rank of a node in the text of the job": _job(
        "--nodes=2", f"srun {TORCHRUN.format(8)} --node_rank $SLURM_NODEID", unknown="words"
    ),
    "accelerate": _job(
        "--nodes=2; --ntasks-per-node=1; --gpus-per-node=4; --cpus-per-task=16; --mem=64G",
        _HEAD,
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
        "N=$((SLURM_NNODES * SLURM_GPUS_PER_NODE))",
        'srun --jobid "$SLURM_JOB_ID" accelerate launch --num_processes $N --num_machines "$SLURM_NNODES" '
        '--main_process_ip "$MASTER_ADDR" train.py --deepspeed_config ds.json --mem $SLURM_MEM_PER_NODE',
    ),
    "deepspeed": _job(
        "--nodes=1 --gres=gpu:4 --job-name=zero3",
        "deepspeed --num_gpus $SLURM_GPUS_ON_NODE train.py --deepspeed_config ds.json --run $SLURM_JOB_NAME",
    ),
    # Variables with a default.
    "defaults of what is set": _job(
        "--nodes=2; --ntasks-per-node=4; --gpus-per-node=a100:4; -c 2",
        "echo ${SLURM_JOB_ID:-none} ${SLURM_JOB_NODELIST:-localhost}",
        f"{TORCHRUN.format(4)} --a ${{SLURM_NNODES:-1}} --b ${{SLURM_NTASKS:-1}} --c ${{SLURM_NTASKS_PER_NODE:-1}} "
        "--d ${SLURM_GPUS_PER_NODE:-1} --e ${SLURM_GPUS_ON_NODE:-1} --f ${SLURM_CPUS_PER_TASK:-1} "
        "--g ${SLURM_JOB_NODELIST:-localhost} --h ${SLURM_TASKS_PER_NODE:-1}",
    ),
    "defaults of what is not set": _job(
        "--nodes=1 --gres=gpu:4",
        f"{TORCHRUN.format(4)} --a ${{SLURM_NTASKS_PER_NODE:-1}} --b ${{SLURM_GPUS_PER_NODE:-8}} "
        "--c ${SLURM_CPUS_PER_TASK:-6} --d ${SLURM_ARRAY_TASK_ID:-5} --e ${SLURM_NTASKS:-3} --f ${SLURM_GPUS:-2}",
    ),
    "a default of a range of nodes": _job(
        "--nodes=1-2", f"{TORCHRUN.format(4)} --a ${{SLURM_NNODES:-7}} --b ${{SLURM_JOB_NUM_NODES:-7}}", unknown="words"
    ),
    "an array": _job("--array=0-1 --nodes=1", f"{TORCHRUN.format(1)} --seed $SLURM_ARRAY_TASK_ID"),
    "a condition": _job(
        "--nodes=2; --ntasks-per-node=1",
        f'if [ "$SLURM_NNODES" -gt 1 ]; then {TORCHRUN.format(2)}; else {TORCHRUN.format(1)}; fi',
    ),
    "hosts in a loop": _job(
        "--nodes=2; --ntasks-per-node=1",
        "nodes=($(scontrol show hostnames $SLURM_JOB_NODELIST))",
        'head=${nodes[0]}; ip=$(srun --nodes=1 --ntasks=1 -w "$head" hostname --ip-address)',
        "srun torchrun --nnodes 2 --nproc_per_node 4 --rdzv_endpoint $ip:29500 train.py --deepspeed_config ds.json",
    ),
    "a function": _job(
        "--nodes=2; --ntasks-per-node=2",
        "launch() { srun --cpu-bind=none python train.py --deepspeed_config ds.json --world $SLURM_NTASKS; }; launch",
    ),
    # Shells within, and jobs that another script submits.
    "a launcher in a shell": _job("--nodes=2 --gres=gpu:8", f"srun bash -c '{TORCHRUN.format(8)}'"),
    "a launcher in a shell of each task": _job(
        "--nodes=2; --ntasks-per-node=2", f'srun bash -c "{TORCHRUN.format(8)}"'
    ),
    "the rank of the node in a shell of its task": _job(
        "--nodes=2; --ntasks-per-node=1",
        f"srun bash -c '{TORCHRUN.format(8)} --node_rank $SLURM_NODEID --rank $SLURM_PROCID --host $SLURMD_NODENAME'",
    ),
    "the rank of the node in the shell of the job": _job(
        "--nodes=2", f'srun bash -c "{TORCHRUN.format(8)} --node_rank $SLURM_NODEID"', unknown="words"
    ),
    "an escaped variable": _job(
        "--nodes=2; --ntasks-per-node=1",
        f'LAUNCHER="{TORCHRUN.format(8)} --nnodes $SLURM_NNODES"',
        'srun --jobid $SLURM_JOBID bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID"',
    ),
    "the tasks of a step in its shell": _job(
        "--nodes=2; --ntasks-per-node=4",
        f"srun -N1 -n1 bash -c '{TORCHRUN.format(2)} --nodes $SLURM_NNODES --n $SLURM_NTASKS'",
        unknown="words",
    ),
    "python in a shell": _job(
        "--nodes=2; --ntasks-per-node=4",
        "srun bash -c 'RANK=$SLURM_PROCID python train.py --deepspeed_config ds.json --local_rank $SLURM_LOCALID'",
    ),
    "the tasks of the job win over a shell's srun": _job(
        "--nodes=2; --ntasks-per-node=4", f"srun --ntasks-per-node=1 bash -c '{TORCHRUN.format(4)}'"
    ),
    "options of sbatch": Job(
        _job("--nodes=1; --ntasks-per-node=1", PYTHON).script,
        "",
        "bash submit.sh",
        (("submit.sh", "sbatch --nodes=4 --ntasks-per-node=2 run.sh\n"),),
    ),
    "options of sbatch for what is not written": Job(
        _job("--gres=gpu:8", PYTHON + " --n $SLURM_NNODES").script,
        "",
        "bash submit.sh",
        (("submit.sh", "N=2\nsbatch -N $N run.sh --nodes 3\n"),),
    ),
    "a command of sbatch": Job(_job("", f'sbatch --wait --nodes=2 --wrap "{PYTHON}"').script, "", "bash run.sh"),
}
