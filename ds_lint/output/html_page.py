"""The template of all HTML pages of ds-lint: a page that opens without a network and runs no script.

Every text that may come from a config is escaped, and a content security policy forbids the browser to run a script or
to fetch what is not in the page. ``html_page.css`` has the colours, the fonts and the parts that pages share; a page
adds a style sheet of its own for what only it has.
"""

from __future__ import annotations

import os
from html import escape
from typing import NamedTuple

from ds_lint.output.harmless import without_secrets
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.source.document import Document

LONG_WORD = 20  # characters, beyond which a word of a key path is broken
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


class MadeBy(NamedTuple):
    """What made a page, as its foot says: the version of ds-lint, and the command line."""

    version: str
    command: str


class Page(NamedTuple):
    """What is on a page. The title and the checked are text, the body and the style sheet of its own are markup."""

    title: str
    checked: Iterable[tuple[str, str]]  # what the page is about: names and values, below the title
    body: str
    style: str


class Column(NamedTuple):
    """A column of a table: its heading and the class of its cells."""

    heading: str
    style: str = ""


def whole(page: Page, made_by: MadeBy, documents: Sequence[Document] = ()) -> str:
    """The markup of a page, with the secrets of these documents masked."""
    body = (
        f"<header><h1>{text(page.title)}</h1>{listed(page.checked)}</header>\n{page.body}\n"
        f"<footer><p>ds-lint {text(made_by.version)}</p><p><code>{text(made_by.command)}</code></p></footer>"
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{without_secrets(text(page.title), documents)}</title>
<style>{sheet(os.path.join(os.path.dirname(__file__), "html_page.css"))}{page.style}</style>
</head>
<body>
{without_secrets(body, documents)}
</body>
</html>
"""


def sheet(path: str) -> str:
    """A style sheet of the package."""
    with open(path, encoding="utf-8") as file:
        return file.read()


def text(content: str) -> str:
    """What is written, escaped for markup."""
    return escape(visible(content))


def prose(content: str) -> str:
    """A sentence of a message, in which words between backticks are code."""
    words = content.split("`")
    if len(words) % 2 == 0:  # a lone backtick is one
        return text(content)
    return "".join(f"<code>{text(word)}</code>" if index % 2 else text(word) for index, word in enumerate(words))


def paragraphs(content: str) -> str:
    """The lines of a text, each escaped."""
    return "\n".join(prose(line) for line in content.strip().split("\n"))


def code(content: str | None) -> str:
    """A key path or a value. It may break after a dot, and in a long word after an underscore."""
    words = [word.replace("_", "_<wbr>") if len(word) > LONG_WORD else word for word in text(content or "").split(".")]
    return f"<code>{'.<wbr>'.join(words)}</code>" if content else ""


def badge(kind: str, sign: str, words: str) -> str:
    """A sign, a word and a colour; each of them is readable without the others."""
    return f'<span class="badge {kind}"><span aria-hidden="true">{sign}</span> {text(words)}</span>'


def listed(entries: Iterable[tuple[str, str]]) -> str:
    """Names and what they are, both text."""
    found = "".join(f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd></div>" for name, value in entries)
    return f"<dl>{found}</dl>" if found else ""


def table(caption: str, columns: list[Column], rows: list[list[str]], *, is_narrow: bool = False) -> str:
    """Cells are markup. On a narrow screen each row becomes a list, so cells carry their heading and every role.

    A narrow table stays one.
    """
    used = [index for index in range(len(columns)) if index == 0 or any(row[index] for row in rows)]
    head = "".join(_heading(columns[index]) for index in used)
    body = "".join(
        f'<tr role="row">{"".join(_cell(columns[index], row[index], first=index == 0) for index in used)}</tr>'
        for row in rows
    )
    return (
        f'<table role="table" class="{"narrow" if is_narrow else "stacks"}"><caption>{text(caption)}</caption>'
        f'<thead role="rowgroup"><tr role="row">{head}</tr></thead><tbody role="rowgroup">{body}</tbody></table>'
    )


def _heading(column: Column) -> str:
    style = f' class="{column.style}"' if column.style else ""
    return f'<th scope="col" role="columnheader"{style}>{text(column.heading)}</th>'


def _cell(column: Column, content: str, *, first: bool) -> str:
    style = f' class="{column.style}"' if column.style else ""
    label = f' data-label="{text(column.heading)}"'
    if first:
        return f'<th scope="row" role="rowheader"{style}>{content}</th>'
    return f'<td role="cell"{style}{label}><div>{content}</div></td>' if content else '<td role="cell"></td>'
