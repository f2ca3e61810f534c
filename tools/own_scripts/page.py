"""``docs/own-scripts.md``: what happened to each script, made of ``tools/own_scripts/results.json``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.own_scripts import results

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent.parent / "docs" / "own-scripts.md"
_WIDTH = 12  # of a commit

HEAD = """\
# Public scripts

`ds-lint smoke -- COMMAND` was run with training scripts that other people wrote, as they are: examples that ship with
the libraries, and files of public repositories. Models, tokenizers and data are small and made for the run, and each
command trains on two CPU ranks, or four where it splits tensors too. `python -m tools.own_scripts` runs them again and
writes this page.

The libraries were {versions}.

The seconds are of processor time: of the command alone up to the fifth optimizer step, and of `ds-lint smoke`, which
starts it twice (five steps with a checkpoint after the third, then two steps that resume from it), and loads what is
saved.

| script | launcher | stack | engines | result | passed | failed | skipped | alone | ds-lint smoke |
|---|---|---|--:|---|--:|--:|--:|--:|--:|
"""


def write() -> None:
    """Write the page."""
    PAGE.write_text(text(results.read()), encoding="utf-8", newline="\n")


def text(content: dict[str, Any]) -> str:
    """The page."""
    versions = [f"{name} {release}" for name, release in content["versions"].items()]
    head = HEAD.format(versions=f"{', '.join(versions[:-1])} and {versions[-1]}")
    scripts = content["scripts"]
    return head + "".join(map(_row, scripts)) + "".join("".join(_section(one)) for one in scripts)


def _row(one: dict[str, Any]) -> str:
    counts = {status: sum(engine["checks"].get(status, 0) for engine in one["engines"]) for status in ("pass", "skip")}
    failed = sum(engine["checks"].get(status, 0) for engine in one["engines"] for status in ("fail", "warn"))
    return (
        f"| [{one['name']}](#{one['name']}) | {one['launcher']} | {one['stack']} | {len(one['engines'])} "
        f"| {one['result']} | {counts['pass']} | {failed} | {counts['skip']} "
        f"| {one['alone']['processor_seconds']:g} s | {one['with_ds_lint']['processor_seconds']:g} s |\n"
    )


def _section(one: dict[str, Any]) -> Iterator[str]:
    """The command of a script, its engines, and every check that did not pass."""
    source = one["source"]
    version = source["version"][:_WIDTH]
    yield f"\n## {one['name']}\n\n`{one['script']}` of {source['name']} {version}"
    yield f", with {one['older']}.\n" if one["older"] else ".\n"
    yield f"\n```text\n{_folded(one['command'])}\n```\n"
    if one["error"]:
        yield f"\nThe run is not complete: {_escaped(one['error'])}\n"
    if one["alone"]["status"]:
        yield f"\nThe command fails without ds-lint too, with status {one['alone']['status']}.\n"
    for engine in one["engines"]:
        optimizer = f"`{engine['optimizer']}`" if engine["optimizer"] else "no optimizer"
        yield (
            f"\nEngine {engine['number']}: `{engine['model']}`, {engine['parameters']:,} parameters, {optimizer}: "
            f"{engine['result']}.\n"
        )
        if engine["notable"]:
            yield "\n"
        for check in engine["notable"]:
            yield f"* {check['status']} `{check['id']}`: {_escaped(check['message'])}\n"
    if one["findings"]:
        yield "\nFindings:\n\n"
        yield from (f"* {finding['code']}: {_escaped(finding['message'])}\n" for finding in one["findings"])
    if one["left"]:
        yield f"\nIt leaves in the folder that it runs in: {', '.join(f'`{name}`' for name in one['left'])}.\n"


def _folded(command: str, width: int = 110) -> str:
    """A command over several lines, as a shell reads it."""
    lines = [""]
    for word in command.split():
        if len(lines[-1]) + len(word) + 1 > width:
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def _escaped(message: str) -> str:
    return message.replace("<", "&lt;").replace("\n", " ")
