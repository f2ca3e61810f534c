"""Rules about the environment variables that a launch and its script set (DS888 to DS892)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import IGNORED, OVERRIDDEN, RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.launches.surroundings import LOCAL
from ds_lint.source.counts import count
from ds_lint.source.spelling import AUTO, as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Severity
    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.facts.set_variable import SetVariable
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_STAGE = ("zero_optimization", "stage")
# The names of libraries as their projects write them.
_LIBRARIES = {
    "torch": "PyTorch", "nccl": "NCCL", "cuda": "CUDA", "deepspeed": "DeepSpeed", "accelerate": "Accelerate",
    "transformers": "transformers", "huggingface_hub": "huggingface_hub", "datasets": "datasets", "peft": "peft",
    "trl": "TRL",
}  # fmt: skip
_MOST_NAMED = 3
_OFF = ("", "auto", "false", "none")
_SET_RANKS = ("deepspeed", "torchrun")
_HOW_MANY = {"deepspeed": "`--num_gpus`", "torchrun": "`--nproc_per_node`"}
_PORT = 29500
_SEVERAL = 2
_REPEATS = ("for", "while", "until", "xargs", "parallel", "srun", "mpirun", "ssh", "pdsh", "$1", '"$1"')
_OF_ALL_STACKS = "ACCELERATE_GRADIENT_ACCUMULATION_STEPS"  # which Accelerator reads itself


@rule("DS888", "misspelled-variable", severity="warning", effects=("ignored",), keys=(), elsewhere=True)
def misspelled_variable(config: Config) -> Iterator[Problem]:
    """An environment variable that nothing reads, with a name close to one that a library reads.

    Source: the names in the Python files and the compiled libraries of the releases, in ``schemas/environment.json``.
    """
    for one in _variables(config):
        from ds_lint.knowledge.environment import libraries, meant  # few launches have such a variable

        name = meant(one.name)
        if name is None:
            continue
        readers = [_LIBRARIES.get(library, library) for library in libraries(name)][:_MOST_NAMED]
        yield _problem(
            config,
            one,
            f"nothing reads {one.name}, so it has no effect: {readers[0]} reads {name}",
            IGNORED,
            help=f"Write {name}, a variable of {_listed(readers)}. Neither a library nor the project reads {one.name}.",
            label=f"{name} is not set",
        )


@rule("DS889", "refused-variable", severity="error", effects=("rejected", "risk"), keys=(), elsewhere=True)
def refused_variable(config: Config) -> Iterator[Problem]:
    """An environment variable whose value the library that reads it rejects."""
    for one in _variables(config):
        from ds_lint.knowledge.environment_values import refusal  # few launches have such a variable

        found = refusal(one.name, one.value) if one.value is not None else None
        if found is None or (found.is_at_import and one.is_in_script) or not _is_read_here(config, one):
            continue
        if found.is_of_kernels and not _builds_kernel(config):
            continue
        yield _problem(
            config,
            one,
            f"{one.name} has the value {as_json(one.value)}: {found.happens}",
            RISK if found.is_of_kernels else rejected("initialize"),
            help=f"{found.instead} {found.why[:1].upper()}{found.why[1:]}."
            + (" Kernels that were built when DeepSpeed was installed need no build." if found.is_of_kernels else ""),
            label="refused",
            severity="warning" if found.is_of_kernels else None,
        )


@rule("DS890", "variable-against-config", severity="warning", effects=("overridden",), keys=(), elsewhere=True)
def variable_against_config(config: Config) -> Iterator[Problem]:
    """A variable of Accelerate's DeepSpeedPlugin beside a config file that has another value, or none.

    Source: ``DeepSpeedPlugin.__post_init__`` in ``accelerate/utils/dataclasses.py``: a variable replaces ``"auto"``.
    """
    if config.accelerate is not None or config.document.kind == "recipe":
        return
    for one in _variables(config):
        from ds_lint.knowledge.environment_values import refusal  # few launches have such a variable
        from ds_lint.knowledge.plugin_variables import keys_of_variables

        key = keys_of_variables().get(one.name)
        if key is None or one.value is None or one.name == _OF_ALL_STACKS:
            continue
        if refusal(one.name, one.value) is not None and _is_read_here(config, one):
            continue
        member = config.member(*key)
        value = None if member is None else member.value.value
        if value == AUTO or _is_same(value, one.value) or (member is None and one.value.lower() in _OFF):
            continue
        path = ".".join(key)
        has = f"the config has no `{path}`" if member is None else f"`{path}` is {as_json(value)} in the config"
        yield _problem(
            config,
            one,
            f"{one.name}={one.value} has no effect: {has}",
            OVERRIDDEN,
            key=None if member is None else key,
            span=None if member is None else member.value.span,
            help=f'Set `{path}` in the config and delete the variable, or write "auto" in the config, which Accelerate '
            "replaces with the variable. Any other value in the config wins.",
            label="the config decides",
        )


@rule("DS891", "rank-variable-overwritten", severity="info", effects=("ignored",), keys=(), elsewhere=True)
def rank_variable_overwritten(config: Config) -> Iterator[Problem]:
    """A variable of a rank that the launcher sets itself, to another value.

    Sources: ``main`` in ``deepspeed/launcher/launch.py``, ``_start_workers`` in
    ``torch/distributed/elastic/agent/server/local_elastic_agent.py``.
    """
    launch = config.facts.launch
    if launch is None or launch.launch.launcher not in _SET_RANKS or launch.launch.surroundings.inside is not None:
        return
    command, around = launch.launch, launch.launch.surroundings
    if not around.is_complete or (around.option("launcher") or "pdsh").lower() != "pdsh":
        return  # MPI and Slurm give the ranks of a deepspeed launch their variables
    for one in _variables(config):
        if one.name == "MASTER_PORT" and not around.has("master_port", "rdzv_endpoint", "standalone"):
            happens = "the ranks use the port of `--master_port`"
            advice = f"Pass `--master_port {one.value}`, and delete the variable. The default of the option is {_PORT}."
            if one.value == str(_PORT):
                continue
        elif one.name == "WORLD_SIZE" and command.world_size is not None and one.value != str(command.world_size):
            happens = f"it starts {command.world_size} ranks"
            advice = f"Delete the variable. {_HOW_MANY[command.launcher]} sets the number of ranks."
        else:
            continue
        yield _problem(
            config,
            one,
            f"`{command.launcher}` overwrites {one.name}={one.value}: {happens}",
            IGNORED,
            help=advice,
            label="overwritten",
        )


@rule("DS892", "waits-for-other-ranks", severity="warning", effects=("risk",), keys=(), elsewhere=True)
def waits_for_other_ranks(config: Config) -> Iterator[Problem]:
    """One process that Python starts as a rank of several, all of them on this machine.

    Source: ``init_distributed`` in ``deepspeed/comm/comm.py``, ``TCPStore`` of torch waits for ``world_size`` clients.
    """
    launch = config.facts.launch
    if launch is None or launch.launch.launcher != "python" or launch.stack is None or launch.sets_ranks:
        return
    given, script = launch.launch.environment, launch.launch.script
    size, rank = count(given.get("WORLD_SIZE")), count(given.get("RANK"))
    is_here = given.get("MASTER_ADDR") in LOCAL and not launch.launch.surroundings.missing_ranks
    if not size or size < _SEVERAL or rank is None or rank >= size or not is_here or script is None:
        return
    text = launch.document.text
    if text.count(script) > 1 or any(word in text.split() for word in _REPEATS):
        return  # it may start the other ranks, too
    places = [one for one in _variables(config) if one.name == "WORLD_SIZE"]
    for one in places:
        yield _problem(
            config,
            one,
            f"`python` starts rank {rank} of WORLD_SIZE={size} alone: it waits for the others until a timeout",
            RISK,
            help="Set WORLD_SIZE to 1, or delete the variables and start the script with "
            f"`torchrun --nproc_per_node {size}`, which sets those of each rank. "
            "MASTER_ADDR is this machine, so no other machine can join.",
            label=f"one of {size} ranks",
        )


def _variables(config: Config) -> tuple[SetVariable, ...]:
    launch = config.facts.launch
    return launch.variables if launch is not None else ()


def _builds_kernel(config: Config) -> bool:
    """Whether DeepSpeed builds a kernel for the optimizer, and reads the numbers in the variable."""
    from ds_lint.semantics.constructors import optimizer_constructor  # few launches have such a variable

    constructor = optimizer_constructor(config)
    is_fused = constructor is not None and constructor.name == "FusedAdam"
    return is_fused and config.knowledge.does("cuda-architectures-are-numbers")


def _is_read_here(config: Config, one: SetVariable) -> bool:
    """Whether what reads a variable runs: only the Trainer and Accelerate make Accelerate's plugin."""
    launch = config.facts.launch
    if one.name == "MASTER_PORT":  # which the other launchers set themselves
        return launch is not None and launch.launch.launcher in ("mpirun", "python", "srun") and not launch.sets_ranks
    if not one.name.startswith("ACCELERATE_"):
        return True
    return launch is not None and launch.stack in ("accelerate", "trainer") and launch.launch.launcher != "accelerate"


def _is_same(value: object, text: str) -> bool:
    """Whether a variable says what the config says."""
    if isinstance(value, bool) or value is None:
        return str(bool(value)).lower() == text.lower() or (value is None and text.lower() in _OFF)
    if isinstance(value, (int, float)):
        try:
            return float(text) == value
        except ValueError:
            return False
    return str(value).lower() == text.lower()


def _problem(
    config: Config,
    one: SetVariable,
    message: str,
    outcome: Outcome,
    *,
    help: str,
    label: str,
    severity: Severity | None = None,
    key: KeyPath | None = None,
    span: Span | None = None,
) -> Problem:
    """A problem of a variable, which is shown where that is set."""
    stage = config.member(*_STAGE)
    if span is None:
        key, span = (None, config.document_start) if stage is None else (_STAGE, stage.value.span)
    return Problem(
        key,
        span,
        message,
        outcome,
        help=help,
        label="launched with it",
        severity=severity,
        related=[Related(one.span, label, one.document.path)],
        subject=(one.name, one.value, one.document.path),
    )


def _listed(words: list[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
