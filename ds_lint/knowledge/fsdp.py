"""What a release of torch has for FSDP: modules, names, and how they are called."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import FsdpFacts
    from ds_lint.targets.pin import Pin


def newest_release(pin: Pin | None) -> str | None:
    """The newest release of torch in the store that a project may use; None if it uses others."""
    releases = tables.load("fsdp")["releases"]
    possible = allowed(pin.specifier, releases) if pin is not None else releases
    return possible[-1] if possible else None


class FsdpNames:
    """The names of one release."""

    __slots__ = ("_names", "_number", "_releases", "is_known", "release")

    def __init__(self, pin: Pin | None) -> None:
        store = tables.load("fsdp")
        known = newest_release(pin)
        self._releases = store["releases"]
        self.is_known = known is not None  # else the newest stands in, for what no release has changed
        self.release = known or self._releases[-1]
        self._number = self._releases.index(self.release)
        self._names = store["names"]

    def facts(self, name: str) -> FsdpFacts | None:
        """What the release has under a full name; None if it has nothing."""
        record = self._names.get(name)
        if record is None or "runs" not in record:
            return record
        for run in record["runs"]:
            since, until = run.get("since", self._releases[0]), run.get("until", self._releases[-1])
            if self._releases.index(since) <= self._number <= self._releases.index(until):
                return run
        return None

    def is_public(self, module: str) -> bool:
        """Whether the names of a module are known: those of a private one are not."""
        return any(name.startswith(f"{module}.") for name in self._names)

    def span(self, name: str) -> tuple[str | None, str | None]:
        """The first and the last release with a name, None where there is no such bound; both None if none has it."""
        record = self._names.get(name)
        runs = record.get("runs", []) if record is not None else []
        if not runs:
            return None, None
        first = runs[0].get("since", self._releases[0])
        return first if first != self._releases[0] else None, runs[-1].get("until")

    def releases_with(self, name: str, keyword: str) -> tuple[str | None, str | None]:
        """The first later release in which a callable takes a keyword, and the last earlier one that took it."""
        record = self._names.get(name)
        later = earlier = None
        for run in record.get("runs", []) if record is not None else ():
            if keyword in run.get("parameters", ()):
                since, until = run.get("since", self._releases[0]), run.get("until", self._releases[-1])
                if self._releases.index(since) > self._number:
                    later = later or since
                elif self._releases.index(until) < self._number:
                    earlier = until
        return later, earlier
