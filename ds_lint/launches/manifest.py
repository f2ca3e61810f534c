"""The launches in the YAML of clusters and services: Kubernetes, SkyPilot, Azure ML, Compose, GitLab, Task, DVC."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.container import Container, of_pod, of_service
from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.launches.surroundings import OF_RANKS
from ds_lint.source.counts import count
from ds_lint.source.shell.unknowns import StandIns
from ds_lint.source.yaml import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.source.tree import Node

    Variables = dict[str, str | None]

_MOST_BYTES = 200_000
_OF_KUBERNETES = re.compile(r"\$\((\w+)\)")
_OF_AZURE = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_GPUS_OF_SKYPILOT = re.compile(r"[\w.-]+:(\d+)")
# What the training operator of Kubeflow sets, which torchrun reads (``env`` in torch/distributed/argparse_util.py).
_NODES, _PROCESSES = "PET_NNODES", "PET_NPROC_PER_NODE"
_HOSTS_OF_MPI = "OMPI_MCA_orte_default_hostfile"


class _ManifestCommand(NamedTuple):
    """A text of the shell that starts so many lines down the file, with its environment."""

    text: str
    lines: int
    variables: Variables
    container: Container | None = None


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of all commands; two replicas that start with the same words are one."""
    if len(text) > _MOST_BYTES:
        return joined([])
    found = []
    for root in documents(text):
        seen = set[tuple[str, str, Container | None]]()
        for command in _commands(root, text):
            if (start := (command.text, repr(command.variables), command.container)) in seen:
                continue
            seen.add(start)
            stand_ins = StandIns()
            script = _OF_AZURE.sub(lambda match: stand_ins.add(match[1].strip()), command.text)  # noqa: B023 - called at once
            started = launches_in(script, path, read, variables=command.variables, stand_ins=stand_ins)
            placed = started.moved(command.lines, path)
            found.append(placed.within(command.container) if command.container is not None else placed)
    return joined(found)


def _commands(root: Node, text: str) -> Iterator[_ManifestCommand]:
    if root.kind != "object":
        return
    if root.get("apiVersion") is not None:
        yield from _of_kubernetes(root, text)
    elif root.get("services") is not None:
        yield from _of_compose(root, text)
    elif root.get("command") is not None:
        yield from _script(root.get("command"), text, dict.fromkeys(OF_RANKS))
    elif root.get("run") is not None:
        variables = _of_skypilot(root)
        yield from _script(root.get("setup"), text, variables)
        yield from _script(root.get("run"), text, variables)
    else:
        yield from _of_jobs(root, text)


def _of_kubernetes(root: Node, text: str) -> Iterator[_ManifestCommand]:
    """The commands of all containers. ``$(NAME)`` is a variable, as in the shell, if the container sets it."""
    common = _of_operator(root)
    for pod, container in _containers(root):
        words = [*_strings(container.get("command")), *_strings(container.get("args"))]
        first = container.get("command") or container.get("args")
        if not words or first is None:
            continue
        variables = dict(common)
        for entry in _items(container.get("env")):
            name, value = entry.get("name"), entry.get("value")
            if name is not None:
                variables[str(name.value)] = str(value.value) if value is not None else None
        line = _line(first, text)
        command = " ".join(_word(word, variables) for word in words)
        yield _ManifestCommand(command, line, variables, of_pod(pod, container))


def _containers(root: Node) -> Iterator[tuple[Node, Node]]:
    """Whatever may be a container, each with the object that lists it, which is the pod."""
    pods = {id(one): pod for pod in _objects(root) for member in pod.members for one in _items(member.value)}
    yield from ((pods.get(id(one), one), one) for one in _objects(root))


def _word(word: str, variables: Variables) -> str:
    """A word of a container's command, for the shell."""
    parts = _OF_KUBERNETES.split(word)
    return "".join(
        (f'"${{{part}}}"' if part in variables else shlex.quote(f"$({part})")) if number % 2 else shlex.quote(part)
        for number, part in enumerate(parts)
        if part or len(parts) == 1
    )


def _of_operator(root: Node) -> Variables:
    """What the training operator sets in the containers of a job."""
    kind, spec = root.get("kind"), root.get("spec")
    replicas = spec.get("pytorchReplicaSpecs") if spec is not None and spec.kind == "object" else None
    if kind is not None and kind.value == "MPIJob":
        return {_HOSTS_OF_MPI: None}
    if spec is None or replicas is None or replicas.kind != "object":
        return {}
    numbers = [member.value.get("replicas") for member in replicas.members if member.value.kind == "object"]
    given = [1 if one is None else count(str(one.value)) for one in numbers]
    nodes = None if None in given or spec.get("elasticPolicy") is not None else sum(one or 0 for one in given)
    written = spec.get("nprocPerNode")
    processes = None if written is None else count(str(written.value))
    ranks: Variables = dict.fromkeys((*OF_RANKS, "PET_MASTER_ADDR", "PET_NODE_RANK"))
    return {
        **ranks,
        _NODES: None if nodes is None else str(nodes),
        _PROCESSES: None if not processes else str(processes),
    }


def _of_compose(root: Node, text: str) -> Iterator[_ManifestCommand]:
    """The commands of the services, with ``$$`` for a dollar of the command itself."""
    services = root.get("services")
    for member in services.members if services is not None and services.kind == "object" else ():
        service = member.value
        parts = [service.get(name) for name in ("entrypoint", "command")] if service.kind == "object" else []
        given = [part for part in parts if part is not None]
        if not given:
            continue
        words = [_of_compose_word(word) for part in given for word in _words(part)]
        yield _ManifestCommand(
            " ".join(words), _line(given[0], text), _environment(service.get("environment")), of_service(service)
        )


def _of_compose_word(word: str) -> str:
    if "$" not in word:
        return shlex.quote(word)
    kept = re.sub(r'(["\\`])', r"\\\1", word).replace("$$", "\\$")
    return f'"{kept}"'


def _words(node: Node) -> list[str]:
    if node.kind == "array":
        return _strings(node)
    try:
        return shlex.split(str(node.value))
    except ValueError:
        return []


def _of_skypilot(root: Node) -> Variables:
    """What SkyPilot sets on each node."""
    variables = {**_environment(root.get("envs")), "SKYPILOT_NODE_RANK": None, "SKYPILOT_NODE_IPS": None}
    nodes, resources = root.get("num_nodes"), root.get("resources")
    variables["SKYPILOT_NUM_NODES"] = str(nodes.value) if nodes is not None else "1"
    chosen = resources.get("accelerators") if resources is not None and resources.kind == "object" else None
    match = _GPUS_OF_SKYPILOT.fullmatch(str(chosen.value)) if chosen is not None and chosen.kind == "string" else None
    variables["SKYPILOT_NUM_GPUS_PER_NODE"] = match[1] if match is not None else None
    return variables


def _of_jobs(root: Node, text: str) -> Iterator[_ManifestCommand]:
    """The jobs of GitLab, the tasks of Task, the stages of DVC."""
    common = _environment(root.get("variables") or root.get("vars"))
    for name in ("tasks", "stages"):
        group = root.get(name)
        if group is not None and group.kind == "object":
            root = group
    before = [item for holder in (root, root.get("default")) for item in _lines_of(holder, "before_script")]
    for member in root.members:
        job = member.value
        if job.kind != "object":
            continue
        variables = {**common, **_environment(job.get("variables") or job.get("vars") or job.get("env"))}
        own = _lines_of(job, "before_script") or before
        for key in ("script", "cmds", "cmd"):
            yield from _joined(
                [*own, *_lines_of(job, key)] if key == "script" else _lines_of(job, key), text, variables
            )


def _lines_of(holder: Node | None, key: str) -> list[Node]:
    """The commands of a list, or the only one."""
    node = holder.get(key) if holder is not None and holder.kind == "object" else None
    if node is None:
        return []
    items = node.items if node.kind == "array" else [node]
    named = [item.get("cmd") if item.kind == "object" else item for item in items]  # as Task has it
    return [one for one in named if one is not None and one.kind == "string"]


def _joined(nodes: list[Node], text: str, variables: Variables) -> Iterator[_ManifestCommand]:
    """The commands of a list in one shell, each in its line."""
    if not nodes:
        return
    start = _line(nodes[0], text)
    script = ""
    for node in nodes:
        missing = _line(node, text) - start - script.count("\n")
        script += "\n" * max(missing, 1 if script else 0) + str(node.value).rstrip("\n")
    yield _ManifestCommand(script, start, variables)


def _script(node: Node | None, text: str, variables: Variables) -> Iterator[_ManifestCommand]:
    if node is not None and node.kind == "string":
        yield _ManifestCommand(str(node.value), _line(node, text), variables)


def _line(node: Node, text: str) -> int:
    """The number of lines before a value."""
    start = node.items[0].span.start if node.kind == "array" and node.items else node.span.start
    return text.count("\n", 0, start) + (1 if text[start : start + 1] in ("|", ">") else 0)


def _environment(node: Node | None) -> Variables:
    """Variables as a mapping, or as ``NAME=value`` in a list."""
    if node is None:
        return {}
    if node.kind == "array":
        pairs = (word.partition("=") for word in _strings(node))
        return {name: value if sign and "$" not in value else None for name, sign, value in pairs}
    if node.kind != "object":
        return {}
    return {
        member.key: str(member.value.value)
        if member.value.kind in ("string", "integer") and "$" not in str(member.value.value)
        else None
        for member in node.members
    }


def _objects(root: Node) -> Iterator[Node]:
    left = [root]
    while left:
        node = left.pop()
        if node.kind == "object":
            yield node
        left += [*reversed(node.items), *(member.value for member in reversed(node.members))]


def _items(node: Node | None) -> list[Node]:
    return [item for item in node.items if item.kind == "object"] if node is not None and node.kind == "array" else []


def _strings(node: Node | None) -> list[str]:
    """The texts of a list of words; numbers and booleans are words, too."""
    if node is None or node.kind != "array":
        return []
    return [str(item.value) for item in node.items if item.kind not in ("object", "array")]
