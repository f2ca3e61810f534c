"""The launches in the ``run`` steps of a GitHub workflow."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.shell.unknowns import StandIns
from ds_lint.source.yaml import documents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.source.tree import Node

_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_MOST_BYTES = 200_000


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the steps; what ``${{ ... }}`` gives is not known."""
    if "run:" not in text or len(text) > _MOST_BYTES:
        return joined([])
    found = []
    for document in documents(text):
        for step, variables in _steps(document):
            run = step.get("run")
            if run is None or not isinstance(run.value, str):
                continue
            stand_ins = StandIns()
            script = _EXPRESSION.sub(lambda match: stand_ins.add(match[1]), run.value)  # noqa: B023 - called at once
            is_block = text[run.span.start : run.span.start + 1] in ("|", ">")
            lines = text.count("\n", 0, run.span.start) + (1 if is_block else 0)
            found.append(launches_in(script, path, read, variables=variables, stand_ins=stand_ins).moved(lines, path))
    return joined(found)


def _steps(root: Node) -> Iterator[tuple[Node, dict[str, str | None]]]:
    """Each step with the variables of its environment."""
    jobs = root.get("jobs") if root.kind == "object" else None
    for job in jobs.members if jobs is not None and jobs.kind == "object" else ():
        steps = job.value.get("steps") if job.value.kind == "object" else None
        for step in steps.items if steps is not None and steps.kind == "array" else ():
            if step.kind == "object":
                yield step, {**_environment(root), **_environment(job.value), **_environment(step)}


def _environment(node: Node) -> dict[str, str | None]:
    section = node.get("env")
    if section is None or section.kind != "object":
        return {}
    values = {member.key: member.value.value for member in section.members}
    return {
        name: str(value) if isinstance(value, (str, int)) and "${{" not in str(value) else None
        for name, value in values.items()
    }
