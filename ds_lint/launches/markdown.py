"""The launches that a guide shows: in fenced blocks of Markdown, and in code blocks of reStructuredText."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.markdown_blocks import read_markdown
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OF_SHELL = frozenset({"", "bash", "console", "sh", "shell", "shell-session", "slurm", "text", "zsh"})
_PROMPT = re.compile(r"[ \t]*(?:\([\w.-]+\)[ \t]*)?[$%][ \t]+(?=\S)")
_DIRECTIVE = re.compile(r"^([ \t]*)\.\.[ \t]+(?:code-block|code|sourcecode|prompt)::[ \t]*([\w-]*).*$", re.MULTILINE)


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the blocks, each in a shell of its own; those of scripts that they call are in the scripts."""
    blocks = _of_rst(text) if path.endswith(".rst") else _of_markdown(text)
    found = joined([launches_in(_without_prompts(block), path, read).moved(lines, path) for block, lines in blocks])
    return found._replace(launches=[one for one in found.launches if one.path == path], misread=[])


def _of_markdown(text: str) -> Iterator[tuple[str, int]]:
    """The blocks of the shell, with the number of lines before each."""
    for block in read_markdown(text).blocks:
        whole = block.places.text
        if block.info in _OF_SHELL and whole:
            yield whole, text.count("\n", 0, block.places.span(Span(0, len(whole))).start)


def _of_rst(text: str) -> Iterator[tuple[str, int]]:
    for match in _DIRECTIVE.finditer(text):
        if match[2] not in _OF_SHELL:
            continue
        lines = text[match.end() + 1 :].split("\n")
        end = next((at for at, line in enumerate(lines) if line.strip() and not _is_deeper(line, match[1])), len(lines))
        kept = ["" if re.match(r"[ \t]*:[\w-]+:", line) else line for line in lines[:end]]
        indent = min((len(line) - len(line.lstrip()) for line in kept if line.strip()), default=0)
        yield "\n".join(line[indent:] for line in kept), text.count("\n", 0, match.end()) + 1


def _is_deeper(line: str, indent: str) -> bool:
    return len(line) - len(line.lstrip()) > len(indent)


def _without_prompts(block: str) -> str:
    """The commands of a session without the prompts before them and without what they print."""
    lines = block.split("\n")
    if not any(map(_PROMPT.match, lines)):
        return block
    goes_on, kept = False, list[str]()
    for line in lines:
        prompt = _PROMPT.match(line)
        command = line[prompt.end() :] if prompt is not None else re.sub(r"^[ \t]*>[ \t]", "", line) if goes_on else ""
        kept.append(command)
        goes_on = command.endswith("\\")
    return "\n".join(kept)
