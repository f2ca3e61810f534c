"""Write docs/gpu.md from what was measured on GPUs: ``python -m tools.gpu.page [--take DIR]``.

``--take`` first copies the results of a run into ``tools/gpu/results/``, a folder for each card and day. Of an item
that was measured several times on a day, the last result counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tools.gpu import record
from tools.gpu.builds import OPS
from tools.gpu.memory_setups import OUT_OF_MEMORY
from tools.gpu.part import SHARES, part_of
from tools.gpu.parts.memory import by_estimate, in_order, whole
from tools.gpu.setting import BAD, ERROR, FAIL, MEASURED, PASS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tools.gpu.setting import Result

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gpu.md"
RESULTS = Path(__file__).parent / "results"
_GIB = 2**30
# What is before the package in the path of a source file; other paths are folders that a run has made.
_FOLDERS = re.compile(r"(?<![\w./])/(?:[\w.+-]+/)+(?=(?:accelerate|deepspeed|ds_lint|peft|tools|torch|transformers)/)")
_INTRODUCTION = """# On a GPU

What `ds-lint check --smoke`, `ds-lint smoke`, `ds-lint memory` and the rules about GPUs say, held against runs on one.
`python -m tools.gpu.page` writes this page from the results in `tools/gpu/results/`;
[Tests](dev/tests.md#on-a-gpu) says how to measure.
"""
_NOTHING = """
ds-lint has not run on a GPU yet. What it says of them follows from the sources of the libraries, and from tests with
injected messages and faults. The command that measures it is rehearsed on CPUs.
"""
_TITLES = {
    "smoke": "Training runs of a config",
    "sabotage": "Broken promises",
    "memory": "Memory",
    "ops": "Ops that DeepSpeed compiles",
    "script": "Scripts of one's own",
    "claims": "Rules about GPUs",
    "one_gpu": "Two ranks on one GPU",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Take results if there are any, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.gpu.page", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--take", type=Path, metavar="DIR", help="what tools/gpu/run has written")
    options = parser.parse_args(arguments)
    if options.take is not None:
        try:
            taken = take(options.take)
        except ValueError as why:
            sys.stderr.write(f"{why}\n")
            return 1
        sys.stdout.write("".join(f"{path.relative_to(ROOT)}\n" for path in taken))
    PAGE.write_text(rendered(RESULTS), encoding="utf-8", newline="\n")
    return 0


def take(folder: Path, into: Path = RESULTS) -> list[Path]:
    """Copy the results of a run, or join them with those of the same card and day; raises ValueError."""
    found = {path: json.loads(_shortened(path.read_text("utf-8"))) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise ValueError(f"{folder} has no results")
    if any(content["machine"]["rehearsal"] for content in found.values()):
        raise ValueError(f"{folder} has the results of a rehearsal, which has measured no GPU")
    taken = []
    for path, content in found.items():
        machine = content["machine"]
        place = into / f"{machine['date']}-{_slug(machine['gpu'])}" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.exists():
            content = _joined(json.loads(place.read_text(encoding="utf-8")), content)  # noqa: PLW2901 - what is kept
        record.write(str(place), content)
        taken.append(place)
    return taken


def _shortened(text: str) -> str:
    """A results file without folders of the machine: a source file is named from its package, ``deepspeed``, on."""
    return _FOLDERS.sub("", text)


def _joined(before: Result, after: Result) -> Result:
    """Two runs of a part: the later one counts for what both have measured."""
    names = {item["name"] for item in after["items"]}
    items = [*(item for item in before["items"] if item["name"] not in names), *after["items"]]
    measured = {item["name"] for item in items}
    left = [name for name in {**dict.fromkeys(before.get("left_out", ())), **dict.fromkeys(after.get("left_out", ()))}
            if name not in measured]  # fmt: skip
    kept = {"builds": before["builds"]} if "builds" in before else {}
    seconds = before.get("seconds", 0) + after.get("seconds", 0)
    return {**kept, **after, "items": items, "left_out": left, "seconds": seconds}


def _slug(gpu: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")


# ------------------------------------------------------------------------------------------------------------ the page


def rendered(results: Path) -> str:
    """The text of the page."""
    machines = [folder for folder in sorted(results.iterdir()) if folder.is_dir()] if results.is_dir() else []
    if not machines:
        return _INTRODUCTION + _NOTHING
    return "\n".join([_INTRODUCTION, *(line for folder in machines for line in _of_machine(folder))]) + "\n"


def _of_machine(folder: Path) -> Iterator[str]:
    parts = {name: content for name in SHARES if (content := record.read(str(folder / f"{name}.json"))) is not None}
    if "memory" in parts:
        parts["memory"] = {**parts["memory"], "items": in_order(parts["memory"]["items"])}
    machine = next(iter(parts.values()))["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    yield f"## {machine['gpu']}, {machine['date']}\n"
    yield (
        f"{machine['gpu_bytes'] / _GIB:.0f} GiB, driver {machine['driver']}, {machine['cores']} cores, "
        f"{machine['host_bytes'] / _GIB:.0f} GiB of host memory; Python {machine['python']}, {versions}.\n"
    )
    yield from _summary(parts)
    for name, content in parts.items():
        yield from _DETAILS[name](name, content)


def _summary(parts: dict[str, Result]) -> Iterator[str]:
    yield "| part | question | items | as expected | not | not measured |"
    yield "|---|---|--:|--:|--:|--:|"
    for name, content in parts.items():
        items = content["items"]
        bad = sum(map(_is_bad, items))
        good = sum(item["status"] in (PASS, MEASURED) and not _is_bad(item) for item in items)
        left = len(items) - good - bad + len(content["left_out"])
        total = len(items) + len(content["left_out"])
        yield f"| {_TITLES[name]} | {part_of(name).QUESTION} | {total} | {good} | {bad} | {left} |"
    yield ""


def _is_bad(item: Result) -> bool:
    """Whether an item is not as expected: what runs out of memory was expected to fit."""
    return item["status"] in (*BAD, OUT_OF_MEMORY) or not all(item.get("within", {}).values())


def _of_ops(name: str, content: Result) -> Iterator[str]:
    yield from _of_runs(name, content)
    if "builds" not in content:
        return
    yield "| op | seconds of its build | |"
    yield "|---|--:|---|"
    order = {op: place for place, op in enumerate(OPS["cuda"])}
    for item in sorted(content["builds"], key=lambda one: order.get(one["op"], len(order))):
        error = "" if item["is_built"] else f"`{_last_line(item['said'])}`"
        yield f"| {item['op']} | {item['seconds']:g} | {error or 'built'} |"
    yield ""


def _of_runs(name: str, content: Result) -> Iterator[str]:
    """Each run that is not as it should be, and how near the arithmetic comes to its bounds."""
    yield f"### {_TITLES[name]}\n"
    seconds = [item["seconds"] for item in content["items"] if item["status"] in (PASS, FAIL)]
    if seconds:
        fresh = sum(bool(item.get("fresh")) for item in content["items"])
        started = f"; in {fresh}, ranks were started instead of forked" if fresh else ""
        yield f"{len(seconds)} runs, {statistics.median(seconds):.1f} s each (median){started}.\n"
    for check in ("averaging", "update"):
        shares = [share for item in content["items"] if (share := _share(item, check)) is not None]
        if shares:
            yield (
                f"`{check}`: the largest difference is {max(shares):.2g} of its tolerance, in the median "
                f"{statistics.median(shares):.2g}, over {len(shares)} runs.\n"
            )
    yield from _bad(content, lambda item: _checks_of(item) or item.get("error") or _missing(item))


def _of_memory(name: str, content: Result) -> Iterator[str]:
    yield f"### {_TITLES[name]}\n"
    runs = [item for item in content["items"] if "observed" in item]
    yield "GiB that the process takes at its peak, and the least, likely and most that `ds-lint memory` says.\n"
    yield "| set-up | phase | measured | said | tensors | said |"
    yield "|---|---|--:|---|--:|---|"
    for item in runs:
        for phase, readings in by_estimate(item["observed"]).items():
            estimate = item["estimate"][phase]
            known = [size for one in readings if (size := whole(one)) is not None]
            tensors = max(one["peak_allocated"] for one in readings)
            yield (
                f"| {item['name']} | {phase} | {_gib(max(known, default=None))} | {_band(estimate['gpu'])} "
                f"| {_gib(tensors)} | {_band(estimate['tensors'])} |"
            )
    yield ""
    within = [is_within for item in runs for is_within in item.get("within", {}).values()]
    if within:
        yield f"{sum(within)} of {len(within)} phases are within the band.\n"
    needed = [item["needed_beyond_tensors"] for item in runs if "needed_beyond_tensors" in item]
    if needed:
        yield (
            f"Of {len(needed)} set-ups that trained again with hardly more memory than their tensors take, the median "
            f"needed {statistics.median(needed):.0%} more, and the last one {max(needed):.0%}.\n"
        )
    yield from _bad(content, lambda item: item.get("error") or _outside(item))


def _of_scripts(name: str, content: Result) -> Iterator[str]:
    yield f"### {_TITLES[name]}\n"
    yield "| script | checks that did not pass | peak, GiB | reserved, GiB | seconds of a step | left behind |"
    yield "|---|---|--:|--:|--:|---|"
    for item in content["items"]:
        measured = item.get("measured") or {}
        peak = max(measured.get("gpu_peaks") or [{}], key=lambda one: one.get("bytes", 0))
        step = measured.get("step_seconds")
        yield (
            f"| {item['name']} | {', '.join(item.get('not_passed', ['could not run'])) or '-'} "
            f"| {_gib(peak.get('bytes'))} | {_gib(peak.get('reserved'))} | {'-' if step is None else f'{step:.3f}'} "
            f"| {', '.join(item.get('left', [])) or '-'} |"
        )
    yield ""
    yield from _bad(content, lambda item: item.get("error") or _checks_of(item))


def _of_claims(name: str, content: Result) -> Iterator[str]:
    yield f"### {_TITLES[name]}\n"
    yield "| rule | what it says | so it is |"
    yield "|---|---|---|"
    for item in sorted((one for one in content["items"] if "claim" in one), key=lambda one: str(one["rule"])):
        answer = {PASS: "yes", FAIL: "**no**", ERROR: "could not run"}.get(item["status"], item["status"])
        yield f"| {item['rule']} | {item['claim']} | {answer} |"
    yield ""
    yield from _bad(content, lambda item: item.get("error") or "it is otherwise")


_DETAILS = {
    "smoke": _of_runs,
    "sabotage": _of_runs,
    "memory": _of_memory,
    "ops": _of_ops,
    "script": _of_scripts,
    "claims": _of_claims,
    "one_gpu": _of_runs,
}


def _bad(content: Result, why: Callable[[Result], str]) -> Iterator[str]:
    """The items that are not as they should be, each with a reason."""
    found = [item for item in content["items"] if _is_bad(item)]
    for item in found:
        yield f"* {item['name']}: {_last_line(str(why(item)))}"
    if found:
        yield ""


def _share(item: Result, check: str) -> float | None:
    """How much of its tolerance the largest difference of a check takes."""
    found = next((one for one in item.get("checks", ()) if one["id"] == check and one["status"] == "pass"), None)
    return float(found["observed"]) if found is not None and isinstance(found["observed"], (int, float)) else None


def _checks_of(item: Result) -> str:
    found = [one for one in item.get("checks", ()) if one["status"] not in ("pass", "skip")]
    return "; ".join(f"`{one['id']}`: {one['message']}" for one in found)


def _missing(item: Result) -> str:
    """What passes in the run that this one is compared with, and is skipped or not made in this one."""
    missing = ", ".join(f"`{one}`" for one in item.get("missing", ()))
    return f"not checked: {missing}" if missing else ""


def _outside(item: Result) -> str:
    return f"outside the band: {', '.join(phase for phase, is_within in item['within'].items() if not is_within)}"


def _gib(size: float | None) -> str:
    return "-" if size is None else f"{size / _GIB:.2f}"


def _band(band: dict[str, float]) -> str:
    return " / ".join(_gib(band[name]) for name in ("least", "likely", "most"))


def _last_line(text: str | None) -> str:
    """The last line of an output, such as the exception of a traceback, as one cell of a table."""
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    return lines[-1][:300].replace("|", "\\|") if lines else ""


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main())
