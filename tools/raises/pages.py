"""The pages of the site about what raises: a head with counts, and a page for each library."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.linter.engine import every_rule
from tools.raises.table import LIBRARIES, REASONS, Row, modules, releases, rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WIDTH = 240  # characters of a condition, of a message
TITLES = {"deepspeed": "DeepSpeed", "transformers": "transformers", "accelerate": "Accelerate"}


def pages() -> dict[str, str]:
    """The text of every page by its name in ``docs/raises/``."""
    return {"index.md": _index()} | {f"{library}.md": _library(library) for library in LIBRARIES}


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")


def share(found: list[Row]) -> float:
    """The part of the rows that a rule claims or a reason explains."""
    return sum(row.is_accounted_for for row in found) / len(found)


def _index() -> str:
    named = ", ".join(f"{TITLES[library]} {releases()[library]}" for library in LIBRARIES)
    counts = "\n".join(_counts(library) for library in LIBRARIES)
    reasons = "\n".join(f"| {word} | {meaning} |" for word, meaning in REASONS.items())
    left_out = "\n".join(f"| {patterns} | {because} |" for because, patterns in _left_out())
    return f"""\
# What raises

Every `raise` and `assert` of the modules through which a config, training arguments or the number of ranks can stop a
run, in {named}. For each site, the tables name the rule that
reports it before the run, or the reason why no rule can.

| library | modules | sites | reported by a rule | explained | open | accounted for |
| --- | --: | --: | --: | --: | --: | --: |
{counts}

If a rule has an example, a test runs the example with the real library. It checks that the exception comes from that
site, and that the finding of ds-lint has the rule and the stage. `open` are sites that a config reaches and no rule
reports yet.

`python -m tools.raises` compares the table with the installed libraries, and `python -m tools.raises deepspeed 0.19.9`
with another release. A test fails if a release has a site that is not in the table.

## Reasons

| word | meaning |
| --- | --- |
{reasons}

## Modules that are left out

| modules | because |
| --- | --- |
{left_out}
"""


def _counts(library: str) -> str:
    found = rows(library)
    claimed, explained = sum(bool(row.rules) for row in found), sum(row.reason is not None for row in found)
    numbers = (len(modules().of(library)), len(found), claimed, explained, len(found) - claimed - explained)
    cells = " | ".join(map(str, numbers))
    return f"| [{TITLES[library]}]({library}.md) | {cells} | {share(found):.1%} |"


def _left_out() -> Iterator[tuple[str, str]]:
    """Each reason, with the patterns of the modules that it holds for."""
    by_reason: dict[str, list[str]] = {}
    for pattern, because in modules().left_out.items():
        by_reason.setdefault(because, []).append(f"`{pattern}`")
    for because, patterns in by_reason.items():
        yield because, ", ".join(patterns)


def _library(library: str) -> str:
    name = f"{TITLES[library]} {releases()[library]}"
    about = (
        f"What {name} raises because of a config, training arguments or the number of ranks, and the rule\n"
        "that reports it before the run. [What the words mean](index.md#reasons)."
    )
    parts = [f"# {name}\n\n{about}\n"]
    by_module: dict[str, list[Row]] = {}
    for row in rows(library):
        by_module.setdefault(row.module, []).append(row)
    for module, found in by_module.items():
        lines = "\n".join(f"| {_place(row)} | {_condition(row)} | {_message(row)} | {_account(row)} |" for row in found)
        parts.append(
            f"\n## {module.removeprefix(f'{library}/')}\n\n| in | when | says | reported by, or why not |\n"
            f"| --- | --- | --- | --- |\n{lines}\n"
        )
    return "".join(parts)


def _place(row: Row) -> str:
    function = row.site[1]
    return f"`{function}`" if function else "the module"


def _condition(row: Row) -> str:
    when = row.site[2]
    return _code(" and ".join(f"({one})" if " or " in one and len(when) > 1 else one for one in when)) if when else ""


def _message(row: Row) -> str:
    return _cell(f"{row.site[3]}: {_plain(row.site[4])}" if row.site[4] else row.site[3])


def _account(row: Row) -> str:
    parts = [", ".join(_link(code) for code in row.rules)] if row.rules else []
    if row.open is not None:
        parts.append(f"**open**: {row.open}")
    if row.because is not None:
        parts.append(f"{row.reason}: {row.because}" if row.reason else row.because)
    return _escaped(" ".join(parts))


def _link(code: str) -> str:
    rule = next(rule for rule in every_rule() if rule.code == code)
    return f"[{code}](../../rules/{rule.code}-{rule.name}.md)"


def _plain(source: str) -> str:
    """A message as it reads, with "..." for what is put in at run time."""
    try:
        expression = ast.parse(source, mode="eval").body
    except SyntaxError:
        return source
    return " ".join(_text(expression).split())


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)):
        return _text(node.left) + (_text(node.right) if isinstance(node.op, ast.Add) else "")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _text(node.func.value)
    return "..."


def _code(text: str) -> str:
    return f"`{_cell(text.replace('`', ''), escape=False)}`"


def _cell(text: str, *, escape: bool = True) -> str:
    text = " ".join(text.split())
    text = text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
    return _escaped(_without_markup(text)) if escape else _escaped(text)


def _without_markup(text: str) -> str:
    for mark in "\\<>*_[]`":
        text = text.replace(mark, f"\\{mark}" if mark not in "<>" else {"<": "&lt;", ">": "&gt;"}[mark])
    return text


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
