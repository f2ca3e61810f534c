"""Write ``schemas/allowances.json`` from what part ``memory`` has measured.

    python -m tools.gpu.allowances [FOLDER]     by default tools/gpu/results

What a run holds beside its tensors is what the driver says of its process less what torch has reserved for tensors; it
counts as the context, with the kernels that were loaded and what else the libraries keep. The workspaces of the matrix
libraries lie in torch's own allocator, which tells them. Fragmentation is what the allocator needed beyond what was
allocated at the most, as a share of that, when it might reserve no more. Where that was not tried, it is what was
reserved with room, which is more, so that it counts as no more than the most that any run needed; and only of large
runs: segments are rounded up to sizes that small runs do not fill.

A kind that was not measured keeps its record. Communication is one until several ranks have been measured: a group of
one has no buffers for peers, so that its figure says nothing of those.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.gpu.setting import Result

STORE = Path(__file__).parents[2] / "schemas" / "allowances.json"
RESULTS = Path(__file__).parent / "results"
MORE = 1.5  # what cards, drivers and releases that were not measured may take more than the most of those that were
_MIB = 2**20
_LARGE = 10e9  # bytes of tensors
_WITH_ROOM = "fragmentation with room"
_STEADY = "second step"  # everything is loaded, and nothing is gathered to be saved


class Refused(Exception):  # noqa: N818 - an answer, not an accident
    """Why results are not taken; the message is a sentence."""


class Figure(NamedTuple):
    """One measured figure, and the machine of it."""

    kind: str
    value: float
    machine: Result


def figures(content: Result) -> Iterator[Figure]:
    """The figures of one results file."""
    machine = content["machine"]
    for item in content["items"]:
        if item["status"] == "measured":
            found = _of_run(item) if "setup" in item else _alone(item)
            yield from (Figure(kind, value, machine) for kind, value in found)


def _alone(item: Result) -> Iterator[tuple[str, float]]:
    """Of what was measured by itself."""
    bare = _beside(item["context"])
    if bare is not None:
        yield "context", bare
    if "workspaces" in item:
        yield "matrix_workspaces", item["workspaces"]
    if item.get("ranks", 1) > 1:
        after = _beside(item["after"])
        if bare is not None and after is not None:
            yield "communication", after - bare


def _of_run(item: Result) -> Iterator[tuple[str, float]]:
    """Of a training run."""
    observed = item["observed"]
    beside = _beside(observed[_STEADY])
    if beside is not None:
        yield "context", beside
    yield "matrix_workspaces", item["workspaces"]
    reserved = max(reading["peak_reserved"] for reading in observed.values())
    allocated = max(reading["peak_allocated"] for reading in observed.values())
    if "needed_beyond_tensors" in item:
        yield "fragmentation", item["needed_beyond_tensors"]
    elif allocated >= _LARGE:
        yield _WITH_ROOM, (reserved - allocated) / allocated


def _beside(reading: Result) -> float | None:
    """What a process takes beside what torch has reserved; None if the driver does not tell."""
    now = reading["process"] if reading["process"] is not None else reading["device"]
    return None if now is None else float(now - reading["reserved"])


def updated(store: Result, results: Iterable[Result]) -> Result:
    """The store with a measured record for each kind of which there are figures."""
    found = [*_bounded([figure for content in results for figure in figures(content)])]
    return {
        kind: _record(record, mine) if (mine := [one for one in found if one.kind == kind]) else record
        for kind, record in store.items()
    }


def _bounded(found: Sequence[Figure]) -> Iterator[Figure]:
    """The figures, in which what was reserved with room is fragmentation up to the most that was needed."""
    most = max((one.value for one in found if one.kind == "fragmentation"), default=math.inf)
    for one in found:
        yield Figure("fragmentation", min(one.value, most), one.machine) if one.kind == _WITH_ROOM else one


def _record(before: Result, found: Sequence[Figure]) -> Result:
    """The least stays where it was lower, and 0 for a share: other cards take less, and less is split."""
    values = [one.value for one in found]
    unit = before["unit"]
    step = _MIB if unit == "bytes" else 0.001
    rounded = "whole MiB" if unit == "bytes" else "thousandths"
    return {
        "unit": unit,
        "least": min(before["least"], _in(step, math.floor(min(values) / MORE / step))),
        "likely": _in(step, round(statistics.median(values) / step)),
        "most": _in(step, math.ceil(round(max(values) * MORE / step, 6))),
        "source": {
            "kind": "measured",
            **{name: _joined(one.machine[name] for one in found) for name in ("gpu", "driver")},
            "torch": _joined(one.machine["versions"]["torch"] for one in found),
            "date": max(one.machine["date"] for one in found),
            "setups": len(found),
            "rule": f"in {rounded}: the likely figure is the median, the most {MORE:g} times the highest, and the "
            f"least the lowest divided by {MORE:g}, or what documents say if that is less: for cards, drivers and "
            "releases that were not measured",
        },
    }


def _in(step: float, count: int) -> float:
    """So many steps, without the noise of a product of fractions."""
    return count * _MIB if step == _MIB else max(0.0, round(count * step, 3))


def _joined(names: Iterable[Any]) -> str:
    return ", ".join(sorted({str(name) for name in names}))


def read(folder: Path) -> list[Result]:
    """The results below a folder; raises Refused."""
    found = []
    for path in sorted(folder.glob("**/memory*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["part"] != "memory":
            raise Refused(f"{path} has the results of another part, {content['part']}")
        if content["machine"]["rehearsal"] or not content["machine"]["gpu"]:
            raise Refused(f"{path} is from a rehearsal, which has measured no GPU")
        found.append(content)
    if not found:
        raise Refused(f"there are no results of part memory below {folder}")
    return found


def main(arguments: Sequence[str] | None = None, store: Path = STORE) -> int:
    """Write the store; 1 if results are refused."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.gpu.allowances", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        results = read(options.folder)
    except Refused as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    known = updated(json.loads(store.read_text(encoding="utf-8")), results)
    store.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8", newline="\n")
    for kind, record in known.items():
        bounds = " / ".join(f"{record[name]:g}" for name in ("least", "likely", "most"))
        sys.stdout.write(f"{kind}: {bounds} {record['unit']}, {record['source']['kind']}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
