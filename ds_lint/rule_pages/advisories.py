"""The page of an advisory, which is made of its record: what ``explain`` prints, and what the site shows."""

from __future__ import annotations

from ds_lint.diagnostics.finding import LOADERS
from ds_lint.knowledge.advisories import code_of
from ds_lint.knowledge.advisory_words import affected, title, ways

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.records import AdvisoryProof, AdvisoryRecord

_KINDS = {
    "silent": "nothing is printed: the run goes on, and what it trains or saves is wrong",
    "late-crash": "the run stops later: after hours of training, at a save or when it resumes",
    "crash": "the run stops at its start",
    "hang": "ranks wait for each other and never go on",
    "cost": "the run works, and takes more time or memory than it should",
}
_CLAIM = "python -m tools.releases_of tests/advisories/claims/{}.py"


def page(record: AdvisoryRecord) -> str:
    """The page as Markdown."""
    return "\n".join(_lines(record)) + "\n"


def _lines(record: AdvisoryRecord) -> Iterator[str]:
    yield f"# {record['id']}: {title(record)}"
    yield ""
    yield record["description"]
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| affected | {affected(record)} |"
    if "stacks" in record:
        yield f"| loaded by | {', '.join(LOADERS[stack] for stack in record['stacks'])} |"
    yield f"| reported as | {code_of(record)}, {record['severity']}, {record['effect']} |"
    yield f"| what one sees | {_KINDS[record['kind']]} |"
    yield f"| dated | {record['dated']} |"
    yield ""
    yield "## What to do"
    yield ""
    yield ways(record) or "There is no release without the defect yet, and no way around it is known."
    yield ""
    yield "## When a config reaches it"
    yield ""
    yield "```text"
    yield record["when"]
    yield "```"
    yield ""
    yield "## How to see it"
    yield ""
    yield from _proof(record["proof"])
    if record["references"]:
        yield ""
        yield "## References"
        yield ""
        yield from (f"- <{one}>" for one in record["references"])


def _proof(proof: AdvisoryProof) -> Iterator[str]:
    if proof["kind"] == "source":
        yield f"Read in the sources, not run. Affected: {proof['affected']}"
        yield ""
        yield f"Not affected: {proof['unaffected']}"
        return
    yield "Measured on CPU ranks. In a checkout of ds-lint:"
    yield ""
    yield "```console"
    yield f"$ {command_of(proof)}"
    yield "```"
    yield ""
    yield f"A release without the defect gives `{proof['right']}`."
    yield ""
    yield f"| {proof.get('library', 'deepspeed')} | result |"
    yield "|---|---|"
    for release, outcome in proof["measured"].items():
        yield f"| {release} | `{outcome.replace('|', '/')}` |"


def command_of(proof: AdvisoryProof) -> str:
    """The command that asks the releases again, for a shell."""
    from shlex import join

    words = ["--releases", *proof["measured"]]
    if (library := proof.get("library", "deepspeed")) != "deepspeed":
        words += ["--library", library]
    for name, release in proof.get("needs", {}).items():
        words += ["--with", f"{name}=={release}"]
    if proof.get("ranks", 1) > 1:
        words += ["--ranks", str(proof["ranks"])]
    words += ["--", *proof["arguments"]] if proof["arguments"] else []
    return f"{_CLAIM.format(proof['claim'])} {join(words)}"
