"""Rules about how a launch starts its ranks: their number, launchers, GPUs, nodes (DS83x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, NO_EFFECT, RISK, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.constructors import offloads_optimizer
from ds_lint.semantics.features import is_on, zero_stage
from ds_lint.semantics.related import launched, place_of_launch
from ds_lint.source.counts import count
from ds_lint.targets.pin import is_exact
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Severity, Stack
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.surroundings import Surroundings
    from ds_lint.semantics.config import Config

_MOST_GPUS = 1024  # of a node, and more than any has
_FEW_LOST = 3  # options that a message names
_ZERO = "zero_optimization"
# The releases of PyTorch before torch.distributed.launch wrote ``--local-rank``: the newest of each line.
_LAST_WITHOUT_DASHES = ("1.8.2", "1.9.1", "1.10.2", "1.11.0", "1.12.1", "1.13.0", "1.13.1")
_VARIABLES = 'RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="29500"'
_OF_NOTEBOOK = (
    f"Write `os.environ.update({_VARIABLES})` into a cell before, or start the ranks with `notebook_launcher` of "
    "Accelerate."
)
_ONE_PROCESS = (
    "Set RANK and LOCAL_RANK to 0 and WORLD_SIZE to 1: a notebook is one process. For several GPUs, use "
    "`notebook_launcher` of Accelerate, or write the script into a file and start it with `!deepspeed` or `!torchrun`."
)
_LOOKS_FOR_MPI = " DeepSpeed looks for its rank in the environment, then in MPI, and needs mpi4py for that."


@rule("DS803", "zero-on-one-rank", severity="info", effects=("no-effect",), keys=(_ZERO,))
def zero_on_one_rank(config: Config) -> Iterator[Problem]:
    """ZeRO on a single rank without offload, which partitions nothing."""
    stage = zero_stage(config)
    member = config.member(_ZERO)
    if config.world_size != 1 or not stage or member is None or offloads_optimizer(config):
        return
    if config.value(_ZERO, "offload_param", "device") in ("cpu", "nvme"):
        return
    yield Problem(
        (_ZERO,),
        member.key_span,
        f"ZeRO stage {stage} saves no memory on 1 rank: it partitions memory across ranks",
        NO_EFFECT,
        help="Add `offload_optimizer` to move memory to the host. Change nothing if you will use more ranks.",
        label="nothing to partition",
    )


@rule("DS830", "no-launcher", severity="warning", effects=("rejected", "no-effect", "risk"), keys=(), elsewhere=True)
def no_launcher(config: Config) -> Iterator[Problem]:
    """Python starts the script, and nothing tells it which rank it is.

    Sources: ``init_distributed`` in ``deepspeed/comm/comm.py``, and ``PartialState`` in ``accelerate/state.py``.
    """
    launch = config.facts.launch
    if launch is not None and launch.trains_in_notebook:
        yield from _of_notebook(config, launch)
    if launch is None or not _is_python_alone(launch):
        return
    given, missing = launch.launch.surroundings.ranks, launch.launch.surroundings.missing_ranks
    if not missing:
        return
    has = f"with {_listed(given)} but without {_listed(missing)}" if given else "without a launcher"
    happens, outcome = _without_ranks(config, missing)
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"`{launch.launch.launcher}` starts {launch.launch.script} {has}: {happens}",
        outcome,
        help="Start the script with `deepspeed`, `torchrun` or `accelerate launch`, also on one GPU"
        + (", or set all of these variables for each rank." if given else ".")
        + (_LOOKS_FOR_MPI if outcome is RISK else ""),
        label="needs a launcher",
        related=[launched(launch, "starts no ranks" if not given else "sets some of the variables")],
        subject=(launch.launch.launcher, launch.launch.script, tuple(missing)),
    )


def _of_notebook(config: Config, launch: LaunchFacts) -> Iterator[Problem]:
    """A notebook that trains in its own process without the variables of a rank, or as one of several."""
    around, variables = launch.launch.surroundings, launch.launch.environment
    missing, size, rank = around.missing_ranks, count(variables.get("WORLD_SIZE")), count(variables.get("RANK"))
    outcome: Outcome | dict[Stack, Outcome] = RISK
    if missing:
        has = f"without {_listed(missing)}" if around.ranks else "without the variables of a rank"
        happens, outcome = _without_ranks(config, missing)
        label, advice = "needs the variables of a rank", _OF_NOTEBOOK + (_LOOKS_FOR_MPI if outcome is RISK else "")
    elif size is not None and size > 1:
        has, happens = f"with WORLD_SIZE {size}", f"it waits for {size} ranks until a timeout"
        label, advice = f"one of {size} ranks", _ONE_PROCESS
    elif rank:
        has, happens = f"with RANK {rank}", "it waits for rank 0 until a timeout"
        label, advice = "no rank 0", _ONE_PROCESS
    else:
        return
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"the notebook trains in its own process {has}: {happens}",
        outcome,
        help=advice,
        label=label,
        related=[launched(launch, "trains in the process of the notebook")],
        subject=(tuple(missing), size, rank),
    )


@rule("DS831", "launcher-in-launcher", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def launcher_in_launcher(config: Config) -> Iterator[Problem]:
    """A launcher that starts another one, or ``srun`` and ``mpirun`` that start several on a node."""
    launch = config.facts.launch
    if launch is None or not launch.launch.is_per_gpu:
        return
    around, name = launch.launch.surroundings, launch.launch.launcher
    if around.inside is not None and around.is_run_by_python:
        happens = f"Python finds no file `{around.inside}`, and every process stops"
        outcome = rejected("initialize")
        message = f"`{name}` starts `{around.inside}` as a Python script: {happens}"
    elif around.inside is not None:
        outcome = RISK
        message = (
            f"`{name}` starts `{around.inside}` in each of its processes: each is a run of its own on the same GPUs"
        )
    elif (around.starts or 1) > 1 and (around.processes or 1) > 1:
        outcome = RISK
        message = (
            f"`{around.around}` starts `{name}` {around.starts} times on each node, each with "
            f"{around.processes} processes: {around.starts} runs share the GPUs"
        )
    else:
        return
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        message,
        outcome,
        help=f"Delete one of the two launchers, `{name}` or `{around.inside}`."
        if around.inside is not None
        else f"Start one task on each node, with {_one_task(launch.launch)}, or start the script with `python` and set "
        "the variables of each rank.",
        label="launched twice",
        related=[launched(launch, "a launcher inside a launcher")],
        subject=(name, around.inside, around.starts, around.processes),
    )


@rule("DS832", "more-processes-than-gpus", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def more_processes_than_gpus(config: Config) -> Iterator[Problem]:
    """More processes on a node than GPUs that they see.

    Sources: ``set_device`` in ``deepspeed/accelerator/cuda_accelerator.py`` and in ``accelerate/state.py``.
    """
    launch = config.facts.launch
    if launch is None or not launch.launch.is_per_gpu:
        return
    gpus, processes = launch.launch.surroundings.gpus, launch.launch.processes_per_node
    yield from _more_than_slots(config, launch)
    if gpus is None or processes is None or processes <= gpus.number:
        return
    if launch.launch.launcher == "deepspeed" and gpus.ids is not None:  # it sets the variable itself
        return
    argument = config.facts.training.given.get("use_cpu") if config.facts.training is not None else None
    if argument is not None or launch.is_open:
        return
    key, span = place_of_launch(config)
    more = "" if gpus.number == 1 else "s"
    yield Problem(
        key,
        span,
        f"`{launch.launch.launcher}` starts {processes} processes on each node, but {gpus.origin} "
        f"gives them {gpus.number} GPU{more}: the run stops",
        rejected("initialize"),
        help=f"Start {gpus.number} process{'' if gpus.number == 1 else 'es'} on each node, or give the launch "
        f"{processes} GPUs. {processes - gpus.number} of them have no GPU of their own: CUDA or NCCL raises.",
        label=f"{processes} processes",
        related=[launched(launch, f"{processes} processes, {gpus.number} GPU{more}")],
        subject=(processes, gpus.number),
    )


@rule("DS833", "visible-devices-ignored", severity="warning", effects=("ignored",), keys=(), elsewhere=True)
def visible_devices_ignored(config: Config) -> Iterator[Problem]:
    """``CUDA_VISIBLE_DEVICES`` beside options of ``deepspeed`` that choose other GPUs.

    Source: ``main`` in ``deepspeed/launcher/runner.py``.
    """
    launch = config.facts.launch
    if launch is None or launch.launch.launcher != "deepspeed":
        return
    around = launch.launch.surroundings
    if around.gpus is None or around.gpus.ids is None or around.has("hostfile", "H"):
        return
    option, chosen = _chosen(around)
    if not chosen or set(chosen) <= set(around.gpus.ids):
        return
    key, span = place_of_launch(config)
    numbers = ",".join(map(str, around.gpus.ids))
    advice = (
        f"Delete `{option}`: `deepspeed` then starts one rank on each GPU of CUDA_VISIBLE_DEVICES. Or choose them with "
        f"`--include localhost:{numbers}`."
        if numbers
        else "Choose the GPUs by the numbers that nvidia-smi shows, with `--include localhost:NUMBER,NUMBER`."
    )
    yield Problem(
        key,
        span,
        f"`deepspeed` ignores {around.gpus.origin} beside `{option}`: the ranks run on GPU"
        f"{'' if len(chosen) == 1 else 's'} {_listed(map(str, chosen))}",
        IGNORED,
        help=advice,
        label="runs on other GPUs",
        related=[launched(launch, "CUDA_VISIBLE_DEVICES is ignored")],
        subject=(option, tuple(chosen)),
    )


@rule("DS837", "storage-of-nodes", severity="warning", effects=("risk",), keys=())
def storage_of_nodes(config: Config) -> Iterator[Problem]:
    """Checkpoints of several nodes on the disk of each without the key for that, or with it in a shared folder.

    Source: ``save_checkpoint`` in ``deepspeed/runtime/engine.py``: with ``use_node_local_storage`` the first rank of
    each node writes what belongs to all, else the first rank of all.
    """
    launch, nodes = config.facts.launch, config.facts.nodes
    if launch is None or nodes is None or nodes < 2 or launch.storage is None:
        return
    folder, who, span = launch.storage
    each = config.argument("save_on_each_node") if "trainer" in config.stacks else None
    is_each = is_on(config, "checkpoint", "use_node_local_storage") or (each is not None and each.value is True)
    if is_each == (who == "local"):
        return
    flag = "`save_on_each_node`" if launch.stack == "trainer" else "`checkpoint.use_node_local_storage`"
    key, place = place_of_launch(config)
    if who == "local":
        message = (
            f"{nodes} nodes save to {folder}, local to each, {launch.origin}, without {flag}: only the first can load "
            "the checkpoint"
        )
        advice = f"Set {flag} to true, or save to a folder that all nodes share. Without it, only the first node gets "
        advice += "what belongs to all ranks."
    else:
        message = (
            f"{nodes} nodes save to {folder}, seemingly shared, {launch.origin}, with {flag}: all write the same "
            "files at once"
        )
        advice = f"Set {flag} to false, or save to a folder that each node has for itself. With {flag}, the "
        advice += "first rank of each node writes what belongs to all."
    yield Problem(
        key,
        place,
        message,
        RISK,
        help=advice,
        label=f"{nodes} nodes",
        related=[Related(span, "saves here", launch.document.path), launched(launch, f"{nodes} nodes")],
        subject=(nodes, folder),
    )


@rule(
    "DS836",
    "resume-with-other-ranks",
    severity="error",
    effects=("rejected",),
    keys=("zero_optimization",),
    elsewhere=True,
)
def resume_with_other_ranks(config: Config) -> Iterator[Problem]:
    """A checkpoint of the project that another number of ranks has written.

    Source: ``_load_zero_checkpoint`` in ``deepspeed/runtime/engine.py``.
    """
    launch, stage, ranks = config.facts.launch, config.member("zero_optimization", "stage"), config.world_size
    checkpoint = launch.checkpoint if launch is not None else None
    if launch is None or checkpoint is None or stage is None or ranks is None:
        return
    if checkpoint.ranks is None or checkpoint.ranks == ranks:
        return
    if not zero_stage(config) or _may_load_other_ranks(config):
        return
    resumed = launch.resumption
    by = launch.related(resumed.place, "resumes") if resumed is not None and resumed.place is not None else []
    yield Problem(
        ("zero_optimization", "stage"),
        stage.value.span,
        f"the launch resumes on {ranks} rank{'' if ranks == 1 else 's'}, but the checkpoint {checkpoint.path} is "
        f"of {checkpoint.ranks} rank{'' if checkpoint.ranks == 1 else 's'}: DeepSpeed raises",
        rejected("train"),
        help=f"Start {checkpoint.ranks} ranks, or convert the checkpoint with ds_to_universal.py and set "
        "`checkpoint.load_universal` to true. DeepSpeed does not convert the partitions of another world size, and "
        "raises a ZeRORuntimeException.",
        label="partitions the states",
        related=[*by, launched(launch, f"starts {ranks} rank{'' if ranks == 1 else 's'}")],
        subject=(ranks, checkpoint.path),
    )


_MOST_NODES = 10_000  # that are tried, however many are given


@rule("DS838", "ranks-do-not-divide-by-nodes", severity="warning", effects=("risk",), keys=())
def ranks_do_not_divide_by_nodes(config: Config) -> Iterator[Problem]:
    """A world size and a number of nodes that do not fit together, as the user gives them.

    Sources: ``prepare_multi_gpu_env`` and ``prepare_deepspeed_cmd_env`` in ``accelerate/utils/launch.py``, which divide
    and drop the rest; ``torchrun --nproc-per-node`` and ``deepspeed --num_gpus`` are one number for all nodes.
    """
    facts = config.facts
    ranks, nodes = facts.world_size, facts.nodes
    if not ranks or not nodes or ranks % nodes == 0:
        return
    if facts.launch is not None and (facts.launch.world_size, facts.launch.nodes) == (ranks, nodes):
        return  # of a scheduler, which may put different numbers of tasks on the nodes
    fewer = ranks - ranks % nodes
    fitting = next(number for number in range(min(nodes - 1, _MOST_NODES), 0, -1) if ranks % number == 0)
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"{ranks} ranks are not divisible by {nodes} nodes: torchrun and accelerate launch start the same "
        "number on each node",
        RISK,
        help=f"Give a world size of {fewer} or {fewer + nodes} (--world-size), or {fitting} "
        f"node{'' if fitting == 1 else 's'} (--nodes). accelerate launch starts {fewer}; torchrun and "
        "`deepspeed --num_gpus` take one number for every node.",
        label=f"{ranks} ranks on {nodes} nodes",
        subject=(ranks, nodes),
    )


@rule("DS839", "option-in-redirection", severity="error", effects=("risk",), keys=(), elsewhere=True)
def option_in_redirection(config: Config) -> Iterator[Problem]:
    """``<`` and ``>`` around a placeholder, which the shell takes for redirections: an option is the name of a file."""
    launch = config.facts.launch
    redirections = launch.launch.redirections if launch is not None else ()
    if launch is None or not redirections:
        return
    files = [one.lstrip("0123456789<>|&") for one in redirections]
    lost = _listed(f"`{file}`" for file in files if file.startswith("-"))
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"the shell takes {_listed(f'`{one}`' for one in redirections)} for redirections: "
        f"the script does not get {lost}",
        RISK,
        help="Replace the placeholder in `<` and `>` with the arguments that it stands for, or delete it. A file that "
        "the shell is to read must be there, or it does not start the command.",
        label="an option is lost",
        related=[launched(launch, "redirections")],
        subject=tuple(redirections),
    )


@rule("DS893", "arguments-cut-off", severity="warning", effects=("risk",), keys=(), elsewhere=True)
def arguments_cut_off(config: Config) -> Iterator[Problem]:
    """Lines of a launch that the shell runs as a command of their own, which begins with an option."""
    launch = config.facts.launch
    words = launch.launch.cut_off if launch is not None else ()
    if launch is None or not words:
        return
    lost = [f"`{word.partition('=')[0]}`" for word in words if word is not None and word.startswith("-")]
    more = f" and {len(lost) - _FEW_LOST} more" if len(lost) > _FEW_LOST + 1 else ""
    shown = f"{', '.join(lost[:_FEW_LOST])}{more}" if more else _listed(lost)
    key, place = place_of_launch(config)
    yield Problem(
        key,
        place,
        f"the shell ends the launch before {lost[0]}: the script does not get {shown}",
        RISK,
        help="A comment, an empty line, a space after a backslash or a missing backslash ends the command, and the "
        "lines after it run as another one. Put comments above the command, and a backslash at the end of each line "
        "but the last.",
        label="the command ends too early",
        related=[launched(launch, "arguments are cut off")],
        subject=words,
    )


@rule("DS866", "local-rank-not-parsed", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def local_rank_not_parsed(config: Config) -> Iterator[Problem]:
    """A launcher that gives the script its local rank as an option, and a parser that does not know it.

    Sources: ``main`` in ``deepspeed/launcher/launch.py``, ``config_from_args`` in ``torch/distributed/run.py``.
    """
    launch = config.facts.launch
    if launch is None or launch.script is None:
        return
    option, program = launch.launch.added_option, _program(launch)
    outcome: Outcome
    severity: Severity | None
    for parser in launch.script.calls.parsers if option else ():
        if parser.kind == "file":
            file = launch.launch.only_file
            if not file or launch.is_open:
                continue
            message = (
                f"`{program}` puts `{option}=N` before {file}, {launch.origin}: {launch.launch.script} does not read "
                "the file, and raises"
            )
            outcome, severity = rejected("initialize"), None
        elif parser.kind == "word":
            word = launch.launch.first_word
            if not word or launch.is_open:
                continue
            message = (
                f"`{program}` puts `{option}=N` before {word}, {launch.origin}: `{parser.function}` is another word"
            )
            outcome, severity = RISK, None
        elif option in parser.takes:
            continue
        else:
            is_older = bool(parser.takes) and option == "--local-rank" and _may_be_without_dashes(config)
            if is_older and not _may_be_with_dashes(config):
                continue
            message = (
                f"`{program}` passes `{option}=N`, {launch.origin}, which `{parser.function}` "
                "does not know: the script stops"
            )
            outcome, severity = (RISK, "warning") if is_older else (rejected("initialize"), None)
        key, span = place_of_launch(config)
        yield Problem(
            key,
            span,
            message,
            outcome,
            help=_how_to_parse(launch, option, takes=parser.takes),
            label="not launched",
            severity=severity,
            related=[*launch.related(parser.place, "does not know the option"), launched(launch, f"adds `{option}`")],
            subject=(option, parser.function, launch.launch.script),
        )
        return


def _more_than_slots(config: Config, launch: LaunchFacts) -> Iterator[Problem]:
    """``--num_gpus`` above the slots of a host, which DeepSpeed takes for the GPUs that are there all the same.

    Source: ``apply_num_nodes_and_gpus`` in ``deepspeed/launcher/runner.py``.
    """
    around = launch.launch.surroundings
    number, nodes = count(around.option("num_gpus")), count(around.option("num_nodes"))
    slots = around.hostfile.slots if around.hostfile is not None and launch.launch.launcher == "deepspeed" else ()
    fewer = next(((host, has) for host, has in slots[: nodes or None] if number is not None and has < number), None)
    if fewer is None:
        return
    host, has = fewer
    key, span = place_of_launch(config)
    yield Problem(
        key,
        span,
        f"`--num_gpus {number}` starts {number} processes on {host}, which has {has} slots in the hostfile",
        RISK,
        help=f"Write `--num_gpus {has}`, or delete the option: DeepSpeed then starts a process for each slot. Those "
        "without a GPU of their own stop with a CUDA error.",
        label=f"{number} processes",
        severity="warning",
        related=[launched(launch, f"{number} processes, {has} slots")],
        subject=(number, host, has),
    )


def _may_load_other_ranks(config: Config) -> bool:
    """Whether partitions are changed, or ranks are not all data-parallel."""
    if any(config.member(name) is not None for name in ("tensor_parallel", "sequence_parallel_size")):
        return True
    if is_on(config, "checkpoint", "load_universal") or is_on(config, "checkpoint", "use_node_local_storage"):
        return True
    return not config.knowledge.does("checkpoints-keep-their-world-size")


def _is_python_alone(launch: LaunchFacts) -> bool:
    """Whether Python starts a script that trains, and does not become a rank by itself."""
    one = launch.launch
    record = one.record
    if record is None or not record.starts_anything or launch.stack is None or launch.sets_ranks:
        return False
    if launch.installs_mpi:
        return False
    if launch.script is None and launch.stack != "trainer":
        return False  # it may start other programs
    name = one.path.rpartition("/")[2].lower()
    if name.endswith((".py", "dockerfile", "containerfile")) or name.startswith(("dockerfile", "containerfile")):
        return False  # whoever starts a container or a program sets its variables
    if one.launcher == "python" or launch.stack == "trainer":
        return one.launcher != "srun" or one.world_size == 1 or launch.script is not None
    return one.launcher == "srun" and one.world_size == 1  # MPI tells plain DeepSpeed its ranks


def _without_ranks(config: Config, missing: list[str]) -> tuple[str, Outcome | dict[Stack, Outcome]]:
    """What happens to a process without these variables."""
    if "LOCAL_RANK" not in missing and "deepspeed" not in config.stacks:  # then Accelerate takes it for a rank
        return f"torch finds no {missing[0]} and raises a ValueError", rejected("initialize")
    looks = "DeepSpeed finds no rank and raises unless mpi4py is installed"
    if config.stacks != ("trainer",) or zero_stage(config) == 3:
        return looks, RISK
    if not config.knowledge.stack_does("one-process-trains-without-deepspeed"):
        return looks, RISK
    if config.member("optimizer") is not None:
        return "Accelerate skips DeepSpeed, and the first step raises an AttributeError", rejected("train")
    return "Accelerate trains without DeepSpeed, and uses nothing of the config", NO_EFFECT


def _one_task(launch: Launch) -> str:
    if launch.surroundings.around != "srun":
        return "`mpirun --map-by ppr:1:node`"
    if "SLURM_JOB_ID" in launch.environment:
        return "`#SBATCH --ntasks-per-node=1` (the tasks of a job win over `srun --ntasks-per-node`)"
    return "`srun --ntasks-per-node=1`"


def _chosen(around: Surroundings) -> tuple[str, list[int]]:
    """The option of ``deepspeed`` that chooses GPUs of this machine, and the GPUs."""
    number, include = count(around.option("num_gpus")), around.option("include", "i")
    if number:
        return f"--num_gpus {number}", list(range(min(number, _MOST_GPUS)))
    host, sign, places = (include or "").partition(":")
    chosen = [number for place in places.split(",") if (number := count(place)) is not None]
    if sign and host in ("localhost", "127.0.0.1") and len(chosen) == len(places.split(",")):
        return f"--include {include}", chosen
    return "", []


def _may_be_without_dashes(config: Config) -> bool:
    """Whether PyTorch may be of the releases whose launcher writes ``--local_rank``."""
    pin = config.basis.pins.get("torch")
    return pin is None or bool(allowed(pin.specifier, _LAST_WITHOUT_DASHES))


def _may_be_with_dashes(config: Config) -> bool:
    pin = config.basis.pins.get("torch")
    return pin is None or not is_exact(pin.specifier) or not _may_be_without_dashes(config)


def _program(launch: LaunchFacts) -> str:
    return launch.launch.launcher if launch.launch.launcher == "deepspeed" else "torch.distributed.launch"


def _how_to_parse(launch: LaunchFacts, option: str, *, takes: tuple[str, ...]) -> str:
    other = "`deepspeed --no_local_rank`" if launch.launch.launcher == "deepspeed" else "`torchrun`"
    older = " PyTorch 1 writes it with `_`." if takes else ""
    return (
        f"Start the script with {other}, which passes no option, and read LOCAL_RANK from the environment, or define "
        f"`{option}` in the parser.{older}"
    )


def _listed(words: object) -> str:
    *first, last = list(words)  # type: ignore[call-overload]
    return f"{', '.join(first)} and {last}" if first else str(last)
