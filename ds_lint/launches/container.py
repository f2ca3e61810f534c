"""The container that a command or a service starts: its memory, and /dev/shm, which its processes have in common.

Sources: the references of ``docker run`` and of the Compose file, "Resource Management for Pods and Containers" and
"emptyDir" of Kubernetes. What lies in /dev/shm counts as memory of the container, too.
"""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.launchers import by_program
from ds_lint.source.shell.runners import RUNNERS, SHELLS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.launches.word import Word
    from ds_lint.source.tree import Node

_PROGRAMS = ("docker", "nerdctl", "nvidia-docker", "podman")
_STARTED = {*by_program(), *SHELLS, "python", "python3"}  # within the container
DEFAULT = 64 * 2**20  # bytes of /dev/shm, unless the daemon has another `default-shm-size`
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?) ?([bkmgtp]?)(i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "p": 2**50}
_QUANTITY = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)(m|k|[KMGTPE]i?|e\d{1,2})?")  # of Kubernetes
_OF_QUANTITY = {"m": 1e-3, "k": 1e3, **{unit: 1e3**power for power, unit in enumerate("KMGTPE", 1)}}
_OF_QUANTITY |= {f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)}
_OWN = ("", "private", "shareable")  # of `--ipc`: a /dev/shm of its own
_SHM = "/dev/shm"  # noqa: S108 - in the container


class Container(NamedTuple):
    """A container around a launch; ``memory`` and ``shared_memory`` are bytes, None if they are not known.

    ``started_by`` is what starts it, in words. A container without a limit has no ``memory``.
    """

    started_by: str
    memory: int | None = None
    shared_memory: int | None = None

    @property
    def is_small(self) -> bool:
        """Whether /dev/shm has its default size, or less."""
        return self.shared_memory is not None and self.shared_memory <= DEFAULT


def of_command(words: Sequence[Word]) -> Container | None:
    """The container that ``docker run`` or the like starts; None if the command starts none."""
    at = next((at for at, word in enumerate(words) if posixpath.basename(word or "") in _PROGRAMS), None)
    if at is None or words[at + 1 : at + 2] != ["run"]:  # a file has the sizes for `docker compose run`
        return None
    behind = words[at:]
    end = next((end for end, word in enumerate(behind) if posixpath.basename(word or "") in _STARTED), len(behind))
    may_have_more = any(word is None and not _takes_word(before) for before, word in pairwise(behind[:end]))
    given = [word or "" for word in behind[:end]]
    memory = _bytes(_value(given, "--memory", "-m"))
    return Container(f"{posixpath.basename(given[0])} run", memory, None if may_have_more else _shared_memory(given))


def of_pod(pod: Node, container: Node) -> Container:
    """A container of a pod of Kubernetes, which is a node of the launch."""
    limit = _at(container, "resources", "limits", "memory")
    memory = _quantity(str(limit.value)) if limit is not None else None
    shares = _at(pod, "hostIPC")
    mounted = next((one for one in _items(container.get("volumeMounts")) if _is_at_shm(one)), None)
    if mounted is None:
        return Container("Kubernetes", memory, DEFAULT if shares is None or shares.value is not True else None)
    name = mounted.get("name")
    volumes = (one for one in _items(pod.get("volumes")) if name is not None and _says(one.get("name"), name.value))
    volume = next(volumes, None)
    room = _at(volume, "emptyDir", "sizeLimit") if volume is not None else None
    return Container("Kubernetes", memory, _quantity(str(room.value)) if room is not None else None)


def of_service(service: Node) -> Container:
    """A service of Compose."""
    limit = _at(service, "deploy", "resources", "limits", "memory") or service.get("mem_limit")
    memory = _bytes(str(limit.value)) if limit is not None else None
    room, ipc = service.get("shm_size"), service.get("ipc")
    is_mounted = any(
        _SHM in str((one.get("target") or one).value if one.kind == "object" else one.value)
        for key in ("volumes", "tmpfs")
        if (node := service.get(key)) is not None
        for one in (node.items if node.kind == "array" else [node])
    )
    if is_mounted or (ipc is not None and ipc.value not in _OWN):
        return Container("Compose", memory)
    return Container("Compose", memory, DEFAULT if room is None else _bytes(str(room.value)))


def _shared_memory(given: list[str]) -> int | None:
    """The bytes of /dev/shm by the words of a command."""
    if any(_SHM in word for word in given) or _value(given, "--ipc") not in _OWN:  # a mount of it
        return None
    size = _value(given, "--shm-size")
    return _bytes(size) if size else DEFAULT


def _is_at_shm(mount: Node) -> bool:
    path = mount.get("mountPath")
    return path is not None and str(path.value).rstrip("/") == _SHM


def _at(node: Node, *path: str) -> Node | None:
    found: Node | None = node
    for name in path:
        found = found.get(name) if found is not None and found.kind == "object" else None
    return found


def _items(node: Node | None) -> Iterator[Node]:
    yield from (item for item in (node.items if node is not None else ()) if item.kind == "object")


def _says(node: Node | None, value: object) -> bool:
    return node is not None and node.value == value


def _takes_word(option: Word) -> bool:
    return option is not None and option.startswith("-") and (RUNNERS["docker"].words_of(option) or 0) > 1


def _value(words: list[str], *options: str) -> str:
    """The last value of an option."""
    found = ""
    for word, behind in zip(words, [*words[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name in options:
            found = value if sign else behind
    return found


def _bytes(size: str) -> int | None:
    """The bytes of ``64g``, as Docker reads sizes; None for another text, and for 0, which limits nothing."""
    match = _SIZE.fullmatch(size)
    return int(float(match[1]) * _UNITS[match[2].lower()]) or None if match is not None else None


def _quantity(text: str) -> int | None:
    """The bytes of ``64Gi`` or ``64G``, as Kubernetes reads quantities."""
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return None
    unit = match[2] or ""
    return int(float(match[1]) * (float(f"1{unit}") if unit.startswith("e") else _OF_QUANTITY.get(unit, 1)))
