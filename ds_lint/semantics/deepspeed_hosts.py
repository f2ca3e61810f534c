"""What ``deepspeed`` does with a hostfile and its options: the GPUs of each node, or why it raises.

Sources: ``main``, ``parse_inclusion_exclusion`` and ``apply_num_nodes_and_gpus`` in ``deepspeed/launcher/runner.py``,
and the backends in ``deepspeed/launcher/multinode_runner.py``.
"""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.record import Record
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ds_lint.diagnostics.finding import Severity

    Gpus = dict[str, list[int]]

_PDSH, _SLURM = "pdsh", "slurm"
_LOCALHOST = "localhost"
_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Request(Record):
    """What a launch passes to ``deepspeed``: its options by their long names, None for a value that is not known.

    ``slots`` are those of the hostfile; None if it is not known what is in it. ``is_local`` says that there is none.
    ``visible`` is the value of CUDA_VISIBLE_DEVICES, empty if it is not set, and None if it is not known.
    """

    options: Mapping[str, str | None]
    slots: tuple[tuple[str, int], ...] | None
    is_local: bool
    visible: str | None = ""

    def has(self, name: str) -> bool:
        """Whether an option is given."""
        return name in self.options

    def text(self, name: str) -> str:
        """The value of an option; empty if it is not given, or not known."""
        return self.options.get(name) or ""

    @property
    def launcher(self) -> str:
        """The backend; empty if it is not known."""
        return (self.options.get("launcher", _PDSH) or "").lower()

    def number(self, name: str) -> int | None:
        """The number that an option gives."""
        return count(self.options.get(name))


class RefusedHosts(Record):
    """Why ``deepspeed`` raises: the exception, what is wrong, and what to write instead.

    Without an exception it starts, on other nodes than requested. Some machines have a hostfile that
    DeepSpeed reads without an option: what it may decide has another ``severity``.
    """

    error: str
    reason: str
    advice: str
    severity: Severity | None = None

    @property
    def raised(self) -> str:
        """The exception with its article."""
        return f"{'an' if self.error[:1] in ('A', 'I') else 'a'} {self.error}"


class _Filter(Record):
    """``--include`` or ``--exclude``, as it is shown, with its value."""

    shown: str
    value: str
    is_include: bool


def refusal(request: Request, does: Callable[[str], bool]) -> RefusedHosts | None:
    """Why a release raises over a request, by the behaviours that it ``does``; None if it does not, or may not."""
    chosen = _filter_of(request, does)
    numbers = [f"--{name}" for name in ("num_nodes", "num_gpus") if request.number(name) is not None]
    if chosen is not None and numbers:
        return _both(chosen, numbers[0])
    if request.text("include") and request.text("exclude"):
        return RefusedHosts("ValueError", "`--include` cannot be used together with `--exclude`", "Delete one of them.")
    nodes = request.number("num_nodes")
    if request.is_local and nodes is not None and nodes > 1:
        return RefusedHosts(
            "ValueError",
            f"`--num_nodes {nodes}` needs a hostfile, which is missing unless /job/hostfile exists",
            "Add `--hostfile FILE` with a line `HOST slots=N` for each node, or start one node with `--num_nodes 1`.",
        )
    if chosen is not None:
        refused = _misread(chosen) or _not_there(request, chosen, does)
        if refused is not None:
            return refused
    gpus = _gpus(request, chosen, does)
    if gpus is None:
        return None
    if not gpus and chosen is not None:
        return RefusedHosts(
            "IndexError", f"{chosen.shown} leaves no node", "Name the nodes and slots that the ranks are to run on."
        )
    return (
        _of_slurm(request, gpus, does)
        or _rank_of_node(request, gpus)
        or _of_backend(request, chosen, gpus)
        or _left_out(chosen, does)
        or _too_many_nodes(request, gpus)
    )


def nodes_of(request: Request, does: Callable[[str], bool]) -> int | None:
    """On how many nodes ``deepspeed`` starts ranks; None if that is not known."""
    gpus = _gpus(request, _filter_of(request, does), does)
    return len(gpus) if gpus is not None else None


def _filter_of(request: Request, does: Callable[[str], bool]) -> _Filter | None:
    """The filter that counts; without one, CUDA_VISIBLE_DEVICES becomes ``--include localhost:VALUE``."""
    for name in ("include", "exclude"):
        value = request.text(name)
        if value:
            return _Filter(f"`--{name} {value}`", value, name == "include")
    if not request.is_local or not request.visible or request.has("include") or request.has("exclude"):
        return None
    for name, most in (("num_nodes", 1), ("num_gpus", 0)):
        if request.has(name) and ((number := request.number(name)) is None or number > most):
            return None
    if not does("visible-devices-are-included"):
        return None
    return _Filter(f"{_VISIBLE}={request.visible}", f"{_LOCALHOST}:{request.visible}", is_include=True)


def _both(chosen: _Filter, option: str) -> RefusedHosts:
    if chosen.shown.startswith(_VISIBLE):
        return RefusedHosts(
            "ValueError",
            f"{chosen.shown} counts as `--include`, which cannot be used together with `{option}`",
            f"Delete `{option}`, or the variable.",
        )
    name = chosen.shown.strip("`").partition(" ")[0]
    return RefusedHosts(
        "ValueError", f"`{option}` cannot be used together with `{name}`", f"Delete `{option}`, or `{name}`."
    )


def _misread(chosen: _Filter) -> RefusedHosts | None:
    """A filter with a slot that is not a number (``parse_node_config``)."""
    for node in chosen.value.split("@"):
        host, sign, slots = node.partition(":")
        if ":" in slots:
            return RefusedHosts(
                "ValueError",
                f"{chosen.shown} has two colons in {node}",
                "Write HOST:SLOT,SLOT, and `@` between nodes.",
            )
        for slot in slots.split(",") if sign else ():
            if _integer(slot) is None:
                what = f"`{slot}`" if slot else "an empty word"
                advice = (
                    "Write the indices that nvidia-smi shows, or start the script with `torchrun`, which leaves the "
                    "variable to CUDA."
                    if chosen.shown.startswith(_VISIBLE)
                    else f"Write the numbers of the slots, as in {host}:0,1,2,3."
                )
                shown = _VISIBLE if chosen.shown.startswith(_VISIBLE) else chosen.shown
                return RefusedHosts("ValueError", f"{shown} has {what} where a number is expected", advice)
    return None


def _not_there(request: Request, chosen: _Filter, does: Callable[[str], bool]) -> RefusedHosts | None:
    """A host or a slot that the hostfile does not have; without one, the only host is localhost."""
    slots = {_LOCALHOST: None} if request.is_local else dict(request.slots) if request.slots is not None else None
    if slots is None:
        return None
    for host, named in _named(chosen.value).items():
        if host not in slots:
            if request.is_local:
                return RefusedHosts(
                    "ValueError",
                    f"{chosen.shown} names {host}, and without a hostfile the only host is {_LOCALHOST}",
                    f"Write {_LOCALHOST}:{','.join(map(str, named)) or 'SLOT'}, or name the hostfile with "
                    "`--hostfile`. Without the option, DeepSpeed reads /job/hostfile if there is one.",
                    severity="info" if host[:1].isalpha() else None,
                )
            return RefusedHosts(
                "ValueError",
                f"{chosen.shown} names {host}, which is not in the hostfile",
                f"Add {host} to the hostfile.",
            )
        if chosen.is_include and does("include-is-taken-as-it-is"):
            continue
        number = slots[host]
        for slot in named:
            if slot < 0 or (number is not None and slot >= number):
                has = f", which has {number} in the hostfile" if number is not None else ""
                choose = f"Choose slots from 0 to {number - 1}." if number else "Slots are counted from 0."
                return RefusedHosts("ValueError", f"{chosen.shown} names slot {slot} of {host}{has}", choose)
    return None


def _left_out(chosen: _Filter | None, does: Callable[[str], bool]) -> RefusedHosts | None:
    """A node without slots, which some releases leave out."""
    if chosen is None or not chosen.is_include or not does("include-is-taken-as-it-is"):
        return None
    bare = next((host for host, slots in _named(chosen.value).items() if not slots), None)
    if bare is None:
        return None
    return RefusedHosts(
        "",
        f"{chosen.shown} names {bare} without slots, which leaves it out of the run",
        f"Write its slots, as in {bare}:0,1.",
    )


def _too_many_nodes(request: Request, gpus: Gpus) -> RefusedHosts | None:
    """More nodes than the hostfile has: the run starts on those that it has."""
    nodes = request.number("num_nodes")
    if request.is_local or nodes is None or nodes <= len(gpus):
        return None
    has = "1 host" if len(gpus) == 1 else f"{len(gpus)} hosts"
    return RefusedHosts(
        "",
        f"`--num_nodes {nodes}` exceeds the {has} of the hostfile: the run starts on {len(gpus)}",
        f"Add the other hosts to the hostfile, or write `--num_nodes {len(gpus)}`.",
        severity="warning",
    )


def _rank_of_node(request: Request, gpus: Gpus) -> RefusedHosts | None:
    """``--no_ssh`` without the number of this node."""
    given = request.options.get("node_rank", "-1")
    if not request.has("no_ssh") or given is None:
        return None
    rank = _integer(given)
    if rank is not None and 0 <= rank < len(gpus):
        return None
    number = f"`--node_rank {given}`" if request.has("node_rank") else "no `--node_rank`"
    most = f" from 0 to {len(gpus) - 1}" if len(gpus) > 1 else " 0"
    return RefusedHosts(
        "AssertionError",
        f"`--no_ssh` has {number}, and there {'is 1 node' if len(gpus) == 1 else f'are {len(gpus)} nodes'}",
        f"Give each node its own number{most} with `--node_rank`.",
    )


def _of_backend(request: Request, chosen: _Filter | None, gpus: Gpus) -> RefusedHosts | None:
    """What the program behind ``--launcher`` cannot do on several nodes."""
    name = request.launcher
    if not name or request.has("no_ssh") or (len(gpus) < 2 and not request.has("force_multi")):
        return None
    backends = tables.load("launchers")["deepspeed"]["backends"]
    refuses = backends.get(name)
    if refuses is None:
        return RefusedHosts(
            "NotImplementedError",
            f"`--launcher {name}` is none of {', '.join(backends)}",
            f"Write one of them, or delete the option for {_PDSH}.",
        )
    if "filters" in refuses and chosen is not None:
        return RefusedHosts(
            "ValueError",
            f"`--launcher {name}` does not support {chosen.shown}",
            "Leave the other nodes out of the hostfile, and delete the option.",
        )
    numbers = [f"--{option}" for option in ("num_nodes", "num_gpus") if request.number(option) is not None]
    if "numbers" in refuses and numbers:
        return RefusedHosts(
            "ValueError",
            f"`--launcher {name}` does not support `{numbers[0]}`",
            f"Delete `{numbers[0]}`: the hostfile has the nodes and their slots.",
        )
    if "unequal" in refuses and len({slots for _, slots in request.slots or ()}) > 1:
        return RefusedHosts(
            "ValueError",
            f"`--launcher {name}` needs the same number of slots on every host of the hostfile",
            f"Give each host the same slots, or use `--launcher {_PDSH}`.",
        )
    return None


def _of_slurm(request: Request, gpus: Gpus, does: Callable[[str], bool]) -> RefusedHosts | None:
    """Slots that srun cannot request, also on one node."""
    if request.launcher != _SLURM or not does("slurm-checks-slots"):
        return None
    if any(slots != list(range(len(slots))) for slots in gpus.values()):
        return RefusedHosts(
            "ValueError",
            "`--launcher slurm` cannot choose slots of a host",
            "Filter whole hosts, or keep the first slots of every host.",
        )
    if len({len(slots) for slots in gpus.values()}) > 1:
        return RefusedHosts(
            "ValueError",
            "`--launcher slurm` needs the same number of slots on every host",
            "Give each host the same slots in the hostfile and in the filter.",
        )
    return None


def _gpus(request: Request, chosen: _Filter | None, does: Callable[[str], bool]) -> Gpus | None:
    """The slots of each node on which ranks start; None if they are not known."""
    if any(request.has(name) and not request.options[name] for name in ("include", "exclude")):
        return None
    for name in ("num_nodes", "num_gpus"):
        if request.has(name) and _integer(request.options[name]) is None:
            return None
    numbers = request.number("num_nodes"), request.number("num_gpus")
    if request.is_local:
        return _local(chosen, numbers[1], does)
    if request.slots is None:
        return None
    found = {host: list(range(slots)) for host, slots in request.slots}
    if chosen is not None:
        found = _filtered(found, chosen, does)
    if numbers[0]:
        found = dict(list(found.items())[: numbers[0]])
    return {host: list(range(numbers[1])) for host in found} if numbers[1] else found


def _local(chosen: _Filter | None, number: int | None, does: Callable[[str], bool]) -> Gpus:
    """Without a hostfile: one node, on which slot 0 represents all its GPUs."""
    named = _named(chosen.value).get(_LOCALHOST, []) if chosen is not None else None
    is_left_out = named == [] and chosen is not None and (not chosen.is_include or does("include-is-taken-as-it-is"))
    if is_left_out:
        return {}
    return {_LOCALHOST: named if named and chosen is not None and chosen.is_include else list(range(number or 1))}


def _filtered(gpus: Gpus, chosen: _Filter, does: Callable[[str], bool]) -> Gpus:
    named = _named(chosen.value)
    if chosen.is_include:
        of_bare: Gpus = {} if does("include-is-taken-as-it-is") else gpus
        kept = {host: named[host] or of_bare.get(host, []) for host in gpus if host in named}
    else:
        kept = {
            host: [slot for slot in slots if host not in named or (named[host] and slot not in named[host])]
            for host, slots in gpus.items()
        }
    return {host: slots for host, slots in kept.items() if slots}


def _named(value: str) -> Gpus:
    """The slots of each node that a filter names; none means all (``parse_node_config_list``)."""
    found: Gpus = {}
    for node in value.split("@"):
        host, sign, slots = node.partition(":")
        numbers = [number for slot in slots.split(",") if (number := _integer(slot)) is not None] if sign else []
        found[host] = sorted({*found.get(host, ()), *numbers})
    return found


def _integer(text: str | None) -> int | None:
    """What ``int`` makes of a text; None if it raises."""
    try:
        return int(text or "")
    except ValueError:
        return None
