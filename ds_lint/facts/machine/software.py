"""Python, the system, and the releases that are installed where the project trains, with what the project pins."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from typing import NamedTuple

from ds_lint.targets.distributions import training_environment, version_in_metadata
from ds_lint.targets.project import pins
from ds_lint.targets.releases import allowed
from ds_lint.targets.text import shown, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.targets.pin import Pin

# What reports of these libraries name, in this order; a star stands for the major release of CUDA in the name.
NAMED = (
    "deepspeed", "transformers", "accelerate", "torch", "peft", "trl", "numpy", "nvidia-nccl-*", "triton", "pydantic",
    "huggingface-hub", "tokenizers", "safetensors", "datasets", "lightning", "pytorch-lightning", "axolotl",
    "llamafactory", "ms-swift", "bitsandbytes", "flash-attn", "xformers", "apex", "liger-kernel", "deepspeed-kernels",
    "torchvision", "nvidia-cuda-runtime-*", "nvidia-cuda-runtime", "nvidia-cudnn-*", "hjson", "ninja", "py-cpuinfo",
    "mpi4py", "wandb",
)  # fmt: skip
_METADATA = re.compile(r"(?P<name>[A-Za-z0-9._]+?)(?:-(?P<release>[A-Za-z0-9.+!_]+)(?:-py[\d.]+)?)?\.(?:dist|egg)-info")
_OF_CUDA = re.compile(r"-cu\d+\Z")
_OS_RELEASE = "/etc/os-release"
_OF_CONTAINERS = (("/.dockerenv", "Docker"), ("/run/.containerenv", "Podman"), ("/.singularity.d", "Singularity"))


class Installed(NamedTuple):
    """A distribution: its release, and what is special about where it comes from."""

    name: str
    release: str
    origin: str = ""  # "commit 1a2b3c of https://...", "editable"
    pinned: str | None = None  # by the project, if another release is pinned: the specifier and its place


class Software(NamedTuple):
    """What runs a training here; None is not known."""

    python: str | None
    system: str
    distribution: str | None  # of the system
    container: str | None
    environment: str  # the folder that the libraries are in
    installed: list[Installed]
    missing: list[Installed]  # what the project pins and the environment lacks


def software(directory: str) -> Software:
    """The software that the project around a directory trains with."""
    paths = training_environment(directory) or list(sys.path)
    found = dict(_releases_on(paths))
    pinned = pins(directory)
    names = sorted((name for name in found if _place(name) is not None), key=lambda name: (_place(name), name))
    installed = [found[name]._replace(pinned=_other(found[name], pinned.get(name))) for name in names]
    lacking = [Installed(name, "", pinned=_stated(pin)) for name, pin in pinned.items() if name not in found]
    return Software(
        _python_of(paths),
        platform.platform(),
        _name_of_system(),
        _container(),
        _folder(paths, installed),
        installed,
        lacking,
    )


def _releases_on(paths: Sequence[str]) -> Iterator[tuple[str, Installed]]:
    """The distributions on an import path, the last of each name first: Python imports the first on its path."""
    for path in reversed(paths):
        try:
            names = os.listdir(path or os.curdir)
        except OSError:  # an archive, or not there at all
            continue
        for name in names:
            if (found := _METADATA.fullmatch(name)) is not None:
                called = re.sub(r"[._]+", "-", found["name"]).lower()
                whole = os.path.join(path, name)
                release = found["release"] or version_in_metadata(whole)  # of a source tree
                yield called, Installed(called, release, _origin(whole))


def _place(name: str) -> int | None:
    """Where a distribution is named; None if it is not."""
    general = _OF_CUDA.sub("-*", name)
    return NAMED.index(general) if general in NAMED else None


def _origin(metadata: str) -> str:
    """Where a distribution was installed from, if not from an index (``direct_url.json`` of PEP 610)."""
    try:
        stated = json.loads(text_of(os.path.join(metadata, "direct_url.json")) or "{}")
        commit = stated.get("vcs_info", {}).get("commit_id")
        is_editable = stated.get("dir_info", {}).get("editable")
    except (ValueError, AttributeError, RecursionError):
        return ""
    if isinstance(commit, str):
        return f"commit {commit[:12]} of {stated.get('url')}"
    return "editable" if is_editable is True else ""


def _other(installed: Installed, pin: Pin | None) -> str | None:
    """What the project pins, if the installed release is another one."""
    if pin is None or pin.is_installed or not pin.specifier:
        return None
    release = installed.release.partition("+")[0]
    return None if allowed(pin.specifier, [release]) else _stated(pin)


def _stated(pin: Pin) -> str:
    return f"{pin.specifier or 'no release'} in {pin.source}"


def _folder(paths: Sequence[str], installed: Sequence[Installed]) -> str:
    """The folder that has the libraries, of those of an import path."""
    for path in paths:
        if any(name.startswith("deepspeed-") or name == "torch" for name in _names_in(path)):
            return shown(path)
    return shown(next((path for path in paths if installed and _names_in(path)), sys.prefix))


def _names_in(path: str) -> list[str]:
    try:
        return os.listdir(path or os.curdir)
    except OSError:
        return []


def _python_of(paths: Sequence[str]) -> str | None:
    """The release of Python of an environment, by its files if it is not the one that runs."""
    if list(paths) == sys.path:
        return platform.python_version()
    for path in paths:
        prefix = os.path.dirname(os.path.dirname(os.path.dirname(path)))
        for line in text_of(os.path.join(prefix, "pyvenv.cfg")).splitlines():
            name, _, value = line.partition("=")
            if name.strip() in ("version", "version_info"):
                return value.strip()
        if (found := re.search(r"python(3\.\d+)", path)) is not None and os.path.isdir(path):
            return found[1]
    return None


def _name_of_system() -> str | None:
    for line in text_of(_OS_RELEASE).splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip().strip("\"'")
    return None


def _container() -> str | None:
    """What the processes here are contained in, by its files; None if no file tells."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "Kubernetes"
    return next((name for path, name in _OF_CONTAINERS if os.path.exists(path)), None)
