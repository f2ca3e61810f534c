"""Rules about the machines of ``accelerate launch`` (DS666, DS667)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import RISK, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.accelerate.refusal import is_integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span


@rule("DS666", "machine-rank-out-of-range", severity="error", effects=("risk",), kind="accelerate")
def machine_rank_out_of_range(config: Config) -> Iterator[Problem]:
    """A machine with a number that is out of range.

    Source: ``prepare_multi_gpu_env`` in ``accelerate/utils/launch.py`` hands the number to torchrun, which does not
    compare it with that of the machines.
    """
    launch = _by_torchrun(config)
    if launch is None:
        return
    rank, machines = launch.value("machine_rank"), launch.value("num_machines")
    if not is_integer(rank) or 0 <= int(rank) < machines:
        return
    if launch.value("rdzv_backend") not in (None, "static"):
        return  # torchrun numbers the machines itself
    key, span = place_of(config, launch, "machine_rank")
    yield Problem(
        key,
        span,
        f"`machine_rank` is {rank}, but `num_machines` is {machines}: the machines wait for each other until a timeout"
        + _unless(config, "machine_rank"),
        RISK,
        help=f"Machines are numbered from 0: write a number from 0 to {machines - 1}, a different one on each machine.",
        label=f"0 to {machines - 1}",
        severity=None if config.facts.launch is not None else "warning",
        related=_launched(config),
        subject=(rank, machines),
    )


@rule("DS667", "machines-without-address", severity="error", effects=("risk",), kind="accelerate")
def machines_without_address(config: Config) -> Iterator[Problem]:
    """Several machines without the address of the first one, which becomes the string "None".

    Sources: ``prepare_multi_gpu_env`` and ``prepare_deepspeed_cmd_env`` in ``accelerate/utils/launch.py``.
    """
    launch = _by_torchrun(config)
    if launch is None or launch.value("main_process_ip") is not None or launch.value("rdzv_conf"):
        return
    key, span = place_of(config, launch, "num_machines")
    yield Problem(
        key,
        span,
        f"{launch.value('num_machines')} machines without `main_process_ip`: each looks for a host named None until a "
        "timeout" + _unless(config, "main_process_ip"),
        RISK,
        help="Set `main_process_ip` and `main_process_port` to the address of the first machine, on every machine.",
        label="no address of the first machine",
        severity=None if config.facts.launch is not None else "info",
        related=_launched(config),
        subject="main_process_ip",
    )


def _by_torchrun(config: Config) -> AccelerateLaunch | None:
    """A launch on several machines of which torchrun starts the ranks; None if it is another, or not known."""
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or not launch.is_followed or config.document.is_fragment:
        return None
    launched = config.facts.launch
    if launched is not None:
        around = launched.launch.surroundings
        if launched.launch.launcher != "accelerate" or not around.is_complete:
            return None  # another launcher, or further flags
    starts = launch.launcher == "multi_gpu" or (
        launch.launcher == "deepspeed" and launch.value("deepspeed_multinode_launcher") == "standard"
    )
    machines = launch.value("num_machines")
    return launch if starts and type(machines) is int and machines > 1 else None


def place_of(config: Config, launch: AccelerateLaunch, name: str) -> tuple[KeyPath | None, Span]:
    """Where a setting is; if a flag sets it, the type of the run."""
    setting = launch.setting(name)
    if setting.path is not None and setting.member is not None:
        return setting.path, setting.member.value.span
    kind = launch.root.member("distributed_type")
    return (None, config.document_start) if kind is None else (("distributed_type",), kind.value.span)


def _unless(config: Config, flag: str) -> str:
    return "" if config.facts.launch is not None else f", unless the command line has `--{flag}`"


def _launched(config: Config) -> list[Related]:
    launch = config.facts.launch
    return [] if launch is None else [Related(launch.place, "launched here", launch.document.path)]
