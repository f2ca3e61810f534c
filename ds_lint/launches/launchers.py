"""From the words of a command to a launch: which launcher it is, what it starts, and on how many ranks."""

from __future__ import annotations

import posixpath
import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches import hostfile
from ds_lint.launches.launch import PER_GPU, Launch
from ds_lint.launches.options import CONFIG_FLAGS, Parsed, SortedFlags, arguments, parsed, sorted_flags
from ds_lint.launches.surroundings import (
    OF_RANKS,
    Surroundings,
    around_of,
    has_hostfile,
    inner_launcher,
    processes_of_mpirun,
    starts_per_node,
    visible_gpus,
)
from ds_lint.launches.word import Word
from ds_lint.source.counts import count
from ds_lint.source.slurm import Allocation, with_options
from ds_lint.source.yaml import parse as parse_yaml

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.launches.word import Argument, UnknownWord
    from ds_lint.source.tree import Node

_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy3?")
# Programs that run the command behind them.
_WRAPPERS = frozenset({
    "apptainer", "caffeinate", "chrt", "conda", "docker", "env", "ionice", "ncu", "nice", "nohup", "nsys", "numactl",
    "perf", "pipenv", "poetry", "rlaunch", "script", "setsid", "singularity", "stdbuf", "strace", "sudo", "taskset",
    "time", "timeout", "unbuffer", "uv", "xargs",
})  # fmt: skip
_WITH_NAMES = {"conda": ("-n", "--name"), "docker": ("--name",)}  # of these, options with any name behind them
_OUTER = {"srun": "srun", "mpirun": "mpirun", "mpiexec": "mpirun", "mpiexec.hydra": "mpirun", "orterun": "mpirun"}
# Modules that ``python -m`` starts as a launcher.
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
    "axolotl.cli.train": "axolotl",
    "llamafactory.cli": "llamafactory-cli",
}
# Programs of frameworks, with the words behind which they train.
_FRAMEWORKS = {
    "llamafactory-cli": ("train",),
    "lmf": ("train",),
    "swift": ("sft", "pt", "rlhf"),
    "axolotl": ("train",),
    "trl": ("sft", "dpo", "grpo", "kto", "orpo", "cpo", "reward", "rloo", "ppo", "distillation"),
}
_OPTION_AS_FILE = re.compile(r"[0-9]*[<>|&]+-{1,2}[A-Za-z][\w-]*(?:=.*)?")  # `<args> --seed` writes to --seed
# Flags of ``trl`` and ``axolotl`` that are options of ``accelerate launch``.
_OF_ACCELERATE = {
    "accelerate_config": "config_file",
    "config_file": "config_file",
    "num_machines": "num_machines",
    "num_processes": "num_processes",
}


class Around(NamedTuple):
    """What a launch is read with, beside its words: ``read`` gives the text of a file of the project, or None."""

    read: Callable[[str], str | None]
    allocation: Allocation


class _Ranks(NamedTuple):
    nodes: int | None = None
    processes_per_node: int | None = None

    @property
    def world_size(self) -> int | None:
        if self.nodes is None or self.processes_per_node is None:
            return None
        return self.nodes * self.processes_per_node


class _Program(NamedTuple):
    """What a launcher starts: a script or a module, and the words behind it."""

    script: str | None
    words: list[Word]


class Start(NamedTuple):
    """A command with its place: ``environment`` are exported variables, ``cwd`` a folder within the project.

    ``words`` are those of the command with ``--option=$VALUE`` as two, and ``details`` tells of the unknown ones.
    """

    path: str
    line: int
    command: list[Word]
    words: list[Word]
    details: list[UnknownWord | None]
    environment: dict[str, Word]
    cwd: str | None
    redirections: tuple[str, ...] = ()


def launch(start: Start, unknown: list[str], project: Around) -> Launch | None:
    """The launch that a command is; None if it starts no training."""
    found = _launcher(start.words)
    if found is None:
        return None
    launcher, words, outer = found
    allocation = project.allocation
    if outer and outer[0] is not None and _OUTER.get(posixpath.basename(outer[0])) == "srun":
        allocation = with_options(allocation, outer[1:])
    options = Parsed({}, words)
    if launcher in ("deepspeed", "torchrun", "accelerate"):
        options = parsed(launcher, words, start.details[len(start.words) - len(words) :])
    program = _program(launcher, options)
    sorted_ = sorted_flags(program.words, start.details[len(start.words) - len(program.words) :])
    flags = arguments(sorted_.words)
    if launcher in ("python", "srun", "mpirun") and not _trains_with_deepspeed(program, flags, start, project):
        return None
    accelerate_config = options.options.get("config_file") if launcher == "accelerate" else None
    if launcher in ("trl", "axolotl"):
        value = flags.get("accelerate_config", flags.get("config_file"))
        accelerate_config = value if isinstance(value, str) else None
    ranks = _ranks(launcher, options, start, allocation, outer, project, sorted_)
    around = _surroundings(launcher, options, program, start, allocation, outer, project, ranks)
    if around.inside is not None or (around.starts or 1) > 1:
        ranks = _Ranks()
    return Launch(
        start.path,
        start.line,
        launcher,
        ranks.nodes,
        ranks.processes_per_node,
        ranks.world_size,
        start.command,
        program.script,
        accelerate_config,
        _config(options, flags),
        flags,
        unknown,
        sorted_.loose,
        (*options.loose, *_loose_around(outer, start)),
        sorted_.words,
        start.environment,
        start.cwd,
        around,
        allocation.memory,
        allocation.gpu,
        start.redirections if any(_OPTION_AS_FILE.fullmatch(one) for one in start.redirections) else (),
    )


def _launcher(command: list[Word]) -> tuple[str, list[Word], list[Word]] | None:
    """The innermost launcher of a command, the words behind it, and the command of ``srun`` or ``mpirun`` around it."""
    begun: int | None = None  # where the command of srun or mpirun is
    for position, word in enumerate(command):
        if word is None:
            continue
        name, rest = posixpath.basename(word), command[position + 1 :]
        outer = command[begun:position] if begun is not None else []
        if position and command[position - 1] in _WITH_NAMES.get(posixpath.basename(command[0] or ""), ()):
            continue  # such as an environment called ds
        if name in _OUTER and begun is None:
            begun = position
            continue
        if name in ("deepspeed", "torchrun", "ds"):
            return ("deepspeed" if name == "ds" else name), rest, outer
        if name == "accelerate":
            return ("accelerate", rest[1:], outer) if rest[:1] == ["launch"] else None
        if name in _FRAMEWORKS:
            trains = bool(rest) and rest[0] in _FRAMEWORKS[name]
            return ("llamafactory-cli" if name == "lmf" else name, rest, outer) if trains else None
        if _PYTHON.fullmatch(name):
            return _python(rest, outer)
        if position == 0 and name not in _WRAPPERS:
            return None
    return None


def _python(rest: list[Word], outer: list[Word]) -> tuple[str, list[Word], list[Word]] | None:
    """What a call of Python is: a launcher that it starts as a module, or a script of its own."""
    left = list(rest)
    while left and left[0] is not None and left[0].startswith("-") and left[0] not in ("-m", "-c", "-"):
        option = left.pop(0)
        if option in ("-W", "-X") and left:
            left.pop(0)
    if not left or left[0] in ("-c", "-"):
        return None
    if left[0] == "-m" and len(left) > 1 and left[1] in _MODULES:
        launcher = _MODULES[str(left[1])]
        return launcher, ["train", *left[2:]] if launcher == "axolotl" else left[2:], outer
    around = posixpath.basename(outer[0] or "") if outer else ""
    return _OUTER.get(around, "python"), left, outer


def _program(launcher: str, options: Parsed) -> _Program:
    """What is started."""
    words = list(options.rest)
    if launcher in ("llamafactory-cli", "swift", "axolotl", "trl"):
        return _Program(None, words[1:])
    if launcher in ("python", "srun", "mpirun") and words[:1] == ["-m"]:
        words = words[1:]
    if not words:
        module = options.options.get("module") or options.options.get("m")
        return _Program(module, [])
    return _Program(words[0], words[1:])


def _trains_with_deepspeed(program: _Program, flags: dict[str, Argument], start: Start, project: Around) -> bool:
    """Whether a script that Python starts is given a DeepSpeed config, or uses one."""
    if any(name.startswith("deepspeed") or name in CONFIG_FLAGS for name in flags):
        return True
    if program.script is None or start.cwd is None:
        return False
    script = program.script if program.script.endswith(".py") else f"{program.script.replace('.', '/')}.py"  # of ``-m``
    text = project.read(posixpath.normpath(posixpath.join(start.cwd, script)))
    return text is not None and "deepspeed" in text.lower()


def _config(options: Parsed, flags: dict[str, Argument]) -> str | None:
    """The DeepSpeed config that a launch names."""
    given: list[Argument] = [options.options.get("deepspeed_config_file"), *(flags.get(name) for name in CONFIG_FLAGS)]
    return next((value for value in given if isinstance(value, str) and value), None)


def _ranks(
    launcher: str,
    options: Parsed,
    start: Start,
    allocation: Allocation,
    outer: list[Word],
    project: Around,
    flags: SortedFlags,
) -> _Ranks:
    """On how many nodes a launch starts how many processes each."""
    visible = _visible(start)
    if launcher == "deepspeed":
        return _of_deepspeed(options, start, visible, project)
    if launcher == "torchrun":
        return _of_torchrun(options)
    if launcher == "accelerate":
        return _of_accelerate(options, start, project)
    if launcher == "srun":
        nodes = allocation.nodes or (1 if allocation.tasks is not None else None)
        return _Ranks(nodes, allocation.per_node)
    if launcher == "mpirun":
        return _of_mpirun(outer, start)
    if launcher == "python":
        return _of_python(start.environment)
    if launcher in ("swift", "llamafactory-cli"):
        return _of_framework(launcher, start, visible)
    return _of_starter(launcher, flags, start, project)


def _of_starter(launcher: str, sorted_: SortedFlags, start: Start, project: Around) -> _Ranks:
    """``trl`` and ``axolotl`` start ``accelerate launch``, and axolotl something else if it is told.

    The options of the launcher stand among their own, those of axolotl also behind ``--``.
    """
    own = list[Word](takewhile(lambda word: word != "--", sorted_.words))
    flags = arguments(own)
    started = flags.get("launcher", "accelerate") if launcher == "axolotl" else "accelerate"
    if started == "python":
        return _Ranks(1, 1)
    if started not in ("accelerate", "torchrun"):
        return _Ranks()
    options = dict(parsed(str(started), sorted_.words[len(own) + 1 :]).options)
    for flag, option in _OF_ACCELERATE.items():
        if flag in flags:
            value = flags[flag]
            options[option] = value if isinstance(value, str) else None
    recipe = flags.get("config") if launcher == "trl" else None
    if recipe is not None and not options.keys() & {"num_processes", "n"}:
        place = posixpath.normpath(posixpath.join(start.cwd or "", recipe)) if isinstance(recipe, str) else ""
        text = project.read(place)
        if text is None or "num_processes" in text or "num_machines" in text:  # which TRL hands on, too
            return _Ranks()
    said = Parsed(options, [], tuple(name for one in sorted_.loose if one.sets is None for name in one.names))
    return _of_torchrun(said) if started == "torchrun" else _of_accelerate(said, start, project)


def _of_mpirun(outer: list[Word], start: Start) -> _Ranks:
    """``mpirun -np N``, on this machine unless it names hosts."""
    total = processes_of_mpirun(outer)
    has_hosts = any(word in ("-H", "--host", "-host", "--hostfile", "-hostfile", "-f") for word in outer)
    has_hosts = has_hosts or bool(_loose_around(outer, start))  # or may name some
    return _Ranks(None if has_hosts else 1, None if has_hosts else total)


def _loose_around(outer: list[Word], start: Start) -> tuple[str, ...]:
    """What the unknown words of ``srun`` or ``mpirun`` depend on that may be options: no option stands before them."""
    details = start.details[_begin(outer, start.words) + 1 :]
    loose = [
        detail.names
        for before, word, detail in zip(outer, outer[1:], details, strict=False)
        if word is None and detail is not None and detail.holds_options and not (before or "").startswith("-")
    ]
    return tuple(name for names in loose for name in names)


def _begin(outer: list[Word], words: list[Word]) -> int:
    """Where the command of ``srun`` or ``mpirun`` begins."""
    return words.index(outer[0]) if outer else 0


def _of_python(environment: dict[str, Word]) -> _Ranks:
    """One process, unless the environment makes it one of several."""
    if not any(name in environment for name in OF_RANKS):
        return _Ranks(1, 1)
    size = environment.get("WORLD_SIZE")
    return _Ranks(1, 1) if size == "1" else _Ranks()


def _surroundings(
    launcher: str,
    options: Parsed,
    program: _Program,
    start: Start,
    allocation: Allocation,
    outer: list[Word],
    project: Around,
    ranks: _Ranks,
) -> Surroundings:
    """What a launch runs under and on."""
    around = around_of(outer)
    counts = launcher not in _OUTER and (around == "srun" or ranks.nodes == 1)  # else mpirun may know of the nodes
    inside, is_run_by_python = inner_launcher(program.script, options) if launcher in PER_GPU else (None, False)
    root = _accelerate_root(options, start, project) if launcher == "accelerate" else None
    ids = root.get("gpu_ids") if root is not None else None
    hosts = _hosts(options, start, project) if launcher == "deepspeed" else None
    return Surroundings(
        around,
        starts_per_node(around, outer, allocation) if counts else None,
        ranks.processes_per_node,
        inside,
        is_run_by_python,
        visible_gpus(launcher, options, start.environment, allocation, None if ids is None else ids.value),
        tuple(name for name in OF_RANKS if name in start.environment),
        tuple(options.options.items()),
        options.is_complete,
        tuple(hosts.items()) if hosts else None,
    )


def _of_deepspeed(options: Parsed, start: Start, visible: int | None, project: Around) -> _Ranks:
    """``deepspeed``: of the nodes that the hostfile and ``--include`` leave, ``--num_nodes`` takes the first.

    Source: ``main``, ``apply_num_nodes_and_gpus`` in ``deepspeed/launcher/runner.py``.
    """
    hosts = _hosts(options, start, project)
    is_listed = has_hostfile(options.options)
    chosen: dict[str, int | None] = dict(hosts or {})
    include, exclude = (options.options.get(name, options.options.get(name[0])) for name in ("include", "exclude"))
    if include:
        chosen = hostfile.included(hosts, include)
    elif exclude and hosts:
        chosen = hostfile.without(hosts, exclude)
    default = None if is_listed or not options.is_complete else 1
    nodes = options.number("num_nodes") if options.has("num_nodes") else len(chosen) or default
    if nodes is not None and chosen:
        nodes = min(nodes, len(chosen))
    counts = set(list(chosen.values())[:nodes])
    if options.has("num_gpus"):
        per_node = options.number("num_gpus")
    elif chosen:
        per_node = counts.pop() if len(counts) == 1 else None
    else:
        per_node = visible if not exclude else None
    return _Ranks(nodes, per_node)


def _hosts(options: Parsed, start: Start, project: Around) -> dict[str, int] | None:
    """The hostfile that is named; None if there is none, or it cannot be read."""
    file = options.options.get("hostfile", options.options.get("H"))
    if file is None or file == "/dev/null" or start.cwd is None:
        return None
    text = project.read(posixpath.normpath(posixpath.join(start.cwd, file)))
    return hostfile.slots(text) if text is not None else None


def _accelerate_root(options: Parsed, start: Start, project: Around) -> Node | None:
    """The YAML of Accelerate that is named."""
    file = options.options.get("config_file")
    if file is None or start.cwd is None:
        return None
    text = project.read(posixpath.normpath(posixpath.join(start.cwd, file)))
    return parse_yaml(text, file).root if text is not None else None


def _of_torchrun(options: Parsed) -> _Ranks:
    default = 1 if options.is_complete else None
    nodes = options.number("nnodes") if options.has("nnodes") else default
    per_node = options.number("nproc_per_node") if options.has("nproc_per_node") else default
    return _Ranks(nodes, per_node)


def _of_accelerate(options: Parsed, start: Start, project: Around) -> _Ranks:
    """``accelerate launch``: an option wins over the YAML; ``num_processes`` counts those of all nodes."""
    root = _accelerate_root(options, start, project)
    is_complete = options.is_complete and (root is not None or not options.has("config_file"))

    def number(option: str, short: str, default: int | None) -> int | None:
        if options.has(option, short):
            return options.number(option, short)
        value = root.get(option) if root is not None else None
        if value is not None:
            return value.value if isinstance(value.value, int) else None
        return default if is_complete else None

    nodes, total = number("num_machines", "num_machines", 1), number("num_processes", "n", None)
    if nodes is None or total is None or nodes < 1 or total % nodes:
        return _Ranks(nodes)
    return _Ranks(nodes, total // nodes)


def _of_framework(launcher: str, start: Start, visible: int | None) -> _Ranks:
    """``swift`` and ``llamafactory-cli`` start torchrun as environment variables ask for it."""

    def number(name: str, default: int | None) -> int | None:
        if name not in start.environment:
            return default
        return count(start.environment[name]) or None

    nodes = number("NNODES", 1)
    return _Ranks(nodes, number("NPROC_PER_NODE", 1 if launcher == "swift" else visible))


def _visible(start: Start) -> int | None:
    """The number of GPUs that ``CUDA_VISIBLE_DEVICES`` names."""
    value = start.environment.get("CUDA_VISIBLE_DEVICES")
    return len(value.split(",")) if value and re.fullmatch(r"\d+(,\d+)*", value) else None
