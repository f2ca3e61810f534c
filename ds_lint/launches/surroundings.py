"""What a launch runs under and on: launchers around and inside it, the GPUs that it sees, the ranks that are set."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.hostfile import MISSING, Hostfile
from ds_lint.source.counts import count

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.launches.options import Parsed
    from ds_lint.launches.word import Word
    from ds_lint.source.slurm import Allocation

LOCAL = ("localhost", "127.0.0.1", "::1")  # addresses by which each machine means itself
# What a process needs to find the others (``init_distributed`` in deepspeed/comm/comm.py).
OF_RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_HOSTS = ("-H", "--host", "-host", "--hostfile", "-hostfile", "-f", "--machinefile", "-machinefile")
_PER_NODE = ("-N", "-npernode", "--npernode", "-ppn", "--map-by", "-map-by", "-perhost")


_OF_STEP = ("--nodelist", "--exclude", "--relative", "--nodefile", "--het-group", "--pack-group", "--multi-prog")


class VisibleGpus(NamedTuple):
    """The GPUs of each node that a launch sees, and what tells it; ``ids`` is None if only their number is known.

    It is empty if they are named by UUIDs.
    """

    number: int
    origin: str
    ids: tuple[int, ...] | None


class Surroundings(NamedTuple):
    """What a launch runs under and on. What is not known is None.

    ``around`` is the ``srun`` or ``mpirun`` that starts the launcher, ``starts`` times on each node, and the launcher
    starts so many ``processes`` each time. ``inside`` is a launcher that the launcher starts as its script, and
    ``is_run_by_python`` says that Python is given its name as a file. ``ranks`` are the variables of OF_RANKS that the
    environment has. ``options`` are those of the launcher, all of them if ``is_complete``, and ``hostfile`` is the one
    that it names. ``nodes`` are those on which ``srun`` starts the launcher, or of the job if nothing is around it.
    ``machines`` are those for which ``accelerate launch`` starts ``deepspeed``. ``rank_of_node`` is what an unknown
    ``--node_rank`` behind ``srun`` depends on, in the shell that calls ``srun``, and ``address_of_node`` what an
    address of the first node does that a shell within ``srun`` computes, on each node for itself.
    """

    around: str | None = None
    starts: int | None = None
    processes: int | None = None
    inside: str | None = None
    is_run_by_python: bool = False
    gpus: VisibleGpus | None = None
    ranks: tuple[str, ...] = ()
    options: tuple[tuple[str, Word], ...] = ()
    is_complete: bool = False
    hostfile: Hostfile | None = None
    nodes: int | None = None
    machines: int | None = None
    rank_of_node: tuple[str, ...] = ()
    address_of_node: str | None = None

    @property
    def missing_ranks(self) -> list[str]:
        """The variables of OF_RANKS that the environment does not have."""
        return [name for name in OF_RANKS if name not in self.ranks]

    def option(self, *names: str) -> Word:
        """The value of one of these options of the launcher; None if none is given, or its value is not known."""
        return next((value for name, value in self.options if name in names), None)

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in names for name, _ in self.options)


def has_hostfile(options: Mapping[str, Word]) -> bool:
    """Whether ``deepspeed`` gets a hostfile, if only by a word that is not known."""
    return any(name in options and options[name] not in MISSING for name in ("hostfile", "H"))


def starts_per_node(around: str | None, outer: list[Word], allocation: Allocation) -> int | None:
    """How many times ``srun`` or ``mpirun`` starts the launcher on each node."""
    if around == "srun":
        return allocation.per_node
    if around != "mpirun" or allocation.is_known:  # in a job, mpirun starts on all of its nodes
        return None
    if any(word is not None and word.partition("=")[0] in (*_HOSTS, *_PER_NODE) for word in outer):
        return None
    return processes_of_mpirun(outer)


def nodes_around(around: str | None, outer: list[Word], allocation: Allocation) -> int | None:
    """The nodes on which ``srun`` starts the launcher, or of the job of a launcher that nothing is around."""
    if around is None:
        return allocation.nodes
    if around != "srun" or any(_chooses_nodes(before, word) for before, word in pairwise(outer)):
        return None
    if allocation.nodes is None or allocation.tasks is None:
        return allocation.nodes
    return min(allocation.nodes, allocation.tasks)


def _chooses_nodes(before: Word, word: Word) -> bool:
    """Whether a word of ``srun`` takes some of the nodes of the job, or may do so: not the value of another option."""
    if word is None:
        return not (before or "").startswith("-")
    return word.partition("=")[0] in _OF_STEP or word.startswith(("-w", "-x", "-r"))


def processes_of_mpirun(outer: list[Word]) -> int | None:
    """The processes that ``mpirun -np N`` starts."""
    total: int | None = None
    for word, following in pairwise(outer):
        if word in ("-np", "-n", "-c", "--np", "--n"):
            total = count(following) or None
    return total


def visible_gpus(
    launcher: str,
    options: Parsed,
    environment: dict[str, Word],
    allocation: Allocation,
    gpu_ids: object,
    *,
    is_step: bool,
) -> VisibleGpus | None:
    """The GPUs that a node has for a launch: those that a variable names, else those that the job asks for.

    ``gpu_ids`` are those of Accelerate's YAML, which win over the variable. A step of ``srun`` sees the GPUs that it
    asks for, even where the job has all of a node.
    """
    given = options.options.get("gpu_ids", gpu_ids) if launcher == "accelerate" else None
    if given not in (None, "all"):
        return _named(str(given), f"`gpu_ids` {given}")
    if "CUDA_VISIBLE_DEVICES" in environment:
        value = environment["CUDA_VISIBLE_DEVICES"]
        return _named(value, f"CUDA_VISIBLE_DEVICES={value}") if value is not None else None
    if allocation.gpus is not None and (is_step or not allocation.is_whole):
        return VisibleGpus(allocation.gpus, allocation.gpus_by, None)
    return None


def _named(value: str, origin: str) -> VisibleGpus | None:
    parts = value.replace(" ", "").split(",")
    if all(part.startswith("GPU-") for part in parts):
        return VisibleGpus(len(parts), origin, ())
    ids = [count(one) for one in parts]
    return VisibleGpus(len(ids), origin, tuple(one for one in ids if one is not None)) if None not in ids else None
