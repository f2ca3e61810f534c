"""The environment in which a release of a library runs: itself, releases of others, and what fits to them.

What a release demands is read from its metadata and, where these are not enough beside the libraries of today, from
``environments.json``. What is installed and fits is used; what does not fit is installed into a folder of the cache,
without touching the environment. torch is always the one that is installed, since other builds take gigabytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tools.extract.releases import UnavailableError, reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tools.releases_of.trees import Trees

TABLE = Path(__file__).parent / "environments.json"
NEVER_INSTALLED = re.compile(r"torch|triton|nvidia-.*|pynvml")  # but torch, all that only a GPU needs


class Need(NamedTuple):
    """A row of ``environments.json``: what the releases of a stretch need, and why."""

    why: str
    requires: str | None = None
    beside: str | None = None  # a release of another library, unless one is given
    stand_in: str | None = None
    since: str | None = None
    until: str | None = None

    def is_of(self, release: str) -> bool:
        """Whether a release is in the stretch."""
        number = Version(release)
        return not (
            (self.since is not None and number < Version(self.since))
            or (self.until is not None and number > Version(self.until))
        )


class Environment(NamedTuple):
    """What a rank needs to run a claim."""

    paths: list[Path]  # in front of all others on the path, the release itself first
    stand_ins: list[str]


def needs() -> dict[str, list[Need]]:
    """The table, by library."""
    content = json.loads(TABLE.read_text(encoding="utf-8"))
    return {library: [Need(**row) for row in rows] for library, rows in content.items()}


def fit(releases: Mapping[str, str], trees: Trees) -> Environment:
    """The environment for releases of one or more libraries, the first of which is the one in question."""
    table = needs()
    rows = [row for library, release in releases.items() for row in table.get(library, []) if row.is_of(release)]
    companions = dict(row.beside.split("==") for row in rows if row.beside)
    releases = {**releases, **{one: release for one, release in companions.items() if one not in releases}}
    unpacked = [trees.tree(library, release) for library, release in releases.items()]
    wanted = {row.requires for row in rows if row.requires}
    for tree in unpacked:
        wanted |= set(_unmet(distributions(path=[str(tree)]), releases))
    paths = [*unpacked, installed(wanted, releases, trees.cache.absolute())] if wanted else unpacked
    own = installed_release("deepspeed")
    if own is not None and "deepspeed" not in releases:  # the claim may import that of this environment
        rows += [row for row in table["deepspeed"] if row.is_of(own) and row.stand_in]
    return Environment(paths, [row.stand_in for row in rows if row.stand_in])


def installed(requirements: Iterable[str], beside: Mapping[str, str], cache: Path) -> Path:
    """A folder of the cache with what meets the requirements, and what that demands in turn."""
    wanted = sorted(requirements)
    name = hashlib.sha256("\n".join([sys.version, *wanted, "", *sorted(beside)]).encode()).hexdigest()
    target = cache / "installed" / name[:16]
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            unfinished = Path(folder) / "unfinished"
            known: dict[str, str] = dict(beside)
            missing = wanted
            while missing:
                _install(missing, unfinished)
                found = list(distributions(path=[str(unfinished)]))
                known |= {canonicalize_name(one.name): one.version for one in found}
                missing = sorted(set(_unmet(found, known)))
            unfinished.rename(target)  # an installation that is interrupted leaves no half behind
    return target


def installed_release(library: str) -> str | None:
    """The release of a library in this environment."""
    try:
        return version(library).partition("+")[0]
    except PackageNotFoundError:
        return None


def _unmet(found: Iterable[Distribution], beside: Mapping[str, str]) -> Iterator[str]:
    """What distributions require and neither the releases beside them nor this environment have."""
    for distribution in found:
        for line in distribution.requires or ():
            try:
                requirement = Requirement(line)
            except InvalidRequirement:  # of a time when pip took more
                continue
            name = canonicalize_name(requirement.name)
            if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
                continue
            present = beside.get(name) or installed_release(name)
            fits = present and (name in beside or requirement.specifier.contains(present, prereleases=True))
            if not fits and not NEVER_INSTALLED.fullmatch(name):
                yield f"{name}{requirement.specifier}"


def _install(requirements: Iterable[str], target: Path) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    command += ["--no-deps", "--ignore-requires-python", "--target", str(target), *requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(reason(done.stderr))
