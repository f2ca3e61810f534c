"""Hold ``ds-lint memory`` against what people have published about the memory of their runs.

python -m tools.published            compare docs/memory-published.md with what is said now; status 1 if it differs
python -m tools.published --write    write it
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.published.comparison import FAR, Comparison, compare
from tools.published.runs import runs

PAGE = Path(__file__).parents[2] / "docs" / "memory-published.md"
_GIB = 2**30


def page() -> str:
    """The whole page."""
    found = [compare(run) for run in runs()]
    trained = [one for one in found if not one.run.fails]
    inside = sum(one.is_inside and not one.run.is_lower_bound for one in found)
    open_above = sum(one.is_inside and one.run.is_lower_bound for one in found)
    near = sum(one.is_near for one in trained)
    return f"""\
# Memory, as published

What people have published about the memory of their runs, beside what `ds-lint memory` says of them.
`python -m tools.published --write` writes this page from `tools/published/measurements.toml`, which has the config or
the command, the source, and the figure as it is printed there.

{inside} of {len(found)} figures are within the band, and {near} of {len(trained)} within {FAR:.0%} of the likely one.
{open_above} more are above the least, which is all that can be compared: their source does not say the length of the
sequences, so the band is that of the other parts.
All figures are GiB, of one GPU or of one host. "tensors" is `torch.cuda.max_memory_allocated`, "process" is what the
driver shows or a figure whose origin the source does not say, which includes what torch keeps and could give back.
{_tables(found)}
## What is outside

{_outside(found)}
"""


def _tables(found: list[Comparison]) -> str:
    """A table for each source."""
    text, source = [], ""
    for one in found:
        if one.run.source != source:
            source = one.run.source
            text.append(f"\n## [{source}]({one.run.url})\n")
            text.append("| run | what | measured | least | likely | most | off |")
            text.append("|---|---|--:|--:|--:|--:|--:|")
        text.append(_row(one))
    return "\n".join(text) + "\n"


def _row(one: Comparison) -> str:
    bounds = " | ".join(_gib(size) for size in one.band)
    measured = f"out of memory at {_gib(one.run.measured)}" if one.run.fails else _gib(one.run.measured)
    off = "" if one.run.fails else f"{one.off:+.0%}"
    return f"| {one.run.name} | {one.run.fields['measure']} | {measured} | {bounds} | {off} |"


def _outside(found: list[Comparison]) -> str:
    rows = [f"* {one.run.source}, {one.run.name}: {one.run.fields['why']}" for one in found if not one.is_inside]
    return "\n".join(rows) or "Nothing."


def _gib(size: float) -> str:
    return f"{size / _GIB:,.0f}" if size >= 100 * _GIB else f"{size / _GIB:.1f}"


def main() -> int:
    """Compare or write the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.published", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="write docs/memory-published.md")
    wanted = page()
    if parser.parse_args().write:
        PAGE.write_text(wanted, encoding="utf-8")
        return 0
    if PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    sys.stderr.write("docs/memory-published.md is not what is said now; python -m tools.published --write\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
