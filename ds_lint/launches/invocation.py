"""From the words of a command to a launch: which launcher it is, what it starts, and on how many ranks."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launch import Launch, module_places
from ds_lint.launches.launcher_parser import is_refused
from ds_lint.launches.launchers import ACCELERATE, DEEPSPEED, PYTHON, SRUN, UNKNOWN, by_module, by_program
from ds_lint.launches.options import CONFIG_FLAGS, Parsed, arguments, parsed, sorted_flags
from ds_lint.launches.ranks import Ranks, accelerate_root, hostfile_of, loose_around, machines_by_deepspeed
from ds_lint.launches.start import NO_OUTER, LauncherCall, Outer
from ds_lint.launches.surroundings import OF_RANKS, Surroundings, nodes_around, starts_per_node, visible_gpus
from ds_lint.launches.word import LooseWord
from ds_lint.source.shell.runners import RUNNERS, SHELLS, command_behind
from ds_lint.source.slurm import step

if TYPE_CHECKING:
    from ds_lint.launches.launchers import Launcher
    from ds_lint.launches.start import ReadFile, Start
    from ds_lint.launches.word import Argument, UnknownWord, Word
    from ds_lint.source.slurm import Allocation

_PYTHON = re.compile(r"python(\d(\.\d+)?)?|pypy3?")
_NAME_A_JOB = ("-J", "--job-name", "-p", "--partition", "-A", "--account")  # options of srun with any name behind them
_BY_PROGRAM, _BY_MODULE = by_program(), by_module()
_AROUND = frozenset(name for name, one in _BY_PROGRAM.items() if one.is_around)
_SOUGHT = re.compile(r"\$\((?:which|command -v|type -[pP]) ([\w.-]+)\)")
_CONFIGS = (".json", ".hjson")
_CUT_OFF = (LooseWord(("the lines that are cut off",), None),)  # which are meant to be arguments, too
_OF_NODE = ("--node_rank", "--node-rank", "--machine_rank", "--machine-rank")
_OF_FIRST = (
    "--rdzv_endpoint",
    "--rdzv-endpoint",
    "--master_addr",
    "--master-addr",
    "--main_process_ip",
    "--main-process-ip",
)
_OWN_ADDRESS = re.compile(r"\$\(hostname\b[^|]*\)|HOSTNAME|SLURMD_NODENAME")
_OPTION_AS_FILE = re.compile(r"[0-9]*[<>|&]+-{1,2}[A-Za-z][\w-]*(?:=.*)?")  # `<args> --seed` writes to --seed


class _Program(NamedTuple):
    """What a launcher starts: a script or a module, and the words behind it."""

    script: str | None
    words: list[Word]


class _Found(NamedTuple):
    """A launcher, the words behind it, and the command of ``srun`` or ``mpirun`` around it."""

    launcher: Launcher
    words: list[Word]
    outer: Outer


def launch(start: Start, unknown: list[str], allocation: Allocation, read: ReadFile) -> Launch | None:
    """The launch that a command is; None if it starts no training."""
    found = _launcher(start)
    if found is None:
        return None
    launcher, words, outer = found
    if _around(outer) is SRUN:
        allocation = step(allocation, outer.words[1:])
    options = Parsed({}, words, () if launcher is not UNKNOWN else tuple(unknown))
    if launcher.is_per_gpu:
        options = parsed(launcher.name, words, start.details[len(start.words) - len(words) :])
    program = _program(launcher, options)
    details = start.details[len(start.words) - len(program.words) :]
    sorted_ = sorted_flags(program.words, details)
    flags = arguments(sorted_.words)
    start = start._replace(environment={**start.environment, **_set_by_env(start.words)})
    call = LauncherCall(options, sorted_, launcher.framework, outer, allocation, start, read)
    if launcher.starts_anything and not _trains_with_deepspeed(program, flags, call):
        return None
    if launcher.is_per_gpu and program.script is None and options.has("help", "h", "version"):
        return None
    own = tuple(words[: len(words) - len(options.rest)]) if launcher.is_per_gpu else ()
    ranks = launcher.ranks(call)
    around = _surroundings(launcher, program, call, ranks)
    if around.inside is not None or (around.starts or 1) > 1 or is_refused(launcher.name, own):
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
        loose=(*sorted_.loose, *(_CUT_OFF if _loses_config(start.cut_off, options, flags) else ())),
        loose_before=(*options.loose, *loose_around(outer)),
        surroundings=around,
        memory=allocation.memory,
        gpu=allocation.gpu,
        set_in=start.set_in,
        redirections=start.redirections if any(map(_OPTION_AS_FILE.fullmatch, start.redirections)) else (),
        cut_off=start.cut_off,
        own_words=own,
        behind=tuple(zip(program.words, details, strict=False)),
    )


def _launcher(start: Start) -> _Found | None:
    """The innermost launcher of a command."""
    words, position = start.words, 0
    begun: int | None = None  # where the command of srun or mpirun is
    is_unknown = False  # whether an unknown word is before, which may be any program with any options
    while position < len(words):
        word = words[position]
        name = posixpath.basename(word or "") or ("" if is_unknown else _name_of(start.details[position]))
        outer = start.around or NO_OUTER
        if begun is not None:
            outer = Outer(words[begun:position], start.details[begun:position])
        is_value = is_unknown and begun is None and (words[position - 1] or "").startswith("--")  # of an option
        starts = _starts(name, words, position) or (word is None and _is_python(words[position + 1 :]))
        if starts and not is_value:
            return _started(name, words[position:], start.details[position + 1 :], outer)
        if name in RUNNERS:
            position += command_behind([name, *words[position + 1 :]], _is_command) or len(words)
            continue
        if is_unknown and name.endswith(".py"):
            return _Found(UNKNOWN, words[position:], outer)
        is_unknown = is_unknown or word is None
        if name in _AROUND and begun is None:
            begun = position
        elif name in SHELLS or (begun is None and not is_unknown):
            return None
        position += 1
    flag = next((at for at, word in enumerate(words) if word is not None and word.startswith("--deepspeed")), None)
    return _Found(UNKNOWN, words[flag:], start.around or NO_OUTER) if is_unknown and flag is not None else None


def _name_of(detail: UnknownWord | None) -> str:
    """The name of a program of which the folder is not known: ``$BIN/deepspeed``, or ``$(which deepspeed)``."""
    if detail is None:
        return ""
    sought = _SOUGHT.fullmatch(detail.names[0]) if len(detail.names) == 1 and not detail.end else None
    return sought[1] if sought is not None else posixpath.basename(detail.end) if "/" in detail.end else ""


def _is_python(behind: list[Word]) -> bool:
    """Whether an unknown word is Python: a module that launches is behind ``-m``."""
    at = next((at for at, word in enumerate(behind) if word is None or not word.startswith("-") or word == "-m"), None)
    return at is not None and behind[at] == "-m" and at + 1 < len(behind) and behind[at + 1] in _BY_MODULE


def _starts(name: str, words: list[Word], position: int) -> bool:
    """Whether the word at a place starts a training: a launcher, Python, or a script that ``uv run`` starts."""
    before = words[position - 1] if position else None
    if before in _NAME_A_JOB and position > 1 and any(word in _AROUND for word in words[:position]):
        return False
    is_launcher = name in _BY_PROGRAM and name not in _AROUND
    return is_launcher or _PYTHON.fullmatch(name) is not None or (before == "run" and name.endswith(".py"))


def _set_by_env(words: list[Word]) -> dict[str, Word]:
    """The variables that ``env NAME=VALUE`` gives to the command behind it."""
    if not words or words[0] != "env":
        return {}
    pairs = (word.partition("=") for word in words[1 : command_behind(words, _is_command)] if word is not None)
    return {name: value for name, sign, value in pairs if sign and name.isidentifier()}


def _is_command(name: str) -> bool:
    """Whether a runner may run a program of this name as a launch, or around one."""
    return name in _BY_PROGRAM or name in RUNNERS or name.endswith(".py") or _PYTHON.fullmatch(name) is not None


def _started(name: str, words: list[Word], details: list[UnknownWord | None], outer: Outer) -> _Found | None:
    """What a word that starts a training starts, with what is behind it; ``details`` tells of that."""
    known = _BY_PROGRAM.get(name)
    if known is not None:
        return _with_word(known, known.programs[name], words[1:], outer)
    if not name.endswith(".py"):
        sought = _BY_PROGRAM.get(_name_of(details[0])) if details else None  # such as `python $(which deepspeed)`
        return (
            _Found(sought, words[2:], outer) if sought is not None and sought.is_per_gpu else _python(words[1:], outer)
        )
    return _python(words, outer)


def _with_word(known: Launcher, behind: tuple[str, ...], rest: list[Word], outer: Outer) -> _Found | None:
    """A launcher with one of the words that must be behind it, if it starts a training."""
    if not behind:
        return _Found(known, rest, outer)
    return _Found(known, rest[1:], outer) if rest and rest[0] in behind else None


def _python(rest: list[Word], outer: Outer) -> _Found | None:
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
        return _with_word(known, known.modules[module], left[2:], outer)
    if module in _BY_PROGRAM:
        return None  # a package, which Python cannot start
    return _Found(_around(outer) or PYTHON, left, outer)


def _around(outer: Outer) -> Launcher | None:
    """The launcher whose command is around another one."""
    return _BY_PROGRAM[posixpath.basename(outer.words[0] or "")] if outer.words else None


def _program(launcher: Launcher, options: Parsed) -> _Program:
    """What is started."""
    words = list(options.rest)
    if launcher.framework is not None or (launcher is UNKNOWN and (words[0] or "").startswith("-")):
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
    overrides = (word for word in program.words if word is not None and "=" in word and not word.startswith("-"))
    if any("deepspeed" in word.partition("=")[0] for word in overrides):  # of Hydra
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


def _loses_config(cut_off: tuple[Word, ...], options: Parsed, flags: dict[str, Argument]) -> bool:
    """Whether the config is only among the words that the shell takes for another command."""
    return _config(options, flags) is None and any(word is not None and word.endswith(_CONFIGS) for word in cut_off)


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
        starts=starts_per_node(name, outer.words, allocation) if counts else None,
        processes=ranks.processes_per_node,
        inside=inside,
        is_run_by_python=is_run_by_python,
        gpus=visible_gpus(
            launcher.name,
            options,
            start.environment,
            allocation,
            None if ids is None else ids.value,
            is_step=around is SRUN,
        ),
        ranks=tuple(name for name in OF_RANKS if name in start.environment),
        options=tuple(options.options.items()),
        is_complete=options.is_complete,
        hostfile=hostfile_of(call) if launcher in (ACCELERATE, DEEPSPEED) else None,
        nodes=nodes_around(name, outer.words, allocation),
        machines=machines_by_deepspeed(call) if launcher is ACCELERATE else None,
        rank_of_node=_rank_of_node(call) if around is SRUN else (),
        address_of_node=_address_of_node(call) if around is SRUN else None,
    )


def _rank_of_node(call: LauncherCall) -> tuple[str, ...]:
    """What an unknown number of the node depends on, if the shell that calls ``srun`` computes it."""
    detail = _unknown_behind(call, _OF_NODE)
    return detail.names if detail is not None and not _is_computed_within(call, detail) else ()


def _address_of_node(call: LauncherCall) -> str | None:
    """What the address of the first node depends on, if each node gives its own."""
    detail = _unknown_behind(call, _OF_FIRST)
    if detail is None or not detail.names or not _is_computed_within(call, detail):
        return None
    return detail.names[0] if _OWN_ADDRESS.fullmatch(detail.names[0]) else None


def _unknown_behind(call: LauncherCall, options: tuple[str, ...]) -> UnknownWord | None:
    """What is known of the unknown value of one of these options."""
    start = call.start
    for word, value, detail in zip(start.words, start.words[1:], start.details[1:], strict=False):
        if word in options and value is None:
            return detail
    return None


def _is_computed_within(call: LauncherCall, detail: UnknownWord) -> bool:
    """Whether a shell that ``srun`` starts on each node computes a word, and not the one that calls ``srun``."""
    has_srun = any(posixpath.basename(word or "") in SRUN.programs for word in call.start.command)
    return not has_srun and not any(name in call.outer.expanded for name in detail.names)


def _inner_launcher(script: str | None, options: Parsed) -> tuple[str | None, bool]:
    """The launcher that is started as a script, and whether Python gets its name as a file."""
    inner = _BY_PROGRAM.get(script or "")
    if inner is None or inner.framework is not None or options.has("module", "m"):
        return None, False
    return script, not options.has("no_python", "no-python")
