"""Where a file of the repository is on the site, and what that makes of the links between such files."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from ds_lint.rule_pages import pages

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCES = "https://github.com/ds-lint/ds-lint/blob/main/"  # of what is not on the site

_ELSEWHERE = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "rules": "rules/index.md",
    "tools/bench/results.json": "benchmarks.md",
}
_TRANSLATED = re.compile(r"rules/(\w+)/(README|[^/]+)\.md")
_LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")


def place(path: str) -> str | None:
    """The page or file of the site that a file of the repository is; None where it is not on the site."""
    folder, _, below = path.partition("/")
    if folder == "docs":
        return below
    if translated := _TRANSLATED.fullmatch(path):
        language, name = translated.groups()
        return f"{language}/index.md" if name == "README" else f"{language}/rules/{name}.md"
    if folder in ("rules", "schemas") and path.endswith((".md", ".schema.json")) and path != "schemas/README.md":
        return path
    return _ELSEWHERE.get(path)


def between(page: str, other: str) -> str:
    """What leads from one page of the site to another."""
    return posixpath.relpath(other, posixpath.dirname(page) or ".")


def relinked(text: str, source: str, page: str) -> str:
    """The text of a Markdown file of the repository with its links as the page of the site needs them."""

    def link(found: re.Match[str]) -> str:
        path, anchor = found[1], found[2] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = place(target)
        address = SOURCES + target if on_site is None else between(page, on_site)
        return f"]({address}{anchor})"

    return "".join(part if is_code else _LINK.sub(link, part) for part, is_code in _parts(text))


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it is that of a fenced block."""
    end = 0
    for block in pages.blocks(text):
        yield text[end : block.span.start], False
        yield block.text, True
        end = block.span.end
    yield text[end:], False
