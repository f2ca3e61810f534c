"""Rules about the machines on which ``accelerate launch`` starts ranks with DeepSpeed's launcher (DS886)."""

from __future__ import annotations

from ds_lint.checks.accelerate_machines import place_of
from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.hostfile import MISSING
from ds_lint.semantics.accelerate.refusals import STANDARD, refusals
from ds_lint.semantics.deepspeed_hosts import Request, refusal
from ds_lint.semantics.related import launched
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config

_LAUNCHER, _HOSTFILE, _NO_SSH = "deepspeed_multinode_launcher", "deepspeed_hostfile", "nossh"
_FILTERS = {"exclude": "deepspeed_exclusion_filter", "include": "deepspeed_inclusion_filter"}  # the first one counts
_ENOUGH = 1024  # slots of a host whose number is not known, so that a filter may name any of them
_HOW = (
    "Write `deepspeed_hostfile: FILE` under `deepspeed_config`, with a line `HOST slots=N` for each machine, and "
    "launch on one of them; or write `deepspeed_multinode_launcher: standard` and launch on each machine."
)


@rule(
    "DS886",
    "machines-train-alone",
    severity="warning",
    effects=("risk", "rejected"),
    kind="accelerate",
)
def machines_train_alone(config: Config) -> Iterator[Problem]:
    """Several machines for DeepSpeed's launcher, which finds no hostfile, or rejects its options.

    Source: ``prepare_deepspeed_cmd_env`` in ``accelerate/utils/launch.py``, which passes on ``--hostfile None``.
    """
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or launch.launcher != "deepspeed" or not launch.is_followed or config.document.is_fragment:
        return
    facts = config.facts.launch
    if launch.is_command or any(not one.can_be_given for one in refusals(launch)):
        return
    given = _given(launch, facts)
    machines, ranks = _number(given["num_machines"]), _number(given["num_processes"])
    if machines is None or machines < 2 or ranks is None or UNKNOWN in given.values() or given[_LAUNCHER] == STANDARD:
        return
    each = ranks // machines
    request = _request(given, each, facts)
    refused = refusal(request, config.knowledge.does)
    is_by_rank = refused is not None and refused.error == "AssertionError"  # only machine 0 has the rank that there is
    if refused is not None and refused.error and not (is_by_rank and request.is_local):
        message = f"`deepspeed` raises {refused.raised} on {machines} machines: {refused.reason}"
        advice = f"{refused.advice} Accelerate passes on `--num_gpus {each}` unless there is a filter."
    elif request.is_local:
        what = f"`num_machines` is {machines} without `deepspeed_hostfile`"
        alone = f"trains alone on {each} rank{'' if each == 1 else 's'}"
        others = f"machine 0 {alone}, the others raise" if request.has("no_ssh") else f"each machine {alone}"
        message, advice, refused = f"{what}: {others}", _HOW, None
    else:
        return
    key, span = place_of(config, launch, "num_machines")
    yield Problem(
        key,
        span,
        message,
        rejected("initialize") if refused is not None else RISK,
        help=advice,
        label="not launched" if refused is not None else "runs of their own",
        severity="error" if refused is not None else None,
        related=[launched(facts, "launched here")] if facts is not None and facts.is_mentioned else [],
        subject=(message,),
    )


def _given(launch: AccelerateLaunch, facts: LaunchFacts | None) -> dict[str, Any]:
    """The settings that decide about machines, of the command line and the file; UNKNOWN where either is not known."""
    names = ("num_machines", "num_processes", "machine_rank", _LAUNCHER, _HOSTFILE, *_FILTERS.values())
    found = {name: launch.value(name) for name in names}
    if facts is None or facts.launch.launcher != "accelerate":
        return found
    around = facts.launch.surroundings
    options: Mapping[str, str | None] = {"num_processes" if name == "n" else name: one for name, one in around.options}
    for name in names:
        if name in options:
            word = options[name]
            number = count(word) if name.startswith("num_") else None
            found[name] = UNKNOWN if word is None else word if number is None else number
    if not around.is_complete:
        found.update({name: UNKNOWN for name in names if found[name] is None})
    if found[_LAUNCHER] not in (_NO_SSH, UNKNOWN):
        del found["machine_rank"]  # which deepspeed does not get, and which a task may compute
    return found


def _request(given: Mapping[str, Any], each: int, facts: LaunchFacts | None) -> Request:
    """What Accelerate gives ``deepspeed``."""
    options: dict[str, str | None] = {}
    if given[_LAUNCHER] == _NO_SSH:
        options |= {"no_ssh": "", "node_rank": str(given["machine_rank"])}
    else:
        options["launcher"] = str(given[_LAUNCHER] or "pdsh")
    chosen = next(((name, given[key]) for name, key in _FILTERS.items() if given[key] is not None), None)
    options |= {"num_gpus": str(each)} if chosen is None else {chosen[0]: str(chosen[1])}
    is_local = given[_HOSTFILE] is None or str(given[_HOSTFILE]) in MISSING
    read = facts.launch.surroundings.hostfile if facts is not None else None
    slots = read.slots if read is not None and read.bad is None else None
    if slots is None and not is_local and given[_LAUNCHER] != "slurm":  # several machines have several lines
        named = [node.partition(":")[0] for node in str(chosen[1]).split("@")] if chosen is not None else []
        others = [] if chosen is not None and chosen[0] == "include" else ["another", "a third"]
        slots = tuple((host, _ENOUGH) for host in dict.fromkeys((*named, *others)))
    return Request(options, slots, is_local)


def _number(value: Any) -> int | None:
    return value if type(value) is int else None
