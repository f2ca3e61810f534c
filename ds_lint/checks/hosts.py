"""Rules about the nodes of a launch: hostfiles, the nodes that a launcher starts, and how they find each other."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.launches.ports import port_of
from ds_lint.launches.surroundings import LOCAL, has_hostfile
from ds_lint.semantics.deepspeed_hosts import Request, nodes_of, refusal
from ds_lint.semantics.related import launched, place_of_launch
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.hostfile import BadLine
    from ds_lint.semantics.config import Config

_LAST_PORT = 65535
_HOSTFILE = "/job/hostfile"  # DLTS_HOSTFILE in deepspeed/launcher/runner.py, where some clusters have one
_OF_RESOURCES = ("num_nodes", "num_gpus", "include", "i", "exclude", "e", "launcher", "node_rank", "no_ssh")
_SHORT = {"H": "hostfile", "i": "include", "e": "exclude"}
# Programs that start a command on other nodes, which a script may call in a way that is not understood.
_REMOTE = (
    *("srun", "ssh", "pdsh", "clush", "dsh", "pssh", "rsh", "mpirun", "mpiexec", "jsrun", "aprun", "ibrun", "prun"),
    *("lrun", "blaunch", "flux", "parallel"),
)
# Of a job's variables, those that tell its tasks apart; in the script of the job itself they are 0.
_OF_TASK = ("SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID")
_MORE_SHARED_MEMORY = {  # what gives a container more, by what starts it; else options of `docker run`
    "Compose": ("`shm_size: 1gb`", "`ipc: host`"),
    "Kubernetes": ("an `emptyDir` with `medium: Memory`, mounted at /dev/shm", "`hostIPC: true`"),
}
_TO_ALL = "Pass the address of the first node to all nodes, with `--rdzv_backend c10d --rdzv_endpoint HOST:PORT`. "


@rule("DS834", "refused-launcher-options", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def refused_launcher_options(config: Config) -> Iterator[Problem]:
    """Options of ``deepspeed`` that it rejects together, or with its hostfile.

    Source: ``main``, ``parse_resource_filter`` in ``deepspeed/launcher/runner.py``.
    """
    launch = config.facts.launch
    request = _request(launch) if launch is not None else None
    hostfile = launch.launch.surroundings.hostfile if launch is not None else None
    found = refusal(request, config.knowledge.does) if request is not None else None
    if launch is None or found is None or (hostfile is not None and hostfile.bad is not None):
        return
    key, span = place_of_launch(config)
    does = f"`deepspeed` raises {found.raised}: {found.reason}" if found.error else found.reason
    yield Problem(
        key,
        span,
        does,
        rejected("initialize") if found.error else RISK,
        help=found.advice,
        label="not launched" if found.error else "other nodes",
        severity=found.severity,
        related=[launched(launch, "rejected options" if found.error else "options of the launcher")],
        subject=(found.reason, *map(launch.launch.surroundings.option, _OF_RESOURCES)),
    )


@rule("DS835", "nodes-without-master-address", severity="error", effects=("risk",), keys=(), elsewhere=True)
def nodes_without_master_address(config: Config) -> Iterator[Problem]:
    """A launcher on several nodes, each of which looks for the first node at its own address.

    Sources: the defaults of ``torch/distributed/run.py``; ``main`` in ``deepspeed/launcher/runner.py``.
    """
    launch = config.facts.launch
    if launch is None or not launch.launch.surroundings.is_complete:
        return
    name, around, nodes = launch.launch.launcher, launch.launch.surroundings, launch.nodes or 1
    if name == "deepspeed":
        request = _request(launch)
        nodes = (nodes_of(request, config.knowledge.does) if request is not None else None) or 1
        given = "master_addr" if around.has("master_addr") else None
    elif name == "torchrun":
        given = next((option for option in ("rdzv_endpoint", "master_addr") if around.has(option)), None)
    elif name == "accelerate" and around.address_of_node is not None:
        given = "main_process_ip"
    else:
        return
    host = (around.option(given) or "").rpartition(":")[0] or around.option(given) or "" if given is not None else ""
    is_alone = name == "torchrun" and around.has("standalone")
    if nodes < 2 or (given is None and name == "deepspeed"):
        return
    if around.address_of_node is not None:
        host = around.address_of_node if around.address_of_node.startswith("$") else f"${around.address_of_node}"
    elif not is_alone and given is not None and host not in LOCAL:
        return
    if given is None and not is_alone and _has_variables_of_torchrun(launch):
        return
    what = f"with `--{given} {host}`" if given is not None else "without `--rdzv_endpoint` or `--master_addr`"
    what = "with `--standalone`" if is_alone else what
    key, span = place_of_launch(config)
    at = "a port of its own" if is_alone else f"{host or '127.0.0.1'}, which is itself"
    at += ", as each task computes it" if around.address_of_node is not None else ""
    yield Problem(
        key,
        span,
        f"`{name}` runs on {nodes} nodes {what}: each node waits for itself until a timeout",
        RISK,
        help=(_TO_ALL if name == "torchrun" else "Write the address of the first node, or delete the option. ")
        + f"Each node looks for the first one at {at}."
        + (" torchrun does not read MASTER_ADDR." if name == "torchrun" and "MASTER_ADDR" in around.ranks else ""),
        label=f"{nodes} nodes",
        related=[launched(launch, "no address of the first node")],
        subject=(nodes, what),
    )


@rule("DS883", "hostfile-refused", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def hostfile_refused(config: Config) -> Iterator[Problem]:
    """A hostfile that DeepSpeed cannot read.

    Source: ``_parse_hostfile`` in ``deepspeed/launcher/runner.py``.
    """
    launch = config.facts.launch
    hostfile = launch.launch.surroundings.hostfile if launch is not None else None
    bad = hostfile.bad if hostfile is not None else None
    if launch is None or bad is None or not _is_refused(bad, config):
        return
    around = launch.launch.surroundings
    named = around.option("hostfile", "H", "deepspeed_hostfile")
    name = f"`{named}`" if named else "of Accelerate's YAML"
    if bad.kind == "again":
        what, advice = f"line {bad.line} of the hostfile {name} repeats the host {bad.text}", "Write each host once."
    elif bad.kind == "entry":
        what = f"line {bad.line} of the hostfile {name} is `{bad.text}`, not `HOST slots=N`"
        advice = f"Write `{bad.text.split()[0]} slots=N`, where N is the number of GPUs of the host."
    else:
        what, advice = f"the hostfile {name} names no host", "Write a line `HOST slots=N` for each node."
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"{what}: `deepspeed` raises a ValueError",
        rejected("initialize"),
        help=advice,
        label="not launched",
        related=[launched(launch, "rejected hostfile")],
        subject=(name, bad),
    )


@rule("DS884", "nodes-train-alone", severity="warning", effects=("risk",), keys=(), elsewhere=True)
def nodes_train_alone(config: Config) -> Iterator[Problem]:
    """A launcher for one node in a job of several: on each of them, or on the first only."""
    launch = config.facts.launch
    around = launch.launch.surroundings if launch is not None else None
    if launch is None or around is None or not launch.launch.is_per_gpu:
        return
    yield from _machines_alone(config, launch)
    if around.around not in ("srun", None) or around.machines is not None:
        return
    nodes, processes, name = around.nodes, around.processes, launch.launch.launcher
    if nodes is None or nodes < 2 or not around.is_complete or around.inside is not None or (around.starts or 1) > 1:
        return
    if any(one in _OF_TASK for one in launch.launch.unknown) or _has_variables_of_torchrun(launch):
        return  # by which the runs may differ
    is_for_one = launch.nodes == 1 and not has_hostfile(dict(around.options)) and _HOSTFILE not in launch.document.text
    label = f"{nodes} runs"
    if around.around is None:
        if not is_for_one or not _is_on_first_node(launch):
            return
        others = "the other one is idle" if nodes == 2 else f"the other {nodes - 1} are idle"
        message = f"the job has {nodes} nodes, but `{name}` runs on the first only: {others}"
        advice, label = f"Request one node, or start the ranks on all nodes. {_ONE_RUN[name]}", "runs on one node"
    elif is_for_one and processes is not None:
        option, total = _OF_NODES[name], f"instead of one of {nodes * processes}"
        ranks = f"{processes} rank{'' if processes == 1 else 's'}"
        message = f"`srun` starts `{name}` on {nodes} nodes without `{option}`: {nodes} runs of {ranks} {total}"
        advice = _ONE_RUN[name]
    elif name == "deepspeed" and around.hostfile is not None and around.hostfile.slots and not around.has("no_ssh"):
        message = (
            f"`srun` starts `deepspeed` on {nodes} nodes, each with all hosts of the hostfile: {nodes} runs share GPUs"
        )
        advice = (
            "Start `deepspeed` once, without `srun`: it starts the ranks on all hosts by ssh. Or add `--no_ssh` and "
            "`--node_rank`, so that each `deepspeed` starts the ranks of its own node."
        )
    else:
        return
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        message,
        RISK,
        help=advice,
        label=label,
        related=[launched(launch, label)],
        subject=(name, nodes, processes, label),
    )


def _machines_alone(config: Config, launch: LaunchFacts) -> Iterator[Problem]:
    """Machines on the command line of ``accelerate launch``, without a file, that find no hostfile; DS886 has the file.

    Source: ``prepare_deepspeed_cmd_env`` in ``accelerate/utils/launch.py``.
    """
    around, processes = launch.launch.surroundings, launch.launch.processes_per_node
    machines = around.machines
    if machines is None or not around.is_complete:
        return
    if around.has("config_file", "deepspeed_hostfile", *_OTHERWISE):
        return
    if processes is None or not around.has("machine_rank"):  # without which it raises
        return
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"`--num_machines {machines}` without `--deepspeed_hostfile`: each machine trains alone on {processes} "
        f"rank{'' if processes == 1 else 's'}",
        RISK,
        help="Write `--deepspeed_hostfile FILE`, with a line `HOST slots=N` for each machine, and launch on one of "
        "them; or write `--deepspeed_multinode_launcher standard` and launch on each machine.",
        label=f"{machines} runs",
        related=[launched(launch, f"{machines} runs of their own")],
        subject=(machines, processes),
    )


_OTHERWISE = ("deepspeed_multinode_launcher", "deepspeed_inclusion_filter", "deepspeed_exclusion_filter")
_OF_NODES = {"deepspeed": "--hostfile", "torchrun": "--nnodes", "accelerate": "--num_machines"}
_ONE_RUN = {
    "deepspeed": "Start `deepspeed` once, without `srun`, with a hostfile of all nodes.",
    "torchrun": "Write `srun --ntasks-per-node=1 torchrun --nnodes $SLURM_NNODES --rdzv_backend c10d --rdzv_endpoint "
    "HOST:PORT`, with the first node as HOST.",
    "accelerate": "Write `srun --ntasks-per-node=1 bash -c 'accelerate launch --num_machines $SLURM_NNODES "
    "--machine_rank $SLURM_NODEID --main_process_ip HOST ...'`, in single quotes, with `--num_processes` "
    "for all nodes and, for DeepSpeed, `--deepspeed_multinode_launcher standard`.",
}


@rule("DS885", "nodes-do-not-meet", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def nodes_do_not_meet(config: Config) -> Iterator[Problem]:
    """A launcher for several nodes that starts on each with the same node rank, or on the first only.

    Sources: ``torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py``, which takes the rank of the node, and
    ``prepare_multi_gpu_env`` in ``accelerate/utils/launch.py``, where ``int`` raises without one.
    """
    launch = config.facts.launch
    if launch is None or not launch.launch.surroundings.is_complete or (launch.nodes or 1) < 2:
        return
    around, name, nodes = launch.launch.surroundings, launch.launch.launcher, launch.nodes
    started = around.nodes
    if name not in ("torchrun", "accelerate") or around.machines is not None or started is None or started < 2:
        return
    if _has_variables_of_torchrun(launch):
        return
    if around.around not in ("srun", None) or (around.around is None and not _is_on_first_node(launch)):
        return
    outcome = RISK
    if name == "accelerate" and not around.has("machine_rank", "config_file"):
        message = f"`accelerate launch` on {nodes} machines without `--machine_rank` raises a TypeError"
        advice, label = _OWN_NUMBER[name], "no `--machine_rank`"
        outcome = rejected("initialize")
    elif around.around is None:
        message = f"the job starts `{name}` on its first node only, where it waits for {nodes} nodes until a timeout"
        advice = (
            f"Write `srun --ntasks-per-node=1` before `{name}`, which starts it on each of the {started} nodes of the "
            "job. The script of a job runs on the first node only."
        )
        label = "runs on one node"
    else:
        same = _same_number(launch)
        if same is None or (name == "torchrun" and not around.has("rdzv_endpoint", "master_addr")):
            return  # without an address, no number helps (DS835)
        message = f"`srun` starts `{name}` on {started} nodes, all {same}: they wait for each other until a timeout"
        advice = _OWN_NUMBER[name]
        if around.rank_of_node:
            advice += f" The script of the job expands `${around.rank_of_node[0]}` on the first node, where it is 0."
        label = "the same rank"
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        message,
        outcome,
        help=advice,
        label=label,
        related=[launched(launch, label)],
        subject=(message,),
    )


_OWN_NUMBER = {
    "torchrun": "Write `--rdzv_backend c10d --rdzv_endpoint HOST:PORT`, which numbers the nodes itself, or "
    "`srun bash -c 'torchrun --node_rank $SLURM_NODEID ...'`, in single quotes: each task expands the variable.",
    "accelerate": "Write `srun bash -c 'accelerate launch --machine_rank $SLURM_NODEID ...'`, in single quotes: each "
    "task expands the variable.",
}


@rule("DS894", "small-shared-memory", severity="info", effects=("risk",), keys=(), elsewhere=True)
def small_shared_memory(config: Config) -> Iterator[Problem]:
    """Ranks in a container with the /dev/shm that containers have by default.

    Source: NCCL's documentation, "Troubleshooting", Docker; ``src/transport/shm.cc`` of NCCL.
    """
    launch = config.facts.launch
    ranks = launch.launch.processes_per_node if launch is not None else None
    container = launch.launch.container if launch is not None else None
    if launch is None or container is None or not container.is_small or ranks is None or ranks < 2:
        return
    if "NCCL_SHM_DISABLE" in launch.launch.environment:
        return
    way, other = _MORE_SHARED_MEMORY.get(container.started_by, ("`--shm-size=1g`", "`--ipc=host`"))
    started_by = container.started_by
    program = f"`{started_by}`" if started_by not in _MORE_SHARED_MEMORY else started_by
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"{program} gives {ranks} ranks 64 MB of /dev/shm: NCCL or a data loader may end with a bus error",
        RISK,
        help=f"Add {way}, or {other}. NCCL has buffers there for ranks that do not reach each other's "
        "GPU directly, and the workers of data loaders their batches. The daemon may have another default.",
        label="little shared memory",
        related=[launched(launch, "little shared memory")],
        subject=(started_by, ranks),
    )


@rule("DS887", "port-not-usable", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def port_not_usable(config: Config) -> Iterator[Problem]:
    """A number above the last port, or a port that another launch of the script has at the same time.

    Sources: ``TCPStore`` of PyTorch, which listens on the port; ``deepspeed`` takes 29500 if none is given.
    """
    launch = config.facts.launch
    port = port_of(launch.launch) if launch is not None else None
    if launch is None or port is None:
        return
    name, taken = launch.launch.launcher, launch.port_taken
    if port > _LAST_PORT:
        message, advice = f"port {port} of `{name}` is above {_LAST_PORT}: the run stops", "Write a port below 65536."
        related = [launched(launch, "no such port")]
    elif taken is not None:
        has = (
            f"which the launch in line {taken} uses"
            if taken != launch.launch.line
            else "which another run of the loop uses"
        )
        message = f"`{name}` uses port {port}, {has} at the same time: the run stops"
        advice = "Give each launch a port of its own with `--master_port`, or start them one after the other."
        other = Related(launch.line(taken), f"uses port {port}", launch.document.path)
        related = [launched(launch, f"port {port} again"), other]
    else:
        return
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        message,
        rejected("initialize"),
        help=advice,
        label="not launched",
        related=related,
        subject=(port, taken),
    )


def _same_number(launch: LaunchFacts) -> str | None:
    """The rank that every node gets, in words; None if the ranks may differ, or none is needed."""
    around = launch.launch.surroundings
    option = "machine_rank" if launch.launch.launcher == "accelerate" else "node_rank"
    if around.has("rdzv_backend") and around.option("rdzv_backend") != "static":
        return None
    if around.rank_of_node and all(one in _OF_TASK for one in around.rank_of_node):
        return f"with rank 0 from `${around.rank_of_node[0]}`"
    if around.has(option):
        if not any((word or "").rpartition("/")[2] == "srun" for word in launch.launch.command):
            return None  # a shell within may have computed it, in each task
        number = count(around.option(option))
        return f"with `--{option} {number}`" if number is not None else None
    return f"without `--{option}`"  # torchrun takes 0, Accelerate the number in its file


def _has_variables_of_torchrun(launch: LaunchFacts) -> bool:
    """Whether the environment has options of torchrun, which the program that starts the nodes may set for each."""
    return any(name.startswith("PET_") for name in launch.launch.environment)


def _is_on_first_node(launch: LaunchFacts) -> bool:
    """Whether nothing but the job's own script starts the launcher."""
    text, path = launch.document.text, launch.launch.path
    if path.endswith(".py") or "#SBATCH" not in text:
        return False
    words = text.replace("/", " ").replace('"', " ").replace("'", " ").replace("(", " ").split()
    return not any(name in words for name in _REMOTE)


def _request(launch: LaunchFacts) -> Request | None:
    """What a launch passes to ``deepspeed``; None if a part of it is not known."""
    around = launch.launch.surroundings
    if launch.launch.launcher != "deepspeed" or (not around.options and not around.is_complete):
        return None
    options = {_SHORT.get(name, name): value for name, value in around.options}
    is_local = around.is_complete and not has_hostfile(options) and _HOSTFILE not in launch.document.text
    if not around.is_complete:
        options |= {name: None for name in ("launcher", "no_ssh", "node_rank") if name not in options}
    visible = launch.launch.environment.get("CUDA_VISIBLE_DEVICES", "")
    slots = around.hostfile.slots if around.hostfile is not None and around.hostfile.bad is None else None
    return Request(options, slots, is_local, visible)


def _is_refused(bad: BadLine, config: Config) -> bool:
    """Whether the release raises over a line; older ones take any word with a number behind ``=``."""
    if config.knowledge.does("hostfile-lines-are-matched") or bad.kind == "again":
        return True
    return bad.kind == "entry" and "=" not in bad.text
