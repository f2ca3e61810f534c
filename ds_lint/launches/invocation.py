"""From the words of a command to a launch: which launcher it is, what it starts, and on how many ranks."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launch import Launch, module_places
from ds_lint.launches.launchers import ACCELERATE, DEEPSPEED, PYTHON, SRUN, by_module, by_program
from ds_lint.launches.options import CONFIG_FLAGS, Parsed, arguments, parsed, sorted_flags
from ds_lint.launches.ranks import Ranks, accelerate_root, hostfile_of, loose_around, machines_by_deepspeed
from ds_lint.launches.start import LauncherCall
from ds_lint.launches.surroundings import OF_RANKS, Surroundings, nodes_around, starts_per_node, visible_gpus
from ds_lint.source.slurm import with_options

if TYPE_CHECKING:
    from ds_lint.launches.launchers import Launcher
    from ds_lint.launches.start import ReadFile, Start
    from ds_lint.launches.word import Argument, Word
    from ds_lint.source.slurm import Allocation

_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy3?")
# Programs that run the command behind them.
_WRAPPERS = frozenset({
    "apptainer", "caffeinate", "chrt", "conda", "docker", "env", "ionice", "ncu", "nice", "nohup", "nsys", "numactl",
    "perf", "pipenv", "poetry", "rlaunch", "script", "setsid", "singularity", "stdbuf", "strace", "sudo", "taskset",
    "time", "timeout", "unbuffer", "uv", "xargs",
})  # fmt: skip
_WITH_NAMES = {"conda": ("-n", "--name"), "docker": ("--name",)}  # of these, options with any name behind them
_BY_PROGRAM, _BY_MODULE = by_program(), by_module()
_OF_NODE = ("--node_rank", "--node-rank", "--machine_rank", "--machine-rank")
_OPTION_AS_FILE = re.compile(r"[0-9]*[<>|&]+-{1,2}[A-Za-z][\w-]*(?:=.*)?")  # `<args> --seed` writes to --seed


class _Program(NamedTuple):
    """What a launcher starts: a script or a module, and the words behind it."""

    script: str | None
    words: list[Word]


def launch(start: Start, unknown: list[str], allocation: Allocation, read: ReadFile) -> Launch | None:
    """The launch that a command is; None if it starts no training."""
    found = _launcher(start.words)
    if found is None:
        return None
    launcher, words, outer = found
    if outer and _around(outer) is SRUN:
        allocation = with_options(allocation, outer[1:])
    options = Parsed({}, words)
    if launcher.is_per_gpu:
        options = parsed(launcher.name, words, start.details[len(start.words) - len(words) :])
    program = _program(launcher, options)
    sorted_ = sorted_flags(program.words, start.details[len(start.words) - len(program.words) :])
    flags = arguments(sorted_.words)
    call = LauncherCall(options, sorted_, launcher.framework, outer, allocation, start, read)
    if launcher.starts_anything and not _trains_with_deepspeed(program, flags, call):
        return None
    ranks = launcher.ranks(call)
    around = _surroundings(launcher, program, call, ranks)
    if around.inside is not None or (around.starts or 1) > 1:
        ranks = Ranks()
    return Launch(
        path=start.path,
        line=start.line,
        launcher=launcher.name,
        command=start.command,
        flags=sorted_.words,
        arguments=flags,
        environment=start.environment,
        unknown=unknown,
        cwd=start.cwd,
        script=program.script,
        nodes=ranks.nodes,
        processes_per_node=ranks.processes_per_node,
        world_size=ranks.world_size,
        accelerate_config=_accelerate_config(launcher, options, flags),
        deepspeed_config=_config(options, flags),
        loose=sorted_.loose,
        loose_before=(*options.loose, *loose_around(outer, start)),
        surroundings=around,
        memory=allocation.memory,
        gpu=allocation.gpu,
        redirections=start.redirections if any(map(_OPTION_AS_FILE.fullmatch, start.redirections)) else (),
    )


def _launcher(command: list[Word]) -> tuple[Launcher, list[Word], list[Word]] | None:
    """The innermost launcher of a command, the words behind it, and the command of ``srun`` or ``mpirun`` around it."""
    begun: int | None = None  # where the command of srun or mpirun is
    for position, word in enumerate(command):
        if word is None:
            continue
        name, rest = posixpath.basename(word), command[position + 1 :]
        outer = command[begun:position] if begun is not None else []
        if position and command[position - 1] in _WITH_NAMES.get(posixpath.basename(command[0] or ""), ()):
            continue  # such as an environment called ds
        known = _BY_PROGRAM.get(name)
        if known is not None and known.is_around:
            begun = position if begun is None else begun
        elif known is not None:
            return _started(known, known.programs[name], rest, outer)
        elif _PYTHON.fullmatch(name):
            return _python(rest, outer)
        elif position == 0 and name not in _WRAPPERS:
            return None
    return None


def _started(
    known: Launcher, behind: tuple[str, ...], rest: list[Word], outer: list[Word]
) -> tuple[Launcher, list[Word], list[Word]] | None:
    """A launcher with one of the words that must be behind it, if it starts a training."""
    if not behind:
        return known, rest, outer
    return (known, rest[1:], outer) if rest and rest[0] in behind else None


def _python(rest: list[Word], outer: list[Word]) -> tuple[Launcher, list[Word], list[Word]] | None:
    """What a call of Python is: a launcher that it starts as a module, or a script of its own."""
    left = list(rest)
    while left and left[0] is not None and left[0].startswith("-") and left[0] not in ("-m", "-c", "-"):
        option = left.pop(0)
        if option in ("-W", "-X") and left:
            left.pop(0)
    if not left or left[0] in ("-c", "-"):
        return None
    module = left[1] if left[0] == "-m" and len(left) > 1 else None
    if module is not None and (known := _BY_MODULE.get(module)) is not None:
        return _started(known, known.modules[module], left[2:], outer)
    if module in _BY_PROGRAM:
        return None  # a package, which Python cannot start
    return _around(outer) or PYTHON, left, outer


def _around(outer: list[Word]) -> Launcher | None:
    """The launcher whose command is around another one."""
    return _BY_PROGRAM[posixpath.basename(outer[0] or "")] if outer else None


def _program(launcher: Launcher, options: Parsed) -> _Program:
    """What is started."""
    words = list(options.rest)
    if launcher.framework is not None:
        return _Program(None, words)
    if launcher.starts_anything and words[:1] == ["-m"]:
        words = words[1:]
    if not words:
        module = options.options.get("module") or options.options.get("m")
        return _Program(module, [])
    return _Program(words[0], words[1:])


def _trains_with_deepspeed(program: _Program, flags: dict[str, Argument], call: LauncherCall) -> bool:
    """Whether a script that Python starts is given a DeepSpeed config, or uses one."""
    if any(name.startswith("deepspeed") or name in CONFIG_FLAGS for name in flags):
        return True
    if program.script is None:
        return False
    places = [program.script] if program.script.endswith(".py") else module_places(program.script)
    text = next((text for place in places if (text := call.text_of(place)) is not None), None)
    return text is not None and "deepspeed" in text.lower()


def _config(options: Parsed, flags: dict[str, Argument]) -> str | None:
    """The DeepSpeed config that a launch names."""
    given: list[Argument] = [options.options.get("deepspeed_config_file"), *(flags.get(name) for name in CONFIG_FLAGS)]
    return next((value for value in given if isinstance(value, str) and value), None)


def _accelerate_config(launcher: Launcher, options: Parsed, flags: dict[str, Argument]) -> str | None:
    """The YAML of Accelerate that a launch names."""
    if launcher.mixes_options:
        value = flags.get("accelerate_config", flags.get("config_file"))
        return value if isinstance(value, str) else None
    return options.options.get("config_file") if launcher is ACCELERATE else None


def _surroundings(launcher: Launcher, program: _Program, call: LauncherCall, ranks: Ranks) -> Surroundings:
    """What a launch runs under and on."""
    options, start, allocation, outer = call.options, call.start, call.allocation, call.outer
    around = _around(outer)
    counts = not launcher.is_around and (around is SRUN or ranks.nodes == 1)  # else mpirun may know of the nodes
    name = around.name if around is not None else None
    inside, is_run_by_python = _inner_launcher(program.script, options) if launcher.is_per_gpu else (None, False)
    root = accelerate_root(call) if launcher is ACCELERATE else None
    ids = root.get("gpu_ids") if root is not None else None
    return Surroundings(
        around=name,
        starts=starts_per_node(name, outer, allocation) if counts else None,
        processes=ranks.processes_per_node,
        inside=inside,
        is_run_by_python=is_run_by_python,
        gpus=visible_gpus(launcher.name, options, start.environment, allocation, None if ids is None else ids.value),
        ranks=tuple(name for name in OF_RANKS if name in start.environment),
        options=tuple(options.options.items()),
        is_complete=options.is_complete,
        hostfile=hostfile_of(call) if launcher in (ACCELERATE, DEEPSPEED) else None,
        nodes=nodes_around(name, outer, allocation),
        machines=machines_by_deepspeed(call) if launcher is ACCELERATE else None,
        rank_of_node=_rank_of_node(call) if around is SRUN else (),
    )


def _rank_of_node(call: LauncherCall) -> tuple[str, ...]:
    """What an unknown number of the node depends on, if the shell that calls ``srun`` computes it."""
    start = call.start
    if not any(posixpath.basename(word or "") in SRUN.programs for word in start.command):
        return ()  # a shell within, whose variables are those of its task
    for word, value, detail in zip(start.words, start.words[1:], start.details[1:], strict=False):
        if word in _OF_NODE and value is None and detail is not None:
            return detail.names
    return ()


def _inner_launcher(script: str | None, options: Parsed) -> tuple[str | None, bool]:
    """The launcher that is started as a script, and whether Python gets its name as a file."""
    inner = _BY_PROGRAM.get(script or "")
    if inner is None or inner.framework is not None or options.has("module", "m"):
        return None, False
    return script, not options.has("no_python", "no-python")
