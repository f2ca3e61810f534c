"""On how many nodes a launcher starts how many processes each."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge.presets import preset, release_of
from ds_lint.launches import hostfile
from ds_lint.launches.options import Parsed, arguments, parsed
from ds_lint.launches.surroundings import OF_RANKS, has_hostfile, processes_of_mpirun
from ds_lint.launches.word import Word
from ds_lint.source.counts import count
from ds_lint.source.tree import Span, node_of
from ds_lint.source.yaml import parse as parse_yaml

if TYPE_CHECKING:
    from ds_lint.launches.start import LauncherCall, Outer, Start
    from ds_lint.source.tree import Node

# Flags of programs that start ``accelerate launch``, which are options of that.
_OF_ACCELERATE = {
    "accelerate_config": "config_file",
    "config_file": "config_file",
    "num_machines": "num_machines",
    "num_processes": "num_processes",
}


class Ranks(NamedTuple):
    """So many nodes with so many processes each; None if that is not known.

    ``total`` is the number of all processes where the nodes may have unequal numbers of them.
    """

    nodes: int | None = None
    processes_per_node: int | None = None
    total: int | None = None

    @property
    def world_size(self) -> int | None:
        """The number of all processes."""
        if self.nodes is None or self.processes_per_node is None:
            return self.total
        return self.nodes * self.processes_per_node


def of_deepspeed(call: LauncherCall) -> Ranks:
    """``deepspeed``: of the nodes that the hostfile and ``--include`` leave, ``--num_nodes`` takes the first.

    Source: ``main``, ``apply_num_nodes_and_gpus`` in ``deepspeed/launcher/runner.py``.
    """
    options, file = call.options, hostfile_of(call)
    hosts = dict(file.slots) if file is not None and file.slots else None
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
        per_node = _visible(call.start) if not exclude else None
    return Ranks(nodes, per_node)


def of_torchrun(call: LauncherCall) -> Ranks:
    """``torchrun``: one of each unless its options or the environment say otherwise.

    Source: ``env`` in ``torch/distributed/argparse_util.py``.
    """
    options, environment = call.options, call.start.environment
    default = 1 if options.is_complete else None

    def number(option: str) -> int | None:
        if options.has(option):
            return options.number(option)
        variable = f"PET_{option.upper()}"
        return count(environment[variable]) or None if variable in environment else default

    return Ranks(number("nnodes"), number("nproc_per_node"))


def of_accelerate(call: LauncherCall) -> Ranks:
    """``accelerate launch``: an option wins over the YAML; ``num_processes`` counts those of all nodes."""
    nodes, total = _number(call, "num_machines", "num_machines", 1), _number(call, "num_processes", "n", None)
    if nodes is None or total is None or nodes < 1 or total % nodes:
        return Ranks(nodes)
    return Ranks(_nodes_by_deepspeed(call, nodes) if machines_by_deepspeed(call) else nodes, total // nodes)


def machines_by_deepspeed(call: LauncherCall) -> int | None:
    """The machines of ``accelerate launch``, if there are several and it starts ``deepspeed`` for them, not torchrun.

    Source: ``prepare_deepspeed_cmd_env`` in ``accelerate/utils/launch.py``; only ``standard`` means torchrun.
    """
    options, root = call.options, accelerate_root(call)
    kind = root.get("distributed_type") if root is not None else None
    is_deepspeed = kind is not None and kind.value == "DEEPSPEED" and not options.has("multi_gpu", "use_fsdp", "cpu")
    machines = _number(call, "num_machines", "num_machines", 1) or 1
    is_standard = of_machines(call, "deepspeed_multinode_launcher") == "standard"
    return machines if machines > 1 and (is_deepspeed or options.has("use_deepspeed")) and not is_standard else None


def _number(call: LauncherCall, option: str, short: str, default: int | None) -> int | None:
    options, root = call.options, accelerate_root(call)
    if options.has(option, short):
        return options.number(option, short)
    value = root.get(option) if root is not None else None
    if value is not None:
        return value.value if isinstance(value.value, int) else None
    is_complete = options.is_complete and (root is not None or not options.has("config_file"))
    return default if is_complete else None


def _nodes_by_deepspeed(call: LauncherCall, machines: int) -> int | None:
    """The hosts of the hostfile that Accelerate gives ``deepspeed``; without one this machine alone."""
    filters = [of_machines(call, f"deepspeed_{name}_filter") for name in ("inclusion", "exclusion")]
    launcher, hosts = of_machines(call, "deepspeed_multinode_launcher"), of_machines(call, "deepspeed_hostfile")
    if launcher is None or hosts is None or any(one is not False for one in filters):
        return None
    file = hostfile_of(call)
    return 1 if hosts is False else len(file.slots) or None if file is not None else machines


def of_machines(call: LauncherCall, name: str) -> Word | bool:
    """A setting of ``accelerate launch`` for several machines: of its option, else of the YAML; False if not given."""
    if call.options.has(name):
        return call.options.options[name]
    root = accelerate_root(call)
    section = root.get("deepspeed_config") if root is not None else None
    for node in (section, root):
        value = node.get(name) if node is not None and node.kind == "object" else None
        if value is not None and value.value is not None:
            return str(value.value)
    is_complete = call.options.is_complete and (root is not None or not call.options.has("config_file"))
    return False if is_complete else None


def of_srun(call: LauncherCall) -> Ranks:
    """``srun``, as the job and its own options ask for."""
    return Ranks(call.allocation.nodes, call.allocation.per_node, call.allocation.tasks)


def of_mpirun(call: LauncherCall) -> Ranks:
    """``mpirun -np N``, on this machine unless it names hosts."""
    total = processes_of_mpirun(call.outer.words)
    has_hosts = any(word in ("-H", "--host", "-host", "--hostfile", "-hostfile", "-f") for word in call.outer.words)
    has_hosts = has_hosts or bool(loose_around(call.outer))  # or may name some
    has_hosts = has_hosts or any(name.startswith("OMPI_MCA_") for name in call.start.environment)
    return Ranks(None if has_hosts else 1, None if has_hosts else total)


def of_python(call: LauncherCall) -> Ranks:
    """One process, unless the environment makes it one of several."""
    environment = call.start.environment
    if not any(name in environment for name in OF_RANKS):
        return Ranks(1, 1)
    return Ranks(1, 1) if environment.get("WORLD_SIZE") == "1" else Ranks()


def of_environment(call: LauncherCall) -> Ranks:
    """Programs that start torchrun as environment variables ask for it."""
    environment = call.start.environment

    def number(name: str, default: int | None) -> int | None:
        return count(environment[name]) or None if name in environment else default

    program = call.framework.program if call.framework is not None else None
    processes = program.processes if program is not None else None
    return Ranks(number("NNODES", 1), number("NPROC_PER_NODE", processes or _visible(call.start)))


def of_starter(call: LauncherCall) -> Ranks:
    """Programs that start ``accelerate launch``, or what their own option names.

    The options of the launcher stand among their own, those of axolotl also behind ``--``.
    """
    words, loose = call.flags
    own = list[Word](takewhile(lambda word: word != "--", words))
    flags = arguments(own)
    program = call.framework.program if call.framework is not None else None
    flag = program.launcher_flag if program is not None else None
    started = flags.get(flag, "accelerate") if flag is not None else "accelerate"
    if started == "python":
        return Ranks(1, 1)
    if started not in ("accelerate", "torchrun"):
        return Ranks()
    options = dict(parsed(str(started), words[len(own) + 1 :]).options)
    for flag, option in _OF_ACCELERATE.items():
        if flag in flags:
            value = flags[flag]
            options[option] = value if isinstance(value, str) else None
    flag = call.framework.recipe_flag if call.framework is not None else None
    recipe = flags.get(flag) if flag is not None else None
    if recipe is not None and not options.keys() & {"num_processes", "n"}:
        text = call.text_of(recipe) if isinstance(recipe, str) else None
        if text is None or "num_processes" in text or "num_machines" in text:  # which the program hands on, too
            return Ranks()
    given = Parsed(options, [], tuple(name for one in loose if one.sets is None for name in one.names))
    started_call = call._replace(options=given)
    return of_torchrun(started_call) if started == "torchrun" else of_accelerate(started_call)


def hostfile_of(call: LauncherCall) -> hostfile.Hostfile | None:
    """The hostfile that ``deepspeed`` is given, or Accelerate for it; None if there is none, or it cannot be read."""
    names = ("hostfile", "H", "deepspeed_hostfile")
    file: Word | bool = next((call.options.options[name] for name in names if call.options.has(name)), False)
    if file is False and accelerate_root(call) is not None:
        file = of_machines(call, "deepspeed_hostfile")
    text = call.text_of(file) if isinstance(file, str) and file not in hostfile.MISSING else None
    return hostfile.parsed(text) if text is not None else None


def accelerate_root(call: LauncherCall) -> Node | None:
    """The YAML of Accelerate that is named, which may be one of the framework."""
    file = call.options.options.get("config_file")
    text = call.text_of(file) if file is not None else None
    if text is None and file is not None and call.framework is not None:
        values = preset(call.framework.name, file, release_of(call.framework.name, None))
        return node_of(values, Span(0, 0)) if values is not None else None
    return parse_yaml(text, str(file)).root if text is not None else None


def loose_around(outer: Outer) -> tuple[str, ...]:
    """What the unknown words of ``srun`` or ``mpirun`` depend on that may be options: no option stands before them."""
    words, details = outer.words, outer.details
    loose = [
        detail.names
        for before, word, detail in zip(words, words[1:], details[1:], strict=False)
        if word is None and detail is not None and detail.holds_options and not (before or "").startswith("-")
    ]
    return tuple(name for names in loose for name in names)


def _visible(start: Start) -> int | None:
    """The number of GPUs that ``CUDA_VISIBLE_DEVICES`` names."""
    value = start.environment.get("CUDA_VISIBLE_DEVICES")
    return len(value.split(",")) if value and re.fullmatch(r"\d+(,\d+)*", value) else None
