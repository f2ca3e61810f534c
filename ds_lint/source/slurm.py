"""What ``#SBATCH`` lines and the options of ``srun`` ask for.

The options are those of Slurm's sbatch(1) and srun(1), which have had these names since Slurm 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.source.counts import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Word = str | None  # None where the shell's word is not known

_LINE = re.compile(r"^#SBATCH[ \t]+(.*)$", re.MULTILINE)
_SHORT = {"-N": "--nodes", "-n": "--ntasks"}
_COUNTED = ("--nodes", "--ntasks", "--ntasks-per-node")
_GPUS = ("--gres", "--gpus-per-node")
_OF_GRES = re.compile(r"(?:gpu:|^)(?:(\w[\w.-]*):)?([0-9]+)(?:\(.*\))?$")
_ONE_GPU = re.compile(r"gpu(?::([A-Za-z][\w.-]*|[1-7]g\.[0-9]+gb))?$")  # without a number
_SIZE = re.compile(r"(\d+)([KMGT]?)B?", re.IGNORECASE)
_UNITS = {"K": 2**10, "": 2**20, "M": 2**20, "G": 2**30, "T": 2**40}  # a bare number is in megabytes


class Allocation(NamedTuple):
    """What a job asks for; None where it does not say.

    ``gpus`` and ``memory``, in bytes, are of each node; ``gpus_by`` is the option that asks for the GPUs, and ``gpu``
    the kind of them, as the cluster calls it.
    """

    nodes: int | None = None
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: int | None = None
    gpus_by: str = ""
    gpu: str | None = None
    memory: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether there is a job at all."""
        return self != Allocation()

    @property
    def variables(self) -> dict[str, str]:
        """The variables that a job has in its environment."""
        found = {
            "SLURM_NNODES": self.nodes,
            "SLURM_JOB_NUM_NODES": self.nodes,
            "SLURM_NTASKS": self.tasks,
            "SLURM_NTASKS_PER_NODE": self.tasks_per_node,
            "SLURM_GPUS_ON_NODE": self.gpus,
        }
        return {name: str(value) for name, value in found.items() if value is not None}

    @property
    def per_node(self) -> int | None:
        """The tasks of each node."""
        if self.tasks_per_node is not None:
            return self.tasks_per_node
        nodes = self.nodes or 1
        return self.tasks // nodes if self.tasks is not None and self.tasks % nodes == 0 else None


def allocation(text: str) -> Allocation:
    """What the ``#SBATCH`` lines before the first command of a script ask for."""
    words = list[str]()
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        match = _LINE.match(line)
        if match:
            words += match[1].split(" #")[0].split()
    return with_options(Allocation(), words)


def with_options(before: Allocation, words: Sequence[Word]) -> Allocation:
    """What options ask for, over what came before."""
    found: dict[str, int | None] = {}
    gpus, gpus_by, gpu, memory = before.gpus, before.gpus_by, before.gpu, before.memory
    for name, given in _options(words):
        if name in _COUNTED:
            found[name] = count(given) or None
        elif name in _GPUS:
            (gpus, gpu), gpus_by = _gpus(name, given), f"{name}={given}"
        elif name == "--mem":
            memory = _memory(given)
    tasks_per_node = None if "--ntasks" in found else before.tasks_per_node  # which is then only a maximum
    return Allocation(
        found.get("--nodes", before.nodes),
        found.get("--ntasks", before.tasks),
        found.get("--ntasks-per-node", tasks_per_node),
        gpus,
        gpus_by,
        gpu,
        memory,
    )


def _options(words: Sequence[Word]) -> Iterator[tuple[str, Word]]:
    """The options among words by their long names, each with its value."""
    for position, word in enumerate(words):
        if word is None:
            continue
        name, sign, value = word.partition("=")
        if word[:2] in _SHORT and len(word) > 2 and word[2].isdecimal():
            name, sign, value = word[:2], "=", word[2:]
        following = words[position + 1] if position + 1 < len(words) else None
        yield _SHORT.get(name, name), value if sign else following


def _gpus(name: str, given: Word) -> tuple[int | None, str | None]:
    """How many GPUs ``--gres=gpu:TYPE:N`` or ``--gpus-per-node=TYPE:N`` asks for, and of which kind."""
    if given is None:
        return None, None
    parts = given.split(",")
    single = [match for one in parts if name == "--gres" and (match := _ONE_GPU.match(one))]
    found = [
        match
        for one in parts
        if (one.startswith("gpu:") or name == "--gpus-per-node") and (match := _OF_GRES.search(one))
    ]
    if len(single) == 1 and not found:
        return 1, single[0][1]
    return (count(found[0][2]), found[0][1]) if len(found) == 1 else (None, None)


def _memory(given: Word) -> int | None:
    """The bytes of ``--mem=N``; with 0 a job gets all that a node has."""
    match = _SIZE.fullmatch(given) if given is not None else None
    number = count(match[1]) if match is not None else None
    return number * _UNITS[match[2].upper()] or None if match is not None and number is not None else None
