"""The pages of the advisories, the table of all, and the export in OSV's form."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ds_lint.knowledge.advisories import advisories, code_of
from ds_lint.knowledge.advisory_words import affected, title
from ds_lint.linter.selection import find
from ds_lint.output.osv import as_object
from ds_lint.rule_pages.advisories import page
from tools.site import front_matter, rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.records import AdvisoryRecord

INDEX = "advisories/index.md"
_KINDS = {
    "silent": "Silent: the run goes on, and its result is wrong",
    "late-crash": "Late: the run stops after hours, at a save, or when it resumes",
    "hang": "Hangs",
    "crash": "At the start",
    "cost": "Costs",
}  # the worst first


def every_page() -> Iterator[tuple[str, str]]:
    """Every page about advisories, with its text."""
    yield INDEX, _index()
    for record in advisories().values():
        yield path(record), _page(record)


def every_export() -> Iterator[tuple[str, str]]:
    """Every advisory as a file in OSV's form, and one of all."""
    for record in advisories().values():
        yield f"advisories/{record['id']}.json", json.dumps(as_object(record), indent=2) + "\n"
    every = [as_object(record) for record in advisories().values()]
    yield "advisories/all.json", json.dumps(every, indent=2) + "\n"


def navigation() -> list[dict[str, str]]:
    """The pages in the order of their ids."""
    return [{record["id"]: path(record)} for record in advisories().values()]


def path(record: AdvisoryRecord) -> str:
    """The page of an advisory, as a file of the site; ``page_url`` of findings leads there."""
    return f"advisories/{record['id']}.md"


def _page(record: AdvisoryRecord) -> str:
    rule = find(code_of(record))
    assert rule is not None  # noqa: S101 - a test of the store looks for it
    link = f"[{rule.code} {rule.name}](../{rules.path(rule)})"
    text = page(record).replace(f"| reported as | {rule.code},", f"| reported as | {link},")
    about = front_matter.shortened(front_matter.plain(f"{title(record)}: {affected(record)}. {record['id']}"))
    return front_matter.joined({"description": about}, text)


def _index() -> str:
    known = advisories().values()
    run = sum(record["proof"]["kind"] == "run" for record in known)
    text = [
        "---\nhide: [toc]\n---\n",
        "# Advisories\n",
        f"{len(known)} known defects of releases that training with DeepSpeed reaches. {run} were shown in runs, the",
        "others read in the sources of a release with the defect and of one without it. `ds-lint check` reports one",
        "only if the release is known and the config certainly reaches it; `ds-lint advisories PATH` also lists those",
        "that it may reach. [All of them in OSV's form](all.json).",
    ]
    for kind, about in _KINDS.items():
        text += [f"\n## {about}\n", "| advisory | releases | proof |", "|---|---|---|"]
        for record in known:
            if record["kind"] == kind:
                name = path(record).removeprefix("advisories/")
                text.append(f"| [{title(record)}]({name}) | {affected(record)} | {record['proof']['kind']} |")
    return "\n".join(text) + "\n"
