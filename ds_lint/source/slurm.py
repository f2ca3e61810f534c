"""What a Slurm job gets from its ``#SBATCH`` lines, and what ``srun`` starts in it.

The options are those of sbatch(1) and srun(1). How they act together is measured on a cluster of Slurm 22.05, by
``tests/launches/test_real_slurm.py``, and read in ``src/srun/opt.c`` of 24.05 and later where releases differ.
"""

from __future__ import annotations

import re
import shlex
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.counts import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Word = str | None  # None where the shell's word is not known

_MARK = "#SBATCH"
_SHORT = {
    "-N": "--nodes",
    "-n": "--ntasks",
    "-G": "--gpus",
    "-c": "--cpus-per-task",
    "-w": "--nodelist",
    "-J": "--job-name",
    "-p": "--partition",
}
_OTHER_NAMES = {"--tasks-per-node": "--ntasks-per-node"}
_OF_TASKS = {"--ntasks", "--ntasks-per-node", "--ntasks-per-gpu"}
_GPUS = ("--gres", "--gpus-per-node")
_OF_GPUS = {*_GPUS, "--gpus", "--gpus-per-task"}
_OF_MEMORY = {"--mem", "--mem-per-cpu", "--mem-per-gpu"}  # of which a job has one; sbatch rejects two
_VALUED = {*_OF_TASKS, *_OF_GPUS, *_SHORT.values(), *_OF_MEMORY}
_SCRIPTS = (".sh", ".bash", ".slurm", ".sbatch", ".job")  # what a script of sbatch ends with
_PARTS = ":"  # between parts of a job that each have nodes of their own, which lines write as these words
_BETWEEN_PARTS = (_PARTS, "hetjob", "packjob")
_OF_NODES = re.compile(r"SLURM_(?:NNODES|JOB_NUM_NODES|(?:JOB_)?NODELIST|NTASKS\b|NPROCS)|scontrol")
_OF_GRES = re.compile(r"(?:gpu:|^)(?:(\w[\w.-]*):)?([0-9]+)(?:\(.*\))?$")
_ONE_GPU = re.compile(r"gpu(?::([A-Za-z][\w.-]*|[1-7]g\.[0-9]+gb))?$")  # without a number
_SIZE = re.compile(r"(\d+)(?:([KMGT])B?)?", re.IGNORECASE)
_UNITS = {"K": 2**10, None: 2**20, "M": 2**20, "G": 2**30, "T": 2**40}  # a bare number is in megabytes
# What each job has in its environment, with values that only the cluster knows.
_OF_THE_CLUSTER = (
    *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_SUBMIT_DIR"),
    *("SLURM_SUBMIT_HOST", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION", "SLURM_CLUSTER_NAME", "SLURM_JOB_USER"),
    *("SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE", "SLURM_TASKS_PER_NODE", "SLURM_TASK_PID"),
    *("SLURM_PROCID", "SLURM_NODEID", "SLURM_LOCALID"),  # 0 in the script, and of each task in what srun starts
)
# Variables that are the text of an option, and are set only with it.
_TEXTS = {
    "SLURM_GPUS_PER_NODE": "--gpus-per-node",
    "SLURM_GPUS": "--gpus",
    "SLURM_GPUS_PER_TASK": "--gpus-per-task",
    "SLURM_CPUS_PER_TASK": "--cpus-per-task",
    "SLURM_NTASKS_PER_GPU": "--ntasks-per-gpu",
    "SLURM_JOB_NAME": "--job-name",
    "SLURM_JOB_PARTITION": "--partition",
}
# Variables with the megabytes of an option; a job that requests all memory of a node has none of them.
_MEGABYTES = {
    "SLURM_MEM_PER_NODE": "--mem",
    "SLURM_MEM_PER_CPU": "--mem-per-cpu",
    "SLURM_MEM_PER_GPU": "--mem-per-gpu",
}


class Allocation(NamedTuple):
    """What a job or a step of ``srun`` has; None where that does not follow from its options.

    ``tasks`` are those that ``srun`` starts, and ``gpus`` and ``memory``, in bytes, are of each node. ``gpus_by`` is
    the option that asks for the GPUs, and ``gpu`` the kind of them, as the cluster calls it. ``is_job`` says that the
    script has ``#SBATCH`` lines, and ``is_whole`` that no other job has a part of the nodes. ``options`` are all that
    are written, by their long names.
    """

    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: int | None = None
    gpus_by: str = ""
    gpu: str | None = None
    memory: int | None = None
    is_job: bool = False
    options: Mapping[str, Word] = {}

    @property
    def is_known(self) -> bool:
        """Whether there is a job at all."""
        return self != Allocation()

    @property
    def is_whole(self) -> bool:
        """Whether the job has its nodes for itself: it gets all CPUs and GPUs that they have, whatever it requests.

        Memory is what it requests all the same, for each CPU or GPU that it gets.
        """
        return "--exclusive" in self.options

    @property
    def variables(self) -> dict[str, Word]:
        """The variables that the script has in its environment; None for a value that only the cluster knows."""
        if not self.is_job:
            return {}
        found: dict[str, Word] = dict.fromkeys(_OF_THE_CLUSTER)
        found.update((name, self.options[option]) for name, option in _TEXTS.items() if option in self.options)
        if "--nodes" in self.options:
            found["SLURM_NNODES"] = found["SLURM_JOB_NUM_NODES"] = _text(self.nodes)
        if self.options.keys() & _OF_TASKS:
            found["SLURM_NTASKS"] = found["SLURM_NPROCS"] = _text(self.tasks)
        if "--ntasks-per-node" in self.options:
            found["SLURM_NTASKS_PER_NODE"] = each = _text(self.tasks_per_node)
            if "--ntasks" not in self.options and each is not None and self.nodes is not None:
                found["SLURM_TASKS_PER_NODE"] = each if self.nodes == 1 else f"{each}(x{self.nodes})"
        if self.options.keys() & _OF_GPUS or self.is_whole:
            found["SLURM_GPUS_ON_NODE"] = None if self.is_whole else _text(self.gpus)
        for name, option in _MEGABYTES.items():
            if (size := _bytes(self.options.get(option))) is not None:
                found[name] = str(size // _UNITS["M"])
        return found

    @property
    def per_node(self) -> int | None:
        """The tasks of each node. Without a number for each, Slurm fills one node before the next."""
        if self.tasks is None:
            return self.tasks_per_node if self.nodes is None else None
        if self.nodes is None:
            return None
        if self.nodes in (1, self.tasks):
            return self.tasks // self.nodes
        is_even = self.tasks_per_node is not None or self.is_whole
        return self.tasks // self.nodes if is_even and self.tasks % self.nodes == 0 else None


def _text(number: int | None) -> Word:
    return None if number is None else str(number)


def allocation(text: str) -> Allocation:
    """What the ``#SBATCH`` lines of a script request."""
    lines = list(_lines(text))
    if not lines:
        return Allocation()
    # Without a number of nodes it is for one, or for as many as sbatch is called with.
    return _job(_options([word for line in lines for word in line]), None if _OF_NODES.search(text) else 1)


def with_options(job: Allocation, words: Sequence[Word]) -> Allocation:
    """The job of a script that ``sbatch`` is called with, behind these options."""
    before = takewhile(lambda word: word is None or not word.endswith(_SCRIPTS), words)
    return _job({**job.options, **_options(list(before))}, 1)


def _job(options: dict[str, Word], default: int | None) -> Allocation:
    """A job with these options, on so many nodes if none of them tells the number."""
    if _PARTS in options:
        return Allocation(is_job=True, options=options)
    nodes, tasks = _nodes(options, default), _number(options, "--ntasks")
    gpus, gpus_by, gpu = _gpus_of(options, nodes)
    per_node = _number(options, "--ntasks-per-node")
    per_gpu = _number(options, "--ntasks-per-gpu")
    if per_node is None and per_gpu is not None and gpus is not None:
        per_node = per_gpu * gpus
    if "--ntasks" not in options and per_node is not None and nodes is not None:
        tasks = per_node * nodes
    found = Allocation(nodes, tasks, per_node, gpus, gpus_by, gpu, None, True, options)
    return found._replace(memory=_memory(found))


def step(job: Allocation, words: Sequence[Word]) -> Allocation:
    """What ``srun`` starts with these options in a job, or as a job of its own."""
    own = _options(words)
    options = {**job.options, **own}
    if _PARTS in options:
        return Allocation(is_job=job.is_job, options=options)
    nodes = _nodes(own, None) if "--nodes" in own or not job.is_job else job.nodes  # whatever --nodelist names
    tasks = _tasks_of_step(job, own, nodes)
    if tasks is not None and (nodes is not None or tasks == 1):
        nodes = min(nodes or 1, tasks)
    per_node = job.tasks_per_node if job.options.keys() & _OF_TASKS else _number(own, "--ntasks-per-node")
    gpus, gpus_by, gpu = job.gpus, job.gpus_by, job.gpu
    if own.keys() & _OF_GPUS:
        gpus, gpus_by, gpu = _gpus_of(own, nodes)
    found = Allocation(nodes, tasks, per_node, gpus, gpus_by, gpu, job.memory, job.is_job, options)
    found = found._replace(memory=_memory_of_step(job, found, own))
    if found.per_node != 1 and options.keys() & {"--gpus-per-task", "--ntasks-per-gpu"}:
        return found._replace(gpus=None)  # each task sees its own
    return found


def chooses_tasks(words: Sequence[Word]) -> bool:
    """Whether options of ``srun`` may give its tasks other numbers in SLURM_NNODES and its like than the job has."""
    return not _options(words).keys().isdisjoint({"--nodes", *_OF_TASKS, *_OF_GPUS})


def _tasks_of_step(job: Allocation, own: Mapping[str, Word], nodes: int | None) -> int | None:
    """The tasks that ``srun`` starts: the job has its own number in SLURM_NTASKS, which wins over --ntasks-per-node."""
    if "--ntasks" in own:
        return _number(own, "--ntasks")
    if "--ntasks-per-gpu" in own:
        return None
    per_node = _number(own, "--ntasks-per-node")
    if not job.options.keys() & _OF_TASKS:
        if "--ntasks-per-node" not in own:
            return nodes
        return nodes * per_node if nodes is not None and per_node is not None else None
    if "--nodes" in own and ("--ntasks-per-node" in own or "--ntasks-per-node" in job.options):
        # Since 24.05 the number for each node counts then, before that the number of the job.
        per_node = per_node if "--ntasks-per-node" in own else job.tasks_per_node
        return job.tasks if None not in (nodes, per_node) and job.tasks == (nodes or 0) * (per_node or 0) else None
    return job.tasks


def _lines(text: str) -> Iterator[list[str]]:
    """The words of each ``#SBATCH`` line before the first command, up to a comment in it."""
    for line in text.splitlines():
        if line.startswith(_MARK) and line[len(_MARK) : len(_MARK) + 1].isspace():
            try:
                yield shlex.split(line[len(_MARK) :], comments=True)
            except ValueError:  # an open quote
                yield line[len(_MARK) :].split()
        elif line.strip() and not line.strip().startswith("#"):
            return


def _options(words: Sequence[Word]) -> dict[str, Word]:
    """The options among words by their long names, with their last values, the last ones last."""
    found: dict[str, Word] = {}
    for position, word in enumerate(words):
        if word in _BETWEEN_PARTS:
            found[_PARTS] = ""
        if word is None or not word.startswith("-"):
            continue
        name, sign, value = word.partition("=")
        if word[:2] in _SHORT and len(word) > len("-N"):
            name, sign, value = word[:2], "=", word[2:]
        name = _SHORT.get(name, _OTHER_NAMES.get(name, name))
        if name in _VALUED:
            following = words[position + 1] if position + 1 < len(words) else None
            found.pop(name, None)
            found[name] = value if sign else following
        elif name == "--exclusive" and not sign:  # not `--exclusive=user`
            found[name] = ""
    return found


def _number(options: Mapping[str, Word], name: str) -> int | None:
    """The number that an option is given, with the kind of a GPU before it or without."""
    given = options.get(name)
    return count(given.rpartition(":")[2]) or None if given is not None else None


def _nodes(options: Mapping[str, Word], default: int | None) -> int | None:
    """How many nodes the options request; None if Slurm takes as many as it needs for the tasks."""
    if "--nodes" in options:
        least, sign, most = (options["--nodes"] or "").partition("-")
        return count(least) or None if not sign or least == most else None
    for name in ("--ntasks", "--gpus"):
        if name in options:
            return 1 if _number(options, name) == 1 and "--nodelist" not in options else None
    if "--nodelist" in options:
        names = options["--nodelist"]
        return names.count(",") + 1 if names and not re.search(r"[\[/{]", names) else None
    return default


def _gpus_of(options: Mapping[str, Word], nodes: int | None) -> tuple[int | None, str, str | None]:
    """The GPUs of each node, the option that requests them, and their kind."""
    name = next((name for name in reversed(list(options)) if name in _GPUS), "")
    if name:
        gpus, gpu = _gpus(name, options[name])
    elif "--gpus" in options:
        name = "--gpus"
        gpus, gpu = _gpus(name, options[name])
        gpus = gpus if nodes == 1 else None
    elif "--gpus-per-task" in options:
        name = "--gpus-per-task"
        each, gpu = _gpus(name, options[name])
        tasks = _number(options, "--ntasks-per-node" if "--ntasks" not in options or nodes != 1 else "--ntasks")
        gpus = each * tasks if each is not None and tasks is not None else None
    else:
        return None, "", None
    return gpus, f"{name}={options[name]}", gpu


def _gpus(name: str, given: Word) -> tuple[int | None, str | None]:
    """How many GPUs ``--gres=gpu:TYPE:N`` or ``--gpus-per-node=TYPE:N`` requests, and of which kind."""
    if given is None:
        return None, None
    parts = given.split(",")
    single = [match for one in parts if name == "--gres" and (match := _ONE_GPU.match(one))]
    found = [match for one in parts if (one.startswith("gpu:") or name != "--gres") and (match := _OF_GRES.search(one))]
    if len(single) == 1 and not found:
        return 1, single[0][1]
    return (count(found[0][2]), found[0][1]) if len(found) == 1 else (None, None)


def _memory(found: Allocation) -> int | None:
    """The bytes of each node; None if the cluster knows them alone, as with ``--mem=0``, which is all of a node."""
    if "--mem" in found.options:
        return _bytes(found.options["--mem"])
    if found.is_whole:  # all CPUs and GPUs of the node count
        return None
    for option, number in (("--mem-per-cpu", _cpus(found)), ("--mem-per-gpu", found.gpus)):
        if option in found.options:
            size = _bytes(found.options[option])
            return size * number if size is not None and number is not None else None
    return None


def _cpus(found: Allocation) -> int | None:
    """The CPUs of each node: one for each task, and one task for each node, if nothing tells otherwise."""
    of_task = _number(found.options, "--cpus-per-task") if "--cpus-per-task" in found.options else 1
    has_tasks = not found.options.keys().isdisjoint({*_OF_TASKS, "--gpus-per-task"})
    tasks = found.per_node if has_tasks else 1
    return of_task * tasks if of_task is not None and tasks is not None else None


def _memory_of_step(job: Allocation, found: Allocation, own: Mapping[str, Word]) -> int | None:
    """The bytes that a step has of each node: those of the job, unless it requests others, or fewer CPUs or GPUs."""
    if "--mem" in own:
        size = _bytes(own["--mem"])
        return job.memory if job.is_job and _is_all(own["--mem"]) else size
    options = {name: value for name, value in found.options.items() if name != "--mem"}
    if not job.is_job or not _OF_MEMORY.isdisjoint(own):
        return _memory(found._replace(options=options))
    if "--mem-per-cpu" in options and not own.keys().isdisjoint({*_OF_TASKS, "--cpus-per-task"}):
        # Without --cpus-per-task of its own, a step may have all CPUs of the job.
        return _memory(found) if "--cpus-per-task" in own else None
    if "--mem-per-gpu" in options and not own.keys().isdisjoint(_OF_GPUS):
        return _memory(found)
    return job.memory


def _is_all(given: Word) -> bool:
    """Whether a size is 0, which means all that there is."""
    match = _SIZE.fullmatch(given) if given is not None else None
    return match is not None and count(match[1]) == 0


def _bytes(given: Word) -> int | None:
    """The bytes of a size such as ``64G``; None for 0, with which a job gets all memory of a node."""
    match = _SIZE.fullmatch(given) if given is not None else None
    number = count(match[1]) if match is not None else None
    if match is None or number is None:
        return None
    return number * _UNITS[match[2].upper() if match[2] else None] or None
