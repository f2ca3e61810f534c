"""The place of a rank: its number, the world size, and the address of rank 0, as its launcher sets them.

This comes before DeepSpeed: if one of its five variables is missing, DeepSpeed looks for an MPI job, and on most
machines its only message is "No module named 'mpi4py'" (``init_distributed`` in ``deepspeed/comm/comm.py``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    Variables = Mapping[str, str]  # of a process; one that is empty counts as not set

NEEDED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # without which DeepSpeed asks MPI

_LAUNCHERS = (  # and a variable that only it sets; Accelerate starts ranks through the other two
    ("accelerate launch", "ACCELERATE_MIXED_PRECISION"),
    ("accelerate launch", "ACCELERATE_USE_DEEPSPEED"),
    ("torchrun", "TORCHELASTIC_RUN_ID"),
    ("deepspeed launcher", "CROSS_SIZE"),
)
_MPI = (  # rank, ranks, rank on the node, ranks on the node
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
)
_USUAL_PORT = 29500  # TORCH_DISTRIBUTED_DEFAULT_PORT in deepspeed/constants.py
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")

_WORKER = "-m ds_lint.smoke.worker ..."
_TORCHRUN = f"`torchrun --nproc-per-node 2 {_WORKER}`"
_SRUN = f"`srun python {_WORKER}`"


class NoRendezvous(ValueError):  # noqa: N818 - it is the rendezvous that is not there
    """A process that cannot know which rank it is; the message says why and how to start it, in one sentence."""


class Rendezvous(NamedTuple):
    """One rank's place in the world, and where it meets the others."""

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int  # ranks on this node
    address: str  # where rank 0 listens
    port: int
    found_by: str  # "torchrun", "srun", or "environment variables" if the launcher is unknown
    node: int = 0
    nodes: int = 1


def find(variables: Variables) -> Rendezvous:
    """The place of the process that has these environment variables; raises NoRendezvous if they are not enough.

    ``mpirun`` comes before SLURM: ``srun`` may have started it, once per node, and its ranks inherit the SLURM
    variables of that one task.
    """
    for reader in (_by_variables, _by_mpi, _by_slurm):
        found = reader(variables)
        if found is not None:
            _demand_sense(found, variables)
            return found
    raise NoRendezvous(_explanation(variables))


def environment(rendezvous: Rendezvous) -> dict[str, str]:
    """All variables of a rank that DeepSpeed, Accelerate and torch read, with any launcher."""
    return {
        "RANK": str(rendezvous.rank),
        "WORLD_SIZE": str(rendezvous.world_size),
        "LOCAL_RANK": str(rendezvous.local_rank),
        "LOCAL_WORLD_SIZE": str(rendezvous.local_world_size),
        "LOCAL_SIZE": str(rendezvous.local_world_size),  # how many devices DeepSpeed's CPU accelerator counts
        "CROSS_RANK": str(rendezvous.node),
        "CROSS_SIZE": str(rendezvous.nodes),
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": str(rendezvous.port),
    }


def first_host(nodelist: str) -> str:
    """The first host of a Slurm list such as ``gpu[003-005,7],login``, which is where rank 0 runs."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodelist)
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first.group()) if first else nodelist


def host_of(rank: int, variables: Variables) -> str | None:
    """The node of a rank of ``srun``, which fills one node after the other; None with other launchers."""
    nodelist = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST")
    layout = variables.get("SLURM_STEP_TASKS_PER_NODE") or variables.get("SLURM_TASKS_PER_NODE")
    if not nodelist or not layout or not variables.get("SLURM_PROCID"):
        return None
    of_ranks = [host for host, tasks in zip(hosts(nodelist), tasks_by_node(layout), strict=False) for _ in range(tasks)]
    return of_ranks[rank] if rank < len(of_ranks) else None


def hosts(nodelist: str) -> list[str]:
    """All hosts of such a list, in its order."""
    found: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", nodelist):
        names = [""]
        for text, numbers in re.findall(r"([^\[]+)|\[([^\]]*)\]", part):
            names = [f"{name}{one}" for name in names for one in ([text] if text else _numbers(numbers))]
        found += names
    return found


def _numbers(ranges: str) -> list[str]:
    """``003-005,7`` one by one, with the same digits."""
    found: list[str] = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        found += [f"{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    return found


def tasks_by_node(layout: str) -> list[int]:
    """How many tasks each node has, from the Slurm form ``2(x3),1``."""
    tasks: list[int] = []
    for part in layout.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if found is None:
            raise NoRendezvous(f"SLURM_TASKS_PER_NODE is {layout!r}, which is not of the form 2(x3),1.")
        tasks += [int(found[1])] * int(found[2] or 1)
    return tasks


def _by_variables(variables: Variables) -> Rendezvous | None:
    """What torchrun, the deepspeed launcher, accelerate launch or the user's own script set."""
    if not all(variables.get(name) for name in NEEDED):
        return None
    rank, world_size, local_rank = (_number(variables, name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    here = _ranks_here(variables, world_size)
    signed = [launcher for launcher, variable in _LAUNCHERS if variable in variables]
    return Rendezvous(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=here,
        address=variables["MASTER_ADDR"],
        port=_number(variables, "MASTER_PORT"),
        found_by=signed[0] if signed else "environment variables",
        node=_first_number(variables, "GROUP_RANK", "CROSS_RANK", default=_node_of(rank, local_rank, here)),
        nodes=_first_number(variables, "GROUP_WORLD_SIZE", "CROSS_SIZE", default=_nodes_of(world_size, here)),
    )


def _by_mpi(variables: Variables) -> Rendezvous | None:
    """What ``mpirun`` set; it does not set the host of rank 0, which several nodes need."""
    for names in _MPI:
        if all(variables.get(name) for name in names):
            rank, world_size, local_rank, here = (_number(variables, name) for name in names)
            break
    else:
        return None
    address = variables.get("MASTER_ADDR") or ("127.0.0.1" if here == world_size else None)
    if address is None:
        raise NoRendezvous(
            f"mpirun started this process as rank {rank} of {world_size} on several nodes, but MASTER_ADDR is not set: "
            "add `-x MASTER_ADDR=<host of rank 0>` (Open MPI) or `-genv MASTER_ADDR <host of rank 0>` "
            "(MPICH, Intel MPI)."
        )
    return Rendezvous(
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=here,
        address=address,
        port=_first_number(variables, "MASTER_PORT", default=_USUAL_PORT),
        found_by="mpirun",
        node=_node_of(rank, local_rank, here),
        nodes=_nodes_of(world_size, here),
    )


def _by_slurm(variables: Variables) -> Rendezvous | None:
    """What ``srun`` set; the batch script has most of it too, but is neither a step nor a rank."""
    if not (variables.get("SLURM_PROCID") and variables.get("SLURM_STEP_ID")):
        return None
    world_size = _number(variables, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    tasks = _slurm_layout(variables, world_size)
    node = _slurm_node(variables, tasks)
    hosts = variables.get("SLURM_STEP_NODELIST") or variables.get("SLURM_JOB_NODELIST")
    address = variables.get("MASTER_ADDR") or first_host(hosts or "")
    if not address:
        raise NoRendezvous("srun started this process, but SLURM_JOB_NODELIST names no host: set MASTER_ADDR.")
    return Rendezvous(
        rank=_number(variables, "SLURM_PROCID"),
        world_size=world_size,
        local_rank=_number(variables, "SLURM_LOCALID"),
        local_world_size=tasks[node],
        address=address,
        port=_first_number(variables, "MASTER_PORT", default=_slurm_port(variables)),
        found_by="srun",
        node=node,
        nodes=len(tasks),
    )


def _slurm_layout(variables: Variables, world_size: int) -> list[int]:
    """The tasks of each node: of this step, else of the job, else ``--ntasks-per-node``."""
    layout = variables.get("SLURM_STEP_TASKS_PER_NODE") or variables.get("SLURM_TASKS_PER_NODE")
    if layout:
        return tasks_by_node(layout)
    each = _first_number(variables, "SLURM_NTASKS_PER_NODE", default=world_size)
    return [each] * _nodes_of(world_size, each)


def _slurm_node(variables: Variables, tasks: list[int]) -> int:
    node = _number(variables, "SLURM_NODEID") if len(tasks) > 1 else 0
    if node >= len(tasks):
        raise NoRendezvous(f"SLURM_NODEID is {node}, but SLURM_TASKS_PER_NODE has {len(tasks)} nodes.")
    return node


def _slurm_port(variables: Variables) -> int:
    """A port that is the same on every rank and unlikely in another job; ten steps of a job have their own."""
    return 20000 + (10 * _number(variables, "SLURM_JOB_ID") + _number(variables, "SLURM_STEP_ID")) % 10000


def _ranks_here(variables: Variables, world_size: int) -> int:
    """How many ranks this node has; a script's own set of variables often leaves it out."""
    given = [name for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE") if variables.get(name)]
    if given:
        return _number(variables, *given)
    if variables.get("SLURM_STEP_ID") and variables.get("SLURM_NTASKS") == variables["WORLD_SIZE"]:
        tasks = _slurm_layout(variables, world_size)
        return tasks[_slurm_node(variables, tasks)]
    if variables["MASTER_ADDR"] in _THIS_MACHINE or world_size == 1:
        return world_size
    raise NoRendezvous(
        "RANK, WORLD_SIZE and LOCAL_RANK are set, but not how many ranks this node has: set LOCAL_WORLD_SIZE."
    )


def _node_of(rank: int, local_rank: int, here: int) -> int:
    """The node of a rank if nodes are filled one after the other, equally."""
    return (rank - local_rank) // max(here, 1)


def _nodes_of(world_size: int, here: int) -> int:
    return -(-world_size // max(here, 1))


def _number(variables: Variables, *names: str) -> int:
    """The number in the first of these variables that is set."""
    for name in names:
        text = variables.get(name)
        if text:
            if not text.isdecimal():
                raise NoRendezvous(f"{name} is {text!r}, which is not a whole number of at least 0.")
            return int(text)
    raise NoRendezvous(f"{names[-1]} is not set, although other variables of the same launcher are.")


def _first_number(variables: Variables, *names: str, default: int) -> int:
    return _number(variables, *names) if any(variables.get(name) for name in names) else default


def _demand_sense(found: Rendezvous, variables: Variables) -> None:
    """Raise NoRendezvous for a contradiction, with which ranks would wait for each other without end."""
    by = f"according to {found.found_by}"
    if found.rank >= found.world_size:
        raise NoRendezvous(f"This is rank {found.rank} of {found.world_size} {by}; ranks count from 0.")
    if found.local_world_size > found.world_size:
        raise NoRendezvous(f"This node has {found.local_world_size} of {found.world_size} ranks {by}.")
    if found.local_rank >= found.local_world_size:
        raise NoRendezvous(
            f"This is local rank {found.local_rank} of {found.local_world_size} on its node {by}; "
            "local ranks count from 0."
        )
    if not 0 < found.port < 65536:
        raise NoRendezvous(f"The port of rank 0 is {found.port} {by}; it must be from 1 to 65535.")
    expected = _first_number(variables, "WORLD_SIZE", default=found.world_size)
    if expected != found.world_size:
        raise NoRendezvous(
            f"WORLD_SIZE is {expected}, but {found.found_by} started {found.world_size} ranks: "
            "start one per GPU, or do not set WORLD_SIZE."
        )


def _explanation(variables: Variables) -> str:
    """Why this process has no rank from a launcher."""
    given = [name for name in NEEDED if variables.get(name)]
    missing = _listed([name for name in NEEDED if not variables.get(name)])
    if variables.get("ACCELERATE_MIXED_PRECISION") and not variables.get("RANK"):
        return (
            "accelerate launch started this one process without a RANK, as it does with --cpu, and with "
            "--num_processes 1 but no --use_deepspeed: "
            f"use `accelerate launch --use_deepspeed --num_processes 2 {_WORKER}` or {_TORCHRUN}."
        )
    if variables.get("SLURM_JOB_ID") and not variables.get("SLURM_STEP_ID"):
        return (
            f"This process runs in Slurm job {variables['SLURM_JOB_ID']}, but is not one of the tasks that srun "
            f"starts: start it with {_SRUN}."
        )
    if given:
        return (
            f"{_listed(given)} {'is' if len(given) == 1 else 'are'} set, but not {missing}, so the rank of this "
            f"process is unknown: start it with {_TORCHRUN}, or with {_SRUN} in a Slurm job."
        )
    return (
        f"The rank of this process is unknown, because {missing} are not set: "
        f"start it with {_TORCHRUN}, or with {_SRUN} in a Slurm job."
    )


def _listed(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
