"""The page with the results of the benchmarks, each with what it measures, when, where and how to repeat it."""

from __future__ import annotations

import ast
import json
from typing import TYPE_CHECKING

from tools.bench import BENCHES, RESULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

INTRODUCTION = """\
# Benchmarks

Seconds depend on the machine, and even on the day; what compares is the ratio to something that ran beside it, in
turns. Nothing here is asserted by a test. In a checkout, on a machine that does nothing else, each section's command
repeats its figures, and `python -m tools.bench` those of all.
"""


def page() -> str:
    """Every benchmark that was run for the documentation."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return "\n".join(
        [INTRODUCTION, *(line for name in BENCHES if name in results for line in _result(name, results[name]))]
    )


def _result(name: str, result: dict[str, str]) -> Iterator[str]:
    documentation = ast.get_docstring(ast.parse((RESULTS.parent / f"{name}.py").read_text(encoding="utf-8"))) or ""
    title, command, *prose = documentation.replace("``", "`").split("\n\n")
    yield f"## {BENCHES[name]}\n"
    yield f"{title}\n"
    yield from (f"{paragraph}\n" for paragraph in prose)
    yield "\n".join(["```text", *result["printed"], "```\n"])
    yield f"Measured on {result['day']}: {result['machine']}. To repeat it:\n"
    yield f"```sh\n{command.strip()}\n```\n"
